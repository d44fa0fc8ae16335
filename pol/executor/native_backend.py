"""NumPy with native kernels for what takes the time: products, functions, sums, random numbers, elementwise chains."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np

from pol.executor.fusion import Unit, plan
from pol.executor.loop import Loop
from pol.executor.numpy_backend import NumpyBackend
from pol.job.program import Program
from pol.native.chain import Chain, Link
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
            "matmul": lambda site: partial(library.product, site.attrs["bits"]),
            "sum": self._sum,
            "uniform": self._uniform,
            **{name: self._function(name) for name in ("exp", "log", "tanh", "erf")},
        }

    def loop(self, program: Program, seed: int) -> Loop:
        """Return a program with its elementwise nodes in chains."""
        return Fused(self, program, seed)

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


@dataclass(frozen=True, slots=True)
class _Ready:
    """A unit that is ready to run: from its operands to its results."""

    function: Callable[..., Sequence[Array]]
    sources: tuple[int, ...]
    results: tuple[int, ...]
    dead: tuple[int, ...]


class Fused(Loop):
    """A program unit by unit; one thread runs it at a time."""

    def __init__(self, backend: NativeBackend, program: Program, seed: int) -> None:
        super().__init__(backend, program, seed)
        self._session = backend.session
        self._turn = Lock()
        self._units = [self._made(backend.library, program, unit) for unit in plan(program)]

    def run(
        self, inputs: Mapping[str, Array], watch: Callable[[int, Array], None] | None = None
    ) -> dict[str, Array]:
        """Return the outputs by name; with ``watch`` node by node, see :meth:`Loop.run`."""
        if watch is not None:
            return super().run(inputs, watch)
        values = self.values(inputs)
        with self._turn, self._session():
            for unit in self._units:
                results = unit.function(*[values[number] for number in unit.sources])
                for number, result in zip(unit.results, results, strict=True):
                    values[number] = result
                for number in unit.dead:
                    values[number] = None
            return self.outputs(values)

    def _made(self, library: Library, program: Program, unit: Unit) -> _Ready:
        nodes = {number: program.nodes[number - program.first_node] for number in unit.nodes}
        if len(nodes) == 1:
            ((number, node),) = nodes.items()
            function = self.function(number)
            return _Ready(
                lambda *operands: (function(*operands),), node.args, unit.results, unit.dead
            )
        links = [Link(node.op, node.args, number) for number, node in nodes.items()]
        types = {number: program.types[number] for number in (*unit.sources, *unit.nodes)}
        chain = Chain(library, links, types, unit.sources, unit.results)
        return _Ready(lambda *operands: chain.run(operands), unit.sources, unit.results, unit.dead)
