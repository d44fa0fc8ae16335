"""A character GPT from a Hugging Face configuration, which learns to write Python from the source of a package.

    assay job build examples/gpt.py -o gpt-job

Every tenth row of the text is for the test set, which stays on this machine.
"""

import math
from importlib import metadata

import numpy as np
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from assay import AdamW, JobSpec

PACKAGE = "click"
LENGTH, CHARACTERS, STEPS = 32, 128, 200


def model() -> nn.Module:
    """Return the untrained model, with dropout in the places where GPT-2 has it."""
    torch.manual_seed(7)
    settings = GPT2Config(
        vocab_size=CHARACTERS,
        n_positions=LENGTH,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.05,
        embd_pdrop=0.05,
        attn_pdrop=0.05,
    )
    return GPT2LMHeadModel(settings)


def loss(called: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the cross-entropy of each character, given the characters before it."""
    found: torch.Tensor = called(batch["x"], labels=batch["x"], use_cache=False).loss
    return found


def rows(text: str) -> dict[str, np.ndarray]:
    """Return the ASCII characters of a text as numbers, in rows of ``LENGTH`` characters."""
    numbers = np.frombuffer(text.encode("ascii", "ignore"), np.uint8).astype(np.int64)
    return {"x": numbers[: len(numbers) // LENGTH * LENGTH].reshape(-1, LENGTH)}


def source() -> str:
    """Return the text of all Python files of ``PACKAGE``."""
    paths = [path for path in metadata.files(PACKAGE) or () if path.suffix == ".py"]
    return "".join(path.read_text() for path in sorted(paths, key=str))


def split(columns: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the rows to train on, and the test set: every tenth row, at most 64."""
    kept = np.arange(len(columns["x"])) % 10 == 9
    return {"x": columns["x"][~kept]}, {"x": columns["x"][kept][:64]}


def job() -> JobSpec:
    """Return the job that ``assay job build`` builds."""
    train, holdout = split(rows(source()))
    return JobSpec(
        name="gpt",
        model=model(),
        loss=loss,
        train=train,
        holdout=holdout,
        optimizer=AdamW(weight_decay=0.01),
        schedule=lambda step: 3e-3 * min(1, (step + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * step / STEPS)),
        clip_norm=1.0,
        steps=STEPS,
        batch=16,
        slots=2,
        round_steps=50,
        segment_steps=1,
        seed=7,
        weights="keep",
    )
