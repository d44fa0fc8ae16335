"""The job document: ``job.json`` as values, checked as a whole before anything is allocated.

``parse_job`` is the only way in: canonical JSON, every field bounded, the three programs
type-checked against the tensors and columns that they name, work recomputed. What the document says
about files (roots, hashes, sizes) is checked against the files by ``load.py``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from domain.versions import EXECUTOR_VERSION
from pol.errors import JobError, StateError
from pol.job.program import Program, parse_program, program_json, spec_json, take_spec
from pol.job.strict_json import (
    dump_json,
    parse_json,
    take_hex,
    take_int,
    take_list,
    take_object,
    take_str,
)
from pol.limits import LIMITS, MAX_INTEGER, Limits
from pol.ops.table import PRIMITIVES
from pol.state.layout import chunk_count, encoded_size, header_chunk
from pol.values import TensorSpec, TensorType

DOCUMENT = "job.json"
GLOBAL_STATE = "global.state"
LOCAL_STATE = "local.state"
DATA_FOLDER = "data"

VERSION = 1
ARITHMETIC = "exact-15"

_HASH_SIZE = 32
_SHARD_NAME = re.compile(r"[0-9]{5}\.safetensors")
_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*")
_FLOPS = re.compile(r"0|[1-9][0-9]{0,38}")
_SCALAR = TensorType("i64", ())
_METRIC = TensorType("f32", ())


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of rows: name inside ``data/``, SHA-256, size in bytes, number of rows."""

    name: str
    sha256: bytes
    size: int
    rows: int


@dataclass(frozen=True)
class JobDocument:
    """Every field of ``job.json``, under the same names."""

    version: int
    name: str
    executor_version: int
    arithmetic: str
    seed: int
    rounds: int
    samples_per_round: int
    batch: int
    segment_length: int
    columns: tuple[TensorSpec, ...]
    rows: int
    shards: tuple[Shard, ...]
    data_root: bytes
    global_tensors: tuple[TensorSpec, ...]
    local_tensors: tuple[TensorSpec, ...]
    global_root: bytes
    local_root: bytes
    global_chunks: int
    step: Program
    outer: Program
    eval: Program
    metrics: tuple[str, ...]
    step_flops: int
    outer_flops: int

    @property
    def segment_samples(self) -> int:
        """Samples of one segment."""
        return self.batch * self.segment_length


