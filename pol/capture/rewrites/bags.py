"""Rewrites of bags of embeddings: the sum, mean or maximum of the rows between two offsets."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten
_SUM, _MEAN, _MAX = range(3)


def _bags(indices: Tensor, offsets: Tensor) -> Tensor:
    """Return the number of the bag of each index: the number of offsets at or before the index, minus 1."""
    places = torch.arange(indices.numel())
    return torch.searchsorted(offsets.contiguous(), places, right=True) - 1


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    del scale_grad_by_freq, sparse
    starts = offsets[:-1] if include_last_offset else offsets
    bags, count = _bags(indices, starts), starts.numel()
    rows = weight[indices]
    is_counted = indices != padding_idx if padding_idx >= 0 else torch.ones_like(indices).bool()
    ones = is_counted.to(weight.dtype)
    sizes = torch.zeros(count, dtype=weight.dtype).index_add(0, bags, ones)
    if mode == _MAX:
        is_own = (bags == torch.arange(count)[:, None]) & is_counted
        candidates = torch.where(is_own[:, :, None], rows, -torch.inf)
        largest, place = candidates.max(1)
        is_empty = (sizes == 0)[:, None]
        named = torch.where(is_empty, -1, indices[place])
        return torch.where(is_empty, 0.0, largest), bags, sizes.long(), named
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if padding_idx >= 0:
        rows = torch.where(is_counted[:, None], rows, 0.0)
    total = torch.zeros(count, weight.shape[1], dtype=weight.dtype).index_add(0, bags, rows)
    if mode == _MEAN:
        total = total / sizes.clamp(min=1)[:, None]
    return total, bags, sizes.long(), indices.new_empty(0)


def _embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bags: Tensor,
    sizes: Tensor,
    named: Tensor,
    rows: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    del offsets, sparse
    whole = torch.zeros(rows, grad.shape[1], dtype=grad.dtype)
    if mode == _MAX:
        is_empty = named < 0
        return whole.scatter_add(0, named.clamp(min=0), torch.where(is_empty, 0.0, grad))
    if mode == _MEAN:
        grad = grad / sizes.clamp(min=1).to(grad.dtype)[:, None]
    parts = grad[bags]
    if per_sample_weights is not None:
        parts = parts * per_sample_weights[:, None]
    if scale_grad_by_freq:
        ones = torch.ones_like(indices).to(grad.dtype)
        counts = torch.zeros(rows, dtype=grad.dtype).index_add(0, indices, ones)
        parts = parts / counts[indices][:, None]
    if padding_idx >= 0:
        parts = torch.where((indices != padding_idx)[:, None], parts, 0.0)
    return whole.index_add(0, indices, parts)


def _weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, bags: Tensor, mode: int, padding_idx: int = -1
) -> Tensor:
    del offsets, mode
    slopes = (grad[bags] * weight[indices]).sum(1)
    return torch.where(indices != padding_idx, slopes, 0.0) if padding_idx >= 0 else slopes


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _aten._embedding_bag.default: _embedding_bag,
    _aten._embedding_bag_forward_only.default: _embedding_bag,
    _aten._embedding_bag_backward.default: _embedding_bag_backward,
    _aten._embedding_bag_per_sample_weights_backward.default: _weights_backward,
}
"""Rewrites by the overload of torch."""
