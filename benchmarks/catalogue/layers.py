"""Layers of torch."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.catalogue.rows import (
    CLASSES,
    IMAGES,
    LINES,
    SEQUENCES,
    VECTORS,
    VOLUMES,
    Does,
    Make,
    Row,
    job,
    layers,
    linear,
    words,
)


def _mlp(*between: Callable[[], nn.Module]) -> Make:
    return job(
        lambda: nn.Sequential(nn.Linear(16, 16), *[make() for make in between], nn.Linear(16, CLASSES)),
        VECTORS,
    )


def _recurrent(kind: Callable[..., nn.Module], **options: Any) -> Make:
    ways = 2 if options.get("bidirectional") else 1
    return job(
        lambda: Does(
            lambda s, x: s.score(s.layer(x)[0].mean(1)),
            layer=kind(16, 8, batch_first=True, **options),
            score=nn.Linear(8 * ways, CLASSES),
        ),
        SEQUENCES,
    )


def _cell(cell: Callable[..., nn.Module]) -> Make:
    def forward(s: Any, x: torch.Tensor) -> Any:
        state: Any = None
        for part in x.unbind(1):
            state = s.cell(part) if state is None else s.cell(part, state)
        return s.score(state[0] if isinstance(state, tuple) else state)

    return job(lambda: Does(forward, cell=cell(16, 8), score=nn.Linear(8, CLASSES)), SEQUENCES)


def _pooled_line(pool: Callable[[], nn.Module]) -> Make:
    """Return a function that makes the job of a pooling layer; the layer's result has 12 positions of 4 channels."""
    return layers(4 * 12, LINES, lambda: nn.Conv1d(3, 4, 3, padding=1), pool)


def _pooled_volume(pool: Callable[[], nn.Module]) -> Make:
    """Return a function that makes the job of a pooling layer; its result has 3 x 3 x 3 positions of 4 channels."""
    return layers(4 * 27, VOLUMES, lambda: nn.Conv3d(2, 4, 3, padding=1), pool)


def _attention(function: Callable[..., torch.Tensor], **layers: Callable[[], nn.Module]) -> Make:
    return job(
        lambda: Does(
            function,
            **{name: make() for name, make in layers.items()},
            score=nn.Linear(16, CLASSES),
        ),
        SEQUENCES,
    )


def _heads(x: torch.Tensor) -> torch.Tensor:
    return x.view(*x.shape[:2], 4, 4).transpose(1, 2)


def _sdpa(s: Any, x: torch.Tensor, **options: Any) -> Any:
    heads = _heads(s.project(x))
    seen = F.scaled_dot_product_attention(heads, heads, heads, **options)
    return s.score(seen.transpose(1, 2).flatten(2).mean(1))


def _dropped_attention(s: Any, x: torch.Tensor) -> Any:
    return _sdpa(s, x, dropout_p=0.1 if s.training else 0.0)


def _sdpa_mask(s: Any, x: torch.Tensor) -> Any:
    length = x.shape[1]
    mask = torch.ones(length, length).tril(1).bool()
    return _sdpa(s, x, attn_mask=mask)


def _masked_softmax(s: Any, x: torch.Tensor) -> Any:
    scores = s.project(x) @ x.transpose(1, 2)
    mask = torch.triu(torch.ones(6, 6), 1).bool()
    return s.score((scores.masked_fill(mask, float("-inf")).softmax(-1) @ x).mean(1))


def _padding(s: Any, x: torch.Tensor) -> Any:
    mask = (x[..., 0] > 0) & (torch.arange(6) > 0)
    return s.score(s.encoder(x, src_key_padding_mask=mask).mean(1))


def _sines(s: Any, x: torch.Tensor) -> Any:
    place = torch.arange(x.shape[1])[:, None] / 10_000 ** (torch.arange(8) / 8)
    return s.score(F.relu(s.project(x + torch.cat([place.sin(), place.cos()], -1))).mean(1))


def _learned_sines(s: Any, x: torch.Tensor) -> Any:
    waves = s.project(x)
    return s.score((waves.sin() + waves.cos()).mean(1))


def _rotary(s: Any, x: torch.Tensor) -> Any:
    angles = torch.outer(torch.arange(6).float(), 1 / 100 ** (torch.arange(8) / 8))
    one, two = s.project(x).chunk(2, -1)
    turned = torch.cat([one * angles.cos() - two * angles.sin(), one * angles.sin() + two * angles.cos()], -1)
    return s.score((turned @ turned.transpose(1, 2)).softmax(-1).matmul(x).mean(1))


