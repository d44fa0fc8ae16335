"""Products of matrices on a GPU, in one of two ways with the same result: in FP64, or with INT8 digits.

In FP64, one call multiplies all matrices of a product. In digits, the integer units multiply, and FP64 combines the
sums; this takes many calls for each matrix. Which way is faster depends on the GPU, since few have fast units for FP64,
and on the sizes of the matrices (:class:`Speeds`).

Nothing here is rounded. An integer of 8, 15 or 22 bits consists of one, two or three balanced digits of 7 bits, none
above 127. ``torch._int_mm`` sums products of digits in INT32. The largest sum in a program is 131,072 x 127^2 =
2,114,060,288, which is below 2^31. The product of two integers is at most (2^7 - 1)^2, (2^14 - 1)^2 or (2^21 - 1)^2;
times 131,072, 131,072 and 2,048 summands, this is below 2^53. FP64 therefore holds the sum exactly. FP64 also holds
every intermediate value exactly, because an intermediate value is the sum for the higher digits alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

Multiply = Callable[[Tensor, Tensor, int], Tensor]
"""A function that returns the product, in FP64, of two matrices. Its arguments are the matrices, whose elements are
integers in FP64, and the number of bits of these integers. The summed dimension has at most one block.
"""

_DIGIT = 7
"""Bits of a digit without its sign."""
_MULTIPLE = 32
"""Number to whose multiples the rows, columns and summed dimension of a GPU's product are padded.

GPUs require multiples of 8 and more than 16 rows, and are fastest if rows begin at multiples of 16 bytes.
"""


Choose = Callable[[int, int], Multiply]
"""A function that returns the way to multiply two matrices. Its arguments are the operations (FLOPs) of the product,
and the number of bits.
"""


def in_floats(left: Tensor, right: Tensor, bits: int) -> Tensor:
    """Return the product of two matrices, multiplied in FP64. This is the fastest way on processors.

    All sums are exact integers, so the order in which a library adds does not matter.
    """
    return torch.matmul(left, right)


def in_digits(left: Tensor, right: Tensor, bits: int) -> Tensor:
    """Return the product of two operands, multiplied digit by digit, one matrix after another.

    The integer units of the operands' device compute the products.
    """
    rows, columns = left.shape[-2], right.shape[-1]
    result = left.new_zeros((*left.shape[:-1], columns))
    if not result.numel():
        return result
    for a, b, target in zip(
        left.reshape(-1, *left.shape[-2:]),
        right.reshape(-1, *right.shape[-2:]),
        result.view(-1, rows, columns),
        strict=True,
    ):
        # The right matrix is transposed, since all GPUs support products of rows with rows.
        target.copy_(_multiplied(_digits(a, bits), _digits(b.t(), bits))[:rows, :columns])
    return result


def always(multiply: Multiply) -> Choose:
    """Return the choice of one way for all products."""
    return lambda operations, bits: multiply


@dataclass(frozen=True, slots=True)
class Speeds:
    """The speeds of products on a device.

    ``small`` is the time of a small product in digits, in seconds. ``digits`` is the number of operations per second of
    products of two digits, and ``floats`` that of products in FP64.
    """

    small: float
    digits: float
    floats: float

    def choose(self, operations: int, bits: int) -> Multiply:
        """Return the faster way for matrices of this size."""
        pairs = _count(bits) ** 2
        of_digits = self.small * pairs / _count(_BITS_TIMED) ** 2 + operations * pairs / self.digits
        return in_digits if of_digits < operations / self.floats else in_floats


_BITS_TIMED, _SIDE, _REPEATS = 15, 2048, 3


def measured(device: str) -> Speeds:
    """Return the speeds of a GPU. This takes some milliseconds, and both ways must work there."""
    operations = 2 * _SIDE**3
    small, large = (torch.ones(side, side, dtype=torch.float64, device=device) for side in (_MULTIPLE, _SIDE))
    least = _fastest(in_digits, small)
    return Speeds(
        small=least,
        digits=operations * _count(_BITS_TIMED) ** 2 / max(_fastest(in_digits, large) - least, 1e-9),
        floats=operations / _fastest(in_floats, large),
    )


def _fastest(multiply: Multiply, x: Tensor) -> float:
    times = []
    # The first time, a library may compile or load its kernels.
    for _ in range(_REPEATS + 1):
        began = perf_counter()
        # Reading a sum waits until it is there.
        float(multiply(x, x, _BITS_TIMED)[0, 0])
        times.append(perf_counter() - began)
    return min(times[1:])


def _count(bits: int) -> int:
    """Return the number of digits of an integer of this many bits."""
    return (bits - 1) // _DIGIT


def _digits(x: Tensor, bits: int) -> list[Tensor]:
    """Return the balanced digits of a matrix of integers, the lowest digit first.

    The matrix is padded with zeros to the multiples of a GPU's product.
    """
    rows, columns = (-(-size // _MULTIPLE) * _MULTIPLE for size in x.shape)
    rest = torch.zeros(rows, columns, dtype=torch.int32, device=x.device)
    rest[: x.shape[0], : x.shape[1]] = x
    digits = []
    for _ in range(_count(bits) - 1):
        # These digits are from -64 to 63. The highest digit, which remains at the end, is at most 127.
        lowest = ((rest + 64) & 127) - 64
        digits.append(lowest.to(torch.int8))
        rest = (rest - lowest) >> _DIGIT
    return [*digits, rest.to(torch.int8)]


def _multiplied(left: list[Tensor], right: list[Tensor]) -> Tensor:
    """Return the product of two matrices given as digits.

    Products of pairs of digits are added, beginning with the highest.
    """
    total = torch.zeros(len(left[0]), len(right[0]), dtype=torch.float64, device=left[0].device)
    for place in range(2 * len(left) - 2, -1, -1):
        total.mul_(1 << _DIGIT)
        for index in range(max(0, place - len(left) + 1), min(place, len(left) - 1) + 1):
            total.add_(torch._int_mm(left[index], right[place - index].t()))
    return total
