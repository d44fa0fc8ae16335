"""LoRA on the character GPT of ``gpt.py``: a model that can write Python learns to describe data sets.

    assay job build examples/finetune.py -o finetune-job

The initial weights are the result of ``gpt.py``, which this machine trains first, in a few seconds. The network trains
only the LoRA matrices (arXiv 2106.09685).
"""

import math
import runpy
import tempfile
from dataclasses import replace
from pathlib import Path

from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from torch import nn

from assay import AdamW, JobSpec, build_job, run_locally

HERE = Path(__file__).parent
GPT = runpy.run_path(str(HERE / "gpt.py"))
STEPS = 120
TEXTS = (load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine)


def trained() -> nn.Module:
    """Return the GPT with the weights that its own job produces."""
    model: nn.Module = GPT["model"]()
    with tempfile.TemporaryDirectory() as folder:
        job, run = Path(folder) / "job", Path(folder) / "run"
        # This training is not verified, so no states between steps are needed: one segment is a whole round.
        spec = GPT["job"]()
        build_job(replace(spec, segment_steps=spec.round_steps), job)
        run_locally(job, out=run)
        weights = load_file(run / "model.safetensors")
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    return model


def job() -> JobSpec:
    """Return the job that ``assay job build`` builds."""
    train, holdout = GPT["split"](GPT["rows"]("".join(load().DESCR for load in TEXTS)))
    adapted = get_peft_model(
        trained(), LoraConfig(r=8, lora_alpha=16, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
    )
    return JobSpec(
        name="finetune",
        model=adapted,
        loss=GPT["loss"],
        train=train,
        holdout=holdout,
        optimizer=AdamW(weight_decay=0.0),
        schedule=lambda step: 3e-3 * (0.55 + 0.45 * math.cos(math.pi * step / STEPS)),
        clip_norm=1.0,
        steps=STEPS,
        batch=16,
        slots=2,
        round_steps=30,
        segment_steps=1,
        seed=7,
        weights="keep",
    )
