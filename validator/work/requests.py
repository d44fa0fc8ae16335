"""The requests to the process pool: frozen records of paths, bytes and small values, one per function of the numerics.

They are sent from one process to another, so all their values can be pickled, and none of them is a tensor.
"""

from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from pol.executor.names import Engine
from pol.work.records import RoundSlot


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The files with the global and the local state of a slot at one boundary."""

    global_state: Path
    local_state: Path


@dataclass(frozen=True, slots=True)
class OpenedStates:
    """The files of states, and the boundary root that the states and their metrics should hash to."""

    files: StateFiles
    metrics: tuple[int, ...]
    root: bytes


@dataclass(frozen=True, slots=True)
class RootedFile:
    """A file with a state, and the root that the chain has for it."""

    path: Path
    root: bytes


@dataclass(frozen=True, slots=True)
class StatesDigest:
    """A request for the answer of a seat that has all states of a round, in their order; ``root`` is that of the first
    state.
    """

    paths: tuple[Path, ...]
    root: bytes
    seeds: tuple[bytes, ...]
    tier: str


@dataclass(frozen=True, slots=True)
class ChunkedFile:
    """A request to compare the chunks of a file with their sizes (bytes) and SHA-256 hashes."""

    path: Path
    sizes: tuple[int, ...]
    hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """A request to replay a segment of a share, between two boundaries that the share committed to.

    ``end`` are the states at the end that the share committed to, if the tier has hardware arithmetic.
    """

    directory: Path
    part: RoundSlot
    index: int
    start: OpenedStates
    end_root: bytes
    engine: Engine
    end: OpenedStates | None = None


@dataclass(frozen=True, slots=True)
class UpdateCheck:
    """A request to recompute a share's update and final local state, and to check the files that the provider sent.

    ``closing`` are the states at the last boundary. ``update_root`` and ``local_root`` are the roots that the share
    claims.
    """

    directory: Path
    round_opening: Path
    closing: OpenedStates
    update: Path
    local_out: Path
    update_root: bytes
    local_root: bytes
    engine: Engine


@dataclass(frozen=True, slots=True)
class StopCheck:
    """A request to check that the job stops itself in a share.

    ``last`` are the states at the share's last boundary, where segment ``index`` would begin. ``steps`` is the
    number of steps of that segment before the stop.
    """

    directory: Path
    part: RoundSlot
    index: int
    steps: int
    round_opening: Path
    last: OpenedStates
    engine: Engine


@dataclass(frozen=True, slots=True)
class OpeningCheck:
    """A request to compare states that a provider sent with the boundary that it committed to."""

    directory: Path
    opened: OpenedStates


@dataclass(frozen=True, slots=True)
class StatesReplay:
    """A request to recompute the states at boundary ``index`` from those at boundary ``start``, and to write them."""

    directory: Path
    part: RoundSlot
    start: int
    index: int
    states: StateFiles
    engine: Engine
    to: StateFiles


@dataclass(frozen=True, slots=True)
class RoundAggregation:
    """A request to aggregate the updates of all slots (in slot order), and to write a part of the next global state.

    The state has ``parts`` parts, whose tensors follow from the job.
    """

    part: int
    parts: int
    directory: Path
    opening: Path
    updates: tuple[Path, ...]
    engine: Engine
    to: Path


@dataclass(frozen=True, slots=True)
class SegmentAudit:
    """A seat's request to replay a drawn segment. ``seeds`` are those of the panel's stages so far.

    ``keep`` are the files for the seat's own end states, if the tier has hardware arithmetic.
    """

    directory: Path
    part: RoundSlot
    index: int
    start: OpenedStates
    seeds: tuple[bytes, ...]
    engine: Engine
    keep: StateFiles | None = None


class Match(Enum):
    """The result of comparing end states of another party with one's own."""

    WITHIN = auto()  # they count as the same work
    OUTSIDE = auto()
    OTHER = auto()  # the files do not have the root that the party committed to


@dataclass(frozen=True, slots=True)
class StatesComparison:
    """A request to compare the end states of a segment that others computed with a validator's ``own``.

    ``start`` are the states at the segment's start, from which distances take their scale. ``part`` and ``index`` are
    the share's place and the segment. The first segment of a job that continues another needs them: there, a slot
    begins with its own local state.
    """

    directory: Path
    start: OpenedStates
    own: OpenedStates
    others: tuple[OpenedStates, ...]
    part: RoundSlot | None = None
    index: int = 0


@dataclass(frozen=True, slots=True)
class UpdateAudit:
    """A seat's request to recompute a drawn update from the round's first global state and the share's last states."""

    directory: Path
    round_opening: RootedFile
    closing: OpenedStates
    seeds: tuple[bytes, ...]
    engine: Engine


@dataclass(frozen=True, slots=True)
class AggregationAudit:
    """A seat's request to recompute a round's next global state from its initial state and its updates."""

    directory: Path
    opening: RootedFile
    updates: tuple[RootedFile, ...]
    seeds: tuple[bytes, ...]
    engine: Engine


@dataclass(frozen=True, slots=True)
class ProbeSample:
    """A request to compute the drawn pieces of a probe."""

    seed: bytes
    pieces: tuple[int, ...]
    engine: Engine
