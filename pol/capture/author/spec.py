"""The job specification of a consumer: model, loss, data and hyper-parameters (this module does not import torch)."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from domain.limits import SAMPLES_MAX, SLOTS_MAX
from domain.readable import Readable
from pol.capture.author.codecs import DGC, Dense, Quantised, Sparse, Update
from pol.capture.author.ranges import check_range, number
from pol.errors import JobError
from pol.job.checkpoint import HasTraining
from pol.job.document import NAME_FORM, NAME_MAX
from pol.limits import MAX_INTEGER
from pol.ops.product import BITS, DEFAULT_BITS

if TYPE_CHECKING:
    import torch

DEFAULT_RATE = 1e-3
"""Learning rate if neither a schedule nor the optimizer gives one."""
Batch = Mapping[str, "torch.Tensor"]
Measure = Callable[["torch.nn.Module", Batch], "torch.Tensor"]
"""A function of the model and a batch (column name to tensor) that returns one number: a loss or a metric."""


def _are_bits(value: object) -> bool:
    return type(value) is int and value in BITS


def _check_betas(betas: object) -> None:
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise JobError("optimizer.betas", f"{betas!r} is not a pair", "give two numbers, such as (0.9, 0.999)")
    for beta in betas:
        check_range("optimizer.betas", beta, high=1.0)


@dataclass(frozen=True, slots=True)
class SGD(Readable):
    """Stochastic gradient descent as ``torch.optim.SGD`` computes it (dampening 0).

    Example::

        job = assay.JobSpec(..., optimizer=assay.SGD(momentum=0.9, nesterov=True), schedule=0.1)
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        check_range("optimizer.momentum", self.momentum)
        if self.nesterov and not self.momentum:
            raise JobError("optimizer", "nesterov=True needs a momentum", "give momentum=0.9, or leave out nesterov")
        check_range("optimizer.weight_decay", self.weight_decay)


@dataclass(frozen=True, slots=True)
class AdamW(Readable):
    """AdamW as ``torch.optim.AdamW`` computes it; a slot's local state contains the powers of the betas.

    Example::

        job = assay.JobSpec(..., optimizer=assay.AdamW(weight_decay=0.1), schedule=3e-4)
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        _check_betas(self.betas)
        check_range("optimizer.eps", self.eps)
        check_range("optimizer.weight_decay", self.weight_decay)


@dataclass(frozen=True, slots=True)
class Lion(Readable):
    """Lion (arXiv 2302.06675): each weight moves by the same amount, against the sign of a mean of its gradients.

    Example::

        job = assay.JobSpec(..., optimizer=assay.Lion(weight_decay=0.1), schedule=1e-4)
    """

    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check_betas(self.betas)
        check_range("optimizer.weight_decay", self.weight_decay)


@dataclass(frozen=True, slots=True)
class Average(Readable):
    """Outer optimizer: the new weights are the average of the slots' weights.

    Example::

        job = assay.JobSpec(..., slots=4, outer=assay.Average())
    """


@dataclass(frozen=True, slots=True)
class Nesterov(Readable):
    """Outer optimizer of DiLoCo (arXiv 2311.08105): Nesterov momentum on the averaged update.

    Example::

        job = assay.JobSpec(..., slots=4, outer=assay.Nesterov(lr=0.7, momentum=0.9))
    """

    lr: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        check_range("outer.lr", self.lr)
        check_range("outer.momentum", self.momentum)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRows(Readable):
    """An order of rows that draws them with replacement, in proportion to their weights, by the job's seed.

    ``weights`` is the name of a column of ``train``, or one number per row, 0 or more. The weights need not add up to
    1. Integer weights are used unchanged. Other weights are converted to integers in the same proportion; the sum of
       these integers has 62 bits.

    Example::

        often = 1 / np.bincount(classes)[classes]
        job = assay.JobSpec(..., sampling=assay.WeightedRows(often))
    """

    weights: "str | Sequence[float] | NDArray[Any] | torch.Tensor"


@dataclass(frozen=True, slots=True)
class RowsInOrder(Readable):
    """The order that the rows have in the data; after the last row it begins again with the first.

    Example::

        job = assay.JobSpec(..., sampling=assay.RowsInOrder())
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision(Readable):
    """Precision of matrix products: the number of bits (8, 15 or 22) of the integers that each kind of product
    multiplies.

    ``forward`` is the number for the products on which the loss and the metrics depend. ``weight_gradient`` is the
    number for products whose results are gradients of parameters. ``input_gradient`` is the number for products that
    pass the gradient back to earlier layers.

    >>> Precision(forward=22).weight_gradient
    15
    """

    forward: int = DEFAULT_BITS
    input_gradient: int = DEFAULT_BITS
    weight_gradient: int = DEFAULT_BITS

    def __post_init__(self) -> None:
        for name in ("forward", "input_gradient", "weight_gradient"):
            bits: object = getattr(self, name)
            if not _are_bits(bits):
                raise JobError(f"precision.{name}", f"{bits!r} is not a precision", "give 8, 15 or 22")


