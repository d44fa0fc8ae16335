"""Layers as torch has them: a step of a job moves weights and statistics as the same step in plain torch does."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from assay import SGD, JobSpec
from pol.capture.build import build
from pol.capture.functions import JobFunctions, named
from pol.capture.graph.capture import capture_program
from pol.capture.model.weights import seeded_parameters
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE, NUMPY, Engine
from pol.job.document import BATCH_NUMBER, STEP

ROWS, CLASSES = 6, 4


class Mean(nn.Module):
    """Scores from the mean of what a recurrent layer says."""

    def __init__(self, layer: nn.RNNBase, width: int) -> None:
        super().__init__()
        self.layer, self.score = layer, nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.score(self.layer(x)[0].mean(1))
        return scores


def _convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(4, 4, 3, groups=2),
        nn.GroupNorm(2, 4),
        nn.GELU(),
        nn.ConvTranspose2d(4, 3, 2, stride=2),
        nn.InstanceNorm2d(3, affine=True),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(3 * 2 * 2, CLASSES),
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolutional": (_convolutional, (2, 8, 8)),
    "lstm": (lambda: Mean(nn.LSTM(3, 5, 2, batch_first=True, bidirectional=True), 10), (4, 3)),
    "gru": (lambda: Mean(nn.GRU(3, 5, batch_first=True), 5), (4, 3)),
    "rnn": (lambda: Mean(nn.RNN(3, 5, batch_first=True), 5), (4, 3)),
}


def _loss(model: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


def _spec(model: nn.Module, shape: tuple[int, ...]) -> JobSpec:
    random = np.random.default_rng(2)
    data = {
        "x": random.standard_normal((ROWS, *shape), np.float32),
        "y": random.integers(0, CLASSES, ROWS),
    }
    return JobSpec(
        name="layers",
        model=model,
        loss=_loss,
        train=data,
        holdout=data,
        optimizer=SGD(),
        schedule=0.5,
        steps=1,
        batch=ROWS,
        seed=3,
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_that_of_plain_torch(name: str) -> None:
    made, shape = MODELS[name]
    model = made()
    spec = _spec(model, shape)
    state = {n: p.detach().clone() for n, p in model.named_parameters()}
    state |= seeded_parameters(model, spec.seed)
    state |= {n: b.clone() for n, b in model.named_buffers()}
    functions = JobFunctions(spec, 1)
    batch = {key: torch.from_numpy(column) for key, column in spec.train.items()}
    inputs = {
        **named("global", state),
        **named("batch", batch),
        STEP: torch.tensor(0),
        BATCH_NUMBER: torch.tensor(0),
    }
    program = capture_program(functions.step, inputs)

    with torch.no_grad():
        for n, tensor in (*model.named_parameters(), *model.named_buffers()):
            tensor.copy_(state[n])
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    _loss(model.train(), batch).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    expected = {**dict(model.named_parameters()), **dict(model.named_buffers())}

    arrays = {key: tensor.numpy() for key, tensor in inputs.items()}
    for executor in (NUMPY, NATIVE):
        found = run(program, arrays, spec.seed, backend(Engine(executor)))
        moved = {key.removeprefix("global."): v for key, v in found.items() if "global." in key}
        assert moved.keys() == {n for n in expected if not n.endswith("num_batches_tracked")}
        for n, array in moved.items():
            np.testing.assert_allclose(array, expected[n].detach().numpy(), atol=2e-3, err_msg=n)
            assert not np.array_equal(array, state[n].numpy()), n


def test_dropout_between_recurrent_layers_and_of_channels_is_the_jobs() -> None:
    kept = []
    for p in (0.0, 0.5):
        layers = nn.LSTM(3, 5, 2, batch_first=True, dropout=p)
        spec = _spec(Mean(layers, 5), (4, 3))
        inputs = {
            **named("global", dict(spec.model.named_parameters())),
            **named("batch", {key: torch.from_numpy(v) for key, v in spec.train.items()}),
            STEP: torch.tensor(0),
            BATCH_NUMBER: torch.tensor(0),
        }
        program = capture_program(JobFunctions(spec, 1).step, inputs)
        kept.append([node.attrs["site"] for node in program.nodes if node.op == "uniform"])
    assert kept == [[], [0]]
    channels = nn.Sequential(nn.Conv2d(2, 3, 1), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(48, CLASSES))
    spec = _spec(channels, (2, 4, 4))
    inputs = {
        **named("global", dict(spec.model.named_parameters())),
        **named("batch", {key: torch.from_numpy(v) for key, v in spec.train.items()}),
        STEP: torch.tensor(0),
        BATCH_NUMBER: torch.tensor(0),
    }
    program = capture_program(JobFunctions(spec, 1).step, inputs)
    (drawn,) = (node.attrs["shape"] for node in program.nodes if node.op == "uniform")
    assert tuple(drawn) == (ROWS, 3, 1, 1)


def test_an_average_over_all_batches_is_refused(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=None))
    with pytest.raises(JobError, match="give it a momentum"):
        build(_spec(model, (3,)), tmp_path / "job")
