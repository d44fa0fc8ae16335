"""Rewriting a captured step so that several machines can divide the rows of its batch and exchange little.

Two habits of a captured step keep machines from dividing it well (``docs/decisions/splitting.md``):

- A sum over batch and time together. Its tree first adds the rows of the batch at each time, so machines would exchange
  a number for each time. If rows and times are one dimension, and the times are not a power of two, no machine has a
  branch of the tree. Such a sum becomes a sum of each row, and then a sum of all rows.
- Products of one weight at many times, as a cell in a Python loop has them. Machines would exchange each of them. They
  become one long product, whose summed dimension holds all times. The sums of a bias become one sum.

Both add the same numbers in another order, and a long product is rounded once instead of once at each time.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from pol.job.program import Node, Program, ProgramBuilder
from pol.limits import LIMITS, MAX_SUMMED, Limits
from pol.split.pieces import Division
from pol.split.rows import follow_rows
from pol.values import Shape

MEMORY_SLACK: Final = 1 << 24
"""Bytes that the long products of a step may need more than its short ones, or a tenth of the step's memory. A long
product holds the operands of all its times until the last of them, so it has as many times as this allows."""
PARTIAL_LEAST: Final = 1 << 14
"""Bytes of a partial sum below which the latency of its message matters more than its bytes."""
_JOINED_MAX: Final = 64
"""Operands of a ``concat``."""


def divisible(program: Program, batch: Collection[str], limits: Limits = LIMITS) -> Program:
    """Return a program that computes the same sums, and whose rows machines can divide with small exchanges.

    ``batch`` has the names of the inputs whose first dimension holds the rows of a batch.
    """
    for times in _LongProducts(program, batch, limits, len(program.nodes)).lengths():
        long = _LongProducts(program, batch, limits, times).rewritten()
        if long.peak_size <= program.peak_size + max(MEMORY_SLACK, program.peak_size // 10):
            program = long
            break
    return _RowsLast(program, batch, limits).rewritten()


class _Rewriting:
    """A copy of a program, made node by node. Subclasses replace some nodes."""

    def __init__(self, program: Program, batch: Collection[str], limits: Limits) -> None:
        self.program, self.builder = program, ProgramBuilder(limits)
        self.rows = follow_rows(program, batch)
        self.copies: dict[int, int] = {}

    def rewritten(self) -> Program:
        """Return the new program."""
        program, builder = self.program, self.builder
        for number, spec in enumerate(program.inputs):
            self.copies[number] = builder.input(spec.name, spec.dtype, spec.shape)
        for number, constant in enumerate(program.constants, len(program.inputs)):
            self.copies[number] = builder.constant(constant.dtype, constant.shape, constant.data)
        for number, node in enumerate(program.nodes, program.first_node):
            self.copies[number] = self.copy(number, node)
        for name, number in program.outputs.items():
            builder.output(name, self.copies[number])
        return builder.build()

    def copy(self, number: int, node: Node) -> int:
        """Add a node to the new program, and return its handle."""
        return self.builder.node(node.op, *(self.copies[arg] for arg in node.args), **node.attrs)

    def reshape(self, handle: int, shape: Sequence[int]) -> int:
        """Return a value in another shape."""
        if self.builder.type(handle).shape == tuple(shape):
            return handle
        return self.builder.node("reshape", handle, shape=tuple(shape))


class _RowsLast(_Rewriting):
    """Sums over the rows of a batch and other dimensions become sums of each row, and then a sum of all rows."""

    def copy(self, number: int, node: Node) -> int:
        value = self.program.types[number]
        division = self.rows[node.args[0]] if node.op == "sum" and value.dtype == "f32" else None
        dims = node.attrs["dims"] if division is not None else ()
        if division is None or division.dim not in dims or (division.inner == 1 and max(dims) == division.dim):
            return super().copy(number, node)
        operand = self.program.types[node.args[0]]
        parts = _parts(operand.shape, dims, division)
        kinds = [kind for kind, _ in parts]
        # Sums behind a dimension that stays, such as the pixels of each channel, are many and short, and take longer.
        is_short = kinds[:2] == [_ROWS, _KEPT]
        if is_short and operand.size // parts[0][1] < PARTIAL_LEAST:
            return super().copy(number, node)
        total = self.reshape(self.copies[node.args[0]], [size for _, size in parts])
        for kind in (_SUMMED, _ROWS):
            while kind in kinds:
                total = self.builder.node("sum", total, dims=(kinds.index(kind),), keepdim=False)
                kinds.remove(kind)
        return self.reshape(total, value.shape)


_ROWS, _SUMMED, _KEPT = "rows", "summed", "kept"


def _parts(shape: Shape, dims: Sequence[int], division: Division) -> list[tuple[str, int]]:
    """Return the kinds and sizes of the dimensions of a sum, in which neighbours of one kind are one dimension."""
    parts: list[tuple[str, int]] = []
    for dim, size in enumerate(shape):
        own = [(_SUMMED if dim in dims else _KEPT, size)]
        if dim == division.dim:
            own = [(_ROWS, size // division.inner), (_SUMMED, division.inner)]
        for kind, length in own:
            before = parts.pop()[1] if parts and parts[-1][0] == kind else 1
            parts.append((kind, before * length))
    return [(kind, size) for kind, size in parts if kind == _ROWS or size != 1]


class _LongProducts(_Rewriting):
    """Added products of one weight become long products of up to ``times`` of them, and added sums become long sums."""

    def __init__(self, program: Program, batch: Collection[str], limits: Limits, times: int) -> None:
        super().__init__(program, batch, limits)
        self._readers = Counter(arg for node in program.nodes for arg in node.args)
        self._readers.update(program.outputs.values())
        self._groups = {number: self._grouped(terms, times) for number, terms in self._find_terms().items()}
        self._at_last = {max(group): group for groups in self._groups.values() for group in groups if len(group) > 1}
        self._totals: dict[int, int] = {}
        self._joined: dict[tuple[int, ...], int] = {}

    def lengths(self) -> list[int]:
        """Return the numbers of times that long products may have: the largest number, its half, and so on."""
        longest = max((len(group) for group in self._at_last.values()), default=1)
        return [longest >> by for by in range(longest.bit_length() - 1)]

    def copy(self, number: int, node: Node) -> int:
        groups = self._groups.get(number, ())
        if any(len(group) > 1 for group in groups):
            first, *others = (self._totals.get(group[0], self.copies[group[0]]) for group in groups)
            for other in others:
                first = self.builder.node("add", first, other)
            return first
        copy = super().copy(number, node)
        if number in self._at_last:
            self.copies[number] = copy
            group = self._at_last[number]
            self._totals[group[0]] = self._total(group)
        return copy

    def _grouped(self, terms: Sequence[int], times: int) -> list[list[int]]:
        """Return the terms of a chain in groups: the terms of one kind, at most ``times`` per group."""
        kinds: dict[object, list[list[int]]] = {}
        for term in terms:
            kind = self._kind(term)
            groups = kinds.setdefault(kind, [])
            is_full = not groups or len(groups[-1]) == times or self._summed([*groups[-1], term]) > MAX_SUMMED
            if kind is None or is_full:
                groups.append([])
            groups[-1].append(term)
        return [group for groups in kinds.values() for group in groups]

    def _summed(self, terms: Sequence[int]) -> int:
        """Return the size of the summed dimension of terms of one kind."""
        return sum(self.program.types[operand].shape[0] for term in terms for operand in self._operands(term)[:1])

    def _find_terms(self) -> dict[int, list[int]]:
        """Return the terms of each longest chain of additions, by the last addition of the chain."""
        found: dict[int, list[int]] = {}
        within: set[int] = set()
        for number in reversed(range(self.program.first_node, len(self.program.types))):
            if number in within or not self._is_addition(number):
                continue
            terms, waiting = [], [number]
            while waiting:
                last = waiting.pop()
                if last == number or (self._is_addition(last) and self._readers[last] == 1):
                    within.add(last)
                    waiting += reversed(self._node(last).args)
                else:
                    terms.append(last)
            found[number] = terms
        return found

    def _node(self, number: int) -> Node:
        return self.program.nodes[number - self.program.first_node]

    def _is_addition(self, number: int) -> bool:
        if number < self.program.first_node or self._node(number).op != "add":
            return False
        value = self.program.types[number]
        return value.dtype == "f32" and all(self.program.types[arg] == value for arg in self._node(number).args)

    def _kind(self, term: int) -> object:
        """Return what terms have in common that can be one product or one sum, or None for any other term."""
        if self._readers[term] != 1:
            return None
        rows = {self._rows_of(operand) for operand in self._operands(term)}
        if len(rows) != 1 or None in rows:
            return None
        return self._node(term).op, self._node(term).attrs.get("bits"), rows.pop()

    def _operands(self, term: int) -> list[int]:
        """Return the values whose rows a term sums: a product's are its left matrix, not yet transposed, and its right
        one.
        """
        if term < self.program.first_node:
            return []
        node = self._node(term)
        if node.op == "sum" and node.attrs["dims"] == (0,) and len(self.program.types[node.args[0]].shape) == 2:
            return [node.args[0]]
        if node.op == "matmul" and node.args[0] >= self.program.first_node:
            turned = self._node(node.args[0])
            if turned.op == "permute" and turned.attrs["dims"] == (1, 0):
                return [turned.args[0], node.args[1]]
        return []

    def _rows_of(self, operand: int) -> int | None:
        """Return the number of rows of the batch if a value is a matrix that holds them along its first dimension."""
        division, shape = self.rows[operand], self.program.types[operand].shape
        if division is None or division.dim or len(shape) != 2:
            return None
        return shape[0] // division.inner

    def _total(self, terms: Sequence[int]) -> int:
        """Return the sum of terms of one kind."""
        node = self._node(terms[0])
        longs = [self._join(operands) for operands in zip(*map(self._operands, terms), strict=True)]
        if node.op == "sum":
            total = self.builder.node("sum", longs[0], **node.attrs)
            return self.reshape(total, self.program.types[terms[0]].shape)
        left = self.builder.node("permute", longs[0], dims=(1, 0))
        return self.builder.node("matmul", left, longs[1], **node.attrs)

    def _join(self, operands: tuple[int, ...]) -> int:
        """Return a matrix that has, for each row of the batch, the rows of all operands."""
        if operands in self._joined:
            return self._joined[operands]
        width = self.program.types[operands[0]].shape[1]
        wide = []
        for operand in operands:
            rows = self._rows_of(operand)
            assert rows is not None, "terms of one kind have rows"
            wide.append(self.reshape(self.copies[operand], (rows, self.program.types[operand].elements // rows)))
        while len(wide) > 1:
            wide = [self._concat(wide[at : at + _JOINED_MAX]) for at in range(0, len(wide), _JOINED_MAX)]
        long = self.reshape(wide[0], (self.builder.type(wide[0]).elements // width, width))
        self._joined[operands] = long
        return long

    def _concat(self, handles: Iterable[int]) -> int:
        return self.builder.node("concat", *handles, dim=1)