def _everywhere(bits: int) -> Precision:
    return Precision(forward=bits, input_gradient=bits, weight_gradient=bits)


def _of_phases(model: "torch.nn.Module", batch: Batch) -> "torch.Tensor":
    """Raise an error: this function is the default of ``loss`` and means that no loss is given, as in a job with
    phases.
    """
    raise AssertionError("a job with phases has no loss of its own")


_DEFAULT_OPTIMIZER = AdamW()
"""The optimizer of a job that does not name an optimizer."""


@dataclass(frozen=True, kw_only=True)
class Phase(Readable):
    """A part of a step with its own loss and optimizer, such as one network of a GAN.

    ``optimizer`` is an optimizer of ``torch.optim``, an ``assay.update_rule``, or a list of such optimizers; it is
    created from the parameters that the phase moves. The phase does not move other parameters, but gradients flow
    through them. The other fields are as in a :class:`JobSpec`. ``repeat`` is the number of updates per step, each with
    its own rows.

    Example::

        job = assay.JobSpec(
            ...,
            phases={
                "critic": assay.Phase(
                    loss=critic_loss, optimizer=torch.optim.Adam(model.critic.parameters(), 1e-4), repeat=3
                ),
                "generator": assay.Phase(
                    loss=generator_loss, optimizer=torch.optim.Adam(model.generator.parameters(), 1e-4)
                ),
            },
        )
    """

    loss: Measure
    optimizer: "torch.optim.Optimizer | Sequence[torch.optim.Optimizer]"
    schedule: "float | Callable[[int], float] | torch.optim.lr_scheduler.LRScheduler | Sequence[Any] | None" = None
    schedule_every: int | Literal["epoch"] = 1
    clip_norm: float | None = None
    clip_value: float | None = None
    repeat: int = 1


_OF_A_PHASE = ("loss", "optimizer", "schedule", "schedule_every", "clip_norm", "clip_value")
"""Fields that a job with phases gives in each phase and not in the job itself."""


