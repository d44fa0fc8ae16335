"""Call sites in the consumer's own code, for errors that name the module and the line."""

import linecache
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.fx import Node
from torch.fx import traceback as fx_traceback
from torch.overrides import TorchFunctionMode

_OWN_FOLDER = str(Path(__file__).parents[1])
_TORCH_FOLDER = str(Path(torch.__file__).parent)
_PYTHONS_FOLDER = sysconfig.get_path("stdlib")
_LAYERS = "/torch/nn/modules/"
_CALLING = ("container.py", "module.py")
"""Files of torch's layers that only call other modules."""
_CALL = nn.Module._call_impl.__code__
_MARK = "place"
_OF_GRADIENT = re.compile(
    r"derivative for '?(?:aten::)?(\w+)'? is not implemented|output \d+ of (\w+?)(?:Backward\d*)?,"
)
_PACKAGE = re.compile(r".*/(?:site|dist)-packages/([^/]+)/")
_BACKWARD = re.compile(r"Backward\d*$")

_Line = tuple[str, int]
"""Path of a file and the number of a line."""
_names: WeakKeyDictionary[nn.Module, dict[int, str]] = WeakKeyDictionary()


class Measuring(nn.Module):
    """A module of Assay around the consumer's model; in errors, modules have their names in that model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call in the consumer's code: the innermost module, the consumer's line, and the line in a layer of torch.

    ``name`` is the module's name in ``model.named_modules()``, or None if the module is not part of the model. If the
    line is in a custom update rule, ``rule`` is the field of the job that holds this rule.
    """

    kind: str = ""
    name: str | None = None
    line: _Line | None = None
    layer: _Line | None = None
    rule: str = ""

    def __bool__(self) -> bool:
        """Return whether anything about the call is known."""
        return self != _NOWHERE

    @property
    def package(self) -> str:
        """Folder name of the installed package that contains the line; "" for a file of the consumer."""
        match = _PACKAGE.search(Path(self.line[0]).as_posix()) if self.line else None
        return match[1] if match else ""

    def __str__(self) -> str:
        """Return the call site as the field of an error."""
        parts = [self.kind] if self.kind else []
        if self.line:
            parts.append(_shown(*self.line))
        if self.layer:
            path, number = self.layer
            parts.append(f"{Path(path).name} `{linecache.getline(path, number).strip()}`")
        field = f"model.{self.name}" if self.name else "model"
        field = self.rule or field
        return f"{field} ({', '.join(parts)})" if parts else field


def _shown(path: str, number: int) -> str:
    return f"{Path(path).name}:{number} `{linecache.getline(path, number).strip()}`"


_NOWHERE = CallSite()


