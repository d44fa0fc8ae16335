"""A share replays to its own roots, and nothing else does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pol.errors import Cancelled, NotFiniteStep, RangeError, StateError, StepFailed
from pol.executor.backend import backend
from pol.executor.names import BACKENDS, Engine
from pol.executor.native_backend import NativeBackend
from pol.job.dataset import batch_at
from pol.job.load import LoadedJob
from pol.job.updates import DIFFERENCE
from pol.replay.replay import replay_segment
from pol.rules.commitment import boundary_root
from pol.state.canonical import encode_state, state_tree
from pol.values import metric_values
from pol.work.records import Boundary, ReplayedSegment, RoundSlot, TrainedShare
from pol.work.segments import SlotState, advance, run_segment, slot_state
from pol.work.train import opening_boundary, share_update, train_segments, train_share
from tests.unit.pol.datasets import all_rows, dataset
from tests.unit.pol.replay.conftest import SHARE, States

NUMPY = backend(Engine("numpy"))


def _changed(state: Any, name: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    return {**state, name: change(state[name].copy())}


def _flip_lowest_bit(array: Any) -> Any:
    array.view(np.uint32).flat[-1] ^= 1
    return array


def with_outer(loaded: LoadedJob) -> LoadedJob:
    """The same job, but for what its slots' updates are."""
    document = replace(loaded.job.document, aggregation=DIFFERENCE)
    return replace(loaded, job=replace(loaded.job, document=document))


def _replay(loaded: LoadedJob, states: States, index: int, name: str = "numpy") -> ReplayedSegment:
    _, opening, local = states[index]
    return replay_segment(loaded, SHARE, index, opening, local, backend(Engine(name)))


def test_a_share_has_a_boundary_before_and_after_each_segment(
    loaded: LoadedJob, trained: tuple[TrainedShare, States]
) -> None:
    share, states = trained
    document = loaded.job.document
    assert [b.step for b in share.boundaries] == [10, 12, 14, 16, 18, 20]  # of its second round
    assert [b.index for b in share.boundaries] == list(range(6))
    assert share.boundaries == tuple(boundary for boundary, _, _ in states)
    for boundary, state, local in states:
        assert boundary.global_root == state_tree(state).root
        assert boundary.local_root == state_tree(local).root
        assert boundary.root == boundary_root(boundary.global_root, boundary.local_root, boundary.metrics)
    assert share.boundaries[0].global_root == document.global_root
    assert len({boundary.root for boundary in share.boundaries}) == 6


@pytest.mark.parametrize("name", BACKENDS)
def test_every_segment_replays_to_the_next_boundary(
    loaded: LoadedJob, trained: tuple[TrainedShare, States], name: str
) -> None:
    share, states = trained
    for index in range(5):
        replayed = _replay(loaded, states, index, name)
        assert replayed.boundary == share.boundaries[index + 1]
        assert encode_state(replayed.global_state) == encode_state(states[index + 1][1])
        assert encode_state(replayed.local_state) == encode_state(states[index + 1][2])


@pytest.mark.parametrize("start", [0, 1, 4, 5])
def test_training_goes_on_from_any_boundary(
    loaded: LoadedJob, trained: tuple[TrainedShare, States], start: int
) -> None:
    share, states = trained
    _, opening, local = states[start]
    reached: list[Boundary] = []
    end = train_segments(
        loaded,
        SHARE,
        range(start, 5),
        slot_state(loaded, opening, local),
        backend=NUMPY,
        on_boundary=lambda boundary, *_: reached.append(boundary),
    )
    assert tuple(reached) == share.boundaries[start + 1 :]
    assert encode_state(end.global_state) == encode_state(share.global_out)
    assert encode_state(end.local_state) == encode_state(share.local_out)
    zero = slot_state(loaded, *states[0][1:])
    assert opening_boundary(loaded, SHARE, zero) == share.boundaries[0]


@pytest.mark.parametrize("segments", [range(-1, 2), range(4, 6)])
def test_a_share_has_no_other_segments(
    loaded: LoadedJob, trained: tuple[TrainedShare, States], segments: range
) -> None:
    start = slot_state(loaded, *trained[1][0][1:])
    with pytest.raises(RangeError, match="outside"):
        train_segments(loaded, SHARE, segments, start, backend=NUMPY, on_boundary=lambda *_: None)


@pytest.mark.parametrize("name", ["native", "torch"])
def test_training_elsewhere_gives_the_same_share(
    loaded: LoadedJob, trained: tuple[TrainedShare, States], name: str
) -> None:
    states = loaded.global_state, loaded.local_state
    before = [encode_state(state) for state in states]
    other = train_share(loaded, SHARE, *states, backend=backend(Engine(name)))
    assert other.boundaries == trained[0].boundaries
    assert other.update_root == trained[0].update_root
    assert [encode_state(state) for state in states] == before


