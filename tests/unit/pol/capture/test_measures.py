"""The loss and the metric that job files take, where outputs have their classes in one dimension or another."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy as plain

from pol.capture.author.measures import accuracy, cross_entropy
from pol.capture.author.spec import JobSpec, RowsInOrder
from pol.capture.build import build_job
from pol.errors import JobError
from pol.local.run import run_locally

ROWS, LENGTH, CLASSES = 3, 4, 5


class Given(nn.Module):
    """Returns what it was made with."""

    def __init__(self, outputs: torch.Tensor) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outputs


@pytest.mark.parametrize(
    ("outputs", "labels", "classes"),
    [
        ((ROWS, CLASSES), (ROWS,), 1),
        ((ROWS, LENGTH, CLASSES), (ROWS, LENGTH), 2),
        ((ROWS, CLASSES, LENGTH), (ROWS, LENGTH), 1),
        ((ROWS, CLASSES, LENGTH, 2), (ROWS, LENGTH, 2), 1),
    ],
)
def test_classes_are_where_the_labels_have_no_dimension(
    outputs: tuple[int, ...], labels: tuple[int, ...], classes: int
) -> None:
    torch.manual_seed(1)
    model = Given(torch.randn(outputs))
    batch = {"x": torch.zeros(1), "y": torch.randint(CLASSES, labels)}
    wanted = plain(model.outputs.movedim(classes, 1), batch["y"])
    assert torch.allclose(cross_entropy()(model, batch), wanted)
    right = (model.outputs.argmax(classes) == batch["y"]).float().mean()
    assert torch.equal(accuracy()(model, batch), right)


def test_what_may_be_either_is_refused() -> None:
    batch = {"x": torch.zeros(1), "y": torch.zeros(ROWS, CLASSES, dtype=torch.int64)}
    for measure in (cross_entropy(), accuracy()):
        with pytest.raises(ValueError, match="second dimension or the last"):
            measure(Given(torch.zeros(ROWS, CLASSES, CLASSES)), batch)


def test_torch_says_what_fits_nothing() -> None:
    batch = {"x": torch.zeros(1), "y": torch.zeros(ROWS, 7, dtype=torch.int64)}
    with pytest.raises(RuntimeError, match="target size"):
        cross_entropy()(Given(torch.zeros(ROWS, LENGTH, CLASSES)), batch)


def _given(shape: tuple[int, ...], labels: tuple[int, ...]) -> tuple[Given, dict[str, torch.Tensor]]:
    torch.manual_seed(2)
    batch = {"x": torch.zeros(1), "y": torch.randint(CLASSES, labels), "w": torch.rand(labels[:1])}
    batch["y"].view(-1)[1] = -100
    return Given(torch.randn(shape)), batch


SHAPES = [((ROWS, CLASSES), (ROWS,)), ((ROWS, LENGTH, CLASSES), (ROWS, LENGTH))]
WEIGHT = [0.5, 1.0, 2.0, 0.0, 3.0]


@pytest.mark.parametrize(("outputs", "labels"), SHAPES)
@pytest.mark.parametrize(
    "options",
    [
        {"label_smoothing": 0.05},
        {"weight": WEIGHT},
        {"weight": torch.tensor(WEIGHT)},
        {"ignore_index": 2},
        {"weight": WEIGHT, "ignore_index": 2, "label_smoothing": 0.1},
    ],
)
def test_options_are_those_of_torch(outputs: tuple[int, ...], labels: tuple[int, ...], options: dict[str, Any]) -> None:
    model, batch = _given(outputs, labels)
    batch["y"][batch["y"] < 0] = 2
    of_torch = {**options}
    if "weight" in options:
        of_torch["weight"] = torch.as_tensor(options["weight"])
    wanted = plain(model.outputs.movedim(-1, 1), batch["y"], **of_torch)
    assert torch.allclose(cross_entropy(**options)(model, batch), wanted)
    # weights of 1 change nothing
    batch["w"] = torch.ones(ROWS)
    assert torch.allclose(cross_entropy(**options, row_weight="w")(model, batch), wanted)


@pytest.mark.parametrize(("outputs", "labels"), SHAPES)
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_each_row_weighs_what_its_weight_says(
    outputs: tuple[int, ...], labels: tuple[int, ...], weight: list[float] | None
) -> None:
    model, batch = _given(outputs, labels)
    of_class = None if weight is None else torch.tensor(weight)
    each = plain(model.outputs.movedim(-1, 1), batch["y"], of_class, reduction="none")
    share = batch["w"].reshape(-1, *(1 for _ in labels[1:]))
    counted = (batch["y"] >= 0).float()
    if of_class is not None:
        counted *= of_class[batch["y"].clamp(min=0)]
    measure = cross_entropy(row_weight="w", weight=weight)
    assert torch.allclose(measure(model, batch), (share * each).sum() / counted.sum())
    if len(labels) == 2:
        # one for each label
        batch["w"] = torch.rand(labels)
        wanted = (batch["w"] * each).sum() / counted.sum()
        assert torch.allclose(measure(model, batch), wanted)


def test_weights_that_fit_nothing_are_refused() -> None:
    model, batch = _given((ROWS, CLASSES), (ROWS,))
    with pytest.raises(ValueError, match=r"w has the shape .*give one weight per row"):
        cross_entropy(row_weight="w")(model, batch | {"w": torch.rand(ROWS, 1)})
    with pytest.raises(JobError, match=r"weight: 'w' is text.*row_weight='w'"):
        cross_entropy(weight="w")  # type: ignore[arg-type]
    for smoothing in (2, -0.1, float("nan"), "0.1"):
        with pytest.raises(JobError, match=r"label_smoothing: .* is not a number from 0 to 1"):
            cross_entropy(label_smoothing=smoothing)  # type: ignore[arg-type]
    with pytest.raises(JobError, match="ignore_index: 'x' is not an integer"):
        cross_entropy(ignore_index="x")  # type: ignore[arg-type]


def test_labels_that_are_ignored_are_no_part_of_the_accuracy() -> None:
    model, batch = _given((ROWS, CLASSES), (ROWS,))
    batch["y"] = torch.tensor([int(model.outputs[0].argmax()), -100, -100])
    assert float(accuracy(ignore_index=-100)(model, batch)) == 1.0
    assert float(accuracy()(model, batch)) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "options",
    [
        {"label_smoothing": 0.05, "weight": [1.0, 4.0]},
        {"row_weight": "w", "ignore_index": -100},
    ],
)
def test_a_job_with_options_trains_as_the_loop_with_them(tmp_path: Path, options: dict[str, Any]) -> None:
    x = np.random.default_rng(0).standard_normal((16, 4)).astype("f4")
    data = {
        "x": x,
        "y": np.where(x[:, 1] > 1, -100, x[:, 0] > 0) if "ignore_index" in options else x[:, 0] > 0,
        "w": np.linspace(0, 2, 16, dtype="f4"),
    }
    data["y"] = data["y"].astype("i8")
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    loss = cross_entropy(**options)
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    spec = JobSpec(
        name="options",
        model=model,
        loss=loss,
        train=data,
        holdout=data,
        batch=16,
        steps=5,
        optimizer=optimizer,
        weights="keep",
        precision=22,
        sampling=RowsInOrder(),
        metrics={"accuracy": accuracy(ignore_index=-100)},
    )
    build_job(spec, tmp_path)
    found = run_locally(tmp_path).state
    batch = {name: torch.tensor(column) for name, column in data.items()}
    for _ in range(5):
        optimizer.zero_grad()
        loss(model, batch).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for name, tensor in model.state_dict().items():
        np.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-4, atol=1e-5)
