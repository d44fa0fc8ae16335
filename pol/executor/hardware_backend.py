"""The back end of hardware arithmetic: torch's own kernels for products, sums and functions.

It is the torch back end with another table of functions. Operations that are missing in the table are exact in any
case: they move, compare or count elements, or round once, as IEEE 754 says.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from types import MappingProxyType

import torch
from torch import Tensor

from pol.executor.hardware import FORWARD, REVERSED, Hardware
from pol.executor.interface import Backend
from pol.executor.torch_backend import TorchBackend, use_threads
from pol.ops.order import nowhere
from pol.ops.primitive import Function, Site
from pol.rules.tolerance import BF16, TF32

Multiply = Callable[[Tensor, Tensor], Tensor]
"""A function from two matrices, or two stacks of matrices, to their product in FP32."""
_WINDOWS_SIZE = 2**24
"""Number of elements of the matrix of windows that are laid out at once."""


class HardwareBackend(TorchBackend):
    """A back end that computes with the ordinary kernels of a device. Its bits depend on the machine."""

    name = "hardware"

    def __init__(self, hardware: Hardware) -> None:
        """Use a device. Raises ExecutionError if this machine does not have it."""
        super().__init__(hardware.device)
        self._hardware = hardware
        self._makers: Mapping[str, Callable[[Site], Function]] = MappingProxyType(
            {
                "matmul": self._matmul,
                "matmul_windows": self._windows_product,
                "sum": self._sum,
                "add_rows": self._add_rows,
                **{op: _always(function) for op, function in _FUNCTIONS.items()},
            }
        )

    def function(self, op: str, site: Site) -> Function:
        """Return the function of one node: torch's own, or the exact one for the operations that are always exact."""
        is_whole = op in ("sum", "add_rows") and site.result.dtype != "f32"
        make = None if is_whole else self._makers.get(op)
        return super().function(op, site) if make is None else make(site)

    def _multiplied(self, summed: int) -> Multiply:
        """Return how to multiply matrices, in the format and the order of this arithmetic."""
        narrow = self._hardware.precision == BF16

        def plain(a: Tensor, b: Tensor) -> Tensor:
            return torch.matmul(a.bfloat16(), b.bfloat16()).float() if narrow else torch.matmul(a, b)

        order, half = self._hardware.order, summed // 2
        if order == FORWARD or half == 0:
            return plain
        if order == REVERSED:
            return lambda a, b: plain(a.flip(-1), b.flip(-2))
        return lambda a, b: plain(a[..., half:], b[..., half:, :]) + plain(a[..., :half], b[..., :half, :])

    def _matmul(self, site: Site) -> Function:
        return self._multiplied(site.operands[0].shape[-1])

    def _windows_product(self, site: Site) -> Function:
        """Return the product of a matrix and the windows of a value. Windows are laid out in parts."""
        attrs, (left, x) = site.attrs, site.operands
        groups, kernel, counts = left.shape[0], attrs["kernel"], attrs["counts"]
        height = x.shape[0] // groups * prod(kernel)
        rest = prod(counts[1:])
        step = max(1, _WINDOWS_SIZE // max(1, groups * height * rest))
        parts = [(first, min(step, counts[0] - first)) for first in range(0, counts[0], step)]
        multiply = self._multiplied(step * rest if attrs["transposed"] else height)
        windows = _windows(site)

        def plain(a: Tensor, value: Tensor) -> Tensor:
            lines = [multiply(a, windows(value, first, count)) for first, count in parts]
            return lines[0] if len(lines) == 1 else torch.cat(lines, -1)

        def transposed(a: Tensor, value: Tensor) -> Tensor:
            total = None
            for first, count in parts:
                some = a[..., first * rest : (first + count) * rest]
                product = multiply(some, windows(value, first, count).transpose(1, 2))
                total = product if total is None else total.add_(product)
            return a.new_zeros(site.result.shape) if total is None else total

        return transposed if attrs["transposed"] else plain

    def _sum(self, site: Site) -> Function:
        dims, shape, order = site.attrs["dims"], site.result.shape, self._hardware.order
        operand = site.operands[0].shape
        if not dims:
            return lambda x: x.reshape(shape)
        widest = max(dims, key=lambda dim: operand[dim])
        half = operand[widest] // 2
        if order == FORWARD or half == 0:
            return lambda x: torch.sum(x, dims).reshape(shape)
        if order == REVERSED:
            return lambda x: torch.sum(x.flip(dims), dims).reshape(shape)

        def halves(x: Tensor) -> Tensor:
            first, second = x.narrow(widest, 0, half), x.narrow(widest, half, operand[widest] - half)
            return (torch.sum(second, dims) + torch.sum(first, dims)).reshape(shape)

        return halves

    def _add_rows(self, site: Site) -> Function:
        rows, shape = site.attrs["rows"], site.result.shape
        width = site.result.elements // rows if rows else 0
        is_reversed = self._hardware.order == REVERSED

        def run(index: Tensor, values: Tensor) -> Tensor:
            flat = self._guard.checked(index.reshape(-1), rows, nowhere)
            summands = values.reshape(index.numel(), width)
            if is_reversed:
                flat, summands = flat.flip(0), summands.flip(0)
            return summands.new_zeros(rows, width).index_add_(0, flat, summands).reshape(shape)

        return run

    @contextmanager
    def session(self) -> Iterator[None]:
        """Return a context without gradients, in which products have the format of this arithmetic."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if self._hardware.precision == TF32 else "highest")
        try:
            with super().session():
                yield
        finally:
            torch.set_float32_matmul_precision(before)


def _always(function: Function) -> Callable[[Site], Function]:
    return lambda site: function


_FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {"sqrt": torch.sqrt, "exp": torch.exp, "log": torch.log, "tanh": torch.tanh, "erf": torch.erf}
)
"""Functions that the exact back ends compose from FP64 operations."""


def _windows(site: Site) -> Callable[[Tensor, int, int], Tensor]:
    """Return the function that lays out windows of a value.

    It takes the value, and the first window along the first dimension of windows and the number of them. It returns a
    matrix per group of channels, of shape (groups, channels per group x positions in a window, windows).
    """
    attrs, x = site.attrs, site.operands[1].shape
    groups, kernel, counts = site.operands[0].shape[0], attrs["kernel"], attrs["counts"]
    strides = _strides(x)
    inner, dims = strides[1:], len(x) - 1
    # A view cannot step backwards. Such windows are laid out forwards, from their last position, and then turned.
    lowest = [
        start + min(0, (places - 1) * step)
        for start, places, step in zip(attrs["starts"], kernel, attrs["steps"], strict=True)
    ]
    turned = [2 + dim for dim in range(dims) if attrs["steps"][dim] < 0]
    base = sum(start * stride for start, stride in zip(lowest, inner, strict=True))
    within = [abs(step) * stride for step, stride in zip(attrs["steps"], inner, strict=True)]
    between = [step * stride for step, stride in zip(attrs["strides"], inner, strict=True)]
    channels = x[0] // groups

    def run(value: Tensor, first: int, count: int) -> Tensor:
        sizes = (groups, channels, *kernel, count, *counts[1:])
        steps = (channels * strides[0], strides[0], *within, *between)
        value = value.contiguous()
        view = value.as_strided(sizes, steps, value.storage_offset() + base + first * between[0])
        if turned:
            view = view.flip(turned)
        return view.reshape(groups, channels * prod(kernel), count * prod(counts[1:]))

    return run


def _strides(shape: Sequence[int]) -> list[int]:
    """Return the distances of neighbours along each dimension of a value in C order."""
    return [prod(shape[dim + 1 :]) for dim in range(len(shape))]


def hardware_backend(hardware: Hardware) -> Backend:
    """Return what runs programs in a hardware arithmetic.

    It has the interface of a back end, but not the bits of one. Raises ExecutionError if this machine cannot compute
    so.
    """
    hardware.check()
    if hardware.threads:
        use_threads(hardware.threads)
    return HardwareBackend(hardware)
