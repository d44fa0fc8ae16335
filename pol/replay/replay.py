"""Replaying a segment of a share from the job and two opening states; nothing else of the prover's is used."""

from pol.errors import RangeError
from pol.executor.interface import Backend
from pol.job.load import LoadedJob
from pol.state.arrays import State
from pol.work.records import ReplayedSegment, Samples
from pol.work.segments import SlotState, check_range, run_segment, slot_state


def replay_segment(
    loaded: LoadedJob, part: Samples, index: int, opening: State, local: State, backend: Backend
) -> ReplayedSegment:
    """Take the steps of segment ``index`` of a range from the states at its beginning.

    Raises RangeError when there is no such segment, StateError when a state does not have the job's tensors, and
    NotFiniteStep or StepFailed when a step has no result, so that no honest trace goes through it.
    """
    count = check_range(loaded.job.document, part)
    if not 0 <= index < count:
        raise RangeError(f"segment {index} is outside a range of {count} segments")
    roots: list[bytes] = []

    def observe(_step: int, _loss: float, state: SlotState) -> None:
        roots.append(state.root)

    start = slot_state(loaded, opening, local)
    end, boundary = run_segment(loaded, part, index, start, backend, observe)
    return ReplayedSegment(boundary, tuple(roots), end.global_state, end.local_state)
