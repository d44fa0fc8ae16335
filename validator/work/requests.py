"""The requests to the process pool: frozen records of paths, bytes and small values, one per function of the numerics.

They are sent from one process to another, so all their values can be pickled, and none of them is a tensor.
"""

from dataclasses import dataclass
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
    """A request to replay a segment of a share, between two boundaries that the share committed to."""

    directory: Path
    part: RoundSlot
    index: int
    start: OpenedStates
    end_root: bytes
    engine: Engine


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
    """A seat's request to replay a drawn segment. ``seeds`` are those of the panel's stages so far."""

    directory: Path
    part: RoundSlot
    index: int
    start: OpenedStates
    seeds: tuple[bytes, ...]
    engine: Engine


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
