"""The three functions of a job (``step``, ``outer``, ``eval``) as Python over named tensors, ready to be traced."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch._dynamo
from torch import nn

from pol.errors import JobError
from pol.job.document import BATCH_NUMBER, STEP
from pol.tracing.accumulation import accumulated
from pol.tracing.checkpoints import repeatable_checkpoints
from pol.tracing.dropout import EVALUATION, SeededDropout
from pol.tracing.exchange import exchanged
from pol.tracing.groups import Group, trained_groups
from pol.tracing.habits import refusing
from pol.tracing.model import own_tensors
from pol.tracing.optimizers import InnerOptimizer, averages, clip, clip_values, outer_update
from pol.tracing.origin import Measuring
from pol.tracing.precision import gradient
from pol.tracing.spec import Batch, JobSpec, Measure
from pol.tracing.trace import trace_program

Tensors = Mapping[str, torch.Tensor]
_NO_GRAPH = "does not require grad and does not have a grad_fn"
"""What torch says where gradients are taken of what has no graph."""
_LOSS, _SUM, _PART = "metric.loss", "sum", "part"
"""Names of values while a batch is gone through in parts; the first one is a metric, for precision."""


def under(prefix: str, tensors: Tensors) -> dict[str, torch.Tensor]:
    """Return the tensors whose names start with ``prefix`` and a dot, without it."""
    return {
        name[len(prefix) + 1 :]: tensor
        for name, tensor in tensors.items()
        if name.startswith(f"{prefix}.")
    }


def named(prefix: str, tensors: Tensors) -> dict[str, torch.Tensor]:
    """Return the tensors with ``prefix`` and a dot before their names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


class Measured(Measuring):
    """A measure as the forward of a module, so that ``functional_call`` can put other weights into the model."""

    def __init__(self, model: nn.Module, measure: Measure, field: str) -> None:
        super().__init__(model)
        self._measure, self._field = measure, field

    def forward(self, batch: Batch) -> torch.Tensor:
        """Return what is measured, as FP32 of shape ()."""
        value: object = self._measure(self.model, batch)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise JobError(
                self._field, "does not return one number", "return a tensor of one element"
            )
        if not value.is_floating_point():
            raise JobError(self._field, f"returns {value.dtype}", "return float32")
        return value.float().reshape(())


class _Differentiated(Measured):
    """A measure and its gradients, while the other weights are in the model: checkpointed parts run again for them."""

    def __init__(
        self, model: nn.Module, measure: Measure, field: str, leaves: Sequence[torch.Tensor]
    ) -> None:
        super().__init__(model, measure, field)
        self._leaves = tuple(leaves)

    def forward(self, batch: Batch) -> Any:
        loss = super().forward(batch)
        if not loss.requires_grad:
            reason = "depends on no weight that is trained"
            remedy = "leave .detach(), torch.no_grad() and argmax out of what it is made of"
            raise JobError(self._field, reason, remedy)
        return loss, torch.autograd.grad(loss, self._leaves, allow_unused=True)


def measured(
    model: nn.Module, measure: Measure, weights: Tensors, batch: Batch, field: str
) -> torch.Tensor:
    """Return ``measure`` of the model with other weights and buffers."""
    part = Measured(model, measure, field)
    try:
        value, _ = _called(part, weights, batch)
    except RuntimeError as error:
        if _NO_GRAPH not in str(error):
            raise
        # it takes gradients by weights itself, for which there are graphs in training only
        leaves = {name: tensor.detach() for name, tensor in weights.items()}
        for leaf in filter(torch.is_floating_point, leaves.values()):
            leaf.requires_grad_()
        value, _ = _called(part, leaves, batch)
        value = value.detach()
    assert isinstance(value, torch.Tensor)
    return value


def _called(part: Measured, weights: Tensors, batch: Batch) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return what a measure gives with other weights and buffers, and what became of these."""
    given = {name: weights[name] for name in own_tensors(part.model) if name in weights}
    with as_written(), refusing(), exchanged(part.model, given) as read:
        value = part(batch)
        after = read()
    return value, {name: tensor.detach() for name, tensor in after.items()}


def _hooked(parameter: nn.Parameter, gradient: torch.Tensor) -> torch.Tensor:
    """Return a gradient as the parameter's own hooks make it."""
    for hook in (parameter._backward_hooks or {}).values():
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    return gradient


