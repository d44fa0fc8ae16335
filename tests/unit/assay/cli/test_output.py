"""Numbers and texts as people see them."""

import os
import re
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from assay.cli import output
from assay.cli.output import Output, cut, money, size, stages, table
from tests.unit.assay.support import assay


@pytest.mark.parametrize(
    ("uassay", "text"),
    [
        (0, "0 ASSAY"),
        (1, "0.000001 ASSAY"),
        (-250_000, "-0.25 ASSAY"),
        (1_518_678, "1.5187 ASSAY"),
        (24_420_794_273, "24,420.79 ASSAY"),
        (900_000_000_000, "900,000 ASSAY"),
        (2**63 - 1, "9,223,372,036,854.78 ASSAY"),
    ],
)
def test_money_has_the_digits_that_matter(uassay: int, text: str) -> None:
    assert money(uassay) == text


def test_what_nobody_reads_is_cut() -> None:
    assert cut(f"no key named {'x' * 5000} here") == f"no key named {'x' * 80}… here"
    assert cut("/a/path" * 50) == "/a/path" * 50


@pytest.mark.parametrize("words", [["keys", "add"], ["quote"], ["order", "show"], ["logs"], []])
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_refusal_repeats_all_of_a_long_name(words: list[str], form: str) -> None:
    ran = assay(*words, "x" * 5000, "--output", form, home="/nonexistent/home")
    assert ran.code
    assert len(ran.err) < 1000


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_stage_is_a_line_and_its_seconds_run_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=is_terminal, width=80, soft_wrap=True)
    monkeypatch.setattr(output, "stderr", console)
    with stages(Output("text")) as tell:
        tell("loading")
        tell("tracing [x] of 3")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert [line for line in re.split(r"[\r\n]+", shown) if line in ("loading", "tracing [x] of 3")] == [
        "loading",
        "tracing [x] of 3",
    ]
    assert bool(re.search(r"tracing \[x\] of 3 0:00:0\d", shown)) == is_terminal


def test_a_table_without_rows_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Output("text").result([], [table("Bids", ("bid", "price"), []), table("Keys", ("name",), [("k",)])])
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "Bids: none"
    assert len(told) > 3


def test_what_a_stranger_wrote_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    Output("text").result([], table("Validators", ("moniker",), [("[/red]",), ("[bold]x",)]))
    told = capsys.readouterr().out
    assert "[/red]" in told
    assert "[bold]x" in told


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1536, "1.5 KiB"),
        (70_861_840, "67.6 MiB"),
        (2**33, "8.0 GiB"),
    ],
)
def test_sizes_have_a_unit(value: int, text: str) -> None:
    assert size(value) == text


def test_letters_that_an_encoding_lacks_are_shown_as_question_marks() -> None:
    done = run_assay("order", "show", "z" * 500, PYTHONIOENCODING="ascii")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "zzz? is not the id" in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(tmp_path: Path, closed: str) -> None:
    done = run_assay("keys", "add", "k", "--keyring", "test", home=tmp_path, redirection=closed)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert [path.name for path in tmp_path.rglob("*.json")] == ["k.json"]


def test_nobody_else_may_change_what_a_command_makes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = run_assay("keys", "add", "k", "--keyring", "test", home=home, before="umask 000;")
    assert done.returncode == 0
    made = [home, *home.rglob("*")]
    assert len(made) == 4
    assert not [path for path in made if path.stat().st_mode & 0o002]


def run_assay(
    *arguments: str,
    home: Path = Path("/nonexistent"),
    before: str = "",
    redirection: str = "",
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run ``assay …`` in a shell of its own."""
    words = shlex.join([sys.executable, "-m", "assay.cli", *arguments])
    return subprocess.run(
        ["sh", "-c", f"{before} {words} {redirection}"],
        env=os.environ | {"ASSAY_HOME": str(home)} | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
