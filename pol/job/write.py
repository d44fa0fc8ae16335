"""Writing a job directory, the reverse of ``load.py``; the consumer's builder uses it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path

from domain.limits import EXECUTOR_VERSION
from pol.errors import JobError, StateError
from pol.job.cost import close_work, outer_work, step_work
from pol.job.document import (
    ARITHMETIC,
    VERSION,
    Job,
    JobDocument,
    Shard,
    Start,
    dump_job,
    parse_job,
)
from pol.job.paths import DATA_FOLDER, DOCUMENT, GLOBAL_STATE, LOCAL_STATE, SLOT_STATES
from pol.job.program import Program
from pol.job.sampling import SHUFFLING, Sampling
from pol.limits import LIMITS, Limits
from pol.state.arrays import Array, State, canonical_array, dtype_name
from pol.state.canonical import state_pieces, state_specs, state_tree
from pol.state.tensors import dump_safetensors, safetensors_pieces
from pol.values import TensorSpec

_SHARD_SIZE = 2**26
"""Largest size of a shard in bytes, unless one row is larger; a shard is held in memory while it is written."""
INITIAL = "initial.safetensors"
HOLDOUT = "holdout.safetensors"


@dataclass(frozen=True)
class JobSource:
    """The input of :func:`write_job`, which computes roots, hashes, sizes and FLOPs from it.

    ``name`` is for display: letters, digits, spaces, dots, dashes and underscores. ``data`` maps column names to
    arrays, at least one, whose first dimension is the row. A shard has at most ``shard_rows`` rows, or fewer if the
    limits on its size require it. ``holdout`` is the consumer's own test set with the same columns; it is never
    uploaded. A job that continues another job begins at ``first_step``. Its ``slot_states`` are the local states in
    which the slots of that other job ended, in slot order; the first of these states is ``local_state``. ``close`` is
    the program that codes updates, if they are coded.
    """

    name: str
    seed: int
    rounds: int
    slots: int
    round_steps: int
    batch: int
    segment_steps: int
    aggregation: str
    step: Program
    outer: Program
    eval: Program
    metrics: tuple[str, ...]
    global_state: State
    local_state: State
    data: Mapping[str, Array]
    holdout: Mapping[str, Array] = field(default_factory=dict)
    shard_rows: int = 65_536
    sampling: Sampling = SHUFFLING
    first_step: int = 0
    slot_states: Sequence[State] = ()
    close: Program | None = None


def _checked_columns(source: JobSource) -> tuple[dict[str, Array], int]:
    """Return the columns in name order, and their number of rows. Values are checked later, when shards are written."""
    columns = {name: source.data[name] for name in sorted(source.data)}
    rows = {array.shape[0] if array.ndim else 0 for array in columns.values()}
    if len(rows) != 1 or not min(rows):
        reason = "the columns are empty or differ in their number of rows"
        raise JobError("columns", reason, "give all columns the same number of rows, at least 1")
    return columns, rows.pop()


def _rows_that_fit(columns: Mapping[str, Array], wanted: int, limits: Limits) -> int:
    """Return the number of rows per shard.

    It is ``wanted``, or less if rows are so large that the limits require it.
    """
    row_size = sum(array[:1].nbytes for array in columns.values())
    room = min(_SHARD_SIZE, limits.shard_size - limits.header_size)
    widest = max(array[:1].size for array in columns.values())
    return max(1, min(wanted, room // max(1, row_size), limits.value_elements // max(1, widest)))


def _write_shards(
    directory: Path, columns: Mapping[str, Array], rows: int, shard_rows: int, limits: Limits
) -> tuple[Shard, ...]:
    shard_rows = _rows_that_fit(columns, shard_rows, limits)
    folder = directory / DATA_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for index, first in enumerate(range(0, rows, shard_rows)):
        part = {
            name: canonical_array(array[first : first + shard_rows], f"data.{name}") for name, array in columns.items()
        }
        data = dump_safetensors(part)
        name = f"{index:05d}.safetensors"
        # A new file is written, since a training may still have the old one mapped.
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(data)
        shards.append(
            Shard(
                name=name,
                sha256=sha256(data).digest(),
                size=len(data),
                rows=min(shard_rows, rows - first),
            )
        )
    return tuple(shards)


def _start(source: JobSource) -> Start:
    """Return the position where the job begins. The slots' roots are left out if they are all equal."""
    roots = tuple(state_tree(state).root for state in source.slot_states)
    return Start(source.first_step, roots if len(set(roots)) > 1 else ())


def write_job(directory: Path, source: JobSource, limits: Limits = LIMITS) -> Job:
    """Write a job directory and return the job. The job is checked as :func:`pol.job.document.parse_job` does.

    Raises JobError if ``source`` is not a valid job within ``limits``. Some files may already have been written before
    the error.
    """
    try:
        columns, rows = _checked_columns(source)
        shards = _write_shards(directory, columns, rows, source.shard_rows, limits)
        global_tree, start = state_tree(source.global_state), _start(source)
        document = JobDocument(
            version=VERSION,
            name=source.name,
            executor_version=EXECUTOR_VERSION,
            arithmetic=ARITHMETIC,
            seed=source.seed,
            rounds=source.rounds,
            slots=source.slots,
            round_steps=source.round_steps,
            batch=source.batch,
            segment_steps=source.segment_steps,
            aggregation=source.aggregation,
            columns=tuple(
                TensorSpec(name, dtype_name(array, name), array.shape[1:]) for name, array in columns.items()
            ),
            rows=rows,
            shards=shards,
            data_root=state_tree(columns).root,
            global_tensors=state_specs(source.global_state),
            local_tensors=state_specs(source.local_state),
            global_root=global_tree.root,
            local_root=state_tree(source.local_state).root,
            global_chunks=global_tree.count,
            step=source.step,
            outer=source.outer,
            eval=source.eval,
            metrics=tuple(sorted(source.metrics)),
            step_flops=0,
            outer_flops=0,
            sampling=source.sampling,
            start=start,
            close=source.close,
        )
        initial = {f"global/{name}": array for name, array in source.global_state.items()}
        initial.update({f"local/{name}": array for name, array in source.local_state.items()})
        files: dict[str, Iterable[bytes | memoryview]] = {
            GLOBAL_STATE: state_pieces(source.global_state),
            LOCAL_STATE: state_pieces(source.local_state),
            INITIAL: safetensors_pieces(initial),
        }
        # An earlier job in this directory may have left such a file.
        (directory / SLOT_STATES).unlink(missing_ok=True)
        if start.local_roots:
            files[SLOT_STATES] = chain.from_iterable(map(state_pieces, source.slot_states[1:]))
        if source.holdout:
            files[HOLDOUT] = safetensors_pieces(source.holdout)
        for name, pieces in files.items():
            with (directory / name).open("wb") as file:
                file.writelines(pieces)
    except StateError as error:
        remedy = "use finite f32, i64 or bool values in the model and the data"
        raise JobError(error.field, error.reason, remedy) from None
    document = replace(
        document,
        step_flops=step_work(document),
        close_flops=close_work(document),
        outer_flops=outer_work(document),
    )
    data = dump_job(document)
    job = parse_job(data, limits)
    (directory / DOCUMENT).write_bytes(data)
    return job
