"""The NumPy back end. It runs the reference of every primitive (``pol/ops``)."""

from contextlib import AbstractContextManager

import numpy as np

from pol.errors import ExecutionError
from pol.executor.loop import LoopBackend
from pol.ops.primitive import Function, Site
from pol.ops.table import PRIMITIVES
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.state.held import Held, on_host


def check_subnormals() -> None:
    """Raise ExecutionError if this process flushes subnormal numbers to zero. Some libraries switch that on."""
    single = np.full(1, 2.0**-140, np.float32) * np.full(1, 0.5, np.float32)
    double = np.full(1, 2.0**-1060) * np.full(1, 0.5)
    if not single[0] or not double[0]:
        raise ExecutionError("backend", "this process flushes subnormal numbers to zero")


class NumpyBackend(LoopBackend):
    """The reference back end: NumPy on the CPU."""

    name = "numpy"

    def __init__(self) -> None:
        super().__init__()
        check_subnormals()

    def function(self, op: str, site: Site) -> Function:
        """Return the reference of the primitive ``op`` for one node."""
        maker = PRIMITIVES[op].reference
        assert maker is not None, "a Loop runs the body of a repeat itself"
        return maker(site)

    def upload(self, held: Held) -> Array:
        """Return the array itself, but in C order."""
        return np.asarray(on_host(held), order="C")

    def download(self, value: Array) -> Array:
        """Convert a value to an array. NumPy turns arrays without dimensions into scalars."""
        return np.asarray(value)

    def in_order(self, value: Array) -> Array:
        """Return the value in C order, as ``LoopBackend.in_order`` requires."""
        return np.asarray(value, order="C")

    def empty(self, dtype: str, elements: int) -> Array:
        """Return an uninitialized array, as ``LoopBackend.empty`` requires."""
        return np.empty(elements, NUMPY_DTYPES[dtype])

    def session(self) -> AbstractContextManager[object]:
        """Return a context in which overflow and NaN do not cause warnings. Outputs are checked at the end instead."""
        return np.errstate(all="ignore")
