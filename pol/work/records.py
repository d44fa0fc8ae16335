"""The records that training and replay take as arguments and return."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from domain import bounds
from domain.bounds import Bits, Count, Hash, Length
from domain.proof.records import TraceLeaf

# The daemons import these records without NumPy.
if TYPE_CHECKING:
    from pol.state.arrays import State


_LIST_MAX = 1024
"""Largest number of metrics in a record that is read; no job has more."""

Step = Annotated[int, bounds.Range(0, 2**63 - 1)]
"""The number of an inner step of the job."""


@dataclass(frozen=True, slots=True)
class RoundSlot:
    """The round and the slot of a share, both numbered from 0."""

    round: int
    slot: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """The roots and the metrics of the states at a boundary, as training or replay computed them.

    ``index`` is 0 at the beginning of a share and n at its end. ``step`` is the number of the job's first inner step
    after the boundary. ``metrics`` holds the mean of each metric over the segment before the boundary, as FP32 bit
    patterns in name order. Boundary 0 has no metrics. ``root`` is ``pol.rules.commitment.boundary_root`` of the two
    roots and the metrics.
    """

    index: Count
    step: Step
    global_root: Hash
    local_root: Hash
    root: Hash
    metrics: Annotated[tuple[Bits, ...], Length(0, _LIST_MAX)]

    @property
    def leaf(self) -> TraceLeaf:
        """The leaf of this boundary in the trace. Boundary 0 is not a leaf."""
        return TraceLeaf(self.index, self.step, self.root)


@dataclass(frozen=True)
class UpdateResult:
    """The update of a share and the slot's local state after the round, with their roots.

    The local state is that of the share's last boundary, unless the job's program ``close`` changes it.
    """

    update: "State"
    update_root: bytes
    local_out: "State"
    local_out_root: bytes


@dataclass(frozen=True)
class TrainedShare:
    """The result of training a share: all its boundaries, its update, the global state at its last boundary, and the
    local state after the round.
    """

    boundaries: tuple[Boundary, ...]
    update: "State"
    update_root: bytes
    global_out: "State"
    local_out: "State"
    local_out_root: bytes


@dataclass(frozen=True)
class ReplayedSegment:
    """The result of replaying a segment: the boundary at the segment's end, and the states at this boundary."""

    boundary: Boundary
    global_state: "State"
    local_state: "State"


@dataclass(frozen=True)
class AggregateResult:
    """The result of an aggregation: the next global state, its root, and its number of chunks (``count``).

    ``tensor_roots`` holds the name and the Merkle root of the chunks of each tensor that has elements, in name order.
    """

    state: "State"
    root: bytes
    count: int
    tensor_roots: tuple[tuple[str, bytes], ...]
