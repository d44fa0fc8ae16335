"""Boundaries are hashed and taken beside the next step, which waits before it overwrites what they read."""

from pathlib import Path
from threading import Event, current_thread, main_thread

import pytest

from pol.errors import StepFailed
from pol.executor.backend import backend
from pol.executor.names import BACKENDS, Engine
from pol.job.load import LoadedJob, load_job
from pol.state.arrays import State
from pol.state.canonical import state_tree
from pol.work.aside import AtOnce, Beside
from pol.work.records import Boundary, RoundSlot, TrainedShare
from pol.work.segments import slot_state
from pol.work.train import train_segments, train_share
from tests.unit.pol.odd_jobs import none_at, write_odd_job

JOB = Path(__file__).parents[3] / "fixtures" / "job_tiny"
SHARE = RoundSlot(0, 0)
DEADLINE = 20.0


class Watched(Beside):
    """Says when somebody waits for what is being done."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waited_for = Event()

    def finish(self) -> None:
        if self._current is not None:
            self.is_waited_for.set()
        super().finish()


@pytest.fixture(scope="module")
def loaded() -> LoadedJob:
    return load_job(JOB)


@pytest.fixture(scope="module")
def right(loaded: LoadedJob) -> TrainedShare:
    states = loaded.global_state, loaded.local_state
    return train_share(loaded, SHARE, *states, backend=backend(Engine("numpy")))


@pytest.mark.parametrize("name", BACKENDS)
def test_states_stay_until_they_are_read(loaded: LoadedJob, right: TrainedShare, name: str) -> None:
    """They are read when the next step has come to where it waits, and are still those of the boundary."""
    aside, events = Watched(), list[object]()

    def on_boundary(boundary: Boundary, global_state: State, local_state: State) -> None:
        assert current_thread() is not main_thread()
        assert aside.is_waited_for.wait(DEADLINE)
        aside.is_waited_for.clear()
        assert state_tree(global_state).root == boundary.global_root
        assert state_tree(local_state).root == boundary.local_root
        events.append(boundary)

    count = loaded.job.document.share_segments
    end = train_segments(
        loaded,
        SHARE,
        range(count),
        slot_state(loaded, loaded.global_state, loaded.local_state),
        backend=backend(Engine(name)),
        on_boundary=on_boundary,
        on_step=lambda step, _: events.append(step),
        aside=aside,
    )
    length = loaded.job.document.segment_steps
    expected: list[object] = []
    for index, boundary in enumerate(right.boundaries[1:]):
        expected += [*range(index * length, (index + 1) * length), boundary]
    assert events == expected
    assert state_tree(end.global_state).root == state_tree(right.global_out).root


@pytest.mark.parametrize("aside", [AtOnce(), Beside()], ids=["at once", "beside"])
@pytest.mark.parametrize("last", [1, 5])
def test_what_fails_at_a_boundary_ends_training(loaded: LoadedJob, aside: AtOnce | Beside, last: int) -> None:
    reached: list[int] = []

    def on_boundary(boundary: Boundary, *_: State) -> None:
        reached.append(boundary.index)
        if boundary.index == last:
            raise OSError("no space")

    start = slot_state(loaded, loaded.global_state, loaded.local_state)
    count = loaded.job.document.share_segments
    with pytest.raises(OSError, match="no space"):
        train_segments(
            loaded,
            SHARE,
            range(count),
            start,
            backend=backend(Engine("native")),
            on_boundary=on_boundary,
            aside=aside,
        )
    assert reached == list(range(1, last + 1))
    # it is told once
    aside.finish()


def test_a_boundary_is_whole_before_the_step_behind_it_fails(tmp_path: Path) -> None:
    write_odd_job(tmp_path, none_at(8), segment_steps=2, segments=4)
    odd = load_job(tmp_path)
    reached: list[int] = []
    with pytest.raises(StepFailed):
        train_segments(
            odd,
            SHARE,
            range(4),
            slot_state(odd, odd.global_state, odd.local_state),
            backend=backend(Engine("native")),
            on_boundary=lambda boundary, *_: reached.append(boundary.index),
            aside=Beside(),
        )
    assert reached == [1, 2]
