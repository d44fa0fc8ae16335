import ast
import builtins
import pickle
from pathlib import Path

import click
import pytest

from assay.cli.main import run
from chain.client.errors import ChainTimeout, TxRefused
from consumer.errors import StillWaiting
from domain.errors import NOT_FOUND, Code, Exit, Expected, Refusal
from link.errors import ClusterError, Kind
from pol.job.errors import JobError
from pol.work.records import StepFailed

ROOT = Path(__file__).parents[3]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))

NOT_EXPECTED = {
    "BrokenFrame": "ends one connection of the ABCI server",
    "InvariantBroken": "a bug of ours: the node stops",
    "LedgerBroken": "a bug of ours: the node stops",
    "Mismatch": "a bug of ours, found when a converter is compiled",
    "OutOfBounds": "turned into the error of whoever reads",
    "Refused": "a worker says it to its daemon",
    "Stop": "the set-up runs without the packages",
    "Unavailable": "an auditor's answer",
}


def command(error: Exception) -> click.Command:
    def fail() -> None:
        raise error

    return click.Command("fail", callback=fail)


def test_every_error_is_expected_or_has_a_reason_not_to_be() -> None:
    roots = {
        node.name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name) and (base.id == "Exception" or base.id.endswith("Error"))
        if hasattr(builtins, base.id)
    }
    assert roots == {"Expected", *NOT_EXPECTED}


def test_a_bug_shows_itself() -> None:
    with pytest.raises(ZeroDivisionError):
        run(command(ZeroDivisionError("division by zero")), [])


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
        ClusterError(Kind.BUSY, "too many calls", "wait"),
        JobError("step", "too large", "make it smaller"),
        StepFailed("no result", 3, "node 7"),
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
