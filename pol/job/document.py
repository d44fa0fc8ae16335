"""The job document: the values of ``job.json``, all checked before anything is allocated.

Only ``parse_job`` reads a document. It requires canonical JSON, checks the bounds of every field, checks the types of
the programs against the tensors and columns that they name, and recomputes the work. ``load.py`` checks the
files against the roots, hashes and sizes in the document. Consumer and validator both derive the terms of an order
from a job with :func:`order_terms`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any

from domain import codec
from domain.bounds import Count, Hash, Length, Name, Pattern, Range, Size, Sorted
from domain.errors import Refusal
from domain.limits import EXECUTOR_VERSION, SAMPLES_MAX, SLOTS_MAX
from domain.market.records import JobTerms
from domain.measures import work
from domain.readable import Readable, Shown
from pol.errors import JobError, StateError
from pol.job import cost
from pol.job.paths import DATA_FOLDER, DOCUMENT, GLOBAL_STATE, LOCAL_STATE, SLOT_STATES
from pol.job.program import Program, parse_program, program_json
from pol.job.sampling import SHUFFLING, WEIGHTED, Sampling
from pol.job.strict_json import JsonLimits, dump_json, parse_json, read_part
from pol.job.tolerance import Tolerance, check_tolerance, measured_names
from pol.job.updates import END, KINDS, LOCAL, OPENING, UPDATE, changed_tensors, kind_of
from pol.limits import LIMITS, MAX_INTEGER, Limits
from pol.ops.table import PRIMITIVES
from pol.rules.schedule import check_terms, total_work
from pol.state.layout import chunk_count, encoded_size, header_chunk
from pol.values import TensorSpec, TensorType

VERSION = 2
ARITHMETIC = "exact"

STEP, BATCH_NUMBER = "step", "batch_number"
"""Inputs of ``step``: the inner step i, which schedules use, and the batch number g, which every random draw uses. Both
numbers count from ``Start.step``. So a job that continues another job also continues the other job's schedule and its
order of the data.
"""

_PROGRAMS = ("step", "close", "outer", "eval")
_FLOPS_FIELDS = ("step_flops", "close_flops", "outer_flops")
_FLOPS = re.compile(r"0|[1-9][0-9]{0,38}")
_SCALAR = TensorType("i64", ())
_METRIC = TensorType("f32", ())

_ITEMS_MAX = 2**20
"""Largest number of entries of any list of a document; the limits of a machine are in ``Limits``."""
_ShardName = Annotated[
    str,
    Pattern("five digits and .safetensors", r"[0-9]{5}\.safetensors", "build the job again with assay job build"),
]
NAME_MAX = 64
NAME_FORM = r"[A-Za-z0-9][A-Za-z0-9 ._-]*"
_JobName = Annotated[
    str,
    Size(1, NAME_MAX),
    Pattern(
        "a name",
        NAME_FORM,
        "use letters, digits, spaces, dots, dashes and underscores",
    ),
]
_Aggregation = Annotated[
    str,
    Pattern("a kind of update", "|".join(KINDS), f"use one of {', '.join(KINDS)}"),
]
_Natural = Annotated[int, Range(0, MAX_INTEGER)]
_Positive = Annotated[int, Range(1, MAX_INTEGER)]
_Small = Annotated[int, Range(1, 2**31)]
"""Type of a field that is multiplied by other fields before :func:`check_terms` checks the product."""
_Flops = Annotated[int, Range(0, 10**39 - 1)]
_Tensors = Annotated[tuple[TensorSpec, ...], Length(0, _ITEMS_MAX)]


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of rows: its name in ``data/``, its SHA-256, its size in bytes, and its number of rows."""

    name: _ShardName
    sha256: Hash
    size: _Positive
    rows: _Positive


@dataclass(frozen=True, slots=True)
class Start(Readable):
    """The position where a job begins if it continues another job. Every other job begins at step 0.

    ``step`` is the number of inner steps before this job. ``local_roots`` are the roots of the slots' initial local
    states, in slot order; they are empty if all slots begin with ``local.state``. Otherwise ``local.state`` is the
    state of slot 0, and ``slots.state`` holds the states of all other slots, in slot order.

    Example::

        print(assay.read_job("my-job").document.start.step)
    """

    step: _Natural = 0
    local_roots: Annotated[tuple[Hash, ...], Length(0, SLOTS_MAX)] = ()


