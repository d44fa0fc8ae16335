"""Ordinary models that benchmarks measure as jobs and in eager torch."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from assay import AdamW, JobSpec
from examples import digits

_SEGMENTS = 20
_CHARACTERS = 65


class Block(nn.Module):
    """A transformer block: causal attention, then a small network at each position."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        parts = self.project(self.norm1(x)).view(rows, length, 3 * self.heads, width // self.heads)
        query, key, value = parts.transpose(1, 2).chunk(3, dim=1)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(rows, length, width))
        thought: torch.Tensor = self.think(self.norm2(x))
        return x + thought


class GPT(nn.Module):
    """A language model on characters, which returns the scores for the next character at each position."""

    def __init__(self, width: int, layers: int, length: int, characters: int = _CHARACTERS) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, max(2, width // 64)) for _ in range(layers)])
        self.norm, self.score = nn.LayerNorm(width), nn.Linear(width, characters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.score(self.norm(self.blocks(self.characters(x) + self.places.weight)))
        return scores


class LSTM(nn.Module):
    """One LSTM layer over a sequence, and class scores from its last output."""

    def __init__(self, width: int, features: int, classes: int) -> None:
        super().__init__()
        self.layer = nn.LSTM(features, width, batch_first=True)
        self.score = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found, _ = self.layer(x)
        scores: torch.Tensor = self.score(found[:, -1])
        return scores


class Unrolled(nn.Module):
    """An LSTM cell in a Python loop, so that each position of a sequence has its own nodes."""

    def __init__(self, width: int, features: int, classes: int) -> None:
        super().__init__()
        self.width = width
        self.gates, self.score = nn.Linear(features + width, 4 * width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = memory = x.new_zeros(x.shape[0], self.width)
        for part in x.unbind(1):
            keep, write, show, new = self.gates(torch.cat([part, hidden], dim=1)).chunk(4, dim=1)
            memory = keep.sigmoid() * memory + write.sigmoid() * new.tanh()
            hidden = show.sigmoid() * memory.tanh()
        scores: torch.Tensor = self.score(hidden)
        return scores


class Residual(nn.Module):
    """A residual block of two 3 x 3 convolutions with a shortcut."""

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(given, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.past = nn.Conv2d(given, width, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.inner(x) + self.past(x))


class Inverted(nn.Module):
    """An inverted residual block: a depthwise convolution between two convolutions that mix channels."""

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        inside = 4 * given
        self.inner = nn.Sequential(
            nn.Conv2d(given, inside, 1, bias=False),
            nn.BatchNorm2d(inside),
            nn.ReLU6(),
            nn.Conv2d(inside, inside, 3, stride, padding=1, groups=inside, bias=False),
            nn.BatchNorm2d(inside),
            nn.ReLU6(),
            nn.Conv2d(inside, width, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner(x)
        return x + found if found.shape == x.shape else found


def loss(model: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean cross-entropy of the model's scores for ``x`` over all positions."""
    scores = model(batch["x"])
    return functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), batch["y"].flatten())


def spec(name: str, model: nn.Module, x: np.ndarray, y: np.ndarray, batch: int, steps: int) -> JobSpec:
    """Return the job of a classifier, with ``_SEGMENTS`` segments of ``steps`` steps."""
    return JobSpec(
        name=name,
        model=model,
        loss=loss,
        train={"x": x, "y": y},
        holdout={"x": x[:batch], "y": y[:batch]},
        optimizer=AdamW(weight_decay=0.01),
        schedule=lambda step: 1e-3 * (0.55 + 0.45 * math.cos(step / 100)),
        clip_norm=1.0,
        steps=_SEGMENTS * steps,
        segment_steps=steps,
        batch=batch,
        seed=1,
    )


def _digits(steps: int) -> JobSpec:
    spec = digits.job()
    return replace(spec, steps=_SEGMENTS * steps, slots=1, round_steps=None, segment_steps=steps)


def _mlp(steps: int) -> JobSpec:
    generator = np.random.default_rng(1)
    x, y = generator.standard_normal((1024, 784), np.float32), generator.integers(0, 10, 1024)
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return spec("mlp-512", nn.Sequential(*layers), x, y, 128, steps)


def _gpt(width: int, length: int, batch: int) -> Callable[[int], JobSpec]:
    def made(steps: int) -> JobSpec:
        generator = np.random.default_rng(1)
        x, y = (generator.integers(0, _CHARACTERS, (4 * batch, length)) for _ in range(2))
        return spec(f"gpt-{width}", GPT(width, 4, length), x, y, batch, steps)

    return made


def _lstm(name: str, model: type[LSTM] | type[Unrolled]) -> Callable[[int], JobSpec]:
    """Return a function that makes the job of an LSTM on sequences of 128 positions."""

    def made(steps: int) -> JobSpec:
        generator = np.random.default_rng(1)
        x = generator.standard_normal((128, 128, 16), np.float32)
        return spec(name, model(64, 16, 10), x, generator.integers(0, 10, 128), 32, steps)

    return made


def _images(name: str, block: type[Residual] | type[Inverted]) -> Callable[[int], JobSpec]:
    """Return a function that makes the job of a network with six blocks ``block``, on 32 x 32 images of ten classes."""

    def made(steps: int) -> JobSpec:
        generator = np.random.default_rng(1)
        x = generator.standard_normal((128, 3, 32, 32), np.float32)
        sizes = [(16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
        model = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            *[block(*size) for size in sizes],
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 10),
        )
        return spec(name, model, x, generator.integers(0, 10, 128), 32, steps)

    return made


MODELS: Mapping[str, Callable[[int], JobSpec]] = MappingProxyType(
    {
        "digits": _digits,
        "mlp-512": _mlp,
        "gpt-128": _gpt(128, 128, 8),
        "gpt-512": _gpt(512, 256, 4),
        "lstm-128": _lstm("lstm-128", LSTM),
        "lstm-128-unrolled": _lstm("lstm-128-unrolled", Unrolled),
        "resnet": _images("resnet", Residual),
        "mobilenet": _images("mobilenet", Inverted),
    }
)
"""Functions that take the number of steps per segment and return a job of twenty segments, by name."""
