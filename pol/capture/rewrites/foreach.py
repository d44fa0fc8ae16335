"""Rewrites of torch's functions that take lists of tensors (``torch._foreach_…``) as one call for each tensor."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

_PREFIX = "_foreach_"
_OTHERS: dict[str, Callable[..., Tensor]] = {
    "norm": torch.linalg.vector_norm,
    "maximum": torch.clamp_min,
    "minimum": torch.clamp_max,
    "copy": lambda _x, source: source,
    "zero": torch.zeros_like,
}
"""Functions of one tensor. The keys are the names of the same functions for lists; only functions whose two names
differ are here.
"""
_SCALED = ("addcmul", "addcdiv")
"""Functions whose last factor is a keyword argument."""


def _of_each(name: str, tensors: Sequence[Tensor], *arguments: Any, **options: Any) -> Any:
    """Call the function ``name`` for each tensor; a list among the arguments has one item for each call."""
    is_in_place = name.endswith("_")
    plain = name.removesuffix("_")
    results = []
    for at, tensor in enumerate(tensors):
        positional = [_item(each, at) for each in arguments]
        named = {key: _item(each, at) for key, each in options.items()}
        if plain in _SCALED:
            if len(positional) == 3:
                named["value"] = positional.pop()
            if "scalars" in named:
                named["value"] = named.pop("scalars")
            if "tensor1" in named:
                positional = [named.pop("tensor1"), named.pop("tensor2")]
        function = _OTHERS.get(plain) or getattr(torch, plain)
        result = function(tensor, *positional, **named)
        results.append(tensor.copy_(result) if is_in_place else result)
    return None if is_in_place else tuple(results)


def _item(argument: Any, at: int) -> Any:
    return argument[at] if isinstance(argument, list | tuple) else argument


def _has_one(name: str) -> bool:
    plain = name.removesuffix("_")
    return plain in _OTHERS or hasattr(torch, plain)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    getattr(torch, full): partial(_of_each, name)
    for full in dir(torch)
    if full.startswith(_PREFIX) and _has_one(name := full.removeprefix(_PREFIX))
}
"""Rewrites by the function of torch."""
