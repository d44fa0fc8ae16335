"""The program of a step of a GPT of any shape. A program depends on shapes alone, so its weights need no memory."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from assay import AdamW, JobSpec
from pol.capture.functions import JobFunctions, named
from pol.capture.graph.capture import capture_program
from pol.capture.model.plain_model import own_tensors
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.program import Program
from pol.limits import LIMITS

_LIMITS = replace(LIMITS, live_size=2**62)


@dataclass(frozen=True)
class Shape:
    """The shape of a GPT and of its batch: ``rows`` rows of ``length`` tokens, of ``words`` kinds."""

    width: int
    layers: int
    rows: int = 4
    length: int = 512
    words: int = 32_000
    head: int = 128


class Block(nn.Module):
    """A block of a GPT: attention to the earlier tokens, then a network for each token."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, self.head = shape.width, shape.head
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        parts = self.project(self.norm1(x)).view(rows, length, 3 * width // self.head, self.head)
        query, key, value = parts.transpose(1, 2).chunk(3, dim=1)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(rows, length, width))
        thought: torch.Tensor = self.think(self.norm2(x))
        return x + thought


class GPT(nn.Module):
    """A GPT whose scores are products with the weights of its words."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(shape.words, shape.width), nn.Embedding(shape.length, shape.width)
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.words(x) + self.places.weight
        return functional.linear(self.norm(self.blocks(x)), self.words.weight)


def _loss(model: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return functional.cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].flatten())


def step_of(shape: Shape) -> Program:
    """Return the program of a step of a GPT."""
    with torch.device("meta"):
        model = GPT(shape)
    rows = np.zeros((shape.rows, shape.length), np.int64)
    batch = {"x": torch.from_numpy(rows), "y": torch.from_numpy(rows)}
    weights = {name: parameter.detach() for name, parameter in sorted(model.named_parameters())}
    spec = JobSpec(
        name="gpt",
        model=model,
        loss=_loss,
        train={"x": rows, "y": rows},
        holdout={"x": rows, "y": rows},
        batch=shape.rows,
        steps=10,
        optimizer=AdamW(weight_decay=0.1),
        schedule=3e-4,
        clip_norm=1.0,
    )
    functions = JobFunctions(spec, 10, shape.rows)
    with torch.device("meta"):
        shapes = functions.initial_local(weights)
    local = {name: torch.empty(tensor.shape, dtype=tensor.dtype) for name, tensor in shapes.items()}
    model.to_empty(device="cpu")
    own: dict[str, Any] = own_tensors(model)
    state = {name: own[name].detach() for name in weights}
    inputs = {
        **named("global", state),
        **named("local", local),
        **named("batch", batch),
        STEP: torch.tensor(0),
        BATCH_NUMBER: torch.tensor(0),
    }
    return capture_program(functions.step, inputs, limits=_LIMITS, precisions=spec.precisions, own=own)
