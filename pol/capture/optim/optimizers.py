"""Inner and outer optimizers as plain tensor functions, which are captured as parts of the job."""

from collections.abc import Mapping, Sequence

import torch

from pol.capture.author.spec import Average, Nesterov
from pol.capture.optim.gradient_at import GradientAt, elsewhere
from pol.capture.optim.groups import Group
from pol.capture.optim.update_rules import OwnRule, RuleStep
from pol.capture.optim.updates import Now, ParameterState
from pol.job.updates import CLOSING, CODED, DIFFERENCE

Tensors = Mapping[str, torch.Tensor]
VELOCITY = "outer_velocity."
"""Prefix of the outer optimizer's tensors in the global state."""
AVERAGE = "ema."
"""Prefix of the moving averages of weights in the global state."""


class InnerOptimizer:
    """The inner optimizer of a slot, whose state is the slot's local state."""

    def __init__(self, groups: Sequence[Group], elsewhere: GradientAt | None = None) -> None:
        """Create an optimizer that moves each group by its rule.

        If ``elsewhere`` is given, it chooses the weights for the gradients.
        """
        self._groups = groups
        self._elsewhere = elsewhere

    @property
    def draws(self) -> bool:
        """True if any rule is a custom rule, which may draw random numbers."""
        return any(isinstance(group.rule, OwnRule) for group in self._groups)

    def initial(self, parameters: Tensors) -> dict[str, torch.Tensor]:
        """Return the local state before the first step."""
        state = {}
        for index, group in enumerate(self._groups):
            for name, number in {**group.rule.numbers(), **group.taken.numbers}.items():
                state[number_name(name, index)] = torch.tensor(number)
            initial = {name: group.rule.initial(name, parameters[name]) for name in group.names}
            for kind in dict.fromkeys(kind for own in initial.values() for kind in own):
                for name in group.names:
                    if kind in initial[name]:
                        state[f"{kind}.{name}"] = initial[name][kind]
            state.update(group.taken.tensors)
        return state

    def update(
        self, parameters: Tensors, gradients: Tensors, local: Tensors, step: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the changed parameters and the changed local state; only parameters with a gradient are included."""
        moved: dict[str, torch.Tensor] = {}
        local_after: dict[str, torch.Tensor] = {}
        states = self._states(local)
        for index, group in enumerate(self._groups):
            varying = {name: table.at(step) for name, table in group.varying.items()}
            parts = [
                ParameterState(
                    name=name,
                    value=parameters[name],
                    gradient=gradients[name],
                    state=states.get(name, {}),
                )
                for name in group.names
                if name in gradients
            ]
            done = group.taken.steps
            now = Now(
                step=step + done if done else step,
                lr=group.lr.at(step),
                varying=varying,
                parameters=parts,
            )
            numbers = {name: local[number_name(name, index)] for name in group.rule.numbers()}
            numbers, common = group.rule.begin(numbers, now)
            local_after.update({number_name(name, index): number for name, number in numbers.items()})
            for part in parts:
                moved[part.name], state = group.rule.update(part, now, common)
                local_after.update({f"{kind}.{part.name}": tensor for kind, tensor in state.items()})
        return moved, local_after

    def _states(self, local: Tensors) -> dict[str, dict[str, torch.Tensor]]:
        """Return the state of each parameter from the local state, under the names that its rule uses."""
        numbers = {
            number_name(name, index) for index, group in enumerate(self._groups) for name in group.rule.numbers()
        }
        states: dict[str, dict[str, torch.Tensor]] = {}
        for full in local:
            kind, _, name = full.partition(".")
            if full not in numbers:
                states.setdefault(name, {})[kind] = local[full]
        return states

    def point(self, parameters: Tensors, gradients: Tensors, step: torch.Tensor) -> dict[str, torch.Tensor] | None:
        """Return the weights for a second gradient, or None if the optimizer has no second gradient."""
        if self._elsewhere is None:
            return None
        group = self._groups[0]
        names = [name for group in self._groups for name in group.names if name in gradients]
        done = self._elsewhere.steps
        number = step + done if done else step
        now = RuleStep(number=number, lr=group.lr.at(step), options={}, numbers={})
        values, slopes = ([tensors[name] for name in names] for tensors in (parameters, gradients))
        return dict(zip(names, elsewhere(self._elsewhere, values, slopes, now), strict=True))


def number_name(name: str, index: int) -> str:
    """Return the name that the number ``name`` of the group ``index`` has in the local state."""
    return f"{name}.{index}" if index else name


def clip_values(gradients: Tensors, largest: float) -> dict[str, torch.Tensor]:
    """Return the gradients with elements limited to the size ``largest``, as torch's clip_grad_value_ does."""
    return {name: torch.clamp(part, -largest, largest) for name, part in gradients.items()}


def clip(gradients: Tensors, largest_norm: float) -> dict[str, torch.Tensor]:
    """Return the gradients scaled to a joint norm of at most ``largest_norm``, as torch's clip_grad_norm_ does."""
    squares = [(gradient * gradient).sum() for gradient in gradients.values()]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    factor = torch.clamp(largest_norm / (torch.sqrt(total) + 1e-6), max=1.0)
    return {name: gradient * factor for name, gradient in gradients.items()}


def averages_initial(share: float | None, state: Tensors, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return the moving averages of weights before the first step, which are the weights themselves."""
    return {} if share is None else {AVERAGE + name: state[name].clone() for name in names}


def averages(share: float | None, state: Tensors, moved: Tensors) -> dict[str, torch.Tensor]:
    """Return the moving averages after a step: ``share`` x old average + (1 - ``share``) x weight after the step."""
    if share is None:
        return {}
    return {AVERAGE + name: share * state[AVERAGE + name] + (1.0 - share) * weight for name, weight in moved.items()}


def outer_initial(settings: Average | Nesterov, parameters: Tensors) -> dict[str, torch.Tensor]:
    """Return the tensors that the outer optimizer adds to the global state."""
    if isinstance(settings, Average) or not settings.momentum:
        return {}
    return {VELOCITY + name: torch.zeros_like(p) for name, p in parameters.items()}


def aggregation(settings: Average | Nesterov, is_coded: bool = False) -> str:
    """Return the kind of update that a slot delivers for an outer optimizer, as the job document names it."""
    if is_coded:
        return CODED
    return CLOSING if isinstance(settings, Average) else DIFFERENCE


def outer_update(
    settings: Average | Nesterov, kind: str, state: Tensors, aggregate: Tensors, parameters: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Return the changed global tensors of a round.

    ``aggregate`` is the mean of the slots' updates, of the ``kind`` that :func:`aggregation` returns. If an update is
    the closing state of the slot, the mean is the next state. Otherwise, an update is the initial state of the slot
    minus its closing state. Buffers that the step changes are averaged.
    """
    if kind == CLOSING:
        return dict(aggregate)
    changed = {}
    for name, update in aggregate.items():
        if isinstance(settings, Average) or name not in parameters:
            changed[name] = state[name] - update
            continue
        if not settings.momentum:
            changed[name] = state[name] - settings.lr * update
            continue
        velocity = settings.momentum * state[VELOCITY + name] + update
        changed[VELOCITY + name] = velocity
        changed[name] = state[name] - settings.lr * (update + settings.momentum * velocity)
    return changed
