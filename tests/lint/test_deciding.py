"""What a daemon decides depends on what it is given alone; its imports are forbidden by contract."""

from pathlib import Path

import pytest

from tests.lint.core_bans import BANNED_CALLS, find

ROOT = Path(__file__).parents[2]
FILES = sorted(path for package in ROOT.glob("*/decide") for path in package.rglob("*.py"))
BANS = {*(f"{name}()" for name in BANNED_CALLS), "the order of a set", "asynchronous code"}


def test_both_daemons_are_looked_at() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == {"compute_provider", "validator"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_deciding_breaks_no_ban(path: Path) -> None:
    assert [ban for ban in find(path.read_text()) if ban.what in BANS] == []
