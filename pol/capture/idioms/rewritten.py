"""Replacements for functions of torch that depend on values, such as some losses and sampling."""

from collections.abc import Callable, Sequence
from math import log, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from pol.capture.constants.known import note_labels
from pol.capture.idioms.habits import HABITS
from pol.capture.loops.repeating import repeat
from pol.capture.rewrites import foreach, scattered

_NEVER = -1e30
"""Finite number in place of the logarithm of 0, so that differences of logarithms are defined."""


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the loss of connectionist temporal classification, by the recursion of its paper, in logarithms."""
    if log_probs.dim() == 2:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
    times, rows, _ = log_probs.shape
    lengths, sizes = (torch.as_tensor(length).reshape(-1).expand(rows) for length in (input_lengths, target_lengths))
    if targets.dim() == 1:
        targets, sizes = _padded(targets, sizes, times)
    named = targets.clamp(min=0)
    between = torch.stack([torch.full_like(named, blank), named], 2).flatten(1)
    labels = functional.pad(between, (0, 1), value=blank)
    # the blank between two labels may be skipped if the labels differ
    before = functional.pad(labels, (2, 0), value=blank)[:, :-2]
    may_skip = (labels != blank) & (labels != before)
    seen = log_probs.gather(2, labels.expand(times, -1, -1))
    begins = torch.arange(labels.shape[1]) < 2
    alpha = torch.where(begins & (torch.arange(labels.shape[1]) < 2 * sizes[:, None] + 1), seen[0], _NEVER)

    def step(before: Tensor, now: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        scores, is_within = now
        one = functional.pad(before, (1, 0), value=_NEVER)[:, :-1]
        two = functional.pad(before, (2, 0), value=_NEVER)[:, :-2]
        two = torch.where(may_skip, two, _NEVER)
        together = torch.logsumexp(torch.stack([before, one, two]), 0) + scores
        return torch.where(is_within, together, before), None

    if times > 1:
        is_within = torch.arange(1, times)[:, None, None] < lengths[:, None]
        alpha, _ = repeat(step, alpha, (seen[1:], is_within))
    last = alpha.gather(1, 2 * sizes[:, None])
    ahead = alpha.gather(1, (2 * sizes[:, None] - 1).clamp(min=0))
    ahead = torch.where(sizes[:, None] > 0, ahead, _NEVER)
    loss = -torch.logsumexp(torch.cat([last, ahead], 1), 1)
    is_impossible = loss > -_NEVER / 2
    loss = torch.where(is_impossible, 0.0 if zero_infinity else torch.inf, loss)
    if reduction == "mean":
        return (loss / sizes.clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss


def _padded(targets: Tensor, sizes: Tensor, times: int) -> tuple[Tensor, Tensor]:
    """Return concatenated targets as rows, and the number of valid labels in each row.

    Labels after the valid ones are never read. A row with more labels than there are times has no possible alignment.
    So a row is cut to one label more than the number of times, which is already too many.
    """
    width = min(targets.numel(), times + 1)
    first = torch.cumsum(sizes, 0) - sizes
    places = first[:, None] + torch.arange(width)
    return targets[places.clamp(max=targets.numel() - 1)], sizes.clamp(max=width)


def gaussian_nll_loss(
    x: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Return the Gaussian likelihood loss, without torch's check for negative variances."""
    variance = torch.as_tensor(var, dtype=x.dtype)
    if variance.dim() and variance.shape == x.shape[:-1]:
        variance = variance.unsqueeze(-1)
    bounded = variance + (variance.clamp(min=eps) - variance).detach()
    loss = 0.5 * (torch.log(bounded) + (x - target) ** 2 / bounded)
    if full:
        loss = loss + 0.5 * log(2 * pi)
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Return the values of images at the points of a grid.

    They are interpolated between four pixels, or taken from the nearest one.
    """
    if x.dim() != 4 or mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border"):
        raise NotImplementedError("grid_sample supports images, mode bilinear or nearest, padding_mode zeros or border")
    rows, channels, height, width = x.shape
    flat = x.reshape(rows, channels, height * width)

    def places(unit: Tensor, size: int) -> Tensor:
        where = (unit + 1) / 2 * (size - 1) if align_corners else ((unit + 1) * size - 1) / 2
        return where.clamp(0, size - 1) if padding_mode == "border" else where

    across, down = places(grid[..., 0], width), places(grid[..., 1], height)

    def at(column: Tensor, row: Tensor) -> Tensor:
        is_in = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        number = row.clamp(0, height - 1).long() * width + column.clamp(0, width - 1).long()
        index = number.reshape(rows, 1, -1).expand(-1, channels, -1)
        pixels = flat.gather(2, index).reshape(rows, channels, *grid.shape[1:3])
        return torch.where(is_in.unsqueeze(1), pixels, 0.0)

    if mode == "nearest":
        return at(across.round(), down.round())
    left, top = across.detach().floor(), down.detach().floor()
    right, low = (across - left).unsqueeze(1), (down - top).unsqueeze(1)
    upper = at(left, top) * (1 - right) + at(left + 1, top) * right
    lower = at(left, top + 1) * (1 - right) + at(left + 1, top + 1) * right
    return upper * (1 - low) + lower * low


def take(x: Tensor, index: Tensor) -> Tensor:
    """Return the elements of ``x`` at flat indices (in C order), by ordinary indexing.

    The gradient of torch's own ``take`` is another operation.
    """
    return x.reshape(-1)[index]


def getitem(x: Tensor, key: Any) -> Tensor:
    """Return ``x[key]``.

    An index that is a tensor of one integer selects a row. As in torch, the capture does not need the value of this
    index.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    if not any(map(_is_number, keys)):
        return _GETITEM(x, key)
    for at, part in enumerate(keys):
        if part is Ellipsis:
            keys[at : at + 1] = [slice(None)] * (x.dim() - sum(map(_dimensions, keys)))
            break
    dim = 0
    for at, part in enumerate(keys):
        if _is_number(part):
            size = x.shape[dim]
            place = torch.where(part < 0, part + size, part).reshape(1)
            x, keys[at] = x.index_select(dim, place), 0
        dim += _dimensions(part)
    return _GETITEM(x, tuple(keys))


