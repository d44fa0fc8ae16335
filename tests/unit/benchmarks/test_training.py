"""Exact training is measured beside plain training at its best; what cannot be measured here is said."""

import os
import subprocess
import sys

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from benchmarks import memory, steps, training
from benchmarks.networks import MODELS
from pol.executor.backend import computing
from pol.executor.names import NATIVE, Engine
from pol.native.library import SWITCH


def test_a_machine_without_a_compiler_loses_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_there(*_: object) -> None:
        raise BackendCompilerFailed(none_there, RuntimeError("there is no compiler"), None)

    monkeypatch.setattr(torch, "compile", none_there)
    monkeypatch.setattr(training, "SEGMENTS", 2)
    monkeypatch.setattr(training, "STEPS", {"digits": 1})
    monkeypatch.setattr(memory, "growth", lambda *_: 1.0)
    figures = training.run(["digits"])
    notes = [note.partition(":")[0] for note in figures.notes]
    assert notes[0] == "digits, torch.compile"
    assert notes[1].startswith(computing(Engine(NATIVE)).partition(":")[0])
    baselines = {row.baseline for row in figures.rows if row.unit == "ms/step"}
    # none for eager itself, and eager with either optimizer
    assert len(baselines) == 3
    assert [row.case for row in figures.rows if row.unit == "MiB" and row.goal] == ["digits, memory, native"]


def test_both_sides_are_held_to_the_instructions_that_are_named() -> None:
    """Before anything looks what the processor has, in a process of its own."""
    code = (
        "from benchmarks.instructions import hold_to; hold_to('avx2'); import torch;"
        "from pol.executor.backend import computing; from pol.executor.names import Engine;"
        "print(computing(Engine('native')), torch.backends.cpu.get_cpu_capability(), sep='; ')"
    )
    env = {name: value for name, value in os.environ.items() if name != SWITCH}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    native, plain = done.stdout.strip().split("; ")
    if native == "numpy: this processor has no avx2" or native.startswith("numpy: no native"):
        pytest.skip(native)
    assert (native, plain) == ("native avx2", "AVX2")


def test_each_way_to_train_has_a_model_of_its_own() -> None:
    spec = MODELS["digits"](1)
    before = [weight.clone() for weight in spec.model.parameters()]
    steps.eager(spec, 1)(0)
    steps.eager(spec, 1, fused=True)(0)
    assert all(map(torch.equal, before, spec.model.parameters()))
