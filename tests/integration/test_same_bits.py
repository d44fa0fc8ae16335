"""The result is a function of the job alone: rows of ``python -m tests.same_bits`` on networks of real processes."""

from pathlib import Path

import pytest

from tests.same_bits.run import run_row
from tests.same_bits.table import IN_MAKE_TEST, ROWS, Row

pytestmark = pytest.mark.timeout(1_200)


@pytest.mark.parametrize("row", [r for r in ROWS if r.name in IN_MAKE_TEST], ids=lambda r: r.name)
def test_one_hash_whoever_trains_and_whatever_goes_wrong(row: Row, tmp_path: Path) -> None:
    outcome = run_row(row, tmp_path, print)
    assert outcome.error == ""
    assert outcome.local_sha256 == outcome.network_sha256 != ""
