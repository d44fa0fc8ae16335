"""What an executor's back end offers: one function for each node, and arrays in and out."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from pol.executor.errors import ExecutionError
from pol.job.program import Node
from pol.state.arrays import Array
from pol.values import TensorType

Value = Any
"""An array of the back end's library."""
Function = Callable[..., Value]
"""Operands in, result out; never writes to its operands."""


class Backend(Protocol):
    """A way to run primitives; every back end gives the same bits."""

    @property
    def name(self) -> str:
        """``numpy`` or ``torch``."""

    def compile(
        self, node: Node, operands: Sequence[TensorType], result: TensorType, seed: int
    ) -> Function:
        """Return the function of one node; its attributes and shapes are already checked."""

    def upload(self, array: Array) -> Value:
        """Return the array as the library's own."""

    def download(self, value: Value) -> Array:
        """Return a value as a NumPy array."""

    def session(self) -> AbstractContextManager[object]:
        """Return the context in which functions are called (no warnings, no gradients)."""


def backend(name: str, device: str = "cpu") -> Backend:
    """Return a back end: ``numpy`` (reference) or ``torch`` (imported only here, with its
    ``device``).

    Raises:
        ExecutionError: an unknown name, or this machine flushes subnormal numbers to zero.
    """
    if name == "numpy":
        from pol.executor.numpy_backend import NumpyBackend

        return NumpyBackend()
    if name == "torch":
        from pol.executor.torch_backend import TorchBackend

        return TorchBackend(device)
    raise ExecutionError("backend", f"{name!r} is neither numpy nor torch.")
