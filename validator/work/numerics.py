"""What runs in the process pool: loading, replaying, aggregating. Paths and bytes in, small records out.

A worker process calls these functions with paths into the blob store; nothing that a provider sent is trusted before
its root was recomputed here, and everything that a replay starts from comes from the order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from domain.reasons import ShareReason
from domain.records import JobTerms
from pol.errors import JobError, NotFinite, ReplayError, StateError, StepFailed
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.job.document import order_terms
from pol.job.load import LoadedJob, load_job
from pol.replay.replay import replay_segment
from pol.rules.commitment import boundary_root, update_claim
from pol.state.arrays import State
from pol.state.canonical import chunks_of, decode_state, encode_state, state_tree
from pol.state.layout import encoded_size
from pol.work.aggregate import aggregate
from pol.work.records import Samples
from pol.work.train import share_update
from validator.decide.records import ReplayOutcome, Sizes

_job = lru_cache(maxsize=4)(load_job)
"""Loaded jobs of this process; a job directory is named by its content and never changes."""


@lru_cache(maxsize=2)
def _backend(name: str) -> Backend:
    return backend(name)  # keeps the programs that it compiled


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The job's terms as loading found them, or the reason why it does not load."""

    terms: JobTerms | None
    text: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a share claims at the place that is replayed.

    For a segment: the boundary roots of its leaves i and i+1 and the metrics of leaf i+1. For the update: the
    boundary root of leaf n, and the roots of update and local_out.
    """

    opening_root: bytes
    closing_root: bytes
    metrics: tuple[int, ...]
    update_root: bytes = b""
    local_out: bytes = b""


def load(directory: Path) -> LoadOutcome:
    """Load a payload with every check."""
    try:
        return LoadOutcome(order_terms(_job(directory).job), "")
    except JobError as error:
        return LoadOutcome(None, str(error))


def check_segment(
    directory: Path,
    part: Samples,
    index: int,
    states: tuple[Path, Path],
    claimed: Claimed,
    backend_name: str,
) -> ReplayOutcome:
    """Replay segment ``index`` of a range from the opened (global, local) states and compare with the leaves."""
    job = _job(directory)
    opened = _open_states(job, states)
    if opened is None or _root_of(*opened) != claimed.opening_root:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"", ())
    try:
        replayed = replay_segment(job, part, index, *opened, _backend(backend_name))
    except StepFailed:
        return ReplayOutcome(ShareReason.NOT_FINITE, b"", ())
    root, inner = replayed.boundary.root, replayed.step_roots
    if root != claimed.closing_root:
        return ReplayOutcome(ShareReason.SEGMENT_MISMATCH, root, inner)
    if replayed.boundary.metrics != claimed.metrics:
        return ReplayOutcome(ShareReason.METRICS_MISMATCH, root, inner)
    return ReplayOutcome(ShareReason.NONE, root, inner)


def check_update(
    directory: Path,
    round_opening: Path,
    closing: tuple[Path, Path],
    sent: tuple[Path, Path],
    claimed: Claimed,
) -> ReplayOutcome:
    """Recompute update and local_out from boundaries 0 and n, and check the blobs that were sent for them."""
    job = _job(directory)
    opened = _open_states(job, closing)
    if opened is None or _root_of(*opened) != claimed.closing_root:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"", ())
    start = decode_state(round_opening.read_bytes(), job.job.document.global_tensors)
    try:
        result = share_update(job, start, *opened)
    except NotFinite:
        return ReplayOutcome(ShareReason.NOT_FINITE, b"", ())
    root = update_claim(result.update_root, result.local_out_root)
    if root != update_claim(claimed.update_root, claimed.local_out):
        return ReplayOutcome(ShareReason.UPDATE_MISMATCH, root, ())
    try:
        update = state_tree(decode_state(sent[0].read_bytes(), job.job.updated)).root
        local = state_tree(decode_state(sent[1].read_bytes(), job.job.document.local_tensors)).root
    except StateError:
        return ReplayOutcome(ShareReason.MALFORMED, root, ())
    if (update, local) != (claimed.update_root, claimed.local_out):
        return ReplayOutcome(ShareReason.MALFORMED, root, ())
    return ReplayOutcome(ShareReason.NONE, root, ())


@dataclass(frozen=True, slots=True)
class Encoded:
    """A canonical state: root, bytes, and the roots of its tensors."""

    root: bytes
    data: bytes
    inner_roots: tuple[bytes, ...]


def aggregate_round(
    directory: Path, opening: Path, updates: Sequence[tuple[int, Path]], backend_name: str
) -> Encoded | None:
    """Aggregate updates (sample count, path) in slot order into the next global state; None where it is not finite."""
    job = _job(directory)
    start = decode_state(opening.read_bytes(), job.job.document.global_tensors)
    decoded = [(count, decode_state(path.read_bytes(), job.job.updated)) for count, path in updates]
    try:
        result = aggregate(job, start, decoded, _backend(backend_name))
    except NotFinite:
        return None
    return Encoded(
        result.root, encode_state(result.state), tuple(root for _, root in result.tensor_roots)
    )


def audit_aggregation(
    directory: Path,
    opening: tuple[Path, bytes],
    updates: Sequence[tuple[int, Path, bytes]],
    backend_name: str,
) -> ReplayOutcome:
    """Recompute a round's next global state from an opening and updates whose roots the chain has."""
    job = _job(directory)
    try:
        start = decode_state(opening[0].read_bytes(), job.job.document.global_tensors)
        decoded = [
            (count, decode_state(path.read_bytes(), job.job.updated)) for count, path, _ in updates
        ]
    except StateError:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"", ())
    roots = [state_tree(start).root, *(state_tree(update).root for _, update in decoded)]
    if roots != [opening[1], *(root for _, _, root in updates)]:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"", ())
    try:
        result = aggregate(job, start, decoded, _backend(backend_name))
    except NotFinite:
        return ReplayOutcome(ShareReason.NOT_FINITE, b"", ())
    return ReplayOutcome(
        ShareReason.NONE, result.root, tuple(root for _, root in result.tensor_roots)
    )


