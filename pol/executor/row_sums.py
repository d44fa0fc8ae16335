"""Sums of rows on a GPU in the order in which the rows come, without a thread for each of them.

``index_add_`` is not for that: a GPU adds in any order, and its atomic additions flush subnormal numbers to zero.
"""

import torch
from torch import Tensor


def add_in_order(total: Tensor, rows: Tensor, added: Tensor) -> None:
    """Add each row of ``added`` to the row of ``total`` that ``rows`` names, first to last.

    Turn n adds what is the n-th summand of its row, so no turn has a row twice, and there are as many turns as the row
    with the most summands has.
    """
    if not added.numel():
        return
    by_row = torch.sort(rows, stable=True)
    place = torch.arange(len(rows), device=rows.device)
    begins = torch.ones_like(rows, dtype=torch.bool)
    begins[1:] = by_row.values[1:] != by_row.values[:-1]
    turn = place - torch.cummax(torch.where(begins, place, 0), 0).values
    by_turn = torch.sort(turn, stable=True)
    _, sizes = torch.unique_consecutive(by_turn.values, return_counts=True)
    for taken in torch.split(by_row.indices[by_turn.indices], sizes.tolist()):
        named = rows[taken]
        total[named] = total[named] + added[taken]
