"""Fine-tuning of a model of Hugging Face from files alone: built, trained, and its result taken up again with LoRA."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_model

from pol.capture.author.hugging_face import FineTuning, fine_tuning
from pol.capture.build import build_job
from pol.capture.loading import load_result
from pol.errors import JobError
from pol.job.load import load_job
from pol.local.run import run_locally
from tests.unit.assay.support import Ran, assay

CONFIG: dict[str, Any] = {
    "model_type": "gpt2",
    "n_layer": 1,
    "n_embd": 8,
    "n_head": 2,
    "vocab_size": 60,
    "n_positions": 16,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


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
        ({"auto_map": {"AutoConfig": "theirs.Config"}}, "needs its own code"),
        ({"model_type": "nobody-knows"}, "does not know the model_type 'nobody-knows'"),
        ({"model_type": "vit"}, "vit is not a causal language model"),
        ({"model_type": "bert"}, "the model sees the later tokens"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantized"),
        ({"n_embd": "wide"}, "'n_embd' expected int"),
        ({"n_embd": 0, "n_head": 0}, "ZeroDivisionError"),
        ({"vocab_size": 1}, "the model's vocab_size is 1"),
        ({"model_type": None}, "has no model_type"),
        ({"vocab_size": 3}, "different tokens"),
        ({"n_positions": 4}, "more than the 4 tokens that the model can read at once"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(files: Path, changed: dict[str, Any], reason: str) -> None:
    (files / "config.json").write_text(json.dumps({**CONFIG, **changed}))
    done = _built(files)
    assert reason in done.refusal


def test_weights_of_another_model_are_refused(files: Path) -> None:
    path = files / "model.safetensors"
    for tensors, reason in (
        ({"wte.weight": np.zeros((3, 8), np.float32)}, "has the shape [3, 8] in model.safetensors"),
        ({"wte.weight": np.zeros((60, 8), np.float32)}, "lacks transformer."),
    ):
        save_file(tensors, str(path))
        done = _built(files)
        assert reason in done.refusal


def _saved(folder: Path, **options: Any) -> Any:
    """Save a model whose weights are larger than drawn ones, so that it cannot be taken for another one."""
    from transformers import GPT2Config, GPT2LMHeadModel

    kept = {name: value for name, value in {**CONFIG, **options}.items() if name != "model_type"}
    model = GPT2LMHeadModel(GPT2Config(**kept))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    model.save_pretrained(folder, max_shard_size="2KB")
    return model


def test_weights_in_parts_are_those_of_the_model(files: Path) -> None:
    model = _saved(files)
    assert not (files / "model.safetensors").exists()
    wanted = FineTuning(model=files, text=files / "text.txt", length=8, batch=2)
    said: list[str] = []
    found = fine_tuning(wanted, said.append).model.state_dict()
    assert any("model.safetensors.index.json" in text for text in said)
    assert all(torch.equal(value, found[name]) for name, value in model.state_dict().items())
    (files / "model-00001-of-00003.safetensors").unlink(missing_ok=True)
    (files / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../b"}}')
    assert "does not list files of its own folder" in _built(files).refusal


def test_weights_keep_their_bits_whatever_the_configuration_says_of_types(files: Path) -> None:
    model = _saved(files)
    (files / "config.json").write_text(json.dumps({**CONFIG, "dtype": "bfloat16"}))
    wanted = FineTuning(model=files, text=files / "text.txt", length=8, batch=2)
    found = fine_tuning(wanted).model.state_dict()
    assert all(torch.equal(value, found[name]) for name, value in model.state_dict().items())


def test_pickled_weights_are_not_passed_over(files: Path) -> None:
    (files / "pytorch_model.bin").write_bytes(b"PK")
    assert "reading it could run code; save the model with" in _built(files).refusal


def test_what_the_weights_lack_is_not_drawn_and_what_they_have_more_is_told(files: Path) -> None:
    model = _saved(files, n_layer=2)
    file = files / "all.safetensors"
    save_model(model, str(file))
    wanted = FineTuning(model=files, text=files / "text.txt", length=8, batch=2, weights=file)
    (files / "config.json").write_text(json.dumps(CONFIG))
    said: list[str] = []
    fine_tuning(wanted, said.append)
    assert any(t.startswith("12 tensors of all.safetensors are not in the model") for t in said), said
    # nothing is tied here, and the file has what was tied once
    (files / "config.json").write_text(json.dumps({**CONFIG, "tie_word_embeddings": False}))
    with pytest.raises(JobError, match=r"lacks transformer\.wte\.weight"):
        fine_tuning(wanted)


def test_a_tokenizer_that_is_not_read_is_not_passed_over(files: Path) -> None:
    (files / "vocab.json").write_text("{}")
    assert "has vocab.json but no tokenizer.json" in _built(files).refusal


def test_experts_are_trained(files: Path) -> None:
    config = {
        "model_type": "mixtral",
        "vocab_size": 60,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "num_local_experts": 3,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 16,
    }
    (files / "config.json").write_text(json.dumps(config))
    done = _built(files)
    assert done.code == 0, done.err


def test_any_name_of_a_text_will_do(files: Path) -> None:
    (files / "text.txt").rename(files / "Zoë's ☃.txt")
    given = ["--hf", files, "--data", files / "Zoë's ☃.txt", "--length", 8, "-o", files / "out"]
    done = _run("build", *given)
    assert done.code == 0, done.err


def test_a_result_goes_into_the_model_that_the_options_make(files: Path) -> None:
    wanted = FineTuning(model=files, text=files / "text.txt", length=8, batch=2, steps=2, rank=2)
    build_job(fine_tuning(wanted), files / "out")
    done = run_locally(files / "out", out=files / "run")
    model = load_result(fine_tuning(replace(wanted, seed=1)).model, files / "run")
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(parameter.detach(), done.state[name])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"length": 1}, "is too short: a token is predicted from the tokens before it"),
        ({"rate": -1.0}, "is not a learning rate"),
        ({"rate": math.nan}, "is not a learning rate"),
        ({"rank": 0}, "is not a rank"),
    ],
)
def test_numbers_that_cannot_be_are_refused(files: Path, changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(JobError, match=reason):
        fine_tuning(replace(FineTuning(model=files, text=files / "text.txt"), **changed))


def test_options_belong_together(files: Path) -> None:
    for arguments, reason in (
        (["--hf", files], "needs a text"),
        ([], "neither is given"),
        (["job.py", "--hf", files], "both are given"),
        (["job.py", "--lora", 4], "works only with --hf"),
        (["--hf", files, "--data", "x", "--steps", 1, "--epochs", 1], "both --steps and --epochs"),
    ):
        done = _run("build", *arguments, "-o", files / "out")
        assert reason in done.refusal
