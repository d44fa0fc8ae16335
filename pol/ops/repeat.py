"""A program within a node, run a fixed number of times: recurrences, scans, and sums over many parts.

A ``repeat`` means its unrolling (``pol/job/unroll.py``), and nothing else. In turn t its body gets what it carries on,
as the turn before has left it, the t-th part of each sequence, and constants, which are the same in every turn. What
the body gives goes to the next turn, or is stacked as the part of this turn. ``reverse`` goes through all sequences and
stacks from their last part to their first one.

Which is which the names in the body say: inputs are ``carry.0``, ``carry.1``, … then ``sequence.0``, … then
``constant.0``, …; outputs are a ``carry.N`` for each of the inputs, and ``stacked.0``, …. A node has one result, so all
parts lie one behind the other in it, as rows of numbers: what is carried at the end, then what was stacked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pol.limits import MAX_REPEATED, MAX_TURNS
from pol.ops.primitive import (
    Attribute,
    Attributes,
    Operands,
    OpWork,
    Primitive,
    Traffic,
    refuse,
)
from pol.values import TensorSpec, TensorType

CARRY, SEQUENCE, CONSTANT, STACKED = "carry", "sequence", "constant", "stacked"
_KINDS = (CARRY, SEQUENCE, CONSTANT)
_REMEDY = "build the job again with assay job build"


class Body(Protocol):
    """What has to be known of a program that is repeated."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """Named and typed inputs."""

    @property
    def outputs(self) -> Mapping[str, int]:
        """Names of outputs to numbers of values."""

    @property
    def work(self) -> OpWork:
        """Work of one turn."""

    @property
    def inner_size(self) -> int:
        """Bytes that a turn has at once beside inputs and constants."""

    @property
    def may_fail(self) -> bool:
        """Whether a turn can end in OutOfRange."""

    def output_types(self) -> Mapping[str, TensorType]:
        """Return the types of outputs by name."""


@dataclass(frozen=True, slots=True)
class RepeatForm:
    """How many operands of a repeat are carried, sequences and constants, and the parts of its result in their order.

    ``parts`` are name and type of each output of the body; what is stacked has its turns in front.
    """

    carried: int
    sequences: int
    constants: int
    parts: tuple[tuple[str, TensorType], ...]


def form(body: Body, count: int) -> RepeatForm:
    """Return the form of a repeat of a body, whose names have to be those of one."""
    counts = dict.fromkeys(_KINDS, 0)
    at = 0
    for index, spec in enumerate(body.inputs):
        kind = spec.name.partition(".")[0]
        at = max(at, _KINDS.index(kind)) if kind in _KINDS else at
        if spec.name != f"{_KINDS[at]}.{counts[_KINDS[at]]}":
            reason = f"{spec.name} is no input of a body, or not in its place"
            raise refuse(f"attrs.body.inputs[{index}].name", reason, _REMEDY)
        counts[kind] += 1
    types = body.output_types()
    carries = [f"{CARRY}.{index}" for index in range(counts[CARRY])]
    stacks = [f"{STACKED}.{index}" for index in range(len(types) - len(carries))]
    if not types or set(types) != {*carries, *stacks}:
        reason = f"these are not {counts[CARRY]} values that are carried, and others that are stacked"
        raise refuse("attrs.body.outputs", reason, _REMEDY)
    parts = [(name, types[name]) for name in carries]
    parts += [(n, TensorType(types[n].dtype, (count, *types[n].shape))) for n in stacks]
    return RepeatForm(
        carried=counts[CARRY],
        sequences=counts[SEQUENCE],
        constants=counts[CONSTANT],
        parts=tuple(parts),
    )


def _repeated(operands: Operands, attributes: Attributes) -> TensorType:
    body, count = attributes["body"], attributes["count"]
    found = form(body, count)
    if len(operands) != len(body.inputs):
        raise refuse("args", f"the body has {len(body.inputs)} inputs, not {len(operands)}")
    for index, (operand, spec) in enumerate(zip(operands, body.inputs, strict=True)):
        is_sequence = spec.name.startswith(SEQUENCE)
        shape = (count, *spec.shape) if is_sequence else spec.shape
        if operand != TensorType(spec.dtype, shape):
            wanted = TensorType(spec.dtype, shape)
            raise refuse(f"args[{index}]", f"{operand} is not the {wanted} of {spec.name}", _REMEDY)
    for (name, value), spec in zip(found.parts[: found.carried], body.inputs, strict=False):
        if value != spec.type:
            reason = f"{name} is {value} after a turn, and {spec.type} before it"
            raise refuse(f"attrs.body.outputs.{name}", reason, _REMEDY)
    dtypes = {value.dtype for _, value in found.parts}
    if len(dtypes) != 1:
        reason = f"what comes of it is {' and '.join(sorted(dtypes))}"
        raise refuse("attrs.body.outputs", reason, "carry and stack values of one dtype")
    return TensorType(dtypes.pop(), (sum(value.elements for _, value in found.parts),))


def _carried_size(body: Body) -> int:
    return sum(spec.type.size for spec in body.inputs if spec.name.startswith(CARRY))


def _turns_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    """Each turn's work, its way through sequences and stacks, and moving on what is carried."""
    body: Body = attributes["body"]
    count: int = attributes["count"]
    calls = 2 + len(body.inputs) + 2 * len(body.outputs)
    turn = body.work + OpWork(moved=2 * _carried_size(body), calls=calls)
    return turn.times(count)


def _turn_size(operands: Operands, attributes: Attributes, result: TensorType) -> int:
    body: Body = attributes["body"]
    # what a turn begins with, and what it has left
    return 2 * _carried_size(body) + body.inner_size


_ATTRIBUTES = {
    "body": Attribute("program"),
    "count": Attribute("int", 1, MAX_TURNS),
    "reverse": Attribute("bool"),
}

REPEAT = (
    Primitive(
        name="repeat",
        arity=(0, MAX_REPEATED),
        rule=_repeated,
        reference=None,
        attributes=_ATTRIBUTES,
        cost=0,
        calls=8,
        traffic=Traffic.RESULT,
        more=_turns_work,
        more_scratch=_turn_size,
        in_order=True,
    ),
)
"""Rows of the table."""
