"""Reference pages say what the code says."""

from collections.abc import Callable, Iterator
from itertools import takewhile

import pytest

from tools.references.pages import FOLDER, PAGES

TABLES = ("commands.md", "configuration.md", "gas.md", "metrics.md", "parameters.md", "reasons.md")


@pytest.mark.parametrize(("name", "make"), PAGES.items(), ids=PAGES)
def test_a_page_is_what_the_code_says(name: str, make: Callable[[], str]) -> None:
    """After a change, python -m tools.references writes them again."""
    assert (FOLDER / name).read_text() == make()


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_without_a_word(name: str) -> None:
    """Every option, parameter and reason has a meaning, every message, event and public name a sentence."""
    lines = (FOLDER / name).read_text().splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith("| ---")]
    assert not [lines[at - 1] for at in heads if not lines[at + 1].startswith("|")], "empty tables"
    tables = [at for at, line in enumerate(lines) if line.endswith("| meaning |")]
    rows = [row for at in tables for row in _rows(lines[at + 2 :])]
    if name.removeprefix("reference/") in TABLES:
        assert rows
        assert not [row for row in rows if row.endswith("|  |")]
    if name in ("reference/messages.md", "reference/events.md"):
        titles = [at for at, line in enumerate(lines) if line.startswith("## ")]
        assert titles
        assert not [lines[at] for at in titles if not lines[at + 2].strip()]


def _rows(lines: list[str]) -> Iterator[str]:
    return takewhile(lambda line: line.startswith("|"), lines)
