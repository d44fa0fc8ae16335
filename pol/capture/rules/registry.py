"""Registry of torch operations, which maps the name of an overload to the handler that writes it in primitives.

A handler takes a :class:`CaptureSite` and the arguments of the node. Tensors are already handles (``Ref``), and all
other arguments are as torch gives them. The handler returns one handle, or a tuple of handles if the operation has
several results.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.fx import Node

from domain.errors import Expected
from pol.capture.program.emitter import Emitter
from pol.ops.product import DEFAULT_BITS

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f32",
    torch.float16: "f32",
    torch.bfloat16: "f32",
    torch.int64: "i64",
    torch.int32: "i64",
    torch.int16: "i64",
    torch.int8: "i64",
    torch.uint8: "i64",
    torch.bool: "bool",
}
"""Dtype that a job uses, for each dtype of torch."""


class Unsupported(Expected):
    """The error of an operation, or of a use of an operation, that cannot be written in primitives.

    Its text has the reason and the remedy.
    """


class Ref(int):
    """Handle of a tensor in the emitter, as distinct from a plain integer argument."""


@dataclass(frozen=True, slots=True)
class CaptureSite:
    """The node that a handler translates, with its shape, dtype and operands."""

    emitter: Emitter
    node: Node
    # Bits of the integers, if the node is a product.
    bits: int = DEFAULT_BITS

    @property
    def value(self) -> torch.Tensor:
        """The node's result in torch, with dtype and shape but without data."""
        value = self.node.meta["val"]
        assert isinstance(value, torch.Tensor)
        return value

    @property
    def dtype(self) -> str:
        """Dtype of the result."""
        return dtype_of(self.value.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(int(size) for size in self.value.shape)

    def operand(self, argument: Any, dtype: str) -> int:
        """Return a tensor or a Python number as a value of dtype ``dtype``."""
        if isinstance(argument, Ref):
            return self.emitter.cast(argument, dtype)
        return self.emitter.scalar(argument, dtype)


Handler = Callable[..., int | tuple[int, ...]]
_H = TypeVar("_H", bound=Handler)
RULES: dict[str, Handler] = {}
"""Handlers by ``namespace.operation.overload``."""


def rule(*names: str) -> Callable[[_H], _H]:
    """Register a handler under the names of overloads."""

    def register(handler: _H) -> _H:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has two handlers")
            RULES[name] = handler
        return handler

    return register


def dtype_of(dtype: torch.dtype) -> str:
    """Return the dtype in which a job computes for a dtype of torch; raise Unsupported for any other dtype."""
    if dtype not in DTYPES:
        name = str(dtype).removeprefix("torch.")
        reason = f"a value has the dtype {name}, but a job has only float32, int64 and bool"
        raise Unsupported(reason, "use one of these dtypes, as in x.float()")
    return DTYPES[dtype]
