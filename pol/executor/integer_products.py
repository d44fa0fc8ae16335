"""Products on a GPU: digits of eight bits are multiplied by its integer units, and sums put together in FP64.

Nothing here is rounded. An integer of 8, 15 or 22 bits is one, two or three balanced digits of 7 bits, none above 127.
``torch._int_mm`` sums products of digits in INT32: 131,072 x 127^2, which is the most that a program sums, is
2,114,060,288 and below 2^31. What the digits of two integers give together is at most (2^7 - 1)^2, (2^14 - 1)^2 or
(2^21 - 1)^2 for each product; times 131,072, 131,072 and 2,048 that is below 2^53. So FP64 holds it, and every value on
the way, which is the same of the higher digits alone.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Multiply = Callable[[Tensor, Tensor, int], Tensor]
"""Sums of products of two operands' integers of so many bits, of one block; operands and sums are in FP64."""

_DIGIT = 7
"""Bits of a digit without its sign."""
_MULTIPLE = 32
"""Of the rows, columns and summed numbers of what a GPU multiplies: it takes multiples of 8, more than 16 rows, and is
fastest where lines begin at multiples of 16 bytes."""


def in_floats(left: Tensor, right: Tensor, bits: int) -> Tensor:
    """Multiply in FP64, as processors do best."""
    return torch.matmul(left, right)


def in_digits(left: Tensor, right: Tensor, bits: int) -> Tensor:
    """Multiply digit by digit, matrix by matrix, on the integer units of the operands' device."""
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
        # the right one turned: of all layouts GPUs multiply rows by rows everywhere
        target.copy_(_multiplied(_digits(a, bits), _digits(b.t(), bits))[:rows, :columns])
    return result


def _digits(x: Tensor, bits: int) -> list[Tensor]:
    """Return the balanced digits of a matrix of integers, the lowest first, with zeros up to the multiples."""
    rows, columns = (-(-size // _MULTIPLE) * _MULTIPLE for size in x.shape)
    rest = torch.zeros(rows, columns, dtype=torch.int32, device=x.device)
    rest[: x.shape[0], : x.shape[1]] = x
    found = []
    for _ in range((bits - 1) // _DIGIT - 1):
        # from -64 to 63; what is left of the largest integer, 127 and zeros, is 127 at the end
        lowest = ((rest + 64) & 127) - 64
        found.append(lowest.to(torch.int8))
        rest = (rest - lowest) >> _DIGIT
    return [*found, rest.to(torch.int8)]


def _multiplied(left: list[Tensor], right: list[Tensor]) -> Tensor:
    """Put the products of all pairs of digits together, those of the highest first."""
    total = torch.zeros(len(left[0]), len(right[0]), dtype=torch.float64, device=left[0].device)
    for place in range(2 * len(left) - 2, -1, -1):
        total.mul_(1 << _DIGIT)
        for index in range(max(0, place - len(left) + 1), min(place, len(left) - 1) + 1):
            total.add_(torch._int_mm(left[index], right[place - index].t()))
    return total
