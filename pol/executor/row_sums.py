"""Sums of rows on a GPU in a fixed order, with few kernel calls.

``index_add_`` is not suitable: a GPU adds in any order, and its atomic additions flush subnormal numbers to zero.
"""

import torch
from torch import Tensor


def add_in_order(total: Tensor, rows: Tensor, summands: Tensor) -> None:
    """Add row i of ``summands`` to row ``rows[i]`` of ``total``, for each i in ascending order.

    The summands are added in passes. Pass n adds the n-th summand of every row, so each row occurs at most once in a
    pass. There are as many passes as the row with the most summands has summands.
    """
    if not summands.numel():
        return
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
