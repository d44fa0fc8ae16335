"""What a model keeps in Python from one call to the next: a step is traced once, and would have it as it was then.

Plain values that the model and the losses hold (:mod:`pol.capture.idioms.held`), and the generators of Python and
NumPy, are
looked at before and after a trace. Where one has changed, the function is traced again, and once more with what a
number would be at the end of the job if it went on changing so: if a program is another one, the step depends on it.
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
"""Name of a module, and of what it has."""


class Remembered:
    """What a model and the losses hold in Python, and the states of the generators that all code shares."""

    def __init__(self, model: nn.Module, losses: Iterable[object] = ()) -> None:
        self._model, self._roots = model, (*losses, model)
        self._held = HeldValues(self._roots)
        self._tensors, self._all = _tensors(model), _attributes(model, object)
        self._drawn = {library: state() for library, state in _GENERATORS.items()}
        self.is_changed = False

    def check(self, trace: Callable[[], Program], steps: int = 1) -> None:
        """Refuse a model whose ``steps`` are others from call to call; ``trace`` traces one again.

        Raises JobError, which names what it is and the line.
        """
        for library, state in _GENERATORS.items():
            if state() != self._drawn[library]:
                raise _drawn_there(library, state, trace)
        changed = self._changed()
        for one in changed:
            if one.is_generator:
                raise _drawn_there(f"{one.name}, a generator of random numbers,", one.read, trace)
        self.is_changed = bool(changed)
        if not changed and not _changed_tensors(self._tensors, _tensors(self._model)):
            return
        first = program_json(trace())
        if program_json(trace()) != first:
            raise _refused(changed, trace)
        with _later(changed, steps) as is_later:
            if not is_later:
                return
            try:
                other = program_json(trace())
            except JobError as error:
                names = ", ".join(sorted({one.name for one in changed}))
                warn(f"a job repeats its first step, and with {names} as it is at the end a step fails: {error}")
                return
        if other != first:
            raise _refused(changed, trace)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Let the modules have what they had in the places of tensors of a trace, which have no values."""
        for at in _changed_tensors(self._tensors, _tensors(self._model)):
            name, attribute = at
            attributes = self._model.get_submodule(name).__dict__
            if at in self._all:
                attributes[attribute] = self._all[at]
            else:
                del attributes[attribute]

    def _changed(self) -> list[Held]:
        """Return what is held with another value than now, or was not there, as it was."""
        before, after = self._held.values, HeldValues(self._roots).values
        return [
            before.get(at, replace(now, value=None))
            for at, now in after.items()
            # a list may only grow, as a log does
            if not (_is_same(before[at].value, now.value) if at in before else now.is_item)
        ]


def _drawn_there(what: str, state: Callable[[], object], trace: Callable[[], Program]) -> JobError:
    place = _line_that_changes(state, trace)
    reason = f"{what} draws there, once and for good, when the job is built"
    return JobError(str(place), reason, "write it with torch.rand, randint or randn")


def _refused(changed: Sequence[Held], trace: Callable[[], Program]) -> JobError:
    reason = "a step depends on what an earlier one left in Python, which runs once, when the job is built"
    remedy = "keep it in a buffer of the model, self.register_buffer(name, torch.tensor(0.0)), and change that"
    if not changed:
        return JobError("model", reason, remedy)
    place = _line_that_changes(changed[0].read, trace)
    return JobError(str(place), f"{reason}: {changed[0].name}", remedy)


@contextmanager
def _later(changed: Sequence[Held], steps: int) -> Iterator[bool]:
    """Let numbers be what they are after so many steps, if they go on as in one; give back whether any is another."""
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
