"""Operations, random numbers, losses, and different ways to write a step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from benchmarks.catalogue.rows import (
    CLASSES,
    IMAGES,
    VECTORS,
    Batch,
    Does,
    Loss,
    Make,
    Row,
    classify,
    head,
    job,
    linear,
    next_token,
    words,
)


def _of(function: Callable[..., torch.Tensor], loss: Loss = classify) -> Make:
    """Return a function that makes the job of a model with two linear layers and ``function`` between them."""
    return job(
        lambda: Does(
            lambda s, x: s.score(function(s.project(x))),
            project=linear(),
            score=nn.Linear(16, CLASSES),
        ),
        VECTORS,
        loss,
    )


def _by(measure: Callable[[torch.Tensor, Batch], torch.Tensor]) -> Make:
    """Return a function that makes the job of a linear layer whose loss is ``measure`` of its 16 outputs."""
    return job(linear, VECTORS, lambda model, batch: measure(model(batch["x"]), batch))


def _noisy(s: Any, x: torch.Tensor) -> Any:
    mean, spread = s.encode(x).chunk(2, -1)
    return s.decode(mean + torch.randn_like(mean) * spread.exp())


def _double_backward(model: nn.Module, batch: Batch) -> torch.Tensor:
    x = batch["x"].clone().requires_grad_()
    loss = F.cross_entropy(model(x), batch["y"])
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    return loss + slope.square().sum()


def _ctc(scores: torch.Tensor, batch: Batch) -> torch.Tensor:
    steps = F.log_softmax(scores.view(-1, 4, 4).transpose(0, 1), -1)
    targets = 1 + batch["y"][:, None] % 3
    rows = scores.shape[0]
    return F.ctc_loss(steps, targets, torch.full((rows,), 4), torch.full((rows,), 1))


def _depends(s: Any, x: torch.Tensor) -> Any:
    return s.score(x) if x.sum() > 0 else s.score(-x)


def _autocast(s: Any, x: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return s.score(F.relu(s.project(x))).float()


def _conditioned(s: Any, x: torch.Tensor) -> Any:
    return s.score(checkpoint(lambda h: F.relu(s.project(h)).exp().log1p(), x, use_reentrant=False))


def _gathered(scores: torch.Tensor, batch: Batch) -> torch.Tensor:
    several = torch.stack([batch["y"], (batch["y"] + 1) % 5], 1)
    return scores.gather(1, several).mean() ** 2


def _augmented(model: nn.Module, batch: Batch) -> torch.Tensor:
    x = batch["x"]
    if model.training:
        flip = torch.rand(x.shape[0], 1, 1, 1) < 0.5
        x = torch.where(flip, x.flip(-1), x) + 0.1 * torch.randn_like(x)
        part = torch.rand(x.shape[0], 1, 1, 1)
        x = part * x + (1 - part) * x.flip(0)
    return F.cross_entropy(model(x), batch["y"])


def _cropped(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the loss on images that are shifted by up to two pixels and have a square masked out."""
    x, places = batch["x"], torch.arange(12)
    if model.training:
        shape, padded = (len(x), 3), F.pad(x, (2, 2, 2, 2))
        down, right = (torch.randint(0, 5, (len(x), 1, 1, 1)) for _ in range(2))
        lines = (down + places.view(-1, 1)).expand(*shape, 12, 16)
        x = padded.gather(2, lines).gather(3, (right + places).expand(*shape, 12, 12))
        down, right = (torch.randint(0, 12, (len(x), 1, 1, 1)) for _ in range(2))
        hole = ((places.view(-1, 1) - down).abs() < 3) & ((places - right).abs() < 3)
        x = x.masked_fill(hole, 0.0)
    return F.cross_entropy(model(x), batch["y"])


