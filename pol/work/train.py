"""Training a share: the steps of a range, with a boundary after each segment."""

from collections.abc import Callable

from pol.executor.backend import Backend
from pol.job.load import LoadedJob
from pol.replay.replay import replay_update
from pol.state.arrays import State
from pol.work.records import Boundary, Range, TrainedShare
from pol.work.segments import Place, check_range, opening_place, run_segment


def train_share(
    loaded: LoadedJob,
    range: Range,
    opening: State,
    local: State,
    *,
    backend: Backend,
    on_boundary: Callable[[Boundary, State, State], None] | None = None,
    on_step: Callable[[int, float], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TrainedShare:
    """Train a range from two opening states.

    Args:
        loaded: the job.
        range: samples of the share.
        opening: global state of the last round.
        local: the slot's local state.
        backend: where to run.
        on_boundary: gets every boundary as it is reached, with the global and local state there (read-only).
        on_step: gets the number of each step and its loss.
        cancelled: asked before each step; True ends in :class:`Cancelled`.

    Raises:
        RangeError: the range is not one of the job's.
        StateError: an opening state does not have the job's tensors.
        NotFiniteStep, StepFailed: a step has no result.
    """
    count = check_range(loaded.job.document, range)
    start = opening_place(loaded, opening, local)
    first = range.round * loaded.job.document.samples_per_round + range.first
    boundaries = [start.boundary(0, first // loaded.job.document.batch, ())]
    if on_boundary is not None:
        on_boundary(boundaries[0], start.global_state, start.local_state)

    def observe(step: int, loss: float, _place: Place) -> None:
        if on_step is not None:
            on_step(step, loss)

    place = start
    for index in _indices(count):
        place, boundary = run_segment(loaded, range, index, place, backend, observe, cancelled)
        boundaries.append(boundary)
        if on_boundary is not None:
            on_boundary(boundary, place.global_state, place.local_state)
    result = replay_update(loaded, start.global_state, place.global_state, place.local_state)
    return TrainedShare(
        tuple(boundaries),
        result.update,
        result.update_root,
        place.global_state,
        place.local_state,
        result.local_out_root,
    )


_indices = range  # the parameter of train_share has the same name