def test_a_state_that_is_given_up_is_there_once(loaded: LoadedJob) -> None:
    executor = backend(Engine("native"))
    if not isinstance(executor, NativeBackend):
        pytest.skip("no native kernels here")
    states = loaded.global_state, loaded.local_state
    for donate in (False, True):
        start = slot_state(loaded, *states)
        end, _ = run_segment(loaded, SHARE, 0, start, executor, donate=donate)
        same = [end.global_state[name] is array for name, array in start.global_state.items()]
        assert any(same) is donate


def test_whoever_has_let_go_of_the_initial_states_has_none(loaded: LoadedJob) -> None:
    other = loaded.without_initial()
    states = loaded.global_state, loaded.local_state
    assert train_share(other, SHARE, *states, backend=NUMPY).update
    with pytest.raises(ValueError, match="dropped from memory"):
        _ = other.global_state


def test_metrics_are_the_means_of_their_segment(loaded: LoadedJob, trained: tuple[TrainedShare, States]) -> None:
    share, states = trained
    reached = slot_state(loaded, *states[2][1:])
    losses = []
    for step in (14, 15):
        reached, metrics = advance(loaded, reached, step, SHARE.slot, NUMPY)
        losses.append(float(metrics["loss"]))
    assert share.boundaries[0].metrics == ()
    assert metric_values(share.boundaries[3].metrics) == pytest.approx((sum(losses) / 2,), rel=1e-6)


@pytest.mark.parametrize("part", [1, 2])
def test_one_bit_of_an_opening_state_changes_the_root(
    loaded: LoadedJob, trained: tuple[TrainedShare, States], part: int
) -> None:
    share, states = trained
    opened = list(states[3])
    name = ["", "0.weight", "momentum.0.weight"][part]
    opened[part] = _changed(opened[part], name, _flip_lowest_bit)
    replayed = replay_segment(loaded, SHARE, 3, opened[1], opened[2], NUMPY)  # type: ignore[arg-type]
    assert replayed.boundary.root != share.boundaries[4].root


def test_another_slot_or_round_gives_another_root(loaded: LoadedJob, trained: tuple[TrainedShare, States]) -> None:
    share, states = trained
    _, opening, local = states[0]
    for other in (replace(SHARE, slot=0), replace(SHARE, round=0)):
        replayed = replay_segment(loaded, other, 0, opening, local, NUMPY)
        assert replayed.boundary.root != share.boundaries[1].root


def test_the_update_is_the_closing_state(loaded: LoadedJob, trained: tuple[TrainedShare, States]) -> None:
    share, states = trained
    result = share_update(loaded, states[0][1], SlotState(*states[-1][1:]), NUMPY)
    assert result.update_root == share.update_root == state_tree(result.update).root
    assert result.local_out_root == share.local_out_root == share.boundaries[-1].local_root
    assert encode_state(result.update) == encode_state(states[-1][1])  # a step changes all of it


def test_an_outer_optimizer_gets_opening_less_closing(loaded: LoadedJob, trained: tuple[TrainedShare, States]) -> None:
    share, states = trained
    result = share_update(with_outer(loaded), states[0][1], SlotState(*states[-1][1:]), NUMPY)
    assert result.update_root == state_tree(result.update).root != share.update_root
    assert result.local_out_root == share.local_out_root
    for name, array in result.update.items():
        np.testing.assert_array_equal(array, states[0][1][name] - states[-1][1][name])
        assert array.dtype == np.float32
        assert not array.flags.writeable


@pytest.mark.parametrize("part", range(3))
def test_any_changed_bit_changes_the_update(loaded: LoadedJob, trained: tuple[TrainedShare, States], part: int) -> None:
    _, states = trained
    loaded = with_outer(loaded)
    given = [states[0][1], states[-1][1], states[-1][2]]
    honest = share_update(loaded, given[0], SlotState(given[1], given[2]), NUMPY)
    name = "0.bias" if part < 2 else "momentum.0.bias"
    given[part] = _changed(given[part], name, lambda array: array + np.float32(0.25))
    result = share_update(loaded, given[0], SlotState(given[1], given[2]), NUMPY)
    changed = (
        result.update_root != honest.update_root,
        result.local_out_root != honest.local_out_root,
    )
    assert changed == ((True, False) if part < 2 else (False, True))


