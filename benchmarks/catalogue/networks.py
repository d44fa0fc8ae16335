"""Whole networks: by hand, of torchvision, of transformers."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from assay import JobSpec
from benchmarks.catalogue.rows import (
    CLASSES,
    LARGE_PHOTOS,
    PHOTOS,
    Batch,
    Loss,
    Make,
    Row,
    job,
    next_token,
    words,
)
from pol.errors import JobError
from pol.state.arrays import Array


def _package(name: str, extra: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise JobError("case", f"needs {name}", f"install assay[{extra}]")
    return importlib.import_module(name)


def _vision(name: str, data: Callable[[], dict[str, Array]] = PHOTOS, **options: Any) -> Make:
    def make() -> JobSpec:
        models = _package("torchvision", "models").models
        return job(
            lambda: getattr(models, name)(num_classes=CLASSES, **options),
            data,
            _scores,
            schedule=0.002,
        )()

    return make


def _scores(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: Any = model(batch["x"])
    return F.cross_entropy(found if isinstance(found, torch.Tensor) else found[0], batch["y"])


def _vision_transformer() -> JobSpec:
    kind = _package("torchvision", "models").models.VisionTransformer
    return job(lambda: kind(32, 8, 2, 2, 32, 64, num_classes=CLASSES), PHOTOS)()


def _swin() -> JobSpec:
    kind = _package("torchvision", "models").models.SwinTransformer
    return job(
        lambda: kind(
            [4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=CLASSES
        ),
        PHOTOS,
    )()


def _convnext() -> JobSpec:
    module = (
        importlib.import_module("torchvision.models.convnext")
        if _package("torchvision", "models")
        else None
    )
    assert module is not None
    blocks = [module.CNBlockConfig(16, 32, 1), module.CNBlockConfig(32, None, 1)]
    return job(lambda: module.ConvNeXt(blocks, num_classes=CLASSES), PHOTOS)()


def _ours_gpt() -> JobSpec:
    from benchmarks.networks import GPT

    return job(lambda: GPT(32, 2, 12, 50), words, next_token)()


_TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}


def _next_word(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=batch["x"], labels=batch["x"]).loss
    return found


def _labelled(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=batch["x"], labels=batch["y"]).loss
    return found


def _attended(model: nn.Module, batch: Batch) -> torch.Tensor:
    mask = (batch["x"] > 3).long()
    found: torch.Tensor = model(input_ids=batch["x"], attention_mask=mask, labels=batch["x"]).loss
    return found


def _pictures(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(pixel_values=batch["x"], labels=batch["y"]).loss
    return found


def _hugging_face(
    kind: str,
    head: str,
    loss: Loss,
    data: Callable[[], dict[str, Array]] = words,
    *,
    attention: str = "sdpa",
    **options: Any,
) -> Make:
    def model() -> nn.Module:
        library = _package("transformers", "models")
        settings = {**_TINY, "attn_implementation": attention, **options}
        config = library.AutoConfig.for_model(kind, **settings)
        made: nn.Module = getattr(library, head).from_config(config)
        return made

    return job(model, data, loss)


def _adapted() -> JobSpec:
    library, peft = _package("transformers", "models"), _package("peft", "models")
    torch.manual_seed(7)
    config = library.AutoConfig.for_model("gpt2", n_embd=32, n_layer=2, n_head=4, vocab_size=50)
    base = library.AutoModelForCausalLM.from_config(config)
    settings = peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)
    return job(lambda: peft.get_peft_model(base, settings), words, _next_word)()


_CAUSAL, _CLASSIFIER = "AutoModelForCausalLM", "AutoModelForSequenceClassification"
_WORDS: Mapping[str, Any] = {"num_labels": CLASSES, "pad_token_id": 0}

MODELS: tuple[Row, ...] = (
    ("GPT, written by hand", _ours_gpt),
    ("torchvision resnet18", _vision("resnet18", LARGE_PHOTOS)),
    (
        "torchvision resnet18, GroupNorm",
        _vision("resnet18", norm_layer=lambda width: nn.GroupNorm(8, width)),
    ),
    ("torchvision resnet50", _vision("resnet50", LARGE_PHOTOS, width_per_group=16)),
    ("torchvision vgg11_bn", _vision("vgg11_bn")),
    ("torchvision mobilenet_v2", _vision("mobilenet_v2", LARGE_PHOTOS, width_mult=0.25)),
    ("torchvision mobilenet_v3_small", _vision("mobilenet_v3_small", width_mult=0.5)),
    ("torchvision efficientnet_b0", _vision("efficientnet_b0", LARGE_PHOTOS)),
    ("torchvision densenet121", _vision("DenseNet", growth_rate=8, block_config=(2, 2, 2))),
    ("torchvision squeezenet1_1", _vision("squeezenet1_1")),
    ("torchvision shufflenet_v2_x0_5", _vision("shufflenet_v2_x0_5", LARGE_PHOTOS)),
    ("torchvision ViT", _vision_transformer),
    ("torchvision ConvNeXt", _convnext),
    ("torchvision Swin", _swin),
    (
        "transformers GPT-2",
        _hugging_face("gpt2", _CAUSAL, _next_word, n_embd=32, n_layer=2, n_head=4),
    ),
    (
        "transformers GPT-2, mask",
        _hugging_face("gpt2", _CAUSAL, _attended, n_embd=32, n_layer=2, n_head=4),
    ),
    (
        "transformers GPT-2, eager, mask",
        _hugging_face(
            "gpt2", _CAUSAL, _attended, attention="eager", n_embd=32, n_layer=2, n_head=4
        ),
    ),
    ("transformers Llama", _hugging_face("llama", _CAUSAL, _next_word, num_key_value_heads=2)),
    ("transformers Llama, mask", _hugging_face("llama", _CAUSAL, _attended, num_key_value_heads=2)),
    (
        "transformers Llama, eager, mask",
        _hugging_face("llama", _CAUSAL, _attended, attention="eager", num_key_value_heads=2),
    ),
    ("transformers Qwen2", _hugging_face("qwen2", _CAUSAL, _next_word, num_key_value_heads=2)),
    (
        "transformers Qwen3",
        _hugging_face("qwen3", _CAUSAL, _next_word, num_key_value_heads=2, head_dim=8),
    ),
    ("transformers Mistral", _hugging_face("mistral", _CAUSAL, _next_word, num_key_value_heads=2)),
    ("transformers BERT", _hugging_face("bert", _CLASSIFIER, _labelled, **_WORDS)),
    ("transformers BERT, masked words", _hugging_face("bert", "AutoModelForMaskedLM", _attended)),
    (
        "transformers DistilBERT",
        _hugging_face(
            "distilbert",
            _CLASSIFIER,
            _labelled,
            dim=32,
            n_heads=4,
            n_layers=2,
            hidden_dim=64,
            **_WORDS,
        ),
    ),
    ("transformers RoBERTa", _hugging_face("roberta", _CLASSIFIER, _labelled, **_WORDS)),
    (
        "transformers ViT",
        _hugging_face(
            "vit",
            "AutoModelForImageClassification",
            _pictures,
            PHOTOS,
            image_size=32,
            patch_size=8,
            num_labels=CLASSES,
        ),
    ),
    (
        "transformers T5",
        _hugging_face(
            "t5",
            "AutoModelForSeq2SeqLM",
            _next_word,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            pad_token_id=0,
        ),
    ),
    ("PEFT: LoRA on GPT-2", _adapted),
)
