"""What a model keeps in Python from one call to the next: a step is traced once, and would have it as it was then.

Numbers that modules have as attributes, and the generators of Python and NumPy, are looked at before and after a
trace. Where one has changed, the function is traced again: if the program is another one, the step depends on it.
"""

import random
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from pol.capture.reports.origin import CallSite, is_consumers, place_of_line
from pol.errors import JobError
from pol.job.program import Program, program_json

_PLAIN = (bool, int, float, str, np.generic)
_Attribute = tuple[str, str]
"""Name of a module, and of what it has."""


class Remembered:
    """Plain attributes of a model's modules, and the states of the generators that are everybody's, at one time."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._numbers = _numbers(model)
        self._tensors, self._all = _tensors(model), _attributes(model, object)
        self._drawn = {library: state() for library, state in _GENERATORS.items()}

    def check(self, trace: Callable[[], Program]) -> None:
        """Refuse a model whose steps are others from call to call; ``trace`` traces one again.

        Raises JobError, which names what it is and the line.
        """
        for library, state in _GENERATORS.items():
            if state() != self._drawn[library]:
                place = _line_that_changes(state, trace)
                reason = f"{library} draws there, once and for good, when the job is built"
                raise JobError(str(place), reason, "write it with torch.rand, randint or randn")
        changed = _changed(self._numbers, _numbers(self._model))
        if not changed and not _changed(self._tensors, _tensors(self._model)):
            return
        first = program_json(trace())
        again = _numbers(self._model)
        if program_json(trace()) != first:
            left = _changed(again, _numbers(self._model)) or changed
            raise self._refused(left, trace)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Let the modules have what they had in the places of tensors of a trace, which have no values."""
        for at in _changed(self._tensors, _tensors(self._model)):
            name, attribute = at
            attributes = self._model.get_submodule(name).__dict__
            if at in self._all:
                attributes[attribute] = self._all[at]
            else:
                del attributes[attribute]

    def _refused(self, changed: list[_Attribute], trace: Callable[[], Program]) -> JobError:
        reason = "a step depends on what an earlier one left in Python, which runs once, when the job is built"
        remedy = "keep it in a buffer, self.register_buffer(name, torch.tensor(0.0)), and change that"
        if not changed:
            return JobError("model", reason, remedy)
        name, attribute = changed[0]
        module = self._model.get_submodule(name)
        place = _line_that_changes(lambda: getattr(module, attribute), trace)
        return JobError(str(place), f"{reason}: {attribute}", remedy)


def _numbers(model: nn.Module) -> dict[_Attribute, object]:
    return _attributes(model, _PLAIN)


def _tensors(model: nn.Module) -> dict[_Attribute, object]:
    return _attributes(model, torch.Tensor)


def _attributes(model: nn.Module, kinds: type | tuple[type, ...]) -> dict[_Attribute, object]:
    return {
        (name, attribute): value
        for name, module in model.named_modules()
        for attribute, value in module.__dict__.items()
        if isinstance(value, kinds) and attribute != "training"
    }


def _changed(before: Mapping[_Attribute, object], after: Mapping[_Attribute, object]) -> list[_Attribute]:
    return [at for at, value in after.items() if not _is_same(before.get(at), value)]


def _is_same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, _PLAIN) and isinstance(other, _PLAIN) and one == other)


def _of_numpy() -> object:
    state: Any = np.random.get_state()  # noqa: NPY002 - of whoever uses it
    return state[0], state[1].tobytes(), *state[2:]


_GENERATORS: Mapping[str, Callable[[], object]] = {
    "Python's random": random.getstate,
    "NumPy's random": _of_numpy,
}


def _line_that_changes(value: Callable[[], object], run: Callable[[], object]) -> CallSite:
    """Run something, and return the line of the consumer's that changes a value."""
    before, last = value(), dict[FrameType, int]()
    found: list[CallSite] = []

    def look(frame: FrameType, event: str, _: Any) -> Any:
        if found:
            return None
        if value() != before:
            # what a line calls begins within it
            found.append(place_of_line(frame.f_back) if event == "call" else place_of_line(frame, last[frame]))
            return None
        last[frame] = frame.f_lineno
        return look if is_consumers(frame.f_code.co_filename) else None

    traced = sys.gettrace()
    sys.settrace(look)
    try:
        run()
    except JobError:
        pass
    finally:
        sys.settrace(traced)
    return found[0] if found else CallSite()