@dataclass(frozen=True)
class JobDocument(Readable):
    """The fields of ``job.json``, under the same names.

    In each of ``rounds`` rounds, each of ``slots`` slots runs ``round_steps`` inner steps, in segments of
    ``segment_steps`` steps. A slot takes ``batch`` rows in a step. ``aggregation`` is the kind of update. ``outer``
    receives the mean of the slots' updates or, if the program ``close`` codes them, the codes of all slots. The file
    omits ``sampling`` if rows are shuffled, and ``start`` if the job begins at step 0. It omits ``close`` and
    ``close_flops`` if updates are not coded, and ``tolerance`` if the consumer accepts exact arithmetic only.

    Example::

        document = assay.read_job("my-job").document
        print(document.rounds, document.slots, len(document.step.nodes))
    """

    version: Count
    name: _JobName
    executor_version: Count
    arithmetic: Name
    seed: _Natural
    rounds: _Positive
    slots: _Positive
    round_steps: _Positive
    batch: _Small
    segment_steps: _Positive
    aggregation: _Aggregation
    columns: _Tensors
    rows: _Positive
    shards: Annotated[tuple[Shard, ...], Length(0, _ITEMS_MAX)]
    data_root: Hash
    global_tensors: _Tensors
    local_tensors: _Tensors
    global_root: Hash
    local_root: Hash
    global_chunks: _Positive
    step: Program
    outer: Program
    eval: Program
    metrics: Annotated[tuple[Annotated[str, Size(0, 64)], ...], Length(0, _ITEMS_MAX), Sorted()]
    step_flops: _Flops
    outer_flops: _Flops
    sampling: Sampling = SHUFFLING
    start: Start = Start()
    close: Program | None = None
    close_flops: _Flops = 0
    tolerance: Tolerance | None = None

    @property
    def programs(self) -> dict[str, Program]:
        """The programs of the job by their names, in the order in which a round runs them; ``eval`` is the last."""
        every = {name: getattr(self, name) for name in _PROGRAMS}
        return {name: program for name, program in every.items() if program is not None}

    @property
    def share_segments(self) -> int:
        """Number of segments of a share, which is the work of one slot in one round."""
        return self.round_steps // self.segment_steps

    @property
    def steps(self) -> int:
        """Number of inner steps that each slot runs in the whole job."""
        return self.rounds * self.round_steps

    @property
    def opening_locals(self) -> tuple[bytes, ...]:
        """Roots of the initial local states of all slots, in slot order."""
        return self.start.local_roots or (self.local_root,) * self.slots

    @property
    def slot_states_size(self) -> int:
        """Size of ``slots.state`` in bytes; 0 if all slots begin with ``local.state``."""
        return encoded_size(self.local_tensors) * max(0, len(self.start.local_roots) - 1)


FIELDS = tuple(JobDocument.__dataclass_fields__)
OPTIONAL = {name: getattr(JobDocument, name) for name in ("sampling", "start", "close", "close_flops", "tolerance")}
"""Default values of the fields that a file omits if they have these values."""


@dataclass(frozen=True, slots=True)
class JobFile(Readable):
    """A file that the consumer uploads.

    Its bytes are checked against ``sha256``. A file with a state is also checked against the ``root`` of that state.
    The states in ``slots.state`` are checked against the roots in the document's ``start``.

    Example::

        for file in assay.read_job("my-job").payload:
            print(file.path, file.size)
    """

    path: str
    size: int
    sha256: bytes | None
    root: bytes | None


@dataclass(frozen=True)
class Job(Shown):
    """A checked job: its document, the SHA-256 of the document's canonical bytes (``id``), and the number of these
    bytes (``size``).

    Example::

        job = assay.read_job("my-job")
        print(job.id.hex(), job.total_flops)
    """

    document: JobDocument
    id: bytes
    size: int

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return the main fields of the job, for display."""
        document = self.document
        return (
            ("name", document.name),
            ("id", self.id),
            ("rounds", document.rounds),
            ("slots", document.slots),
            ("round_steps", document.round_steps),
            ("batch", document.batch),
            ("rows", document.rows),
            ("work", work(self.total_flops)),
        )

    @cached_property
    def updated(self) -> tuple[TensorSpec, ...]:
        """The global tensors that ``step`` changes, in name order."""
        return changed_tensors(self.document.step, self.document.global_tensors)

    @cached_property
    def update_tensors(self) -> tuple[TensorSpec, ...]:
        """The tensors of an update, in name order: those of ``updated``, or the outputs of ``close``."""
        return kind_of(self.document).tensors(self.document)

    @cached_property
    def profiled_id(self) -> bytes:
        """The id of this job without its part ``tolerance``. The profile of the job's honest runs names it."""
        if self.document.tolerance is None:
            return self.id
        return sha256(dump_job(replace(self.document, tolerance=None))).digest()

    @property
    def total_flops(self) -> int:
        """Work of all rounds in FLOPs: steps, boundaries and aggregations."""
        return total_work(order_terms(self))

    @property
    def payload(self) -> tuple[JobFile, ...]:
        """The files that a provider needs, in the order of the consumer's upload."""
        return payload_files(self)

    @property
    def payload_size(self) -> int:
        """Total size in bytes of the files that a provider needs."""
        return sum(file.size for file in self.payload)