@contextmanager
def as_written() -> Iterator[None]:
    """Run parts that ``torch.compile`` made as they were written, also while they are traced."""
    traced = torch._dynamo.config.patch(error_on_nested_fx_trace=False)
    with traced, torch.compiler.set_stance("force_eager"):
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set a model and all its parts to the mode of evaluation, and put the modes back."""
    with _modes_put_back(model):
        model.eval()
        yield


@contextmanager
def training(model: nn.Module) -> Iterator[None]:
    """Set a model to the mode of training, but for :func:`parts_in_eval`, and put the modes back."""
    with _modes_put_back(model):
        parts = parts_in_eval(model)
        # a model may have a train() of its own that keeps some parts in the other mode
        model.train()
        for _, part in parts:
            part.training = False
        yield


def parts_in_eval(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the parts that a training step leaves in the mode of evaluation, because ``job()`` has set them to it.

    A model that is in that mode as a whole, as ``from_pretrained`` returns it, has none: a training loop begins with
    ``model.train()``.
    """
    parts = [(name, part) for name, part in model.named_modules() if not part.training]
    return parts if any(part.training for part in model.modules()) else []


@contextmanager
def _modes_put_back(model: nn.Module) -> Iterator[None]:
    before = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in before:
            module.training = mode


def batch_norms(model: nn.Module) -> list[tuple[str, nn.modules.batchnorm._BatchNorm]]:
    """Return the layers of a model that keep statistics of batches, by name."""
    kind = nn.modules.batchnorm._BatchNorm
    return [(name, part) for name, part in model.named_modules() if isinstance(part, kind)]


