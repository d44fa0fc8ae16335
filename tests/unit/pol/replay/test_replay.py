"""A share replays to its own roots, and nothing else does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pol.errors import Cancelled, NotFiniteStep, RangeError, StateError, StepFailed
from pol.executor.backend import backend
from pol.job.dataset import batch_at
from pol.job.load import LoadedJob
from pol.replay.replay import replay_segment
from pol.rules.commitment import boundary_root
from pol.state.canonical import encode_state, state_tree
from pol.values import metric_values
from pol.work.records import ReplayedSegment, Samples, TrainedShare
from pol.work.segments import advance, slot_state
from pol.work.train import share_update, train_share
from tests.unit.pol.replay.conftest import SHARE, States

NUMPY = backend("numpy")


def _changed(state: Any, name: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    return {**state, name: change(state[name].copy())}


def _flip_lowest_bit(array: Any) -> Any:
    array.view(np.uint32).flat[-1] ^= 1
    return array


def _replay(loaded: LoadedJob, states: States, index: int, name: str = "numpy") -> ReplayedSegment:
    _, opening, local = states[index]
    return replay_segment(loaded, SHARE, index, opening, local, backend(name))


def test_a_share_has_a_boundary_before_and_after_each_segment(
    loaded: LoadedJob, trained: tuple[TrainedShare, States]
) -> None:
    share, states = trained
    document = loaded.job.document
    assert len(share.boundaries) == 192 // (16 * 2) + 1 == 7
    first = (320 + 64) // 16
    assert [b.step for b in share.boundaries] == [first + 2 * i for i in range(7)]
    assert [b.index for b in share.boundaries] == list(range(7))
    assert share.boundaries == tuple(boundary for boundary, _, _ in states)
    for boundary, state, local in states:
        assert boundary.global_root == state_tree(state).root
        assert boundary.local_root == state_tree(local).root
        assert boundary.root == boundary_root(boundary.global_root, boundary.local_root)
    assert share.boundaries[0].global_root == document.global_root
    assert len({boundary.root for boundary in share.boundaries}) == 7


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_every_segment_replays_to_the_next_boundary(
    loaded: LoadedJob, trained: tuple[TrainedShare, States], name: str
) -> None:
    share, states = trained
    for index in range(6):
        replayed = _replay(loaded, states, index, name)
        assert replayed.boundary == share.boundaries[index + 1]
        assert len(replayed.step_roots) == 2
        assert replayed.step_roots[-1] == replayed.boundary.root
        assert encode_state(replayed.global_state) == encode_state(states[index + 1][1])
        assert encode_state(replayed.local_state) == encode_state(states[index + 1][2])


def test_training_on_torch_gives_the_same_share(
    loaded: LoadedJob, trained: tuple[TrainedShare, States]
) -> None:
    other = train_share(
        loaded, SHARE, loaded.global_state, loaded.local_state, backend=backend("torch")
    )
    assert other.boundaries == trained[0].boundaries
    assert other.update_root == trained[0].update_root


def test_metrics_are_the_means_of_their_segment(
    loaded: LoadedJob, trained: tuple[TrainedShare, States]
) -> None:
    share, states = trained
    place = slot_state(loaded, *states[2][1:])
    losses = []
    for step in range(2):
        place, metrics = advance(loaded, place, 320 + 64 + (4 + step) * 16, NUMPY)
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


def test_another_place_of_the_stream_gives_another_root(
    loaded: LoadedJob, trained: tuple[TrainedShare, States]
) -> None:
    share, states = trained
    _, opening, local = states[0]
    for other in (replace(SHARE, first=96), replace(SHARE, round=0)):
        replayed = replay_segment(loaded, other, 0, opening, local, NUMPY)
        assert replayed.boundary.root != share.boundaries[1].root


def test_the_update_is_opening_less_closing(
    loaded: LoadedJob, trained: tuple[TrainedShare, States]
) -> None:
    share, states = trained
    result = share_update(loaded, states[0][1], states[-1][1], states[-1][2])
    assert result.update_root == share.update_root == state_tree(result.update).root
    assert result.local_out_root == share.local_out_root == share.boundaries[-1].local_root
    assert set(result.update) == {spec.name for spec in loaded.job.updated}
    for name, array in result.update.items():
        np.testing.assert_array_equal(array, states[0][1][name] - states[-1][1][name])
        assert array.dtype == np.float32


@pytest.mark.parametrize("part", range(3))
def test_any_changed_bit_changes_the_update_place(
    loaded: LoadedJob, trained: tuple[TrainedShare, States], part: int
) -> None:
    share, states = trained
    given = [states[0][1], states[-1][1], states[-1][2]]
    name = "0.bias" if part < 2 else "momentum.0.bias"
    given[part] = _changed(given[part], name, lambda array: array + np.float32(0.25))
    result = share_update(loaded, *given)
    changed = (
        result.update_root != share.update_root,
        result.local_out_root != share.local_out_root,
    )
    assert changed == ((True, False) if part < 2 else (False, True))


def test_local_state_goes_on_from_round_to_round(loaded: LoadedJob) -> None:
    first = train_share(
        loaded, Samples(0, 0, 160), loaded.global_state, loaded.local_state, backend=NUMPY
    )
    bound = train_share(loaded, Samples(1, 0, 32), first.global_out, first.local_out, backend=NUMPY)
    reset = train_share(
        loaded, Samples(1, 0, 32), first.global_out, loaded.local_state, backend=NUMPY
    )
    assert bound.boundaries[0].local_root == first.local_out_root
    assert reset.boundaries[0].local_root == loaded.job.document.local_root
    assert bound.boundaries[1].root != reset.boundaries[1].root


@pytest.mark.parametrize(
    "wanted",
    [
        Samples(2, 0, 32),
        Samples(-1, 0, 32),
        Samples(0, 16, 32),
        Samples(0, 0, 16),
        Samples(0, 0, 0),
        Samples(0, 320, 32),
        Samples(0, 0, 352),
        Samples(0, -32, 32),
    ],
)
def test_a_range_outside_the_job_is_refused(loaded: LoadedJob, wanted: Samples) -> None:
    states = (loaded.global_state, loaded.local_state)
    with pytest.raises(RangeError):
        train_share(loaded, wanted, *states, backend=NUMPY)
    with pytest.raises(RangeError):
        replay_segment(loaded, wanted, 0, *states, NUMPY)


@pytest.mark.parametrize("index", [-1, 6])
def test_a_segment_outside_the_range_is_refused(
    loaded: LoadedJob, trained: tuple[TrainedShare, States], index: int
) -> None:
    _, opening, local = trained[1][0]
    with pytest.raises(RangeError, match="outside a range of 6"):
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
            share_update(loaded, state, wrong, local)


def test_a_step_that_is_not_finite_says_which(loaded: LoadedJob) -> None:
    huge = _changed(loaded.local_state, "momentum.0.weight", lambda a: a + np.float32(3e38))
    with pytest.raises(NotFiniteStep) as caught:
        train_share(loaded, SHARE, loaded.global_state, huge, backend=NUMPY)
    assert isinstance(caught.value, StepFailed)
    assert 24 <= caught.value.step <= 30
    assert caught.value.where
    assert str(caught.value.step) in str(caught.value)


def test_training_can_be_cancelled_and_reports_steps(loaded: LoadedJob) -> None:
    seen: list[tuple[int, float]] = []
    with pytest.raises(Cancelled):
        train_share(
            loaded, SHARE, loaded.global_state, loaded.local_state, backend=NUMPY,
            on_step=lambda step, loss: seen.append((step, loss)), cancelled=lambda: len(seen) == 3,
        )  # fmt: skip
    assert [step for step, _ in seen] == [24, 25, 26]
    assert all(0 < loss < 3 for _, loss in seen)


def test_states_that_are_handed_out_cannot_be_changed(trained: tuple[TrainedShare, States]) -> None:
    for _, state, local in trained[1]:
        for array in (*state.values(), *local.values()):
            assert not array.flags.writeable


def test_batches_come_from_the_job_alone(loaded: LoadedJob) -> None:
    batch = batch_at(loaded.data, loaded.job, 384)
    assert batch["batch.x"].shape == (16, 2)
    other = replace(loaded.data, columns={**loaded.data.columns, "x": loaded.data.columns["x"] + 1})
    fake = LoadedJob(loaded.job, loaded.global_state, loaded.local_state, other)
    states = (loaded.global_state, loaded.local_state)
    honest = replay_segment(loaded, SHARE, 0, *states, NUMPY)
    assert replay_segment(fake, SHARE, 0, *states, NUMPY).boundary.root != honest.boundary.root
