"""One step of plain torch with the consumer's own objects, which are restored afterwards.

The step uses the job's random numbers, so that it can be compared with the job's step. Everything else is torch's own.
"""

import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.lr_scheduler import LRScheduler
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from pol.capture.author.spec import SGD, AdamW, JobSpec, listed
from pol.capture.draws.checkpoints import repeatable_checkpoints
from pol.capture.draws.dropout import SeededDropout
from pol.capture.functions import (
    JobFunctions,
    MeasuredModule,
    PhaseUpdates,
    as_written,
    rows_of_part,
    training,
)
from pol.capture.idioms.habits import CASTS, NARROW
from pol.capture.idioms.rewritten import REWRITTEN
from pol.capture.loops import repeats
from pol.capture.model.exchange import slots_of
from pol.capture.model.plain_model import own_tensors
from pol.capture.optim.gradient_at import GradientAt
from pol.capture.optim.optimizers import number_name
from pol.capture.optim.taken import optimizer_state
from pol.capture.optim.update_rules import OwnRule, UpdateRule
from pol.ops import philox

Tensors = Mapping[str, torch.Tensor]
_HOW = ("foreach", "fused", "capturable", "differentiable")
"""Options of an optimizer that choose among torch's implementations of the same update."""


@dataclass(frozen=True)
class StepResult:
    """The result of a step: the loss, gradients, and all tensors of the model and of the optimizer, by name.

    ``state`` has a tied tensor under each of its names. If a module has several names, ``state`` uses only the first of
    these names. ``local`` is the state of the optimizer, under the names of a slot's local state.
    """

    loss: float
    gradients: dict[str, torch.Tensor]
    state: dict[str, torch.Tensor]
    local: dict[str, torch.Tensor] = field(default_factory=dict)


class _PlainDraws(SeededDropout):
    """A mode that makes functions of torch draw the same random numbers as the job.

    If ``is_wide``, casts to types narrower than FP32 become casts to FP32.
    """

    def __init__(self, number: torch.Tensor, seed: int, is_wide: bool, first_site: int = 0) -> None:
        super().__init__(number, first_site)
        self._seed, self._is_wide = seed, is_wide

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call one function, or its replacement if it draws random numbers."""
        if self._is_wide and function in CASTS:
            return CASTS[function](*args, **(kwargs or {}))
        if function in REWRITTEN:
            return function(*args, **(kwargs or {}))
        return super().__torch_function__(function, types, args, kwargs)

    def _uniform(self, shape: list[int]) -> torch.Tensor:
        site = self.sites.take()
        if repeats.is_tried():
            return torch.zeros(shape)
        number = int(repeats.numbered_within(self._number, self._outside))
        count = int(np.prod(shape))
        drawn = philox.uniform(self._seed, site, number, count).reshape(tuple(shape))
        return torch.from_numpy(drawn)


class _Wide(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that replaces the narrow types of autocast by FP32, which is the type that a job uses."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call one operation with FP32 instead of narrow types."""
        args, kwargs = tree_map(_widened, (args, kwargs or {}))
        return func(*args, **kwargs)


def _widened(part: Any) -> Any:
    return torch.float32 if isinstance(part, torch.dtype) and part in NARROW else part


class _Steps(_PlainDraws):
    """A mode for the steps of optimizers. In it, a cast to a narrow type returns a copy in FP32, as in a job."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call one function; a cast to a narrow type returns a copy in FP32."""
        result = super().__torch_function__(function, types, args, kwargs)
        return result.clone() if function in CASTS else result


@dataclass(frozen=True)
class _Update:
    """One update of a phase: the phase, the rows, the optimizers, and the number of the update.

    If ``optimizers`` is None, the job's own rule moves the weights.
    """

    phase: PhaseUpdates
    rows: Tensors
    optimizers: Sequence[torch.optim.Optimizer] | None
    step: torch.Tensor


