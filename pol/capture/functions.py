"""The functions of a job (``step``, ``close``, ``outer``, ``eval``) as Python functions of named tensors, which can be
captured.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch._dynamo
from torch import nn

from pol.capture.author.spec import Batch, JobSpec, Measure
from pol.capture.codecs.codec import Codec
from pol.capture.draws.checkpoints import repeatable_checkpoints
from pol.capture.draws.dropout import EVALUATION, SeededDropout
from pol.capture.graph.capture import capture_program
from pol.capture.graph.precision import gradient, inner_loss, later_weight
from pol.capture.idioms.habits import refusing
from pol.capture.loops.accumulation import accumulated
from pol.capture.model.exchange import exchanged
from pol.capture.model.plain_model import own_tensors
from pol.capture.optim.gradient_at import GradientAt
from pol.capture.optim.groups import Group, trained_groups
from pol.capture.optim.optimizers import InnerOptimizer, aggregation, averages, clip, clip_values, outer_update
from pol.capture.reports.origin import Measuring
from pol.errors import JobError
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.updates import AGGREGATE, END, LOCAL, OPENING, UPDATE, UPDATES

Tensors = Mapping[str, torch.Tensor]
_NO_GRAPH = "does not require grad and does not have a grad_fn"
"""Part of the error message of torch if a caller requests the gradient of a value that has no graph."""
_LOSS, _SUM, _PART = "metric.loss", "sum", "part"
"""Names of values in the loop over the parts of a batch.

The name of the loss is that of a metric, because products on which an output ``metric.…`` depends get the precision of
the forward pass.
"""


def under(prefix: str, tensors: Tensors) -> dict[str, torch.Tensor]:
    """Return the tensors whose names begin with ``prefix`` and a dot, under names without this beginning."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def named(prefix: str, tensors: Tensors) -> dict[str, torch.Tensor]:
    """Return the tensors under new names: ``prefix``, a dot, and the old name."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


class MeasuredModule(Measuring):
    """A module whose forward pass computes a loss or metric.

    In this form, torch can call the model with other weights.
    """

    def __init__(self, model: nn.Module, measure: Measure, field: str) -> None:
        super().__init__(model)
        self._measure, self._field = measure, field

    def forward(self, batch: Batch) -> torch.Tensor:
        """Return the loss or metric as FP32 of shape ()."""
        value: object = self._measure(self.model, batch)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise JobError(
                self._field, "does not return one number", "return a tensor of one element, such as loss.mean()"
            )
        if not value.is_floating_point():
            raise JobError(self._field, f"returns {value.dtype}", "return a float32 number, such as value.float()")
        return value.float().reshape(())


class _Differentiated(MeasuredModule):
    """A module whose forward pass computes a loss and its gradients.

    Both are computed while the model has other weights, because checkpointed parts run again for the gradients.
    """

    def __init__(self, model: nn.Module, measure: Measure, field: str, leaves: Sequence[torch.Tensor]) -> None:
        super().__init__(model, measure, field)
        self._leaves = tuple(leaves)

    def forward(self, batch: Batch) -> Any:
        loss = super().forward(batch)
        if not loss.requires_grad:
            reason = "does not depend on any trained weight"
            remedy = "leave .detach(), torch.no_grad() and argmax out of its computation"
            raise JobError(self._field, reason, remedy)
        return loss, torch.autograd.grad(loss, self._leaves, allow_unused=True)


def measured(model: nn.Module, measure: Measure, weights: Tensors, batch: Batch, field: str) -> torch.Tensor:
    """Return the loss or metric of a batch, computed with ``weights`` in place of the model's own tensors."""
    part = MeasuredModule(model, measure, field)
    try:
        value, _ = _called(part, weights, batch)
    except RuntimeError as error:
        if _NO_GRAPH not in str(error):
            raise
        # the measure itself computes gradients with respect to weights, so the weights must require gradients here
        leaves = {name: tensor.detach() for name, tensor in weights.items()}
        for leaf in filter(torch.is_floating_point, leaves.values()):
            leaf.requires_grad_()
        value, _ = _called(part, leaves, batch)
        value = value.detach()
    assert isinstance(value, torch.Tensor)
    return value


def _called(part: MeasuredModule, weights: Tensors, batch: Batch) -> tuple[Any, dict[str, torch.Tensor]]:
    """Call a measure with ``weights`` as the model's tensors; return its result, and the tensors after the call."""
    replaced = {name: weights[name] for name in own_tensors(part.model) if name in weights}
    with as_written(), refusing(), exchanged(part.model, replaced) as read:
        value = part(batch)
        after = read()
    return value, {name: tensor.detach() for name, tensor in after.items()}


