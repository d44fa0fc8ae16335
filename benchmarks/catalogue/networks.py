"""Whole networks: written by hand, from torchvision, and from transformers."""

import importlib
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
    package,
    words,
)
from pol.state.arrays import Array


def _vision(name: str, data: Callable[[], dict[str, Array]] = PHOTOS, **options: Any) -> Make:
    def make() -> JobSpec:
        models = package("torchvision").models
        return job(
            lambda: getattr(models, name)(num_classes=CLASSES, **options),
            data,
            _scores,
            schedule=0.002,
        )()

    return make


def _scores(model: nn.Module, batch: Batch) -> torch.Tensor:
    scores: Any = model(batch["x"])
    return F.cross_entropy(scores if isinstance(scores, torch.Tensor) else scores[0], batch["y"])


def _vision_transformer() -> JobSpec:
    kind = package("torchvision").models.VisionTransformer
    return job(lambda: kind(32, 8, 2, 2, 32, 64, num_classes=CLASSES), PHOTOS)()


def _swin() -> JobSpec:
    kind = package("torchvision").models.SwinTransformer
    return job(
        lambda: kind([4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=CLASSES),
        PHOTOS,
    )()


def _convnext() -> JobSpec:
    module = importlib.import_module("torchvision.models.convnext") if package("torchvision") else None
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


def next_word(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=batch["x"], labels=batch["x"]).loss
    return found


def labelled(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=batch["x"], labels=batch["y"]).loss
    return found


def attended(model: nn.Module, batch: Batch) -> torch.Tensor:
    mask = (batch["x"] > 3).long()
    found: torch.Tensor = model(input_ids=batch["x"], attention_mask=mask, labels=batch["x"]).loss
    return found


def pictures(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(pixel_values=batch["x"], labels=batch["y"]).loss
    return found


def hugging_face(
    kind: str,
    head: str,
    loss: Loss,
    data: Callable[[], dict[str, Array]] = words,
    *,
    attention: str = "sdpa",
    **options: Any,
) -> Make:
    def model() -> nn.Module:
        library = package("transformers")
        settings = {**_TINY, "attn_implementation": attention, **options}
        config = library.AutoConfig.for_model(kind, **settings)
        made: nn.Module = getattr(library, head).from_config(config)
        return made

    return job(model, data, loss)


def _adapted() -> JobSpec:
    library, peft = package("transformers"), package("peft")
    torch.manual_seed(7)
    config = library.AutoConfig.for_model("gpt2", n_embd=32, n_layer=2, n_head=4, vocab_size=50)
    base = library.AutoModelForCausalLM.from_config(config)
    settings = peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)
    return job(lambda: peft.get_peft_model(base, settings), words, next_word)()


CAUSAL, CLASSIFIER = "AutoModelForCausalLM", "AutoModelForSequenceClassification"
WORDS: Mapping[str, Any] = {"num_labels": CLASSES, "pad_token_id": 0}

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
        hugging_face("gpt2", CAUSAL, next_word, n_embd=32, n_layer=2, n_head=4),
    ),
    (
        "transformers GPT-2, mask",
        hugging_face("gpt2", CAUSAL, attended, n_embd=32, n_layer=2, n_head=4),
    ),
    (
        "transformers GPT-2, eager, mask",
        hugging_face("gpt2", CAUSAL, attended, attention="eager", n_embd=32, n_layer=2, n_head=4),
    ),
    ("transformers Llama", hugging_face("llama", CAUSAL, next_word, num_key_value_heads=2)),
    ("transformers Llama, mask", hugging_face("llama", CAUSAL, attended, num_key_value_heads=2)),
    (
        "transformers Llama, eager, mask",
        hugging_face("llama", CAUSAL, attended, attention="eager", num_key_value_heads=2),
    ),
    ("transformers Qwen2", hugging_face("qwen2", CAUSAL, next_word, num_key_value_heads=2)),
    (
        "transformers Qwen3",
        hugging_face("qwen3", CAUSAL, next_word, num_key_value_heads=2, head_dim=8),
    ),
    ("transformers Mistral", hugging_face("mistral", CAUSAL, next_word, num_key_value_heads=2)),
    ("transformers BERT", hugging_face("bert", CLASSIFIER, labelled, **WORDS)),
    ("transformers BERT, masked words", hugging_face("bert", "AutoModelForMaskedLM", attended)),
    (
        "transformers DistilBERT",
        hugging_face(
            "distilbert",
            CLASSIFIER,
            labelled,
            dim=32,
            n_heads=4,
            n_layers=2,
            hidden_dim=64,
            **WORDS,
        ),
    ),
    ("transformers RoBERTa", hugging_face("roberta", CLASSIFIER, labelled, **WORDS)),
    (
        "transformers ViT",
        hugging_face(
            "vit",
            "AutoModelForImageClassification",
            pictures,
            PHOTOS,
            image_size=32,
            patch_size=8,
            num_labels=CLASSES,
        ),
    ),
    (
        "transformers T5",
        hugging_face(
            "t5",
            "AutoModelForSeq2SeqLM",
            next_word,
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