def test_local_state_goes_on_from_round_to_round(loaded: LoadedJob) -> None:
    first = train_share(loaded, RoundSlot(0, 1), loaded.global_state, loaded.local_state, backend=NUMPY)
    bound = train_share(loaded, SHARE, first.global_out, first.local_out, backend=NUMPY)
    reset = train_share(loaded, SHARE, first.global_out, loaded.local_state, backend=NUMPY)
    assert bound.boundaries[0].local_root == first.local_out_root
    assert reset.boundaries[0].local_root == loaded.job.document.local_root
    assert bound.boundaries[1].root != reset.boundaries[1].root


def test_batch_and_dropout_go_by_the_batch_number_and_the_rate_by_the_step(
    loaded: LoadedJob,
) -> None:
    """The rate of this job falls at step 10: batch 12 is before that with two slots and behind it with one."""
    alone = replace(loaded.job, document=replace(loaded.job.document, slots=1))
    ordinary = replace(loaded, job=alone)
    start = slot_state(loaded, loaded.global_state, loaded.local_state)

    def root(of: LoadedJob, step: int, slot: int) -> bytes:
        return advance(of, start, step, slot, NUMPY)[0].root

    for step, slot in ((0, 1), (4, 0), (4, 1)):
        assert root(loaded, step, slot) == root(ordinary, 2 * step + slot, 0)
    assert root(loaded, 6, 0) != root(ordinary, 12, 0)


@pytest.mark.parametrize(
    "wanted",
    [
        RoundSlot(2, 0),
        RoundSlot(-1, 0),
        RoundSlot(0, 2),
        RoundSlot(0, -1),
    ],
)
def test_a_round_or_slot_outside_the_job_is_refused(loaded: LoadedJob, wanted: RoundSlot) -> None:
    states = (loaded.global_state, loaded.local_state)
    with pytest.raises(RangeError):
        train_share(loaded, wanted, *states, backend=NUMPY)
    with pytest.raises(RangeError):
        replay_segment(loaded, wanted, 0, *states, NUMPY)


@pytest.mark.parametrize("index", [-1, 5])
def test_a_segment_outside_the_share_is_refused(
    loaded: LoadedJob, trained: tuple[TrainedShare, States], index: int
) -> None:
    _, opening, local = trained[1][0]
    with pytest.raises(RangeError, match="outside a share of 5"):
        replay_segment(loaded, SHARE, index, opening, local, NUMPY)


def test_a_state_that_is_not_the_jobs_is_refused(loaded: LoadedJob) -> None:
    state, local = loaded.global_state, loaded.local_state
    for wrong in (
        {},
        {**state, "more": np.zeros(1, np.float32)},
        _changed(state, "0.bias", lambda array: array[:-1]),
        _changed(state, "0.bias", lambda array: array > 0),
    ):
        with pytest.raises(StateError):
            train_share(loaded, SHARE, wrong, local, backend=NUMPY)
        with pytest.raises(StateError):
            share_update(loaded, state, SlotState(wrong, local), NUMPY)


def test_a_step_that_is_not_finite_says_which(loaded: LoadedJob) -> None:
    huge = _changed(loaded.local_state, "momentum.0.weight", lambda a: a + np.float32(3e38))
    with pytest.raises(NotFiniteStep) as caught:
        train_share(loaded, SHARE, loaded.global_state, huge, backend=NUMPY)
    assert isinstance(caught.value, StepFailed)
    assert 10 <= caught.value.step < 20
    assert caught.value.where
    assert str(caught.value.step) in str(caught.value)


def test_training_can_be_cancelled_and_reports_steps(loaded: LoadedJob) -> None:
    seen: list[tuple[int, float]] = []
    with pytest.raises(Cancelled):
        train_share(
            loaded,
            SHARE,
            loaded.global_state,
            loaded.local_state,
            backend=NUMPY,
            on_step=lambda step, loss: seen.append((step, loss)),
            cancelled=lambda: len(seen) == 3,
        )
    assert [step for step, _ in seen] == [10, 11, 12]
    assert all(0 < loss < 3 for _, loss in seen)


def test_states_that_are_handed_out_cannot_be_changed(trained: tuple[TrainedShare, States]) -> None:
    for _, state, local in trained[1]:
        for array in (*state.values(), *local.values()):
            assert not array.flags.writeable


def test_batches_come_from_the_job_alone(loaded: LoadedJob) -> None:
    batch = batch_at(loaded.data, loaded.job, 24)
    assert batch["batch.x"].shape == (16, 2)
    columns = all_rows(loaded.data)
    fake = replace(loaded, data=dataset({**columns, "x": columns["x"] + 1}))
    states = (loaded.global_state, loaded.local_state)
    honest = replay_segment(loaded, SHARE, 0, *states, NUMPY)
    assert replay_segment(fake, SHARE, 0, *states, NUMPY).boundary.root != honest.boundary.root
