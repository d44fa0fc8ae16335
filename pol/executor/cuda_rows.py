"""Sums of rows on an NVIDIA GPU in a fixed order, as one kernel.

Each thread adds one element of the result: the summands of its row, one after another.
"""

from typing import Final

import torch
from torch import Tensor

from pol.executor.cuda_kernels import Kernel
from pol.executor.row_sums import SumRows

NAME: Final = "sum_rows"
TEXT: Final = """\
extern "C" __global__ void sum_rows(
    float *total, const long long *order, const long long *starts, const float *summands, long long width,
    long long elements)
{
    const long long element = (long long) blockIdx.x * blockDim.x + threadIdx.x;
    if (element >= elements)
        return;
    const long long row = element / width, column = element % width;
    float sum = 0.0f;
    for (long long place = starts[row]; place < starts[row + 1]; ++place)
        sum += summands[order[place] * width + column];
    total[element] = sum;
}
"""
"""The kernel. ``order`` has the numbers of the summands, row after row; those of row r begin at ``starts[r]``."""


def kernel_on(device: torch.device) -> SumRows:
    """Return the function that sums rows on a GPU. Raises RuntimeError if its kernel cannot be compiled or loaded."""
    kernel = Kernel(NAME, TEXT, device)

    def run(rows: Tensor, summands: Tensor, count: int) -> Tensor:
        width = summands.shape[1]
        total = torch.empty(count, width, device=summands.device)
        if not total.numel():
            return total
        by_row = torch.sort(rows, stable=True)
        starts = torch.searchsorted(by_row.values, torch.arange(count + 1, device=rows.device))
        kernel.run(total.numel(), (total, by_row.indices, starts, summands.contiguous(), width, total.numel()))
        return total

    return run
