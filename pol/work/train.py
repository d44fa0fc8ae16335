"""Training a share: the steps of a slot in a round, with a boundary after each segment, and the update they make.

At the end of a round the accepted updates, in slot order, make the next global state.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from domain.hashing import merkle_root
from pol.errors import (
    AggregationFailed,
    NotFinite,
    OutOfRange,
    RangeError,
    ReplayError,
    UpdateFailed,
)
from pol.executor.interface import Backend, run
from pol.job.document import DIFFERENCE
from pol.job.load import LoadedJob
from pol.state.arrays import Array, State, canonical_array
from pol.state.canonical import StateTree, state_tree
from pol.values import TensorSpec
from pol.work.aside import Aside, AtOnce
from pol.work.records import AggregateResult, Boundary, RoundSlot, TrainedShare, UpdateResult
from pol.work.segments import (
    SlotState,
    boundary_step,
    check_part,
    check_specs,
    check_state,
    merged,
    run_steps,
    slot_state,
)


def train_share(
    loaded: LoadedJob,
    part: RoundSlot,
    opening: State,
    local: State,
    *,
    backend: Backend,
    on_boundary: Callable[[Boundary, State, State], None] | None = None,
    on_step: Callable[[int, float], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TrainedShare:
    """Train a slot's steps of a round from the global state of the last round and the slot's local state.

    ``on_boundary`` gets every boundary as it is reached, with the global and local state there, which are overwritten
    when it has returned; ``on_step`` the number of each step and its loss; ``cancelled`` is asked before each step, and
    True ends in Cancelled.

    Raises RangeError when the job has no such round or slot, StateError when an opening state does not have the job's
    tensors, and Stopped when a step or the update has no result: boundaries up to there were reached.
    """
    check_part(loaded.job.document, part)
    start = slot_state(loaded, opening, local)
    boundaries: list[Boundary] = []

    def reached(boundary: Boundary, global_state: State, local_state: State) -> None:
        boundaries.append(boundary)
        if on_boundary is not None:
            on_boundary(boundary, global_state, local_state)

    zero = _at_opening(loaded, part, start)
    reached(zero, start.global_state, start.local_state)
    segments = range(loaded.job.document.share_segments)
    end = _go_on(loaded, part, segments, start, backend, reached, on_step, cancelled, AtOnce())
    result = share_update(loaded, opening, end)
    return TrainedShare(
        boundaries=tuple(boundaries),
        update=result.update,
        update_root=result.update_root,
        global_out=end.global_state,
        local_out=end.local_state,
        local_out_root=result.local_out_root,
    )


def opening_boundary(loaded: LoadedJob, part: RoundSlot, start: SlotState) -> Boundary:
    """Return boundary 0 of a share; raises as :func:`train_share`."""
    check_part(loaded.job.document, part)
    return _at_opening(loaded, part, start)


def train_segments(
    loaded: LoadedJob,
    part: RoundSlot,
    segments: range,
    start: SlotState,
    *,
    backend: Backend,
    on_boundary: Callable[[Boundary, State, State], None],
    on_step: Callable[[int, float], None] | None = None,
    aside: Aside | None = None,
) -> SlotState:
    """Train some segments of a share, one after another, from the states at which the first of them begins.

    So training goes on from the last boundary of an earlier try. Nobody may use ``start`` any more. ``on_boundary``
    gets the end of each segment, with states that are overwritten when it has returned. Returns the states at the end
    of the last one; raises as :func:`train_share`.

    Each boundary is hashed, and ``on_boundary`` called, ``aside``: beside the next step, as far as that only reads the
    states. What was begun there before reads ``start``, and is waited for alike. Nothing is being done there any more
    when this returns or raises; ``on_step`` is called while nothing is.
    """
    check_part(loaded.job.document, part)
    if not set(segments) <= set(range(loaded.job.document.share_segments)):
        raise RangeError(f"{segments} is outside a share's segments")
    doing = aside or AtOnce()
    return _go_on(loaded, part, segments, start, backend, on_boundary, on_step, None, doing)


def _at_opening(loaded: LoadedJob, part: RoundSlot, start: SlotState) -> Boundary:
    return start.boundary(0, boundary_step(loaded.job.document, part.round, 0), ())


def _go_on(
    loaded: LoadedJob,
    part: RoundSlot,
    segments: range,
    state: SlotState,
    backend: Backend,
    on_boundary: Callable[[Boundary, State, State], None],
    on_step: Callable[[int, float], None] | None,
    cancelled: Callable[[], bool] | None,
    aside: Aside,
) -> SlotState:
    def observe(step: int, loss: float, _state: SlotState) -> None:
        if on_step is not None:
            on_step(step, loss)

    def at_boundary(index: int, state: SlotState, metrics: tuple[int, ...]) -> None:
        step = boundary_step(loaded.job.document, part.round, index)
        on_boundary(state.boundary(index, step, metrics), state.global_state, state.local_state)

    try:
        for index in segments:
            state, metrics = run_steps(loaded, part, index, state, backend, observe, cancelled, True, aside.finish)
            aside.begin(partial(at_boundary, index + 1, state, metrics))
    finally:
        aside.finish()
    return state


def share_update(loaded: LoadedJob, opening: State, end: SlotState) -> UpdateResult:
    """Return what follows from the first and the last boundary of a share: its update and its next local state.

    The update holds the tensors that a step changes: those of the closing state, which it shares, or opening less
    closing, as the job says (:func:`is_difference`: nothing else is read of ``opening``). What is hashed of ``end`` is
    not hashed again. Raises StateError when a state does not have the job's tensors, and UpdateFailed when a difference
    overflows.
    """
    document = loaded.job.document
    check_specs(opening, document.global_tensors, "opening state")
    check_specs(end.global_state, document.global_tensors, "closing state")
    check_specs(end.local_state, document.local_tensors, "local state")
    names = sorted(spec.name for spec in loaded.job.updated)
    closing, (tree, local) = end.global_state, end.trees
    if is_difference(loaded):
        update = {name: _difference(opening[name], closing[name], name) for name in names}
        return UpdateResult(update, state_tree(update).root, local.root)
    update = {name: closing[name] for name in names}
    return UpdateResult(update, state_tree(update, tree.tensors).root, local.root)


def is_difference(loaded: LoadedJob) -> bool:
    """Tell whether an update is what training took from the opening state, and not the state that it came to."""
    return loaded.job.document.aggregation == DIFFERENCE


def _difference(opening: Array, closing: Array, name: str) -> Array:
    with np.errstate(over="ignore"):
        values = opening - closing
    try:
        difference = canonical_array(values, name)
    except NotFinite as error:
        raise UpdateFailed(error.field, error.reason) from None
    difference.flags.writeable = False
    return difference


# --- the end of a round --------------------------------------------------------------------------


def mean(updates: Iterable[State], specs: Sequence[TensorSpec], slots: int) -> dict[str, Array]:
    """Return the aggregate: each tensor's FP64 sum in the order of the updates, / their number, to FP32.

    The updates are taken one by one, and none is kept: with many slots of a large model they do not fit together.
    Raises ReplayError unless there are ``slots`` of them, and StateError when one has other tensors than ``specs``.
    """
    sums = {spec.name: np.zeros(spec.shape, np.float64) for spec in specs}
    count = 0
    for update in updates:
        check_specs(update, specs, "update")
        for name, total in sums.items():
            np.add(total, canonical_array(update[name], name), out=total)
        count += 1
        # else it lives on while the next one is read
        del update
    if count != slots:
        raise ReplayError(f"a round needs one update for each of {slots} slots, not {count}")
    result = {}
    for spec in specs:
        total = sums.pop(spec.name)
        np.divide(total, np.float64(count), out=total)
        result[spec.name] = total.astype(np.float32)
    return result


def tensor_roots(tree: StateTree) -> tuple[tuple[str, bytes], ...]:
    """Return name and Merkle root of the chunks of each tensor that has elements."""
    return tuple((name, merkle_root(leaves)) for name, leaves in tree.tensors.items() if leaves)


def aggregate(loaded: LoadedJob, opening: State, updates: Iterable[State], backend: Backend) -> AggregateResult:
    """Return the global state that a round ends in, from the one that it began with.

    ``updates`` are those of the accepted shares, one for each slot of the job, in slot order; the order is part of the
    rule. Each may be made or read when it is asked for: see :func:`mean`. The job's ``outer`` runs on ``backend``.

    Raises ReplayError when there is not one update for each slot, StateError when a state does not have the
    job's tensors, and AggregationFailed when there is no next state: not finite, or a row that is not there.
    """
    document = loaded.job.document
    # a copy, which is nobody's but ours
    start = check_state(opening, document.global_tensors, "opening state")
    inputs: dict[str, Array] = {f"global.{name}": array for name, array in start.items()}
    # an infinite mean has no next state
    with np.errstate(over="ignore"):
        averaged = mean(updates, loaded.job.updated, document.slots)
    inputs.update({f"aggregate.{name}": array for name, array in averaged.items()})
    try:
        outputs = run(document.outer, inputs, document.seed, backend, donated=tuple(inputs))
    except (NotFinite, OutOfRange) as error:
        raise AggregationFailed(error.field, error.reason) from None
    state = merged(start, outputs, "global.")
    tree = state_tree(state)
    return AggregateResult(state=state, root=tree.root, count=tree.count, tensor_roots=tensor_roots(tree))
