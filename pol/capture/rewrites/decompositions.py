"""Decompositions of torch's operations for which torch has no decomposition, or only one that a job cannot use."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from pol.capture.rewrites import bags, resampling, scattered

Table = dict[Any, Callable[..., Any]]
_F = TypeVar("_F", bound=Callable[..., Any])
_aten = torch.ops.aten

OURS = (
    # The handlers add rows in a fixed order.
    _aten.embedding_dense_backward.default,
    _aten.index_add.default,
    _aten.index_copy.default,
    _aten.index_fill.int_Scalar,
    _aten.index_fill.int_Tensor,
)
"""Overloads with a handler that is better than torch's decomposition."""
_MORE: Table = {
    **resampling.DECOMPOSITIONS,
    **bags.DECOMPOSITIONS,
    **scattered.DECOMPOSITIONS,
}


def adjust(table: Table) -> None:
    """Add these decompositions to torch's table, and remove the overloads that have a better handler."""
    for overload in OURS:
        table.pop(overload, None)
    table.update(_MORE)


def _of(overload: Any) -> Callable[[_F], _F]:
    def register(function: _F) -> _F:
        _MORE[overload] = function
        return function

    return register


# --- products ---


@_of(_aten.addmv.default)
def _addmv(x: Tensor, matrix: Tensor, vector: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * x + alpha * torch.mv(matrix, vector)


@_of(_aten.addbmm.default)
def _addbmm(x: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * x + alpha * torch.bmm(left, right).sum(0)


@_of(_aten._trilinear.default)
def _trilinear(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    summed: list[int],
    unroll: int = 1,
) -> Tensor:
    """Compute the sum over products of three factors as two products of matrices."""
    del unroll
    rank = first.dim() + len(expand1)
    letters = "abcdefgh"[:rank]
    operands = [
        "".join(letter for dim, letter in enumerate(letters) if dim not in expand)
        for expand in (expand1, expand2, expand3)
    ]
    result = "".join(letter for dim, letter in enumerate(letters) if dim not in summed)
    return torch.einsum(f"{','.join(operands)}->{result}", first, second, third)


@_of(_aten._weight_norm_interface_backward.default)
def _weight_norm_backward(
    grad: Tensor, direction: Tensor, size: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    slopes: tuple[Tensor, Tensor] = _aten._weight_norm_differentiable_backward(grad, direction, size, norms, dim)
    return slopes


# --- activations ---


@_of(_aten.hardshrink_backward.default)
@_of(_aten.softshrink_backward.default)
def _shrink_backward(grad: Tensor, x: Tensor, bound: float) -> Tensor:
    return torch.where(x.abs() <= bound, 0.0, grad)


@_of(_aten.rrelu_with_noise_functional.default)
def _rrelu(
    x: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> tuple[Tensor, Tensor]:
    if training:
        raise NotImplementedError(
            "random slopes of RReLU are supported only if the model's forward calls RReLU in Python code"
        )
    del generator
    return torch.where(x < 0, x * ((lower + upper) / 2), x), noise


@_of(_aten.rrelu_with_noise_backward.default)
def _rrelu_backward(
    grad: Tensor,
    x: Tensor,
    noise: Tensor,
    lower: float,
    upper: float,
    training: bool,
    is_result: bool,
) -> Tensor:
    del noise, training, is_result
    return torch.where(x < 0, grad * ((lower + upper) / 2), grad)


# --- distances ---


def _length(difference: Tensor, p: float) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(difference, ord=p, dim=-1)
    return length


def _slope(difference: Tensor, length: Tensor, p: float) -> Tensor:
    """Return the gradient of a length (a p-norm) with respect to ``difference``; it is 0 where the length is 0."""
    far = length.unsqueeze(-1)
    safe = torch.where(far == 0, 1.0, far)
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return difference.sign()
    if p == 2:
        return torch.where(far == 0, 0.0, difference / safe)
    if p == float("inf"):
        return difference.sign() * (difference.abs() == far)
    ratio = torch.where(difference == 0, 1.0, difference.abs()) / safe
    return torch.where(difference == 0, 0.0, difference.sign() * ratio ** (p - 1))


@_of(_aten._cdist_forward.default)
def _cdist(left: Tensor, right: Tensor, p: float, mode: int | None) -> Tensor:
    """Compute distances from separate differences, because a product would lose the digits of small distances."""
    del mode
    return _length(left.unsqueeze(-2) - right.unsqueeze(-3), p)


@_of(_aten._cdist_backward.default)
def _cdist_backward(grad: Tensor, left: Tensor, right: Tensor, p: float, found: Tensor) -> Tensor:
    difference = left.unsqueeze(-2) - right.unsqueeze(-3)
    return (grad.unsqueeze(-1) * _slope(difference, found, p)).sum(-2)


def _pairs(x: Tensor) -> tuple[Tensor, Tensor]:
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1).unbind()
    return first, second


@_of(_aten._pdist_forward.default)
def _pdist(x: Tensor, p: float = 2) -> Tensor:
    first, second = _pairs(x)
    return _length(x[first] - x[second], p)


@_of(_aten._pdist_backward.default)
def _pdist_backward(grad: Tensor, x: Tensor, p: float, found: Tensor) -> Tensor:
    first, second = _pairs(x)
    parts = grad.unsqueeze(-1) * _slope(x[first] - x[second], found, p)
    return torch.zeros_like(x).index_add(0, first, parts).index_add(0, second, -parts)


@_of(_aten.multi_margin_loss_backward.default)
def _multi_margin_backward(
    grad: Tensor,
    x: Tensor,
    target: Tensor,
    p: float,
    margin: float,
    weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    rows_, index = x.reshape(-1, x.shape[-1]), target.reshape(-1, 1)
    over = margin - rows_.gather(1, index) + rows_
    is_other = torch.arange(rows_.shape[1]) != index
    parts = torch.where((over > 0) & is_other, over * 2 if p == 2 else torch.ones_like(over), 0.0)
    if weight is not None:
        parts = parts * weight[index]
    parts = torch.where(is_other, parts, -parts.sum(1, keepdim=True)) / rows_.shape[1]
    outer = grad.reshape(-1, 1) / (rows_.shape[0] if reduction == 1 else 1)
    return (parts * outer).reshape(x.shape)


# --- counts ---


@_of(_aten.histc.default)
def _histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002
    """Return the number of elements in each of ``bins`` parts of an interval; the last part includes the end."""
    values = x.reshape(-1)
    low, high = torch.tensor(float(min)), torch.tensor(float(max))
    if min == max:
        low, high = values.amin(), values.amax()
        is_one = low == high
        low, high = torch.where(is_one, low - 1, low), torch.where(is_one, high + 1, high)
    is_in = (values >= low) & (values <= high)
    place = ((values - low) * (bins / (high - low))).floor().long().clamp(0, bins - 1)
    return torch.zeros(bins, dtype=x.dtype).index_add(0, place, is_in.to(x.dtype))


# --- by a mask ---


@_of(_aten.masked_scatter.default)
def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    whole = mask.expand(x.shape)
    place = (whole.reshape(-1).cumsum(0) - 1).clamp(min=0)
    return torch.where(whole, source.reshape(-1)[place].reshape(x.shape), x)


@_of(_aten.masked_scatter_backward.default)
def _masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: list[int]) -> Tensor:
    whole = mask.expand(grad.shape).reshape(-1)
    place = (whole.cumsum(0) - 1).clamp(min=0)
    count = torch.Size(sizes).numel()
    flat = torch.where(whole, grad.reshape(-1), 0.0)
    return torch.zeros(count, dtype=grad.dtype).index_add(0, place, flat).reshape(sizes)
