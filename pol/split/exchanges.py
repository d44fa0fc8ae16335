"""Computing a node in pieces: each machine's own part, and the exchanges that give the bits of the whole.

A node without an exchange is computed piece by piece (:func:`compute_piece`). Otherwise each machine makes a *partial*,
and the owner of the result combines all partials. If the partials need scales of the whole, the machines agree first:
each sends a *claim* to the owner, which sends the agreed values back. :data:`COLLECTIVES` has these functions for each
kind of exchange, with the sizes of their messages.

Each machine runs its own part (:func:`take_part`), a generator that yields what it sends and what it waits for. So the
same code runs on virtual machines in one process and on processes with sockets (``pol/machines``).
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from pol.ops.indices import Indices, Residues, join
from pol.ops.order import nowhere
from pol.ops.primitive import Site
from pol.ops.product import BLOCK, integer_sums, largest_digit, magnitudes, scales
from pol.ops.reduce import halve, sum_tree
from pol.ops.shape import outside
from pol.ops.splits import Axis, Exchange, Split, Way
from pol.ops.table import PRIMITIVES
from pol.ops.windows import WindowColumns
from pol.split.pieces import with_size
from pol.state.arrays import NUMPY_DTYPES, Array, dtype_name
from pol.values import ITEM_SIZE, TensorType

Message = tuple[Array, ...]
IntegerSums = Callable[[int, Array, Array, tuple[Array, Array]], Array]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Form:
    """The dtype and the shape of an array in a message."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.dtype.itemsize * prod(self.shape)


Forms = tuple[Form, ...]


@dataclass(frozen=True)
class Out:
    """A message for the machine with the number ``to``."""

    to: int
    message: Message


@dataclass(frozen=True, slots=True)
class In:
    """A wait for a message of the machine with the number ``source``. The plan determines the form of each array."""

    source: int
    forms: Forms


Moves = Generator[Out | In, Message, T]
"""The part of one machine: it yields messages and waits, and is sent the message that it waits for."""


def forms_of(message: Message) -> Forms:
    """Return the forms of a message."""
    return tuple(Form(array.dtype, array.shape) for array in message)


def forms_of_types(types: Sequence[TensorType]) -> Forms:
    """Return the forms of a message with values of these types."""
    return tuple(Form(NUMPY_DTYPES[value.dtype], value.shape) for value in types)


@dataclass(frozen=True)
class Task:
    """A node that is divided: its primitive and site, and the way.

    ``inner`` is the number of neighbouring rows that stay together, and ``machines`` is the number of machines. The
    rows are ``outer`` equal parts, which are divided alike.
    """

    op: str
    site: Site
    split: Split
    way: Way
    inner: int
    machines: int
    outer: int = 1

    @property
    def rows(self) -> list[Residues]:
        """The rows of each machine."""
        whole = Residues(size=self.way.rows, machine=0, machines=self.machines, inner=self.inner, outer=self.outer)
        return [replace(whole, machine=machine) for machine in range(self.machines)]


@dataclass(frozen=True)
class Share:
    """A machine's part of a task: the rows of the way that it has, and its pieces of the operands.

    ``sums`` computes the exact sums of products on this machine, as :func:`pol.ops.product.integer_sums` does.
    """

    rows: Indices
    operands: tuple[Array, ...]
    sums: IntegerSums = integer_sums


def piece_site(task: Task, share: Share) -> Site:
    """Return the site of the primitive that computes a machine's piece."""
    operands = tuple(TensorType(dtype_name(value, task.op), value.shape) for value in share.operands)
    result, axis = task.site.result, task.way.result
    if axis is not None:
        result = with_size(result, axis.dim, len(share.rows.along(axis, task.way)))
    attrs = task.split.fit(task.site.attrs, task.way, operands, result)
    return replace(task.site, attrs=attrs, operands=operands, result=result)


def compute_piece(task: Task, share: Share) -> Array:
    """Return a machine's piece of the result. The task has no exchange."""
    axis = task.way.result
    assert axis is not None, "a result without an axis needs an exchange"
    if task.split.local is not None:
        function = task.split.local(task.site, axis, share.rows.along(axis, task.way))
        return np.asarray(function(*share.operands), order="C")
    return _reference(task, share)