def payload_files(job: Job) -> tuple[JobFile, ...]:
    """Return the files that the consumer uploads: the document, the initial states, and the shards."""
    document = job.document
    slots = document.slot_states_size
    return (
        JobFile(path=DOCUMENT, size=job.size, sha256=job.id, root=None),
        JobFile(
            path=GLOBAL_STATE,
            size=encoded_size(document.global_tensors),
            sha256=None,
            root=document.global_root,
        ),
        JobFile(
            path=LOCAL_STATE,
            size=encoded_size(document.local_tensors),
            sha256=None,
            root=document.local_root,
        ),
        *((JobFile(path=SLOT_STATES, size=slots, sha256=None, root=None),) if slots else ()),
        *(
            JobFile(path=f"{DATA_FOLDER}/{shard.name}", size=shard.size, sha256=shard.sha256, root=None)
            for shard in document.shards
        ),
    )


def document_json(document: JobDocument) -> dict[str, object]:
    """Return the document as JSON values. Hashes become hex, and FLOPs become decimal strings."""
    written = [name for name in FIELDS if name not in OPTIONAL or getattr(document, name) != OPTIONAL[name]]
    return {name: _field_json(name, getattr(document, name)) for name in written}


def _field_json(name: str, value: Any) -> object:
    if name in _PROGRAMS:
        return program_json(value)
    return str(value) if name in _FLOPS_FIELDS else codec.to_plain(value)


def dump_job(document: JobDocument) -> bytes:
    """Return the canonical bytes of a document; their SHA-256 is the job id."""
    return dump_json(document_json(document))


_SMALLER = "make the job smaller"
_OTHER_VERSION = "build the job again with assay job build, or use the version that built it"


def _refuse(field: str, reason: str, remedy: str = "build the job again with assay job build") -> JobError:
    return JobError(field, reason, remedy)


def _check_limits(document: JobDocument, limits: Limits) -> None:
    """Raise JobError if the job exceeds the limits of this machine."""
    for field, count in (
        ("columns", len(document.columns)),
        ("shards", len(document.shards)),
        ("metrics", len(document.metrics)),
        ("rows", document.rows),
    ):
        most = getattr(limits, field)
        if count > most:
            raise _refuse(field, f"{count} is more than {most}")
    _check_tensors("columns", document.columns, limits)
    _check_state("global_tensors", document.global_tensors, limits)
    _check_state("local_tensors", document.local_tensors, limits)
    _check_shards(document.shards, limits)


def _check_tensors(field: str, specs: Sequence[TensorSpec], limits: Limits) -> None:
    for index, spec in enumerate(specs):
        if index and not specs[index - 1].name < spec.name:
            raise _refuse(f"{field}[{index}].name", "the names are not in ascending order")
        if spec.type.elements > limits.value_elements:
            reason = f"has {spec.type.elements} elements, more than {limits.value_elements}"
            raise _refuse(f"{field}[{index}].shape", reason)


def _check_state(field: str, specs: Sequence[TensorSpec], limits: Limits) -> None:
    if len(specs) > limits.tensors:
        raise _refuse(field, f"{len(specs)} is more than {limits.tensors}")
    _check_tensors(field, specs, limits)
    size = sum(spec.type.size for spec in specs)
    if size > limits.state_size:
        raise _refuse(field, f"has {size} bytes, more than {limits.state_size}")
    try:
        header_chunk(specs)
    except StateError as error:
        raise _refuse(field, f"the header of the state: {error.reason}") from None


def _check_shards(shards: Sequence[Shard], limits: Limits) -> None:
    for index, shard in enumerate(shards):
        if shard.name != f"{index:05d}.safetensors":
            reason = f"shard {index} is not called {index:05d}.safetensors"
            raise _refuse(f"shards[{index}].name", reason)
        if shard.size > limits.shard_size:
            reason = f"{shard.size} is more than {limits.shard_size}"
            raise _refuse(f"shards[{index}].size", reason)
    size = sum(shard.size for shard in shards)
    if size > limits.data_size:
        raise _refuse("shards", f"has {size} bytes, more than {limits.data_size}")


