"""What runs in the process pool whatever the tier: loading, aggregating. A request in, small records and files out.

A worker process calls these functions with one request each (``requests.py``), which names paths in the blob store;
nothing that a provider sent is trusted before its root was recomputed here, and everything that a replay starts from
comes from the order.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from domain.market.records import JobTerms
from pol.errors import (
    AggregationFailed,
    JobError,
    ReplayError,
    StateError,
)
from pol.executor.backend import computing
from pol.job.document import order_terms
from pol.replay.replay import replay_segment
from pol.state.arrays import State
from pol.state.canonical import chunk_lengths, read_state, state_pieces
from pol.state.layout import MAX_HEADER, encoded_size
from pol.work.probe import work_pieces
from pol.work.train import aggregate
from validator.decide.records import Sizes
from validator.work.loaded import backend_named, job_in, open_states, opened_states
from validator.work.requests import (
    OpeningCheck,
    ProbeSample,
    RoundAggregation,
    StatesReplay,
)


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The job's terms as loading found them, or the reason why it does not load."""

    terms: JobTerms | None
    text: str


def prepare(backend_name: str) -> str:
    """Have everything here that a task needs: a new process takes a while for it, and who is waited for has none.

    Returns what computes, in words.
    """
    backend_named(backend_name)
    return computing(backend_name)


def load(directory: Path) -> LoadOutcome:
    """Load a payload with every check."""
    try:
        return LoadOutcome(order_terms(job_in(directory).job), "")
    except JobError as error:
        return LoadOutcome(None, str(error))


@dataclass(frozen=True, slots=True)
class Written:
    """A root, and SHA-256 of each file with a state behind it: other tasks can write where it lies."""

    root: bytes
    digests: tuple[bytes, ...]


def aggregate_round(asked: RoundAggregation) -> Written | None:
    """Aggregate the updates of a round into the next global state and write it; None if there is none."""
    job = job_in(asked.directory)
    start = read_state(asked.opening, job.job.document.global_tensors)
    read = (read_state(path, job.job.updated) for path in asked.updates)
    try:
        result = aggregate(job, start, read, backend_named(asked.backend))
    except AggregationFailed:
        return None
    return Written(result.root, (write_state(asked.to, result.state),))


def write_state(to: Path, state: State) -> bytes:
    """Write a state to a new file, piece by piece; return SHA-256 of it."""
    digest = sha256()
    with to.open("xb") as file:
        for piece in state_pieces(state):
            digest.update(piece)
            file.write(piece)
    return digest.digest()


def opening_holds(asked: OpeningCheck) -> bool:
    """Return whether two opened states and their metrics hash to a boundary root."""
    return opened_states(job_in(asked.directory), asked.opened) is not None


def recompute_states(asked: StatesReplay) -> Written | None:
    """Replay from the states at one boundary to a later one, and write the states there.

    The root is the later boundary's; None if training from there has no result.
    """
    job = job_in(asked.directory)
    opened = open_states(job, asked.states)
    if opened is None:
        raise StateError("opening", "does not decode")
    current, root = opened, b""
    engine = backend_named(asked.backend)
    try:
        for segment in range(asked.start, asked.index):
            replayed = replay_segment(job, asked.part, segment, *current, engine)
            current, root = (replayed.global_state, replayed.local_state), replayed.boundary.root
    except ReplayError:
        return None
    paths = asked.to.global_state, asked.to.local_state
    return Written(root, tuple(map(write_state, paths, current)))


def sizes(directory: Path) -> Sizes:
    """Return the sizes of canonical states of a job."""
    document = job_in(directory).job.document
    return Sizes(
        encoded_size(document.global_tensors),
        encoded_size(document.local_tensors),
        encoded_size(job_in(directory).job.updated),
    )


def result_lengths(path: Path) -> list[int]:
    """Return the bytes of each canonical chunk of a state; StateError where the file is none."""
    with path.open("rb") as file:
        return chunk_lengths(file.read(MAX_HEADER + 4), path.stat().st_size)


def probe_pieces(asked: ProbeSample) -> tuple[bytes, ...]:
    """Return the digests of some pieces of a probe."""
    return work_pieces(asked.seed, asked.pieces, backend_named(asked.backend))
