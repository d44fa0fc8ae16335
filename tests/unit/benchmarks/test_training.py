"""Exact training is measured beside plain training at its best; what cannot be measured here is said."""

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from benchmarks import memory, training
from benchmarks.networks import MODELS


def test_a_machine_without_a_compiler_loses_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_there(*_: object) -> None:
        raise BackendCompilerFailed(none_there, RuntimeError("there is no compiler"), None)

    monkeypatch.setattr(torch, "compile", none_there)
    monkeypatch.setattr(training, "SEGMENTS", 2)
    monkeypatch.setattr(training, "STEPS", {"digits": 1})
    monkeypatch.setattr(memory, "growth", lambda *_: 1.0)
    figures = training.run(["digits"])
    assert [note.partition(":")[0] for note in figures.notes] == ["digits, torch.compile"]
    baselines = {row.baseline for row in figures.rows if row.unit == "ms/step"}
    # none for eager itself, and eager with either optimizer
    assert len(baselines) == 3
    assert [row.case for row in figures.rows if row.unit == "MiB" and row.goal] == [
        "digits, memory, native"
    ]


def test_each_way_to_train_has_a_model_of_its_own() -> None:
    spec = MODELS["digits"](1)
    before = [weight.clone() for weight in spec.model.parameters()]
    training.eager(spec, 1)(0)
    training.eager(spec, 1, fused=True)(0)
    assert all(map(torch.equal, before, spec.model.parameters()))
