"""One step of plain torch with a person's own objects, which are afterwards as they were.

The random numbers are those of the job, so that a step of it can be compared; everything else is torch's own.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.lr_scheduler import LRScheduler
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from pol.ops import philox
from pol.tracing import repeats
from pol.tracing.checkpoints import repeatable_checkpoints
from pol.tracing.dropout import SeededDropout
from pol.tracing.exchange import slots_of
from pol.tracing.functions import JobFunctions, Measured, as_written, training
from pol.tracing.habits import CASTS, NARROW
from pol.tracing.model import own_tensors
from pol.tracing.optimizers import number_name
from pol.tracing.rewritten import REWRITTEN
from pol.tracing.spec import SGD, AdamW, JobSpec
from pol.tracing.taken import left_of

Tensors = Mapping[str, torch.Tensor]
_HOW = ("foreach", "fused", "capturable", "differentiable")
"""Options of an optimizer that say how torch computes, not what."""


@dataclass(frozen=True)
class Left:
    """What a step leaves: the loss, gradients, and all tensors of the model and of the optimizer, by name.

    ``state`` has a tied tensor under each of its names, but a part with several names under the first of them only.
    ``local`` is named as in a slot's local state.
    """

    loss: float
    gradients: dict[str, torch.Tensor]
    state: dict[str, torch.Tensor]
    local: dict[str, torch.Tensor] = field(default_factory=dict)


class _PlainDraws(SeededDropout):
    """Draws what a job draws; all other functions are torch's own, but for casts to narrow types, if they are wide."""

    def __init__(self, number: torch.Tensor, seed: int, is_wide: bool) -> None:
        super().__init__(number)
        self._seed, self._is_wide = seed, is_wide

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace what draws, and pass everything else on."""
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
    """Lets what is cast to a narrow type, as autocast does it, be FP32: so a job computes it."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call one operation with FP32 in the place of narrow types."""
        args, kwargs = tree_map(_widened, (args, kwargs or {}))
        return func(*args, **kwargs)


def _widened(part: Any) -> Any:
    return torch.float32 if isinstance(part, torch.dtype) and part in NARROW else part


class PlainStep:
    """Takes a step of a job with the person's model, loss and optimizer, in torch's own FP32."""

    def __init__(
        self, spec: JobSpec, functions: JobFunctions, is_wide: bool, first: int = 0
    ) -> None:
        """Take step ``first`` of a job; if it is wide, what is cast to narrow types stays FP32."""
        self._spec, self._functions, self._is_wide, self.first = spec, functions, is_wide, first
        self._parameters = dict(spec.model.named_parameters())
        self._trained = {name: self._parameters[name] for name in functions.trained}

    def take(self, start: Tensors, local: Tensors, batch: Tensors) -> Left:
        """Take the step from a state of the model; the optimizer's is its own."""
        with borrowed(self._spec.model, start):
            loss = self._backward(batch)
            gradients = self._clipped()
            found = self._moved(start, local, gradients)
            state = {
                f"{prefix}.{key}" if prefix else key: tensor.detach().clone()
                for prefix, slots in slots_of(self._spec.model)
                for key, tensor in slots.items()
                if tensor is not None
            }
            return Left(loss, gradients, state, found)

    def _backward(self, batch: Tensors) -> float:
        """Leave the gradients of a batch in the parameters, and return its loss."""
        spec, total = self._spec, 0.0
        size = spec.batch // spec.accumulate
        part = Measured(spec.model, spec.loss, "loss")
        with ExitStack() as stack:
            stack.enter_context(training(spec.model))
            stack.enter_context(as_written())
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            if self._is_wide:
                stack.enter_context(_Wide())  # type: ignore[no-untyped-call]
            for at in range(spec.accumulate):
                rows = {name: c[at * size : (at + 1) * size] for name, c in batch.items()}
                draws = _PlainDraws(torch.tensor(at), spec.seed, self._is_wide)
                with draws, repeatable_checkpoints(draws):
                    loss = part(rows) / spec.accumulate
                    loss.backward()
                total += float(loss.detach())
        return total

    def _clipped(self) -> dict[str, torch.Tensor]:
        """Clip the gradients of what is trained, and return them."""
        for parameter in self._trained.values():
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()
        trained = list(self._trained.values())
        if self._spec.clip_value is not None:
            nn.utils.clip_grad_value_(trained, self._spec.clip_value)
        if self._spec.clip_norm is not None:
            nn.utils.clip_grad_norm_(trained, self._spec.clip_norm)
        return {
            name: parameter.grad.clone()
            for name, parameter in self._trained.items()
            if parameter.grad is not None
        }

    def _moved(self, start: Tensors, local: Tensors, gradients: Tensors) -> dict[str, torch.Tensor]:
        """Take a step of the optimizer, and return its state and the moving averages."""
        optimizer = self._optimizer()
        if optimizer is None:
            weights = {name: p.detach().clone() for name, p in self._trained.items()}
            moved, kept = self._functions.optimizer.update(
                weights, gradients, local, torch.tensor(self.first)
            )
            for name, value in moved.items():
                self._parameters[name].data.copy_(value)
            return kept
        optimizer.step()
        found: dict[str, torch.Tensor] = {}
        for index, group in enumerate(self._functions.groups):
            names = [name for name in group.names if name in gradients]
            if names:
                tensors, numbers = left_of(self._spec.model, optimizer, names, group.rule)
                found |= tensors
                found |= {number_name(n, index): torch.tensor(v) for n, v in numbers.items()}
        return found

    def _optimizer(self) -> torch.optim.Optimizer | None:
        """Return a copy of the optimizer that moves the model's own parameters; None where torch has none such.

        Neither has it one in the middle of a training that goes on from a result.
        """
        spec, given = self._spec, self._spec.optimizer
        if self.first:
            return None
        trained = list(self._trained.values())
        match given:
            case torch.optim.Optimizer():
                found = deepcopy(given, {id(p): p for p in self._parameters.values()})
            case SGD():
                decay, nesterov = given.weight_decay, given.nesterov
                found = torch.optim.SGD(trained, 1.0, given.momentum, 0.0, decay, nesterov)
            case AdamW():
                found = torch.optim.AdamW(trained, 1.0, given.betas, given.eps, given.weight_decay)
            case _:
                return None
        has_rate = spec.schedule is None or isinstance(spec.schedule, LRScheduler)
        for group in found.param_groups:
            group.update({name: False for name in _HOW if name in group})
            if not (has_rate and isinstance(given, torch.optim.Optimizer)):
                group["lr"] = spec.learning_rate(0)
        return found


