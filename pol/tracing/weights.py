"""Initial weights from the job's seed, by each layer's own law; torch's generators differ between machines."""

from collections.abc import Callable, Collection
from math import sqrt

import numpy as np
import torch
from torch import nn

from pol.errors import JobError
from pol.ops.philox import SITE_WEIGHTS, uniform

_Bound = Callable[[nn.Module, torch.Tensor], float]


def _fan_in(module: nn.Module, _parameter: torch.Tensor) -> float:
    """kaiming_uniform_(a=sqrt(5)) of the weight, and the same bound for the bias."""
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    return 1 / sqrt(weight[0].numel())


def _unit_variance(module: nn.Module, parameter: torch.Tensor) -> float:
    """Torch draws embeddings from N(0, 1); a uniform of the same variance needs no logarithm or cosine."""
    return sqrt(3)


def _xavier(module: nn.Module, parameter: torch.Tensor) -> float:
    return sqrt(6 / sum(parameter.shape))


def _features_in(module: nn.Module, _parameter: torch.Tensor) -> float:
    """The law of Bilinear, whose weights are [out, in of the first, in of the second]."""
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    return 1 / sqrt(weight.shape[1])


def _hidden(module: nn.Module, _parameter: torch.Tensor) -> float:
    assert isinstance(module.hidden_size, int)
    return 1 / sqrt(module.hidden_size)


LAWS: dict[tuple[type[nn.Module], str], _Bound] = {
    (nn.Linear, "weight"): _fan_in,
    (nn.Linear, "bias"): _fan_in,
    (nn.modules.conv._ConvNd, "weight"): _fan_in,
    (nn.modules.conv._ConvNd, "bias"): _fan_in,
    (nn.Bilinear, "weight"): _features_in,
    (nn.Bilinear, "bias"): _features_in,
    (nn.Embedding, "weight"): _unit_variance,
    (nn.EmbeddingBag, "weight"): _unit_variance,
    (nn.MultiheadAttention, "in_proj_weight"): _xavier,
    (nn.RNNBase, ""): _hidden,
    (nn.RNNCellBase, ""): _hidden,
}
"""Layer and parameter ("" for all) to the bound b of a uniform distribution in [-b, b)."""


def seeded_parameters(
    model: nn.Module, seed: int, trained: Collection[str] | None = None
) -> dict[str, torch.Tensor]:
    """Return a value for every parameter, drawn from ``seed``; a parameter whose elements are equal is kept.

    So is what is not ``trained`` (all are, if None): whoever freezes a layer means its weights.

    The n-th parameter in name order draws from the stream (seed, ``SITE_WEIGHTS``, n).

    Raises JobError when a parameter is neither constant nor of a layer with a known law.
    """
    owners = {
        f"{prefix}.{name}" if prefix else name: (module, name)
        for prefix, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
    }
    named = dict(model.named_parameters())
    result = {}
    for index, name in enumerate(sorted(named)):
        parameter = named[name].detach()
        module, own_name = owners[name]
        if trained is not None and name not in trained:
            result[name] = parameter.clone()
            continue
        if parameter.numel() and bool((parameter == parameter.flatten()[0]).all()):
            # ones, zeros, or what the model set on purpose
            result[name] = parameter.clone()
            continue
        bound = _bound(module, own_name, parameter, name)
        numbers = uniform(seed, SITE_WEIGHTS, index, parameter.numel()).astype(np.float64)
        values = ((2 * numbers - 1) * bound).astype(np.float32).reshape(tuple(parameter.shape))
        result[name] = torch.from_numpy(values)
    return result


def _bound(module: nn.Module, own_name: str, parameter: torch.Tensor, name: str) -> float:
    for (kind, attribute), law in LAWS.items():
        if isinstance(module, kind) and attribute in ("", own_name):
            return law(module, parameter)
    reason = f"{type(module).__name__} has no known law for the initial weights of {own_name!r}"
    raise JobError(f"model.{name}", reason, 'give weights="keep" to take the weights as they are')
