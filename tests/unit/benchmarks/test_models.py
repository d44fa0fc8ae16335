"""The table of models: rows of several kinds train as plain torch does, and one that cannot says why."""

import pytest

from benchmarks import models
from benchmarks.catalogue import CATALOGUE

ROWS = (
    "BatchNorm2d, conv net",
    "attention, dropout",
    "torchvision ConvNeXt",
    "transformers GPT-2, mask",
    "PEFT: LoRA on GPT-2",
)


@pytest.mark.parametrize("name", ROWS)
# of transformers and its like, about themselves
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_a_row_trains_as_plain_torch_does(name: str) -> None:
    found = models.outcome(name)
    assert not found.error
    assert found.nodes > 50
    assert found.difference < models.TOLERANCE


def test_the_list_is_long_and_a_row_that_fails_says_why() -> None:
    assert len(CATALOGUE) >= 80
    found = models.run(["if on a tensor's value"])
    (row,) = found.rows
    assert row.columns["ok"] == 0
    assert "control flow" in str(row.details["error"])
    assert "0 of 1 OK (0%)" in found.notes
