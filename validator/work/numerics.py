"""What runs in the process pool: loading, replaying, aggregating. A request in, small records and files out.

A worker process calls these functions with one request each (``requests.py``), which names paths in the blob store;
nothing that a provider sent is trusted before its root was recomputed here, and everything that a replay starts from
comes from the order.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from domain.market.records import JobTerms
from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind
from pol.errors import (
    AggregationFailed,
    JobError,
    NotFinite,
    ReplayError,
    StateError,
    StepFailed,
    Stopped,
    UpdateFailed,
)
from pol.executor.backend import backend, computing
from pol.executor.interface import Backend
from pol.job.document import order_terms
from pol.job.load import LoadedJob, load_job
from pol.replay.replay import replay_from, replay_segment
from pol.rules.commitment import boundary_root, update_claim
from pol.rules.tiers.answers import answer_digest
from pol.state.arrays import State
from pol.state.canonical import chunk_lengths, read_state, state_pieces, state_tree
from pol.state.layout import MAX_HEADER, encoded_size
from pol.values import TensorSpec
from pol.work.probe import work_pieces
from pol.work.segments import SlotState
from pol.work.train import aggregate, share_update
from validator.decide.records import Recomputed, ReplayOutcome, Sizes
from validator.work.requests import (
    AggregationAudit,
    OpenedStates,
    OpeningCheck,
    ProbeSample,
    RootedFile,
    RoundAggregation,
    SegmentAudit,
    SegmentCheck,
    StateFiles,
    StatesReplay,
    StopCheck,
    UpdateAudit,
    UpdateCheck,
)


@lru_cache(maxsize=4)
def _job(directory: Path) -> LoadedJob:
    """Return a job that this process keeps: its directory is named by its content and never changes."""
    return load_job(directory).without_initial()


@lru_cache(maxsize=2)
def _backend(name: str) -> Backend:
    return backend(name)  # keeps the programs that it compiled


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The job's terms as loading found them, or the reason why it does not load."""

    terms: JobTerms | None
    text: str


def prepare(backend_name: str) -> str:
    """Have everything here that a task needs: a new process takes a while for it, and who is waited for has none.

    Returns what computes, in words.
    """
    _backend(backend_name)
    return computing(backend_name)


def load(directory: Path) -> LoadOutcome:
    """Load a payload with every check."""
    try:
        return LoadOutcome(order_terms(_job(directory).job), "")
    except JobError as error:
        return LoadOutcome(None, str(error))


def check_segment(asked: SegmentCheck) -> ReplayOutcome:
    """Replay a segment of a share and compare with the boundary roots at its beginning and its end."""
    job = _job(asked.directory)
    start = _opened(job, asked.start)
    if start is None:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
    try:
        replayed = replay_from(job, asked.part, asked.index, start, _backend(asked.backend))
    except StepFailed:
        return ReplayOutcome(ShareReason.NOT_FINITE, b"")
    root = replayed.boundary.root
    same = root == asked.end_root
    return ReplayOutcome(ShareReason.NONE if same else ShareReason.SEGMENT_MISMATCH, root)


def check_update(asked: UpdateCheck) -> ReplayOutcome:
    """Recompute update and local_out from boundaries 0 and n, and check the files that were sent for them."""
    job = _job(asked.directory)
    end = _opened(job, asked.closing)
    if end is None:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
    start = read_state(asked.round_opening, job.job.document.global_tensors)
    try:
        result = share_update(job, start, end)
    except UpdateFailed:
        return ReplayOutcome(ShareReason.NOT_FINITE, b"")
    root = update_claim(result.update_root, result.local_out_root)
    if root != update_claim(asked.update_root, asked.local_root):
        return ReplayOutcome(ShareReason.UPDATE_MISMATCH, root)
    try:
        update = state_tree(read_state(asked.update, job.job.updated)).root
        local = state_tree(read_state(asked.local_out, job.job.document.local_tensors)).root
    except StateError:
        return ReplayOutcome(ShareReason.MALFORMED, root)
    if (update, local) != (asked.update_root, asked.local_root):
        return ReplayOutcome(ShareReason.MALFORMED, root)
    return ReplayOutcome(ShareReason.NONE, root)


def check_stop(asked: StopCheck) -> ReplayOutcome:
    """Check that a share ends where the job stops: in a segment, or behind the last one in the update."""
    job = _job(asked.directory)
    last = _opened(job, asked.last)
    if last is None:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
    start = read_state(asked.round_opening, job.job.document.global_tensors)
    try:
        if asked.index < job.job.document.share_segments:
            opened = last.global_state, last.local_state
            replay_segment(job, asked.part, asked.index, *opened, _backend(asked.backend))
        else:
            share_update(job, start, last)
    except Stopped:
        return ReplayOutcome(ShareReason.NONE, b"")
    return ReplayOutcome(ShareReason.NOT_STOPPED, b"")


@dataclass(frozen=True, slots=True)
class Written:
    """A root, and SHA-256 of each file with a state behind it: other tasks can write where it lies."""

    root: bytes
    digests: tuple[bytes, ...]


def aggregate_round(asked: RoundAggregation) -> Written | None:
    """Aggregate the updates of a round into the next global state and write it; None if there is none."""
    job = _job(asked.directory)
    start = read_state(asked.opening, job.job.document.global_tensors)
    read = (read_state(path, job.job.updated) for path in asked.updates)
    try:
        result = aggregate(job, start, read, _backend(asked.backend))
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


# --- what seats recompute ------------------------------------------------------------------------

# The digest of an answer covers all bytes of the recomputed state, so it is made here, where these are.
_NOT_THERE = "states that are not the ones on chain"


