"""Requests to the process pool: frozen records of paths, bytes and small values, one per function of the numerics.

They cross a process border, so they hold nothing that does not pickle, and no tensors.
"""

from dataclasses import dataclass
from pathlib import Path

from pol.work.records import RoundSlot


@dataclass(frozen=True, slots=True)
class StateFiles:
    """Files with the global and the local state of a slot at one boundary."""

    global_state: Path
    local_state: Path


@dataclass(frozen=True, slots=True)
class OpenedStates:
    """States that should hash, together with their metrics, to a boundary root."""

    files: StateFiles
    metrics: tuple[int, ...]
    root: bytes


@dataclass(frozen=True, slots=True)
class RootedFile:
    """A file with a state, and the root that the chain has for it."""

    path: Path
    root: bytes


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """A segment of a share to replay, between two boundaries that the share committed to."""

    directory: Path
    part: RoundSlot
    index: int
    start: OpenedStates
    end_root: bytes
    backend: str


@dataclass(frozen=True, slots=True)
class UpdateCheck:
    """A share's update and local state to recompute, and the files that the provider sent for both.

    ``closing`` are the states at the last boundary; ``update_root`` and ``local_root`` are what the share claims.
    """

    directory: Path
    round_opening: Path
    closing: OpenedStates
    update: Path
    local_out: Path
    update_root: bytes
    local_root: bytes


@dataclass(frozen=True, slots=True)
class StopCheck:
    """A share that ends early: ``last`` are the states at its last boundary, where segment ``index`` would begin."""

    directory: Path
    part: RoundSlot
    index: int
    round_opening: Path
    last: OpenedStates
    backend: str


@dataclass(frozen=True, slots=True)
class OpeningCheck:
    """States that a provider sent, to compare with the boundary that it committed to."""

    directory: Path
    opened: OpenedStates


@dataclass(frozen=True, slots=True)
class StatesReplay:
    """The states at boundary ``index`` to recompute from those at ``start``, and the files to write them to."""

    directory: Path
    part: RoundSlot
    start: int
    index: int
    states: StateFiles
    backend: str
    to: StateFiles


@dataclass(frozen=True, slots=True)
class RoundAggregation:
    """The updates of all slots of a round in their order, and the file to write the next global state to."""

    directory: Path
    opening: Path
    updates: tuple[Path, ...]
    backend: str
    to: Path


@dataclass(frozen=True, slots=True)
class SegmentAudit:
    """A drawn segment that a seat replays for a stage with this seed."""

    directory: Path
    part: RoundSlot
    index: int
    start: OpenedStates
    seed: bytes
    backend: str


@dataclass(frozen=True, slots=True)
class UpdateAudit:
    """A drawn update that a seat recomputes from the round's opening and the states at the last boundary."""

    directory: Path
    round_opening: RootedFile
    closing: OpenedStates
    seed: bytes


@dataclass(frozen=True, slots=True)
class AggregationAudit:
    """A round's next global state that a seat recomputes from an opening and updates of the chain's roots."""

    directory: Path
    opening: RootedFile
    updates: tuple[RootedFile, ...]
    seed: bytes
    backend: str


@dataclass(frozen=True, slots=True)
class ProbeSample:
    """Drawn pieces of a probe to work out."""

    seed: bytes
    pieces: tuple[int, ...]
    backend: str
