"""The functions that run in the process pool for every tier, such as loading a job and aggregating a round.

A process of the pool calls a function with one request (``requests.py``), which names paths in the blob store. The
function returns a small record, and may write files. The data of a provider are trusted only after their roots were
recomputed here.
"""

from collections.abc import Iterable, Iterator, Sequence
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
from pol.executor.names import Engine
from pol.job.document import order_terms
from pol.replay.replay import replay_segment
from pol.rules.commitment import boundary_root
from pol.rules.tiers.table import tier_named
from pol.state.arrays import State
from pol.state.canonical import state_pieces
from pol.state.layout import MAX_HEADER, chunk_count, chunk_lengths, encoded_size, header_chunk
from pol.state.stored import StoredState, file_root
from pol.values import TensorSpec
from pol.work.aggregation import aggregate_part
from pol.work.probe import work_pieces
from validator.decide.records import Recomputed, Sizes, finished
from validator.work.loaded import backend_of, job_in, open_states
from validator.work.requests import (
    ChunkedFile,
    OpeningCheck,
    ProbeSample,
    RootedFile,
    RoundAggregation,
    StatesDigest,
    StatesReplay,
)

PIECE_BYTES = 1 << 20
"""Bytes of a state that are read at a time for a digest."""


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The terms of a loaded job, or in ``text`` the reason why it does not load."""

    terms: JobTerms | None
    text: str


def prepare(engine: Engine) -> str:
    """Load an engine in a new process, so that the first task need not wait; return its back end's name in words."""
    backend_of(engine)
    return computing(engine)


def load(directory: Path) -> LoadOutcome:
    """Load the job in a directory with all checks. Return its terms, or the reason why it does not load."""
    try:
        return LoadOutcome(order_terms(job_in(directory).job), "")
    except JobError as error:
        return LoadOutcome(None, str(error))


@dataclass(frozen=True, slots=True)
class Written:
    """The root of written states, and the SHA-256 of each file.

    All tasks can write to the same folder; the hashes show whether another task has changed a file.
    """

    root: bytes
    digests: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """Tensors of a state that were written: their names, the hashes of their chunks, and the SHA-256 of the file."""

    names: tuple[str, ...]
    leaves: tuple[tuple[bytes, ...], ...]
    digest: bytes


def aggregate_round(asked: RoundAggregation) -> WrittenPart | None:
    """Aggregate updates and write a part of the next global state; None if the updates do not aggregate."""
    job = job_in(asked.directory)
    try:
        made = aggregate_part(job, asked.part, asked.parts, asked.opening, asked.updates, backend_of(asked.engine))
    except AggregationFailed:
        return None
    return WrittenPart(tuple(made.leaves), tuple(made.leaves.values()), write_state(asked.to, made.state))


def write_state(to: Path, state: State) -> bytes:
    """Write a state to a new file, piece by piece; return the file's SHA-256."""
    digest = sha256()
    with to.open("xb") as file:
        for piece in state_pieces(state):
            digest.update(piece)
            file.write(piece)
    return digest.digest()


def opening_holds(asked: OpeningCheck) -> bool:
    """Return whether two opened states and their metrics hash to a boundary root. They are read piece by piece."""
    document, files = job_in(asked.directory).job.document, asked.opened.files
    pairs = (files.global_state, document.global_tensors), (files.local_state, document.local_tensors)
    try:
        first, second = [StoredState(path.open("rb"), specs).checked_root() for path, specs in pairs]
    except StateError:
        return False
    return boundary_root(first, second, asked.opened.metrics) == asked.opened.root


def has_root(file: RootedFile) -> bool:
    """Return whether a file is a canonical state with the root that the chain names. The state may have any tensors."""
    try:
        return file_root(file.path) == file.root
    except StateError:
        return False


def holds_state(path: Path, specs: Sequence[TensorSpec], root: bytes) -> bool:
    """Return whether a file is a canonical state with these tensors and this root. It is read piece by piece."""
    try:
        return StoredState(path.open("rb"), specs).checked_root() == root
    except StateError:
        return False


def digest_states(asked: StatesDigest) -> Recomputed:
    """Return the answer of a seat that has all states of a round: the first root, and a digest over all bytes."""
    return finished(asked.root, tier_named(asked.tier).digests(asked.seeds, (), _read_pieces(asked.paths)))


def has_chunks(asked: ChunkedFile) -> bool:
    """Return whether a file consists of exactly the chunks with these sizes and hashes."""
    with asked.path.open("rb") as file:
        right = all(
            sha256(file.read(size)).digest() == digest for size, digest in zip(asked.sizes, asked.hashes, strict=True)
        )
        return right and not file.read(1)


def _read_pieces(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece


def recompute_states(asked: StatesReplay) -> Written | None:
    """Replay from the states at one boundary to a later boundary, and write the states there with their root.

    Return None if a step has no result. StateError if the first states do not decode.
    """
    job = job_in(asked.directory)
    opened = open_states(job, asked.states)
    if opened is None:
        raise StateError("opening", "does not decode")
    current = opened
    root = b""
    executor = backend_of(asked.engine)
    try:
        for segment in range(asked.start, asked.index):
            replayed = replay_segment(job, asked.part, segment, *current, executor)
            current = replayed.global_state, replayed.local_state
            root = replayed.boundary.root
    except ReplayError:
        return None
    paths = asked.to.global_state, asked.to.local_state
    return Written(root, tuple(map(write_state, paths, current)))


def sizes(directory: Path) -> Sizes:
    """Return the sizes in bytes of a job's canonical states and updates."""
    document = job_in(directory).job.document
    return Sizes(
        encoded_size(document.global_tensors),
        encoded_size(document.local_tensors),
        encoded_size(job_in(directory).job.update_tensors),
    )


@dataclass(frozen=True, slots=True)
class JobHeaders:
    """The first chunks of a job's states, which every state has, and the number of chunks of an update."""

    global_state: bytes
    local_state: bytes
    update: bytes
    update_chunks: int


def headers(directory: Path) -> JobHeaders:
    """Return the first chunks of a job's states and updates."""
    job = job_in(directory).job
    document = job.document
    return JobHeaders(
        global_state=header_chunk(document.global_tensors),
        local_state=header_chunk(document.local_tensors),
        update=header_chunk(job.update_tensors),
        update_chunks=chunk_count(job.update_tensors),
    )


def result_lengths(path: Path) -> list[int]:
    """Return the length in bytes of each canonical chunk of a state; StateError if the file is not a state."""
    with path.open("rb") as file:
        return chunk_lengths(file.read(MAX_HEADER + 4), path.stat().st_size)


def probe_pieces(asked: ProbeSample) -> tuple[bytes, ...]:
    """Return the digests of some pieces of a probe."""
    return work_pieces(asked.seed, asked.pieces, backend_of(asked.engine))
