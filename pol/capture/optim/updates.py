"""Formulas of ``torch.optim`` for moving one parameter, as plain tensor functions.

A rule belongs to one group of parameters. ``begin`` computes the values that all parameters of the group share in a
step (corrections, the size of the step), and ``update`` moves each parameter. A step computes no powers. Instead, the
local state holds 1 - beta^n after n steps, and the next value is beta times this value, plus (1 - beta).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log, sqrt
from typing import Protocol

import torch

Tensors = Mapping[str, torch.Tensor]
_NOTHING: Tensors = {}


@dataclass(frozen=True, slots=True)
class ParameterState:
    """A parameter before a step: its name, its value, its gradient and its state in the rule."""

    name: str
    value: torch.Tensor
    gradient: torch.Tensor
    state: Tensors


@dataclass(frozen=True, slots=True)
class Now:
    """One step, as a rule gets it: its number from 0, the learning rate, and the options that vary by step.

    ``parameters`` are the group's parameters that have a gradient.
    """

    step: torch.Tensor
    lr: torch.Tensor
    varying: Tensors = field(default_factory=dict)
    parameters: Sequence[ParameterState] = ()

    def option(self, name: str, constant: float) -> "float | torch.Tensor":
        """Return the value of an option in this step; ``constant`` if the option does not vary."""
        return self.varying.get(name, constant)


class Rule(Protocol):
    """The formula of one optimizer with its options."""

    def shapes(self, shape: torch.Size) -> dict[str, torch.Size]:
        """Return the shape of each tensor in the state of a parameter of this shape.

        Return an empty dictionary if these shapes do not follow from the parameter's shape alone.
        """

    def initial(self, name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the state of a parameter before the first step."""

    def numbers(self) -> dict[str, float]:
        """Return the numbers of the group before the first step."""

    def tables(self, steps: int) -> dict[str, list[float]]:
        """Return, for each option that varies, a table of its numbers in the first ``steps`` steps.

        A table may be shorter. Its last number then holds for all later steps.
        """

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Return the next numbers of the group, and the values that all its parameters share in this step."""

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the parameter after the step, and its new state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain:
    """Base of all rules: decay as part of the gradient, and the option to maximize."""

    weight_decay: float = 0.0
    maximize: bool = False

    def fills(self) -> dict[str, float]:
        """Return the name of each tensor in a parameter's state, with the number that fills it at first."""
        return {}

    def shapes(self, shape: torch.Size) -> dict[str, torch.Size]:
        """Return the shapes of the state of a parameter of this shape: by default the same shape."""
        return dict.fromkeys(self.fills(), shape)

    def initial(self, name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the initial state: each tensor is filled with its first number."""
        del name
        shapes = self.shapes(value.shape)
        return {
            kind: torch.full(shapes[kind], number, dtype=value.dtype)
            for kind, number in self.fills().items()
            if kind in shapes
        }

    def numbers(self) -> dict[str, float]:
        """Return no numbers."""
        return {}

    def tables(self, steps: int) -> dict[str, list[float]]:
        """Return no tables."""
        del steps
        return {}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Return no numbers and no shared values."""
        del numbers, now
        return {}, _NOTHING

    def gradient(self, of: ParameterState) -> torch.Tensor:
        """Return the gradient, negated if the rule maximizes, plus the weight decay."""
        gradient = -of.gradient if self.maximize else of.gradient
        return gradient + self.weight_decay * of.value if self.weight_decay else gradient


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decoupled(_Plain):
    """Base of rules whose weight decay may be separate from the gradient, as in AdamW."""

    decoupled_weight_decay: bool = False

    def split(self, of: ParameterState, now: Now) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the parameter and the gradient, with the weight decay applied to one of them.

        A separate decay changes the parameter. Otherwise the decay is part of the gradient.
        """
        if not self.decoupled_weight_decay or not self.weight_decay:
            return of.value, self.gradient(of)
        gradient = -of.gradient if self.maximize else of.gradient
        return of.value * (1.0 - now.lr * self.weight_decay), gradient


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientDescent(_Plain):
    """``torch.optim.SGD``."""

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: the momentum, if the options have one."""
        return {"momentum": 0.0} if self.momentum else {}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Return the factor by which the gradient is multiplied before it is added to the momentum.

        It is 1 in the first step, and 1 - ``dampening`` in all later steps.
        """
        del numbers
        if not self.dampening:
            return {}, _NOTHING
        return {}, {"share": torch.where(now.step > 0, 1.0 - self.dampening, 1.0)}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move the parameter against the gradient or the momentum."""
        gradient = self.gradient(of)
        if not self.momentum:
            return of.value - now.lr * gradient, {}
        momentum = now.option("momentum", self.momentum)
        added = common["share"] * gradient if common else gradient
        velocity = momentum * of.state["momentum"] + added
        direction = gradient + momentum * velocity if self.nesterov else velocity
        return of.value - now.lr * direction, {"momentum": velocity}


def _next_correction(before: torch.Tensor, beta: float) -> torch.Tensor:
    """Return 1 - beta^(n+1) from 1 - beta^n, without subtracting nearly equal numbers."""
    return before * beta + (1.0 - beta)


def _next_means(
    of: ParameterState, gradient: torch.Tensor, beta1: "float | torch.Tensor", beta2: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the moving means of the gradients and of their squares, including this step's gradient."""
    mean = beta1 * of.state["exp_avg"] + (1.0 - beta1) * gradient
    return mean, beta2 * of.state["exp_avg_sq"] + (1.0 - beta2) * (gradient * gradient)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(_Decoupled):
    """``torch.optim.Adam`` and ``AdamW``."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: two means and, for ``amsgrad``, the largest mean square."""
        largest = {"max_exp_avg_sq": 0.0} if self.amsgrad else {}
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0, **largest}

    def numbers(self) -> dict[str, float]:
        """Return the numbers before the first step: the bias corrections of both means, which are 0."""
        return {"correction1": 0.0, "correction2": 0.0}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Return the next bias corrections, and the values that a step uses to apply them."""
        corrections = {
            name: _next_correction(numbers[name], beta)
            for name, beta in zip(("correction1", "correction2"), self.betas, strict=True)
        }
        # If beta1 varies, torch uses the power of its present value.
        first = now.varying.get("correction1", corrections["correction1"])
        return corrections, {"size": now.lr / first, "scale": torch.sqrt(corrections["correction2"])}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move the parameter by the mean gradient, divided by the root of the mean square."""
        value, gradient = self.split(of, now)
        beta1 = now.option("beta1", self.betas[0])
        mean, square = _next_means(of, gradient, beta1, self.betas[1])
        state = {"exp_avg": mean, "exp_avg_sq": square}
        largest = square
        if self.amsgrad:
            largest = torch.maximum(of.state["max_exp_avg_sq"], square)
            state["max_exp_avg_sq"] = largest
        step = mean / (torch.sqrt(largest) / common["scale"] + self.eps)
        return value - common["size"] * step, state


@dataclass(frozen=True, slots=True, kw_only=True)
class NAdam(_Decoupled):
    """``torch.optim.NAdam``."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    momentum_decay: float = 4e-3

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: the means of gradients and of their squares."""
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def numbers(self) -> dict[str, float]:
        """Return the numbers before the first step.

        They are the bias correction of the mean square, the decay of the momentum, and the product of all momenta.
        """
        return {"correction2": 0.0, "decay_power": 1.0, "mu_product": 1.0}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Return the next numbers, and the factors of the gradient and of the mean in this step.

        The factors follow from the momenta of this step and of the next.
        """
        decay = 0.96**self.momentum_decay
        power = numbers["decay_power"] * decay
        momentum = self.betas[0] * (1.0 - 0.5 * power)
        following = self.betas[0] * (1.0 - 0.5 * (power * decay))
        product = numbers["mu_product"] * momentum
        following_numbers = {
            "correction2": _next_correction(numbers["correction2"], self.betas[1]),
            "decay_power": power,
            "mu_product": product,
        }
        return following_numbers, {
            "of_gradient": now.lr * (1.0 - momentum) / (1.0 - product),
            "of_mean": now.lr * following / (1.0 - product * following),
            "scale": torch.sqrt(following_numbers["correction2"]),
        }

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move as Adam does, with Nesterov's momentum."""
        value, gradient = self.split(of, now)
        mean, square = _next_means(of, gradient, *self.betas)
        root = torch.sqrt(square) / common["scale"] + self.eps
        moved = value - (common["of_gradient"] * gradient + common["of_mean"] * mean) / root
        return moved, {"exp_avg": mean, "exp_avg_sq": square}


@dataclass(frozen=True, slots=True, kw_only=True)
class RAdam(_Decoupled):
    """``torch.optim.RAdam``; its rectification is a table, because FP32 is too coarse to compute it in early steps."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: the means of gradients and of their squares."""
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def numbers(self) -> dict[str, float]:
        """Return the numbers before the first step: the bias correction of the mean gradient, which is 0."""
        return {"correction1": 0.0}

    def rectified(self, step: int) -> float:
        """Return the rectification factor of a step, counted from 0; it is 0 as long as the variance is unknown."""
        beta2, n = self.betas[1], step + 1
        corrected = 1 - beta2**n
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * n * beta2**n / corrected
        if length <= 5:
            return 0.0
        part = (length - 4) * (length - 2) * longest
        return sqrt(part / ((longest - 4) * (longest - 2) * length) * corrected)

    def tables(self, steps: int) -> dict[str, list[float]]:
        """Return the rectification factors of the first steps, up to the first step whose factor is 1 in FP32."""
        differs = 2 if self.betas[1] <= 0.0 else ceil(40 / -log(self.betas[1]))
        return {"rectified": [self.rectified(step) for step in range(min(steps, differs))]}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Return the next bias correction of the mean gradient, and the learning rate divided by it."""
        correction = _next_correction(numbers["correction1"], self.betas[0])
        return {"correction1": correction}, {"size": now.lr / correction}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move as Adam does if the variance is known, and by the momentum alone otherwise."""
        value, gradient = self.split(of, now)
        mean, square = _next_means(of, gradient, *self.betas)
        factor = now.varying["rectified"]
        adaptive = factor / (torch.sqrt(square) + self.eps)
        moved = value - common["size"] * mean * torch.where(factor > 0, adaptive, 1.0)
        return moved, {"exp_avg": mean, "exp_avg_sq": square}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adamax(_Plain):
    """``torch.optim.Adamax``."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: the mean gradient and its decaying largest size."""
        return {"exp_avg": 0.0, "exp_inf": 0.0}

    def numbers(self) -> dict[str, float]:
        """Return the numbers before the first step: the bias correction of the mean gradient, which is 0."""
        return {"correction1": 0.0}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Return the next bias correction of the mean gradient, and the learning rate divided by it."""
        correction = _next_correction(numbers["correction1"], self.betas[0])
        return {"correction1": correction}, {"size": now.lr / correction}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move the parameter by the mean gradient, divided by the decaying maximum."""
        del now
        gradient = self.gradient(of)
        beta1, beta2 = self.betas
        mean = beta1 * of.state["exp_avg"] + (1.0 - beta1) * gradient
        largest = torch.maximum(beta2 * of.state["exp_inf"], gradient.abs() + self.eps)
        return of.value - common["size"] * (mean / largest), {"exp_avg": mean, "exp_inf": largest}


@dataclass(frozen=True, slots=True, kw_only=True)
class RMSprop(_Plain):
    """``torch.optim.RMSprop``."""

    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: the mean square, the mean gradient and the momentum.

        The mean gradient is among them only with ``centered``, and the momentum only if the options have one.
        """
        mean = {"grad_avg": 0.0} if self.centered else {}
        return {"square_avg": 0.0, **mean, **({"momentum": 0.0} if self.momentum else {})}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move the parameter by the gradient, divided by the root of the mean square."""
        del common
        gradient = self.gradient(of)
        square = self.alpha * of.state["square_avg"] + (1.0 - self.alpha) * (gradient * gradient)
        state = {"square_avg": square}
        if self.centered:
            mean = self.alpha * of.state["grad_avg"] + (1.0 - self.alpha) * gradient
            state["grad_avg"] = mean
            # Rounding can make the difference negative.
            square = torch.clamp(square - mean * mean, min=0.0)
        direction = gradient / (torch.sqrt(square) + self.eps)
        if self.momentum:
            momentum = now.option("momentum", self.momentum)
            direction = momentum * of.state["momentum"] + direction
            state["momentum"] = direction
        return of.value - now.lr * direction, state


@dataclass(frozen=True, slots=True, kw_only=True)
class Adagrad(_Plain):
    """``torch.optim.Adagrad``."""

    lr_decay: float = 0.0
    eps: float = 1e-10
    initial_accumulator_value: float = 0.0

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: the sum of squares, which may begin above 0."""
        return {"sum": self.initial_accumulator_value}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Return the size of the step, which is the learning rate after its decay."""
        del numbers
        if not self.lr_decay:
            return {}, {"size": now.lr}
        return {}, {"size": now.lr / (1.0 + now.step.to(torch.float32) * self.lr_decay)}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move the parameter by the gradient, divided by the root of the sum of squares."""
        del now
        gradient = self.gradient(of)
        total = of.state["sum"] + gradient * gradient
        step = gradient / (torch.sqrt(total) + self.eps)
        return of.value - common["size"] * step, {"sum": total}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adadelta(_Plain):
    """``torch.optim.Adadelta``."""

    rho: float = 0.9
    eps: float = 1e-6

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: the mean squares of gradients and of steps."""
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move the parameter by the gradient, scaled by the sizes of earlier steps."""
        del common
        gradient = self.gradient(of)
        rho = self.rho
        square = rho * of.state["square_avg"] + (1.0 - rho) * (gradient * gradient)
        before = of.state["acc_delta"]
        delta = torch.sqrt(before + self.eps) / torch.sqrt(square + self.eps) * gradient
        state = {"square_avg": square, "acc_delta": rho * before + (1.0 - rho) * (delta * delta)}
        return of.value - now.lr * delta, state


@dataclass(frozen=True, slots=True, kw_only=True)
class Rprop(_Plain):
    """``torch.optim.Rprop``, whose learning rate is only the size of each element's first step."""

    lr: float = 1e-2
    etas: tuple[float, float] = (0.5, 1.2)
    step_sizes: tuple[float, float] = (1e-6, 50.0)

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: its previous gradient, and the size of each element's step."""
        return {"prev": 0.0, "step_size": self.lr}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move each element by its own step size, which grows while the gradient keeps its sign.

        If the sign changes, the element does not move, and its step size shrinks.
        """
        del now, common
        gradient = self.gradient(of)
        shrink, grow = self.etas
        product = gradient * of.state["prev"]
        turned = product < 0
        factor = torch.where(product > 0, grow, torch.where(turned, shrink, 1.0))
        size = torch.clamp(of.state["step_size"] * factor, *self.step_sizes)
        gradient = torch.where(turned, 0.0, gradient)
        return of.value - torch.sign(gradient) * size, {"prev": gradient, "step_size": size}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adafactor(_Plain):
    """``torch.optim.Adafactor`` (arXiv 1804.04235), which keeps mean squares of the rows and columns of a matrix."""

    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = 1.0

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: mean squares of rows, of columns, and of elements.

        A parameter with fewer than two dimensions has only the mean squares of elements; any other parameter has only
        the mean squares of rows and of columns (see :meth:`shapes`).
        """
        return {"row_var": 0.0, "col_var": 0.0, "variance": 0.0}

    def shapes(self, shape: torch.Size) -> dict[str, torch.Size]:
        """Return shapes with one number for each row and each column of the last two dimensions."""
        if len(shape) < 2:
            return {"variance": shape}
        rows, columns = (*shape[:-1], 1), (*shape[:-2], 1, *shape[-1:])
        return {"row_var": torch.Size(rows), "col_var": torch.Size(columns)}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Return two numbers: the weight of the new squares in the moving mean, and the size of a step relative to the
        parameter.
        """
        del numbers
        number = (now.step + 1).to(torch.float32)
        share = torch.exp(self.beta2_decay * torch.log(number))
        return {}, {"share": share, "size": torch.minimum(now.lr, 1.0 / torch.sqrt(number))}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move the parameter by the gradient, divided by the root of the mean square.

        The means of rows and columns estimate the mean square of each element.
        """
        gradient = -of.gradient if self.maximize else of.gradient
        least = torch.finfo(torch.float32).eps if self.eps[0] is None else self.eps[0]
        size = torch.clamp(_root_mean_square(of.value), min=self.eps[1]) * common["size"]
        value = of.value * (1.0 - now.lr * self.weight_decay) if self.weight_decay else of.value
        squares = gradient * gradient
        means = {
            "row_var": lambda: squares.mean(-1, keepdim=True),
            "col_var": lambda: squares.mean(-2, keepdim=True),
            "variance": lambda: squares,
        }
        state = {name: before + common["share"] * (means[name]() - before) for name, before in of.state.items()}
        if "variance" in state:
            variance = state["variance"]
        else:
            scale = torch.clamp(state["row_var"].mean(-2, keepdim=True), min=least)
            variance = state["row_var"] * state["col_var"] / scale
        step = gradient / torch.sqrt(torch.clamp(variance, min=least * least))
        factor = torch.clamp(_root_mean_square(step) / self.d, min=1.0)
        return value - (size / factor) * step, state


def _root_mean_square(values: torch.Tensor) -> torch.Tensor:
    return torch.sqrt((values * values).mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class LionRule(_Decoupled):
    """Lion (arXiv 2302.06675), which moves by the sign of a mean of the momentum and the gradient."""

    betas: tuple[float, float] = (0.9, 0.99)
    decoupled_weight_decay: bool = True

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: the mean gradient."""
        return {"exp_avg": 0.0}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move each element by a step of the same size."""
        del common
        value, gradient = self.split(of, now)
        beta1, beta2 = self.betas
        mean = of.state["exp_avg"]
        direction = torch.sign(beta1 * mean + (1.0 - beta1) * gradient)
        return value - now.lr * direction, {"exp_avg": beta2 * mean + (1.0 - beta2) * gradient}


@dataclass(frozen=True, slots=True, kw_only=True)
class Muon(_Plain):
    """``torch.optim.Muon``, which moves singular values of the momentum near 1; it uses FP32, not torch's bfloat16."""

    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315)
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: str | None = None

    def fills(self) -> dict[str, float]:
        """Return the entries of a parameter's state: the momentum."""
        return {"momentum_buffer": 0.0}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Apply the weight decay to the parameter itself. Then move the parameter by a matrix whose singular values are
        nearly equal.
        """
        del common
        before = of.state["momentum_buffer"]
        momentum = now.option("momentum", self.momentum)
        mean = before + (1.0 - momentum) * (of.gradient - before)
        direction = mean
        if self.nesterov:
            direction = of.gradient + momentum * (mean - of.gradient)
        size = now.lr * self._ratio(of.value.shape)
        value = of.value * (1.0 - now.lr * self.weight_decay)
        return value - size * self._orthogonal(direction), {"momentum_buffer": mean}

    def _ratio(self, shape: torch.Size) -> float:
        rows, columns = shape
        if self.adjust_lr_fn == "match_rms_adamw":
            return 0.2 * sqrt(max(rows, columns))
        return sqrt(max(1.0, rows / columns))

    def _orthogonal(self, matrix: torch.Tensor) -> torch.Tensor:
        """Return the matrix after the Newton-Schulz iterations, which use the shorter side as rows."""
        is_tall = matrix.shape[0] > matrix.shape[1]
        wide = matrix.T if is_tall else matrix
        wide = wide / torch.clamp(torch.sqrt((wide * wide).sum()), min=self.eps)
        a, b, c = self.ns_coefficients
        for _ in range(self.ns_steps):
            gram = wide @ wide.T
            wide = a * wide + (b * gram + c * (gram @ gram)) @ wide
        return wide.T if is_tall else wide
