"""A result back in the model: bit for bit in whatever people train, or a sentence that names what differs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, load_model
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import parametrizations

from pol.capture.author.spec import SGD, Batch, JobSpec
from pol.capture.build import build
from pol.capture.loading import load_result
from pol.errors import JobError
from pol.local.run import LocalRun, run_locally
from pol.state.tensors import dump_safetensors

ROWS = 16
_NUMBERS = np.random.default_rng(1)
X = _NUMBERS.standard_normal((ROWS, 4)).astype(np.float32)
IMAGES = _NUMBERS.standard_normal((ROWS, 3, 6, 6)).astype(np.float32)
WORDS = _NUMBERS.integers(0, 20, (ROWS, 6))
Y = _NUMBERS.integers(0, 3, ROWS)


def _loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


def _next_words(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=batch["x"], labels=batch["x"]).loss
    return found


class Tied(nn.Module):
    """Weights and buffers under two names, and buffers of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.second.weight = self.first.weight
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.mean: torch.Tensor
        self.wide: torch.Tensor
        self.steps: torch.Tensor
        self.rate: torch.Tensor
        self.register_buffer("mean", torch.rand(4), persistent=False)
        self.register_buffer("same", self.mean)
        self.register_buffer("steps", torch.arange(4, dtype=torch.int32))
        self.register_buffer("mask", torch.tensor([True, True, False, True]))
        self.register_buffer("rate", torch.rand(4, dtype=torch.float64))
        self.register_buffer("wide", torch.rand(1).expand(2, 4))
        self.register_buffer("empty", torch.empty(0, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.first(x).tanh()) * self.scale * self.mask + self.mean
        found: torch.Tensor = self.last(x + self.wide.sum(0) * self.steps * self.rate.float())
        return found


def _convolutions() -> nn.Module:
    first = nn.Conv2d(3, 4, 3)
    first.weight.data = first.weight.data.contiguous(memory_format=torch.channels_last)
    return nn.Sequential(first, nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 3))


def _parametrized() -> nn.Module:
    first = parametrizations.weight_norm(nn.Linear(4, 8))
    return nn.Sequential(first, parametrizations.spectral_norm(nn.Linear(8, 3)))


def _frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    model[0].requires_grad_(False)
    return model


def _gpt2() -> Any:
    import transformers

    config = transformers.GPT2Config(
        vocab_size=20,
        n_embd=8,
        n_layer=1,
        n_head=2,
        n_positions=8,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def _llama() -> Any:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=20,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=8,
        tie_word_embeddings=True,
    )
    return transformers.LlamaForCausalLM(config)


def _t5() -> Any:
    import transformers

    config = transformers.T5Config(
        vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, dropout_rate=0.0
    )
    vars(config)["decoder_start_token_id"] = 0
    return transformers.T5ForConditionalGeneration(config)


def _adapted() -> Any:
    import peft

    config = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    return peft.get_peft_model(_gpt2(), config)


def _half() -> nn.Module:
    return _frozen().bfloat16()


def _trained(make: Callable[[], nn.Module], folder: Path) -> LocalRun:
    is_language, is_image = make in (_gpt2, _llama, _t5, _adapted), make is _convolutions
    data = {"x": WORDS if is_language else IMAGES if is_image else X}
    if not is_language:
        data["y"] = Y
    loss = _next_words if is_language else _loss
    spec = JobSpec(
        name="back",
        model=make(),
        loss=loss,
        train=data,
        holdout=data,
        batch=4,
        steps=2,
        optimizer=SGD(),
        schedule=0.5,
        weights="keep",
    )
    build(spec, folder)
    done = run_locally(folder, out=folder)
    model = load_result(make(), folder).eval()
    with torch.no_grad():
        rows = {name: torch.from_numpy(column) for name, column in data.items()}
        np.testing.assert_allclose(float(loss(model, rows)), done.after["loss"], rtol=1e-3)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        found = tensor.detach().numpy()
        np.testing.assert_array_equal(found, done.state[name], err_msg=name)
        assert tensor.is_floating_point() <= (tensor.dtype == torch.float32)
    return done


MODELS = (Tied, _convolutions, _parametrized, _frozen, _half, _gpt2, _llama, _t5, _adapted)


@pytest.mark.parametrize("make", MODELS)
# of transformers and its like, about themselves
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_a_fresh_model_has_the_bits_of_the_result_and_its_loss(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    _trained(make, tmp_path)


def test_what_is_tied_stays_tied(tmp_path: Path) -> None:
    done = _trained(Tied, tmp_path)
    # what was fetched, or trained here, is as good as its file
    model = load_result(Tied(), done)
    assert torch.equal(model.scale, load_result(Tied(), tmp_path).scale)
    assert model.second.weight is model.first.weight
    assert model.same is model.mean


@pytest.mark.parametrize("make", [_convolutions, _parametrized, _frozen])
def test_torchs_own_loading_does_the_same(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    done = _trained(make, tmp_path)
    assert done.model is not None
    mine = load_result(make(), tmp_path).state_dict()
    by_torch, by_name = make(), make()
    by_torch.load_state_dict(load_file(done.model))
    load_model(by_name, done.model)
    for model in (by_torch, by_name):
        assert all(torch.equal(value, mine[name]) for name, value in model.state_dict().items())


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_a_folder_of_transformers_and_an_adapter_have_the_result(tmp_path: Path) -> None:
    import transformers

    _trained(_gpt2, tmp_path / "all")
    mine = load_result(_gpt2(), tmp_path / "all").state_dict()
    _gpt2().config.save_pretrained(tmp_path / "all")
    read = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "all").state_dict()
    assert all(torch.equal(value, mine[name]) for name, value in read.items())

    _trained(_adapted, tmp_path / "lora")
    adapted = load_result(_adapted(), tmp_path / "lora").eval()
    words = torch.from_numpy(WORDS)
    with torch.no_grad():
        before = adapted(input_ids=words).logits
        after = adapted.merge_and_unload()(input_ids=words).logits
    torch.testing.assert_close(after, before)


def test_a_result_of_another_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    with pytest.raises(JobError, match="cannot be read"):
        load_result(nn.Linear(2, 3), file)
    file.write_bytes(b"nothing")
    with pytest.raises(JobError, match="not a safetensors file"):
        load_result(nn.Linear(2, 3), file)
    state = {"weight": np.zeros((3, 2), np.float32), "bias": np.ones(3, np.float32)}
    file.write_bytes(dump_safetensors(state))
    assert load_result(nn.Linear(2, 3), tmp_path).bias.sum() == 3
    for model, reason in (
        (nn.Linear(3, 3), "weight has the shape"),
        (nn.Sequential(nn.Linear(2, 3)), "has no 0.weight"),
        (nn.Linear(2, 3, bias=False), "has bias, which the model lacks"),
    ):
        with pytest.raises(JobError, match=f"{reason}.*as the job file does"):
            load_result(model, file)
    with pytest.raises(JobError, match="no moving averages"):
        load_result(nn.Linear(2, 3), file, ema=True)


def test_what_is_no_model_or_has_no_values_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(dump_safetensors({}))
    given: Any
    for given, reason in (
        (nn.Linear(2, 3, device="meta"), "weight: has no values yet"),
        (nn.LazyLinear(3), "weight: has no values yet"),
        (nn.Linear, "is a type, not a torch.nn.Module; give"),
    ):
        with pytest.raises(JobError, match=reason):
            load_result(given, tmp_path)
    given = nn.Linear(2, 3)
    with pytest.raises(JobError, match="a Linear is not a result"):
        load_result(given, given)