OPERATIONS: tuple[Row, ...] = (
    ("x[:, indices]", _of(lambda x: x[:, torch.tensor([3, 1, 2, 0] * 4)])),
    ("gather, several a row", _by(_gathered)),
    ("topk", _of(lambda x: F.pad(x.topk(4).values, (0, 12)))),
    ("sort", _of(lambda x: x.sort(-1).values)),
    ("cumsum", _of(lambda x: x.cumsum(-1))),
    ("roll, flip", _of(lambda x: x.roll(1, 0) + x.flip(1))),
    ("pow, floor, remainder", _of(lambda x: x.abs().pow(1.7) + (3 * x).floor() + x.remainder(1.0))),
    ("einsum", _of(lambda x: torch.einsum("bi,bj->bij", x, x).mean(1))),
    ("var, rsqrt", _of(lambda x: x * torch.rsqrt(x.var(-1, keepdim=True) + 1))),
    ("logsumexp, log_softmax", _of(lambda x: x.log_softmax(-1) + x.logsumexp(-1, keepdim=True))),
    (
        "activation checkpointing",
        job(lambda: Does(_conditioned, project=linear(), score=nn.Linear(16, CLASSES)), VECTORS),
    ),
    (
        "double backward",
        job(
            lambda: nn.Sequential(linear(), nn.Tanh(), nn.Linear(16, CLASSES)),
            VECTORS,
            _double_backward,
        ),
    ),
    (
        "VAE: randn_like in forward",
        job(lambda: Does(_noisy, encode=nn.Linear(16, 8), decode=nn.Linear(4, CLASSES)), VECTORS),
    ),
    (
        "bf16 model",
        job(
            lambda: nn.Linear(16, CLASSES).bfloat16(),
            VECTORS,
            lambda m, b: F.cross_entropy(m(b["x"].to(next(m.parameters()).dtype)).float(), b["y"]),
        ),
    ),
    (
        "autocast in forward",
        job(lambda: Does(_autocast, project=linear(), score=nn.Linear(16, CLASSES)), VECTORS),
    ),
    ("if on a tensor's value", job(lambda: Does(_depends, score=nn.Linear(16, CLASSES)), VECTORS)),
    (
        "augmentation: flip, noise, mixup",
        job(lambda: head(4 * 100, nn.Conv2d(3, 4, 3)), IMAGES, _augmented),
    ),
    (
        "augmentation: crop, cut-out",
        job(lambda: head(4 * 100, nn.Conv2d(3, 4, 3)), IMAGES, _cropped),
    ),
    (
        "sequence cross-entropy",
        job(lambda: nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50)), words, next_token),
    ),
    (
        "label smoothing",
        job(
            lambda: nn.Linear(16, CLASSES),
            VECTORS,
            lambda m, b: F.cross_entropy(m(b["x"]), b["y"], label_smoothing=0.1),
        ),
    ),
    (
        "BCE with logits",
        _by(lambda s, b: F.binary_cross_entropy_with_logits(s[:, :5], F.one_hot(b["y"], 5).float())),
    ),
    (
        "MSE, L1, Huber",
        _by(lambda s, b: F.mse_loss(s, b["x"]) + F.l1_loss(s, b["x"]) + F.huber_loss(s, b["x"])),
    ),
    (
        "KL divergence",
        _by(lambda s, b: F.kl_div(s.log_softmax(-1), b["x"].softmax(-1), reduction="batchmean")),
    ),
    ("triplet margin", _by(lambda s, b: F.triplet_margin_loss(s, s.roll(1, 0), s.roll(2, 0)))),
    ("cosine similarity", _by(lambda s, b: F.cosine_similarity(s, s.roll(1, 0)).mean())),
    (
        "cosine embedding",
        _by(lambda s, b: F.cosine_embedding_loss(s, s.roll(1, 0), 2 * (b["y"] > 2).long() - 1)),
    ),
    ("contrastive, cdist", _by(lambda s, b: torch.cdist(s, s).add(1).log().mean())),
    ("CTC", _by(_ctc)),
)
