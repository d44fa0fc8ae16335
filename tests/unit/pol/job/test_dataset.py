"""Position p of the sample stream is row perm(seed, p div N)[p mod N]."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pol.job.document import Job
from pol.job.load import Dataset, batch_at, sample_rows
from pol.ops.philox import permutation
from pol.rules.schedule import batch_number
from tests.unit.pol.mlp import BATCH, rows, write_mlp_job


@pytest.mark.parametrize(("position", "count"), [(0, 5), (3, 7), (7, 10), (6, 25), (70, 1)])
def test_rows_of_the_stream(position: int, count: int) -> None:
    expected = [int(permutation(9, p // 7, 7)[p % 7]) for p in range(position, position + count)]
    assert sample_rows(9, 7, position, count).tolist() == expected


def test_every_row_once_in_an_epoch() -> None:
    assert sorted(sample_rows(1, 100, 200, 100).tolist()) == list(range(100))
    assert not np.array_equal(sample_rows(1, 100, 0, 100), sample_rows(1, 100, 100, 100))
    assert not np.array_equal(sample_rows(1, 100, 0, 100), sample_rows(2, 100, 0, 100))


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 30))
def test_slots_together_read_what_one_machine_with_a_larger_batch_would(
    slots: int, batch: int, step: int
) -> None:
    dataset, job = Dataset(rows(200), 200), _job()
    one = replace(job, document=replace(job.document, slots=1, batch=slots * batch))
    many = replace(job, document=replace(job.document, slots=slots, batch=batch))
    whole = batch_at(dataset, one, batch_number(1, step, 0))
    parts = [batch_at(dataset, many, batch_number(slots, step, slot)) for slot in range(slots)]
    for name, column in whole.items():
        assert np.array_equal(column, np.concatenate([part[name] for part in parts]))


@cache
def _job() -> Job:
    with TemporaryDirectory() as folder:
        return write_mlp_job(Path(folder))


def test_batch(tmp_path: Path) -> None:
    job = write_mlp_job(tmp_path)
    data = rows(200)
    batch = batch_at(Dataset(data, 200), job, 6)
    chosen = sample_rows(job.document.seed, 200, 6 * BATCH, BATCH)
    assert set(batch) == {"batch.x", "batch.y"}
    assert np.array_equal(batch["batch.x"], data["x"][chosen])
    assert np.array_equal(batch["batch.y"], data["y"][chosen])
