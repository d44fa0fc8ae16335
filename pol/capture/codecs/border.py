"""Borders of a model: places at which an owner's machines may cut it, and what crosses them in few bits."""

from typing import Any

import torch
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
    given: object = bits
    if type(given) is not int or given not in BITS:
        raise JobError("border.bits", f"{given!r} is not a number of bits", "give 8 or 4")
    if not values.is_floating_point() or not values.dim():
        reason = f"a tensor of {values.dtype} with {values.dim()} dimensions cannot cross"
        raise JobError("border.values", reason, "give activations: floats with at least one dimension")
    crossed: torch.Tensor = _Border.apply(values, bits)  # type: ignore[no-untyped-call]
    return crossed


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


def _crossed(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Return what is decoded of coded values."""
    most = (1 << (bits - 1)) - 1
    size = values.shape[-1]
    rows = values.reshape(-1, size)
    rows = rows if rows.dtype == torch.float64 else rows.float()
    scale = rows.abs().amax(1, keepdim=True) / most
    # A scale may be 0, and it may be infinite. Then the row is 0, or not finite, like the scale.
    is_usable = (scale > 0) & (scale < torch.inf)
    numbers = torch.floor(rows / torch.where(is_usable, scale, 1.0) + 0.5)
    numbers = torch.where(is_usable, numbers, 0.0).clamp(-most, most)
    words = pack(numbers.long() + most, bits)
    decoded = (unpack(words, size, bits) - most).to(scale.dtype) * scale
    return decoded.reshape(values.shape).to(values.dtype)