_GETITEM = Tensor.__getitem__


def _is_number(part: object) -> bool:
    return isinstance(part, Tensor) and not part.dim() and part.dtype in _INTEGERS


def _dimensions(part: object) -> int:
    """Return the number of a tensor's dimensions that one part of an index key refers to."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, Tensor):
        return part.dim() if part.dtype == torch.bool else 1
    if isinstance(part, list | np.ndarray) and not any(map(torch.is_tensor, tree_leaves(part))):
        array = np.asarray(part)
        return array.ndim if array.dtype == np.bool_ else 1
    return 1


_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)


def grouped_mm(
    left: Tensor,
    right: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Return matrix products by group; ``offs`` are the ends of the groups along the grouped dimension.

    Each group is one full product, in which the rows or columns of all other groups are replaced by zeros.
    """
    del out_dtype
    if offs is None:
        product = torch.bmm(left, right)
        return product if bias is None else product + bias
    sizes = {(2, 3): left.shape[0], (3, 2): right.shape[-1], (2, 2): left.shape[-1]}
    place, ends = torch.arange(sizes[left.dim(), right.dim()]), offs.unsqueeze(1)
    is_own = (place < ends) & (place >= functional.pad(ends, (0, 0, 1, 0))[:-1])
    if left.dim() == right.dim():
        return (left * is_own.unsqueeze(1)) @ right
    beside = is_own.unsqueeze(2 if left.dim() == 2 else 1)
    product = torch.where(beside, left @ right, 0.0).sum(0)
    return product if bias is None else product + bias


def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """Return torch's ``one_hot``, and record that each row has its only 1 at its label.

    Labels outside the classes are an error.
    """
    marks = functional.one_hot(x, num_classes)
    note_labels(marks, x)
    return marks


REWRITTEN: dict[Any, Callable[..., Any]] = {
    **HABITS,
    **scattered.FUNCTIONS,
    **foreach.FUNCTIONS,
    functional.ctc_loss: ctc_loss,
    functional.gaussian_nll_loss: gaussian_nll_loss,
    functional.grid_sample: grid_sample,
    functional.grouped_mm: grouped_mm,
    functional.one_hot: one_hot,
    torch._grouped_mm: grouped_mm,
    torch.take: take,
    Tensor.take: take,
    Tensor.__getitem__: getitem,
}
"""Replacements for functions of torch, by function."""


class Rewriting(TorchFunctionMode):
    """A mode that replaces the functions of ``REWRITTEN``."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the replacement of a function, or the function itself."""
        ours: Callable[..., Any] = REWRITTEN.get(function, function)
        return ours(*args, **(kwargs or {}))
