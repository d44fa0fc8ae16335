"""The result is a function of the job alone: rows of ``python -m tests.same_bits`` on networks of real processes."""

from pathlib import Path

import pytest

from tests.same_bits.machines import JOBS, MachineRow, machine_rows, run_machine_rows
from tests.same_bits.run import run_row
from tests.same_bits.table import IN_MAKE_TEST, ROWS, Row

pytestmark = pytest.mark.timeout(1_200)


@pytest.mark.parametrize("row", [r for r in ROWS if r.name in IN_MAKE_TEST], ids=lambda r: r.name)
def test_one_hash_whoever_trains_and_whatever_goes_wrong(row: Row, tmp_path: Path) -> None:
    outcome = run_row(row, tmp_path, print)
    assert outcome.error == ""
    assert outcome.local_sha256 == outcome.network_sha256 != ""


def test_one_hash_on_several_machines_of_one_owner() -> None:
    """In two stages of two machines, of which one is lost; ``--machines 1,2,3,4`` runs the other rows."""
    row = MachineRow(job="char-gpt", machines=4, stages=2, rows=2, lost=True)
    (outcome,) = run_machine_rows([row], print)
    assert outcome.error == ""
    assert outcome.local_sha256 == outcome.machines_sha256 != ""
    assert outcome.bytes > 0


def test_the_rows_of_machines_have_every_shape() -> None:
    rows = machine_rows([1, 2, 3, 4])
    assert len({row.name for row in rows}) == len(rows)
    for job in JOBS:
        own = {(row.machines, row.stages, row.rows) for row in rows if row.job == job}
        assert own >= {(2, 2, 1), (2, 1, 2), (3, 3, 1), (3, 1, 2), (4, 2, 2), (4, 1, 4)}
        assert any(row.lost for row in rows if row.job == job)
