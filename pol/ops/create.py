"""Primitives that create values from attributes alone, or from the seed and the number of the step."""

from collections.abc import Iterator

import numpy as np

from pol.limits import MAX_SITE
from pol.ops import philox
from pol.ops.indices import Indices
from pol.ops.primitive import (
    Attribute,
    Attributes,
    Function,
    Operands,
    Primitive,
    Site,
    Traffic,
    check_element,
    refuse,
)
from pol.ops.shape import element
from pol.ops.splits import Axis, Split, Way, resized
from pol.values import TensorType


def _counted(operands: Operands, attributes: Attributes) -> TensorType:
    return TensorType("i64", (attributes["size"],))


def _iota(site: Site) -> Function:
    size = site.attrs["size"]
    return lambda: np.arange(size, dtype=np.int64)


def _filled(operands: Operands, attributes: Attributes) -> TensorType:
    check_element(attributes, attributes["dtype"])
    return TensorType(attributes["dtype"], attributes["shape"])


def _full(site: Site) -> Function:
    # One element of memory is enough, since values are never written to.
    value = np.broadcast_to(element(site.attrs["value"], site.result.dtype), site.result.shape)
    return lambda: value


def _drawn(operands: Operands, attributes: Attributes) -> TensorType:
    if operands[0] != TensorType("i64", ()):
        raise refuse("args[0]", f"the step number must be an i64 scalar, not {operands[0]}")
    return TensorType("f32", attributes["shape"])


def _uniform(site: Site) -> Function:
    seed, stream = site.seed, site.attrs["site"]
    shape, count = site.result.shape, site.result.elements
    return lambda step: philox.uniform(seed, stream, int(step), count).reshape(shape)


def _any_dim(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    for dim, size in enumerate(result.shape):
        yield Way(size, (None,) * len(operands), Axis(dim))


def _some_numbers(site: Site, axis: Axis, indices: Indices) -> Function:
    return indices.array


def _some_drawn(site: Site, axis: Axis, indices: Indices) -> Function:
    """Return the function that draws only some elements. A word depends on its own position alone."""
    seed, stream = site.seed, site.attrs["site"]
    numbers = indices.take(np.arange(site.result.elements).reshape(site.result.shape), axis.dim)
    return lambda step: philox.uniform_at(seed, stream, int(step), numbers)


_SHAPE = {"shape": Attribute("ints")}
_FULL = {**_SHAPE, "dtype": Attribute("dtype"), "value": Attribute("element")}
_UNIFORM = {**_SHAPE, "site": Attribute("int", 0, MAX_SITE)}

CREATE = (
    Primitive(
        name="iota",
        arity=(0, 0),
        rule=_counted,
        reference=_iota,
        attributes={"size": Attribute("int")},
        cost=8,
        splits=(Split("every dimension", _any_dim, local=_some_numbers),),
    ),
    Primitive(
        name="full",
        arity=(0, 0),
        rule=_filled,
        reference=_full,
        attributes=_FULL,
        cost=0,
        traffic=Traffic.VIEW,
        repeats=True,
        splits=(Split("every dimension", _any_dim, fit=resized),),
    ),
    Primitive(
        name="uniform",
        arity=(1, 1),
        rule=_drawn,
        reference=_uniform,
        attributes=_UNIFORM,
        cost=400,
        calls=200,
        splits=(Split("every dimension", _any_dim, local=_some_drawn),),
    ),
)
"""The primitives that create values."""
