"""A segment that a panel found wrong is recomputed in a process of its own, from the states before it."""

from dataclasses import replace
from pathlib import Path

import pytest

from compute_provider.work.trainer import recompute_segment
from pol.work.records import Boundary
from tests.unit.compute_provider.work.training import SEGMENTS, Listener, order


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Boundary, ...]]:
    folder = tmp_path_factory.mktemp("trained")
    listener = Listener(folder)
    listener.run(order(folder))
    listener.trainer.close()
    return folder, listener.boundaries()


@pytest.mark.parametrize("segment", [0, 2, SEGMENTS - 1])
def test_a_right_segment_has_its_result_again(
    tmp_path: Path, trained: tuple[Path, tuple[Boundary, ...]], segment: int
) -> None:
    folder, known = trained
    home = tmp_path / "recheck"
    assert recompute_segment(order(folder, boundaries=known), segment, home) == known[segment + 1]
    assert not home.exists()


def test_a_wrong_segment_has_another_one(tmp_path: Path, trained: tuple[Path, tuple[Boundary, ...]]) -> None:
    folder, known = trained
    wrong = replace(known[2], global_root=bytes(32))
    found = recompute_segment(order(folder, boundaries=(*known[:2], wrong, *known[3:])), 1, tmp_path / "recheck")
    assert found == known[2] != wrong


def test_a_job_that_is_gone_gives_no_result(tmp_path: Path, trained: tuple[Path, tuple[Boundary, ...]]) -> None:
    folder, known = trained
    gone = order(folder, boundaries=known, job=str(tmp_path / "gone"))
    assert recompute_segment(gone, 1, tmp_path / "recheck") is None
