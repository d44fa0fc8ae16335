"""Numbers and texts as people see them."""

import re
from io import StringIO

import pytest
from rich.console import Console

from assay.cli import output
from assay.cli.output import Output, cut, money, stages
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
    assert [
        line for line in re.split(r"[\r\n]+", shown) if line in ("loading", "tracing [x] of 3")
    ] == [
        "loading",
        "tracing [x] of 3",
    ]
    assert bool(re.search(r"tracing \[x\] of 3 0:00:0\d", shown)) == is_terminal
