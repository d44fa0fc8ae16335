"""The end of a round: the accepted updates in slot order to the next global state."""

from collections.abc import Sequence

import numpy as np

from domain.hashing import merkle_root
from pol.errors import ReplayError
from pol.executor.interface import Backend, run
from pol.job.load import LoadedJob
from pol.state.arrays import Array, State
from pol.state.canonical import StateTree, state_specs, state_tree
from pol.state.layout import tensor_chunks
from pol.work.records import AggregateResult
from pol.work.segments import check_state, merged


def weighted_mean(updates: Sequence[tuple[int, State]], name: str) -> Array:
    """Return one tensor of the aggregate: FP64 sum of count x update in the given order, / total, to FP32."""
    total = np.float64(sum(count for count, _ in updates))
    first = updates[0][1][name]
    running = np.zeros(first.shape, np.float64)
    for count, update in updates:
        running = running + update[name].astype(np.float64) * np.float64(count)
    return np.asarray((running / total).astype(np.float32))


def tensor_roots(state: State, tree: StateTree) -> tuple[tuple[str, bytes], ...]:
    """Return name and Merkle root of the chunks of each tensor that has elements."""
    # chunk 0 is the header
    result, at = [], 1
    for spec in sorted(state_specs(state), key=lambda spec: spec.name.encode()):
        count = tensor_chunks(spec)
        if count:
            result.append((spec.name, merkle_root(tree.leaves[at : at + count])))
        at += count
    return tuple(result)


def aggregate(
    loaded: LoadedJob, opening: State, updates: Sequence[tuple[int, State]], backend: Backend
) -> AggregateResult:
    """Return the global state that a round ends in, from the one that it began with.

    ``updates`` are (number of samples, update) of every accepted share, in slot order; the order is part of the rule.
    The job's ``outer`` runs on ``backend``.

    Raises ReplayError when there is no update or a count is not positive, StateError when a state does not have the
    job's tensors, and NotFinite when the next state holds NaN or infinity.
    """
    document = loaded.job.document
    if not updates or any(count < 1 for count, _ in updates):
        raise ReplayError("a round needs updates of at least one sample each")
    start = check_state(opening, document.global_tensors, "opening state")
    checked = [
        (count, check_state(update, loaded.job.updated, "update")) for count, update in updates
    ]
    inputs: dict[str, Array] = {f"global.{name}": array for name, array in start.items()}
    # an infinite mean ends in NotFinite below
    with np.errstate(over="ignore"):
        for spec in loaded.job.updated:
            inputs[f"aggregate.{spec.name}"] = weighted_mean(checked, spec.name)
    outputs = run(document.outer, inputs, document.seed, backend)
    state = merged(start, outputs, "global.")
    tree = state_tree(state)
    return AggregateResult(state, tree.root, tree.count, tensor_roots(state, tree))