def take_part(task: Task, place: int, owner: int, own: Share, rows: Sequence[Indices]) -> Moves[Array | None]:
    """Run one machine's part of a task with an exchange. Return the whole result at the owner, and None elsewhere.

    ``place`` is the number of this machine in the task, and ``owner`` that of the owner. ``rows`` are the rows of each
    machine.
    """
    row = COLLECTIVES[task.split.exchange]
    agreed: Message = ()
    if row.claim is not None:
        claim = row.claim(task, own)
        if place == owner:
            claims = yield from _gather(place, claim, [forms_of(claim)] * len(rows))
            agreed = tuple(np.maximum.reduce(values) for values in zip(*claims, strict=True))
            for other in range(len(rows)):
                if other != owner:
                    yield Out(other, agreed)
        else:
            yield Out(owner, claim)
            agreed = yield In(owner, forms_of(claim))
    partial = row.partial(task, own, agreed)
    if place != owner:
        yield Out(owner, partial)
        return None
    forms = [forms_of_types(piece_types(task, theirs)) if row.sends_operands else forms_of(partial) for theirs in rows]
    partials = yield from _gather(place, partial, forms)
    return np.asarray(row.finish(task, rows, own, agreed, partials), order="C")


def _gather(place: int, own: Message, forms: Sequence[Forms]) -> Moves[list[Message]]:
    """Return the messages of all machines in order; ``own`` is that of this machine."""
    messages = []
    for other, expected in enumerate(forms):
        messages.append(own if other == place else (yield In(other, expected)))
    return messages


def piece_types(task: Task, rows: Indices) -> list[TensorType]:
    """Return the types of the pieces of the operands at a machine with these rows."""
    return [
        value if axis is None else with_size(value, axis.dim, len(rows.along(axis, task.way)))
        for value, axis in zip(task.site.operands, task.way.operands, strict=True)
    ]


def _reference(task: Task, share: Share) -> Array:
    maker = PRIMITIVES[task.op].reference
    assert maker is not None, "a repeat is not divided"
    return np.asarray(maker(piece_site(task, share))(*share.operands), order="C")


def _only_reference(task: Task, share: Share, agreed: Message) -> Message:
    return (_reference(task, share),)


# Products: all machines scale by the largest magnitudes of the whole rows, and add integers.


def _matrices(task: Task, share: Share) -> tuple[Array, Array]:
    """Return the two matrices of a product, with a machine's part of the summed dimension."""
    left, right = share.operands
    if task.op == "matmul":
        return left, right
    columns = WindowColumns(piece_site(task, share)).take(right, slice(None))
    return left, columns.swapaxes(-1, -2) if task.site.attrs["transposed"] else columns


def _magnitudes(task: Task, share: Share) -> Message:
    left, right = _matrices(task, share)
    return magnitudes(left, -1), magnitudes(right, -2)


