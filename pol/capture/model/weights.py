"""Initial weights, drawn from the job's seed by the law of each layer.

Torch's own generators are not used, because they differ between machines.
"""

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
    """Return the bound of torch's kaiming_uniform_(a=sqrt(5)) for the weight; the bias has the same bound."""
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    return 1 / sqrt(weight[0].numel())


def _unit_variance(module: nn.Module, parameter: torch.Tensor) -> float:
    """Return the bound of a uniform distribution of variance 1, which replaces torch's N(0, 1) for embeddings.

    Uniform numbers need no logarithm and no cosine.
    """
    return sqrt(3)


def _xavier(module: nn.Module, parameter: torch.Tensor) -> float:
    return sqrt(6 / sum(parameter.shape))


def _features_in(module: nn.Module, _parameter: torch.Tensor) -> float:
    """Return the bound of Bilinear, whose weights have the shape [outputs, first inputs, second inputs]."""
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
"""Bound b of a uniform distribution in [-b, b), by layer and parameter ("" for all)."""


_Place = tuple[nn.Module, str]
"""A module and the name by which it holds a parameter."""

_ALMOST = 1 + 1e-5
"""Tolerance for the difference from torch's bounds, which torch computes with roundings in another order."""
_FARTHEST = 8.0
"""Largest absolute value of a number that may have been drawn from N(0, 1)."""
_TESTED = 2**18
"""Largest number of elements of a tensor that are tested."""
_MOST_APART = 3.3
"""Largest accepted distance between two distributions, multiplied by the root of the count. By chance, a test exceeds
this distance once in 10^9 tests.
"""


@dataclass(frozen=True)
class InitialWeights:
    """Initial values of all parameters.

    ``drawn`` lists the names of the parameters that were drawn from the seed. ``kept`` maps each reason to the names of
    the parameters that were kept for this reason.
    """

    values: dict[str, torch.Tensor]
    drawn: list[str] = field(default_factory=list)
    kept: dict[str, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a line for the report of the build about the origin of the weights."""
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
    """Return the initial weights of a job; ``choice`` is its option ``weights``.

    With "keep", all weights stay as they are in the model. With "seed", all ``trained`` and not constant parameters are
    drawn. With None, only those weights are drawn that have not changed since their layers drew them
    (:func:`_changed_by`). Such weights are random numbers in any case, and numbers from the seed are the same on every
    machine. If the evidence is not clear, a tensor is kept.

    Raises JobError if a parameter must be drawn but the law of its layer is unknown.
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
    """Return the names of the parameters that are kept, each with the reason."""
    places = _places(model)
    parameters = dict(model.named_parameters())
    reasons = {}
    for name in names:
        if reason := _changed_by(parameters[name], places[id(parameters[name])]):
            reasons[name] = reason
    # If one parameter was changed in a way that torch does not count (as by .data), other parameters may have been
    # changed in this way, too.
    if _SET in reasons.values():
        reasons |= {name: _SET for name in names if name not in reasons}
    return reasons


def _changed_by(parameter: nn.Parameter, places: Sequence[_Place]) -> str | None:
    """Return the evidence that a parameter no longer has the values that its layer drew, or None.

    There are four kinds of evidence: several layers share the parameter; its layer has no law; its values cannot come
    from the law, one by one or as a whole; or torch has counted more or fewer changes in place than the layer itself
    makes. An optimizer, ``load_state_dict`` and ``apply(init)`` increase this count; if a parameter is copied, the
    count of the copy starts at 0.
    """
    if len(places) > 1:
        return "shared by several layers"
    module, own_name = places[0]
    law = _law(module, own_name)
    if law is None:
        return "their layers have no known law"
    # Torch does not count the changes of a tensor that was created in inference mode.
    changes = 0 if parameter.is_inference() else parameter._version
    if changes != _made_by_changes(module):
        return "changed after their layers drew them" if changes else "copied or loaded"
    return None if _may_be_drawn(parameter.detach(), module, law) else _SET


def _made_by_changes(module: nn.Module) -> int:
    """Return how often a layer itself changes a parameter in place: once to draw it and, if there is a padding row,
    once to clear this row.
    """
    return 1 if _padding(module) is None else 2


def _padding(module: nn.Module) -> int | None:
    return module.padding_idx if isinstance(module, nn.Embedding | nn.EmbeddingBag) else None


def _may_be_drawn(values: torch.Tensor, module: nn.Module, law: _Bound) -> bool:
    """Return whether torch may have drawn the values for a layer.

    The evidence is their range and a Kolmogorov-Smirnov test.
    """
    is_normal = law is _unit_variance
    padding = _padding(module)
    if padding is not None:
        is_drawn = torch.arange(len(values)) != padding % len(values)
        values = values[is_drawn]
    if not values.numel():
        return True
    bound = _FARTHEST if is_normal else law(module, values) * _ALMOST
    if not values.abs().max() <= bound:
        return False
    # For a large tensor, a sample of the elements is enough.
    some = values.flatten()[:: ceil(values.numel() / _TESTED)]
    numbers = np.sort(some.double().numpy())
    normal = torch.special.ndtr(torch.from_numpy(numbers)).numpy()
    share = normal if is_normal else (numbers / bound + 1) / 2
    places = np.arange(len(numbers) + 1) / len(numbers)
    apart = max((places[1:] - share).max(), (share - places[:-1]).max())
    return bool(apart * sqrt(len(numbers)) <= _MOST_APART)


def _places(model: nn.Module) -> dict[int, list[_Place]]:
    """Return all modules that hold each parameter, by its identity, in the order of ``modules()``."""
    places: dict[int, list[_Place]] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            places.setdefault(id(parameter), []).append((module, name))
    return places


def _is_constant(parameter: torch.Tensor) -> bool:
    """Return whether all elements are equal, such as ones, zeros, or a number that the model set on purpose."""
    return not parameter.numel() or bool((parameter == parameter.flatten()[0]).all())


def seeded_parameters(model: nn.Module, seed: int, trained: Collection[str] | None = None) -> dict[str, torch.Tensor]:
    """Return a value for each parameter, drawn from ``seed``; a parameter whose elements are all equal is kept.

    A parameter that is not in ``trained`` is also kept, because its author froze it with the values that it has. If
    ``trained`` is None, all parameters are trained. The padding row of an embedding is 0. The parameters are sorted by
    name, and the n-th of them draws from the stream (seed, ``SITE_WEIGHTS``, n).

    Raises JobError if a parameter must be drawn but the law of its layer is unknown.
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
            remedy = 'leave weights= out, or give weights="keep", to keep the weights of the model'
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