def _read_flops(value: object, field: str) -> int:
    if not isinstance(value, str) or _FLOPS.fullmatch(value) is None:
        raise _refuse(field, "is not a number in decimal digits")
    return int(value)


def _check_work(document: JobDocument) -> None:
    """Raise JobError if the FLOPs in the document differ from the FLOPs that ``cost.py`` computes."""
    for field, expected in (
        ("step_flops", cost.step_work(document)),
        ("close_flops", cost.close_work(document)),
        ("outer_flops", cost.outer_work(document)),
    ):
        work_field = getattr(document, field)
        if work_field != expected:
            raise _refuse(field, f"the work is {expected}, not {work_field}")


def _check_versions(fields: Mapping[str, object]) -> None:
    """Raise JobError for a document of another version, before any other field is checked."""
    for field, expected in (
        ("version", VERSION),
        ("executor_version", EXECUTOR_VERSION),
        ("arithmetic", ARITHMETIC),
    ):
        if field in fields and fields[field] != expected:
            reason = f"this version of Assay reads {expected!r} only"
            raise _refuse(field, reason, _OTHER_VERSION)


def _check_data(document: JobDocument, limits: Limits) -> None:
    if sum(shard.rows for shard in document.shards) != document.rows:
        raise _refuse("rows", "is not the sum of the shards' rows")
    if not document.columns:
        raise _refuse("columns", "there is no column")
    row_size = sum(column.type.size for column in document.columns)
    # Without this check, the limits on file sizes would not limit the number of rows.
    if not row_size:
        raise _refuse("columns", "a row has no bytes")
    if document.batch > limits.epochs_per_batch * document.rows:
        reason = f"a batch of {document.batch} rows is too large for data of {document.rows} rows"
        raise _refuse("batch", reason, f"use at most {limits.epochs_per_batch * document.rows}")
    for index, shard in enumerate(document.shards):
        # With this check, the limits on file sizes also limit the memory that is allocated for rows.
        if shard.rows * row_size > shard.size:
            reason = f"{shard.rows} rows of {row_size} bytes do not fit {shard.size} bytes"
            raise _refuse(f"shards[{index}].rows", reason)
    for index, column in enumerate(document.columns):
        if "." in column.name:
            raise _refuse(f"columns[{index}].name", "the name of a column must not contain a dot")


def _check_sampling(document: JobDocument) -> None:
    """Raise JobError if the sampling of the document is not valid.

    A column of weights must hold one integer per row; loading checks its values.
    """
    name = document.sampling.weights
    if document.sampling.order != WEIGHTED:
        if name:
            reason = f"names the column {name!r}, but the rows are not drawn by weight"
            raise _refuse("sampling.weights", reason, f"leave it empty, or set sampling.order to {WEIGHTED}")
        return
    column = next((column for column in document.columns if column.name == name), None)
    if column is None:
        raise _refuse("sampling.weights", f"there is no column {name!r}")
    if column.type != _SCALAR:
        raise _refuse("sampling.weights", f"the column {name!r} is {column.type}, not {_SCALAR}")


def _check_batch(document: JobDocument, limits: Limits) -> None:
    """Raise JobError if a batch exceeds the limits.

    A batch counts every column, even a column that the step does not use.
    """
    for name, column in cost.batch_types(document.columns, document.batch).items():
        if column.elements > limits.value_elements:
            reason = f"{name} would have {column.elements} elements, more than {limits.value_elements}"
            raise _refuse("batch", reason, "use a smaller batch")
    size = cost.running_size(document)
    if size > limits.live_size:
        reason = f"a step with its batch and the order of {document.rows} rows needs {size} bytes"
        raise _refuse(
            "batch",
            f"{reason} at once, more than {limits.live_size}",
            "use a smaller batch or fewer rows",
        )


