"""The tutorials, done by a reader who types what they say, in an empty home."""

import sys
from pathlib import Path

import pytest

from tests.support.tutorials import Reader

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))

pytestmark = [pytest.mark.network, pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_tutorial_tells_to_do_works(page: Path, tmp_path: Path) -> None:
    with Reader(tmp_path, ROOT, Path(sys.executable).parent) as reader:
        reader.follow(page.read_text())
