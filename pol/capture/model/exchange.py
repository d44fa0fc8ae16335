"""Other tensors in the places of a model's own, and what a forward pass leaves in these places."""

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
    """Return the dictionaries of parameters and buffers of each module, each once, with the module's name."""
    return [(name, slots) for name, module in model.named_modules() for slots in (module._parameters, module._buffers)]


@contextmanager
def exchanged(model: nn.Module, tensors: Tensors) -> Iterator[Callable[[], dict[str, torch.Tensor]]]:
    """Put other tensors into a model, by the first of their names, and give back a function that reads them again.

    A tensor that several modules hold, or that one module shared by several holds, is exchanged in all these places.
    So it is where something else holds it and calls torch with it, as a list of weights or a layer of Keras does.
    What was there before is there again at the end, whatever a forward pass assigns meanwhile.
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
            for (_, slots), (_, kept) in zip(places, before, strict=True)
            for key, own in kept.items()
            if own is not None and names[at := id(own)][0] in tensors
        }
        with _Redirected(own_places):
            yield lambda: _read(_by_name(places), list(names.values()), tensors)
    finally:
        for slots, kept in before:
            slots.clear()
            slots.update(kept)


class _Redirected(TorchFunctionMode):
    """Gives functions of torch what is in a tensor's place, where they are called with the tensor itself."""

    def __init__(self, places: Mapping[int, tuple[Slots, str]]) -> None:
        super().__init__()
        self._places = places

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call one function of torch."""
        args, kwargs = tree_map_only(torch.Tensor, self._now, (args, kwargs or {}))
        return func(*args, **kwargs)

    def _now(self, tensor: torch.Tensor) -> torch.Tensor:
        slots, key = self._places.get(id(tensor), ({}, ""))
        found = slots.get(key)
        return tensor if found is None else found


def _key(name: str) -> str:
    return name.rpartition(".")[2]


def _by_name(places: list[tuple[str, Slots]]) -> dict[str, Slots]:
    return {f"{prefix}.{key}" if prefix else key: slots for prefix, slots in places for key in slots}


def _names_by_identity(places: list[tuple[str, Slots]]) -> dict[int, list[str]]:
    """Return all names of each tensor; the first is that of ``named_parameters`` and ``named_buffers``."""
    found: dict[int, list[str]] = {}
    for name, slots in _by_name(places).items():
        tensor = slots[_key(name)]
        if tensor is not None:
            found.setdefault(id(tensor), []).append(name)
    return found


def _read(places: Mapping[str, Slots], names: list[list[str]], tensors: Tensors) -> dict[str, torch.Tensor]:
    """Return what is in the places of the tensors now; JobError where a step could not hand it on."""
    found = {}
    for first, *others in names:
        if first not in tensors:
            continue
        tensor = places[first][_key(first)] if first in places else None
        if tensor is None:
            remedy = "keep it there, and write zeros into it (zero_()) where it is not wanted"
            raise JobError(f"model.{first}", "a forward pass takes it out of the model", remedy)
        for other in others:
            if other not in places or places[other][_key(other)] is not tensor:
                reason = f"is the same tensor as {first}, and a forward pass assigns another one to one of the names"
                remedy = f"change it in place (self.{_key(first)}.copy_(…)), or make two tensors of it in job()"
                raise JobError(f"model.{other}", reason, remedy)
        was, now = (
            (list(one.shape), "real numbers" if one.is_floating_point() else str(one.dtype))
            for one in (tensors[first], tensor)
        )
        if was != now:
            reason = f"becomes {now[1]} of shape {now[0]} in a forward pass, and was {was[1]} of shape {was[0]}"
            raise JobError(f"model.{first}", reason, "keep its shape and its dtype")
        found[first] = tensor
    return found