class CallSites(TorchFunctionMode):
    """A mode that annotates captured nodes with the call site in the consumer's code."""

    def __init__(self) -> None:
        super().__init__()
        self._gradients: dict[str, CallSite] = {}

    def place_of_gradient(self, error: BaseException) -> CallSite:
        """Return the call site of the function whose gradient torch cannot compute. The stack at the time of the error
        does not show this function.
        """
        match = _OF_GRADIENT.search(str(error))
        name = "".join(filter(str.isalnum, match[1] or match[2])).lower() if match else ""
        return self._gradients.get(name, _NOWHERE)

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call one function and record its call site."""
        place = _place(_callers(sys._getframe(1)))
        if place == _NOWHERE:
            return function(*args, **(kwargs or {}))
        with fx_traceback.annotate({_MARK: place}):
            result = function(*args, **(kwargs or {}))
        if not torch.is_grad_enabled():
            # without gradients there is no grad_fn to record, and torch refuses to read the grad_fn of a view that was
            # written to
            return result
        for part in result if isinstance(result, tuple) else (result,):
            step = part.grad_fn if isinstance(part, torch.Tensor) else None
            if step is not None:
                self._gradients[_BACKWARD.sub("", step.name()).lower()] = place
        return result


_ends: dict[int, CodeType] = {}
"""Code by its id: a look-up of code itself hashes all its instructions, for each frame of each captured function."""


def begins_with(function: Callable[..., Any]) -> None:
    """Register a function of Assay that calls the consumer's code.

    Frames outside of this function are not the consumer's.
    """
    _ends[id(function.__code__)] = function.__code__


_rules: dict[int, CodeType] = {}
"""Code by its id, as in ``_ends``."""


def calls_rules(function: Callable[..., Any]) -> None:
    """Register a function of Assay that calls update rules.

    Its local variable ``field`` names the rule and the parameter.
    """
    _rules[id(function.__code__)] = function.__code__


def place_of_function(function: object, field: str) -> CallSite:
    """Return the line that defines a function of the consumer; ``field`` is the field of the job that holds the
    function.
    """
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None and callable(function):
        code = getattr(type(function).__call__, "__code__", None)
    if not isinstance(code, CodeType) or not is_consumers(code.co_filename):
        return CallSite(rule=field)
    return CallSite(line=(code.co_filename, code.co_firstlineno), rule=field)


def place_of_node(node: Node) -> CallSite:
    """Return the call site of a captured operation.

    If the operation is part of a gradient, return the call site of the operation that is differentiated.
    """
    waiting, seen = [node], {node}
    while waiting:
        places = [place for each in waiting if (place := each.meta.get("custom", {}).get(_MARK))]
        if places:
            last: CallSite = places[-1]
            is_own = waiting == [node]
            return last if is_own else replace(last, kind=f"gradient of {last.kind or 'it'}")
        waiting = [used for each in waiting for used in each.all_input_nodes if used not in seen]
        seen.update(waiting)
    return _NOWHERE


def place_of_error(error: BaseException) -> CallSite:
    """Return the call site at which eager torch, or the capture, raised an error."""
    return _place(reversed(list(walk_tb(error.__traceback__))))


def place_of_line(frame: FrameType | None, number: int | None = None) -> CallSite:
    """Return the call site of a running frame, or of line ``number`` of that frame."""
    place = _place(_callers(frame))
    if frame is None or number is None:
        return place
    return replace(place, line=(frame.f_code.co_filename, number))


def _callers(frame: FrameType | None) -> Iterator[tuple[FrameType, None]]:
    while frame is not None and id(frame.f_code) not in _ends:
        yield frame, None
        frame = frame.f_back


def _place(frames: Iterable[tuple[FrameType, int | None]]) -> CallSite:
    """Return the call site that the frames of a stack show; the innermost frame comes first.

    Each frame has the number of its line, or None for its current line.

    This function runs for every captured function. Python computes ``f_lineno`` on each read, so it is read only if
    needed.
    """
    line = layer = None
    rule = ""
    modules: list[nn.Module] = []
    root: nn.Module | None = None
    for frame, number in frames:
        path = frame.f_code.co_filename
        if frame.f_code is _CALL:
            module = frame.f_locals["self"]
            if isinstance(module, Measuring):
                root = module.model
                break
            modules.append(module)
        elif id(frame.f_code) in _rules:
            rule = str(frame.f_locals["field"])
            break
        elif line is None and is_consumers(path):
            line = path, number or frame.f_lineno
        elif line is None and layer is None and _is_layer(path):
            layer = path, number or frame.f_lineno
    if not modules or rule:
        return CallSite(line=line, layer=layer, rule=rule)
    name = _name_in(root or modules[-1], modules[0])
    return CallSite(kind=type(modules[0]).__name__, name=name, line=line, layer=layer)


def _name_in(root: nn.Module, module: nn.Module) -> str | None:
    names = _names.get(root)
    if names is None or id(module) not in names:
        names = _names[root] = {id(part): name for name, part in root.named_modules()}
    return names.get(id(module))


@cache
def _is_layer(path: str) -> bool:
    return _LAYERS in path and not path.endswith(_CALLING)


@cache
def is_consumers(path: str) -> bool:
    """Return whether a file is part of neither Assay's capture, nor torch, nor Python itself."""
    is_pythons = path.startswith(_PYTHONS_FOLDER) and "-packages" not in path
    return not is_pythons and not path.startswith((_OWN_FOLDER, _TORCH_FOLDER, "<"))
