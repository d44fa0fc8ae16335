"""What training and replay take and return."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from domain import bounds
from domain.bounds import Bits, Count, Hash, Length

# A daemon reads these records, and does without NumPy.
if TYPE_CHECKING:
    from pol.state.arrays import State


METRICS_MAX = 1024
"""More metrics than a job has."""

Position = Annotated[int, bounds.Range(0, 2**63 - 1)]
"""A position in the job's stream of samples, or the number of a step."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of a share: ``count`` positions from ``first`` on, inside ``round``."""

    round: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """A boundary state of a trace, by its roots.

    ``index`` is 0 for the opening state and n for the closing one; ``step`` is the job's global batch number of the
    first step after it; ``root`` is ``pol.rules.commitment.boundary_root`` of the two states' roots. ``metrics`` are
    FP32 bit patterns of each metric's mean over the segment before it, in name order; none at 0.
    """

    index: Count
    step: Position
    global_root: Hash
    local_root: Hash
    root: Hash
    metrics: Annotated[tuple[Bits, ...], Length(0, METRICS_MAX)]


@dataclass(frozen=True)
class UpdateResult:
    """What follows from a share's first and last boundary: the update (opening less closing), and both roots."""

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
    """A replayed segment: the boundary that it ends in, and the states there.

    ``step_roots`` has the boundary root after each of its steps; the last one is ``boundary.root``.
    """

    boundary: Boundary
    step_roots: tuple[bytes, ...]
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
