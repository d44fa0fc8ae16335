"""The three functions of a job (``step``, ``outer``, ``eval``) as Python over named tensors, ready to be traced."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from pol.errors import JobError
from pol.job.document import BATCH_NUMBER, STEP
from pol.limits import LIMITS
from pol.tracing.dropout import SeededDropout
from pol.tracing.optimizers import clip, inner_optimizer, outer_update
from pol.tracing.origin import called_forward
from pol.tracing.precision import gradient
from pol.tracing.spec import Batch, JobSpec, Measure

Tensors = Mapping[str, torch.Tensor]


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


class _Measured(nn.Module):
    """A measure as the forward of a module, so that ``functional_call`` can put other weights into the model."""

    def __init__(self, model: nn.Module, measure: Measure, field: str) -> None:
        super().__init__()
        self.model = model
        self._measure, self._field = called_forward(measure), field

    def forward(self, batch: Batch) -> torch.Tensor:
        value: object = self._measure(self.model, batch)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise JobError(
                self._field, "does not return one number", "return a tensor of one element"
            )
        if value.dtype != torch.float32:
            raise JobError(self._field, f"returns {value.dtype}", "return float32")
        return value.reshape(())


def measured(
    model: nn.Module, measure: Measure, weights: Tensors, batch: Batch, field: str
) -> torch.Tensor:
    """Return ``measure`` of the model with other weights and buffers."""
    own = {*dict(model.named_parameters()), *dict(model.named_buffers())}
    known = named("model", {name: tensor for name, tensor in weights.items() if name in own})
    value = torch.func.functional_call(_Measured(model, measure, field), known, (batch,))
    assert isinstance(value, torch.Tensor)
    return value


@contextmanager
def training_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Set the mode of a model and all its parts, and put the modes back."""
    before = [(module, module.training) for module in model.modules()]
    model.train(training)
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

    def __init__(self, spec: JobSpec, steps: int) -> None:
        """Make the functions of a job of so many steps."""
        self._spec = spec
        self._trained = [n for n, p in spec.model.named_parameters() if p.requires_grad]
        self._optimizer = inner_optimizer(spec.optimizer)
        known = steps if callable(spec.schedule) else 1
        self._rates = torch.tensor([spec.learning_rate(step) for step in range(known)])
        self._constant_rate = bool((self._rates == self._rates[0]).all())
        if not self._constant_rate and self._rates.nbytes > LIMITS.constants_size:
            reason = f"its table would have {steps} entries"
            most = LIMITS.constants_size // self._rates.itemsize
            remedy = f"give one number, or a job of fewer than {most} steps"
            raise JobError("schedule", reason, remedy)
        if not self._trained:
            raise JobError("model", "has no parameter to train", "set requires_grad")
        if not bool(torch.isfinite(self._rates).all()):
            raise JobError("schedule", "a learning rate is NaN or infinite", "check the schedule")

    @property
    def trained(self) -> list[str]:
        """Names of the parameters that the step changes."""
        return self._trained

    def initial_local(self, state: Tensors) -> dict[str, torch.Tensor]:
        """Return the local state of a slot before its first step."""
        return self._optimizer.initial({name: state[name] for name in self._trained})

    def _rate(self, step: torch.Tensor) -> torch.Tensor:
        if self._constant_rate:
            return self._rates[0].clone()
        return torch.index_select(self._rates, 0, step.reshape(1)).reshape(())

    def step(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """One training step: forward, backward, clipping, schedule and optimizer."""
        spec = self._spec
        state, local, batch = (under(part, inputs) for part in ("global", "local", "batch"))
        leaves = {name: state[name].detach().requires_grad_() for name in self._trained}
        current = {**state, **leaves}
        with training_mode(spec.model, True), SeededDropout(inputs[BATCH_NUMBER]):
            loss = measured(spec.model, spec.loss, current, batch, "loss")
        found: Sequence[torch.Tensor | None] = torch.autograd.grad(
            loss, list(leaves.values()), allow_unused=True
        )
        gradients = {
            name: torch.zeros_like(state[name]) if part is None else gradient(part, name)
            for name, part in zip(leaves, found, strict=True)
        }
        if spec.clip_norm is not None:
            gradients = clip(gradients, spec.clip_norm)
        weights = {name: leaf.detach() for name, leaf in leaves.items()}
        moved, kept = self._optimizer.update(weights, gradients, local, self._rate(inputs[STEP]))
        buffers = {name: current[name] for name in self._buffers() if name in current}
        return {
            **named("global", {**buffers, **moved}),
            **named("local", kept),
            "metric.loss": loss.detach(),
        }

    def _buffers(self) -> list[str]:
        """Names of buffers, which a forward pass may have changed; who counts batches needs no other count."""
        model = self._spec.model
        counters = {f"{name}.num_batches_tracked".lstrip(".") for name, _ in batch_norms(model)}
        return [name for name, _ in model.named_buffers() if name not in counters]

    def outer(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """The end of a round: global state and the slots' mean update to the next global state."""
        state, aggregate = under("global", inputs), under("aggregate", inputs)
        changed = outer_update(self._spec.outer, state, aggregate, self._trained)
        return named("global", changed)

    def evaluate(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """The loss and the job's other metrics of a batch, without dropout."""
        spec = self._spec
        state, batch = under("global", inputs), under("batch", inputs)
        with training_mode(spec.model, False), torch.no_grad():
            return {
                f"metric.{name}": measured(spec.model, measure, state, batch, f"metrics.{name}")
                for name, measure in {"loss": spec.loss, **spec.metrics}.items()
            }
