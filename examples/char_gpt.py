"""A character GPT of two blocks, which learns to spell from scikit-learn's descriptions of its data sets.

    assay job build examples/char_gpt.py -o gpt-job

Two slots train at the same time on different batches; after every round their states are averaged.
"""

from collections.abc import Mapping

import numpy as np
import torch
from sklearn.datasets import load_digits, load_iris, load_wine
from torch import nn
from torch.nn import functional

from assay import AdamW, JobSpec

TEXT = "".join(load().DESCR for load in (load_digits, load_iris, load_wine))
CONTEXT, WIDTH, HEADS = 16, 32, 2


class Block(nn.Module):
    """A block of the network: attention to the earlier characters, then a small network for each character."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        parts = self.project(self.norm1(x)).view(rows, length, 3 * HEADS, WIDTH // HEADS)
        query, key, value = parts.transpose(1, 2).chunk(3, dim=1)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(rows, length, WIDTH))
        thought: torch.Tensor = self.think(self.norm2(x))
        return x + thought


class CharGPT(nn.Module):
    """A network that maps characters, given as numbers, to a score for each possible next character."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.score = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.characters(x) + self.places.weight
        scores: torch.Tensor = self.score(self.norm(self.blocks(x)))
        return scores


def loss(model: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the cross-entropy of the next character, over all positions of the context."""
    return functional.cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].flatten())


def job() -> JobSpec:
    """Return the job that ``assay job build`` builds."""
    alphabet = sorted(set(TEXT))
    numbers = np.array([alphabet.index(character) for character in TEXT])
    # A row begins at every fourth character. The last 256 rows are the holdout and stay on this machine.
    starts = np.arange(0, len(numbers) - CONTEXT - 1, 4)
    x = numbers[starts[:, None] + np.arange(CONTEXT)]
    y = numbers[starts[:, None] + np.arange(CONTEXT) + 1]
    return JobSpec(
        name="char-gpt",
        model=CharGPT(len(alphabet)),
        loss=loss,
        train={"x": x[:-256], "y": y[:-256]},
        holdout={"x": x[-256:], "y": y[-256:]},
        optimizer=AdamW(weight_decay=0.01),
        schedule=lambda step: 1e-2 * min(1.0, (step + 1) / 10),
        clip_norm=1.0,
        steps=80,
        batch=16,
        slots=2,
        round_steps=20,
        segment_steps=5,
        seed=11,
    )
