"""Tutorials are written so that a reader can do all of it; ``make nightly`` does."""

from pathlib import Path

import pytest

from tests.lint.references import ROOT
from tests.support.tutorials import blocks, shown

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def test_each_of_the_three_people_has_one() -> None:
    assert {page.stem for page in PAGES} == {"consumer", "provider", "validator"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_says_in_which_terminal_and_what_comes_of_it(page: Path) -> None:
    text = page.read_text()
    found = list(blocks(text))
    typed = [block for block in found if block.kind == "bash"]
    assert len([block for block in found if block.kind != "end"]) == text.count("```") // 2
    assert all(block.terminal for block in typed)
    staying = {block.terminal for block in typed if block.until}
    assert "first terminal" in staying
    # Nothing can be typed where something stays.
    assert not {block.terminal for block in typed if not block.until} & staying
    assert {block.terminal for block in found if block.kind == "end"} <= staying


def test_what_is_shown_stands_for_what_is_printed() -> None:
    line = shown("sent 1,000 ASSAY to assay1… at height …")
    assert line.search("sent 2.5 ASSAY to assay1xyz at height 12")
    assert not line.search("sent 2.5 ASSAY to bob at height 12")
    assert shown("right: 0.9…").search("right: 0.931")
