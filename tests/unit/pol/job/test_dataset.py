"""Position p of the sample stream is row perm(seed, p div N)[p mod N]."""

import re
import shutil
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pol.job.dataset import Column, Dataset, batch_at, sample_rows
from pol.job.document import Job
from pol.job.load import load_job
from pol.ops.philox import permutation
from pol.rules.schedule import batch_number
from pol.values import TensorSpec
from tests.unit.pol.datasets import all_rows, dataset
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
def test_slots_together_read_what_one_machine_with_a_larger_batch_would(slots: int, batch: int, step: int) -> None:
    data, job = dataset(rows(200)), _job()
    one = replace(job, document=replace(job.document, slots=1, batch=slots * batch))
    many = replace(job, document=replace(job.document, slots=slots, batch=batch))
    whole = batch_at(data, one, batch_number(1, step, 0))
    parts = [batch_at(data, many, batch_number(slots, step, slot)) for slot in range(slots)]
    for name, column in whole.items():
        assert np.array_equal(column, np.concatenate([part[name] for part in parts]))


@cache
def _job() -> Job:
    with TemporaryDirectory() as folder:
        return write_mlp_job(Path(folder))


def test_batch(tmp_path: Path) -> None:
    job = write_mlp_job(tmp_path)
    data = rows(200)
    batch = batch_at(dataset(data), job, 6)
    chosen = sample_rows(job.document.seed, 200, 6 * BATCH, BATCH)
    assert set(batch) == {"batch.x", "batch.y"}
    assert np.array_equal(batch["batch.x"], data["x"][chosen])
    assert np.array_equal(batch["batch.y"], data["y"][chosen])


MORE = {
    "flag": np.arange(600).reshape(200, 3) % 7 == 0,
    "nothing": np.zeros((200, 0), np.float32),
    "number": np.arange(200, dtype=np.float32),
    "pair": np.arange(400).reshape(200, 2),
}
"""Columns of all types, after which no shard has the next one where its type would lie."""


@pytest.mark.parametrize("shard_rows", [1, 7, 200])
def test_rows_come_from_whichever_shard_they_are_in(tmp_path: Path, shard_rows: int) -> None:
    write_mlp_job(tmp_path, shard_rows=shard_rows, more=MORE)
    data = load_job(tmp_path).data
    chosen = np.random.default_rng(1).integers(0, 200, 300)
    found = data.take(chosen)
    expected = {name: column[chosen] for name, column in {**rows(200), **MORE}.items()}
    assert found.keys() == expected.keys()
    for name, column in found.items():
        assert column.dtype == expected[name].dtype
        assert np.array_equal(column, expected[name])
        assert column.flags.writeable


@pytest.mark.parametrize("lengths", [(3, 5, 2), (4, 4, 2), (2, 2, 6), (10,)])
@pytest.mark.parametrize("gaps", [(0, 8, 16), (8, 0, 5)])
def test_shards_have_any_length_and_lie_anywhere(lengths: tuple[int, ...], gaps: tuple[int, ...]) -> None:
    numbers = np.arange(10) * 2**40
    data, origins, first = b"", [], 0
    for length, gap in zip(lengths, gaps, strict=False):
        data += b"\xff" * gap
        origins.append(len(data) - 8 * first)
        data += numbers[first : first + length].tobytes()
        first += length
    column = Column(TensorSpec("n", "i64", ()), np.frombuffer(data, np.uint8), origins, True)
    chosen = np.array([9, 0, 2, 3, 4, 4, 7, 8, 1])
    assert Dataset([column], lengths).take(chosen)["n"].tolist() == numbers[chosen].tolist()


def test_files_that_get_another_content_keep_theirs_for_who_has_loaded_them(tmp_path: Path) -> None:
    write_mlp_job(tmp_path, more={"number": MORE["number"]})
    data = load_job(tmp_path).data
    write_mlp_job(tmp_path, more={"number": MORE["number"] + 1})
    assert np.array_equal(all_rows(data)["number"], MORE["number"])
    shutil.rmtree(tmp_path)
    assert np.array_equal(all_rows(data)["number"], MORE["number"])


@pytest.mark.skipif(sys.platform != "linux", reason="what is mapped is told by Linux")
def test_a_dataset_has_no_descriptors_and_gives_its_addresses_back(tmp_path: Path) -> None:
    write_mlp_job(tmp_path, shard_rows=1)
    before = len(list(Path("/proc/self/fd").iterdir()))
    data = load_job(tmp_path).data
    assert len(list(Path("/proc/self/fd").iterdir())) == before

    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    assert data.rows == mapped() == 200
    del data
    assert mapped() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="what is mapped is told by Linux")
@pytest.mark.parametrize(("width", "scattered"), [(1, True), (2**14, False)])
def test_the_disk_reads_ahead_for_large_rows_alone(tmp_path: Path, width: int, scattered: bool) -> None:
    """Of data that are larger than memory, where a small row would come with megabytes beside it."""
    write_mlp_job(tmp_path, more={"wide": np.zeros((200, width), np.float32)})
    data = load_job(tmp_path).data
    about = Path("/proc/self/smaps").read_text().split(str(tmp_path))[1:]
    flags = [re.search(r"^VmFlags:(.*)$", each, re.MULTILINE) for each in about]
    assert len(flags) == 3
    assert {"rr" in found[1].split() for found in flags if found} == {scattered}
    assert data.rows == 200
