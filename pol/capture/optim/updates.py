"""Inner optimizers, for one parameter: the formulas of ``torch.optim`` as plain tensor functions.

A rule belongs to one group of parameters. What it computes once a step for all of them (corrections, the size of the
step) is apart from what it computes for each. Nothing is raised to a power in a step: the local state keeps what
1 - beta^n is after n steps, and the next is beta times that and (1 - beta).
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
    """A parameter before a step: its name and value, its gradient and what the rule kept of it."""

    name: str
    value: torch.Tensor
    gradient: torch.Tensor
    state: Tensors


@dataclass(frozen=True, slots=True)
class Now:
    """One step as a rule sees it: its number from 0, the learning rate, and options that vary by step.

    ``parameters`` are those of the group that have a gradient.
    """

    step: torch.Tensor
    lr: torch.Tensor
    varying: Tensors = field(default_factory=dict)
    parameters: Sequence[ParameterState] = ()

    def option(self, name: str, constant: float) -> "float | torch.Tensor":
        """Return an option of this step."""
        return self.varying.get(name, constant)


class Rule(Protocol):
    """The formula of one optimizer with its options."""

    def shapes(self, shape: torch.Size) -> dict[str, torch.Size]:
        """Return the shapes of what is kept of a parameter of this shape, as far as its shape alone decides them."""

    def initial(self, name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return what is kept of a parameter before the first step."""

    def numbers(self) -> dict[str, float]:
        """Return the numbers that are kept of the group, before the first step."""

    def tables(self, steps: int) -> dict[str, list[float]]:
        """Return what varies by step in a job of so many; after its end, a table stays at its last number."""

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Return the group's next numbers, and what this step computes of them for all parameters."""

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the parameter after the step, and what is kept of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain:
    """Options of all rules: weight decay that is added to the gradient, and maximization."""

    weight_decay: float = 0.0
    maximize: bool = False

    def kept(self) -> dict[str, float]:
        """Return what is kept of each parameter, and the number that it is filled with at first."""
        return {}

    def shapes(self, shape: torch.Size) -> dict[str, torch.Size]:
        """Return the shapes of what is kept of a parameter of this shape: by default that of the parameter."""
        return dict.fromkeys(self.kept(), shape)

    def initial(self, name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
        """Fill each tensor with its first number."""
        del name
        shapes = self.shapes(value.shape)
        return {
            kind: torch.full(shapes[kind], number, dtype=value.dtype)
            for kind, number in self.kept().items()
            if kind in shapes
        }

    def numbers(self) -> dict[str, float]:
        """None."""
        return {}

    def tables(self, steps: int) -> dict[str, list[float]]:
        """None."""
        del steps
        return {}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Nothing is common."""
        del numbers, now
        return {}, _NOTHING

    def gradient(self, of: ParameterState) -> torch.Tensor:
        """Return the gradient with the decay in it."""
        gradient = -of.gradient if self.maximize else of.gradient
        return gradient + self.weight_decay * of.value if self.weight_decay else gradient


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decoupled(_Plain):
    """Rules whose decay may be apart from the gradient, as AdamW's is."""

    decoupled_weight_decay: bool = False

    def split(self, of: ParameterState, now: Now) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the parameter after a decay that is apart, and the gradient."""
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

    def kept(self) -> dict[str, float]:
        """The momentum, if there is one."""
        return {"momentum": 0.0} if self.momentum else {}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """The share of a gradient in the momentum; the first is not dampened."""
        del numbers
        if not self.dampening:
            return {}, _NOTHING
        return {}, {"share": torch.where(now.step > 0, 1.0 - self.dampening, 1.0)}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move against the gradient, or the momentum."""
        gradient = self.gradient(of)
        if not self.momentum:
            return of.value - now.lr * gradient, {}
        momentum = now.option("momentum", self.momentum)
        added = common["share"] * gradient if common else gradient
        kept = momentum * of.state["momentum"] + added
        direction = gradient + momentum * kept if self.nesterov else kept
        return of.value - now.lr * direction, {"momentum": kept}


def _next_correction(before: torch.Tensor, beta: float) -> torch.Tensor:
    """Return 1 - beta^(n+1) of 1 - beta^n, without the difference of two numbers that are nearly equal."""
    return before * beta + (1.0 - beta)


def _next_means(
    of: ParameterState, gradient: torch.Tensor, beta1: "float | torch.Tensor", beta2: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean of the gradients and that of their squares, with this step's gradient in both."""
    mean = beta1 * of.state["exp_avg"] + (1.0 - beta1) * gradient
    return mean, beta2 * of.state["exp_avg_sq"] + (1.0 - beta2) * (gradient * gradient)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(_Decoupled):
    """``torch.optim.Adam`` and ``AdamW``."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False

    def kept(self) -> dict[str, float]:
        """Means of gradients and of their squares."""
        largest = {"max_exp_avg_sq": 0.0} if self.amsgrad else {}
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0, **largest}

    def numbers(self) -> dict[str, float]:
        """Return the factors that correct the means for their start at 0."""
        return {"correction1": 0.0, "correction2": 0.0}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Correct the means."""
        kept = {
            name: _next_correction(numbers[name], beta)
            for name, beta in zip(("correction1", "correction2"), self.betas, strict=True)
        }
        # If a beta varies, torch takes the power of its present value.
        first = now.varying.get("correction1", kept["correction1"])
        return kept, {"size": now.lr / first, "scale": torch.sqrt(kept["correction2"])}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move by the mean gradient, relative to the root of the mean square."""
        value, gradient = self.split(of, now)
        beta1 = now.option("beta1", self.betas[0])
        mean, square = _next_means(of, gradient, beta1, self.betas[1])
        kept, largest = {"exp_avg": mean, "exp_avg_sq": square}, square
        if self.amsgrad:
            largest = torch.maximum(of.state["max_exp_avg_sq"], square)
            kept["max_exp_avg_sq"] = largest
        step = mean / (torch.sqrt(largest) / common["scale"] + self.eps)
        return value - common["size"] * step, kept


@dataclass(frozen=True, slots=True, kw_only=True)
class NAdam(_Decoupled):
    """``torch.optim.NAdam``."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    momentum_decay: float = 4e-3

    def kept(self) -> dict[str, float]:
        """Means of gradients and of their squares."""
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def numbers(self) -> dict[str, float]:
        """Return the correction of the mean square, the momentum of the step, and the product of all momenta."""
        return {"correction2": 0.0, "decay_power": 1.0, "mu_product": 1.0}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Weigh the gradient and the mean by the momenta of this step and the next."""
        decay = 0.96**self.momentum_decay
        power = numbers["decay_power"] * decay
        momentum = self.betas[0] * (1.0 - 0.5 * power)
        following = self.betas[0] * (1.0 - 0.5 * (power * decay))
        product = numbers["mu_product"] * momentum
        kept = {
            "correction2": _next_correction(numbers["correction2"], self.betas[1]),
            "decay_power": power,
            "mu_product": product,
        }
        return kept, {
            "of_gradient": now.lr * (1.0 - momentum) / (1.0 - product),
            "of_mean": now.lr * following / (1.0 - product * following),
            "scale": torch.sqrt(kept["correction2"]),
        }

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Adam with Nesterov's momentum."""
        value, gradient = self.split(of, now)
        mean, square = _next_means(of, gradient, *self.betas)
        root = torch.sqrt(square) / common["scale"] + self.eps
        moved = value - (common["of_gradient"] * gradient + common["of_mean"] * mean) / root
        return moved, {"exp_avg": mean, "exp_avg_sq": square}


@dataclass(frozen=True, slots=True, kw_only=True)
class RAdam(_Decoupled):
    """``torch.optim.RAdam``; its rectification is a table, because FP32 could not tell early steps apart."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def kept(self) -> dict[str, float]:
        """Means of gradients and of their squares."""
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def numbers(self) -> dict[str, float]:
        """Return the factor that corrects the mean gradient for its start at 0."""
        return {"correction1": 0.0}

    def rectified(self, step: int) -> float:
        """Return the factor of the n-th step, from 0; 0 where the variance is not known yet."""
        beta2, n = self.betas[1], step + 1
        corrected = 1 - beta2**n
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * n * beta2**n / corrected
        if length <= 5:
            return 0.0
        part = (length - 4) * (length - 2) * longest
        return sqrt(part / ((longest - 4) * (longest - 2) * length) * corrected)

    def tables(self, steps: int) -> dict[str, list[float]]:
        """The factor, as far as it differs from 1 in FP32."""
        differs = 2 if self.betas[1] <= 0.0 else ceil(40 / -log(self.betas[1]))
        return {"rectified": [self.rectified(step) for step in range(min(steps, differs))]}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Correct the mean."""
        correction = _next_correction(numbers["correction1"], self.betas[0])
        return {"correction1": correction}, {"size": now.lr / correction}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Adam where the variance is known, else momentum alone."""
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

    def kept(self) -> dict[str, float]:
        """The mean gradient, and the largest one."""
        return {"exp_avg": 0.0, "exp_inf": 0.0}

    def numbers(self) -> dict[str, float]:
        """Return the factor that corrects the mean gradient for its start at 0."""
        return {"correction1": 0.0}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Correct the mean."""
        correction = _next_correction(numbers["correction1"], self.betas[0])
        return {"correction1": correction}, {"size": now.lr / correction}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move by the mean gradient, relative to the largest."""
        del now
        gradient, (beta1, beta2) = self.gradient(of), self.betas
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

    def kept(self) -> dict[str, float]:
        """The mean square, and what the options ask for."""
        mean = {"grad_avg": 0.0} if self.centered else {}
        return {"square_avg": 0.0, **mean, **({"momentum": 0.0} if self.momentum else {})}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move by the gradient, relative to the root of the mean square."""
        del common
        gradient = self.gradient(of)
        square = self.alpha * of.state["square_avg"] + (1.0 - self.alpha) * (gradient * gradient)
        kept = {"square_avg": square}
        if self.centered:
            mean = self.alpha * of.state["grad_avg"] + (1.0 - self.alpha) * gradient
            kept["grad_avg"] = mean
            # By rounding, the difference may be below 0.
            square = torch.clamp(square - mean * mean, min=0.0)
        direction = gradient / (torch.sqrt(square) + self.eps)
        if self.momentum:
            momentum = now.option("momentum", self.momentum)
            direction = momentum * of.state["momentum"] + direction
            kept["momentum"] = direction
        return of.value - now.lr * direction, kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Adagrad(_Plain):
    """``torch.optim.Adagrad``."""

    lr_decay: float = 0.0
    eps: float = 1e-10
    initial_accumulator_value: float = 0.0

    def kept(self) -> dict[str, float]:
        """The sum of squares, which may begin higher than at 0."""
        return {"sum": self.initial_accumulator_value}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """Shrink the learning rate."""
        del numbers
        if not self.lr_decay:
            return {}, {"size": now.lr}
        return {}, {"size": now.lr / (1.0 + now.step.to(torch.float32) * self.lr_decay)}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move by the gradient, relative to the root of the sum of squares."""
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

    def kept(self) -> dict[str, float]:
        """Mean squares of gradients and of steps."""
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move by the gradient, in units of earlier steps."""
        del common
        gradient, rho = self.gradient(of), self.rho
        square = rho * of.state["square_avg"] + (1.0 - rho) * (gradient * gradient)
        before = of.state["acc_delta"]
        delta = torch.sqrt(before + self.eps) / torch.sqrt(square + self.eps) * gradient
        kept = {"square_avg": square, "acc_delta": rho * before + (1.0 - rho) * (delta * delta)}
        return of.value - now.lr * delta, kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Rprop(_Plain):
    """``torch.optim.Rprop``, whose learning rate is the size of each element's first step and nothing else."""

    lr: float = 1e-2
    etas: tuple[float, float] = (0.5, 1.2)
    step_sizes: tuple[float, float] = (1e-6, 50.0)

    def kept(self) -> dict[str, float]:
        """The gradient of the step before, and how far each element moves."""
        return {"prev": 0.0, "step_size": self.lr}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move farther as long as the gradient keeps its sign; where it turned, stay, and move less from then on."""
        del now, common
        gradient, (shrink, grow) = self.gradient(of), self.etas
        product = gradient * of.state["prev"]
        turned = product < 0
        factor = torch.where(product > 0, grow, torch.where(turned, shrink, 1.0))
        size = torch.clamp(of.state["step_size"] * factor, *self.step_sizes)
        gradient = torch.where(turned, 0.0, gradient)
        return of.value - torch.sign(gradient) * size, {"prev": gradient, "step_size": size}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adafactor(_Plain):
    """``torch.optim.Adafactor`` (arXiv 1804.04235): of a matrix it keeps the mean squares of rows and of columns."""

    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = 1.0

    def kept(self) -> dict[str, float]:
        """Mean squares: of rows and columns, or of elements where there are none."""
        return {"row_var": 0.0, "col_var": 0.0, "variance": 0.0}

    def shapes(self, shape: torch.Size) -> dict[str, torch.Size]:
        """One number for each row and each column of the last two dimensions."""
        if len(shape) < 2:
            return {"variance": shape}
        rows, columns = (*shape[:-1], 1), (*shape[:-2], 1, *shape[-1:])
        return {"row_var": torch.Size(rows), "col_var": torch.Size(columns)}

    def begin(self, numbers: Tensors, now: Now) -> tuple[dict[str, torch.Tensor], Tensors]:
        """The share of the new squares in their mean, and the size of a step relative to the parameter."""
        del numbers
        number = (now.step + 1).to(torch.float32)
        share = torch.exp(self.beta2_decay * torch.log(number))
        return {}, {"share": share, "size": torch.minimum(now.lr, 1.0 / torch.sqrt(number))}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move by the gradient, relative to the root of the mean square as rows and columns tell it."""
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
        kept = {name: before + common["share"] * (means[name]() - before) for name, before in of.state.items()}
        if "variance" in kept:
            variance = kept["variance"]
        else:
            scale = torch.clamp(kept["row_var"].mean(-2, keepdim=True), min=least)
            variance = kept["row_var"] * kept["col_var"] / scale
        step = gradient / torch.sqrt(torch.clamp(variance, min=least * least))
        factor = torch.clamp(_root_mean_square(step) / self.d, min=1.0)
        return value - (size / factor) * step, kept


def _root_mean_square(values: torch.Tensor) -> torch.Tensor:
    return torch.sqrt((values * values).mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class LionRule(_Decoupled):
    """Lion (arXiv 2302.06675): the sign of a mean that leans to the gradient."""

    betas: tuple[float, float] = (0.9, 0.99)
    decoupled_weight_decay: bool = True

    def kept(self) -> dict[str, float]:
        """The mean gradient."""
        return {"exp_avg": 0.0}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Move by a step of one size in each element."""
        del common
        value, gradient = self.split(of, now)
        beta1, beta2 = self.betas
        mean = of.state["exp_avg"]
        direction = torch.sign(beta1 * mean + (1.0 - beta1) * gradient)
        return value - now.lr * direction, {"exp_avg": beta2 * mean + (1.0 - beta2) * gradient}


@dataclass(frozen=True, slots=True, kw_only=True)
class Muon(_Plain):
    """``torch.optim.Muon``: momentum whose singular values are brought near 1, in FP32 where torch has bfloat16."""

    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315)
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: str | None = None

    def kept(self) -> dict[str, float]:
        """The momentum."""
        return {"momentum_buffer": 0.0}

    def update(self, of: ParameterState, now: Now, common: Tensors) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Decay apart from the gradient, and move by a matrix with nearly equal singular values."""
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
        """Return the matrix after the iterations of Newton and Schulz, which go on with the shorter side as rows."""
        is_tall = matrix.shape[0] > matrix.shape[1]
        found = matrix.T if is_tall else matrix
        found = found / torch.clamp(torch.sqrt((found * found).sum()), min=self.eps)
        a, b, c = self.ns_coefficients
        for _ in range(self.ns_steps):
            gram = found @ found.T
            found = a * found + (b * gram + c * (gram @ gram)) @ found
        return found.T if is_tall else found