def _summed(task: Task) -> tuple[int, int, int]:
    """Return the size of the summed dimension, the number of its blocks, and the bytes of a partial sum of a block."""
    bits, summed = task.site.attrs["bits"], task.site.operands[0].shape[-1]
    in_block = BLOCK if bits == 22 else summed
    largest = largest_digit(bits) ** 2 * min(summed, in_block)
    return summed, -(-summed // in_block), (largest.bit_length() + 8) // 8


def _integer_products(task: Task, share: Share, agreed: Message) -> Message:
    bits = task.site.attrs["bits"]
    left, right = _matrices(task, share)
    of_left, of_right = agreed
    _, blocks, width = _summed(task)
    if blocks == 1:
        sums = share.sums(bits, left, right, (of_left, of_right))[None]
    else:
        rows = share.rows.array()
        numbers = [rows // BLOCK == block for block in range(blocks)]
        parts = [(left[..., own], right[..., own, :]) for own in numbers]
        sums = np.stack([share.sums(bits, *part, (of_left, of_right)) for part in parts])
    return _planes(sums, width)


def _planes(numbers: Array, width: int) -> Message:
    """Return integers of ``width`` bytes in planes: the lowest 4, 2 or 1 bytes of all of them, then their next bytes.

    The last plane is signed.
    """
    return tuple(_at(numbers, 8 * first, dtype) for first, dtype in _layout(width))


def _at(numbers: Array, bits: int, dtype: str) -> Array:
    return (numbers >> bits if bits else numbers).astype(dtype)


def _layout(width: int) -> list[tuple[int, str]]:
    """Return for each plane of integers of ``width`` bytes the number of its first byte, and its dtype."""
    sizes = [size for size in (4, 2, 1) if width & size]
    starts = [sum(sizes[:plane]) for plane in range(len(sizes))]
    kinds = ["u"] * (len(sizes) - 1) + ["i"]
    return [(first, f"<{kind}{size}") for first, kind, size in zip(starts, kinds, sizes, strict=True)]


def _add_planes(totals: Array, planes: Message) -> None:
    """Add integers in planes to ``totals`` (int64)."""
    first = 0
    for plane in planes:
        totals += np.left_shift(plane, 8 * first, dtype=np.int64) if first else plane
        first += plane.dtype.itemsize


def _rounded_once(
    task: Task, rows: Sequence[Indices], own: Share, agreed: Message, partials: Sequence[Message]
) -> Array:
    left, right = (scales(largest, task.site.attrs["bits"])[1] for largest in agreed)
    _, blocks, _ = _summed(task)
    sums = np.zeros((blocks, *task.site.result.shape), np.int64)
    for planes in partials:
        _add_planes(sums, planes)
    total = np.zeros(task.site.result.shape)
    for block in sums:
        total += block
    total += 0.0
    total *= left
    total *= right
    return total.astype(np.float32)


def _magnitudes_size(task: Task) -> int:
    left, right = task.site.operands[0], task.site.result
    batch = prod(left.shape[:-2])
    return ITEM_SIZE["f32"] * batch * (left.shape[-2] + right.shape[-1])


def _integer_products_size(task: Task, operands: Sequence[TensorType]) -> int:
    _, blocks, width = _summed(task)
    return blocks * width * task.site.result.elements


# FP32 sums: machine r has the rows r, r + W, … of each level of the tree until W numbers are left.


def _dims(task: Task) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Return the summed dimensions before the divided one, the divided one, and those after it.

    Each is numbered as it is when the dimensions before it were removed.
    """
    (axis,) = task.way.operands
    assert axis is not None, "a sum divides its operand"
    dims: tuple[int, ...] = task.site.attrs["dims"]
    before = tuple(dim for dim in dims if dim < axis.dim)
    after = tuple(dim - len(before) - 1 for dim in dims if dim > axis.dim)
    return before, axis.dim - len(before), after


def _branch(task: Task, share: Share, agreed: Message) -> Message:
    (x,) = share.operands
    before, dim, _ = _dims(task)
    rows = np.moveaxis(sum_tree(before, x.shape)(x), dim, 0)
    blocks = rows.reshape(len(rows) // task.inner, task.inner, *rows.shape[1:])
    leaves = _power_of_two(task.way.rows // task.inner) // task.machines
    padded = np.zeros((leaves, *blocks.shape[1:]), np.float32)
    padded[: len(blocks)] = blocks
    return (halve(padded)[0],)


def _power_of_two(number: int) -> int:
    """Return the smallest power of two that is not below ``number``."""
    return 1 << max(0, number - 1).bit_length()


def _trunk(task: Task, rows: Sequence[Indices], own: Share, agreed: Message, partials: Sequence[Message]) -> Array:
    _, _, after = _dims(task)
    block = halve(np.stack([branch for (branch,) in partials]))[0]
    x = halve(block)[0]
    return np.asarray(sum_tree(after, x.shape)(x)).reshape(task.site.result.shape)


def _branch_size(task: Task, operands: Sequence[TensorType]) -> int:
    (axis,) = task.way.operands
    assert axis is not None, "a sum divides its operand"
    dims = task.site.attrs["dims"]
    kept = [size for dim, size in enumerate(operands[0].shape) if dim not in dims or dim > axis.dim]
    return ITEM_SIZE["f32"] * task.inner * prod(kept)


# Exact sums and largest elements, which have no order.


def _added(task: Task, rows: Sequence[Indices], own: Share, agreed: Message, partials: Sequence[Message]) -> Array:
    return np.asarray(np.add.reduce([part for (part,) in partials]))


def _largest(task: Task, rows: Sequence[Indices], own: Share, agreed: Message, partials: Sequence[Message]) -> Array:
    return np.asarray(np.maximum.reduce([part for (part,) in partials]))


def _result_size(task: Task, operands: Sequence[TensorType]) -> int:
    return task.site.result.size


def _largest_and_index(task: Task, share: Share, agreed: Message) -> Message:
    (x,) = share.operands
    dim, keepdim = task.site.attrs["dim"], task.site.attrs["keepdim"]
    return np.asarray(x.max(dim, keepdims=keepdim)), share.rows.array()[_reference(task, share)]


def _first(task: Task, rows: Sequence[Indices], own: Share, agreed: Message, partials: Sequence[Message]) -> Array:
    values, indices = (np.stack(part) for part in zip(*partials, strict=True))
    is_largest = values == np.maximum.reduce(values)
    first = np.where(is_largest, indices, task.way.rows).min(0)
    # NaN equals nothing, and the index is 0 then.
    return np.where(is_largest.any(0), first, 0)


def _largest_and_index_size(task: Task, operands: Sequence[TensorType]) -> int:
    elements = task.site.result.elements
    return elements * (ITEM_SIZE[operands[0].dtype] + ITEM_SIZE["i64"])


# Rows of a table.


def _own_rows(task: Task, share: Share, agreed: Message) -> Message:
    table, index = share.operands
    rows = task.way.rows
    if index.size and (index.min() < 0 or index.max() >= rows):
        raise outside(int(index[(index < 0) | (index >= rows)].flat[0]), rows)
    numbers = share.rows.find(index)
    taken = np.zeros(task.site.result.shape, table.dtype)
    taken[numbers >= 0] = table[numbers[numbers >= 0]]
    return (taken,)


def _picked(task: Task, rows: Sequence[Indices], own: Share, agreed: Message, partials: Sequence[Message]) -> Array:
    index = own.operands[1]
    result = np.empty_like(partials[0][0])
    for theirs, (taken,) in zip(rows, partials, strict=True):
        is_own = theirs.find(index) >= 0
        result[is_own] = taken[is_own]
    return result


def _index_and_values(task: Task, share: Share, agreed: Message) -> Message:
    index = share.operands[0]
    rows = task.site.attrs["rows"]
    if index.size and (index.min() < 0 or index.max() >= rows):
        raise nowhere(int(index[(index < 0) | (index >= rows)].flat[0]), rows)
    return share.operands


def _in_order(task: Task, rows: Sequence[Indices], own: Share, agreed: Message, partials: Sequence[Message]) -> Array:
    maker = PRIMITIVES[task.op].reference
    assert maker is not None, "add_rows has a reference"
    index, values = (
        join(
            [part[number] for part in partials],
            axis.dim,
            [theirs.along(axis, task.way) for theirs in rows],
            task.site.operands[number].shape[axis.dim],
        )
        for number, axis in enumerate(task.way.operands)
        if isinstance(axis, Axis)
    )
    return np.asarray(maker(task.site)(index, values))


def _operands_size(task: Task, operands: Sequence[TensorType]) -> int:
    return sum(operand.size for operand in operands)


@dataclass(frozen=True)
class Collective:
    """The functions of an exchange: each machine makes a partial, and the owner finishes the result.

    ``partial_size`` returns the bytes of a partial from the types of a machine's pieces, and ``claim_size`` the bytes
    of a claim, which is also the size of the agreed values. If ``sends_operands`` is true, a partial has the form of
    the sender's pieces; otherwise the partials of all machines have one form.
    """

    partial: Callable[[Task, Share, Message], Message]
    finish: Callable[[Task, Sequence[Indices], Share, Message, Sequence[Message]], Array]
    partial_size: Callable[[Task, Sequence[TensorType]], int]
    claim: Callable[[Task, Share], Message] | None = None
    claim_size: Callable[[Task], int] = lambda task: 0
    sends_operands: bool = False


COLLECTIVES: Mapping[Exchange, Collective] = MappingProxyType(
    {
        Exchange.MAXIMA_THEN_PARTIALS: Collective(
            partial=_integer_products,
            finish=_rounded_once,
            partial_size=_integer_products_size,
            claim=_magnitudes,
            claim_size=_magnitudes_size,
        ),
        Exchange.TREE_PARTIALS: Collective(_branch, _trunk, _branch_size),
        Exchange.INTEGER_PARTIALS: Collective(_only_reference, _added, _result_size),
        Exchange.MAXIMA: Collective(_only_reference, _largest, _result_size),
        Exchange.FIRST_OF_LARGEST: Collective(_largest_and_index, _first, _largest_and_index_size),
        Exchange.ROWS_FROM_OWNERS: Collective(_own_rows, _picked, _result_size),
        Exchange.ROWS_TO_OWNER: Collective(_index_and_values, _in_order, _operands_size, sends_operands=True),
    }
)
"""The exchanges."""
