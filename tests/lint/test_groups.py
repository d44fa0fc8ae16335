"""How tests are divided over processes: a file stays together, and all that start networks do."""

from pathlib import Path

import pytest

from tests.conftest import PROCESSES, group_of

TESTS = Path(__file__).parents[1]


def test_files_have_groups_of_their_own_and_networks_share_one() -> None:
    networks = {*(TESTS / "integration").rglob("test_*.py"), *(TESTS / "e2e").rglob("test_*.py")}
    assert networks
    for path in TESTS.rglob("test_*.py"):
        expected = PROCESSES if path in networks else path.relative_to(TESTS).as_posix()
        assert group_of(path) == expected


def test_every_test_has_one_group_and_xdist_sees_it(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        (mark,) = item.iter_markers("xdist_group")
        assert mark.args == (group_of(item.path),)
        if request.config.getoption("loadgroup", default=False):
            # How xdist's processes hear of groups: an update of pytest or xdist may break it without a sound.
            assert item.nodeid.endswith(f"@{mark.args[0]}")
