"""Plain Python values that the consumer's model and functions hold in attributes, closures, globals and containers."""

import itertools
import random
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from pol.capture.reports.origin import is_consumers

PLAIN = (bool, int, float, str, np.generic)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
_MOST = 20_000
"""Largest number of objects that are searched."""
_MOST_ITEMS = 1_000
"""Largest number of items that are searched in a container."""
_MOST_ELEMENTS = 64
"""Largest number of elements of an array that is compared."""
_PACKAGES = "-packages"
_NAMESPACES = (SimpleNamespace, Namespace)


@dataclass(frozen=True, slots=True)
class Held:
    """A Python value at the time of the search, with functions that read and, if possible, set the current value."""

    name: str
    value: object
    read: Callable[[], object]
    write: Callable[[object], None] | None = None
    is_generator: bool = False
    is_item: bool = False
    """True if the value is an item of a list; a list may grow without counting as changed."""


Key = tuple[int, str]
"""Identity of the object that holds a value, and the name of the value in this object."""
_Place = tuple[str, object, Callable[[], object], Callable[[object], None] | None]
"""Name of a value in its holder, the value, and the functions that read and write it."""


class HeldValues:
    """All plain values that can be reached from the objects ``roots``. Each value is found by the object that holds it
    and by its name in that object.
    """

    def __init__(self, roots: Iterable[object]) -> None:
        self.values: dict[Key, Held] = {}
        # the references prevent that another object gets the same identity
        self._seen: dict[int, object] = {}
        # objects to search, with the names under which they were reached
        self._waiting: deque[tuple[str, object]] = deque(("", root) for root in roots)
        while self._waiting and len(self._seen) < _MOST:
            self._look_into(*self._waiting.popleft())

    def _look_into(self, path: str, holder: object) -> None:
        if id(holder) in self._seen:
            return
        self._seen[id(holder)] = holder
        for place in _places(holder):
            name, value = place[:2]
            held = _held(_shown(path, holder, name), isinstance(holder, list | deque), place)
            if held is not None:
                self.values[id(holder), name] = held
            elif not isinstance(value, PLAIN):
                self._waiting.append((_shown(path, holder, name), value))


def _shown(path: str, holder: object, name: str) -> str:
    """Return the name of a value as the consumer's code would write it."""
    if isinstance(holder, list | deque | tuple):
        return f"{path}[{name}]"
    if isinstance(holder, dict) and not (path.startswith("__") or path == ""):
        return f"{path}[{name!r}]"
    if name in ("__defaults__", "__kwdefaults__") and isinstance(holder, FunctionType):
        return f"defaults of {holder.__name__}"
    if name == "__self__":
        return path
    return f"{holder.__name__}.{name}" if isinstance(holder, type) else name


def _held(name: str, is_item: bool, place: _Place) -> Held | None:
    """Return a record of the value, for a later comparison; None if the object only holds other values."""
    _, value, read, write = place
    if isinstance(value, PLAIN):
        return Held(name=name, value=value, read=read, write=write, is_item=is_item)
    if isinstance(value, _GENERATORS):
        return Held(name=name, value=_state(value), read=partial(_state, value), is_generator=True)
    if isinstance(value, itertools.count):
        return Held(name, repr(value), partial(repr, value))
    if isinstance(value, np.ndarray) and value.size <= _MOST_ELEMENTS and not value.dtype.hasobject:
        return Held(name, value.tobytes(), value.tobytes)
    return None


def _state(generator: object) -> object:
    """Return the state of a random generator in a form that can be compared."""
    if isinstance(generator, np.random.Generator):
        return repr(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        name, keys, *others = generator.get_state(legacy=True)
        return name, np.asarray(keys).tobytes(), *others
    assert isinstance(generator, random.Random)
    return generator.getstate()


# --- the values in a holder ---

_FIXED: Mapping[type, tuple[str, ...]] = {
    MethodType: ("__self__", "__func__"),
    BuiltinMethodType: ("__self__",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget",),
    partial: ("func", "args", "keywords"),
    torch.Tensor: ("_backward_hooks",),
}
"""Attributes of objects of torch and Python that may refer to the consumer's objects."""


def _places(holder: object) -> Iterator[_Place]:
    if isinstance(holder, dict):
        yield from _of_items(holder, holder.items())
    elif isinstance(holder, list | deque):
        yield from _of_items(holder, enumerate(holder))
    elif isinstance(holder, tuple):
        for at, value in enumerate(holder[:_MOST_ITEMS]):
            yield str(at), value, partial(holder.__getitem__, at), None
    elif isinstance(holder, FunctionType):
        yield from _of_function(holder)
    elif names := next((names for kind, names in _FIXED.items() if isinstance(holder, kind)), ()):
        yield from _fixed(holder, *names)
    elif isinstance(holder, type):
        if _is_own(holder):
            yield from _of_attributes(holder, vars(holder))
    elif isinstance(holder, ModuleType):
        if _is_file_of_own(getattr(holder, "__file__", None)):
            yield from _of_attributes(holder, vars(holder))
    elif isinstance(holder, nn.Module) or _is_own(type(holder)):
        yield from _of_attributes(holder, getattr(holder, "__dict__", {}))
        yield from _fixed(holder, "__class__")


def _fixed(holder: object, *names: str) -> Iterator[_Place]:
    for name in names:
        yield name, getattr(holder, name), partial(getattr, holder, name), None


def _of_items(holder: Any, items: Iterable[tuple[object, object]]) -> Iterator[_Place]:
    for key, value in itertools.islice(list(items), _MOST_ITEMS):
        yield str(key), value, partial(_item, holder, key), partial(holder.__setitem__, key)


def _item(holder: Any, key: object) -> object:
    try:
        return holder[key]
    except (KeyError, IndexError):
        return None


def _of_attributes(holder: object, attributes: Any) -> Iterator[_Place]:
    for name, value in list(attributes.items())[:_MOST_ITEMS]:
        # each step sets and restores the mode of a module, so the mode is not compared
        if name != "training" and not (name.startswith("__") and name.endswith("__")):
            yield name, value, partial(getattr, holder, name, None), partial(setattr, holder, name)


def _of_function(function: FunctionType) -> Iterator[_Place]:
    path = function.__code__.co_filename
    if not is_consumers(path):
        return
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        read, write = (
            partial(getattr, cell, "cell_contents"),
            partial(setattr, cell, "cell_contents"),
        )
        yield name, value, read, write
    yield from _fixed(function, "__defaults__", "__kwdefaults__", "__dict__")
    if _is_file_of_own(path):
        own = function.__globals__
        for name in sorted(_names(function.__code__)):
            if name in own:
                yield name, own[name], partial(own.get, name), partial(own.__setitem__, name)


def _names(code: CodeType) -> set[str]:
    """Return the names that a function and the functions within it read or write."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return {*code.co_names}.union(*map(_names, inner))


def _is_own(kind: type) -> bool:
    """Return whether a class is the consumer's own and not from a package."""
    if kind in _NAMESPACES:
        return True
    if kind.__module__ == "builtins":
        return False
    module = sys.modules.get(kind.__module__)
    # a job file runs under a module name of its own
    return module is None or kind.__module__ == "__main__" or _is_file_of_own(getattr(module, "__file__", None))


def _is_file_of_own(path: str | None) -> bool:
    return path is not None and is_consumers(path) and _PACKAGES not in path