def _check_start(document: JobDocument, limits: Limits) -> None:
    """Raise JobError if the position where the job begins is not valid."""
    step, roots = document.start.step, document.start.local_roots
    samples = (step + document.steps) * document.slots * document.batch
    if step and samples > SAMPLES_MAX:
        reason = f"gives {samples} samples since step 0 of the first job, more than {SAMPLES_MAX}"
        raise _refuse("start.step", reason)
    if not roots:
        return
    field = "start.local_roots"
    if len(roots) != document.slots:
        raise _refuse(field, f"there are {len(roots)} roots, but the job has {document.slots} slots")
    if roots[0] != document.local_root:
        raise _refuse(f"{field}[0]", "the root of slot 0 differs from local_root")
    if len(set(roots)) == 1:
        raise _refuse(field, "all slots begin with the same state, so the list must be empty")
    if document.slot_states_size > limits.data_size:
        reason = f"the slots' states have {document.slot_states_size} bytes"
        raise _refuse(field, f"{reason}, more than {limits.data_size}")


def _named(prefix: str, specs: Sequence[TensorSpec]) -> dict[str, TensorType]:
    return {f"{prefix}.{spec.name}": spec.type for spec in specs}


def _check_inputs(program: Program, known: Mapping[str, TensorType], field: str) -> None:
    for index, spec in enumerate(program.inputs):
        expected = known.get(spec.name)
        if expected is None:
            raise _refuse(f"{field}.inputs[{index}].name", f"this program may not read {spec.name!r}")
        if spec.type != expected:
            raise _refuse(f"{field}.inputs[{index}]", f"{spec.name} is {spec.type}, not {expected}")


def _check_outputs(program: Program, known: Mapping[str, TensorType], field: str) -> None:
    for name, output in program.output_types().items():
        expected = known.get(name)
        if expected is None:
            raise _refuse(f"{field}.outputs.{name}", "this program may not write it")
        if output != expected:
            raise _refuse(f"{field}.outputs.{name}", f"is {output}, not {expected}")


def _check_step(document: JobDocument) -> None:
    step = document.step
    state = {**_named("global", document.global_tensors), **_named("local", document.local_tensors)}
    batch = cost.batch_types(document.columns, document.batch)
    _check_inputs(step, {**state, **batch, STEP: _SCALAR, BATCH_NUMBER: _SCALAR}, "step")
    metrics = {f"metric.{name}": _METRIC for name in document.metrics}
    _check_outputs(step, {**state, **metrics}, "step")
    for name in metrics:
        if name not in step.outputs:
            raise _refuse(f"step.outputs.{name}", "the metric is missing")
    updated = changed_tensors(step, document.global_tensors)
    if not updated:
        raise _refuse("step.outputs", "the step changes no global tensor")
    for spec in updated:
        if spec.dtype != "f32":
            reason = f"only f32 tensors are combined over slots, and this one is {spec.dtype}"
            raise _refuse(f"step.outputs.global.{spec.name}", reason, "keep counters in the local state")


def _check_close(document: JobDocument) -> None:
    """Raise JobError if ``close`` is missing, is not wanted or is not valid.

    Its update may not be larger than the one that it replaces: the limits on deliveries count on that.
    """
    is_coded = kind_of(document).is_coded
    if (document.close is not None) != is_coded:
        reason = "a job with coded updates needs it" if is_coded else f"{document.aggregation} updates are not coded"
        raise _refuse("close", reason)
    if document.close is None:
        return
    opening, closing = _named(OPENING, document.global_tensors), _named(END, document.global_tensors)
    local = _named(LOCAL, document.local_tensors)
    _check_inputs(document.close, {**opening, **closing, **local}, "close")
    outputs = document.close.output_types()
    update = {name: value for name, value in outputs.items() if name.startswith(f"{UPDATE}.")}
    _check_outputs(document.close, {**local, **update}, "close")
    tensors = kind_of(document).tensors(document)
    if not tensors:
        raise _refuse("close.outputs", "the update has no tensors")
    small = "leave update= out: the model is too small for it"
    if (size := encoded_size(tensors)) > (most := encoded_size(document.global_tensors)):
        raise _refuse("close.outputs", f"an update has {size} bytes, more than the {most} of the global state", small)
    if (count := chunk_count(tensors)) > document.global_chunks:
        reason = f"an update has {count} chunks, more than the {document.global_chunks} of the global state"
        raise _refuse("close.outputs", reason, small)


def _check_outer(document: JobDocument) -> None:
    """Raise JobError if ``outer`` is not valid.

    A program that gets means may fail only because a number is not finite. One that gets codes may also look rows up,
    because codes name places.
    """
    kind = kind_of(document)
    for index, node in enumerate(document.outer.nodes):
        body = node.attrs.get("body")
        if not kind.is_coded and (PRIMITIVES[node.op].may_fail or (body is not None and body.may_fail)):
            reason = f"{node.op} may fail, so the program outer cannot use it"
            raise _refuse(f"outer.nodes[{index}].op", reason)
    state = _named("global", document.global_tensors)
    _check_inputs(document.outer, {**state, **kind.inputs(document)}, "outer")
    _check_outputs(document.outer, state, "outer")


