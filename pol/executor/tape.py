"""A program as a tape.

A tape is a list of words for ``pol/native/program.c``, with everything that can be computed before a run. Views cost
nothing: a value is an address and strides (:mod:`pol.native.strided`), and it is copied only if a kernel cannot read it
in its layout. First, the instructions are written with a separate base for each value. When all are written, the
lifetime of each value is known, and each base is replaced by a place in one arena.

A repeat consists of the instructions of its body between two further instructions: ``TURNS``, which begins the first
turn, and ``AGAIN``, which begins the next turn. A value whose address changes in each turn has a moving base. Such
values are parts of sequences, parts of stacks, and carried values. A carried value has two places: a turn reads it from
one and writes it to the other. After each turn, the two places are swapped.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod

import numpy as np
from numpy.typing import NDArray

from pol.executor.fusion import CHAINED, VIEWS, Group, Grouping
from pol.executor.moves import Moves, Place, parts_of
from pol.job.program import Node, Program
from pol.native.arena import Arena
from pol.native.strided import Strided, in_order, merged
from pol.ops.primitive import Site
from pol.ops.repeat import form
from pol.ops.shape import inner, slices
from pol.values import ITEM_SIZE, Shape, TensorType

OPS = (
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "maximum",
    "minimum",
    "neg",
    "abs",
    "sqrt",
    "exp",
    "log",
    "tanh",
    "erf",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_not",
    "where",
    "cast",
)
"""Elementwise operations, in the order of the enumeration in ``pol/native/chain.c``."""

ARENA, CONSTANTS, FIRST_INPUT = 0, 1, 2
"""Numbers of bases. Outputs have the numbers after the inputs, and moving bases the numbers after the outputs."""

SINGLE = frozenset(
    {
        "matmul",
        "sum",
        "amax",
        "argmax",
        "take",
        "concat",
        "pad",
        "uniform",
        "iota",
        "add_rows",
        "argsort",
        "matmul_windows",
        "repeat",
    }
)
"""Operations that are not elementwise and have instructions of their own."""

Order = tuple[int, ...]
"""The dimensions in their order in memory, the outermost first."""

_OUTPUT = len(OPS)
_SHIFT = len(OPS) + 1
_SHIFTS_MAX = 4_096
"""Largest number of elements of a divisor for which a tape also holds their logarithms."""
_TYPES = {"f32": 0, "i64": 1, "bool": 2}
_DIMENSIONS = 8
_ALIGNED = 8
_FEW = 256
"""Largest number of rows or columns of one operand for which it is worthwhile to pack the other operand only once."""


class InstructionKind(IntEnum):
    """The kinds of instructions. They have the same numbers in ``pol/native/program.c``."""

    CHAIN = 0
    COPY = 1
    PRODUCT = 2
    SUM = 3
    COUNT = 4
    LARGEST = 5
    FIND_LARGEST = 6
    TAKE = 7
    UNIFORM = 8
    IOTA = 9
    ADD_ROWS = 10
    ARGSORT = 11
    WINDOWS = 12
    TURNS = 13
    AGAIN = 14
    PACK = 15


ROWS_OF_TABLE = 8
"""Index of the word that holds a number of rows. In a ``TAKE``, they are the rows of the table; in an ``ADD_ROWS``,
those of the result.
"""

_MAY_FAIL = (InstructionKind.TAKE, InstructionKind.ADD_ROWS)
"""Kinds of instructions that check their operands even if they write no elements."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction whose addresses are not yet set.

    It holds the values that it reads and writes, and a function for its words. ``body`` returns all words except the
    first two. ``in_step`` holds the bases of those operands of which the instruction reads each element before it
    writes the result's element with the same index.
    """

    kind: InstructionKind
    reads: Sequence[Strided]
    writes: Sequence[Strided]
    body: Callable[[Place], list[int]]
    in_step: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Tape:
    """A tape: the words, the constants, the size of the arena in bytes, and the types of the outputs in name order.

    ``replacing`` holds the names of outputs that may be written over the input of the same name. ``reading`` is the
    number of words before the first instruction that writes such an output. ``moving`` is the number of moving bases.
    They are numbered after the bases of the outputs.
    """

    words: NDArray[np.int64]
    reading: int
    constants: NDArray[np.uint8]
    arena: int
    outputs: dict[str, TensorType]
    moving: int
    replacing: frozenset[str]


def write_tape(program: Program, seed: int, grouping: Grouping, *, is_packing: bool = True) -> Tape:
    """Return the tape of a program for a seed.

    ``grouping`` is the function that groups the nodes of the program and of each body. If ``is_packing`` is true,
    operands of products that are the same in each turn of a repeat are packed only once, which needs more memory.
    """
    written = _Written(FIRST_INPUT + len(program.inputs) + len(program.outputs), is_packing)
    inputs = [
        in_order(FIRST_INPUT + number, ITEM_SIZE[spec.dtype], spec.shape) for number, spec in enumerate(program.inputs)
    ]
    writer = _Writer(program, seed, grouping, written, inputs)
    for number, name in enumerate(program.outputs):
        writer.name(name, number)
    writer.take_all()
    writer.put_out()
    constants = np.frombuffer(bytes(written.constants) or bytes(_ALIGNED), np.uint8)
    replacing, first = _replacing(program, written.instructions)
    words, reading, arena = _laid_out(written.instructions, written.sizes, first)
    return Tape(
        words=words,
        reading=reading,
        constants=constants,
        arena=arena,
        outputs=program.output_types(),
        moving=written.moving,
        replacing=replacing,
    )


def _replacing(program: Program, instructions: Sequence[Instruction]) -> tuple[frozenset[str], int]:
    """Return the names of the outputs that may be written over an input, and the number of the first instruction that
    writes such an output.

    An output may replace the input of the same name and type if that input is not read after the output's first write.
    """
    read: dict[int, int] = {}
    written: dict[int, int] = {}
    for at, instruction in enumerate(instructions):
        read |= {strided.base: at for strided in instruction.reads}
        for strided in instruction.writes:
            written.setdefault(strided.base, at)
    inputs = {spec.name: number for number, spec in enumerate(program.inputs, FIRST_INPUT)}
    replacing = set()
    first = len(instructions)
    for number, (name, value) in enumerate(program.output_types().items()):
        source, target = inputs.get(name), FIRST_INPUT + len(inputs) + number
        if source is None or target not in written:
            continue
        last, at = read.get(source, -1), written[target]
        is_over = last < at or (last == at and source in instructions[at].in_step)
        if is_over and program.inputs[source - FIRST_INPUT].type == value:
            replacing.add(name)
            first = min(first, at)
    return frozenset(replacing), first


def _laid_out(
    instructions: Sequence[Instruction], sizes: Sequence[int], split: int
) -> tuple[NDArray[np.int64], int, int]:
    """Return the words, the number of words before instruction ``split``, and the size of the arena in bytes.

    A value has a place from the instruction that writes it to the last instruction that reads it. The split is never
    inside a repeat, since a body writes no output of the program.
    """
    last: dict[int, int] = {}
    for at, instruction in enumerate(instructions):
        for strided in (*instruction.writes, *instruction.reads):
            if strided.view.size:
                last[strided.base] = at
    ends: dict[int, list[int]] = {}
    for base, at in last.items():
        if base < 0:
            ends.setdefault(at, []).append(base)
    arena = Arena()
    places: dict[int, tuple[int, int]] = {}

    def place(strided: Strided) -> tuple[int, int]:
        if not strided.view.size:
            return ARENA, 0
        if strided.base < 0:
            return ARENA, places[strided.base][0] + strided.offset
        return strided.base, strided.offset

    words: list[int] = []
    begun: list[int] = []
    reading = 0
    for at, instruction in enumerate(instructions):
        for strided in instruction.writes:
            if strided.base < 0 and strided.base not in places:
                places[strided.base] = arena.take(sizes[-1 - strided.base])
        body = instruction.body(place)
        if instruction.kind is InstructionKind.AGAIN:
            body = [begun.pop(), len(begun), *body]
        elif instruction.kind is InstructionKind.TURNS:
            body = [len(begun), *body]
        words += [instruction.kind, 2 + len(body), *body]
        reading = len(words) if at < split else reading
        if instruction.kind is InstructionKind.TURNS:
            begun.append(len(words))
        for base in ends.get(at, ()):
            arena.give_back(*places[base])
    return np.array(words, np.int64), reading, arena.size


def can_be_written(program: Program) -> bool:
    """Return whether there is a kernel for every operation of a program."""
    is_known = {node.op for node in program.nodes} <= SINGLE | CHAINED | VIEWS
    return is_known and all(can_be_written(body) for body, _ in program.bodies)


class _Turn:
    """A repeat in whose turns products have constant operands. These operands are packed once, before the first turn.

    Packing such an operand in each turn would take longer than a product with few rows.
    """

    def __init__(self, bases: Collection[int], begins: int) -> None:
        """Store the bases of the constant operands, and the number of the instruction that begins the turns."""
        self._bases = bases
        self._begins = begins
        self._packed: dict[tuple[object, ...], Strided] = {}

    @property
    def packed(self) -> list[Strided]:
        """The packed operands. They are needed until the last turn ends."""
        return list(self._packed.values())

    def pack(self, operand: Strided, bits: int, is_left: bool, written: "_Written") -> Strided | None:
        """Return the packed form of an operand of a product, or None if it cannot be packed.

        ``operand`` is a matrix [rows, summed] if ``is_left``, otherwise [summed, columns].
        """
        if operand.base not in self._bases or bits not in _NARROW:
            return None
        order = slice(-2, None) if is_left else slice(-1, -3, -1)
        (lanes, summed), (lane, k) = operand.shape[order], operand.strides[order]
        form = (bits, int(is_left), lane, k, lanes, summed)
        key = (operand.base, operand.offset, *form)
        if key not in self._packed:
            size = packed_size(lanes, summed)
            written.sizes.append(size)
            packed = in_order(-len(written.sizes), 1, (size,))
            self._packed[key] = packed

            def body(place: Place) -> list[int]:
                return [*place(operand), *place(packed), *form, size]

            instruction = Instruction(kind=InstructionKind.PACK, reads=[operand], writes=[packed], body=body)
            written.instructions.insert(self._begins, instruction)
            self._begins += 1
        return self._packed[key]


_NARROW = (8, 15)
_LEFT, _RIGHT = 1, 2


def packed_size(lanes: int, summed: int) -> int:
    """Return the largest number of bytes that a packed operand takes on any instruction set.

    These bytes hold the scales and the integers of the operand.
    """
    wide, blocks = -(-lanes // 64) * 64, -(-summed // 8) * 8
    return wide * (2 * blocks + 24) + 128


class _Written:
    """The instructions and constants that were written so far for a program and its bodies."""

    def __init__(self, bases: int, is_packing: bool) -> None:
        """Begin without instructions.

        The first ``bases`` bases are fixed, and moving bases have the numbers after them.
        """
        self.is_packing = is_packing
        self.instructions: list[Instruction] = []
        self.sizes: list[int] = []
        self.constants = bytearray()
        self.moving = 0
        self._bases = bases

    def new_base(self) -> int:
        """Return the number of a new moving base."""
        self.moving += 1
        return self._bases + self.moving - 1


class _Writer:
    """A writer of the instructions of a program or a body.

    Each value that the program computes gets its own negative number as its base.
    """

    def __init__(
        self,
        program: Program,
        seed: int,
        grouping: Grouping,
        written: _Written,
        inputs: Sequence[Strided],
        turn: _Turn | None = None,
    ) -> None:
        """Begin with the addresses of the inputs. If the program is the body of a repeat, ``turn`` is that repeat."""
        self._turn = turn
        self.program, self.seed = program, seed
        self.instructions, self.sizes = written.instructions, written.sizes
        self.constants = written.constants
        # The numbers of bits by which chains shift instead of dividing, by the number of the divisor.
        self._shifts: dict[int, Strided] = {}
        self._written, self._grouping = written, grouping
        self._values: list[Strided | None] = [None] * len(program.types)
        self._values[: len(inputs)] = inputs
        for number, constant in enumerate(program.constants, len(program.inputs)):
            self._values[number] = self._constant(constant.data, constant.type)
        # The outputs of a program, which chains write in canonical form.
        self._numbers: dict[str, int] = {}
        self._names: dict[int, list[str]] = {}
        # Views between these outputs and the values whose elements they have.
        self._showing: set[int] = set()
        # The outputs of a body, each with the place where it must be written.
        self._wanted: dict[int, Strided] = {}
        self._readers: dict[int, list[int]] = {}
        for number, node in enumerate(program.nodes, program.first_node):
            for arg in node.args:
                self._readers.setdefault(arg, []).append(number)
        self._single: dict[str, Callable[[int, Node, TensorType], None]] = {
            "matmul": self._product,
            "sum": self._sum,
            "amax": self._largest,
            "argmax": self._find_largest,
            "take": self._take,
            "concat": self._concat,
            "pad": self._pad,
            "uniform": self._uniform,
            "iota": self._iota,
            "add_rows": self._add_rows,
            "argsort": self._argsort,
            "matmul_windows": self._windows,
            "repeat": self._turns,
        }

    def name(self, name: str, number: int) -> None:
        """Add the output ``name``. ``number`` is its position among the outputs."""
        self._numbers[name] = number
        shown = self.program.outputs[name]
        while self._has_same_elements(shown):
            self._showing.add(shown)
            (shown,) = self._node(shown).args
        self._names.setdefault(shown, []).append(name)

    def _has_same_elements(self, number: int) -> bool:
        """Return whether a value is a view with all elements of its operand, in the same order."""
        if number < self.program.first_node:
            return False
        node = self._node(number)
        is_whole = node.op == "slice" and self._type(node.args[0]).elements == self._type(number).elements
        return node.op == "reshape" or is_whole

    def _only_shows(self, number: int) -> bool:
        """Return whether a value is a view that is not read, because outputs show its operand in another shape."""
        return number in self._showing and all(map(self._only_shows, self._readers.get(number, ())))

    # --- values ---

    def _new(self, value: TensorType, order: Order | None = None) -> Strided:
        """Return a new place for a value.

        ``order`` is the order in which the value's dimensions lie in memory; None means C order.
        """
        self.sizes.append(value.size)
        base, item = -len(self.sizes), ITEM_SIZE[value.dtype]
        if order is None:
            return in_order(base, item, value.shape)
        placed = in_order(base, item, tuple(value.shape[dim] for dim in order))
        return placed.seen_as(placed.view.transpose(np.argsort(order)))

    def _constant(self, data: bytes, value: TensorType) -> Strided:
        """Add the data of a constant to the tape, and return the address of the constant."""
        self.constants += bytes(-len(self.constants) % _ALIGNED)
        item = ITEM_SIZE[value.dtype]
        constant = in_order(CONSTANTS, item, value.shape, len(self.constants) // item)
        self.constants += data
        return constant

    def _value(self, number: int) -> Strided:
        """Return the address of a value that was computed, or that is a view of a computed value."""
        waiting = [number]
        while waiting:
            current = waiting[-1]
            if self._values[current] is None:
                node = self._node(current)
                assert node.op in VIEWS, "a node is read before it is computed"
                missing = [arg for arg in node.args if self._values[arg] is None]
                if missing:
                    waiting += missing
                    continue
                self._values[current] = self._view(node, self.program.types[current])
            waiting.pop()
        value = self._values[number]
        assert value is not None
        return value

    def _view(self, node: Node, value: TensorType) -> Strided:
        if node.op == "full":
            one = TensorType(value.dtype, ())
            element = self._constant(bytes.fromhex(node.attrs["value"]), one)
            return element.seen_as(np.broadcast_to(element.view, value.shape))
        strided = self._values[node.args[0]]
        assert strided is not None
        if node.op == "permute":
            return strided.seen_as(strided.view.transpose(node.attrs["dims"]))
        if node.op == "broadcast":
            return strided.seen_as(np.broadcast_to(strided.view, value.shape))
        if node.op == "slice":
            return strided.part(slices(node.attrs))
        return self._reshaped(strided, value)

    def _reshaped(self, strided: Strided, value: TensorType) -> Strided:
        try:
            return strided.seen_as(np.reshape(strided.view, value.shape, copy=False))
        except ValueError:
            return self._reshaped(self._in_order(strided, value.dtype), value)

    def _in_order(self, strided: Strided, dtype: str) -> Strided:
        """Return the value in C order. If it has another order, write an instruction that copies it."""
        if strided.is_in_order:
            return strided
        copied = self._new(TensorType(dtype, strided.shape))
        self._copy(strided, copied)
        return copied

    def _node(self, number: int) -> Node:
        return self.program.nodes[number - self.program.first_node]

    def _operands(self, node: Node) -> list[Strided]:
        return [self._value(number) for number in node.args]

    def _type(self, number: int) -> TensorType:
        return self.program.types[number]

    def _place_of(self, number: int, value: TensorType) -> Strided:
        """Return the place where a value is to be written.

        The outputs of a body have given places; other values get a new place.
        """
        return self._wanted.get(number) or self._new(value)

    # --- instructions ---

    def take_all(self) -> None:
        """Write the instructions of all nodes of the program."""
        for group in self._grouping(self.program):
            self._take_group(group)

    def _take_group(self, group: Group) -> None:
        first = self._node(group[0])
        if first.op in self._single:
            self._single[first.op](group[0], first, self._type(group[0]))
        else:
            self._chain(group)

    def put_out(self) -> None:
        """Write the instructions for the outputs that no chain writes."""
        for names in self._names.values():
            for name in names:
                number = self.program.outputs[name]
                strided = self._value(number)
                self._emit_chain(
                    [strided],
                    [(self._output(name, number), number)],
                    0,
                    [self._leaving(name, number, 0, 1)],
                )
        self._names.clear()

    def _emit(
        self,
        kind: InstructionKind,
        reads: Sequence[Strided],
        writes: Sequence[Strided],
        *rest: int,
        needed: Sequence[Strided] = (),
    ) -> None:
        """Write an instruction.

        Its words are the addresses of the values that it reads and writes, and then the numbers ``rest``. The values in
        ``needed`` keep their places until this instruction.
        """
        if not any(strided.view.size for strided in writes) and kind not in _MAY_FAIL:
            return

        def body(place: Place) -> list[int]:
            words: list[int] = []
            for strided in (*reads, *writes):
                words += place(strided)
            return words + list(rest)

        self.instructions.append(Instruction(kind=kind, reads=[*reads, *needed], writes=writes, body=body))

    def _copy(self, source: Strided, target: Strided, needed: Sequence[Strided] = ()) -> None:
        sizes, (source_strides, target_strides) = merged(source.shape, source.strides, target.strides)
        layout = [*_padded(sizes), *_padded(source_strides), *_padded(target_strides)]
        numbers = source.item, len(sizes), *layout
        self._emit(InstructionKind.COPY, [source], [target], *numbers, needed=needed)

    def _product(self, number: int, node: Node, value: TensorType) -> None:
        left, right = (self._readable(strided) for strided in self._operands(node))
        if self._is_only_transposed(number):
            # The reader needs (A B)^T, which is B^T A^T. That product is computed instead, so that its result is
            # already in the reader's order.
            transposed = TensorType(value.dtype, (*value.shape[:-2], value.shape[-1], value.shape[-2]))
            result = self._new(transposed)
            self._values[number] = result.seen_as(result.view.swapaxes(-1, -2))
            left, right = _transposed(right), _transposed(left)
        else:
            result = self._place_of(number, value)
            self._values[number] = result
        sizes, (of_left, of_right) = merged(left.shape[:-2], left.strides[:-2], right.strides[:-2])
        strides = (*left.strides[-2:], *right.strides[-2:])
        shape = (left.shape[-2], left.shape[-1], right.shape[-1])
        batch = [*_padded(sizes), *_padded(of_left), *_padded(of_right)]
        bits = node.attrs["bits"]
        packed_side = 0
        if self._turn is not None and prod(sizes) == 1 and value.elements:
            packed = self._turn.pack(right, bits, False, self._written) if shape[0] <= _FEW else None
            if packed is not None:
                right, packed_side = packed, _RIGHT
            elif shape[2] <= _FEW:
                packed = self._turn.pack(left, bits, True, self._written)
                if packed is not None:
                    left, packed_side = packed, _LEFT
        self._emit(
            InstructionKind.PRODUCT,
            [left, right],
            [result],
            bits,
            packed_side,
            *strides,
            *shape,
            len(sizes),
            *batch,
        )

    def _windows(self, number: int, node: Node, value: TensorType) -> None:
        """Write the instruction of a product with windows.

        ``x`` may have any layout, since the kernel copies its windows part by part.
        """
        left, x = self._operands(node)
        left = self._readable(left)
        result = self._values[number] = self._place_of(number, value)
        attrs, steps = node.attrs, x.strides[1:]
        groups, rows, _ = left.shape
        per_group = x.shape[0] // groups

        def times(name: str) -> list[int]:
            return [n * step for n, step in zip(attrs[name], steps, strict=True)]

        places = (per_group, *attrs["kernel"]), (x.strides[0], *times("steps"))
        windows = attrs["counts"], tuple(times("strides"))
        axes: list[int] = []
        for shape, strides in (places, windows):
            sizes, (merged_strides,) = merged(shape, strides)
            axes += [len(sizes), *_padded(sizes), *_padded(merged_strides)]
        first = x.part((slice(None), *(slice(start, None) for start in attrs["starts"])))
        self._emit(
            InstructionKind.WINDOWS,
            [left, first],
            [result],
            attrs["bits"],
            attrs["transposed"],
            groups,
            rows,
            *left.strides,
            per_group * x.strides[0],
            *axes,
        )

    def _readable(self, matrix: Strided) -> Strided:
        """Return a matrix whose rows or columns are contiguous, since products read them faster.

        It is copied if necessary.
        """
        steps = [stride for size, stride in zip(matrix.shape[-2:], matrix.strides[-2:], strict=True) if size > 1]
        return self._in_order(matrix, "f32") if steps and 1 not in steps else matrix

    def _is_only_transposed(self, number: int) -> bool:
        """Return whether only one node reads a product, and this node transposes it."""
        readers = self._readers.get(number, [])
        if len(readers) != 1 or number in self._names or number in self._wanted:
            return False
        node, rank = self._node(readers[0]), len(self._type(number).shape)
        return node.op == "permute" and node.attrs["dims"] == (*range(rank - 2), rank - 1, rank - 2)

    def _sum(self, number: int, node: Node, value: TensorType) -> None:
        operand, dims = self._type(node.args[0]), node.attrs["dims"]
        (strided,) = self._operands(node)
        if operand.dtype != "f32":
            self._reduce(InstructionKind.COUNT, number, strided, operand, value, _joined(dims))
        elif operand.elements:
            # A dimension of size 1 is left out, since the sum of one element is that element.
            one_by_one = [(dim, dim + 1) for dim in dims if operand.shape[dim] > 1]
            self._reduce(InstructionKind.SUM, number, strided, operand, value, one_by_one)
        else:
            result = self._new(value)
            self._values[number] = result
            self._fill(bytes(result.item), value, result)

    def _largest(self, number: int, node: Node, value: TensorType) -> None:
        (strided,) = self._operands(node)
        parts = _joined(node.attrs["dims"])
        self._reduce(InstructionKind.LARGEST, number, strided, self._type(node.args[0]), value, parts)

    def _find_largest(self, number: int, node: Node, value: TensorType) -> None:
        (strided,) = self._operands(node)
        dim = node.attrs["dim"]
        operand = self._type(node.args[0])
        self._reduce(InstructionKind.FIND_LARGEST, number, strided, operand, value, [(dim, dim + 1)])

    def _reduce(
        self,
        kind: InstructionKind,
        number: int,
        strided: Strided,
        operand: TensorType,
        value: TensorType,
        parts: Sequence[tuple[int, int]],
    ) -> None:
        """Write instructions that reduce the ranges of dimensions ``parts`` one after another.

        Each range is (first, end).
        """
        if not parts:
            self._values[number] = self._reshaped(strided, value)
            return
        order = strided.order
        if not (all(end == dim + 1 for dim, end in parts) and strided.is_dense):
            strided, order = (
                self._in_order(strided, operand.dtype),
                tuple(range(len(operand.shape))),
            )
        shape, item = list(operand.shape), strided.item
        for first, end in parts:
            ordered = [shape[dim] for dim in order]
            at = order.index(first) if end > first else 0
            sizes = ordered[:at], ordered[at : at + end - first], ordered[at + end - first :]
            shape[first:end] = [1] * (end - first)
            result = self._new(TensorType(value.dtype, tuple(shape)), order)
            self._emit(kind, [strided], [result], item, *map(prod, sizes))
            strided, item = result, result.item
        self._values[number] = self._reshaped(strided, value)

    def _take(self, number: int, node: Node, value: TensorType) -> None:
        table, index = self._operands(node)
        table = self._in_order(table, value.dtype)
        index = self._in_order(index, "i64")
        result = self._values[number] = self._place_of(number, value)
        width = prod(table.shape[1:]) * table.item
        if index.view.size:
            self._emit(InstructionKind.TAKE, [table, index], [result], table.shape[0], width, index.view.size)

    def _add_rows(self, number: int, node: Node, value: TensorType) -> None:
        index, values = self._operands(node)
        index, values = self._in_order(index, "i64"), self._in_order(values, "f32")
        result = self._values[number] = self._place_of(number, value)
        width = prod(value.shape[1:])
        self._emit(InstructionKind.ADD_ROWS, [index, values], [result], value.shape[0], width, index.view.size)

    def _argsort(self, number: int, node: Node, value: TensorType) -> None:
        (strided,) = self._operands(node)
        strided = self._in_order(strided, self._type(node.args[0]).dtype)
        result = self._values[number] = self._place_of(number, value)
        dim, shape = node.attrs["dim"], value.shape
        lines = prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])
        self._emit(InstructionKind.ARGSORT, [strided], [result], strided.item, *lines)

    def _concat(self, number: int, node: Node, value: TensorType) -> None:
        result = self._values[number] = self._place_of(number, value)
        start, dim = 0, node.attrs["dim"]
        for strided in self._operands(node):
            stop = start + strided.shape[dim]
            self._copy(strided, result.part((*[slice(None)] * dim, slice(start, stop))))
            start = stop

    def _pad(self, number: int, node: Node, value: TensorType) -> None:
        (strided,) = self._operands(node)
        result = self._values[number] = self._place_of(number, value)
        self._fill(bytes.fromhex(node.attrs["value"]), value, result)
        site = Site(attrs=node.attrs, operands=(self._type(node.args[0]),), result=value, seed=self.seed)
        self._copy(strided, result.part(inner(site)))

    def _uniform(self, number: int, node: Node, value: TensorType) -> None:
        result = self._values[number] = self._place_of(number, value)
        seed = int(np.uint64(self.seed).astype(np.int64))
        self._emit(InstructionKind.UNIFORM, self._operands(node), [result], seed, node.attrs["site"], value.elements)

    def _iota(self, number: int, node: Node, value: TensorType) -> None:
        result = self._values[number] = self._place_of(number, value)
        self._emit(InstructionKind.IOTA, [], [result], value.elements)

    def _fill(self, data: bytes, value: TensorType, result: Strided) -> None:
        """Write an instruction that fills ``result`` with one element, whose bytes are ``data``."""
        one = self._constant(data, TensorType(value.dtype, ()))
        self._copy(one.seen_as(np.broadcast_to(one.view, value.shape)), result)

    # --- repeats ---

    def _turns(self, number: int, node: Node, value: TensorType) -> None:
        body, count, reverse = node.attrs["body"], node.attrs["count"], node.attrs["reverse"]
        roles = form(body, count)
        operands = self._operands(node)
        result = self._values[number] = self._place_of(number, value)
        parts = parts_of(result, roles)
        moves, new_base = Moves(), self._written.new_base
        # Each carried value has two places: one for the value before a turn, and one for the value after it.
        slots: list[Strided] = []
        inputs: list[Strided] = []
        targets: list[Strided] = []
        for operand, spec in zip(operands[: roles.carried], body.inputs, strict=False):
            now, then = self._new(spec.type), self._new(spec.type)
            self._copy(operand, now)
            slots += [now, then]
            inputs.append(moves.add(new_base(), now))
            targets.append(moves.add(new_base(), then))
            moves.swapped.append((inputs[-1].base, targets[-1].base))
        carried = inputs[:]
        last = roles.carried + roles.sequences
        inputs += [
            moves.along(new_base(), operand, count, reverse=reverse) for operand in operands[roles.carried : last]
        ]
        targets += [moves.along(new_base(), part, count, reverse=reverse) for part in parts[roles.carried :]]
        used = [*operands, *slots, result]
        self.instructions.append(
            Instruction(kind=InstructionKind.TURNS, reads=used, writes=[*slots, result], body=moves.begin)
        )
        constants = operands[last:]
        same = {constant.base for constant in constants} if self._written.is_packing else ()
        turn = _Turn(same, len(self.instructions) - 1)
        writer = _Writer(body, self.seed, self._grouping, self._written, [*inputs, *constants], turn)
        numbers = [body.outputs[name] for name, _ in roles.parts]
        writer.take_body(list(zip(numbers, targets, strict=True)))
        needed = [*used, *turn.packed]
        self.instructions.append(
            Instruction(kind=InstructionKind.AGAIN, reads=needed, writes=(), body=lambda _: moves.again(count))
        )
        for end, part in zip(carried, parts, strict=False):
            self._copy(end, part, slots)

    def take_body(self, outputs: Sequence[tuple[int, Strided]]) -> None:
        """Write the instructions of a body. They write each output of the body to its place in ``outputs``."""
        for number, place in outputs:
            if number >= self.program.first_node:
                self._wanted.setdefault(number, place)
        self.take_all()
        for number, place in outputs:
            value = self._value(number)
            if value.base != place.base:
                self._copy(value, place)

    # --- chains ---

    def _chain(self, group: Group) -> None:
        members = set(group)
        links = [(self._chain_args(number, members), number) for number in group]
        sources = sorted({arg for args, _ in links for arg in args} - members)
        operands = [self._value(number) if number >= 0 else self._shifts[-1 - number] for number in sources]
        leaving = [(self._names[number].pop(0), number) for number in group if number in self._names]
        for _, number in leaving:
            if not self._names[number]:
                del self._names[number]
        wanted = [
            number
            for number in group
            if number in self._names or number in self._wanted or self._is_read(number, members)
        ]
        shape = self._type(group[0]).shape
        # Outputs of the program and values that have a place already must be in C order.
        is_free = not leaving and self._wanted.keys().isdisjoint(wanted)
        order = _order(operands, shape) if is_free else None
        for number in wanted:
            self._values[number] = self._wanted.get(number) or self._new(self._type(number), order)
        registers, inside = _registers(links, sources, wanted, [number for _, number in leaving])
        steps = [self._step(number, args, registers) for args, number in links]
        first_output = len(sources) + len(wanted)
        steps += [
            self._leaving(name, number, registers[number], first_output + at)
            for at, (name, number) in enumerate(leaving)
        ]
        targets = [(self._value(number), number) for number in wanted]
        targets += [(self._output(name, number), number) for name, number in leaving]
        self._emit_chain(operands, targets, inside, steps, order)

    def _emit_chain(
        self,
        sources: Sequence[Strided],
        targets: Sequence[tuple[Strided, int]],
        inside: int,
        steps: Sequence[list[int]],
        order: Order | None = None,
    ) -> None:
        written = [strided for strided, _ in targets]
        shape = written[0].shape
        elements = prod(shape)
        if not elements:
            return
        layouts = [_source(strided, shape, order) for strided in sources]

        def body(place: Place) -> list[int]:
            words = [elements, len(sources), len(targets), inside, len(steps)]
            for strided, layout in zip(sources, layouts, strict=True):
                words += [*place(strided), strided.item, *layout]
            for strided in written:
                words += [*place(strided), strided.item]
            for step in steps:
                words += step
            return words

        # A source that is also an output would be read again after the first output is written.
        leaving = {step[2] for step in steps if step[0] == _OUTPUT}
        out_of_step = {
            strided.base
            for register, strided in enumerate(sources)
            if register in leaving or strided.shape != shape or not strided.is_in_order
        }
        in_step = frozenset(strided.base for strided in sources) - out_of_step
        self.instructions.append(
            Instruction(kind=InstructionKind.CHAIN, reads=sources, writes=written, body=body, in_step=in_step)
        )

    def _step(self, number: int, args: Sequence[int], registers: dict[int, int]) -> list[int]:
        node = self._node(number)
        at = [registers[arg] for arg in args]
        of = self._type(node.args[1] if node.op == "where" else node.args[0]).dtype
        a, b, c = (*at, *[at[0]] * 2)[:3]
        op = OPS.index(node.op) if min(args) >= 0 else _SHIFT
        return [op, _TYPES[of], a, b, c, registers[number], _TYPES[self._type(number).dtype]]

    def _chain_args(self, number: int, members: Collection[int]) -> tuple[int, ...]:
        """Return the operands of a node in a chain with the nodes ``members``.

        A chain does not divide by constant powers of two, which takes many times as long as a shift. The number -1 - n
        stands for the bits by which it shifts instead of dividing by the value n.
        """
        node = self._node(number)
        if node.op != "floor_divide" or node.args[1] in members:
            return node.args
        dividend, divisor = node.args
        if divisor not in self._shifts:
            bits = self._bits_to_shift(self._value(divisor))
            if bits is None:
                return node.args
            self._shifts[divisor] = bits
        return dividend, -1 - divisor

    def _bits_to_shift(self, divisor: Strided) -> Strided | None:
        """Return the binary logarithms of a constant divisor, or None if not all its elements are powers of two."""
        if divisor.base != CONSTANTS or not divisor.view.size:
            return None
        # A dimension along which the divisor repeats one element counts once.
        shape = tuple(size if step else 1 for size, step in zip(divisor.shape, divisor.strides, strict=True))
        if prod(shape) > _SHIFTS_MAX:
            return None
        span = 1 + sum((size - 1) * step for size, step in zip(shape, divisor.strides, strict=True))
        data = bytes(self.constants[divisor.offset : divisor.offset + span * divisor.item])
        numbers = np.ndarray(shape, np.int64, data, strides=[step * divisor.item for step in divisor.strides])
        if not ((numbers > 0) & (numbers & (numbers - 1) == 0)).all():
            return None
        logarithms = np.array([number.bit_length() - 1 for number in numbers.ravel().tolist()], np.int64)
        bits = self._constant(logarithms.tobytes(), TensorType("i64", shape))
        return bits.seen_as(np.broadcast_to(bits.view, divisor.shape))

    def _leaving(self, name: str, number: int, register: int, target: int) -> list[int]:
        of = _TYPES[self._type(number).dtype]
        return [_OUTPUT, of, register, register, register, target, self._numbers[name]]

    def _is_read(self, number: int, members: Collection[int]) -> bool:
        """Return whether a node outside of a chain with the nodes ``members`` reads a value of the chain."""
        return any(reader not in members and not self._only_shows(reader) for reader in self._readers.get(number, ()))

    def _output(self, name: str, number: int) -> Strided:
        """Return the place of an output, in the shape of the value ``number``, which has the output's elements."""
        value = self._type(number)
        base = FIRST_INPUT + len(self.program.inputs) + self._numbers[name]
        return in_order(base, ITEM_SIZE[value.dtype], value.shape)


