"""Optimizers whose gradient is taken at weights other than the current ones, such as sharpness-aware minimization."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from pol.capture.optim.update_rules import Loss, RuleStep, called, check_returned
from pol.capture.reports.origin import place_of_function
from pol.errors import JobError

Point = Callable[[list[Tensor], list[Tensor], RuleStep], list[Tensor]]
"""Function of all parameters, their gradients and the step; it returns the weights for the second gradient."""


class GradientAt(Optimizer):
    """An optimizer that moves the weights by a gradient that is taken at other weights; a function computes these other
    weights.

    Each step computes the loss and its gradients twice on the same rows. The first time is at the current weights. The
    second time is at the weights that ``point(parameters, gradients, step)`` returns. ``point`` gets lists of all
    parameters that have a gradient, and of their gradients. ``base``, an optimizer of torch or an
    ``assay.update_rule``, then moves the current weights by the second gradient. ``step`` has the learning rate of the
    first group. The reported loss is the one at the current weights.

    Example::

        def ahead(parameters, gradients, step):
            return [p - step.lr * g for p, g in zip(parameters, gradients, strict=True)]

        extragradient = assay.GradientAt(torch.optim.SGD(model.parameters(), 0.1), ahead)
    """

    def __init__(self, base: Optimizer, point: Point) -> None:
        kind: object = base
        if not isinstance(kind, Optimizer) or isinstance(kind, GradientAt):
            remedy = "give an optimizer of torch, such as torch.optim.SGD(model.parameters(), 0.1), as base"
            raise JobError("optimizer", f"its base is {type(base).__name__}, not an optimizer of torch", remedy)
        function: object = point
        if not callable(function):
            remedy = "give a function (parameters, gradients, step) that returns the list of weights"
            raise JobError("optimizer", f"{type(point).__name__} is not a function", remedy)
        super().__init__(base.param_groups, {})
        self.base, self.point = base, point
        self.param_groups, self.state = base.param_groups, base.state
        self.steps = 0
        """Number of steps that the optimizer has made."""

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes for a copy of the optimizer, because torch would copy only the attributes that it
        knows.
        """
        return {**super().__getstate__(), **self.__dict__}

    @torch.no_grad()
    def step(self, closure: Loss | None = None) -> Tensor:  # type: ignore[override]
        """Move all parameters; ``closure``, which is called twice, computes the loss and calls ``backward()``."""
        if closure is None:
            reason = "it needs a second gradient in each step"
            raise JobError("optimizer", reason, "call step(closure) with a function that computes loss and gradients")
        with torch.enable_grad():
            first = closure()
        own = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        before = [p.detach().clone() for p in own]
        group = self.param_groups[0]
        step = RuleStep(
            number=torch.tensor(self.steps),
            lr=torch.tensor(float(group["lr"])),
            options={},
            numbers={},
        )
        for parameter, value in zip(own, elsewhere(self, before, [p.grad for p in own], step), strict=True):
            parameter.copy_(value)
        self.zero_grad()
        with torch.enable_grad():
            closure()
        for parameter, value in zip(own, before, strict=True):
            parameter.copy_(value)
        self.base.step()
        self.steps += 1
        return first


def elsewhere(optimizer: GradientAt, parameters: list[Tensor], gradients: list[Tensor], step: RuleStep) -> list[Tensor]:
    """Return the weights for the second gradient."""
    shapes = [parameter.shape for parameter in parameters]
    field = "optimizer, point"
    copies = [value.clone() for value in parameters], [value.clone() for value in gradients]
    weights = called(optimizer.point, field, *copies, step)
    where = str(place_of_function(optimizer.point, field))
    if not isinstance(weights, list | tuple) or len(weights) != len(shapes):
        reason = f"the function returns {type(weights).__name__}, not a list of {len(shapes)} tensors"
        raise JobError(where, reason, "return a list with a tensor for each parameter")
    for index, (value, shape) in enumerate(zip(weights, shapes, strict=True)):
        check_returned(where, f"parameter {index}", value, shape)
    return list(weights)


class SAM(GradientAt):
    """Sharpness-aware minimization (arXiv 2010.01412): the gradient at the highest loss within the distance ``rho``.

    If ``adaptive`` is true, the distance is measured relative to each weight (ASAM, arXiv 2102.11600).

    Example::

        base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        job = assay.JobSpec(..., optimizer=assay.SAM(base, rho=0.05))
    """

    def __init__(self, base: Optimizer, rho: float = 0.05, adaptive: bool = False) -> None:
        value: object = rho
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < rho < float("inf"):
            raise JobError("optimizer.rho", f"{rho!r} is not a positive number", "give a positive number, such as 0.05")
        self.rho, self.adaptive = rho, adaptive
        super().__init__(base, self._highest)

    def _highest(self, parameters: list[Tensor], gradients: list[Tensor], step: RuleStep) -> list[Tensor]:
        """Return the weights at distance ``rho`` in the direction of the gradient."""
        del step
        scales = [value.abs() if self.adaptive else torch.ones_like(value) for value in parameters]
        scaled = [s * g for s, g in zip(scales, gradients, strict=True)]
        squares = torch.stack([(part * part).sum() for part in scaled])
        length = self.rho / (torch.sqrt(squares.sum()) + 1e-12)
        if not self.adaptive:
            return [p + length * g for p, g in zip(parameters, gradients, strict=True)]
        return [p + length * (s * part) for p, s, part in zip(parameters, scales, scaled, strict=True)]
