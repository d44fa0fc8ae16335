"""The end of a round in parts: each part computes, checks and hashes some tensors of the next global state.

Parts are independent of each other, so several processes or machines compute them at the same time. A part reads only
the tensors that its outputs need. What two parts need, such as the norm of all updates, both compute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pol.errors import AggregationFailed, NotFinite, OutOfRange
from pol.executor.interface import Backend, run
from pol.job.document import JobDocument
from pol.job.load import LoadedJob
from pol.job.program import Program, part_of
from pol.job.updates import AGGREGATE, UPDATES
from pol.rules.commitment import chunk_leaf
from pol.state.arrays import Array, State
from pol.state.canonical import StateTree, tensor_leaves
from pol.state.layout import header_chunk
from pol.state.pieces import read_tensors
from pol.values import TensorSpec
from pol.work.updates.table import codec_of

_GLOBAL = "global."


@dataclass(frozen=True, slots=True)
class AggregatedPart:
    """Some tensors of the next global state, and the hashes of their chunks by tensor."""

    state: State
    leaves: Mapping[str, tuple[bytes, ...]]


def divide(specs: Sequence[TensorSpec], parts: int) -> tuple[tuple[str, ...], ...]:
    """Return the names of the tensors of each part. The parts have about as many bytes, and each tensor is in one."""
    names: list[list[str]] = [[] for _ in range(parts)]
    sizes = [0] * parts
    for spec in sorted(specs, key=lambda spec: (-spec.type.size, spec.name)):
        lightest = sizes.index(min(sizes))
        names[lightest].append(spec.name)
        sizes[lightest] += spec.type.size
    return tuple(tuple(sorted(own)) for own in names)


def aggregate_part(
    loaded: LoadedJob, part: int, parts: int, opening: Path, updates: Sequence[Path], backend: Backend
) -> AggregatedPart:
    """Return one of the ``parts`` of the global state at the end of a round.

    ``opening`` is the file of the state at the round's beginning, and ``updates`` are those of the accepted updates,
    one per slot of the job, in slot order. The parts together are the state that :func:`pol.work.train.aggregate`
    returns, and fail if it fails.

    Raises StateError if a file is not a state with the job's tensors, ReplayError if there is not one update per slot,
    and AggregationFailed if there is no next state: a number is not finite, or a row number does not exist.
    """
    document = loaded.job.document
    names = divide(document.global_tensors, parts)[part]
    program = _program(document.outer, frozenset(_GLOBAL + name for name in names))
    read = {_bare(spec.name) for spec in program.inputs if spec.name.startswith(_GLOBAL)}
    start = read_tensors(opening, document.global_tensors, {*read, *names})
    inputs: dict[str, Array] = {_GLOBAL + name: array for name, array in start.items() if name in read}
    of_update = loaded.job.update_tensors
    own = _tensors_of_part(document, of_update, program, part)
    each = (read_tensors(path, of_update, own) for path in updates)
    specs = [spec for spec in of_update if spec.name in own]
    inputs |= codec_of(document).combine(specs, document.slots, each)
    state = {name: start[name] for name in names if _GLOBAL + name not in program.outputs}
    del start, each
    state |= _run(program, inputs, document.seed, backend)
    return AggregatedPart(state, {name: tensor_leaves(state[name], name) for name in sorted(state)})


def root_of_parts(specs: Sequence[TensorSpec], parts: Sequence[Mapping[str, tuple[bytes, ...]]]) -> bytes:
    """Return the root of the state whose tensors ``specs`` are in some parts, from the hashes of their chunks."""
    leaves = {name: own for part in parts for name, own in part.items()}
    ordered = {name: leaves[name] for name in sorted(leaves)}
    return StateTree(chunk_leaf(header_chunk(specs)), ordered).root


def _run(program: Program, inputs: dict[str, Array], seed: int, backend: Backend) -> dict[str, Array]:
    """Return the tensors that a part of ``outer`` changes. The program may overwrite ``inputs``."""
    if not program.outputs:
        return {}
    try:
        outputs = run(program, inputs, seed, backend, donated=tuple(inputs))
    except (NotFinite, OutOfRange) as error:
        raise AggregationFailed(error.field, error.reason) from None
    return {_bare(name): array for name, array in outputs.items()}


@lru_cache(maxsize=64)
def _program(outer: Program, outputs: frozenset[str]) -> Program:
    return part_of(outer, outputs)


def _bare(name: str) -> str:
    return name.partition(".")[2]


def _tensors_of_part(document: JobDocument, specs: Sequence[TensorSpec], program: Program, part: int) -> set[str]:
    """Return the names of the update's tensors that a part reads. The first part also checks those without a reader."""

    def used(by: Program) -> set[str]:
        return {_bare(spec.name) for spec in by.inputs if spec.name.partition(".")[0] in (AGGREGATE, UPDATES)}

    unused = {spec.name for spec in specs} - used(document.outer)
    return used(program) | (unused if part == 0 else set())
