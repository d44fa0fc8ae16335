"""What training and replay take and return."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from domain import bounds
from domain.bounds import Bits, Count, Hash, Length
from domain.proof.records import TraceLeaf

# A daemon reads these records, and does without NumPy.
if TYPE_CHECKING:
    from pol.state.arrays import State


_LIST_MAX = 1024
"""In a list of metrics that is read back: more than a job has."""

Step = Annotated[int, bounds.Range(0, 2**63 - 1)]
"""The number of an inner step of the job."""


@dataclass(frozen=True, slots=True)
class RoundSlot:
    """What a share trains: one slot of the job in one round, both numbered from 0."""

    round: int
    slot: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """A boundary state as training or replay computed it, by its roots.

    ``index`` is 0 for the opening state and n for the closing one; ``step`` is the number of the job's first inner step
    after it; ``root`` is ``pol.rules.commitment.boundary_root`` of the two states' roots and ``metrics``: FP32 bit
    patterns of each metric's mean over the segment before it, in name order; none at 0.
    """

    index: Count
    step: Step
    global_root: Hash
    local_root: Hash
    root: Hash
    metrics: Annotated[tuple[Bits, ...], Length(0, _LIST_MAX)]

    @property
    def leaf(self) -> TraceLeaf:
        """What the trace states of it, unless it is boundary 0."""
        return TraceLeaf(self.index, self.step, self.root)


@dataclass(frozen=True)
class UpdateResult:
    """What follows from a share's first and last boundary: the update, and both roots."""

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
class ReplayedSegment:
    """A replayed segment: the boundary that it ends in, and the states there."""

    boundary: Boundary
    global_state: "State"
    local_state: "State"


@dataclass(frozen=True)
class AggregateResult:
    """The end of a round: the next global state, its root and its number of chunks.

    ``tensor_roots`` has name and Merkle root of the chunks of each tensor that has elements, in name order.
    """

    state: "State"
    root: bytes
    count: int
    tensor_roots: tuple[tuple[str, bytes], ...]