def recompute_segment(asked: SegmentAudit) -> Recomputed:
    """Replay a segment of a share from the states at the boundary where it begins."""
    job = _job(asked.directory)
    start = _opened(job, asked.start)
    if start is None:
        return Recomputed(_NOT_THERE)
    inner: list[bytes] = []

    def follow(state: SlotState) -> None:
        inner.append(state.root)

    try:
        replayed = replay_from(job, asked.part, asked.index, start, _backend(asked.backend), follow)
    except StepFailed as error:
        # what the last step began with is no longer there: it is made again
        digest = answer_digest(asked.seed, inner, _before(job, asked))
        return Recomputed("", AnswerKind.STOPPED, b"", digest, error.step)
    states_reached = replayed.global_state, replayed.local_state
    return _finished(replayed.boundary.root, asked.seed, inner, *states_reached)


def _before(job: LoadedJob, asked: SegmentAudit) -> Iterator[bytes | memoryview]:
    """Yield the states behind the last step of a segment that has a result, or the opened ones."""
    opened = _open_states(job, asked.start.files)
    assert opened is not None
    reached = opened

    def follow(state: SlotState) -> None:
        nonlocal reached
        reached = state.global_state, state.local_state

    with suppress(StepFailed):
        replay_segment(job, asked.part, asked.index, *opened, _backend(asked.backend), follow)
    return _pieces(*reached)


def recompute_update(asked: UpdateAudit) -> Recomputed:
    """Recompute a share's update from the round's opening and the states at its last boundary."""
    job = _job(asked.directory)
    end = _opened(job, asked.closing)
    if end is None:
        return Recomputed(_NOT_THERE)
    try:
        start = _read(asked.round_opening, job.job.document.global_tensors)
    except StateError:
        return Recomputed(_NOT_THERE)
    try:
        result = share_update(job, start, end)
    except UpdateFailed:
        digest = answer_digest(asked.seed, (), _pieces(end.global_state, end.local_state))
        return Recomputed("", AnswerKind.STOPPED, b"", digest)
    root = update_claim(result.update_root, result.local_out_root)
    return _finished(root, asked.seed, (), result.update, end.local_state)


def recompute_aggregation(asked: AggregationAudit) -> Recomputed:
    """Recompute a round's next global state from an opening and updates whose roots the chain has."""
    job = _job(asked.directory)
    try:
        start = _read(asked.opening, job.job.document.global_tensors)
        # One at a time: all of them together may be far more than this machine holds.
        read = (_read(update, job.job.updated) for update in asked.updates)
        try:
            result = aggregate(job, start, read, _backend(asked.backend))
        except AggregationFailed:
            digest = answer_digest(asked.seed, (), _pieces(start))
            return Recomputed("", AnswerKind.STOPPED, b"", digest)
    except StateError:
        return Recomputed(_NOT_THERE)
    return _finished(result.root, asked.seed, (), result.state)


def _finished(root: bytes, seed: bytes, inner: Sequence[bytes], *states: State) -> Recomputed:
    digest = answer_digest(seed, inner, _pieces(*states))
    return Recomputed("", AnswerKind.FINISHED, root, digest)


def _pieces(*states: State) -> Iterator[bytes | memoryview]:
    for state in states:
        yield from state_pieces(state)


def opening_holds(asked: OpeningCheck) -> bool:
    """Return whether two opened states and their metrics hash to a boundary root."""
    return _opened(_job(asked.directory), asked.opened) is not None


def recompute_states(asked: StatesReplay) -> Written | None:
    """Replay from the states at one boundary to a later one, and write the states there.

    The root is the later boundary's; None if training from there has no result.
    """
    job = _job(asked.directory)
    opened = _open_states(job, asked.states)
    if opened is None:
        raise StateError("opening", "does not decode")
    current, root = opened, b""
    engine = _backend(asked.backend)
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
    document = _job(directory).job.document
    return Sizes(
        encoded_size(document.global_tensors),
        encoded_size(document.local_tensors),
        encoded_size(_job(directory).job.updated),
    )


def result_lengths(path: Path) -> list[int]:
    """Return the bytes of each canonical chunk of a state; StateError where the file is none."""
    with path.open("rb") as file:
        return chunk_lengths(file.read(MAX_HEADER + 4), path.stat().st_size)


def _open_states(job: LoadedJob, files: StateFiles) -> tuple[State, State] | None:
    try:
        return (
            read_state(files.global_state, job.job.document.global_tensors),
            read_state(files.local_state, job.job.document.local_tensors),
        )
    except StateError:
        return None


def _opened(job: LoadedJob, asked: OpenedStates) -> SlotState | None:
    """Return the states in two files, if they and their metrics hash to a boundary root; they are the caller's.

    What was hashed of them is not hashed again.
    """
    read = _open_states(job, asked.files)
    if read is None:
        return None
    opened = SlotState(*read)
    return opened if boundary_root(*opened.roots, asked.metrics) == asked.root else None


def _read(file: RootedFile, specs: Sequence[TensorSpec]) -> State:
    """Return the state in a file; StateError, but never NotFinite, unless it has the root that the chain has."""
    try:
        state = read_state(file.path, specs)
    except NotFinite as error:
        raise StateError(error.field, error.reason) from None
    if state_tree(state).root != file.root:
        raise StateError("state", "is not the one that the chain names")
    return state


def probe_pieces(asked: ProbeSample) -> tuple[bytes, ...]:
    """Return the digests of some pieces of a probe."""
    return work_pieces(asked.seed, asked.pieces, _backend(asked.backend))
