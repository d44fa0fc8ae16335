"""Torch's functions that draw random numbers. A job computes these numbers from its seed, the number of the batch and
the site.

All of them use uniform numbers u of 24 bits in [0, 1). Normal numbers use the method of Box and Muller, sqrt(-2 ln(1 -
u)) cos(2 pi v), and their absolute value is at most 5.77. A random integer is u times the number of integers in the
range, rounded down, so a range has at most 2^24 integers. A permutation is the order of n numbers u.
"""

from collections.abc import Callable, Sequence
from math import pi
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_MOST_INTEGERS = 2**24
_ALPHA = -1.7580993408473766
"""Value that SELU approaches for large negative numbers."""

Draw = Callable[[list[int]], Tensor]


class Draws:
    """Replacements for torch's functions that draw random numbers.

    All of them call ``uniform``, which returns uniform numbers of a given shape from a new site.
    """

    def __init__(self, uniform: Draw) -> None:
        self._uniform = uniform
        tensor = torch.Tensor
        self.functions: dict[Any, Callable[..., Any]] = {
            torch.rand: self._rand,
            torch.rand_like: self._rand_like,
            torch.randn: self._randn,
            torch.randn_like: self._randn_like,
            torch.randint: self._randint,
            torch.randint_like: self._randint_like,
            torch.randperm: self._randperm,
            torch.normal: self._normal_of,
            torch.bernoulli: self._bernoulli,
            torch.multinomial: self._multinomial,
            tensor.uniform_: self._uniform_,
            tensor.normal_: self._normal_,
            tensor.bernoulli_: self._bernoulli_,
            tensor.exponential_: self._exponential_,
            tensor.bernoulli: self._bernoulli,
            tensor.multinomial: self._multinomial,
            functional.rrelu: self._rrelu,
            torch.rrelu: self._rrelu,
            functional.gumbel_softmax: self._gumbel_softmax,
            functional.alpha_dropout: self._alpha_dropout,
            functional.feature_alpha_dropout: self._feature_alpha_dropout,
        }

    # --- distributions ---

    def _normal(self, shape: Sequence[int]) -> Tensor:
        u, v = self._uniform([2, *shape]).unbind()
        return torch.sqrt(-2 * torch.log(1 - u)) * torch.cos(2 * pi * v)

    def _exponential(self, shape: Sequence[int]) -> Tensor:
        return -torch.log(1 - self._uniform(list(shape)))

    def _integers(self, low: int, high: int, shape: Sequence[int]) -> Tensor:
        count = high - low
        if not 0 < count <= _MOST_INTEGERS:
            raise NotImplementedError(f"randint draws from 1 to {_MOST_INTEGERS:,} integers, not {count:,}")
        return low + (self._uniform(list(shape)) * count).long().clamp(max=count - 1)

    # --- functions of torch ---

    def _rand(self, *size: Any, dtype: torch.dtype | None = None, **_options: Any) -> Tensor:
        return self._uniform(_shape(size, _options)).to(dtype or torch.float32)

    def _rand_like(self, x: Tensor, dtype: torch.dtype | None = None, **_options: Any) -> Tensor:
        return self._uniform(list(x.shape)).to(dtype or x.dtype)

    def _randn(self, *size: Any, dtype: torch.dtype | None = None, **_options: Any) -> Tensor:
        return self._normal(_shape(size, _options)).to(dtype or torch.float32)

    def _randn_like(self, x: Tensor, dtype: torch.dtype | None = None, **_options: Any) -> Tensor:
        return self._normal(x.shape).to(dtype or x.dtype)

    def _randint(self, *arguments: Any, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        rest = list(arguments)
        size = options["size"] if "size" in options else rest.pop()
        high = options["high"] if "high" in options else rest.pop()
        low = options.get("low", rest.pop() if rest else 0)
        return self._integers(int(low), int(high), size).to(dtype or torch.int64)

    def _randint_like(self, x: Tensor, *bounds: int, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        rest = list(bounds)
        high = options["high"] if "high" in options else rest.pop()
        low = options.get("low", rest.pop() if rest else 0)
        return self._integers(int(low), int(high), x.shape).to(dtype or x.dtype)

    def _randperm(self, n: int, dtype: torch.dtype | None = None, **_options: Any) -> Tensor:
        return self._uniform([n]).argsort(stable=True).to(dtype or torch.int64)

    def _normal_of(self, mean: Any, std: Any = 1.0, size: Sequence[int] | None = None, **_options: Any) -> Tensor:
        if size is None:
            size = (torch.zeros(()) + mean + std).shape
        drawn: Tensor = mean + std * self._normal(size)
        return drawn

    def _bernoulli(self, x: Tensor, p: float | None = None, **_options: Any) -> Tensor:
        return (self._uniform(list(x.shape)) < (x if p is None else p)).to(x.dtype)

    def _multinomial(self, weights: Tensor, num_samples: int, replacement: bool = False, **_options: Any) -> Tensor:
        """Draw indices in proportion to the weights w.

        For exponentially distributed numbers e, the indices of the largest quotients w / e have this distribution.
        """
        if replacement:
            shape = [*weights.shape[:-1], num_samples, weights.shape[-1]]
            return (weights.unsqueeze(-2) / self._exponential(shape)).argmax(-1)
        return (weights / self._exponential(weights.shape)).topk(num_samples).indices

    # --- methods that write ---

    def _uniform_(self, x: Tensor, low: Any = 0.0, high: Any = 1.0, **options: Any) -> Tensor:
        low, high = options.get("from", low), options.get("to", high)
        return x.copy_(low + (high - low) * self._uniform(list(x.shape)))

    def _normal_(self, x: Tensor, mean: Any = 0.0, std: Any = 1.0, **_options: Any) -> Tensor:
        return x.copy_(mean + std * self._normal(x.shape))

    def _bernoulli_(self, x: Tensor, p: Any = 0.5, **_options: Any) -> Tensor:
        return x.copy_(self._uniform(list(x.shape)) < p)

    def _exponential_(self, x: Tensor, lambd: float = 1.0, **_options: Any) -> Tensor:
        return x.copy_(self._exponential(x.shape) / lambd)

    # --- layers ---

    def _rrelu(
        self,
        x: Tensor,
        lower: float = 1 / 8,
        upper: float = 1 / 3,
        training: bool = False,
        *_rest: Any,
        **_options: Any,
    ) -> Tensor:
        if not training:
            return functional.leaky_relu(x, (lower + upper) / 2)
        slope = lower + (upper - lower) * self._uniform(list(x.shape))
        return torch.where(x < 0, x * slope, x)

    def _gumbel_softmax(
        self, logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
    ) -> Tensor:
        del eps
        # The shift by half a step avoids zero, which has no logarithm.
        drawn = self._exponential(logits.shape) + 2.0**-25
        soft = ((logits - torch.log(drawn)) / tau).softmax(dim)
        if not hard:
            return soft
        place = soft.argmax(dim, keepdim=True)
        whole = torch.zeros_like(logits).scatter(dim, place, 1.0)
        chosen: Tensor = whole - soft.detach() + soft
        return chosen

    def _alpha_dropout(self, x: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
        del inplace
        return self._alpha(x, p, list(x.shape)) if training and p else x

    def _feature_alpha_dropout(
        self, x: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
    ) -> Tensor:
        del inplace
        shape = [*x.shape[:2], *[1] * (x.dim() - 2)]
        return self._alpha(x, p, shape) if training and p else x

    def _alpha(self, x: Tensor, p: float, shape: list[int]) -> Tensor:
        """Compute alpha dropout: set dropped elements to SELU's limit, and scale all to mean 0 and variance 1."""
        if p >= 1:
            return torch.zeros_like(x)
        scale = ((1 - p) * (1 + p * _ALPHA**2)) ** -0.5
        values = torch.where(self._uniform(shape) >= p, x, _ALPHA)
        scaled: Tensor = values * scale - scale * _ALPHA * p
        return scaled


def _shape(size: Sequence[Any], options: dict[str, Any]) -> list[int]:
    sizes = options.get("size", size)
    flat = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    return [int(part) for part in flat]
