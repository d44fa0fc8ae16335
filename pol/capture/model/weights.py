"""Initial weights from the job's seed, by each layer's own law; torch's generators differ between machines."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt

import numpy as np
import torch
from torch import nn

from pol.capture.reports.reasons import listed
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


_Place = tuple[nn.Module, str]
"""A module and the name by which it holds a parameter."""

_ALMOST = 1 + 1e-5
"""Torch rounds its bounds in another order."""
_FARTHEST = 8.0
"""A number farther from 0 than this is not drawn from N(0, 1)."""
_LOOKED_AT = 2**18
_MOST_APART = 3.3
"""Largest distance of two distributions, times the root of the count: by chance it is larger once in 10^9 times."""


@dataclass(frozen=True)
class InitialWeights:
    """Values for all parameters, and which of them were drawn; ``kept`` has the others by the reason for it."""

    values: dict[str, torch.Tensor]
    drawn: list[str] = field(default_factory=list)
    kept: dict[str, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return what was taken, as a line for the person who builds."""
        count = sum(map(len, self.kept.values()))
        if not count and not self.drawn:
            return "initial weights: as they are in the model"
        parts = []
        if count:
            why = "; ".join(f"{reason}: {listed(names)}" for reason, names in self.kept.items())
            tensors = "1 tensor as it is" if count == 1 else f"{count} tensors as they are"
            parts.append(f"{tensors} in the model ({why})")
        if self.drawn:
            parts.append(f"{len(self.drawn)} drawn from the seed")
        return f"initial weights: {'; '.join(parts)}"


def initial_weights(model: nn.Module, seed: int, trained: Collection[str], choice: str | None) -> InitialWeights:
    """Return the weights that a job begins with; ``choice`` is ``weights`` of the job.

    With "keep" they are those of the model, with "seed" all that are ``trained`` and not constant are drawn. Without
    either, those are drawn that their layers have made and that nothing has changed since (:func:`_changed_by`): they
    are random numbers in any case, and those of the seed are the same on every machine. If in doubt, a tensor is kept.

    Raises JobError when a parameter is to be drawn and no law for its layer is known.
    """
    values = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    if choice == "keep":
        return InitialWeights(values)
    varied = [name for name in trained if not _is_constant(values[name])]
    kept: dict[str, list[str]] = {}
    drawn = varied
    if choice is None:
        reasons = _reasons_to_keep(model, varied)
        drawn = [name for name in varied if name not in reasons]
        for name, reason in reasons.items():
            kept.setdefault(reason, []).append(name)
    values.update(seeded_parameters(model, seed, drawn))
    return InitialWeights(values, drawn, kept)


_SET = "values that their layers do not draw"


def _reasons_to_keep(model: nn.Module, names: Sequence[str]) -> dict[str, str]:
    """Return why parameters are kept, of those that are."""
    places = _places(model)
    parameters = dict(model.named_parameters())
    found = {}
    for name in names:
        if reason := _changed_by(parameters[name], places[id(parameters[name])]):
            found[name] = reason
    # what is written past torch's count of changes (as by .data) may have been written to any of them
    if _SET in found.values():
        found |= {name: _SET for name in names if name not in found}
    return found


def _changed_by(parameter: nn.Parameter, places: Sequence[_Place]) -> str | None:
    """Return what shows that a parameter is not as its layer has made it; None where nothing does.

    That is a second layer that holds it, too; a layer that has no law; another count of changes in place than the layer
    itself makes (an optimizer, ``load_state_dict`` and ``apply(init)`` add to it, and a copy begins anew); and values
    that the law could not have given, one by one or as a whole.
    """
    if len(places) > 1:
        return "shared by several layers"
    module, own_name = places[0]
    law = _law(module, own_name)
    if law is None:
        return "their layers have no law for them"
    # one of inference mode counts no changes
    changes = 0 if parameter.is_inference() else parameter._version
    if changes != _made_by_changes(module):
        return "changed after their layers made them" if changes else "copied or loaded"
    return None if _may_be_drawn(parameter.detach(), module, law) else _SET


def _made_by_changes(module: nn.Module) -> int:
    """Return how often a layer itself changes a parameter in place: it draws, and writes a row of zeros."""
    return 1 if _padding(module) is None else 2


def _padding(module: nn.Module) -> int | None:
    return module.padding_idx if isinstance(module, nn.Embedding | nn.EmbeddingBag) else None


def _may_be_drawn(values: torch.Tensor, module: nn.Module, law: _Bound) -> bool:
    """Return whether torch may have drawn values for a layer, by the test of Kolmogorov and Smirnov and by range."""
    is_normal, padding = law is _unit_variance, _padding(module)
    if padding is not None:
        kept = torch.arange(len(values)) != padding % len(values)
        values = values[kept]
    if not values.numel():
        return True
    bound = _FARTHEST if is_normal else law(module, values) * _ALMOST
    if not values.abs().max() <= bound:
        return False
    # of a large tensor, some elements tell as much
    some = values.flatten()[:: ceil(values.numel() / _LOOKED_AT)]
    numbers = np.sort(some.double().numpy())
    normal = torch.special.ndtr(torch.from_numpy(numbers)).numpy()
    share = normal if is_normal else (numbers / bound + 1) / 2
    places = np.arange(len(numbers) + 1) / len(numbers)
    apart = max((places[1:] - share).max(), (share - places[:-1]).max())
    return bool(apart * sqrt(len(numbers)) <= _MOST_APART)


def _places(model: nn.Module) -> dict[int, list[_Place]]:
    """Return all modules that hold a parameter, by its identity, in the order of their names."""
    found: dict[int, list[_Place]] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            found.setdefault(id(parameter), []).append((module, name))
    return found


def _is_constant(parameter: torch.Tensor) -> bool:
    """Return whether all elements are equal: ones, zeros, or what the model set on purpose."""
    return not parameter.numel() or bool((parameter == parameter.flatten()[0]).all())


def seeded_parameters(model: nn.Module, seed: int, trained: Collection[str] | None = None) -> dict[str, torch.Tensor]:
    """Return a value for every parameter, drawn from ``seed``; a parameter whose elements are equal is kept.

    A parameter that is not among ``trained`` (all are, if None) is kept, too: a person who freezes a layer means its
    weights. The row of an embedding that stands for padding is 0.

    The n-th parameter in name order draws from the stream (seed, ``SITE_WEIGHTS``, n).

    Raises JobError when a parameter is neither constant nor of a layer with a known law.
    """
    places = _places(model)
    named = dict(model.named_parameters())
    result = {}
    for index, name in enumerate(sorted(named)):
        parameter = named[name].detach()
        if (trained is not None and name not in trained) or _is_constant(parameter):
            result[name] = parameter.clone()
            continue
        module, own_name = places[id(named[name])][0]
        law = _law(module, own_name)
        if law is None:
            reason = f"{type(module).__name__} has no known law for the initial weights of {own_name!r}"
            remedy = 'leave weights= out, or give weights="keep", to take the weights as they are'
            raise JobError(f"model.{name}", reason, remedy)
        numbers = uniform(seed, SITE_WEIGHTS, index, parameter.numel()).astype(np.float64)
        drawn = ((2 * numbers - 1) * law(module, parameter)).astype(np.float32)
        values = torch.from_numpy(drawn.reshape(tuple(parameter.shape)))
        if (padding := _padding(module)) is not None:
            values[padding] = 0.0
        result[name] = values
    return result


def _law(module: nn.Module, own_name: str) -> _Bound | None:
    for (kind, attribute), law in LAWS.items():
        if isinstance(module, kind) and attribute in ("", own_name):
            return law
    return None