def _registers(
    links: Sequence[tuple[Sequence[int], int]], sources: Sequence[int], wanted: Sequence[int], leaving: Sequence[int]
) -> tuple[dict[int, int], int]:
    """Return the register of each value of a chain, and the number of registers that are used only inside the chain.

    ``links`` holds the operands and the result of each operation. A register is free after the last step that uses its
    value; the result of that step itself needs another register. The chain writes the values in ``wanted``, because
    they are used outside of the chain. The values in ``leaving`` are outputs of the program. They are read at the end
    of the run. In the instruction, their targets come after the targets of the values in ``wanted``.
    """
    registers = {number: at for at, number in enumerate((*sources, *wanted))}
    fixed = len(registers)
    last = {number: at for at, (args, _) in enumerate(links) for number in args}
    free: list[int] = []
    count = 0
    for at, (args, result) in enumerate(links):
        if result not in registers:
            if not free:
                free.append(fixed + len(leaving) + count)
                count += 1
            registers[result] = free.pop()
        ended = {number for number in args if last[number] == at} - set(leaving)
        free += sorted(registers[number] for number in ended if registers[number] >= fixed)
    return registers, count


def _order(operands: Sequence[Strided], shape: Shape) -> Order | None:
    """Return the most frequent memory order among the operands that have the chain's shape.

    Return None if no operand has this shape. Results in the most frequent order need no copy if they are read together
    with these operands.
    """
    orders = Counter(
        operand.order
        for operand in operands
        if operand.shape == shape and all(step for size, step in zip(shape, operand.strides, strict=True) if size > 1)
    )
    return max(orders, key=orders.__getitem__, default=None)


def _source(strided: Strided, shape: Shape, order: Order | None) -> list[int]:
    """Return the words for the layout of an operand that is broadcast to a chain's shape.

    They are the number of dimensions, the sizes, and the strides.
    """
    view = np.broadcast_to(strided.view, shape)
    view = view if order is None else view.transpose(order)
    sizes, (strides,) = merged(view.shape, view.strides)
    return [len(sizes), *_padded(sizes), *_padded(strides)]


def _joined(dims: Sequence[int]) -> list[tuple[int, int]]:
    """Return adjacent dimensions as ranges (first, end).

    If there are no dimensions, return one empty range, because the kernel must still run once.
    """
    parts: list[tuple[int, int]] = []
    for dim in dims:
        if parts and parts[-1][1] == dim:
            parts[-1] = (parts[-1][0], dim + 1)
        else:
            parts.append((dim, dim + 1))
    return parts or [(0, 0)]


def _padded(numbers: Sequence[int]) -> list[int]:
    return [*numbers, *[0] * (_DIMENSIONS - len(numbers))]


def _transposed(matrix: Strided) -> Strided:
    return matrix.seen_as(matrix.view.swapaxes(-1, -2))
