"""Random models that write to their own tensors in forward: a job hands on what plain torch would, or is refused.

What is written to is a parameter of the optimizer, a frozen one, one in no group, one with two names, a buffer, or a
counter; also in a part that is held under two names. How is any of the ways that torch has.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from pol.capture.author.spec import Batch, JobSpec
from pol.capture.build import build
from pol.errors import JobError
from tests.unit.pol.capture.test_kept import by_hand, trained

WIDTH, ROWS, BATCH, STEPS = 4, 32, 8, 3
_NUMBERS = np.random.default_rng(3)
DATA = {
    "x": _NUMBERS.standard_normal((ROWS, WIDTH)).astype(np.float32),
    "y": _NUMBERS.integers(0, 3, ROWS),
}
Write = Callable[[nn.Module, str, Tensor], None]
"""Puts a value into what a module has under a name."""


def _tensor(part: nn.Module, name: str) -> Tensor:
    found: Tensor = getattr(part, name)
    return found


def _assign_data(part: nn.Module, name: str, value: Tensor) -> None:
    _tensor(part, name).data = value


def _assign(part: nn.Module, name: str, value: Tensor) -> None:
    if name in part._parameters:
        asks = _tensor(part, name).requires_grad
        setattr(part, name, nn.Parameter(value, requires_grad=asks))
    else:
        setattr(part, name, value)


def _register(part: nn.Module, name: str, value: Tensor) -> None:
    if name in part._buffers:
        part.register_buffer(name, value)
    else:
        part.register_parameter(name, nn.Parameter(value, requires_grad=False))


def _in_place(part: nn.Module, name: str, value: Tensor) -> None:
    own = _tensor(part, name)
    own += value - own


def _by_foreach(part: nn.Module, name: str, value: Tensor) -> None:
    torch._foreach_copy_([_tensor(part, name)], [value])


def _by_out(part: nn.Module, name: str, value: Tensor) -> None:
    torch.mul(value, 1.0, out=_tensor(part, name))


def _by_rows(part: nn.Module, name: str, value: Tensor) -> None:
    own = _tensor(part, name)
    for at in range(len(own)):
        own[at] = value[at]


def _by_detached(part: nn.Module, name: str, value: Tensor) -> None:
    _tensor(part, name).detach().copy_(value)


def _by_index(part: nn.Module, name: str, value: Tensor) -> None:
    _tensor(part, name).index_copy_(0, torch.arange(WIDTH), value)


def _copy(part: nn.Module, name: str, value: Tensor) -> None:
    _tensor(part, name).copy_(value)


def _copy_data(part: nn.Module, name: str, value: Tensor) -> None:
    _tensor(part, name).data.copy_(value)


def _multiply_data(part: nn.Module, name: str, value: Tensor) -> None:
    _tensor(part, name).data.mul_(0).add_(value)


def _lerp(part: nn.Module, name: str, value: Tensor) -> None:
    _tensor(part, name).lerp_(value, 1.0)


def _by_view(part: nn.Module, name: str, value: Tensor) -> None:
    _tensor(part, name).view(2, -1).copy_(value.view(2, -1))


def _masked(part: nn.Module, name: str, value: Tensor) -> None:
    _tensor(part, name).masked_fill_(value > -9, 0).add_(value)


WRITES: Mapping[str, Write] = {
    ".data =": _assign_data,
    "self.x =": _assign,
    "register": _register,
    "+=": _in_place,
    "copy_": _copy,
    ".data.copy_": _copy_data,
    ".data.mul_.add_": _multiply_data,
    "lerp_": _lerp,
    "view": _by_view,
    "masked": _masked,
    "foreach": _by_foreach,
    "out=": _by_out,
    "rows": _by_rows,
    "detach": _by_detached,
    "index_copy_": _by_index,
}


class Part(nn.Module):
    """Something of every kind."""

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__()

        def drawn() -> Tensor:
            return torch.from_numpy(random.uniform(-1, 1, WIDTH).astype(np.float32))

        self.moved, self.tied = nn.Parameter(drawn()), nn.Parameter(drawn())
        self.again = self.tied
        self.frozen = nn.Parameter(drawn(), requires_grad=False)
        self.loose = nn.Parameter(drawn())
        self.register_buffer("kept", drawn())
        self.register_buffer("passing", drawn(), persistent=False)
        self.register_buffer("counter", torch.zeros(WIDTH, dtype=torch.int64))


NAMES = ("moved", "tied", "again", "frozen", "loose", "kept", "passing")


class Model(nn.Module):
    """Writes as it was drawn, and computes with everything before and after."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        random = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.one, self.two = Part(random), Part(random)
        self.other = self.one
        self.score = nn.Linear(WIDTH, 3)
        parts = ("one", "two", "other")
        self.plan = [
            tuple(map(str, (random.choice(parts), random.choice(NAMES), random.choice(list(WRITES)))))
            for _ in range(random.integers(1, 4))
        ]
        self.sources = [(str(random.choice(parts)), str(random.choice(NAMES))) for _ in self.plan]
        self.counts = bool(random.random() < 0.1)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            for (at, name, how), source in zip(self.plan, self.sources, strict=True):
                part = getattr(self, at)
                other = getattr(getattr(self, source[0]), source[1])
                value = 0.6 * getattr(part, name) + 0.3 * other + 0.1 * x.mean(0)
                WRITES[how](part, name, value.detach().clone())
            if self.counts:
                self.two.get_buffer("counter").add_(1)
        for part in (self.one, self.two):
            for name in NAMES:
                x = x + 0.3 * torch.tanh(getattr(part, name) * x)
            x = x * (1 + 0.01 * part.get_buffer("counter"))
        found: Tensor = self.score(x)
        return found


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


def _spec(seed: int) -> JobSpec:
    model = Model(seed)
    moved = [p for name, p in model.named_parameters() if name.split(".")[-1] not in ("loose", "frozen")]
    return JobSpec(
        name="writes",
        model=model,
        loss=_loss,
        train=DATA,
        holdout=DATA,
        batch=BATCH,
        steps=STEPS,
        optimizer=torch.optim.SGD(moved, 0.1, momentum=0.5),
        precision=22,
        weights="keep",
        accumulate=1 + seed % 2,
    )


def _differences(seed: int, folder: Path) -> list[str]:
    """Return the tensors in which a job that was built ends otherwise than the loop of torch."""
    losses, state = trained(folder, STEPS)
    expected, model = by_hand(_spec(seed), folder, STEPS)
    found = [] if np.allclose(losses, expected, rtol=1e-3, atol=1e-4) else ["loss"]
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not np.allclose(state[name], tensor.detach().numpy(), rtol=2e-3, atol=2e-4):
            found.append(name)
    return found


def _holds(seed: int) -> None:
    """Build without the check and compare; where something differs, the check has to refuse it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        try:
            build(_spec(seed), folder, check=False)
        except JobError as error:
            event(f"refused: {str(error)[:60]}")
            return
        try:
            different = _differences(seed, folder)
        except RuntimeError:
            event("plain torch fails")
            return
        if not different:
            event("agrees")
            # what agrees is not refused by the check
            build(_spec(seed), folder)
            return
        event("found by the check")
        with pytest.raises(JobError):
            build(_spec(seed), folder)


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_what_forward_writes_is_handed_on_or_refused(seed: int) -> None:
    _holds(seed)


@pytest.mark.nightly
@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_what_forward_writes_is_handed_on_or_refused_at_length(seed: int) -> None:
    _holds(seed)
