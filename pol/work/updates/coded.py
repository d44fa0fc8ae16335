"""Updates that the job's own program ``close`` computes, such as a few large differences in packed form.

The codes are the job's arithmetic: every machine computes the same bits, and ``outer`` gets the codes of all slots.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from pol.errors import NotFinite, OutOfRange, ReplayError, UpdateFailed
from pol.executor.interface import Backend, run
from pol.job.load import LoadedJob
from pol.job.updates import END, LOCAL, OPENING, UPDATE, UPDATES
from pol.state.arrays import NUMPY_DTYPES, Array, State, canonical_array
from pol.state.canonical import state_tree
from pol.values import TensorSpec
from pol.work.records import UpdateResult
from pol.work.segments import SlotState, check_specs


def close_inputs(opening: State, end: SlotState) -> dict[str, Array]:
    """Return the inputs of ``close``: the global state at the round's beginning, and both states at its end."""
    parts = ((OPENING, opening), (END, end.global_state), (LOCAL, end.local_state))
    return {f"{prefix}.{name}": array for prefix, state in parts for name, array in state.items()}


def closed(end: SlotState, outputs: dict[str, Array]) -> UpdateResult:
    """Return the update and the local state that the ``outputs`` of ``close`` make, with their roots.

    ``outputs`` are in canonical form.
    """
    update, local = {}, {}
    for name, array in outputs.items():
        array.setflags(write=False)
        part, _, tensor = name.partition(".")
        if part == UPDATE:
            update[tensor] = array
        elif part == LOCAL:
            local[tensor] = array
    local_out = {**end.local_state, **local}
    known = {name: leaves for name, leaves in end.known_local_leaves.items() if name not in local}
    return UpdateResult(
        update=update,
        update_root=state_tree(update, canonical=update).root,
        local_out=local_out,
        local_out_root=state_tree(local_out, known, canonical=local).root,
    )


def encode_coded(loaded: LoadedJob, opening: State, end: SlotState, backend: Backend) -> UpdateResult:
    """Run ``close`` and return its update, and the local state with the tensors that it changes."""
    document = loaded.job.document
    assert document.close is not None
    try:
        outputs = run(document.close, close_inputs(opening, end), document.seed, backend)
    except (NotFinite, OutOfRange) as error:
        raise UpdateFailed(error.field, error.reason) from None
    return closed(end, outputs)


def stacks(specs: Sequence[TensorSpec], slots: int, updates: Iterable[State]) -> dict[str, Array]:
    """Return each of the tensors ``specs`` of all updates as one array, whose first dimension is the slot."""
    stacked = {spec.name: np.empty((slots, *spec.shape), NUMPY_DTYPES[spec.dtype]) for spec in specs}
    count = 0
    for update in updates:
        check_specs(update, specs, "update")
        for name, array in stacked.items() if count < slots else ():
            array[count] = canonical_array(update[name], name)
        count += 1
        del update
    if count != slots:
        raise ReplayError(f"a round needs one update for each of {slots} slots, not {count}")
    return {f"{UPDATES}.{name}": array for name, array in stacked.items()}