LAYERS: tuple[Row, ...] = (
    ("MLP with dropout", _mlp(nn.ReLU, lambda: nn.Dropout(0.2))),
    ("BatchNorm1d", _mlp(lambda: nn.BatchNorm1d(16), nn.ReLU)),
    ("LayerNorm", _mlp(lambda: nn.LayerNorm(16), nn.GELU)),
    ("RMSNorm", _mlp(lambda: nn.RMSNorm(16), nn.SiLU)),
    ("weight_norm", _mlp(lambda: nn.utils.parametrizations.weight_norm(linear()), nn.Tanh)),
    ("spectral_norm", _mlp(lambda: nn.utils.parametrizations.spectral_norm(linear()), nn.Tanh)),
    ("AlphaDropout", _mlp(nn.SELU, lambda: nn.AlphaDropout(0.1))),
    ("PReLU", _mlp(nn.PReLU)),
    (
        "activations",
        _mlp(nn.Softplus, nn.Hardswish, nn.Mish, nn.ELU, nn.CELU, nn.Softsign, nn.LogSigmoid),
    ),
    (
        "Bilinear",
        job(
            lambda: Does(lambda s, x: s.both(x, x.flip(1)), both=nn.Bilinear(16, 16, CLASSES)),
            VECTORS,
        ),
    ),
    (
        "Embedding, padding_idx",
        job(
            lambda: Does(
                lambda s, x: s.score(s.table(x).mean(1)),
                table=nn.Embedding(50, 8, padding_idx=1),
                score=nn.Linear(8, CLASSES),
            ),
            words,
        ),
    ),
    (
        "EmbeddingBag, max",
        job(
            lambda: Does(
                lambda s, x: s.score(s.table(x)),
                table=nn.EmbeddingBag(50, 8, mode="max"),
                score=nn.Linear(8, CLASSES),
            ),
            words,
        ),
    ),
    (
        "EmbeddingBag",
        job(
            lambda: Does(
                lambda s, x: s.score(s.table(x)),
                table=nn.EmbeddingBag(50, 8),
                score=nn.Linear(8, CLASSES),
            ),
            words,
        ),
    ),
    ("Conv1d", layers(4 * 22, LINES, lambda: nn.Conv1d(3, 4, 3), nn.ReLU)),
    ("Conv2d", layers(4 * 10 * 10, IMAGES, lambda: nn.Conv2d(3, 4, 3), nn.ReLU)),
    ("Conv3d", layers(4 * 4**3, VOLUMES, lambda: nn.Conv3d(2, 4, 3), nn.ReLU)),
    (
        "Conv2d, stride, dilation, groups",
        layers(
            6 * 4 * 4,
            IMAGES,
            lambda: nn.Conv2d(3, 6, 3, stride=2, padding=1, dilation=3, groups=3),
            nn.ReLU,
        ),
    ),
    (
        "Conv2d, depthwise separable",
        layers(
            6 * 12 * 12,
            IMAGES,
            lambda: nn.Conv2d(3, 3, 3, padding=1, groups=3),
            lambda: nn.Conv2d(3, 6, 1),
            nn.ReLU6,
        ),
    ),
    ("ConvTranspose1d", layers(4 * 49, LINES, lambda: nn.ConvTranspose1d(3, 4, 3, stride=2))),
    ("ConvTranspose2d", layers(4 * 25 * 25, IMAGES, lambda: nn.ConvTranspose2d(3, 4, 3, stride=2))),
    (
        "ConvTranspose3d",
        layers(4 * 13**3, VOLUMES, lambda: nn.ConvTranspose3d(2, 4, 3, stride=2)),
    ),
    ("MaxPool1d", _pooled_line(lambda: nn.MaxPool1d(2))),
    ("AvgPool1d", _pooled_line(lambda: nn.AvgPool1d(2))),
    ("AdaptiveAvgPool1d", _pooled_line(lambda: nn.AdaptiveAvgPool1d(12))),
    ("AdaptiveMaxPool1d", _pooled_line(lambda: nn.AdaptiveMaxPool1d(12))),
    ("LPPool1d", _pooled_line(lambda: nn.LPPool1d(2, 2))),
    (
        "MaxPool2d",
        layers(3 * 36, IMAGES, lambda: nn.Conv2d(3, 3, 3, padding=1), lambda: nn.MaxPool2d(2)),
    ),
    (
        "AvgPool2d",
        layers(3 * 36, IMAGES, lambda: nn.Conv2d(3, 3, 3, padding=1), lambda: nn.AvgPool2d(2)),
    ),
    (
        "AdaptiveAvgPool2d",
        layers(3 * 25, IMAGES, lambda: nn.Conv2d(3, 3, 3), lambda: nn.AdaptiveAvgPool2d(5)),
    ),
    (
        "AdaptiveMaxPool2d",
        layers(3 * 25, IMAGES, lambda: nn.Conv2d(3, 3, 3), lambda: nn.AdaptiveMaxPool2d(5)),
    ),
    ("MaxPool3d", _pooled_volume(lambda: nn.MaxPool3d(2))),
    ("AvgPool3d", _pooled_volume(lambda: nn.AvgPool3d(2))),
    ("AdaptiveAvgPool3d", _pooled_volume(lambda: nn.AdaptiveAvgPool3d(3))),
    ("AdaptiveMaxPool3d", _pooled_volume(lambda: nn.AdaptiveMaxPool3d(3))),
    (
        "BatchNorm2d, conv net",
        layers(
            4 * 25,
            IMAGES,
            lambda: nn.Conv2d(3, 4, 3),
            lambda: nn.BatchNorm2d(4),
            nn.ReLU,
            lambda: nn.MaxPool2d(2),
        ),
    ),
    (
        "GroupNorm",
        layers(4 * 100, IMAGES, lambda: nn.Conv2d(3, 4, 3), lambda: nn.GroupNorm(2, 4), nn.ReLU),
    ),
    (
        "InstanceNorm2d",
        layers(4 * 100, IMAGES, lambda: nn.Conv2d(3, 4, 3), lambda: nn.InstanceNorm2d(4), nn.ReLU),
    ),
    (
        "BatchNorm3d",
        layers(4 * 4**3, VOLUMES, lambda: nn.Conv3d(2, 4, 3), lambda: nn.BatchNorm3d(4), nn.ReLU),
    ),
    (
        "InstanceNorm1d",
        layers(4 * 22, LINES, lambda: nn.Conv1d(3, 4, 3), lambda: nn.InstanceNorm1d(4), nn.ReLU),
    ),
    (
        "InstanceNorm3d",
        layers(4 * 4**3, VOLUMES, lambda: nn.Conv3d(2, 4, 3), lambda: nn.InstanceNorm3d(4)),
    ),
    ("Dropout1d", layers(4 * 22, LINES, lambda: nn.Conv1d(3, 4, 3), lambda: nn.Dropout1d(0.5))),
    ("Dropout3d", layers(4 * 4**3, VOLUMES, lambda: nn.Conv3d(2, 4, 3), lambda: nn.Dropout3d(0.5))),
    ("FeatureAlphaDropout", _mlp(nn.SELU, lambda: nn.FeatureAlphaDropout(0.1))),
    ("Dropout2d", layers(4 * 100, IMAGES, lambda: nn.Conv2d(3, 4, 3), lambda: nn.Dropout2d(0.5))),
    (
        "interpolate, bilinear",
        layers(
            3 * 24 * 24,
            IMAGES,
            lambda: nn.Conv2d(3, 3, 3, padding=1),
            lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
        ),
    ),
    (
        "PixelShuffle",
        layers(24 * 24, IMAGES, lambda: nn.Conv2d(3, 4, 3, padding=1), lambda: nn.PixelShuffle(2)),
    ),
    (
        "reflection padding",
        layers(3 * 12 * 12, IMAGES, lambda: nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect")),
    ),
    ("RNN", _recurrent(nn.RNN)),
    ("GRU", _recurrent(nn.GRU)),
    ("LSTM", _recurrent(nn.LSTM)),
    (
        "RNN, relu, two layers, both ways",
        _recurrent(nn.RNN, num_layers=2, bidirectional=True, nonlinearity="relu"),
    ),
    ("GRU, two layers, both ways", _recurrent(nn.GRU, num_layers=2, bidirectional=True)),
    (
        "LSTM, two layers, both ways",
        _recurrent(nn.LSTM, num_layers=2, bidirectional=True, dropout=0.1),
    ),
    ("LSTMCell, unrolled", _cell(nn.LSTMCell)),
    ("GRUCell, unrolled", _cell(nn.GRUCell)),
    (
        "MultiheadAttention",
        _attention(
            lambda s, x: s.score(s.seen(x, x, x)[0].mean(1)),
            seen=lambda: nn.MultiheadAttention(16, 4, batch_first=True),
        ),
    ),
    (
        "TransformerEncoderLayer",
        _attention(
            lambda s, x: s.score(s.encoder(x).mean(1)),
            encoder=lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True),
        ),
    ),
    (
        "TransformerEncoder, padding mask",
        _attention(
            _padding,
            encoder=lambda: nn.TransformerEncoder(
                nn.TransformerEncoderLayer(16, 4, 32, batch_first=True),
                2,
                enable_nested_tensor=False,
            ),
        ),
    ),
    (
        "Transformer",
        _attention(
            lambda s, x: s.score(s.both(x, x).mean(1)),
            both=lambda: nn.Transformer(16, 4, 1, 1, 32, batch_first=True),
        ),
    ),
    ("attention, causal", _attention(partial(_sdpa, is_causal=True), project=linear)),
    ("attention, mask", _attention(_sdpa_mask, project=linear)),
    ("attention, dropout", _attention(_dropped_attention, project=linear)),
    ("masked_fill, softmax", _attention(_masked_softmax, project=linear)),
    ("sinusoidal positions", _attention(_sines, project=linear)),
    ("sin and cos of activations", _attention(_learned_sines, project=linear)),
    ("rotary positions", _attention(_rotary, project=linear)),
)