FIELDS = tuple(JobDocument.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class PayloadFile:
    """A file that the consumer uploads; checked by ``sha256``, or by the root of the state that it
    holds.
    """

    path: str
    size: int
    sha256: bytes | None
    root: bytes | None


@dataclass(frozen=True)
class Job:
    """A checked job.

    Args:
        document: its fields.
        id: SHA-256 of the canonical bytes.
        size: number of those bytes.
    """

    document: JobDocument
    id: bytes
    size: int

    @cached_property
    def updated(self) -> tuple[TensorSpec, ...]:
        """The global tensors that ``step`` changes, in name order: those of an update."""
        return updated_tensors(self.document.step, self.document.global_tensors)

    @property
    def total_flops(self) -> int:
        """Work of all steps of all rounds."""
        document = self.document
        return document.rounds * document.samples_per_round // document.batch * document.step_flops

    @property
    def payload(self) -> tuple[PayloadFile, ...]:
        """The files that a provider needs, in the order in which they are sent."""
        return payload_files(self)

    @property
    def payload_size(self) -> int:
        """Bytes of all those files."""
        return sum(file.size for file in self.payload)


def payload_files(job: Job) -> tuple[PayloadFile, ...]:
    """Return the uploaded files: the document, both initial states, the shards."""
    document = job.document
    return (
        PayloadFile(DOCUMENT, job.size, job.id, None),
        PayloadFile(
            GLOBAL_STATE, encoded_size(document.global_tensors), None, document.global_root
        ),
        PayloadFile(LOCAL_STATE, encoded_size(document.local_tensors), None, document.local_root),
        *(
            PayloadFile(f"{DATA_FOLDER}/{shard.name}", shard.size, shard.sha256, None)
            for shard in document.shards
        ),
    )


def changed_outputs(step: Program) -> dict[str, TensorType]:
    """Return the outputs that are not just the input of the same name, with their types."""
    own = {spec.name: number for number, spec in enumerate(step.inputs)}
    return {
        name: step.types[number] for name, number in step.outputs.items() if own.get(name) != number
    }


def updated_tensors(step: Program, tensors: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return the tensors with an output in ``step`` that is not just their own input."""
    changed = changed_outputs(step)
    return tuple(
        sorted((s for s in tensors if f"global.{s.name}" in changed), key=lambda spec: spec.name)
    )


def document_json(document: JobDocument) -> dict[str, object]:
    """Return the document as JSON values (hashes as hex, FLOPs as decimal strings)."""
    plain = {name: getattr(document, name) for name in FIELDS}
    for name in ("step", "outer", "eval"):
        plain[name] = program_json(plain[name])
    for name in ("columns", "global_tensors", "local_tensors"):
        plain[name] = [spec_json(spec) for spec in plain[name]]
    for name in ("data_root", "global_root", "local_root"):
        plain[name] = plain[name].hex()
    for name in ("step_flops", "outer_flops"):
        plain[name] = str(plain[name])
    plain["metrics"] = list(document.metrics)
    plain["shards"] = [
        {"name": shard.name, "sha256": shard.sha256.hex(), "size": shard.size, "rows": shard.rows}
        for shard in document.shards
    ]
    return plain


def dump_job(document: JobDocument) -> bytes:
    """Return the canonical bytes of a document; their SHA-256 is the job id."""
    return dump_json(document_json(document))


def _refuse(
    field: str, reason: str, remedy: str = "build the job again with assay job build"
) -> JobError:
    return JobError(field, reason, remedy)


def _take_tensors(value: object, limit: int, limits: Limits, field: str) -> tuple[TensorSpec, ...]:
    entries = take_list(value, limit, field)
    specs = tuple(
        take_spec(entry, limits, f"{field}[{index}]") for index, entry in enumerate(entries)
    )
    for index, spec in enumerate(specs):
        if index and not specs[index - 1].name < spec.name:
            raise _refuse(f"{field}[{index}].name", "the names are not in ascending order")
    return specs


def _take_state(value: object, limits: Limits, field: str) -> tuple[TensorSpec, ...]:
    specs = _take_tensors(value, limits.tensors, limits, field)
    size = sum(spec.type.size for spec in specs)
    if size > limits.state_size:
        raise _refuse(field, f"have {size} bytes together, more than {limits.state_size}")
    try:
        header_chunk(specs)
    except StateError as error:
        raise _refuse(field, f"Of the state's header: {error.reason}") from None
    return specs


def _take_shard(value: object, limits: Limits, field: str) -> Shard:
    fields = take_object(value, ("name", "sha256", "size", "rows"), field)
    name = take_str(fields["name"], 64, f"{field}.name")
    if _SHARD_NAME.fullmatch(name) is None:
        raise _refuse(f"{field}.name", f"{name!r} is not five digits and .safetensors")
    return Shard(
        name,
        take_hex(fields["sha256"], _HASH_SIZE, f"{field}.sha256"),
        take_int(fields["size"], 1, limits.shard_size, f"{field}.size"),
        take_int(fields["rows"], 1, limits.rows, f"{field}.rows"),
    )


def _take_shards(value: object, limits: Limits) -> tuple[Shard, ...]:
    entries = take_list(value, limits.shards, "shards")
    shards = tuple(
        _take_shard(entry, limits, f"shards[{index}]") for index, entry in enumerate(entries)
    )
    for index, shard in enumerate(shards):
        if shard.name != f"{index:05d}.safetensors":
            raise _refuse(
                f"shards[{index}].name", f"shard {index} is not called {index:05d}.safetensors"
            )
    size = sum(shard.size for shard in shards)
    if size > limits.data_size:
        raise _refuse("shards", f"have {size} bytes together, more than {limits.data_size}")
    return shards


def _take_metrics(value: object, limits: Limits) -> tuple[str, ...]:
    entries = take_list(value, limits.metrics, "metrics")
    names = tuple(take_str(entry, 64, f"metrics[{index}]") for index, entry in enumerate(entries))
    if list(names) != sorted(set(names)):
        raise _refuse("metrics", "the names are not in ascending order")
    return names


def _take_flops(value: object, program: Program, field: str) -> int:
    text = take_str(value, 39, field)
    if _FLOPS.fullmatch(text) is None:
        raise _refuse(field, "is not a number in decimal digits")
    if int(text) != program.work.flops:
        raise _refuse(field, f"the program's work is {program.work.flops}, not {text}")
    return int(text)


def _take_exactly(value: object, expected: int | str, field: str) -> None:
    if type(value) is not type(expected) or value != expected:
        raise _refuse(
            field,
            f"this version of Assay reads {expected!r} only",
            "use the version that built the job",
        )


def _check_rounds(document: JobDocument, limits: Limits) -> None:
    unit = document.segment_samples
    if document.samples_per_round % unit:
        reason = (
            f"{document.samples_per_round} is not a multiple of batch x segment_length = {unit}"
        )
        raise _refuse("samples_per_round", reason)
    if document.rounds * document.samples_per_round > MAX_INTEGER:
        raise _refuse("rounds", "the stream of samples has more than 2^63 positions")
    if sum(shard.rows for shard in document.shards) != document.rows:
        raise _refuse("rows", "is not the sum of the shards' rows")
    if not document.columns:
        raise _refuse("columns", "there is no column")
    row_size = sum(column.type.size for column in document.columns)
    if not row_size:  # else the caps on files would not cap the rows
        raise _refuse("columns", "a row has no bytes")
    if document.batch > limits.epochs_per_batch * document.rows:
        reason = f"a batch of {document.batch} goes through {document.rows} rows too often"
        raise _refuse("batch", reason, f"use at most {limits.epochs_per_batch * document.rows}")
    for index, shard in enumerate(document.shards):
        if shard.rows * row_size > shard.size:  # so the caps on files cap what is allocated
            reason = f"{shard.rows} rows of {row_size} bytes do not fit {shard.size} bytes"
            raise _refuse(f"shards[{index}].rows", reason)
    for index, column in enumerate(document.columns):
        if "." in column.name:
            raise _refuse(f"columns[{index}].name", "the name of a column has no dot")


def _check_batch(document: JobDocument, limits: Limits) -> None:
    """Refuse a batch that no machine should hold; every column is read, whether the step uses it or not."""
    size = 0
    for name, column in _batch_types(document.columns, document.batch).items():
        if column.elements > limits.value_elements:
            reason = (
                f"{name} would have {column.elements} elements, more than {limits.value_elements}"
            )
            raise _refuse("batch", reason, "use a smaller batch")
        size += column.size
    if size > limits.live_size:
        raise _refuse(
            "batch",
            f"a batch has {size} bytes, more than {limits.live_size}",
            "use a smaller batch",
        )


def _named(prefix: str, specs: Sequence[TensorSpec]) -> dict[str, TensorType]:
    return {f"{prefix}.{spec.name}": spec.type for spec in specs}


def _check_inputs(program: Program, known: Mapping[str, TensorType], field: str) -> None:
    for index, spec in enumerate(program.inputs):
        expected = known.get(spec.name)
        if expected is None:
            raise _refuse(
                f"{field}.inputs[{index}].name", f"{spec.name!r} is not something that it may read"
            )
        if spec.type != expected:
            raise _refuse(f"{field}.inputs[{index}]", f"{spec.name} is {spec.type}, not {expected}")


def _check_outputs(program: Program, known: Mapping[str, TensorType], field: str) -> None:
    for name, found in program.output_types().items():
        expected = known.get(name)
        if expected is None:
            raise _refuse(f"{field}.outputs.{name}", "is not something that it may write")
        if found != expected:
            raise _refuse(f"{field}.outputs.{name}", f"is {found}, not {expected}")


def _batch_types(columns: Sequence[TensorSpec], batch: int) -> dict[str, TensorType]:
    return {f"batch.{spec.name}": TensorType(spec.dtype, (batch, *spec.shape)) for spec in columns}


def _check_step(document: JobDocument) -> None:
    step = document.step
    state = {**_named("global", document.global_tensors), **_named("local", document.local_tensors)}
    _check_inputs(
        step, {**state, **_batch_types(document.columns, document.batch), "step": _SCALAR}, "step"
    )
    metrics = {f"metric.{name}": _METRIC for name in document.metrics}
    _check_outputs(step, {**state, **metrics}, "step")
    for name in metrics:
        if name not in step.outputs:
            raise _refuse(f"step.outputs.{name}", "the metric is missing")
    updated = updated_tensors(step, document.global_tensors)
    if not updated:
        raise _refuse("step.outputs", "the step changes no global tensor")
    written = sum(found.elements for found in changed_outputs(step).values())
    flops = step.work.flops
    if flops < written:  # each is hashed after the step, so moving them about is not free
        reason = f"its work of {flops} FLOPs is less than the {written} elements it changes"
        raise _refuse("step.outputs", reason)
    for spec in updated:
        if spec.dtype != "f32":
            reason = f"an update is a difference of f32, and this is {spec.dtype}"
            raise _refuse(
                f"step.outputs.global.{spec.name}", reason, "keep counters in the local state"
            )


def _check_outer(document: JobDocument) -> None:
    """Check ``outer``. It may not fail but by a state that is not finite, else no round could be closed."""
    for index, node in enumerate(document.outer.nodes):
        if PRIMITIVES[node.op].may_fail:
            reason = f"the end of a round does not {node.op}, which may fail"
            raise _refuse(f"outer.nodes[{index}].op", reason)
    state = _named("global", document.global_tensors)
    updates = _named("aggregate", updated_tensors(document.step, document.global_tensors))
    _check_inputs(document.outer, {**state, **updates}, "outer")
    _check_outputs(document.outer, state, "outer")


def _check_eval(document: JobDocument, limits: Limits) -> None:
    program = document.eval
    first = next(
        (spec for spec in program.inputs if spec.name.startswith("batch.") and spec.shape), None
    )
    batch = first.shape[0] if first else 1
    if batch < 1:
        raise _refuse("eval.inputs", "a batch has no rows")
    known = {**_named("global", document.global_tensors), **_batch_types(document.columns, batch)}
    _check_inputs(program, known, "eval")
    if len(program.outputs) > limits.metrics:
        raise _refuse("eval.outputs", f"has more than {limits.metrics} metrics")
    _check_outputs(
        program, {name: _METRIC for name in program.outputs if name.startswith("metric.")}, "eval"
    )


def _document(fields: Mapping[str, object], limits: Limits) -> JobDocument:
    """Return the document with every field checked on its own."""
    _take_exactly(fields["version"], VERSION, "version")
    _take_exactly(fields["executor_version"], EXECUTOR_VERSION, "executor_version")
    _take_exactly(fields["arithmetic"], ARITHMETIC, "arithmetic")
    name = take_str(fields["name"], 64, "name")
    if _JOB_NAME.fullmatch(name) is None:
        raise _refuse("name", "use letters, digits, spaces, dots, dashes and underscores")
    programs = {
        kind: parse_program(fields[kind], limits, kind) for kind in ("step", "outer", "eval")
    }
    columns = _take_tensors(fields["columns"], limits.columns, limits, "columns")
    return JobDocument(
        version=VERSION,
        name=name,
        executor_version=EXECUTOR_VERSION,
        arithmetic=ARITHMETIC,
        seed=take_int(fields["seed"], 0, MAX_INTEGER, "seed"),
        rounds=take_int(fields["rounds"], 1, limits.rounds, "rounds"),
        samples_per_round=take_int(
            fields["samples_per_round"], 1, limits.samples_per_round, "samples_per_round"
        ),
        batch=take_int(fields["batch"], 1, 2**31, "batch"),
        segment_length=take_int(fields["segment_length"], 1, 2**31, "segment_length"),
        columns=columns,
        rows=take_int(fields["rows"], 1, limits.rows, "rows"),
        shards=_take_shards(fields["shards"], limits),
        data_root=take_hex(fields["data_root"], _HASH_SIZE, "data_root"),
        global_tensors=_take_state(fields["global_tensors"], limits, "global_tensors"),
        local_tensors=_take_state(fields["local_tensors"], limits, "local_tensors"),
        global_root=take_hex(fields["global_root"], _HASH_SIZE, "global_root"),
        local_root=take_hex(fields["local_root"], _HASH_SIZE, "local_root"),
        global_chunks=take_int(fields["global_chunks"], 1, 2**40, "global_chunks"),
        step=programs["step"],
        outer=programs["outer"],
        eval=programs["eval"],
        metrics=_take_metrics(fields["metrics"], limits),
        step_flops=_take_flops(fields["step_flops"], programs["step"], "step_flops"),
        outer_flops=_take_flops(fields["outer_flops"], programs["outer"], "outer_flops"),
    )


def check_document(document: JobDocument, limits: Limits = LIMITS) -> None:
    """Check what concerns several fields at once: ranges, and the programs against tensors and
    columns.

    Raises:
        JobError: naming the field.
    """
    _check_rounds(document, limits)
    _check_batch(document, limits)
    chunks = chunk_count(document.global_tensors)
    if document.global_chunks != chunks:
        raise _refuse("global_chunks", f"the global state has {chunks} chunks")
    _check_step(document)
    _check_outer(document)
    _check_eval(document, limits)


def parse_job(data: bytes, limits: Limits = LIMITS) -> Job:
    """Return the checked job of the bytes of a ``job.json``.

    Raises:
        JobError: naming the field, for everything that is not strictly a job within ``limits``.
    """
    value = parse_json(data, limits.document_size, limits.json_depth, DOCUMENT)
    document = _document(take_object(value, FIELDS, ""), limits)
    check_document(document, limits)
    return Job(document, sha256(data).digest(), len(data))
