"""Fine-tuning of a model of Hugging Face from files alone: built, trained, and its result taken up again with LoRA."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pol.job.load import load_job
from tests.unit.assay.support import Ran, assay

CONFIG: dict[str, Any] = {
    "model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 60, "n_positions": 16,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "text.txt").write_text("to train, to check, to pay. " * 40)
    return tmp_path


def _run(*arguments: object) -> Ran:
    return assay("job", *arguments)


def _built(files: Path) -> Ran:
    given = ["--hf", files, "--data", files / "text.txt", "--length", 8]
    return _run("build", *given, "-o", files / "out")


def test_from_a_configuration_to_a_result_and_on(files: Path) -> None:
    given = ["--hf", files, "--data", files / "text.txt", "--length", 8, "--steps", 4, "--batch", 2]
    first, second = files / "first", files / "second"
    built = _run("build", *given, "-o", first)
    assert built.code == 0, built.err
    assert "different characters of text.txt" in built.err
    assert _run("run", first).code == 0
    weights = first / "run" / "model.safetensors"
    tuned = _run("build", *given, "--lora", 2, "--weights", weights, "-o", second)
    assert tuned.code == 0, tuned.err
    job = load_job(second).job
    assert len(job.updated) == 2
    # a matrix on either side of what the weights make
    assert {spec.shape for spec in job.updated} == {(2, 8), (24, 2)}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"auto_map": {"AutoConfig": "theirs.Config"}}, "code of its own"),
        ({"model_type": "nobody-knows"}, "refuses it"),
        ({"model_type": None}, "names no model_type"),
        ({"vocab_size": 3}, "different tokens"),
        ({"n_positions": 4}, "more than the model's 4"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(
    files: Path, changed: dict[str, Any], reason: str
) -> None:
    (files / "config.json").write_text(json.dumps({**CONFIG, **changed}))
    done = _built(files)
    assert reason in done.refusal


def test_weights_of_another_model_are_refused(files: Path) -> None:
    path = files / "model.safetensors"
    for tensors, reason in (
        ({"wte.weight": np.zeros((3, 8), np.float32)}, "is [3, 8] in model.safetensors"),
        ({"wte.weight": np.zeros((60, 8), np.float32)}, "lacks transformer."),
    ):
        save_file(tensors, str(path))
        done = _built(files)
        assert reason in done.refusal


def test_options_belong_together(files: Path) -> None:
    for arguments, reason in (
        (["--hf", files], "no text"),
        ([], "neither is given"),
        (["job.py", "--hf", files], "both are given"),
        (["job.py", "--lora", 4], "belongs to --hf"),
        (["--hf", files, "--data", "x", "--steps", 1, "--epochs", 1], "both --steps and --epochs"),
    ):
        done = _run("build", *arguments, "-o", files / "out")
        assert reason in done.refusal
