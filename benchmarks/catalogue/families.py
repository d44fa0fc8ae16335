"""More model families of the package transformers, and methods to adapt them, each with a small configuration."""

from collections.abc import Callable
from typing import Any

import torch

from assay import JobSpec
from benchmarks.catalogue.networks import (
    CAUSAL,
    CLASSIFIER,
    WORDS,
    attended,
    hugging_face,
    labelled,
    next_word,
    pictures,
)
from benchmarks.catalogue.rows import CLASSES, PHOTOS, Batch, Make, Row, floats, job, package, words

_IMAGES = "AutoModelForImageClassification"
_SMALL = {"image_size": 32, "patch_size": 8, "num_labels": CLASSES}


def _causal(kind: str, **options: Any) -> Make:
    return hugging_face(kind, CAUSAL, next_word, **options)


def _classifier(kind: str, **options: Any) -> Make:
    return hugging_face(kind, CLASSIFIER, labelled, **{**WORDS, **options})


def _images(kind: str, **options: Any) -> Make:
    return hugging_face(kind, _IMAGES, pictures, PHOTOS, **{**_SMALL, **options})


def _pretrained_images(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(pixel_values=batch["x"]).loss
    return found


def _forecast(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(past_values=batch["x"][:, :16], future_values=batch["x"][:, 16:]).loss
    return found


def _patches() -> JobSpec:
    library = package("transformers")
    config = library.PatchTSTConfig(
        num_input_channels=3,
        context_length=16,
        prediction_length=8,
        patch_length=4,
        patch_stride=4,
        d_model=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    return job(lambda: library.PatchTSTForPrediction(config), lambda: floats(24, 3), _forecast)()


_EXPERTS = {
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 1,
}


def _adapted(make: Callable[[Any], Any]) -> Make:
    """Return a function that makes the job of a Llama model adapted with the peft method of ``make``."""

    def made() -> JobSpec:
        library, peft = package("transformers"), package("peft")
        torch.manual_seed(7)
        config = library.AutoConfig.for_model(
            "llama",
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=50,
            max_position_embeddings=32,
        )
        base = library.AutoModelForCausalLM.from_config(config)
        return job(lambda: peft.get_peft_model(base, make(peft)), words, next_word)()

    return made


_ATTENTION = ["q_proj", "v_proj"]
_OF_TEXT = {"task_type": "CAUSAL_LM"}

FAMILIES: tuple[Row, ...] = (
    ("transformers OLMo 2", _causal("olmo2", num_key_value_heads=2)),
    (
        "transformers Gemma 2",
        _causal("gemma2", attention="eager", num_key_value_heads=2, head_dim=8),
    ),
    ("transformers Phi-3", _causal("phi3", num_key_value_heads=2, pad_token_id=0)),
    ("transformers GPT-NeoX", _causal("gpt_neox")),
    ("transformers OPT", _causal("opt", ffn_dim=64, word_embed_proj_dim=32, pad_token_id=0)),
    ("transformers Bloom", _causal("bloom", attention="eager", n_layer=2, n_head=4)),
    ("transformers Falcon", _causal("falcon", alibi=False)),
    (
        "transformers RWKV",
        hugging_face(
            "rwkv",
            CAUSAL,
            next_word,
            lambda: words(6),
            attention="eager",
            context_length=8,
            attention_hidden_size=32,
        ),
    ),
    ("transformers Mixtral", _causal("mixtral", **_EXPERTS)),
    (
        "transformers Qwen2-MoE",
        _causal("qwen2_moe", shared_expert_intermediate_size=32, **_EXPERTS),
    ),
    ("transformers Qwen3-MoE", _causal("qwen3_moe", head_dim=8, **_EXPERTS)),
    (
        "transformers DeepSeek V3",
        _causal(
            "deepseek_v3",
            num_key_value_heads=4,
            n_routed_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=32,
            n_group=2,
            topk_group=1,
            first_k_dense_replace=1,
            q_lora_rank=16,
            kv_lora_rank=16,
            qk_rope_head_dim=4,
            qk_nope_head_dim=4,
            v_head_dim=8,
        ),
    ),
    (
        "transformers DeBERTa v2, masked words",
        hugging_face("deberta-v2", "AutoModelForMaskedLM", attended, attention="eager"),
    ),
    ("transformers ALBERT", _classifier("albert", embedding_size=16)),
    ("transformers ELECTRA", _classifier("electra", embedding_size=16)),
    ("transformers MPNet", _classifier("mpnet", attention="eager")),
    (
        "transformers ModernBERT, masked words",
        hugging_face(
            "modernbert",
            "AutoModelForMaskedLM",
            attended,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
        ),
    ),
    (
        "transformers BART",
        hugging_face(
            "bart",
            "AutoModelForSeq2SeqLM",
            next_word,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            pad_token_id=0,
            decoder_start_token_id=0,
        ),
    ),
    ("transformers DINOv2", _images("dinov2", mlp_ratio=2)),
    ("transformers BEiT", _images("beit")),
    (
        "transformers ConvNeXt V2",
        _images("convnextv2", attention="eager", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2),
    ),
    (
        "transformers SegFormer",
        hugging_face(
            "segformer",
            _IMAGES,
            pictures,
            PHOTOS,
            num_encoder_blocks=2,
            depths=[1, 1],
            sr_ratios=[2, 1],
            hidden_sizes=[16, 32],
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=[2, 4],
            mlp_ratios=[2, 2],
            num_labels=CLASSES,
        ),
    ),
    (
        "transformers ViT-MAE",
        hugging_face(
            "vit_mae",
            "AutoModelForPreTraining",
            _pretrained_images,
            PHOTOS,
            image_size=32,
            patch_size=8,
            decoder_hidden_size=32,
            decoder_num_hidden_layers=1,
            decoder_num_attention_heads=2,
            decoder_intermediate_size=64,
        ),
    ),
    ("transformers PatchTST", _patches),
    ("PEFT: DoRA", _adapted(lambda p: p.LoraConfig(r=4, target_modules=_ATTENTION, use_dora=True))),
    (
        "PEFT: rsLoRA, whole head",
        _adapted(lambda p: p.LoraConfig(r=4, target_modules=_ATTENTION, use_rslora=True, modules_to_save=["lm_head"])),
    ),
    (
        "PEFT: PiSSA",
        _adapted(lambda p: p.LoraConfig(r=4, target_modules=_ATTENTION, init_lora_weights="pissa")),
    ),
    (
        "PEFT: IA3",
        _adapted(lambda p: p.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"])),
    ),
    ("PEFT: prompt", _adapted(lambda p: p.PromptTuningConfig(num_virtual_tokens=4, **_OF_TEXT))),
    ("PEFT: prefix", _adapted(lambda p: p.PrefixTuningConfig(num_virtual_tokens=4, **_OF_TEXT))),
    ("PEFT: VeRA", _adapted(lambda p: p.VeraConfig(r=4, target_modules=_ATTENTION))),
    (
        "PEFT: AdaLoRA",
        _adapted(lambda p: p.AdaLoraConfig(init_r=4, target_r=2, total_step=10, target_modules=_ATTENTION)),
    ),
    (
        "PEFT: OFT",
        _adapted(lambda p: p.OFTConfig(r=0, oft_block_size=4, target_modules=_ATTENTION)),
    ),
)