class PlainStep:
    """A step of a job with the consumer's model, losses and optimizers, in torch's own FP32."""

    def __init__(self, spec: JobSpec, functions: JobFunctions, is_wide: bool, first: int = 0) -> None:
        """Prepare step number ``first`` of a job; with ``is_wide``, casts to narrow types become casts to FP32."""
        self._spec, self._functions, self._is_wide, self.first = spec, functions, is_wide, first
        self._parameters = dict(spec.model.named_parameters())
        self._site = 0

    def take(self, start: Tensors, local: Tensors, batch: Tensors) -> StepResult:
        """Take the step, with ``start`` as the values of the model's tensors, and return its result.

        Optimizers of torch begin with the state that they already have; all other rules begin with ``local``.
        """
        with borrowed(self._spec.model, start):
            return self._take_once(local, batch)

    def takes(self, start: Tensors, local: Tensors, batch: Tensors) -> Generator[StepResult, None, None]:
        """Take the same step repeatedly, each time from the tensor values ``start``, and yield the results.

        Only Python attributes of modules keep their values from one step to the next.
        """
        with attributes_put_back(self._spec.model):
            while True:
                with values_borrowed(self._spec.model, start):
                    result = self._take_once(local, batch)
                yield result

    def _take_once(self, local: Tensors, batch: Tensors) -> StepResult:
        spec = self._spec
        current = dict(local)
        result = StepResult(loss=0.0, gradients={}, state={}, local={})
        self._site = 0
        losses: dict[str, list[float]] = {}
        for phase in self._functions.phases:
            optimizers = self._optimizers(phase, phase.local_of(current))
            for number in range(phase.repeat):
                rows = rows_of_part(batch, spec.parts, spec.parts - phase.repeat + number)
                step = torch.tensor(self.first * phase.repeat + number)
                update = _Update(phase=phase, rows=rows, optimizers=optimizers, step=step)
                loss, gradients = self._passed(update)
                state = phase.named(self._moved(update, gradients, phase.local_of(current)))
                losses.setdefault(phase.name, []).append(loss)
                result.gradients.update(gradients)
                result.local.update(state)
                current.update(state)
        for prefix, slots in slots_of(spec.model):
            for key, tensor in slots.items():
                if tensor is not None:
                    name = f"{prefix}.{key}" if prefix else key
                    result.state[name] = tensor.detach().clone()
        first = next(iter(losses.values()))
        return replace(result, loss=sum(first) / len(first))

    def _passed(self, update: _Update) -> tuple[float, dict[str, torch.Tensor]]:
        """Compute an update's loss and clipped gradients, set the gradients in the parameters, and return both."""
        phase = update.phase
        loss = self._backward(update)
        weights = {name: self._parameters[name].detach().clone() for name in phase.trained}
        point = phase.optimizer.point(weights, self._gradients(phase), update.step)
        if point is not None:
            self._write(point)
            self._backward(update)
            self._write(weights)
        trained = [self._parameters[name] for name in phase.trained]
        if phase.spec.clip_value is not None:
            nn.utils.clip_grad_value_(trained, phase.spec.clip_value)
        if phase.spec.clip_norm is not None:
            nn.utils.clip_grad_norm_(trained, phase.spec.clip_norm)
        return loss, self._gradients(phase)

    def _write(self, weights: Tensors) -> None:
        for name, value in weights.items():
            self._parameters[name].data.copy_(value)

    def _backward(self, update: _Update) -> float:
        """Run the backward pass on an update's rows, which sets the parameters' gradients; return the loss."""
        phase, total = update.phase, 0.0
        spec = phase.spec
        size = len(next(iter(update.rows.values()))) // spec.accumulate
        part = MeasuredModule(spec.model, spec.loss, phase.field)
        for parameter in self._parameters.values():
            parameter.grad = None
        site = self._site
        with ExitStack() as stack:
            stack.enter_context(training(spec.model))
            stack.enter_context(as_written())
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            if self._is_wide:
                stack.enter_context(_Wide())  # type: ignore[no-untyped-call]
            for at in range(spec.accumulate):
                rows = {name: c[at * size : (at + 1) * size] for name, c in update.rows.items()}
                draws = _PlainDraws(torch.tensor(at), spec.seed, self._is_wide, site)
                with draws, repeatable_checkpoints(draws):
                    loss = part(rows) / spec.accumulate
                    loss.backward()
                self._site = draws.sites.next
                total += float(loss.detach())
        return total

    def _gradients(self, phase: PhaseUpdates) -> dict[str, torch.Tensor]:
        """Return the gradients of the parameters that a phase moves, all of them dense."""
        gradients = {}
        for name in phase.trained:
            parameter = self._parameters[name]
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()
            if parameter.grad is not None:
                gradients[name] = parameter.grad.clone()
        return gradients

    def _moved(self, update: _Update, gradients: Tensors, local: Tensors) -> dict[str, torch.Tensor]:
        """Move the weights by the optimizers, or by the job's own rule; return the state after that."""
        phase = update.phase
        draws = _Steps(torch.tensor(0), self._spec.seed, True, self._site)
        with draws:
            if update.optimizers is None:
                weights = {n: self._parameters[n].detach().clone() for n in phase.trained}
                moved, state = phase.optimizer.update(weights, gradients, local, update.step)
                self._write(moved)
            else:
                for optimizer in update.optimizers:
                    optimizer.step()
        self._site = draws.sites.next
        return state if update.optimizers is None else self._left_by(update, gradients)

    def _left_by(self, update: _Update, gradients: Tensors) -> dict[str, torch.Tensor]:
        """Return the state of the optimizers after an update, under the names of a phase's local state."""
        found: dict[str, torch.Tensor] = {}
        for index, group in enumerate(update.phase.groups):
            names = [name for name in group.names if name in gradients]
            if not names:
                continue
            optimizer = self._holder(update, names[0])
            if isinstance(optimizer, UpdateRule) and isinstance(group.rule, OwnRule):
                for name in names:
                    state = optimizer.state[self._parameters[name]]
                    found |= {f"{kind}.{name}": tensor.clone() for kind, tensor in state.items()}
                numbers = optimizer.numbers_of(group.rule.index)
                found |= {number_name(n, index): tensor for n, tensor in numbers.items()}
            else:
                tensors, kept = optimizer_state(self._spec.model, optimizer, names, group.rule)
                found |= tensors
                found |= {number_name(n, index): torch.tensor(v) for n, v in kept.items()}
        return found

    def _holder(self, update: _Update, name: str) -> torch.optim.Optimizer:
        """Return the optimizer that moves a parameter."""
        wanted = self._parameters[name]
        for optimizer in update.optimizers or ():
            if any(p is wanted for group in optimizer.param_groups for p in group["params"]):
                return optimizer
        raise AssertionError(f"no optimizer holds {name}")

    def _optimizers(self, phase: PhaseUpdates, local: Tensors) -> list[torch.optim.Optimizer] | None:
        """Return copies of a phase's optimizers, which move the model's own parameters.

        Return None if torch's optimizers cannot make the update: torch has no Lion, and if a job resumes a result,
        torch's optimizers do not have the state of that result.
        """
        if self.first:
            return None
        optimizers = []
        for original in listed(phase.spec.optimizer):
            optimizer = self._copy(phase, original)
            if optimizer is None:
                return None
            if isinstance(optimizer, UpdateRule):
                self._begin(optimizer, local)
            optimizers.append(optimizer)
        return optimizers

    def _copy(self, phase: PhaseUpdates, given: object) -> torch.optim.Optimizer | None:
        spec, trained = phase.spec, [self._parameters[name] for name in phase.trained]
        match given:
            case GradientAt():
                return self._copy(phase, given.base)
            case torch.optim.Optimizer():
                found = deepcopy(given, {id(p): p for p in self._parameters.values()})
            case SGD():
                decay, nesterov = given.weight_decay, given.nesterov
                found = torch.optim.SGD(trained, 1.0, given.momentum, 0.0, decay, nesterov)
            case AdamW():
                found = torch.optim.AdamW(trained, 1.0, given.betas, given.eps, given.weight_decay)
            case _:
                return None
        of_torch = isinstance(given, torch.optim.Optimizer)
        has_rate = spec.schedule is None or isinstance(spec.schedule, LRScheduler | list | tuple)
        for group in found.param_groups:
            group.update({name: False for name in _HOW if name in group})
            if not (has_rate and of_torch):
                group["lr"] = spec.learning_rate(0)
        return found

    def _begin(self, rule: UpdateRule, local: Tensors) -> None:
        """Set the state of a custom rule to the job's initial state.

        This is needed because the rule may compute its state from the weights, which the check has changed.
        """
        for name, parameter in self._parameters.items():
            state = {
                kind: value.clone()
                for kind, _, of, value in ((*full.partition("."), v) for full, v in local.items())
                if of == name
            }
            if state and any(p is parameter for group in rule.param_groups for p in group["params"]):
                kinds = rule.state_of(name, parameter)
                rule.state[parameter] = {kind: state[kind] for kind in kinds}


