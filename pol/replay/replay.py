"""Replaying one place of a share from the job and two opening states; nothing else of the prover's is used."""

import numpy as np

from pol.executor.backend import Backend
from pol.job.load import LoadedJob
from pol.state.arrays import State, canonical_array
from pol.state.canonical import state_tree
from pol.work.records import Range, RangeError, Replayed, UpdateResult
from pol.work.segments import Place, check_range, check_state, opening_place, run_segment


def replay_segment(
    loaded: LoadedJob, range: Range, index: int, opening: State, local: State, backend: Backend
) -> Replayed:
    """Take the steps of segment ``index`` of a range from the states at its beginning.

    Raises:
        RangeError: there is no such segment.
        StateError: a state does not have the job's tensors.
        NotFiniteStep, StepFailed: a step has no result, so no honest trace goes through it.
    """
    count = check_range(loaded.job.document, range)
    if not 0 <= index < count:
        raise RangeError(f"Segment {index} is outside a range of {count} segments.")
    roots: list[bytes] = []

    def observe(_step: int, _loss: float, place: Place) -> None:
        roots.append(place.root)

    start = opening_place(loaded, opening, local)
    place, boundary = run_segment(loaded, range, index, start, backend, observe)
    return Replayed(boundary, tuple(roots), place.global_state, place.local_state)


def replay_update(
    loaded: LoadedJob, opening: State, closing: State, local_out: State
) -> UpdateResult:
    """Return what follows from the first and the last boundary of a share: its update and its next local state.

    Raises:
        StateError: a state does not have the job's tensors.
        NotFinite: a difference overflows.
    """
    document = loaded.job.document
    first = check_state(opening, document.global_tensors, "opening state")
    last = check_state(closing, document.global_tensors, "closing state")
    local = check_state(local_out, document.local_tensors, "local state")
    update = {}
    for spec in loaded.job.updated:
        with np.errstate(over="ignore"):  # an infinite difference ends in NotFinite
            difference = first[spec.name] - last[spec.name]
        update[spec.name] = canonical_array(difference, spec.name)
        update[spec.name].flags.writeable = False
    return UpdateResult(update, state_tree(update).root, state_tree(local).root)
