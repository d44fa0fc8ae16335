"""The primitive ``repeat``. It is a program within a node, which runs a fixed number of times.

It expresses recurrences, scans, and sums over many parts. Its meaning is defined by its unrolling
(``pol/job/unroll.py``). In turn t, the body gets the carried values from the turn before, part t of each sequence, and
constants, which are the same in every turn. Each output of the body is carried to the next turn, or stacked as the part
of this turn. If ``reverse`` is true, the turns go through sequences and stacks from the last part to the first.

The names in the body give the role of each value. Inputs are ``carry.0``, ``carry.1``, … then ``sequence.0``, … then
``constant.0``, …. Outputs are one ``carry.N`` per carried input, and ``stacked.0``, …. The result of the node is one
flat list of numbers: the carried values after the last turn, then the stacks.
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
from pol.ops.splits import Split, Way
from pol.values import TensorSpec, TensorType

CARRY, SEQUENCE, CONSTANT, STACKED = "carry", "sequence", "constant", "stacked"
_KINDS = (CARRY, SEQUENCE, CONSTANT)
_REMEDY = "build the job again with assay job build"


class Body(Protocol):
    """A repeated program, reduced to the properties that the rules of ``repeat`` need."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """The inputs, with names and types."""

    @property
    def outputs(self) -> Mapping[str, int]:
        """The value number of each output, by the output's name."""

    @property
    def work(self) -> OpWork:
        """Work of one turn."""

    @property
    def inner_size(self) -> int:
        """Number of bytes that a turn holds at once, without its inputs and constants."""

    @property
    def may_fail(self) -> bool:
        """True if a turn can end in OutOfRange."""

    def output_types(self) -> Mapping[str, TensorType]:
        """Return the type of each output by its name."""


@dataclass(frozen=True, slots=True)
class RepeatForm:
    """The roles of a repeat's operands, and the parts of its result.

    The operands are carried values, then sequences, then constants. ``parts`` holds the name and type of each part, in
    the order of the result. A stack's first dimension is the turn.
    """

    carried: int
    sequences: int
    constants: int
    parts: tuple[tuple[str, TensorType], ...]


def form(body: Body, count: int) -> RepeatForm:
    """Return the form of a repeat of ``count`` turns.

    Raises JobError if the names of the body's inputs and outputs are not valid.
    """
    counts = dict.fromkeys(_KINDS, 0)
    at = 0
    for index, spec in enumerate(body.inputs):
        kind = spec.name.partition(".")[0]
        at = max(at, _KINDS.index(kind)) if kind in _KINDS else at
        if spec.name != f"{_KINDS[at]}.{counts[_KINDS[at]]}":
            reason = f"{spec.name} is not a valid name of a body's input at this position"
            raise refuse(f"attrs.body.inputs[{index}].name", reason, _REMEDY)
        counts[kind] += 1
    types = body.output_types()
    carries = [f"{CARRY}.{index}" for index in range(counts[CARRY])]
    stacks = [f"{STACKED}.{index}" for index in range(len(types) - len(carries))]
    if not types or set(types) != {*carries, *stacks}:
        reason = f"the outputs must be {counts[CARRY]} carried values (carry.0, …) and stacked values (stacked.0, …)"
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
    roles = form(body, count)
    if len(operands) != len(body.inputs):
        raise refuse("args", f"the body has {len(body.inputs)} inputs, not {len(operands)}")
    for index, (operand, spec) in enumerate(zip(operands, body.inputs, strict=True)):
        is_sequence = spec.name.startswith(SEQUENCE)
        shape = (count, *spec.shape) if is_sequence else spec.shape
        if operand != TensorType(spec.dtype, shape):
            expected = TensorType(spec.dtype, shape)
            raise refuse(f"args[{index}]", f"{spec.name} must be {expected}, not {operand}", _REMEDY)
    for (name, value), spec in zip(roles.parts[: roles.carried], body.inputs, strict=False):
        if value != spec.type:
            reason = f"{name} is {value} after a turn, and {spec.type} before it"
            raise refuse(f"attrs.body.outputs.{name}", reason, _REMEDY)
    dtypes = {value.dtype for _, value in roles.parts}
    if len(dtypes) != 1:
        reason = f"the outputs have different dtypes: {' and '.join(sorted(dtypes))}"
        raise refuse("attrs.body.outputs", reason, "carry and stack values of one dtype")
    return TensorType(dtypes.pop(), (sum(value.elements for _, value in roles.parts),))


def _carried_size(body: Body) -> int:
    return sum(spec.type.size for spec in body.inputs if spec.name.startswith(CARRY))


def _turns_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    """Return the work of all turns.

    Each turn runs the body, reads from the sequences, writes to the stacks, and moves the carried values.
    """
    body: Body = attributes["body"]
    count: int = attributes["count"]
    calls = 2 + len(body.inputs) + 2 * len(body.outputs)
    turn = body.work + OpWork(moved=2 * _carried_size(body), calls=calls)
    return turn.times(count)


def _turn_size(operands: Operands, attributes: Attributes, result: TensorType) -> int:
    body: Body = attributes["body"]
    # The carried values are held twice: before and after a turn.
    return 2 * _carried_size(body) + body.inner_size


def _none(operands: Operands, attributes: Attributes, result: TensorType) -> tuple[Way, ...]:
    """Return no way: the result is a list of several parts, which no axis describes. The body shows its rows."""
    return ()


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
        splits=(Split("rows that each node of the body keeps apart in every turn", _none),),
    ),
)
"""The primitive ``repeat``."""
