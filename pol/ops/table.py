"""The table of primitives. A program may use no other operations."""

from collections.abc import Mapping
from types import MappingProxyType

from pol.limits import MAX_DIMENSION, MAX_RANK
from pol.ops.create import CREATE
from pol.ops.elementwise import ELEMENTWISE
from pol.ops.order import ORDER
from pol.ops.primitive import AttributeValue, Operands, Primitive, check_attributes, refuse
from pol.ops.product import PRODUCT
from pol.ops.reduce import REDUCE
from pol.ops.repeat import REPEAT
from pol.ops.shape import SHAPE
from pol.ops.windows import WINDOWS
from pol.values import TensorType

PRIMITIVES: Mapping[str, Primitive] = MappingProxyType(
    {
        row.name: row
        for family in (ELEMENTWISE, SHAPE, REDUCE, ORDER, PRODUCT, WINDOWS, CREATE, REPEAT)
        for row in family
    }
)
"""The primitives by name."""


def infer(op: str, operands: Operands, values: Mapping[str, object]) -> tuple[dict[str, AttributeValue], TensorType]:
    """Check one node. Return its attributes in checked form, and the type of its result.

    The body of a ``repeat`` must be a checked program; :func:`pol.job.program.infer_node` makes one from JSON.

    Raises JobError with a field relative to the node (``op``, ``args[1]``, ``attrs.dims``).
    """
    primitive = PRIMITIVES.get(op)
    if primitive is None:
        raise refuse("op", f"there is no operation {op[:40]!r}")
    if not primitive.arity[0] <= len(operands) <= primitive.arity[1]:
        least, most = primitive.arity
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise refuse("args", f"{op} takes {expected} operands, not {len(operands)}")
    checked = check_attributes(primitive, values)
    result = primitive.rule(operands, checked)
    if len(result.shape) > MAX_RANK:
        raise refuse("", f"the result has {len(result.shape)} dimensions, more than {MAX_RANK}")
    for size in result.shape:
        if size > MAX_DIMENSION:
            raise refuse("", f"the result has a dimension of {size}, more than {MAX_DIMENSION}")
    return checked, result