def audit_update(
    directory: Path,
    round_opening: tuple[Path, bytes],
    closing: tuple[Path, Path],
    closing_root: bytes,
) -> ReplayOutcome:
    """Recompute the root of a share's update place from the round's opening and the states at its last boundary."""
    job = _job(directory)
    opened = _open_states(job, closing)
    if opened is None or _root_of(*opened) != closing_root:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"", ())
    try:
        start = decode_state(round_opening[0].read_bytes(), job.job.document.global_tensors)
    except StateError:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"", ())
    if state_tree(start).root != round_opening[1]:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"", ())
    try:
        result = share_update(job, start, *opened)
    except NotFinite:
        return ReplayOutcome(ShareReason.NOT_FINITE, b"", ())
    root = update_claim(result.update_root, result.local_out_root)
    return ReplayOutcome(ShareReason.NONE, root, (result.update_root, result.local_out_root))


def opening_holds(directory: Path, states: tuple[Path, Path], root: bytes) -> bool:
    """Tell whether two opened states hash to a boundary root."""
    opened = _open_states(_job(directory), states)
    return opened is not None and _root_of(*opened) == root


def recompute_states(
    directory: Path,
    part: Samples,
    start: int,
    index: int,
    states: tuple[Path, Path],
    backend_name: str,
) -> tuple[bytes, bytes, bytes] | None:
    """Replay from the states at boundary ``start`` to ``index``: (boundary root, global bytes, local bytes).

    None where training from there has no result.
    """
    job = _job(directory)
    opened = _open_states(job, states)
    if opened is None:
        raise StateError("opening", "does not decode")
    current = opened
    try:
        for segment in range(start, index):
            replayed = replay_segment(job, part, segment, *current, _backend(backend_name))
            current = (replayed.global_state, replayed.local_state)
    except ReplayError:
        return None
    return _root_of(*current), encode_state(current[0]), encode_state(current[1])


def sizes(directory: Path) -> Sizes:
    """Return the sizes of canonical states of a job."""
    document = _job(directory).job.document
    return Sizes(
        encoded_size(document.global_tensors),
        encoded_size(document.local_tensors),
        encoded_size(_job(directory).job.updated),
    )


def result_chunks(path: Path) -> list[bytes]:
    """Return the canonical chunks of a global state."""
    return chunks_of(path.read_bytes())


def _open_states(job: LoadedJob, paths: tuple[Path, Path]) -> tuple[State, State] | None:
    try:
        return (
            decode_state(paths[0].read_bytes(), job.job.document.global_tensors),
            decode_state(paths[1].read_bytes(), job.job.document.local_tensors),
        )
    except StateError:
        return None


def _root_of(global_state: State, local_state: State) -> bytes:
    return boundary_root(state_tree(global_state).root, state_tree(local_state).root)
