"""Training a share: the steps of a range, with a boundary after each segment, and the update that they make."""

from collections.abc import Callable

import numpy as np

from pol.executor.interface import Backend
from pol.job.load import LoadedJob
from pol.state.arrays import State, canonical_array
from pol.state.canonical import state_tree
from pol.work.records import Boundary, Samples, TrainedShare, UpdateResult
from pol.work.segments import SlotState, check_range, check_state, run_segment, slot_state


def train_share(
    loaded: LoadedJob,
    part: Samples,
    opening: State,
    local: State,
    *,
    backend: Backend,
    on_boundary: Callable[[Boundary, State, State], None] | None = None,
    on_step: Callable[[int, float], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TrainedShare:
    """Train a range from the global state of the last round and the slot's local state.

    ``on_boundary`` gets every boundary as it is reached, with the global and local state there (read-only);
    ``on_step`` the number of each step and its loss; ``cancelled`` is asked before each step, and True ends in
    Cancelled.

    Raises RangeError when the range is not one of the job's, StateError when an opening state does not have the job's
    tensors, and NotFiniteStep or StepFailed when a step has no result.
    """
    document = loaded.job.document
    count = check_range(document, part)
    state = start = slot_state(loaded, opening, local)
    first = part.round * document.samples_per_round + part.first
    boundaries: list[Boundary] = []

    def reached(boundary: Boundary) -> None:
        boundaries.append(boundary)
        if on_boundary is not None:
            on_boundary(boundary, state.global_state, state.local_state)

    def observe(step: int, loss: float, _state: SlotState) -> None:
        if on_step is not None:
            on_step(step, loss)

    reached(start.boundary(0, first // document.batch, ()))
    for index in range(count):
        state, boundary = run_segment(loaded, part, index, state, backend, observe, cancelled)
        reached(boundary)
    result = share_update(loaded, start.global_state, state.global_state, state.local_state)
    return TrainedShare(
        tuple(boundaries),
        result.update,
        result.update_root,
        state.global_state,
        state.local_state,
        result.local_out_root,
    )


def share_update(
    loaded: LoadedJob, opening: State, closing: State, local_out: State
) -> UpdateResult:
    """Return what follows from the first and the last boundary of a share: its update and its next local state.

    Raises StateError when a state does not have the job's tensors, and NotFinite when a difference overflows.
    """
    document = loaded.job.document
    first = check_state(opening, document.global_tensors, "opening state")
    last = check_state(closing, document.global_tensors, "closing state")
    local = check_state(local_out, document.local_tensors, "local state")
    update = {}
    for spec in loaded.job.updated:
        # an infinite difference ends in NotFinite
        with np.errstate(over="ignore"):
            difference = first[spec.name] - last[spec.name]
        update[spec.name] = canonical_array(difference, spec.name)
        update[spec.name].flags.writeable = False
    return UpdateResult(update, state_tree(update).root, state_tree(local).root)
