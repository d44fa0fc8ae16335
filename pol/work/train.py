"""The training of a share. The training of a slot in a round results in a boundary after each segment, and in an update
at the end.

At the end of a round, the next global state is computed from the accepted updates, in slot order.
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
    """Train a share, from the global state at the end of the previous round and from the slot's local state.

    ``on_boundary`` receives every boundary with its global and local state, which are valid only during the call.
    ``on_step`` receives the number and the loss of each step. ``cancelled`` is called before each step; if it returns
    True, the training ends with Cancelled.

    Raises RangeError if the job has no such round or slot, and StateError if an initial state does not have the job's
    tensors. Raises Stopped if a step or the update has no result, after ``on_boundary`` was called for all boundaries
    before it.
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
    """Return boundary 0 of a share, whose states are ``start``. Raises the same errors as :func:`train_share`."""
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
    """Train some segments of a share, one after another. Return the states at the end of the last segment.

    ``start`` holds the states at the start of the first of these segments. Training can therefore go on from the last
    boundary of an interrupted try. Training overwrites ``start``; the caller may not use it afterwards. ``on_boundary``
    receives the boundary after each segment, with states that are valid only during the call. Raises the same errors as
    :func:`train_share`.

    The hashing of each boundary and the call of ``on_boundary`` run in ``aside``, while the next step only reads the
    states. If the caller began work in ``aside`` earlier, that work may read ``start``: this function waits for it in
    the same way. All work in ``aside`` has ended when ``on_step`` is called, and when this function returns or raises.
    """
    check_part(loaded.job.document, part)
    if not set(segments) <= set(range(loaded.job.document.share_segments)):
        raise RangeError(f"{segments} is outside a share's segments")
    runner = aside or AtOnce()
    return _go_on(loaded, part, segments, start, backend, on_boundary, on_step, None, runner)


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
    """Return the update of a share and its root, and the root of the local state at the share's end.

    The update holds the tensors that a step changes. Depending on the job's ``aggregation``, the update holds the
    tensors of ``end``, which are not copied, or the differences ``opening`` - ``end`` (:func:`is_difference`). Hashes
    of ``end`` that are already known are reused. Raises StateError if a state does not have the job's tensors, and
    UpdateFailed if a difference overflows.
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
    """Return whether the job's updates hold differences. Otherwise they hold the tensors at the end of the share."""
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
    """Return the mean of the updates.

    Each tensor is summed in FP64 in the order of the updates, divided, and rounded to FP32. The updates are read one by
    one and none is kept, since the updates of many slots might not fit into memory together. Raises ReplayError if
    there are not exactly ``slots`` updates, and StateError if an update has other tensors than ``specs``.
    """
    sums = {spec.name: np.zeros(spec.shape, np.float64) for spec in specs}
    count = 0
    for update in updates:
        check_specs(update, specs, "update")
        for name, total in sums.items():
            np.add(total, canonical_array(update[name], name), out=total)
        count += 1
        # Without this, the update would stay in memory while the next one is read.
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
    """Return a pair for each tensor that has elements: its name, and the Merkle root of its chunks."""
    return tuple((name, merkle_root(leaves)) for name, leaves in tree.tensors.items() if leaves)


def aggregate_inputs(
    loaded: LoadedJob, opening: State, updates: Iterable[State]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return a copy of the state before an aggregation, and the inputs of ``outer``: that state and the mean update.

    The program may overwrite both. Raises ReplayError if there is not one update per slot, and StateError if a state
    does not have the job's tensors.
    """
    document = loaded.job.document
    start = check_state(opening, document.global_tensors, "opening state")
    inputs: dict[str, Array] = {f"global.{name}": array for name, array in start.items()}
    # A mean may overflow to infinity, which is refused with the outputs.
    with np.errstate(over="ignore"):
        averaged = mean(updates, loaded.job.updated, document.slots)
    inputs.update({f"aggregate.{name}": array for name, array in averaged.items()})
    return start, inputs


def aggregate(loaded: LoadedJob, opening: State, updates: Iterable[State], backend: Backend) -> AggregateResult:
    """Return the global state at the end of a round.

    It is computed from the state at the round's beginning and the updates. ``updates`` are the updates of the accepted
    shares, one per slot of the job, in slot order; the order affects the result. The iterable may compute or read each
    update on demand (see :func:`mean`). The job's ``outer`` runs on ``backend``.

    Raises ReplayError if there is not one update per slot, StateError if a state does not have the job's tensors, and
    AggregationFailed if there is no next state: a number is not finite, or a row number does not exist.
    """
    document = loaded.job.document
    start, inputs = aggregate_inputs(loaded, opening, updates)
    try:
        outputs = run(document.outer, inputs, document.seed, backend, donated=tuple(inputs))
    except (NotFinite, OutOfRange) as error:
        raise AggregationFailed(error.field, error.reason) from None
    state = merged(start, outputs, "global.")
    tree = state_tree(state)
    return AggregateResult(state=state, root=tree.root, count=tree.count, tensor_roots=tensor_roots(tree))
