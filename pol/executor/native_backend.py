"""NumPy with native kernels for what takes the time: products, functions, sums and random numbers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from pol.executor.numpy_backend import NumpyBackend
from pol.native.library import Library
from pol.ops.primitive import Function, Site
from pol.state.arrays import Array


class NativeBackend(NumpyBackend):
    """The reference, but for the primitives that have a kernel."""

    name = "native"

    def __init__(self, library: Library) -> None:
        """Compute with this library."""
        super().__init__()
        self.library = library
        self._makers: dict[str, Callable[[Site], Function | None]] = {
            "matmul": lambda site: library.product,
            "sum": self._sum,
            "uniform": self._uniform,
            **{name: self._function(name) for name in ("exp", "log", "tanh", "erf")},
        }

    def function(self, op: str, site: Site) -> Function:
        """Return the kernel of one node, or its reference where there is none."""
        maker = self._makers.get(op)
        found = None if maker is None else maker(site)
        return super().function(op, site) if found is None else found

    @contextmanager
    def session(self) -> Iterator[None]:
        """See ``LoopBackend.session``; refuses a thread that does not compute exactly."""
        self.library.check_thread()
        with np.errstate(all="ignore"):
            yield

    def _function(self, name: str) -> Callable[[Site], Function]:
        return lambda site: lambda x: self.library.function(name, x)

    def _sum(self, site: Site) -> Function | None:
        dims, shape = site.attrs["dims"], site.result.shape
        if site.operands[0].dtype != "f32" or not dims:
            return None

        def run(x: Array) -> Array:
            for done, dim in enumerate(dims):
                x = self.library.sum(x, dim - done)
            return x.reshape(shape)

        return run

    def _uniform(self, site: Site) -> Function:
        seed, stream = site.seed, site.attrs["site"]
        shape, count = site.result.shape, site.result.elements
        return lambda step: self.library.uniform(seed, stream, int(step), count).reshape(shape)
