"""Rows in their own order, and rows that are drawn by weight."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.names import BACKENDS, Engine
from pol.job import cost
from pol.job.dataset import batch_at, drawn_rows, stream_rows
from pol.job.document import dump_job, parse_job
from pol.job.load import load_job
from pol.job.sampling import IN_ORDER, SHUFFLING, WEIGHTED, Sampling
from pol.local.inspect import inspect_job
from pol.ops.philox import PART_POSITIONS, SITE_ROWS, draws
from pol.replay.replay import replay_segment
from pol.rules.schedule import batch_number
from pol.work.records import RoundSlot
from pol.work.train import train_share
from tests.unit.pol.datasets import dataset
from tests.unit.pol.mlp import BATCH, write_mlp_job

BY_WEIGHT = Sampling(WEIGHTED, "w")
ROWS_IN_ORDER = Sampling(IN_ORDER)
WEIGHTS = np.arange(200) % 4


@pytest.fixture(scope="module")
def weighted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weighted")
    write_mlp_job(folder, more={"w": WEIGHTS}, sampling=BY_WEIGHT)
    return folder


@given(
    st.lists(st.integers(0, 2**61), min_size=1, max_size=4).filter(any),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**48),
)
def test_a_row_is_drawn_where_its_weights_reach(weights: list[int], seed: int, position: int) -> None:
    ends = np.cumsum(np.array(weights, np.int64))
    found = drawn_rows(seed, ends, position, 3)
    for at, row in enumerate(found.tolist(), position):
        part, offset = divmod(at, PART_POSITIONS)
        draw = int(draws(seed, SITE_ROWS, part, PART_POSITIONS)[offset])
        place = draw * sum(weights) >> 64
        assert sum(weights[:row]) <= place < sum(weights[: row + 1])


def test_rows_come_as_often_as_their_weights_say() -> None:
    """Chi-squared of 40,000 draws and of what follows what: 99.9 % for 5 degrees is 20.5."""
    weights = np.array([1, 0, 2, 3, 4, 10, 80])
    found = drawn_rows(11, np.cumsum(weights), 12_345, 40_000)
    counts = np.bincount(found, minlength=len(weights))
    assert counts[1] == 0
    expected = 40_000 * weights[weights > 0] / weights.sum()
    assert ((counts[weights > 0] - expected) ** 2 / expected).sum() < 20.5
    pairs = np.bincount(found[:-1] * 7 + found[1:], minlength=49).reshape(7, 7)
    independent = np.outer(counts, counts) / 40_000
    likely = independent > 50
    # 19 pairs, and no more degrees than that (99.9 %: 43.8)
    assert likely.sum() == 19
    assert ((pairs - independent)[likely] ** 2 / independent[likely]).sum() < 43.8


@pytest.mark.parametrize("sampling", [ROWS_IN_ORDER, BY_WEIGHT])
@pytest.mark.parametrize(("slots", "step"), [(1, 0), (2, 5), (3, 4_000)])
def test_slots_together_read_what_one_machine_with_a_larger_batch_would(
    weighted: Path, sampling: Sampling, slots: int, step: int
) -> None:
    loaded = load_job(weighted)

    def batches(of_slots: int, rows: int) -> dict[str, np.ndarray]:
        document = replace(loaded.job.document, slots=of_slots, batch=rows, sampling=sampling)
        job = replace(loaded.job, document=document)
        found = [batch_at(loaded.data, job, batch_number(of_slots, step, k)) for k in range(of_slots)]
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}

    parts, whole = batches(slots, 5), batches(1, 5 * slots)
    for name, column in whole.items():
        assert np.array_equal(column, parts[name])


def test_rows_in_their_own_order_begin_again_at_the_first(weighted: Path) -> None:
    loaded = load_job(weighted)
    job = replace(loaded.job, document=replace(loaded.job.document, sampling=ROWS_IN_ORDER))
    assert stream_rows(loaded.data, job, 198, 4).tolist() == [198, 199, 0, 1]
    assert stream_rows(loaded.data, job, 2**48 - 2, 2).tolist() == [254 % 200, 55]


def test_a_batch_has_the_rows_that_were_drawn(weighted: Path) -> None:
    loaded = load_job(weighted)
    batch = batch_at(loaded.data, loaded.job, 3)
    drawn = drawn_rows(loaded.job.document.seed, np.cumsum(WEIGHTS), 3 * BATCH, BATCH)
    assert np.array_equal(batch["batch.w"], WEIGHTS[drawn])
    assert batch["batch.w"].min() > 0
    with pytest.raises(ValueError, match="no weights"):
        stream_rows(dataset({"w": WEIGHTS}), loaded.job, 0, 1)


@pytest.mark.parametrize("sampling", [ROWS_IN_ORDER, BY_WEIGHT])
def test_a_document_says_it_and_one_that_shuffles_does_not(tmp_path: Path, sampling: Sampling) -> None:
    plain = write_mlp_job(tmp_path / "plain", more={"w": WEIGHTS})
    other = write_mlp_job(tmp_path / "other", more={"w": WEIGHTS}, sampling=sampling)
    assert b"sampling" not in dump_job(plain.document)
    assert parse_job(dump_job(other.document)).document.sampling == sampling
    assert plain.id != other.id
    flops = plain.document.step_flops
    again = replace(other.document, sampling=SHUFFLING, step_flops=flops)
    assert dump_job(again) == dump_job(plain.document)
    assert (
        inspect_job(other).sampling
        == {
            IN_ORDER: "in order",
            WEIGHTED: "drawn by the weights in w",
        }[sampling.order]
    )


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ([3, 0, -1, 2], "row 2 of the column w is -1; use only weights of 0 or more"),
        ([0, 0, 0, 0], "all weights in the column w are 0"),
        ([2**62, 2**62 - 1, 1, 0], r"the sum of the column w is 2\^63 or more"),
        ([2**63 - 1, 2**63 - 1, 2**63 - 1, 3], r"the sum of the column w is 2\^63 or more"),
    ],
)
def test_weights_that_are_none_are_refused_wherever_the_job_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: Sequence[int], reason: str
) -> None:
    column = np.tile(np.array(weights, np.int64), 50)
    if weights[0] == 3:
        column[[2 + 4 * k for k in range(1, 50)]] = 1
    write_mlp_job(tmp_path, more={"w": column}, sampling=BY_WEIGHT)
    for piece in (1, 7, 2**16):
        monkeypatch.setattr("pol.job.dataset._PIECE", piece)
        with pytest.raises(JobError, match=f"sampling: {reason}"):
            load_job(tmp_path)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_segment_replays_to_the_boundary_that_training_had(weighted: Path, name: str) -> None:
    loaded = load_job(weighted)
    local, part = loaded.local_state, RoundSlot(1, 1)
    states = []
    share = train_share(
        loaded,
        part,
        loaded.global_state,
        local,
        backend=backend(Engine("numpy")),
        on_boundary=lambda _, first, second: states.append((first, second)),
    )
    for index, (first, second) in enumerate(states[:-1]):
        again = replay_segment(load_job(weighted), part, index, first, second, backend(Engine(name)))
        assert again.boundary == share.boundaries[index + 1]
    # another order of the same rows comes to something else
    document = replace(loaded.job.document, sampling=ROWS_IN_ORDER)
    in_order = replace(loaded, job=replace(loaded.job, document=document))
    other = replay_segment(in_order, part, 0, *states[0], backend(Engine(name)))
    assert other.boundary.root != share.boundaries[1].root


def test_what_draws_cost_follows_rows_and_batch(weighted: Path) -> None:
    document = load_job(weighted).job.document
    steps = document.segment_steps
    more_rows = replace(document, rows=10**6)
    assert cost.order_work(more_rows) > cost.WEIGHT_WORK * 10**6 // steps
    large = replace(document, batch=10**5)
    assert cost.order_work(large) > 2 * cost.DRAW_WORK * 10**5
    many = replace(document, slots=10**6)
    per_step = 2 * PART_POSITIONS * cost.DRAW_WORK
    assert cost.order_work(document) < cost.order_work(many) < per_step + cost.order_work(document)
    in_order = replace(document, sampling=ROWS_IN_ORDER)
    assert cost.order_work(in_order) == cost.PLACE_WORK * BATCH
    assert cost.running_size(in_order) < cost.running_size(document)
