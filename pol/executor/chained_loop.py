"""A program as functions of which some compute a whole chain of elementwise nodes at once.

For a device on which the way to memory and the start of a kernel take longer than what a node computes. Which nodes
make a chain says :mod:`pol.executor.fusion`; a chain that is too much for one kernel is cut into several.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pol.executor.fusion import CHAINED, Group, grouped, singly
from pol.executor.loop import Loop, LoopBackend, Place, Value, Watch, operands_of
from pol.job.program import Node, Program
from pol.ops.table import PRIMITIVES
from pol.values import Shape, TensorType

OPERATIONS: Mapping[str, int] = MappingProxyType({"exp": 40, "log": 50, "tanh": 50, "erf": 90})
"""What a kernel does for a function."""
_FEW = 4
"""About what it does for any other node."""
OPERATIONS_MAX = 400
"""Operations of a kernel: about a second for the compiler."""


@dataclass(frozen=True, slots=True)
class ChainStep:
    """A node of a chain: its operation, the dtype of its result, and its operands.

    Those are numbers of the chain's operands, and then of its nodes.
    """

    op: str
    dtype: str
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ElementwiseChain:
    """Elementwise nodes of one shape, which operands broadcast to; ``results`` are places in ``steps``.

    An operand of one element may lie anywhere, and may be one that repeats it.
    """

    shape: Shape
    operands: tuple[TensorType, ...]
    steps: tuple[ChainStep, ...]
    results: tuple[int, ...]


ChainFunction = Callable[..., Sequence[Value]]
"""Takes the operands of a chain as they lie, and returns its results, one after another."""
Maker = Callable[[ElementwiseChain], ChainFunction]


class ChainPlan:
    """What runs after what: chains, and everything else node by node, views just before somebody reads them."""

    def __init__(self, program: Program, grouping: Sequence[Group]) -> None:
        self.program = program
        self.groups: list[Group] = []
        self._placed = set(range(program.first_node))
        # what each value is broadcast from
        self._sources = list(range(len(program.types)))
        for number, node in enumerate(program.nodes, program.first_node):
            if node.op == "broadcast":
                self._sources[number] = self._sources[node.args[0]]
        for group in grouping:
            for part in _cut(group, self.node):
                self._need(self._outside(part))
                self._put(part)
        self._need(tuple(program.outputs.values()))
        self.reads = [self._outside(group) for group in self.groups]
        last = {number: row for row, numbers in enumerate(self.reads) for number in numbers}
        kept = set(program.outputs.values())
        self.results = [[number for number in group if number in last or number in kept] for group in self.groups]
        self.dead: list[list[int]] = [[] for _ in self.groups]
        for number, row in last.items():
            if number >= program.first_node and number not in kept:
                self.dead[row].append(number)

    def node(self, number: int) -> Node:
        """Return the node of a value."""
        return self.program.nodes[number - self.program.first_node]

    def _outside(self, group: Group) -> list[int]:
        """Return what a group reads of others, each once; a chain broadcasts by itself."""
        inside = set(group)
        found: dict[int, None] = {}
        for number in group:
            node = self.node(number)
            for arg in node.args:
                if arg not in inside:
                    found[self._sources[arg] if node.op in CHAINED else arg] = None
        return list(found)

    def seen(self, number: int) -> TensorType:
        """Return the type of a value, without its shape where one element is all that is in it."""
        value = self.program.types[number]
        is_one = number >= self.program.first_node and self.node(number).op == "full"
        return TensorType(value.dtype, ()) if is_one else value

    def _need(self, numbers: Sequence[int]) -> None:
        """Put the views that are missing before what reads them."""
        waiting = [number for number in numbers if number not in self._placed]
        while waiting:
            current = waiting[-1]
            missing = [arg for arg in self.node(current).args if arg not in self._placed]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if current not in self._placed:
                self._put([current])

    def _put(self, group: Group) -> None:
        self.groups.append(group)
        self._placed.update(group)

    def peak(self) -> int:
        """Return the largest number of bytes at once beside inputs and constants."""
        program, memory_of = self.program, self.program.memory_of()
        peak = live = 0
        # values that lie in the memory of a node's result
        sharing: dict[int, int] = {}
        for group, results, dead in zip(self.groups, self.results, self.dead, strict=True):
            for memory in map(memory_of.__getitem__, results):
                if memory >= program.first_node:
                    live += 0 if sharing.get(memory) else program.types[memory].size
                    sharing[memory] = sharing.get(memory, 0) + 1
            peak = max(peak, live + self._scratch(group))
            for memory in filter(sharing.__contains__, map(memory_of.__getitem__, dead)):
                sharing[memory] -= 1
                live -= 0 if sharing[memory] else program.types[memory].size
        return peak

    def is_chain(self, group: Group) -> bool:
        """Whether a group is a chain: of one node, too."""
        return self.node(group[0]).op in CHAINED

    def operands(self, index: int) -> Callable[[Sequence[Value]], Sequence[Value]]:
        """Return what takes out of all values what a group reads."""
        group = self.groups[index]
        return operands_of(self.reads[index] if self.is_chain(group) else self.node(group[0]).args)

    def chain(self, index: int) -> ElementwiseChain:
        """Return a group as a chain."""
        group, operands = self.groups[index], self.reads[index]
        types = self.program.types
        place = {number: index for index, number in enumerate((*operands, *group))}
        steps = []
        for number in group:
            node = self.node(number)
            args = [arg if arg in place else self._sources[arg] for arg in node.args]
            steps.append(ChainStep(node.op, types[number].dtype, tuple(place[arg] for arg in args)))
        return ElementwiseChain(
            shape=types[group[0]].shape,
            operands=tuple(self.seen(number) for number in operands),
            steps=tuple(steps),
            results=tuple(place[number] - len(operands) for number in self.results[index]),
        )

    def _scratch(self, group: Group) -> int:
        """Return the bytes that a group takes beside what it reads and leaves; a chain has its values in registers."""
        node, types = self.node(group[0]), self.program.types
        if self.is_chain(group):
            return 0
        operands = [types[arg] for arg in node.args]
        return PRIMITIVES[node.op].scratch_size(operands, node.attrs, types[group[0]])


def _cut(group: Group, node: Callable[[int], Node]) -> Iterator[Group]:
    """Yield the parts of a chain, none with more operations than a kernel has."""
    part: list[int] = []
    lines = 0
    for number in group:
        more = OPERATIONS.get(node(number).op, _FEW)
        if part and lines + more > OPERATIONS_MAX:
            yield part
            part, lines = [], 0
        part.append(number)
        lines += more
    yield part


class ChainedLoop(Loop):
    """A program whose chains are computed at once, as long as that takes no more memory than is declared."""

    def __init__(self, backend: LoopBackend, program: Program, seed: int, make: Maker) -> None:
        super().__init__(backend, program, seed)
        rows = ChainPlan(program, grouped(program))
        if rows.peak() > program.inner_size:
            rows = ChainPlan(program, singly(program))
        self._rows = [
            (self._function(rows, make, index), rows.operands(index), results, rows.dead[index])
            for index, results in enumerate(rows.results)
        ]

    def _function(self, rows: ChainPlan, make: Maker, index: int) -> ChainFunction:
        group = rows.groups[index]
        if rows.is_chain(group):
            return make(rows.chain(index))
        function = self.function_of(group[0])
        return lambda *operands: (function(*operands),)

    def values(self, given: Sequence[Value], watch: Watch | None = None, place: Place = ()) -> dict[str, Value]:
        """See ``Loop.values``; what is watched is taken node by node."""
        if watch is not None:
            return super().values(given, watch, place)
        values = self.begun(given)
        for function, operands, results, dead in self._rows:
            for number, value in zip(results, function(*operands(values)), strict=True):
                values[number] = value
            for number in dead:
                values[number] = None
        return self.ended(values)
