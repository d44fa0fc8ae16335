"""Sums of rows on a GPU in a fixed order, as one Triton kernel.

Each program of the kernel adds the summands of one row of the result, 128 columns at once, one summand after another.
"""

from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from pol.executor.kernel_text import KernelText
from pol.executor.triton_kernels import OPTIONS, jitted

_COLUMNS = 128
KERNEL = KernelText(
    name="sum_rows",
    text=f"""\
def sum_rows(total, order, starts, summands, width):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * {_COLUMNS} + tl.arange(0, {_COLUMNS})
    inside = columns < width
    sums = tl.zeros(({_COLUMNS},), tl.float32)
    for place in range(tl.load(starts + row), tl.load(starts + row + 1)):
        summand = tl.load(order + place)
        sums += tl.load(summands + summand * width + columns, mask=inside, other=0.0)
    tl.store(total + row * width + columns, sums, mask=inside)
""",
    parameters=MappingProxyType(
        {"total": "*fp32", "order": "*i64", "starts": "*i64", "summands": "*fp32", "width": "i32"}
    ),
)
"""The kernel. ``order`` has the numbers of the summands, row after row; those of row r begin at ``starts[r]``."""


@cache
def _kernel() -> Any:
    return jitted(KERNEL)


def in_kernel(rows: Tensor, summands: Tensor, count: int) -> Tensor:
    """Return sums of rows, as :data:`pol.executor.row_sums.SumRows` does."""
    width = summands.shape[1]
    total = torch.empty(count, width, device=summands.device)
    if not total.numel():
        return total
    by_row = torch.sort(rows, stable=True)
    starts = torch.searchsorted(by_row.values, torch.arange(count + 1, device=rows.device))
    grid = (count, -(-width // _COLUMNS))
    _kernel()[grid](total, by_row.indices, starts, summands.contiguous(), width, **OPTIONS)
    return total
