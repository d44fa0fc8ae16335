"""The loss and the metric that job files take, where outputs have their classes in one dimension or another."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy as plain

from pol.tracing.spec import accuracy, cross_entropy

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
        with pytest.raises(ValueError, match="second dimension or the last one"):
            measure(Given(torch.zeros(ROWS, CLASSES, CLASSES)), batch)


def test_torch_says_what_fits_nothing() -> None:
    batch = {"x": torch.zeros(1), "y": torch.zeros(ROWS, 7, dtype=torch.int64)}
    with pytest.raises(RuntimeError, match="target size"):
        cross_entropy()(Given(torch.zeros(ROWS, LENGTH, CLASSES)), batch)
