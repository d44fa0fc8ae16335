"""Borders of a model: places at which an owner's machines may cut it, and what crosses them in few bits."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pol.capture.codecs.packing import pack, unpack
from pol.errors import JobError

BITS = (4, 8)


def border(values: torch.Tensor, bits: int = 8) -> torch.Tensor:
    """Return activations of shape (..., n) as they are behind a border that they cross in ``bits`` bits, 8 or 4.

    Call it in a model, between two layers. Each row of n elements is rounded to multiples of its scale, which is the
    largest magnitude in the row divided by 127 or 7. Gradients cross in the same way, so the rounding itself counts as
    the identity. If several machines of one owner train the model in stages, only packed numbers and scales cross the
    cut. On one machine the arithmetic is the same.

    Raises JobError for other bits, and for a tensor that has whole numbers or no dimension.

    Example::

        def forward(self, x):
            return self.head(assay.border(self.blocks(x), bits=8))
    """
    _check_bits(bits)
    _check_values(values)
    crossed: torch.Tensor = _Border.apply(values, bits)  # type: ignore[no-untyped-call]
    return crossed


class BorderMemory(nn.Module):
    """A border that codes how activations differ from those at the last visit of the same rows (AQ-SGD, arXiv
    2206.01299).

    ``rows`` is the number of rows of the training data, and ``shape`` the shape of the activations of one row. Call the
    module with the activations of a batch and the numbers of its rows, which are a column of the data. A step may have
    a row only once. On both sides of the cut, a buffer holds the activations of all rows as they were last decoded.
    Gradients cross as at :func:`border`. In evaluation mode, activations stay as they are.

    The buffers belong to the global state, so a job with several slots is refused.

    Example::

        memory = assay.BorderMemory(rows=3000, shape=(16, 32), bits=4)


        class Model(torch.nn.Module):
            def __init__(self, blocks, head):
                super().__init__()
                self.blocks, self.memory, self.head = blocks, memory, head

            def forward(self, x, row):
                return self.head(self.memory(self.blocks(x), row))
    """

    def __init__(self, rows: int, shape: Sequence[int], bits: int = 4) -> None:
        """Prepare buffers of zeros."""
        super().__init__()
        _check_bits(bits)
        if rows < 1 or not shape:
            reason = f"{rows!r} rows of shape {tuple(shape)} are no activations"
            raise JobError("border.rows", reason, "give the number of rows of the data, and a shape such as (16, 32)")
        self.bits = bits
        self.register_buffer("sent", torch.zeros(rows, *shape))
        self.register_buffer("received", torch.zeros(rows, *shape))

    def forward(self, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Return the activations of a batch as they are behind the border."""
        if not self.training:
            return values
        _check_values(values)
        if rows.shape != values.shape[:1]:
            reason = f"{list(rows.shape)} numbers of rows for activations of shape {list(values.shape)}"
            raise JobError("border.rows", reason, 'give a number per row of the batch, such as batch["row"]')
        before: torch.Tensor = self.sent[rows]  # type: ignore[index]
        behind: torch.Tensor = self.received[rows]  # type: ignore[index]
        crossed, sent = _RememberedBorder.apply(values, before, behind, self.bits)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.sent[rows] = sent  # type: ignore[operator]
            self.received[rows] = crossed.detach()  # type: ignore[operator]
        result: torch.Tensor = crossed
        return result


def _check_bits(bits: object) -> None:
    if type(bits) is not int or bits not in BITS:
        raise JobError("border.bits", f"{bits!r} is not a number of bits", "give 8 or 4")


def _check_values(values: torch.Tensor) -> None:
    if not values.is_floating_point() or not values.dim():
        reason = f"a tensor of {values.dtype} with {values.dim()} dimensions cannot cross"
        raise JobError("border.values", reason, "give activations: floats with at least one dimension")


class _Border(torch.autograd.Function):
    """Coding and decoding of what crosses, forwards and backwards."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, bits: int) -> torch.Tensor:
        ctx.bits = bits
        return _crossed(values, bits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _crossed(gradient, ctx.bits), None


class _RememberedBorder(torch.autograd.Function):
    """Coding and decoding of differences to what each side remembers; returns the values behind and before the border.

    Each side adds the difference to its own memory: the side before the border without decoding it. So only codes
    cross, although both sides end with the same values.
    """

    @staticmethod
    def forward(
        ctx: Any, values: torch.Tensor, before: torch.Tensor, behind: torch.Tensor, bits: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.bits = bits
        numbers, scale = _numbers(values.to(before.dtype) - before, bits)
        change = (numbers * scale).reshape(before.shape)
        crossed = behind + _decoded(numbers, scale, bits).reshape(behind.shape)
        sent = before + change
        ctx.mark_non_differentiable(sent)
        return crossed.to(values.dtype), sent

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return _crossed(gradient, ctx.bits), None, None, None


def _crossed(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Return what is decoded of coded values."""
    return _decoded(*_numbers(values, bits), bits).reshape(values.shape).to(values.dtype)


def _numbers(values: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a whole number for each value, in rows, and the scale of each row."""
    most = (1 << (bits - 1)) - 1
    rows = values.reshape(-1, values.shape[-1])
    rows = rows if rows.dtype == torch.float64 else rows.float()
    scale = rows.abs().amax(1, keepdim=True) / most
    # A scale may be 0, and it may be infinite. Then the row is 0, or not finite, like the scale.
    is_usable = (scale > 0) & (scale < torch.inf)
    numbers = torch.floor(rows / torch.where(is_usable, scale, 1.0) + 0.5)
    return torch.where(is_usable, numbers, 0.0).clamp(-most, most), scale


def _decoded(numbers: torch.Tensor, scale: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the rows behind a border that numbers and scales cross in packed form."""
    most = (1 << (bits - 1)) - 1
    words = pack(numbers.long() + most, bits)
    return (unpack(words, numbers.shape[1], bits) - most).to(scale.dtype) * scale
