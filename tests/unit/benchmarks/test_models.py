"""The table of models: a tenth of its rows train as plain torch does, and one that cannot says why."""

import re

import pytest

from benchmarks import models
from benchmarks.catalogue import CATALOGUE
from benchmarks.catalogue.rows import VECTORS, job, linear
from benchmarks.models_page import PAGE

ROWS = (
    "weight_norm",
    "BatchNorm2d, conv net",
    "EmbeddingBag",
    "Conv2d, stride, dilation, groups",
    "LSTM",
    "attention, dropout",
    "gather, several a row",
    "sort",
    "activation checkpointing",
    "double backward",
    "autocast in forward",
    "label smoothing",
    "assay.AdamW, clip_norm",
    "ema",
    "optim.RMSprop",
    "parameter groups",
    "update_rule, LAMB",
    "data: .npz",
    "data: Parquet",
    "torchvision ViT",
    "PEFT: PiSSA",
    "focal loss, alpha of a class",
    "weights of rows",
    "momentum network, .data =",
    "gradient reversal",
    "graph by a fixed sparse matrix",
    "squeeze and excitation",
    "no decay on biases, warm-up, clipping",
)
"""A tenth of the table, of every kind that a set-up can run, and small; all of the table is tried at night."""


@pytest.mark.parametrize("name", ROWS)
# of transformers and its like, about themselves
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_a_row_trains_as_plain_torch_does(name: str) -> None:
    found = models.outcome(name)
    assert not found.error
    assert found.nodes > 20
    assert found.difference < models.TOLERANCE


def test_a_row_in_which_nothing_is_trained_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = job(linear, VECTORS, lambda model, batch: 0.0 * model(batch["x"]).sum())
    monkeypatch.setattr(models, "CATALOGUE", {"nothing": made})
    assert "change nothing" in models.outcome("nothing").error


def test_the_page_has_each_row_of_the_catalogue_and_counts_them() -> None:
    page = PAGE.read_text()
    train, _, others = page.partition("## What the others need")
    lists = re.findall(r"^- \*\*.+?\*\* \([^)]*\): ((?:.|\n  )+)\.$", train, re.MULTILINE)
    fine = [name for text in lists for name in " ".join(text.split()).split("; ")]
    refused = re.findall(r"^- \*\*(.+?)\*\*:", others, re.MULTILINE)
    assert sorted([*fine, *refused]) == sorted(CATALOGUE)
    assert fine == [name for name in CATALOGUE if name in fine]
    assert f"**{len(fine)} of {len(CATALOGUE)} rows**" in page
    assert len(fine) / len(CATALOGUE) >= 0.95
    index = (PAGE.parent / "index.md").read_text()
    assert f"[{len(fine)} of {len(CATALOGUE)} rows tried](models.md)" in index


def test_the_list_is_long_and_a_row_that_fails_says_why() -> None:
    assert len(CATALOGUE) >= 220
    assert len(ROWS) >= len(CATALOGUE) / 10
    found = models.run(["if on a tensor's value"])
    (row,) = found.rows
    assert row.columns["ok"] == 0
    assert "control flow" in str(row.details["error"])
    assert "0 of 1 OK (0%)" in found.notes
