"""Refusal of models that depend on Python values of earlier calls. A step is captured only once, so such values would
never change in a job.

Plain values that the model and the losses hold (:mod:`pol.capture.idioms.held`), and the random generators of Python
and NumPy, are compared before and after a capture. If a value has changed, the function is captured twice in a row, and
once more with the numbers that the values would have at the end of the job. If one of these programs differs, the step
depends on the value.
"""

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from pol.capture.idioms.held import Held, HeldValues
from pol.capture.reports.notes import warn
from pol.capture.reports.origin import CallSite, is_consumers, place_of_line
from pol.errors import JobError
from pol.job.program import Program, program_json

_Attribute = tuple[str, str]
"""Names of a module and of one of its attributes."""


class Remembered:
    """Values that a model and its losses hold in Python, and the states of the global random generators."""

    def __init__(self, model: nn.Module, losses: Iterable[object] = ()) -> None:
        self._model = model
        self._roots = (*losses, model)
        self._held = HeldValues(self._roots)
        self._tensors = _tensors(model)
        self._all = _attributes(model, object)
        self._generators = {library: state() for library, state in _GENERATORS.items()}
        self.is_changed = False

    def check(self, capture: Callable[[], Program], steps: int = 1) -> None:
        """Refuse a model whose step depends on earlier calls.

        ``steps`` is the number of steps of the job. ``capture`` captures a step again.

        Raises JobError, which names the value and the line that changes it.
        """
        for library, state in _GENERATORS.items():
            if state() != self._generators[library]:
                raise _draws_in_python(library, state, capture)
        changed = self._changed()
        for one in changed:
            if one.is_generator:
                raise _draws_in_python(f"{one.name}, a random generator,", one.read, capture)
        self.is_changed = bool(changed)
        if not changed and not _changed_tensors(self._tensors, _tensors(self._model)):
            return
        first = program_json(capture())
        if program_json(capture()) != first:
            raise _refused(changed, capture)
        with _later(changed, steps) as is_later:
            if not is_later:
                return
            try:
                other = program_json(capture())
            except JobError as error:
                names = ", ".join(sorted({one.name for one in changed}))
                warn(f"a job repeats its first step; with the value of {names} at the job's end, a step fails: {error}")
                return
        if other != first:
            raise _refused(changed, capture)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Restore attributes of modules that the capture replaced by its own tensors, which have no values."""
        for at in _changed_tensors(self._tensors, _tensors(self._model)):
            name, attribute = at
            attributes = self._model.get_submodule(name).__dict__
            if at in self._all:
                attributes[attribute] = self._all[at]
            else:
                del attributes[attribute]

    def _changed(self) -> list[Held]:
        """Return the held values that have changed or are new, each as it was before the capture."""
        before, after = self._held.values, HeldValues(self._roots).values
        return [
            before.get(at, replace(now, value=None))
            for at, now in after.items()
            # a list, such as a log, may grow without counting as changed
            if not (_is_same(before[at].value, now.value) if at in before else now.is_item)
        ]


def _draws_in_python(what: str, state: Callable[[], object], capture: Callable[[], Program]) -> JobError:
    place = _line_that_changes(state, capture)
    reason = f"{what} draws numbers there only once, when the job is built, not in each step"
    return JobError(str(place), reason, "draw them by torch.rand, torch.randint or torch.randn")


def _refused(changed: Sequence[Held], capture: Callable[[], Program]) -> JobError:
    reason = "a step depends on a Python value of an earlier step, but Python runs only once, when the job is built"
    remedy = "keep it in a buffer of the model, self.register_buffer(name, torch.tensor(0.0)), and change the buffer"
    if not changed:
        return JobError("model", reason, remedy)
    place = _line_that_changes(changed[0].read, capture)
    return JobError(str(place), f"{reason}: {changed[0].name}", remedy)


@contextmanager
def _later(changed: Sequence[Held], steps: int) -> Iterator[bool]:
    """Set changed numbers, within this context, to the values that they would have at the end of the job.

    Each number is changed ``steps`` more times by the amount of its first change. Yield whether any of the changed
    values is a number.
    """
    numbers: list[tuple[Callable[[object], None], float, float]] = []
    for one in changed:
        was, now = one.value, one.read()
        is_number = type(now) in (int, float) and type(was) is type(now)
        if one.write is not None and is_number:
            assert isinstance(was, int | float)
            assert isinstance(now, int | float)
            numbers.append((one.write, was, now))
    try:
        for write, was, now in numbers:
            write(now + (now - was) * steps)
        yield bool(numbers)
    finally:
        for write, _, now in numbers:
            write(now)


def _tensors(model: nn.Module) -> dict[_Attribute, object]:
    return _attributes(model, torch.Tensor)


def _attributes(model: nn.Module, kind: type) -> dict[_Attribute, object]:
    return {
        (name, attribute): value
        for name, module in model.named_modules()
        for attribute, value in module.__dict__.items()
        if isinstance(value, kind)
    }


def _changed_tensors(before: Mapping[_Attribute, object], after: Mapping[_Attribute, object]) -> list[_Attribute]:
    return [at for at, value in after.items() if before.get(at) is not value]


def _is_same(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def _of_numpy() -> object:
    state: Any = np.random.get_state()  # noqa: NPY002 - the generator of the consumer's code
    return state[0], state[1].tobytes(), *state[2:]


_GENERATORS: Mapping[str, Callable[[], object]] = {
    "Python's random": random.getstate,
    "NumPy's random": _of_numpy,
}


def _line_that_changes(value: Callable[[], object], run: Callable[[], object]) -> CallSite:
    """Call ``run``, and return the consumer's line that changes the result of ``value()``."""
    before, last = value(), dict[FrameType, int]()
    places: list[CallSite] = []

    def look(frame: FrameType, event: str, _: Any) -> Any:
        if places:
            return None
        if value() != before:
            # a value that differs at the start of a call was changed by the calling line
            places.append(place_of_line(frame.f_back) if event == "call" else place_of_line(frame, last[frame]))
            return None
        last[frame] = frame.f_lineno
        return look if is_consumers(frame.f_code.co_filename) else None

    tracer = sys.gettrace()
    sys.settrace(look)
    try:
        run()
    except JobError:
        pass
    finally:
        sys.settrace(tracer)
    return places[0] if places else CallSite()
