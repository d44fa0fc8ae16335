"""Temporary replacement of a model's tensors, so that the tensors that a forward pass assigns to the model can be
read.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from pol.errors import JobError

Tensors = Mapping[str, torch.Tensor]
Slots = dict[str, torch.Tensor | None]


def slots_of(model: nn.Module) -> list[tuple[str, Slots]]:
    """Return the dictionaries of parameters and of buffers of each module, with the module's name."""
    return [(name, slots) for name, module in model.named_modules() for slots in (module._parameters, module._buffers)]


@contextmanager
def exchanged(model: nn.Module, tensors: Tensors) -> Iterator[Callable[[], dict[str, torch.Tensor]]]:
    """Replace tensors of a model within this context; ``tensors`` maps first names to the new ones.

    Yield a function that returns the tensors that are in the model at the time of its call.

    A tensor that several modules hold, or that belongs to a shared module, is replaced in all these places. It is also
    replaced if another object passes it to a function of torch, as a list of weights or a layer of Keras does. When
    the context ends, the model has its own tensors again, regardless of what a forward pass assigned.
    """
    places = slots_of(model)
    before = [(slots, dict(slots)) for _, slots in places]
    names = _names_by_identity(places)
    try:
        for _, slots in places:
            for key, own in slots.items():
                if own is not None and names[id(own)][0] in tensors:
                    slots[key] = tensors[names[id(own)][0]]
        own_places = {
            at: (slots, key)
            for (_, slots), (_, original) in zip(places, before, strict=True)
            for key, own in original.items()
            if own is not None and names[at := id(own)][0] in tensors
        }
        with _Redirected(own_places):
            yield lambda: _read(_by_name(places), list(names.values()), tensors)
    finally:
        for slots, original in before:
            slots.clear()
            slots.update(original)


class _Redirected(TorchFunctionMode):
    """A mode that replaces original tensors in the arguments of torch's functions."""

    def __init__(self, places: Mapping[int, tuple[Slots, str]]) -> None:
        super().__init__()
        self._places = places

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call one function of torch with the replacements."""
        args, kwargs = tree_map_only(torch.Tensor, self._now, (args, kwargs or {}))
        return func(*args, **kwargs)

    def _now(self, tensor: torch.Tensor) -> torch.Tensor:
        slots, key = self._places.get(id(tensor), ({}, ""))
        replacement = slots.get(key)
        return tensor if replacement is None else replacement


def _key(name: str) -> str:
    return name.rpartition(".")[2]


def _by_name(places: list[tuple[str, Slots]]) -> dict[str, Slots]:
    return {f"{prefix}.{key}" if prefix else key: slots for prefix, slots in places for key in slots}


def _names_by_identity(places: list[tuple[str, Slots]]) -> dict[int, list[str]]:
    """Return all names of each tensor; the first is the name in ``named_parameters`` or ``named_buffers``."""
    found: dict[int, list[str]] = {}
    for name, slots in _by_name(places).items():
        tensor = slots[_key(name)]
        if tensor is not None:
            found.setdefault(id(tensor), []).append(name)
    return found


def _read(places: Mapping[str, Slots], names: list[list[str]], tensors: Tensors) -> dict[str, torch.Tensor]:
    """Return the tensors that are now in the model; raise JobError if the next step could not use them."""
    present = {}
    for first, *others in names:
        if first not in tensors:
            continue
        tensor = places[first][_key(first)] if first in places else None
        if tensor is None:
            remedy = f"keep the tensor in the model, and set it to zero instead: self.{_key(first)}.zero_()"
            raise JobError(f"model.{first}", "a forward pass removes it from the model", remedy)
        for other in others:
            if other not in places or places[other][_key(other)] is not tensor:
                reason = f"is the same tensor as {first}, but a forward pass assigns a new tensor to one of the two"
                remedy = f"change it in place (self.{_key(first)}.copy_(…)), or use two separate tensors"
                raise JobError(f"model.{other}", reason, remedy)
        was, now = (
            (list(one.shape), "real numbers" if one.is_floating_point() else str(one.dtype))
            for one in (tensors[first], tensor)
        )
        if was != now:
            reason = f"was {was[1]} of shape {was[0]}, but a forward pass makes it {now[1]} of shape {now[0]}"
            raise JobError(f"model.{first}", reason, "assign a tensor of the same shape and dtype")
        present[first] = tensor
    return present
