"""How tests are divided over processes: a file stays together, and so does a folder whose tests start networks."""

from pathlib import Path

import pytest

from tests.conftest import NETWORKS, group_of

TESTS = Path(__file__).parents[1]


def test_files_have_groups_of_their_own_and_networks_of_a_folder_share_one() -> None:
    networks = {path: name for name in NETWORKS for path in (TESTS / name).rglob("test_*.py")}
    assert set(networks.values()) == set(NETWORKS)
    for path in TESTS.rglob("test_*.py"):
        assert group_of(path) == networks.get(path, path.relative_to(TESTS).as_posix())


def test_every_test_has_one_group_and_xdist_sees_it(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        (mark,) = item.iter_markers("xdist_group")
        assert mark.args == (group_of(item.path),)
        if request.config.getoption("loadgroup", default=False):
            # How xdist's processes hear of groups: an update of pytest or xdist may break it without a sound.
            assert item.nodeid.endswith(f"@{mark.args[0]}")
