import json
import os
import pickle
import signal
from contextlib import ExitStack
from io import StringIO
from typing import Literal

import click
import pytest
from rich.console import Console

from assay.cli import main
from assay.cli.errors import CliError, Interrupted
from assay.cli.main import assay as root
from assay.cli.main import run
from chain.client.errors import ChainTimeout, TxRefused
from consumer.errors import StillWaiting
from domain.errors import NOT_FOUND, Code, Exit, Expected, Refusal
from link.errors import ClusterError, ClusterErrorKind
from pol.errors import JobError, StepFailed


def command(error: BaseException) -> click.Command:
    def fail(output: str) -> None:
        raise error

    return click.Command("fail", callback=fail, params=[click.Option(["--output"])])


def test_a_bug_shows_itself() -> None:
    with pytest.raises(ZeroDivisionError):
        run(command(ZeroDivisionError("division by zero")), [])


def error_object(text: str) -> dict[str, object]:
    (line,) = text.strip().splitlines()
    found: dict[str, dict[str, object]] = json.loads(line)
    assert set(found) == {"error"}
    return found["error"]


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (StillWaiting("it is open", "look again", field="order"), "still_waiting", 3),
        (Refusal(NOT_FOUND, "order", "it is open", "look again"), "not_found", 1),
        (ClusterError(ClusterErrorKind.BUSY, "it is open", "look again", field="order"), "busy", 1),
        (CliError("it is open", "look again", field="order"), "cli", 1),
    ],
)
def test_errors_as_json(capsys: pytest.CaptureFixture[str], error: Expected, kind: str, code: int) -> None:
    assert run(command(error), ["--output", "json"]) == code
    assert error_object(capsys.readouterr().err) == {
        "kind": kind,
        "field": "order",
        "reason": "it is open",
        "remedy": "look again",
        "exit_code": code,
    }


def test_what_is_no_error_of_ours_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    json_ = ["--output=json"]
    assert run(command(PermissionError(13, "Permission denied", "/x")), json_) == Exit.REFUSED
    told = error_object(capsys.readouterr().err)
    assert (told["kind"], told["field"]) == ("system_failed", "/x")
    assert run(command(KeyboardInterrupt()), json_) == Exit.REFUSED
    assert error_object(capsys.readouterr().err)["kind"] == "interrupted"
    torch = ModuleNotFoundError("No module named 'torch'", name="torch._C")
    assert run(command(torch), json_) == Exit.REFUSED
    assert "assay[train]" in str(error_object(capsys.readouterr().err)["remedy"])


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["localnet", "start", "--validators", "0"], "--validators"),
        (["keys", "list", "--nope"], ""),
        (["keys", "add"], "NAME"),
    ],
)
def test_wrong_usage_as_json(capsys: pytest.CaptureFixture[str], words: list[str], field: str) -> None:
    assert run(root, [*words, "--output", "json"]) == Exit.USAGE
    told = error_object(capsys.readouterr().err)
    assert (told["kind"], told["field"], told["exit_code"]) == ("wrong_usage", field, 2)
    assert told["reason"]
    assert str(told["remedy"]).endswith("--help")


def test_an_error_is_red_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_terminal in (True, False):
        screen = StringIO()
        system: Literal["standard", "auto"] = "standard" if is_terminal else "auto"
        no_color = not is_terminal
        console = Console(file=screen, force_terminal=is_terminal, color_system=system, no_color=no_color)
        monkeypatch.setattr(main, "stderr", console)
        run(command(CliError("it is open")), [])
        told = "\x1b[1;31merror:\x1b[0m it is open\n" if is_terminal else "error: it is open\n"
        assert screen.getvalue() == told


def test_what_was_said_of_the_first_ctrl_c_outlives_the_second(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As where a connection is closed meanwhile."""

    def interrupted(output: str) -> None:
        with ExitStack() as closing:
            closing.callback(os.kill, os.getpid(), signal.SIGINT)
            raise Interrupted("order 1a2b is sent", "assay order watch 1a2b")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        asked = click.Command("c", callback=interrupted, params=[click.Option(["--output"])])
        assert run(asked, []) == Exit.REFUSED
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.endswith("error: order 1a2b is sent; assay order watch 1a2b\n")


def test_what_still_waits_has_a_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command(StillWaiting("the order is still open")), []) == Exit.TIMED_OUT
    assert run(command(ChainTimeout("no answer", "")), []) == Exit.TIMED_OUT
    assert capsys.readouterr().err.startswith("error: the order is still open\n")


def test_what_the_system_refuses_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    missing = FileNotFoundError(2, "No such file or directory", "/x/y")
    assert run(command(missing), []) == Exit.REFUSED
    assert capsys.readouterr().err.startswith("error: /x/y: No such file or directory; ")


@pytest.mark.parametrize(
    "error",
    [
        Expected("it is full", "empty it", field="disk"),
        Refusal(NOT_FOUND, "order_id", "there is none", "look again"),
        ClusterError(ClusterErrorKind.BUSY, "too many calls", "wait"),
        JobError("step", "too large", "make it smaller"),
        StepFailed(3, "node 7", "no result"),
        TxRefused(Code("sdk", 5, "insufficient_funds"), "no coins", b"h", 9),
    ],
)
def test_an_error_survives_the_way_between_processes(error: Expected) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_the_text_names_field_reason_and_remedy() -> None:
    assert str(Expected("it is full", "empty it", field="disk")) == "disk: it is full; empty it"
    assert str(Expected("it is full")) == "it is full"