def _check_eval(document: JobDocument, limits: Limits) -> None:
    program = document.eval
    first = next((spec for spec in program.inputs if spec.name.startswith("batch.") and spec.shape), None)
    batch = first.shape[0] if first else 1
    if batch < 1:
        raise _refuse("eval.inputs", "the batch has no rows")
    batch_types = cost.batch_types(document.columns, batch)
    known = {**_named("global", document.global_tensors), **batch_types}
    _check_inputs(program, known, "eval")
    if len(program.outputs) > limits.metrics:
        raise _refuse("eval.outputs", f"has more than {limits.metrics} metrics")
    _check_outputs(program, {name: _METRIC for name in program.outputs if name.startswith("metric.")}, "eval")


def _check_tolerance(document: JobDocument) -> None:
    """Raise JobError if the document has thresholds of other tensors than those of its states and its metrics."""
    if document.tolerance is not None:
        states = document.global_tensors, document.local_tensors
        first, second = ([spec.name for spec in specs] for specs in states)
        check_tolerance(document.tolerance, measured_names(first, second, document.metrics))


def _document(value: object, limits: Limits) -> JobDocument:
    """Read the document from parsed JSON ``value``, and check each field by itself."""
    if not isinstance(value, dict):
        raise _refuse("", "is not an object")
    _check_versions(value)
    read: dict[str, object] = {**value}
    for name in _PROGRAMS:
        if name in value:
            read[name] = parse_program(value[name], limits, name)
    for name in _FLOPS_FIELDS:
        if name in value:
            read[name] = _read_flops(value[name], name)
    for name, default in OPTIONAL.items():
        read.setdefault(name, default)
    document = read_part(JobDocument, read, "")
    for name, default in OPTIONAL.items():
        if name in value and getattr(document, name) == default:
            raise _refuse(name, "is the default, which a document must omit", f"remove the field {name}")
    _check_limits(document, limits)
    return document


def check_document(document: JobDocument, limits: Limits = LIMITS) -> None:
    """Check the conditions that concern several fields, such as the types of the programs' inputs.

    Raises JobError, which names the field.
    """
    _check_data(document, limits)
    _check_sampling(document)
    _check_batch(document, limits)
    _check_start(document, limits)
    chunks = chunk_count(document.global_tensors)
    if document.global_chunks != chunks:
        raise _refuse("global_chunks", f"the global state has {chunks} chunks")
    _check_step(document)
    _check_close(document)
    _check_outer(document)
    _check_eval(document, limits)
    _check_tolerance(document)


def parse_job(data: bytes, limits: Limits = LIMITS) -> Job:
    """Parse the bytes of a ``job.json``, check the document, and return the job.

    Raises JobError, which names the field, if the bytes are not a valid job within ``limits``, or if no order could
    have the terms of the job.
    """
    bounds = JsonLimits(limits.document_size, limits.json_tokens, limits.json_depth)
    value = parse_json(data, bounds, DOCUMENT)
    document = _document(value, limits)
    check_document(document, limits)
    job = Job(document, sha256(data).digest(), len(data))
    try:
        check_terms(order_terms(job))
    except Refusal as refusal:
        field = refusal.field.removeprefix("terms.")
        raise JobError(field, refusal.reason, refusal.remedy or _SMALLER) from None
    _check_work(document)
    return job


def order_terms(job: Job) -> JobTerms:
    """Return the terms of an order of ``job``. The FLOPs in them are those that :func:`parse_job` verified."""
    document = job.document
    data_bytes = sum(shard.size for shard in document.shards)
    return JobTerms(
        job_id=job.id,
        payload_bytes=job.payload_size - data_bytes,
        data_bytes=data_bytes,
        global_root=document.global_root,
        local_root=document.local_root,
        data_root=document.data_root,
        rounds=document.rounds,
        slots=document.slots,
        round_steps=document.round_steps,
        batch=document.batch,
        segment_steps=document.segment_steps,
        step_work=document.step_flops,
        close_work=document.close_flops,
        outer_work=document.outer_flops,
        global_bytes=cost.global_size(document),
        local_bytes=cost.local_size(document),
        update_bytes=cost.update_size(document),
        global_chunks=document.global_chunks,
        local_chunks=chunk_count(document.local_tensors),
        executor_version=document.executor_version,
    )