def _hooked(parameter: nn.Parameter, gradient: torch.Tensor) -> torch.Tensor:
    """Call the hooks of a parameter on its gradient, and return the gradient that they give."""
    for hook in (parameter._backward_hooks or {}).values():
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    return gradient


@contextmanager
def as_written() -> Iterator[None]:
    """Run parts made by ``torch.compile`` in eager mode within this context, also during the capture."""
    captured = torch._dynamo.config.patch(error_on_nested_fx_trace=False)
    with captured, torch.compiler.set_stance("force_eager"):
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set a model and all its parts to eval mode, and restore their modes afterwards."""
    with _modes_put_back(model):
        model.eval()
        yield


@contextmanager
def training(model: nn.Module) -> Iterator[None]:
    """Set a model, except :func:`parts_in_eval`, to training mode, and restore the modes afterwards."""
    with _modes_put_back(model):
        parts = parts_in_eval(model)
        # a model may have a train() of its own that keeps some parts in eval mode
        model.train()
        for _, part in parts:
            part.training = False
        yield


def parts_in_eval(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the parts that a training step leaves in eval mode, because ``job()`` has set them to eval mode.

    If the whole model is in eval mode, as ``from_pretrained`` returns it, return no parts: a usual training loop calls
    ``model.train()`` for such a model.
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
    """Return the names and the batch norms of a model."""
    kind = nn.modules.batchnorm._BatchNorm
    return [(name, part) for name, part in model.named_modules() if isinstance(part, kind)]


@dataclass(frozen=True, slots=True)
class PhaseUpdates:
    """A phase of a step: its specification as a job, its optimizer, and the names of the parameters that it moves."""

    name: str
    metric: str
    spec: JobSpec
    repeat: int
    optimizer: InnerOptimizer
    groups: Sequence[Group]
    trained: Sequence[str]

    @property
    def field(self) -> str:
        """Name of the phase's loss in errors."""
        return f"phases.{self.name}.loss" if self.name else "loss"

    def named(self, local: Tensors) -> dict[str, torch.Tensor]:
        """Return the phase's local state under the names that its tensors have in the job's local state."""
        return named(self.name, local) if self.name else dict(local)

    def local_of(self, local: Tensors) -> Tensors:
        """Return the part of the job's local state that belongs to the phase, under the phase's own names."""
        return under(self.name, local) if self.name else local


def _updating(spec: JobSpec, steps: int, rows: int, first: int) -> list[PhaseUpdates]:
    """Return the phases of a job; a job without phases has one, named ""."""
    phases = []
    for (name, own), metric in zip(spec.each_phase().items(), spec.losses, strict=True):
        repeat = spec.phases[name].repeat if name else 1
        try:
            groups = trained_groups(own, steps, rows, first, repeat)
        except JobError as error:
            raise (error.under(f"phases.{name}") if name else error) from None
        chosen = {parameter for group in groups for parameter in group.names}
        elsewhere = own.optimizer if isinstance(own.optimizer, GradientAt) else None
        phases.append(
            PhaseUpdates(
                name=name,
                metric=metric,
                spec=own,
                repeat=repeat,
                optimizer=InnerOptimizer(groups, elsewhere),
                groups=groups,
                trained=[n for n, _ in spec.model.named_parameters() if n in chosen],
            )
        )
    return phases


