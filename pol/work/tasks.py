"""Tasks of a process pool: plain functions over paths, canonical bytes and small values.

Each worker keeps the jobs that it loaded, by folder and id.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pol.executor.backend import Backend, backend
from pol.job.errors import JobError
from pol.job.load import LoadedJob, load_job, read_file
from pol.replay.replay import replay_segment, replay_update
from pol.state.arrays import Array, State
from pol.state.canonical import decode_state, encode_state
from pol.state.layout import encoded_size
from pol.values import TensorSpec
from pol.work.aggregate import aggregate
from pol.work.records import Boundary, Range
from pol.work.train import train_share
from pol.work.worker import report

Source = bytes | str
"""A state: its canonical bytes, or the path of a file that holds them."""


@dataclass(frozen=True, slots=True)
class TrainOutcome:
    """Result of :func:`train_task`; states are canonical bytes, boundary states lie in the folder."""

    boundaries: tuple[Boundary, ...]
    update: bytes
    update_root: bytes
    local_out: bytes
    local_out_root: bytes


@dataclass(frozen=True, slots=True)
class SegmentOutcome:
    """Result of :func:`segment_task`."""

    boundary: Boundary
    step_roots: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class UpdateOutcome:
    """Result of :func:`update_task`."""

    update: bytes
    update_root: bytes
    local_out_root: bytes


@dataclass(frozen=True, slots=True)
class AggregateOutcome:
    """Result of :func:`aggregate_task`."""

    state: bytes
    root: bytes
    count: int
    tensor_roots: tuple[tuple[str, bytes], ...]


@lru_cache(maxsize=8)
def _loaded(directory: str, job_id: bytes) -> LoadedJob:
    loaded = load_job(Path(directory))
    if loaded.job.id != job_id:
        raise JobError("job.json", "It is another job.", "Fetch the job again.")
    return loaded


@lru_cache(maxsize=2)
def _backend(name: str) -> Backend:
    return backend(name)


def _state(source: Source, specs: tuple[TensorSpec, ...]) -> dict[str, Array]:
    if isinstance(source, str):
        size = encoded_size(specs)
        source = read_file(Path(source), source, size, size)
    return decode_state(source, specs)


def boundary_paths(folder: Path, index: int) -> tuple[Path, Path]:
    """Return the files of a boundary's global and local state in a share's folder."""
    return folder / f"{index:06d}.global", folder / f"{index:06d}.local"


def train_task(
    directory: str,
    job_id: bytes,
    wanted: Range,
    opening: Source,
    local: Source,
    folder: str | None = None,
    backend_name: str = "numpy",
) -> TrainOutcome:
    """Train a share; boundary states are written to ``folder``, if given, and (step, loss) is reported."""
    loaded = _loaded(directory, job_id)
    document = loaded.job.document

    def keep(boundary: Boundary, global_state: State, local_state: State) -> None:
        if folder is not None:
            states = (global_state, local_state)
            for path, state in zip(
                boundary_paths(Path(folder), boundary.index), states, strict=True
            ):
                part = path.with_suffix(path.suffix + ".part")
                part.write_bytes(encode_state(state))
                part.replace(path)

    share = train_share(
        loaded,
        wanted,
        _state(opening, document.global_tensors),
        _state(local, document.local_tensors),
        backend=_backend(backend_name),
        on_boundary=keep,
        on_step=lambda step, loss: report((step, loss)),
    )
    return TrainOutcome(
        share.boundaries,
        encode_state(share.update),
        share.update_root,
        encode_state(share.local_out),
        share.local_out_root,
    )


def segment_task(
    directory: str,
    job_id: bytes,
    wanted: Range,
    index: int,
    opening: Source,
    local: Source,
    backend_name: str = "numpy",
) -> SegmentOutcome:
    """Replay one segment."""
    loaded = _loaded(directory, job_id)
    document = loaded.job.document
    first = _state(opening, document.global_tensors)
    second = _state(local, document.local_tensors)
    replayed = replay_segment(loaded, wanted, index, first, second, _backend(backend_name))
    return SegmentOutcome(replayed.boundary, replayed.step_roots)


def update_task(
    directory: str, job_id: bytes, opening: Source, closing: Source, local_out: Source
) -> UpdateOutcome:
    """Recompute the update place of a share."""
    loaded = _loaded(directory, job_id)
    document = loaded.job.document
    result = replay_update(
        loaded,
        _state(opening, document.global_tensors),
        _state(closing, document.global_tensors),
        _state(local_out, document.local_tensors),
    )
    return UpdateOutcome(encode_state(result.update), result.update_root, result.local_out_root)


def aggregate_task(
    directory: str,
    job_id: bytes,
    opening: Source,
    updates: tuple[tuple[int, Source], ...],
    backend_name: str = "numpy",
) -> AggregateOutcome:
    """Aggregate a round's updates, given in slot order."""
    loaded = _loaded(directory, job_id)
    start = _state(opening, loaded.job.document.global_tensors)
    given = [(count, _state(update, loaded.job.updated)) for count, update in updates]
    result = aggregate(loaded, start, given, _backend(backend_name))
    return AggregateOutcome(
        encode_state(result.state), result.root, result.count, result.tensor_roots
    )