@dataclass(frozen=True, kw_only=True)
class JobSpec(Readable):
    """A training job, as the consumer writes it; ``name`` is the name that people see.

    ``model`` is any module whose operations are supported. Its parameters and buffers are the global state.
    ``weights="seed"`` initialises all weights from the seed, and ``"keep"`` keeps them as they are. By default, weights
    that are still as their layers initialised them are drawn again from the seed, and all other weights are kept.
    ``loss`` is a function ``(model, batch) -> scalar``, for example ``assay.cross_entropy()``.

    ``train`` is a file, a data set, or a dictionary that maps names of columns to tensors, arrays or files, whose first
    dimension is the row. ``holdout`` has the same columns and stays on this machine. On the holdout, ``loss`` is
    computed, and any further ``metrics``, such as ``assay.accuracy()``.

    The length of the job is the number of ``steps``, or the number of ``epochs`` (passes through the data). Each slot
    takes ``batch`` rows per step. With ``slots=1``, a job is ordinary training. With several slots, each slot trains on
    its own batches. After every ``round_steps`` steps, the results of the slots are averaged, and ``outer`` applies the
    average to the weights. ``update`` is the form in which a slot sends its result: :class:`Dense`, or in fewer bytes
    :class:`Sparse`, :class:`Quantised` or :class:`DGC`. A trace has a boundary state after every ``segment_steps``
    steps. ``round_steps`` and ``segment_steps`` have suitable defaults (``division.py``). The number of steps is
    rounded up to whole rounds.

    ``optimizer`` is :class:`SGD`, :class:`AdamW` or :class:`Lion`, or an optimizer that is created from the model's
    parameters. That is an optimizer of ``torch.optim``, an ``assay.update_rule``, ``assay.SAM``, or a list of
    optimizers that divide the parameters. ``schedule`` is a learning rate, a function from the step (0 to steps - 1) to
    the learning rate, or a scheduler of torch that is created from the optimizer. A scheduler takes a step after every
    ``schedule_every`` steps of the job, or after each epoch if ``schedule_every`` is "epoch". The job contains the
    learning rates as a table, which all slots share. The default of ``schedule`` is the optimizer's own learning rate.

    A job with several losses gives ``phases``, which maps names to :class:`Phase`, instead of loss, optimizer, schedule
    and clipping. Each step takes the phases in their order, and each phase sees the weights that the earlier phases
    have moved. ``clip_value`` is the largest absolute value of an element of the gradient. ``clip_norm`` is the largest
    norm of the whole gradient, and is applied after ``clip_value``. With ``accumulate=n``, a step divides its batch
    into n equal parts and uses the mean of their gradients. If ``ema`` is given, the job keeps a moving average of the
    weights; ``ema`` is the share of the old average that remains after a step.

    When a job is built, one step of the job is compared with one step of plain torch, unless ``check`` is False.

    ``resume`` is the result that the job continues: the path of its ``model.safetensors``, or the value of
    ``order.result()`` or ``run_locally(…)``. The result gives the weights, the optimizer state of each slot, the number
    of the step and the position in the data; ``weights`` then has no effect. ``steps`` is the number of steps that this
    job adds. The schedule covers the job and all jobs that it continues: its steps are counted from the start of the
    first job.

    All random numbers come from ``seed``. ``precision`` is 8, 15 or 22 bits for all products, or a :class:`Precision`.
    ``precision`` may also map names of modules to bits or to a :class:`Precision`, for the products of their
    parameters; the name "" is the whole model.

    Each epoch takes every row once, in a new random order. ``sampling`` selects another order: :class:`WeightedRows` or
    :class:`RowsInOrder`. If ``train`` is a ``DataLoader``, its batch size and its order of rows are the defaults.

    Example::

        job = assay.JobSpec(
            name="mine",
            model=model,
            loss=assay.cross_entropy(),
            train={"x": points, "y": classes},
            holdout={"x": other_points, "y": other_classes},
            batch=32,
            steps=80,
        )
        assay.build_job(job, "my-job")
    """

    name: str
    model: "torch.nn.Module"
    train: Any
    holdout: Any
    batch: int = 0
    loss: Measure = _of_phases
    phases: Mapping[str, Phase] = field(default_factory=dict)
    steps: int | None = None
    epochs: float | None = None
    slots: int = 1
    round_steps: int | None = None
    segment_steps: int | None = None
    optimizer: "SGD | AdamW | Lion | torch.optim.Optimizer | Sequence[torch.optim.Optimizer]" = _DEFAULT_OPTIMIZER
    schedule: "float | Callable[[int], float] | torch.optim.lr_scheduler.LRScheduler | Sequence[Any] | None" = None
    schedule_every: int | Literal["epoch"] = 1
    seed: int = 0
    clip_norm: float | None = None
    clip_value: float | None = None
    accumulate: int = 1
    ema: float | None = None
    metrics: Mapping[str, Measure] = field(default_factory=dict)
    outer: Average | Nesterov = field(default_factory=Average)
    update: Update = field(default_factory=Dense)
    weights: Literal["seed", "keep"] | None = None
    precision: int | Precision | Mapping[str, int | Precision] = DEFAULT_BITS
    sampling: WeightedRows | RowsInOrder | None = None
    resume: Path | str | HasTraining | None = None
    check: bool = True

    def __post_init__(self) -> None:
        self._check_name()
        self._take_batch_of_loader()
        self._check_length()
        self._check_phases()
        if "loss" in self.metrics:
            raise JobError("metrics", "loss is always measured", "leave loss out of metrics")
        self._check_choices()
        if type(self.seed) is not int or not 0 <= self.seed <= MAX_INTEGER:
            raise JobError(
                "seed", f"{self.seed!r} is not an integer in 0..2^63-1", "give an integer in this range, such as 0"
            )
        for name in ("clip_norm", "clip_value"):
            value = getattr(self, name)
            if value is not None and not 0.0 < number(value) < float("inf"):
                raise JobError(
                    name, f"{value!r} is not a positive number", "give a number above 0, such as 1.0, or None"
                )
        if self.ema is not None and not 0.0 < number(self.ema) < 1.0:
            remedy = "give the share of the average that remains after a step, such as 0.999"
            raise JobError("ema", f"{self.ema!r} is not a number between 0 and 1", remedy)

    def _check_name(self) -> None:
        """Refuse, before the capture, a name with characters that the job document does not accept."""
        name: object = self.name
        if not isinstance(name, str) or not re.fullmatch(NAME_FORM, name) or len(name) > NAME_MAX:
            remedy = (
                f"use at most {NAME_MAX} English letters, digits, spaces, dots, dashes and underscores, and begin"
                " with a letter or a digit"
            )
            raise JobError("name", f"{name!r} cannot be the name of a job", remedy)

    def _take_batch_of_loader(self) -> None:
        """Set ``batch`` to the ``batch_size`` of a DataLoader if ``batch`` is left out."""
        size: object = getattr(getattr(self.train, "batch_sampler", None), "batch_size", None)
        if not self.batch and size is None:
            reason = "the number of rows per step is missing"
            raise JobError("batch", reason, "give batch=32, or a DataLoader with a batch_size")
        if size is not None and self.batch not in (0, size):
            reason = f"is {self.batch}, but the DataLoader of train has batch_size={size}"
            raise JobError("batch", reason, "leave batch out, or give the loader's batch_size")
        if not self.batch:
            object.__setattr__(self, "batch", size)

    def _check_length(self) -> None:
        for name in ("batch", "steps", "slots", "round_steps", "segment_steps", "accumulate"):
            value = getattr(self, name)
            if value is None and name not in ("batch", "slots", "accumulate"):
                continue
            if type(value) is not int or not 1 <= value <= SAMPLES_MAX:
                reason = f"{value!r} is not an integer in 1..2^48"
                raise JobError(name, reason, "give a positive integer, such as 32")
        if self.slots > SLOTS_MAX:
            raise JobError("slots", f"{self.slots} is too many", f"give at most {SLOTS_MAX}")
        if (self.steps is None) == (self.epochs is None):
            count = "neither is given" if self.steps is None else "both are given"
            raise JobError(
                "steps", f"a job needs steps or epochs, but {count}", "give only one, such as steps=100 or epochs=2"
            )
        if self.epochs is not None and not 0.0 < number(self.epochs) < float("inf"):
            raise JobError(
                "epochs", f"{self.epochs!r} is not a positive number", "give a number above 0, such as 2 or 0.5"
            )
        every: object = self.schedule_every
        if every != "epoch" and (type(every) is not int or every < 1):
            reason = f"{every!r} is not a number of steps"
            raise JobError("schedule_every", reason, 'give a positive integer, such as 100, or "epoch"')
        if self.batch % self.accumulate:
            reason = f"a batch of {self.batch} rows cannot be divided into {self.accumulate} equal parts"
            raise JobError("accumulate", reason, f"give a divisor of {self.batch}")
        if self.round_steps and self.segment_steps and self.round_steps % self.segment_steps:
            reason = f"{self.segment_steps} does not divide the {self.round_steps} steps of a round"
            raise JobError("segment_steps", reason, f"give a divisor of {self.round_steps}, or leave it out")

    def _check_phases(self) -> None:
        if not self.phases:
            if self.loss is _of_phases:
                remedy = "give loss=assay.cross_entropy(), or a function of model and batch"
                raise JobError("loss", "the job has no loss", remedy)
            return
        phases: object = self.phases
        if not isinstance(phases, Mapping):
            remedy = 'give a dictionary: {"critic": assay.Phase(…), "generator": assay.Phase(…)}'
            raise JobError("phases", f"is a {type(phases).__name__}, which does not name the phases", remedy)
        for name in _OF_A_PHASE:
            if getattr(self, name) is not _DEFAULTS[name]:
                reason = f"a job with phases has no {name} of its own"
                raise JobError(name, reason, f"give {name}= in each assay.Phase(…) instead")
        for name, phase in phases.items():
            if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9_]{1,32}", name):
                remedy = "use letters, digits and underscores, at most 32"
                raise JobError("phases", f"{name!r} cannot be the name of a phase", remedy)
            if not isinstance(phase, Phase):
                reason = f"is a {type(phase).__name__}, not an assay.Phase"
                raise JobError(f"phases.{name}", reason, "give assay.Phase(loss=…, optimizer=…)")
            optimizer: object = phase.optimizer
            if isinstance(optimizer, SGD | AdamW | Lion):
                kind = type(optimizer).__name__
                reason = f"assay.{kind} moves every parameter, but a phase moves only its own"
                known = "AdamW" if kind == "Lion" else kind
                remedy = f"give a torch.optim.{known} made of the parameters that the phase moves"
                raise JobError(f"phases.{name}.optimizer", reason, remedy)
            if type(phase.repeat) is not int or phase.repeat < 1:
                reason = f"{phase.repeat!r} is not a positive integer"
                raise JobError(f"phases.{name}.repeat", reason, "give the number of updates per step, such as 3")
            if f"loss.{name}" in self.metrics:
                raise JobError("metrics", f"loss.{name} is always measured", f"leave loss.{name} out of metrics")
        parts = self.parts * self.accumulate
        if self.batch % parts:
            reason = f"a batch of {self.batch} rows cannot be divided into {parts} equal parts"
            raise JobError(
                "batch", reason, f"give a multiple of {parts} (the largest `repeat` multiplied by `accumulate`)"
            )
        # each phase is checked as a job of its own
        self.each_phase()

    def _check_choices(self) -> None:
        # the author of a job file may give values that do not fit the annotations
        outer: object = self.outer
        if not isinstance(outer, Average | Nesterov):
            reason = f"a {type(outer).__name__} is not an outer optimizer"
            raise JobError("outer", reason, "give assay.Average() or assay.Nesterov(…)")
        self._check_update()
        sampling: object = self.sampling
        if not isinstance(sampling, WeightedRows | RowsInOrder | None):
            kind = sampling.__name__ if isinstance(sampling, type) else type(sampling).__name__
            remedy = 'give assay.WeightedRows("w") or assay.RowsInOrder(), or leave it out to shuffle'
            raise JobError("sampling", f"{kind} is not an order of rows", remedy)
        check: object = self.check
        if not isinstance(check, bool):
            raise JobError("check", f"{check!r} is not a truth value", "give True or False")
        if self.weights not in (None, "seed", "keep"):
            remedy = 'give "seed" or "keep", or leave it out'
            raise JobError("weights", f"{self.weights!r} is not an accepted value", remedy)
        for name, value in self._precision_by_module.items():
            module: object = name
            if not isinstance(module, str):
                remedy = 'give a dictionary such as {"": 15, "head": 22}'
                raise JobError("precision", f"{module!r} is not the name of a module", remedy)
            if not isinstance(value, Precision) and not _are_bits(value):
                reason = f"{value!r} is not a precision"
                field = f"precision of {name}" if name else "precision"
                raise JobError(field, reason, "give 8, 15, 22 or assay.Precision(…)")

    def _check_update(self) -> None:
        update: object = self.update
        if not isinstance(update, Dense | Sparse | Quantised | DGC):
            kind = update.__name__ if isinstance(update, type) else type(update).__name__
            remedy = "give assay.Sparse(), assay.Quantised(), assay.DGC() or assay.Dense()"
            raise JobError("update", f"{kind} is not a kind of update", remedy)
        if self.ema is not None and not isinstance(update, Dense):
            reason = "moving averages of weights are not coded, so an update would be as large as the weights"
            raise JobError("ema", reason, "leave out ema or update")

    @property
    def momentum_of_slots(self) -> float:
        """Outer momentum that each slot applies to its own changes before it codes them, as :class:`DGC` does, or 0."""
        if isinstance(self.update, DGC) and isinstance(self.outer, Nesterov):
            return self.outer.momentum
        return 0.0

    @property
    def outer_of_mean(self) -> Average | Nesterov:
        """The outer optimizer of the mean of the slots' updates: without momentum if the slots apply it."""
        if isinstance(self.update, DGC) and isinstance(self.outer, Nesterov):
            return replace(self.outer, momentum=0.0)
        return self.outer

    @property
    def _precision_by_module(self) -> Mapping[str, int | Precision]:
        return self.precision if isinstance(self.precision, Mapping) else {"": self.precision}

    @property
    def precisions(self) -> dict[str, Precision]:
        """Precision by the name of a module; the name "" stands for the whole model and is always present."""
        precisions = {"": Precision()}
        for name, value in self._precision_by_module.items():
            precisions[name] = value if isinstance(value, Precision) else _everywhere(value)
        return precisions

    @property
    def parts(self) -> int:
        """Number of equal parts into which a step's rows are divided: the largest ``repeat`` of any phase."""
        return max((phase.repeat for phase in self.phases.values()), default=1)

    def each_phase(self) -> "dict[str, JobSpec]":
        """Return each phase as a job with one loss. The keys are the names of the phases.

        For a job without phases, return the job itself under the name "".
        """
        if not self.phases:
            return {"": self}
        specs = {}
        for name, phase in self.phases.items():
            own: dict[str, Any] = {field: getattr(phase, field) for field in _OF_A_PHASE}
            try:
                specs[name] = replace(self, phases={}, **own)
            except JobError as error:
                raise error.under(f"phases.{name}") from None
        return specs

    @property
    def optimizers(self) -> list[object]:
        """All optimizers of the job, from every phase and list."""
        return [each for spec in self.each_phase().values() for each in listed(spec.optimizer)]

    @property
    def schedules(self) -> list[object]:
        """All schedules of the job, from every phase and list."""
        return [each for spec in self.each_phase().values() for each in listed(spec.schedule)]

    @property
    def losses(self) -> dict[str, Measure]:
        """The loss of each phase.

        The keys are the names of the losses as metrics; the first phase's loss has the name "loss".
        """
        losses = [(name, phase.loss) for name, phase in self.phases.items()]
        if not losses:
            return {"loss": self.loss}
        (_, first), *others = losses
        return {"loss": first, **{f"loss.{name}": loss for name, loss in others}}

    def steps_for(self, rows: int) -> int:
        """Return the number of steps that the job asks for, before it is rounded up to whole rounds.

        If the job gives epochs, the number depends on ``rows``, the number of rows of its data.
        """
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return max(1, ceil(self.epochs * rows / (self.batch * self.slots)))

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step, for a schedule that is a number, a function or None."""
        rate: object = DEFAULT_RATE if self.schedule is None else self.schedule
        if isinstance(rate, type):
            remedy = f"give the object, {rate.__name__}(optimizer, …)"
            raise JobError("schedule", f"{rate.__name__} is a class", remedy)
        try:
            rate = rate(step) if callable(rate) else rate
        # the consumer's own function
        except Exception as error:
            reason = f"fails for step {step}: {type(error).__name__}: {error}"
            raise JobError("schedule", reason, "give a function that returns a rate for each step") from error
        try:
            return float(rate)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            reason = f"the learning rate of step {step} is {rate!r}"
            raise JobError("schedule", reason, "give a number, or a function that returns one") from None


def listed(value: object) -> Sequence[object]:
    """Return a list unchanged, and any other value as a list with this one item."""
    return value if isinstance(value, list | tuple) else [value]


_DEFAULTS = {name: JobSpec.__dataclass_fields__[name].default for name in _OF_A_PHASE}
