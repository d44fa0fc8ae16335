"""kill -9 of each kind of process in a phase of an order: some cells of ``python -m tests.faults``."""

from pathlib import Path

import pytest

from tests.faults.cells import CELLS, IN_MAKE_TEST, Phase, Process, chosen
from tests.faults.play import play_cells

pytestmark = pytest.mark.timeout(1_800)


@pytest.mark.network
def test_an_order_ends_as_without_a_kill(tmp_path: Path) -> None:
    outcomes = list(play_cells(IN_MAKE_TEST, tmp_path, print))
    assert [outcome.cell for outcome in outcomes] == list(IN_MAKE_TEST)
    for outcome in outcomes:
        assert outcome.problem == "", outcome.cell.name
        assert outcome.ended == outcome.expected == "settled"
        assert outcome.hash_equal
        assert outcome.coins_conserved


def test_the_cells_are_all_processes_in_all_phases_and_are_chosen_by_name() -> None:
    assert len(set(CELLS)) == len(CELLS)
    workers = {cell.phase for cell in CELLS if cell.process is Process.WORKER}
    assert workers == {Phase.TRAINING, Phase.SHARE_DELIVERY}
    for process in set(Process) - {Process.WORKER}:
        assert {cell.phase for cell in CELLS if cell.process is process} == set(Phase)
    assert chosen(["node/matching"])[0].name == "node/matching"
    assert {cell.process for cell in chosen(["panel commits"])} == set(Process) - {Process.WORKER}
    with pytest.raises(ValueError, match="no cell is called watchman"):
        chosen(["watchman"])