class JobFunctions:
    """The three functions of one job."""

    def __init__(self, spec: JobSpec, steps: int, rows: int = 1, first: int = 0) -> None:
        """Make the functions of a job with so many rows of data, whose steps are ``first`` to ``steps`` - 1."""
        self._spec = spec
        groups = trained_groups(spec, steps, rows, first)
        chosen = {name for group in groups for name in group.names}
        self._trained = [name for name, _ in spec.model.named_parameters() if name in chosen]
        self.optimizer = InnerOptimizer(groups)
        """What moves the parameters in a step."""
        self._rates = [group.lr for group in groups]
        self._groups = groups
        self.values: Tensors = {}
        """What inputs of a step that no optimizer moves begin with: see :func:`trace_program`."""

    @property
    def trained(self) -> list[str]:
        """Names of the parameters that the step changes."""
        return self._trained

    @property
    def groups(self) -> Sequence[Group]:
        """Parameters by the rule that moves them."""
        return self._groups

    @property
    def course(self) -> Sequence[float]:
        """Learning rates by step, of the first group whose rate is not the same in all."""
        return next((rate.values.tolist() for rate in self._rates if not rate.is_constant), [])

    def initial_local(self, state: Tensors) -> dict[str, torch.Tensor]:
        """Return the local state of a slot before its first step."""
        return self.optimizer.initial({name: state[name] for name in self._trained})

    def step(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """One training step: forward, backward, clipping, schedule and optimizer."""
        spec = self._spec
        state, local, batch = (under(part, inputs) for part in ("global", "local", "batch"))
        leaves = {name: state[name].detach().requires_grad_() for name in self._trained}
        current = {**state, **leaves}
        if spec.accumulate == 1:
            loss, found = self._backward(current, leaves, batch, inputs[BATCH_NUMBER])
        else:
            loss, found = self._accumulated(current, batch, inputs[BATCH_NUMBER])
        gradients = {name: gradient(part, name) for name, part in found.items()}
        if spec.clip_value is not None:
            gradients = clip_values(gradients, spec.clip_value)
        if spec.clip_norm is not None:
            gradients = clip(gradients, spec.clip_norm)
        # what a forward pass writes into a weight is there before the optimizer moves it
        weights = {name: current[name].detach() for name in self._trained}
        moved, kept = self.optimizer.update(weights, gradients, local, inputs[STEP])
        after = {name: current[name].detach() for name in self._handed_on() if name in current}
        return {
            **named("global", {**after, **moved, **averages(spec.ema, state, moved)}),
            **named("local", kept),
            "metric.loss": loss,
        }

    def forward(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """The loss of a step alone."""
        state, batch = under("global", inputs), under("batch", inputs)
        with training(self._spec.model), SeededDropout(inputs[BATCH_NUMBER]):
            return {
                "metric.loss": measured(self._spec.model, self._spec.loss, state, batch, "loss")
            }

    def _backward(
        self,
        current: dict[str, torch.Tensor],
        leaves: Tensors,
        batch: Tensors,
        number: torch.Tensor,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the loss of a batch and its gradient for each parameter that has one; draws are of ``number``.

        Tensors of the model in ``current`` become what the forward pass makes of them.
        """
        spec = self._spec
        draws = SeededDropout(number)
        part = _Differentiated(spec.model, spec.loss, "loss", list(leaves.values()))
        with training(spec.model), draws, repeatable_checkpoints(draws):
            (loss, found), after = _called(part, current, batch)
        current.update(after)
        parameters = dict(spec.model.named_parameters())
        slopes = zip(leaves, found, strict=True)
        return loss.detach(), {
            name: _hooked(parameters[name], slope) for name, slope in slopes if slope is not None
        }

    def _accumulated(
        self, current: dict[str, torch.Tensor], batch: Tensors, number: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the mean loss of a batch's parts, and its gradients; ``current`` becomes what all parts made of it."""
        spec, count = self._spec, self._spec.accumulate
        handed_on = [name for name in self._handed_on() if name in current]
        sums = named(_SUM, {name: torch.zeros_like(current[name]) for name in self._trained})
        before = {name: current[name].detach() for name in handed_on}
        carried = {_LOSS: torch.zeros(()), **sums, **named("global", before)}
        parts = {
            name: column.reshape(count, -1, *column.shape[1:]) for name, column in batch.items()
        }

        def part(values: Tensors) -> dict[str, torch.Tensor]:
            state = under("global", values)
            leaves = {name: state[name].detach().requires_grad_() for name in self._trained}
            state |= leaves
            drawn = values[BATCH_NUMBER] * count + values[_PART]
            loss, found = self._backward(state, leaves, under("batch", values), drawn)
            added = {
                f"{_SUM}.{name}": values[f"{_SUM}.{name}"] + gradient(slope, name)
                for name, slope in found.items()
            }
            after = {name: state[name].detach() for name in handed_on}
            return {_LOSS: values[_LOSS] + loss, **added, **named("global", after)}

        sequences = {**named("batch", parts), _PART: torch.arange(count)}
        model = own_tensors(spec.model)
        others = {name: current[name].detach() for name in model if name not in handed_on}
        constants = {**named("global", others), BATCH_NUMBER: number}
        trace = partial(trace_program, precisions=spec.precisions, own=model, values=self.values)
        found = accumulated(part, carried, sequences, constants, trace)
        share = 1.0 / count
        current.update(under("global", found))
        return found[_LOSS] * share, {
            name: value * share for name, value in under(_SUM, found).items()
        }

    def _handed_on(self) -> list[str]:
        """Names of the tensors that a forward pass may change: all but the counts of batches, which nothing needs."""
        model = self._spec.model
        counters = {f"{name}.num_batches_tracked".lstrip(".") for name, _ in batch_norms(model)}
        buffers = [name for name, _ in model.named_buffers() if name not in counters]
        return [*buffers, *dict(model.named_parameters())]

    def outer(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """The end of a round: global state and the slots' mean update to the next global state."""
        state, aggregate = under("global", inputs), under("aggregate", inputs)
        changed = outer_update(self._spec.outer, state, aggregate, self._trained)
        return named("global", changed)

    def evaluate(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """The loss and the job's other metrics of a batch, without dropout; what is drawn is the same each time."""
        spec = self._spec
        state, batch = under("global", inputs), under("batch", inputs)
        number = torch.tensor(EVALUATION)
        with evaluating(spec.model), SeededDropout(number):
            return {
                f"metric.{name}": measured(spec.model, measure, state, batch, f"metrics.{name}")
                for name, measure in {"loss": spec.loss, **spec.metrics}.items()
            }
