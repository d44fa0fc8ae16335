"""Position p of the sample stream is row perm(seed, p div N)[p mod N]."""

from pathlib import Path

import numpy as np
import pytest

from pol.job.dataset import Dataset, batch_at, sample_rows
from pol.ops.philox import permutation
from tests.unit.pol.mlp import BATCH, rows, write_mlp_job


@pytest.mark.parametrize(("position", "count"), [(0, 5), (3, 7), (7, 10), (6, 25), (70, 1)])
def test_rows_of_the_stream(position: int, count: int) -> None:
    expected = [int(permutation(9, p // 7, 7)[p % 7]) for p in range(position, position + count)]
    assert sample_rows(9, 7, position, count).tolist() == expected


def test_every_row_once_in_an_epoch() -> None:
    assert sorted(sample_rows(1, 100, 200, 100).tolist()) == list(range(100))
    assert not np.array_equal(sample_rows(1, 100, 0, 100), sample_rows(1, 100, 100, 100))
    assert not np.array_equal(sample_rows(1, 100, 0, 100), sample_rows(2, 100, 0, 100))


def test_batch(tmp_path: Path) -> None:
    job = write_mlp_job(tmp_path)
    data = rows(200)
    batch = batch_at(Dataset(data, 200), job, 190)
    chosen = sample_rows(job.document.seed, 200, 190, BATCH)
    assert set(batch) == {"batch.x", "batch.y"}
    assert np.array_equal(batch["batch.x"], data["x"][chosen])
    assert np.array_equal(batch["batch.y"], data["y"][chosen])