@contextmanager
def borrowed(model: nn.Module, start: Tensors) -> Iterator[None]:
    """Give a model's tensors copies of the values ``start`` within this context, and restore everything afterwards.

    The tensors stay the same objects, with their hooks, because optimizers and closures refer to them. The context
    restores the values, gradients and version counters of the tensors, the attributes of modules, and the states of
    random generators.
    """
    with attributes_put_back(model), values_borrowed(model, start):
        yield


@contextmanager
def attributes_put_back(model: nn.Module) -> Iterator[None]:
    """Restore the Python attributes of all modules of a model when this context ends."""
    attributes = [(module.__dict__, dict(module.__dict__)) for module in model.modules()]
    try:
        yield
    finally:
        for part, before in attributes:
            part.clear()
            part.update(before)


@contextmanager
def values_borrowed(model: nn.Module, start: Tensors) -> Iterator[None]:
    """Do the same as :func:`borrowed`, but do not restore the attributes of modules."""
    own = own_tensors(model)
    values = {name: (t.data, t.grad, t.requires_grad) for name, t in own.items()}
    slots = [(part, dict(part)) for _, part in slots_of(model)]
    drawn = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - the person's own
    counted = tuple(tensor for tensor in own.values() if not tensor.is_inference())
    with _unsafe_preserve_version_counter(counted):
        try:
            for name, copy in copies_of(own, start).items():
                own[name].data, own[name].grad = copy, None
            yield
        finally:
            for part, before in slots:
                part.clear()
                part.update(before)
            for name, (data, gradient, is_asked) in values.items():
                own[name].requires_grad_(is_asked)
                own[name].data, own[name].grad = data, gradient
            torch.set_rng_state(drawn[0])
            random.setstate(drawn[1])
            np.random.set_state(drawn[2])  # noqa: NPY002


def copies_of(own: Tensors, start: Tensors) -> dict[str, torch.Tensor]:
    """Return copies of the tensors ``start``.

    Two copies share memory if the two ``own`` tensors share memory.
    """
    copies: dict[str, torch.Tensor] = {}
    places: dict[int, torch.UntypedStorage] = {}
    for name, tensor in own.items():
        storage = tensor.untyped_storage()
        if 0 in tensor.stride() or storage.nbytes() != tensor.nbytes or not tensor.numel():
            # an expanded tensor, or a view of a larger one: the copy gets memory of its own
            copies[name] = torch.empty_like(tensor.data, memory_format=torch.contiguous_format)
        else:
            copied = storage.clone()  # type: ignore[no-untyped-call]
            place = places.setdefault(storage.data_ptr(), copied)
            copy = torch.empty(0, dtype=tensor.dtype)
            copies[name] = copy.set_(place, tensor.storage_offset(), tensor.size(), tensor.stride())
        copies[name].copy_(start[name])
    return copies