@contextmanager
def borrowed(model: nn.Module, start: Tensors) -> Iterator[None]:
    """Let a model have other values, which may be written to, and give everything back as it was.

    The tensors stay the same objects, with their hooks, for optimizers and closures know them by that. Given back are
    their values, gradients and counts of changes, what modules have in their attributes, and the generators' states.
    """
    own = own_tensors(model)
    values = {name: (t.data, t.grad, t.requires_grad) for name, t in own.items()}
    slots = [(part, dict(part)) for _, part in slots_of(model)]
    attributes = [(module.__dict__, dict(module.__dict__)) for module in model.modules()]
    drawn = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - the person's own
    counted = tuple(tensor for tensor in own.values() if not tensor.is_inference())
    with _unsafe_preserve_version_counter(counted):
        try:
            for name, copy in copies_of(own, start).items():
                own[name].data, own[name].grad = copy, None
            yield
        finally:
            for part, kept in (*slots, *attributes):
                part.clear()
                part.update(kept)
            for name, (data, gradient, is_asked) in values.items():
                own[name].requires_grad_(is_asked)
                own[name].data, own[name].grad = data, gradient
            torch.set_rng_state(drawn[0])
            random.setstate(drawn[1])
            np.random.set_state(drawn[2])  # noqa: NPY002


def copies_of(own: Tensors, start: Tensors) -> dict[str, torch.Tensor]:
    """Return tensors with other values, which share memory where the own ones do, as two parameters on one array."""
    found: dict[str, torch.Tensor] = {}
    places: dict[int, torch.UntypedStorage] = {}
    for name, tensor in own.items():
        storage = tensor.untyped_storage()
        if 0 in tensor.stride() or storage.nbytes() != tensor.nbytes or not tensor.numel():
            # one element in many places, or a part of something larger
            found[name] = torch.empty_like(tensor.data, memory_format=torch.contiguous_format)
        else:
            place = places.setdefault(storage.data_ptr(), storage.clone())
            copy = torch.empty(0, dtype=tensor.dtype)
            found[name] = copy.set_(place, tensor.storage_offset(), tensor.size(), tensor.stride())
        found[name].copy_(start[name])
    return found
