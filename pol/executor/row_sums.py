"""Sums of rows on a GPU in a fixed order, with few kernel calls. :mod:`pol.executor.cuda_rows` does the same in one.

``index_add_`` is not suitable: a GPU adds in any order, and its atomic additions flush subnormal numbers to zero.
"""

from collections.abc import Callable

import torch
from torch import Tensor

SumRows = Callable[[Tensor, Tensor, int], Tensor]
"""A function of row numbers, summands and a number of rows. It returns that many rows: row r is the sum of all rows i
of the summands whose row number is r, in ascending order of i, beginning with 0.0.
"""


def in_passes(rows: Tensor, summands: Tensor, count: int) -> Tensor:
    """Return sums as ``SumRows`` does.

    The summands are added in passes. Pass n adds the n-th summand of every row, so each row occurs at most once in a
    pass. There are as many passes as the row with the most summands has summands.
    """
    total = torch.zeros(count, summands.shape[1], device=summands.device)
    if not summands.numel():
        return total
    by_row = torch.sort(rows, stable=True)
    place = torch.arange(len(rows), device=rows.device)
    begins = torch.ones_like(rows, dtype=torch.bool)
    begins[1:] = by_row.values[1:] != by_row.values[:-1]
    passes = place - torch.cummax(torch.where(begins, place, 0), 0).values
    by_pass = torch.sort(passes, stable=True)
    _, sizes = torch.unique_consecutive(by_pass.values, return_counts=True)
    for indices in torch.split(by_row.indices[by_pass.indices], sizes.tolist()):
        targets = rows[indices]
        total[targets] = total[targets] + summands[indices]
    return total