class JobFunctions:
    """The functions of one job."""

    def __init__(self, spec: JobSpec, steps: int, rows: int = 1, first: int = 0) -> None:
        """Prepare the functions of a job with ``rows`` rows of data and the steps ``first`` to ``steps`` - 1."""
        self._spec = spec
        self._phases = _updating(spec, steps, rows, first)
        chosen = {name for phase in self._phases for name in phase.trained}
        self._trained = [name for name, _ in spec.model.named_parameters() if name in chosen]
        self.codec: Codec | None = None
        """The codec of updates; None if they are not coded."""
        self.values: Tensors = {}
        """Initial values of inputs of a step that no optimizer moves: see :func:`capture_program`."""

    @property
    def trained(self) -> list[str]:
        """Names of the parameters that optimizers move."""
        return self._trained

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the losses that a step reports."""
        return tuple(self._spec.losses)

    @property
    def phases(self) -> Sequence[PhaseUpdates]:
        """The phases of a step, in their order."""
        return self._phases

    @property
    def groups(self) -> Sequence[Group]:
        """Groups of parameters that share an update rule, of all phases."""
        return [group for phase in self._phases for group in phase.groups]

    @property
    def course(self) -> Sequence[float]:
        """Learning rates, step by step, of the first group whose rate changes; empty if all rates are constant."""
        rates = [group.lr for group in self.groups]
        return next((rate.values.tolist() for rate in rates if not rate.is_constant), [])

    def initial_local(self, state: Tensors) -> dict[str, torch.Tensor]:
        """Return the local state of a slot before its first step."""
        local = {}
        for phase in self._phases:
            own = phase.optimizer.initial({name: state[name] for name in phase.trained})
            local.update(phase.named(own))
        return local

    def step(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Compute a training step: forward, backward, clipping, schedule and optimizer, one phase after another."""
        spec = self._spec
        state, local, batch = (under(part, inputs) for part in ("global", "local", "batch"))
        passing = _Passing(
            step=inputs[STEP],
            number=inputs[BATCH_NUMBER],
            current=dict(state),
            local=dict(local),
        )
        moved: set[str] = set()
        kept: dict[str, torch.Tensor] = {}
        metrics: dict[str, torch.Tensor] = {}
        for phase in self._phases:
            for number in range(phase.repeat):
                rows = rows_of_part(batch, spec.parts, spec.parts - phase.repeat + number)
                # weights that an earlier update of this step has moved are marked as inputs of this update
                current = passing.current
                current.update({n: later_weight(current[n], n) for n in self._trained if n in moved})
                loss, weights, own = self._updated(phase, passing, rows, number)
                passing.current.update(weights)
                moved.update(weights)
                passing.local.update(own)
                kept.update(own)
                before = metrics.get(phase.metric)
                metrics[phase.metric] = loss if before is None else before + loss
            if phase.repeat > 1:
                metrics[phase.metric] = metrics[phase.metric] / phase.repeat
        after = {n: passing.current[n].detach() for n in self._names_forward_may_change() if n in passing.current}
        weights = {name: passing.current[name] for name in self._trained if name in moved}
        return {
            **named("global", {**after, **weights, **averages(spec.ema, state, weights)}),
            **named("local", kept),
            **named("metric", metrics),
        }

    def _updated(
        self, phase: PhaseUpdates, passing: "_Passing", batch: Tensors, number: int
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Compute one update; return its loss, and the weights and the local state after it.

        ``number`` counts the updates of the phase within the step.
        """
        spec, optimizer = phase.spec, phase.optimizer
        step = passing.step if phase.repeat == 1 else passing.step * phase.repeat + number
        loss, gradients = self._gradients(phase, passing, batch)
        # the optimizer moves the weights that the forward pass left, because it may have written to them
        weights = {name: passing.current[name].detach() for name in phase.trained}
        point = optimizer.point(weights, gradients, step)
        if point is not None:
            there = {name: later_weight(value, name) for name, value in point.items()}
            passing.current.update(there)
            second, gradients = self._gradients(phase, passing, batch)
            inner_loss(second)
            passing.current.update(weights)
        if spec.clip_value is not None:
            gradients = clip_values(gradients, spec.clip_value)
        if spec.clip_norm is not None:
            gradients = clip(gradients, spec.clip_norm)
        local = phase.local_of(passing.local)
        draws = SeededDropout(passing.number, passing.site) if optimizer.draws else nullcontext()
        with draws as drawing:
            moved, kept = optimizer.update(weights, gradients, local, step)
        if drawing is not None:
            passing.site = drawing.sites.next
        return loss, moved, phase.named(kept)

    def forward(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Compute only the losses of a step."""
        state, batch = under("global", inputs), under("batch", inputs)
        rows = rows_of_part(batch, self._spec.parts, 0)
        with training(self._spec.model), SeededDropout(inputs[BATCH_NUMBER]):
            return {
                f"metric.{phase.metric}": measured(self._spec.model, phase.spec.loss, state, rows, phase.field)
                for phase in self._phases
            }

    def _gradients(
        self, phase: PhaseUpdates, passing: "_Passing", batch: Tensors
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the loss of a phase and the gradients of its parameters."""
        if phase.spec.accumulate > 1:
            loss, gradients = self._accumulated(phase, passing, batch)
        else:
            loss, gradients = self._backward(phase, passing, batch, passing.number)
        return loss, {name: gradient(part, name) for name, part in gradients.items()}

    def _backward(
        self, phase: PhaseUpdates, passing: "_Passing", batch: Tensors, number: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the loss of a batch and its gradients by parameter; ``number`` is the batch number for random draws.

        ``passing.current`` afterwards has the model's tensors as the forward pass leaves them.
        """
        spec = phase.spec
        leaves = {n: passing.current[n].detach().requires_grad_() for n in phase.trained}
        draws = SeededDropout(number, passing.site)
        part = _Differentiated(spec.model, spec.loss, phase.field, list(leaves.values()))
        with training(spec.model), draws, repeatable_checkpoints(draws):
            (loss, gradients), after = _called(part, {**passing.current, **leaves}, batch)
        passing.site = draws.sites.next
        passing.current.update(after)
        parameters = dict(spec.model.named_parameters())
        slopes = zip(leaves, gradients, strict=True)
        return loss.detach(), {name: _hooked(parameters[name], slope) for name, slope in slopes if slope is not None}

    def _accumulated(
        self, phase: PhaseUpdates, passing: "_Passing", batch: Tensors
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the mean loss of a batch's parts and its gradients, computed in one loop over the parts.

        ``passing.current`` afterwards has the model's tensors as the last part leaves them.
        """
        spec = self._spec
        count = spec.accumulate
        current = passing.current
        changing = [name for name in self._names_forward_may_change() if name in current]
        sums = named(_SUM, {name: torch.zeros_like(current[name]) for name in phase.trained})
        before = {name: current[name].detach() for name in changing}
        carried = {_LOSS: torch.zeros(()), **sums, **named("global", before)}
        parts = {name: column.reshape(count, -1, *column.shape[1:]) for name, column in batch.items()}
        site = passing.site

        def part(values: Tensors) -> dict[str, torch.Tensor]:
            drawn = values[BATCH_NUMBER] * count + values[_PART]
            within = replace(passing, current=under("global", values), site=site)
            loss, gradients = self._backward(phase, within, under("batch", values), drawn)
            passing.site = within.site
            added = {
                f"{_SUM}.{name}": values[f"{_SUM}.{name}"] + gradient(slope, name) for name, slope in gradients.items()
            }
            after = {name: within.current[name].detach() for name in changing}
            return {_LOSS: values[_LOSS] + loss, **added, **named("global", after)}

        sequences = {**named("batch", parts), _PART: torch.arange(count)}
        model = own_tensors(spec.model)
        others = {name: current[name].detach() for name in model if name not in changing}
        constants = {**named("global", others), BATCH_NUMBER: passing.number}
        capture = partial(capture_program, precisions=spec.precisions, own=model, values=self.values)
        totals = accumulated(part, carried, sequences, constants, capture)
        share = 1.0 / count
        current.update(under("global", totals))
        return totals[_LOSS] * share, {name: value * share for name, value in under(_SUM, totals).items()}

    def _names_forward_may_change(self) -> list[str]:
        """Return the names of the model's tensors that a forward pass may change.

        These are all tensors except the batch counters of batch norms, which a job does not use.
        """
        model = self._spec.model
        counters = {f"{name}.num_batches_tracked".lstrip(".") for name, _ in batch_norms(model)}
        buffers = [name for name, _ in model.named_buffers() if name not in counters]
        return [*buffers, *dict(model.named_parameters())]

    def outer(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Compute the next global state at the end of a round.

        It is computed from the current global state and the mean of the slots' updates. With a codec, the updates of
        all slots take the place of the mean.
        """
        state, codec = under("global", inputs), self.codec
        mean = under(AGGREGATE, inputs) if codec is None else codec.decode(under(UPDATES, inputs))
        outer = self._spec.outer_of_mean
        kind = aggregation(outer, codec is not None)
        return named("global", outer_update(outer, kind, state, mean, self._trained))

    def close(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Code the update of a slot at the end of a round; only a job with a codec has this function."""
        opening, closing, local = (under(part, inputs) for part in (OPENING, END, LOCAL))
        assert self.codec is not None
        moved = {name: value - closing[name] for name, value in opening.items()}
        update, after = self.codec.encode(moved, local)
        return {**named(UPDATE, update), **named(LOCAL, after)}

    def evaluate(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Compute the losses and metrics of a batch without dropout. All other random draws are the same in each
        evaluation.
        """
        spec = self._spec
        state, batch = under("global", inputs), under("batch", inputs)
        number = torch.tensor(EVALUATION)
        with evaluating(spec.model), SeededDropout(number):
            return {
                f"metric.{name}": measured(spec.model, measure, state, batch, f"metrics.{name}")
                for name, measure in {**spec.losses, **spec.metrics}.items()
            }


@dataclass(slots=True)
class _Passing:
    """Values that an update passes to the next update: the model's tensors, the local state, and the next site of
    random numbers.
    """

    step: torch.Tensor
    number: torch.Tensor
    current: dict[str, torch.Tensor]
    local: dict[str, torch.Tensor]
    site: int = 0


def rows_of_part(batch: Tensors, parts: int, number: int) -> Tensors:
    """Divide the rows of a batch into ``parts`` equal parts, and return the part with this ``number``."""
    if parts == 1:
        return batch
    part = {}
    for name, column in batch.items():
        rows = column.shape[0] // parts
        part[name] = column[number * rows : (number + 1) * rows]
    return part
