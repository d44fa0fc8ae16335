"""A step that depends on what earlier ones have left in Python is refused, wherever it was left."""

import itertools
import os
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pol.capture.author.spec import Batch, Measure
from pol.capture.build import build
from pol.capture.idioms.held import HeldValues
from pol.errors import JobError
from tests.unit.pol.capture.test_kept import STEPS, classes, spec_of

_calls = 0


def _of_a_global(model: nn.Module, batch: Batch) -> torch.Tensor:
    global _calls  # noqa: PLW0603 - as people write it
    _calls += 1
    return classes(model, batch) * 0.9**_calls


def _of_a_closure() -> Measure:
    state = {"calls": 0}

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        state["calls"] += 1
        return classes(model, batch) * (1 + 0.1 * state["calls"])

    return loss


def _of_an_attribute() -> Measure:
    options = SimpleNamespace(beta=0.0)

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        options.beta = min(1.0, options.beta + 0.1)
        squares = torch.stack([p.square().sum() for p in model.parameters()])
        return classes(model, batch) + squares.sum() * float(options.beta)

    return loss


def _of_defaults(model: nn.Module, batch: Batch, seen: list[int] = [0]) -> torch.Tensor:  # noqa: B006
    seen[0] += 1
    return classes(model, batch) * seen[0]


class _Warms:
    """A loss that is another one after some steps."""

    calls = 0

    def __init__(self, after: int) -> None:
        self._after = after

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        type(self).calls += model.training
        loss = classes(model, batch)
        return loss * 3 if self.calls > self._after else loss


def _by_turns(which: list[bool], model: nn.Module, batch: Batch) -> torch.Tensor:
    which[0] = not which[0]
    return classes(model, batch) * (2.0 if which[0] else 1.0)


def _by_iterator() -> Measure:
    weights = (0.9**n for n in itertools.count())
    return lambda model, batch: classes(model, batch) * next(weights)


def _by_environment(model: nn.Module, batch: Batch) -> torch.Tensor:
    os.environ["ASSAY_TEST_CALLS"] = calls = str(int(os.environ.get("ASSAY_TEST_CALLS", "0")) + 1)
    return classes(model, batch) * int(calls)


def _by_count() -> Measure:
    numbers = itertools.count(1)
    return lambda model, batch: classes(model, batch) / next(numbers)


def _freezing() -> Measure:
    calls = [0]

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        calls[0] += model.training
        if calls[0] == STEPS:
            model.get_submodule("0").requires_grad_(False)
        return classes(model, batch)

    return loss


def _drawing(draw: Callable[[], float]) -> Measure:
    return lambda model, batch: classes(model, batch) * (0.5 + draw())


_LEFT = "a step depends on a Python value of an earlier step.*: "
_AGAIN = r"loss: is .* if a step of plain torch is repeated.*register_buffer"
_DRAWS = "a random generator, draws numbers there only once"


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (_of_a_global, f"{_LEFT}_calls"),
        (_of_a_closure(), rf"{_LEFT}state\['calls'\]"),
        (_of_an_attribute(), f"{_LEFT}beta"),
        (_of_defaults, rf"{_LEFT}defaults of _of_defaults\[0\]\[0\]"),
        (_Warms(1_000), f"{_LEFT}_Warms.calls"),
        (partial(_by_turns, [True]), _LEFT),
        (_by_count(), f"{_LEFT}numbers"),
        (_by_iterator(), _AGAIN),
        (_by_environment, _AGAIN),
        (_freezing(), r"model\.0\.\w+: has another gradient if a step of plain torch is repeated"),
        (_drawing(random.Random(0).random), _DRAWS),
        (_drawing(np.random.default_rng(0).random), _DRAWS),
    ],
)
def test_what_earlier_steps_left_in_python(loss: Any, words: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2))
    spec = replace(spec_of(model, loss), steps=2_000 if isinstance(loss, _Warms) else STEPS)
    with pytest.raises(JobError, match=words):
        build(spec, tmp_path)


class _Logs(nn.Module):
    """Counts and keeps what is only looked at, and a table that is made once."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.calls = nn.Linear(8, 2), 0
        self.means: list[torch.Tensor] = []
        self.tables: dict[int, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls % 10 == 0:
            self.means.append(x.detach().mean())
        if x.shape[1] not in self.tables:
            self.tables[x.shape[1]] = torch.arange(x.shape[1]) / 10
        found: torch.Tensor = self.score(x + self.tables[x.shape[1]])
        return found


def test_what_is_only_counted_is_no_reason(tmp_path: Path) -> None:
    seen: list[int] = []

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        seen.append(len(seen))
        return classes(model, batch)

    told: list[str] = []
    build(spec_of(_Logs(), loss), tmp_path, told.append)
    assert not [line for line in told if "not checked" in line]


def test_a_later_step_that_fails_is_said(tmp_path: Path) -> None:
    calls = [0]

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        calls[0] += 1
        found = classes(model, batch)
        return found * found.item() if calls[0] > 1_000 else found

    told: list[str] = []
    model = nn.Linear(8, 2)
    build(replace(spec_of(model, loss), steps=2_000), tmp_path, told.append)
    (line,) = (line for line in told if line.startswith("warning: a job repeats its first step"))
    assert "with the value of calls[0] at the job's end, a step fails: model (test_held.py:" in line
    # what was tried is put back
    assert calls[0] < 1_000


def test_a_step_that_was_put_in_its_place(tmp_path: Path) -> None:
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    plain = optimizer.step

    def step() -> None:
        plain()
        model.weight.data.clamp_(-0.1, 0.1)

    spec = spec_of(model, classes, optimizer)
    optimizer.step = step  # type: ignore[method-assign, assignment]
    with pytest.raises(JobError, match=r"optimizer: its step\(\) was replaced"):
        build(spec, tmp_path)
    del optimizer.step
    build(replace(spec, schedule=torch.optim.lr_scheduler.StepLR(optimizer, 2)), tmp_path)


def test_places_are_read_and_written() -> None:
    rows, inner = [1, 2], {"a": 3.0}
    held = HeldValues([SimpleNamespace(rows=rows, inner=inner)]).values.values()
    assert {one.name: one.value for one in held} == {"rows[0]": 1, "rows[1]": 2, "inner['a']": 3.0}
    for one in held:
        assert one.write is not None
        one.write(7)
        assert one.read() == 7
    assert rows == [7, 7]
    assert inner == {"a": 7}
