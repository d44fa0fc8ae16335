"""What training and replay return, and how they fail."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from domain.errors import Expected

# A daemon reads these records, and does without NumPy.
if TYPE_CHECKING:
    from pol.state.arrays import State


@dataclass(frozen=True, slots=True)
class Range:
    """The samples of a share: ``count`` positions from ``first`` on, inside ``round``."""

    round: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """A boundary state of a trace, by its roots.

    Args:
        index: 0 for the opening state, n for the closing one.
        step: the job's global batch number of the first step after it.
        global_root, local_root: roots of the two states.
        root: ``pol.rules.commitment.boundary_root`` of them.
        metrics: FP32 bit patterns of each metric's mean over the segment before it, in name order; none at 0.
    """

    index: int
    step: int
    global_root: bytes
    local_root: bytes
    root: bytes
    metrics: tuple[int, ...]


@dataclass(frozen=True)
class UpdateResult:
    """The last place of a trace: the update (opening less closing) and the root of the slot's next local state."""

    update: "State"
    update_root: bytes
    local_out_root: bytes


@dataclass(frozen=True)
class TrainedShare:
    """A trained share: all boundaries, the update, and both closing states."""

    boundaries: tuple[Boundary, ...]
    update: "State"
    update_root: bytes
    global_out: "State"
    local_out: "State"
    local_out_root: bytes


@dataclass(frozen=True)
class Replayed:
    """A replayed segment.

    Args:
        boundary: the boundary that the segment ends in.
        step_roots: boundary root after each of its steps (the last one is ``boundary.root``).
        global_state, local_state: the states there.
    """

    boundary: Boundary
    step_roots: tuple[bytes, ...]
    global_state: "State"
    local_state: "State"


@dataclass(frozen=True)
class AggregateResult:
    """The end of a round.

    Args:
        state: the next global state.
        root, count: its root and number of chunks.
        tensor_roots: name and Merkle root of the chunks of each tensor that has elements, in name order.
    """

    state: "State"
    root: bytes
    count: int
    tensor_roots: tuple[tuple[str, bytes], ...]


class ReplayError(Expected):
    """Training or replay cannot go on; the same on every machine.

    Args:
        reason: one sentence.
    """


class RangeError(ReplayError):
    """A range or a segment's index is not one of the job's."""


class StepFailed(ReplayError):
    """A step has no result.

    Args:
        reason: one sentence.
        step: its global batch number.
        where: the tensor or node.
    """

    def __init__(self, reason: str, step: int, where: str) -> None:
        super().__init__(reason, field=f"step {step}, {where}")
        self.step, self.where = step, where


class NotFiniteStep(StepFailed):
    """A step's result holds NaN or infinity."""


class Cancelled(ReplayError):
    """The caller asked for an end."""

    def __init__(self, reason: str = "Training was cancelled.") -> None:
        super().__init__(reason)
