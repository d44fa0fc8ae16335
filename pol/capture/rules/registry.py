"""The registry of torch operations: name of an overload to the function that writes it in primitives.

A handler takes the emitter, the fx node and its arguments; tensors are already handles (``Ref``), everything else is
as torch wrote it. It returns one handle, or a tuple of them for an operation with several results.
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
"""What a job computes in for each dtype of torch."""


class Unsupported(Expected):
    """An operation, or a way of using it, that cannot be written in primitives; says why or what instead."""


class Ref(int):
    """Handle of a tensor in the emitter, told apart from a plain integer argument."""


@dataclass(frozen=True, slots=True)
class CaptureSite:
    """The node that a handler translates, with its shape, dtype and operands."""

    emitter: Emitter
    node: Node
    # of its integers, where it is a product
    bits: int = DEFAULT_BITS

    @property
    def value(self) -> torch.Tensor:
        """The node's result as torch saw it: dtype and shape, no data."""
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
        """Return a tensor or a Python number as a value of ``dtype``."""
        if isinstance(argument, Ref):
            return self.emitter.cast(argument, dtype)
        return self.emitter.scalar(argument, dtype)


Handler = Callable[..., int | tuple[int, ...]]
_H = TypeVar("_H", bound=Handler)
RULES: dict[str, Handler] = {}
"""``namespace.operation.overload`` to its handler."""


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
    """Return what a job computes in for a torch dtype; Unsupported for one that it has nothing for."""
    if dtype not in DTYPES:
        name = str(dtype).removeprefix("torch.")
        raise Unsupported(f"a value is {name}; jobs have float32, int64 and bool only")
    return DTYPES[dtype]
