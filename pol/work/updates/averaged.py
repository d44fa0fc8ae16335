"""Updates that are averaged over the slots: a slot's tensors at the end of a round, or how far they moved."""

from collections.abc import Iterable, Sequence

import numpy as np

from pol.errors import NotFinite, ReplayError, UpdateFailed
from pol.executor.interface import Backend
from pol.job.load import LoadedJob
from pol.job.updates import AGGREGATE
from pol.state.arrays import Array, State, canonical_array
from pol.state.canonical import state_tree
from pol.values import TensorSpec
from pol.work.records import UpdateResult
from pol.work.segments import SlotState, check_specs


def encode_closing(loaded: LoadedJob, opening: State, end: SlotState, backend: Backend) -> UpdateResult:
    """Return the tensors at the end of a share, which are not copied. Hashes that are already known are reused."""
    del opening, backend
    tree, local = end.trees
    update = {spec.name: end.global_state[spec.name] for spec in loaded.job.update_tensors}
    return UpdateResult(
        update=update,
        update_root=state_tree(update, tree.tensors).root,
        local_out=end.local_state,
        local_out_root=local.root,
    )


def encode_difference(loaded: LoadedJob, opening: State, end: SlotState, backend: Backend) -> UpdateResult:
    """Return the differences ``opening`` - ``end``."""
    del backend
    names = (spec.name for spec in loaded.job.update_tensors)
    try:
        update = {name: difference(opening[name], end.global_state[name], name) for name in names}
    except NotFinite as error:
        raise UpdateFailed(error.field, error.reason) from None
    return UpdateResult(
        update=update,
        update_root=state_tree(update).root,
        local_out=end.local_state,
        local_out_root=end.local_tree.root,
    )


def difference(opening: Array, closing: Array, name: str) -> Array:
    """Return a tensor of the differences. Raises NotFinite if one of them overflows."""
    with np.errstate(over="ignore"):
        result = canonical_array(opening - closing, name)
    result.flags.writeable = False
    return result


def closing_tensor(opening: Array, closing: Array, name: str) -> Array:
    """Return a tensor at the end of a share."""
    del opening, name
    return closing


def means(specs: Sequence[TensorSpec], slots: int, updates: Iterable[State]) -> dict[str, Array]:
    """Return the mean of each of the tensors ``specs``, under the name that ``outer`` has for it."""
    # A mean may overflow to infinity, which is refused with the outputs.
    with np.errstate(over="ignore"):
        averaged = mean(updates, specs, slots)
    return {f"{AGGREGATE}.{name}": array for name, array in averaged.items()}


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
