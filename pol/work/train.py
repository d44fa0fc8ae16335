"""The training of a share. The training of a slot in a round results in a boundary after each segment, and in an update
at the end.

At the end of a round, the next global state is computed from the accepted updates, in slot order.
"""

from collections.abc import Callable, Iterable
from functools import partial

from domain.hashing import merkle_root
from pol.errors import (
    AggregationFailed,
    NotFinite,
    OutOfRange,
    RangeError,
)
from pol.executor.interface import Backend, run
from pol.job.load import LoadedJob
from pol.state.arrays import Array, State
from pol.state.canonical import StateTree, state_tree
from pol.work.aside import Aside, AtOnce
from pol.work.places import boundary_step, check_part
from pol.work.records import AggregateResult, Boundary, RoundSlot, TrainedShare, UpdateResult
from pol.work.segments import SlotState, check_specs, check_state, merged, run_steps, slot_state
from pol.work.updates.table import codec_of


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
    segment_backend: Backend | None = None,
) -> TrainedShare:
    """Train a share, from the global state at the end of the previous round and from the slot's local state.

    ``segment_backend`` runs the steps, if it is given, and ``backend`` the update.
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
    end = _go_on(loaded, part, segments, start, segment_backend or backend, reached, on_step, cancelled, AtOnce())
    result = share_update(loaded, opening, end, backend)
    return TrainedShare(
        boundaries=tuple(boundaries),
        update=result.update,
        update_root=result.update_root,
        global_out=end.global_state,
        local_out=result.local_out,
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


def share_update(loaded: LoadedJob, opening: State, end: SlotState, backend: Backend) -> UpdateResult:
    """Return the update of a share and the slot's local state after the round, with their roots.

    ``opening`` is the global state at the round's beginning, and ``end`` are the states at the share's last boundary.
    Depending on the job's kind of update, ``backend`` runs its program ``close``. Hashes of ``end`` that are already
    known are reused. Raises StateError if a state does not have the job's tensors, and UpdateFailed if the update has
    no result.
    """
    document = loaded.job.document
    check_specs(opening, document.global_tensors, "opening state")
    check_specs(end.global_state, document.global_tensors, "closing state")
    check_specs(end.local_state, document.local_tensors, "local state")
    return codec_of(document).encode(loaded, opening, end, backend)


# --- the end of a round --------------------------------------------------------------------------


def tensor_roots(tree: StateTree) -> tuple[tuple[str, bytes], ...]:
    """Return a pair for each tensor that has elements: its name, and the Merkle root of its chunks."""
    return tuple((name, merkle_root(leaves)) for name, leaves in tree.tensors.items() if leaves)


def aggregate_inputs(
    loaded: LoadedJob, opening: State, updates: Iterable[State]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return a copy of the state before an aggregation, and the inputs of ``outer``: that state, and what the updates
    of all slots are combined to.

    The program may overwrite both. Raises ReplayError if there is not one update per slot, and StateError if a state
    does not have the job's tensors.
    """
    document = loaded.job.document
    start = check_state(opening, document.global_tensors, "opening state")
    inputs: dict[str, Array] = {f"global.{name}": array for name, array in start.items()}
    inputs.update(codec_of(document).combine(loaded.job.update_tensors, document.slots, updates))
    return start, inputs


def aggregate(loaded: LoadedJob, opening: State, updates: Iterable[State], backend: Backend) -> AggregateResult:
    """Return the global state at the end of a round.

    It is computed from the state at the round's beginning and the updates. ``updates`` are the updates of the accepted
    shares, one per slot of the job, in slot order; the order affects the result. The iterable may compute or read each
    update on demand. The job's ``outer`` runs on ``backend``.

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
