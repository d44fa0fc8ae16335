"""A program as a list of functions. Some of the functions compute a whole chain of elementwise nodes at once.

This form is for devices on which memory access and the start of a kernel take longer than the computation of a node.
:mod:`pol.executor.fusion` groups nodes into chains; a chain that is too large for one kernel is split.
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
"""Approximate number of operations that each function takes in a kernel."""
_FEW = 4
"""Approximate number of operations that any other node takes in a kernel."""
OPERATIONS_MAX = 400
"""Largest number of operations of a kernel; a kernel of this size takes about a second to compile."""


@dataclass(frozen=True, slots=True)
class ChainStep:
    """A node of a chain: its operation, the dtype of its result, and its operands.

    ``args`` has the numbers of the node's operands. The chain's own operands have the first numbers, and the chain's
    nodes the numbers after these.
    """

    op: str
    dtype: str
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ElementwiseChain:
    """A chain of elementwise nodes. All nodes have the shape ``shape``, and the operands broadcast to this shape.

    ``results`` has the indices, in ``steps``, of the nodes whose values are the chain's results. An operand that
    repeats one element has the type of a scalar.
    """

    shape: Shape
    operands: tuple[TensorType, ...]
    steps: tuple[ChainStep, ...]
    results: tuple[int, ...]


ChainFunction = Callable[..., Sequence[Value]]
"""A function from the operands of a chain, in any memory layout, to the results of the chain, in order."""
Maker = Callable[[ElementwiseChain], ChainFunction]


class ChainPlan:
    """A plan of the order of a program's chains and other nodes.

    A view is placed just before the first node that reads it.
    """

    def __init__(self, program: Program, grouping: Sequence[Group]) -> None:
        self.program = program
        self.groups: list[Group] = []
        self._placed = set(range(program.first_node))
        # For each value that is a broadcast, the number of the source value; for each other value, its own number.
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
        outputs = set(program.outputs.values())
        self.results = [[number for number in group if number in last or number in outputs] for group in self.groups]
        self.dead: list[list[int]] = [[] for _ in self.groups]
        for number, row in last.items():
            if number >= program.first_node and number not in outputs:
                self.dead[row].append(number)

    def node(self, number: int) -> Node:
        """Return the node that computes the value with this number."""
        return self.program.nodes[number - self.program.first_node]

    def _outside(self, group: Group) -> list[int]:
        """Return the values outside a group that the group reads, each once.

        A chain itself broadcasts its operands, so if an operand is a broadcast, the chain reads the value that is
        broadcast.
        """
        inside = set(group)
        sources: dict[int, None] = {}
        for number in group:
            node = self.node(number)
            for arg in node.args:
                if arg not in inside:
                    sources[self._sources[arg] if node.op in CHAINED else arg] = None
        return list(sources)

    def seen(self, number: int) -> TensorType:
        """Return the type with which a chain reads a value.

        The value of a ``full`` node repeats one element, so it is read as a scalar.
        """
        value = self.program.types[number]
        is_one = number >= self.program.first_node and self.node(number).op == "full"
        return TensorType(value.dtype, ()) if is_one else value

    def _need(self, numbers: Sequence[int]) -> None:
        """Append the views on which the values ``numbers`` depend. Views that were already appended are left out."""
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
        """Return the largest number of bytes that a run holds at once, without its inputs and constants."""
        program = self.program
        memory_of = program.memory_of()
        peak = live = 0
        # For each result of a node, the number of live values that use its memory.
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
        """Return whether a group is a chain. A chain may have only one node."""
        return self.node(group[0]).op in CHAINED

    def operands(self, index: int) -> Callable[[Sequence[Value]], Sequence[Value]]:
        """Return a function that selects the operands of group ``index`` from the list of all values."""
        group = self.groups[index]
        return operands_of(self.reads[index] if self.is_chain(group) else self.node(group[0]).args)

    def chain(self, index: int) -> ElementwiseChain:
        """Return group ``index`` as a chain."""
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
        """Return the scratch memory of a group in bytes. A chain needs none, since its values are in registers."""
        node, types = self.node(group[0]), self.program.types
        if self.is_chain(group):
            return 0
        operands = [types[arg] for arg in node.args]
        return PRIMITIVES[node.op].scratch_size(operands, node.attrs, types[group[0]])


def _cut(group: Group, node: Callable[[int], Node]) -> Iterator[Group]:
    """Split a group into parts that have at most OPERATIONS_MAX operations each, and yield them."""
    part: list[int] = []
    total = 0
    for number in group:
        operations = OPERATIONS.get(node(number).op, _FEW)
        if part and total + operations > OPERATIONS_MAX:
            yield part
            part = []
            total = 0
        part.append(number)
        total += operations
    yield part


class ChainedLoop(Loop):
    """A program that computes whole chains at once.

    It runs nodes one by one if chains would take more memory than the program declares.
    """

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

    def values(self, inputs: Sequence[Value], watch: Watch | None = None, place: Place = ()) -> dict[str, Value]:
        """Return the outputs as ``Loop.values`` does. If ``watch`` is given, nodes run one by one."""
        if watch is not None:
            return super().values(inputs, watch, place)
        values = self.begun(inputs)
        for function, operands, results, dead in self._rows:
            for number, value in zip(results, function(*operands(values)), strict=True):
                values[number] = value
            for number in dead:
                values[number] = None
        return self.ended(values)
