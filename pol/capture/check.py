"""The check of a job when it is built: one of its steps is compared with a step of plain torch on the same objects.

Both steps have the same batch of real rows, the same random numbers and the same weights. The weights are the job's
weights, with a small random change to each trained weight (:func:`_perturb`). Without the change, many errors would not
show in the first step. For example, a moving copy of a tensor still equals the tensor, and a weight of 0 stops the
gradient of every value that it multiplies.

**Tolerance for rounding.** The job's step is computed with 22 bits in all products. It differs from plain FP32 by about
10^-6, and by more after a subtraction of nearly equal numbers. For each tensor as a whole, the changes by the two steps
may differ by a thousandth (``_WITHIN``). This rule alone would be too strict. An example is a gradient that is
mathematically zero, such as the gradient of a bias before a batch norm. It consists only of rounding errors, and Adam
turns these into a step of full size. So if a tensor differs, plain torch takes the step again, from weights that differ
by 10^-5 and 10^-4. These differences are far larger than the rounding errors of 22 bits, and far smaller than the
effect of an error in the capture. If the gradient of an element then changes by a tenth, the gradient consists only of
rounding errors, and the weight is not compared. For all other elements, the two steps may differ by a few times the
difference between the steps of plain torch. The state of an optimizer may also differ by a small part of the largest
change of the same kind of state in any parameter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import torch
from torch import nn

from pol.capture.author.spec import JobSpec
from pol.capture.data.columns import Columns
from pol.capture.functions import JobFunctions, batch_norms, named, parts_in_eval
from pol.capture.model.exchange import slots_of
from pol.capture.model.plain_model import own_tensors
from pol.capture.optim.optimizers import AVERAGE
from pol.capture.plain import PlainStep, StepResult, copies_of
from pol.capture.reports.notes import warn
from pol.capture.reports.origin import place_of_error
from pol.capture.reports.reasons import in_words
from pol.errors import ExecutionError, JobError, NotFinite, OutOfRange
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE, Engine
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.program import Node, Program
from pol.names import input_name, model_name
from pol.ops.product import BITS
from pol.state.arrays import Array

Tensors = Mapping[str, torch.Tensor]
Progress = Callable[[str], None]

SHARE = 0.2
LEAST = 2.0
"""Time limit of the check: this share of the time that the build has taken so far, but at least ``LEAST`` seconds."""
_COSTS = (1e-10, 1e-4, 5e-8)
"""Estimated time (seconds) of both steps: per FLOP, per node (a call of plain torch; each turn of a repeat counts), and
per weight.
"""
_APART = 0.02
"""Largest relative change of the weights before both steps."""
_WITHIN = 1e-3
_ROUNDING = 2.0**-22
"""Tolerance for two sums of FP32 numbers, relative to the larger one."""
_SHAKES = (1e-5, 1e-5, 1e-4)
"""Relative changes of the weights that are used to measure rounding."""
_TIMES = 4.0
"""Tolerance for the job's step, as a multiple of the difference between steps of plain torch."""
_TENTH = 0.1
_BESIDE = 1e-4
"""Tolerance for an optimizer's state, relative to the largest change of its kind in any parameter."""
_AGAIN = 0.5
"""Limit (seconds) for taking the same step repeatedly."""
_SAME = 1e-5
"""Tolerance for two runs of the same step of plain torch, relative to the larger number."""
_LOSS = "metric.loss"
_OR = "or give check=False to build the job without this check"


def check_step(
    spec: JobSpec,
    functions: JobFunctions,
    step: Program,
    state: Tensors,
    local: Tensors,
    data: Columns,
    *,
    first: int,
    since: float,
    is_wide: bool,
    again: int = 1,
    tell: Progress,
) -> None:
    """Refuse a job whose first step differs from a step of plain torch; warn if they cannot be compared.

    ``state`` and ``local`` are the job's global and local state before its first step, whose number is ``first``.
    ``since`` is the time when the build began (``perf_counter``). ``is_wide`` is true if the loss casts to narrow
    types, which a job computes in FP32. If there is time, the step of plain torch is repeated up to ``again`` times,
    because it must not depend on Python values that earlier steps have set. A job that resumes a result takes its
    optimizer state from that result, but the consumer's new optimizer lacks this state. In this case, the job's own
    update rule moves the weights in both steps that are compared.

    Raises JobError, which names the difference and its cause.
    """
    wide = _at_most_bits(step)
    weights = sum(tensor.numel() for tensor in state.values())
    counts = (wide.work.flops, wide.unrolled_nodes, weights)
    seconds = sum(cost * count for cost, count in zip(_COSTS, counts, strict=True))
    most = max(LEAST, SHARE * (perf_counter() - since))
    if seconds > most:
        warn(f"not checked against plain torch: one step takes about {seconds:,.0f} s", tell)
        return
    tell("checking one step against plain torch")
    plain = PlainStep(spec, functions, is_wide, first)
    checker = _Checker(spec, functions, wide, state, local, data, plain, again)
    if reason := checker.check():
        warn(f"not checked against plain torch: {reason}", tell)


def _at_most_bits(program: Program) -> Program:
    """Return the program with the highest precision (22 bits) in all its products, including those in bodies of
    repeats.
    """
    nodes = []
    for node in program.nodes:
        attrs = dict(node.attrs)
        if "bits" in attrs:
            attrs["bits"] = BITS[-1]
        if "body" in attrs:
            attrs["body"] = _at_most_bits(attrs["body"])
        nodes.append(Node(node.op, node.args, attrs))
    return replace(program, nodes=tuple(nodes))


@dataclass(frozen=True)
class _Compared:
    """A tensor before a step, after the job's step, and after the step of plain torch."""

    before: Array
    ours: Array
    plain: Array

    @property
    def is_changed_by_ours(self) -> bool:
        return bool((self.ours != self.before).any())

    @property
    def is_changed_by_plain(self) -> bool:
        return bool((self.plain != self.before).any())

    def apart(self, among: Array | None = None) -> float:
        """Return the norm of ``ours`` minus ``plain``, or 0 if the difference may be rounding.

        If a mask ``among`` is given, only the elements where the mask is true are included.
        """
        if np.array_equal(self.ours, self.plain):
            return 0.0
        before, ours, plain = (part if among is None else part[among] for part in (self.before, self.ours, self.plain))
        change = max(_norm(ours, before), _norm(plain, before))
        allowed = _WITHIN * change + _ROUNDING * max(_norm(before), _norm(plain))
        difference = _norm(ours, plain)
        return 0.0 if difference <= allowed else difference

    @property
    def ratio(self) -> float:
        """Norm of ``ours`` minus ``plain``, relative to the larger of the changes that the two steps made."""
        change = max(self.change, _norm(self.ours, self.before))
        return _norm(self.ours, self.plain) / change if change else 0.0

    @property
    def change(self) -> float:
        """Norm of the change that the step of plain torch made."""
        return _norm(self.plain, self.before)


def are_certain(gradient: torch.Tensor, shaken: torch.Tensor) -> torch.Tensor:
    """Return for each element of a gradient whether it is more than rounding errors.

    ``shaken`` is the gradient at a start that is slightly different. An element must change by at most a tenth. But
    rounding errors alone are multiples of one small number, and may be equal by chance. So an element must also be at
    least as large as the median of the changes in its tensor.
    """
    moved = (shaken - gradient).abs()
    return (moved <= _TENTH * gradient.abs()) & (gradient.abs() >= moved.nanmedian())


def _norm(values: Array, less: Array | None = None) -> float:
    """Return the norm of ``values``, or of the difference of ``values`` and ``less``."""
    if less is not None:
        values = np.subtract(values, less, dtype=np.float32)
    return float(np.linalg.norm(values.reshape(-1).astype(np.float32, copy=False)))


class _Checker:
    """The comparison of a step of a job with a step of plain torch."""

    def __init__(
        self,
        spec: JobSpec,
        functions: JobFunctions,
        step: Program,
        state: Tensors,
        local: Tensors,
        data: Columns,
        plain: PlainStep,
        again: int,
    ) -> None:
        self._again = again
        self._spec = spec
        self._functions = functions
        self._step = step
        self._data = data
        self._own = own_tensors(spec.model)
        start = copies_of(self._own, {name: state[name] for name in self._own})
        _perturb([start[name] for name in functions.trained])
        self._start = {name: tensor.clone() for name, tensor in start.items()}
        averages = {
            name: self._start[name.removeprefix(AVERAGE)]
            for name in state
            if spec.ema is not None and name.startswith(AVERAGE)
        }
        self._state = {**state, **self._start, **averages}
        self._local = local
        self._plain = plain
        counters = (f"{name}.num_batches_tracked".lstrip(".") for name, _ in batch_norms(spec.model))
        self._left_out = set(counters)
        self._shaken: list[tuple[Tensors, StepResult]] = []

    def check(self) -> str | None:
        """Compare a step of the job with a step of plain torch.

        Return None if the steps agree, or the reason why they cannot be compared. Raises JobError if the steps differ.
        """
        batch = self._rows(0)
        try:
            plain = self._take(self._start, batch)
        # the consumer's own code and torch raise errors of any kind
        except Exception as error:  # noqa: BLE001
            place, (reason, _) = place_of_error(error), in_words(error, "")
            return f"a step of plain torch fails: {f'{place}: ' if place else ''}{reason}"
        if not self._is_finite(plain):
            return "a step of plain torch gives NaN or infinity"
        self._check_repeatable(plain, batch)
        self._check_new(plain)
        try:
            ours = self._ours(batch)
        except NotFinite as error:
            what = _in_words(error.field)
            reason = f"{what} holds NaN or infinity after a step of the job, but numbers after a step of plain torch"
            remedy = f"compute it without very large intermediate numbers, such as by torch.logsumexp; {_OR}"
            raise JobError("model", reason, remedy) from error
        except (OutOfRange, ExecutionError) as error:
            return f"a step of the job cannot be run here: {error}"
        self._compare(plain, ours, batch)
        return None

    def _is_finite(self, result: StepResult) -> bool:
        """Return whether all results of a step are finite, except for tensors that were not finite before the step."""
        # a mask may contain infinity
        own = {n: t for n, t in result.state.items() if not self._was_infinite(n)}
        tensors = (
            torch.tensor(result.loss),
            *result.gradients.values(),
            *own.values(),
            *result.local.values(),
        )
        return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)

    def _was_infinite(self, name: str) -> bool:
        before = self._start.get(name)
        return before is not None and not bool(torch.isfinite(before).all())

    def _take(self, start: Tensors, batch: Tensors) -> StepResult:
        return self._plain.take(start, self._local, batch)

    def _rows(self, offset: int) -> dict[str, torch.Tensor]:
        """Return a batch whose rows are spread over the whole data, shifted by ``offset`` rows."""
        count = len(next(iter(self._data.values())))
        batch = self._spec.batch
        rows = (np.arange(batch) * max(1, count // batch) + offset) % count
        return {name: torch.from_numpy(np.array(column[rows])) for name, column in self._data.items()}

    def _ours(self, batch: Tensors) -> dict[str, Array]:
        """Run the job's step.

        Return its loss, and the value that each of the step's inputs has after the step. An input that the step does
        not return keeps its value.
        """
        inputs = {
            name: tensor.detach().contiguous().numpy()
            for name, tensor in {
                **named("global", self._state),
                **named("local", self._local),
                **named("batch", batch),
                STEP: torch.tensor(self._plain.first),
                BATCH_NUMBER: torch.tensor(0),
            }.items()
        }
        arrays = {input_name(name): array for name, array in inputs.items()}
        outputs = run(self._step, arrays, self._spec.seed, backend(Engine(NATIVE)))
        after = {name: outputs.get(input_name(name), array) for name, array in inputs.items()}
        return {**after, _LOSS: outputs[_LOSS]}

    def _check_new(self, plain: StepResult) -> None:
        """Refuse a tensor that a forward pass adds to the model, if its values depend on the rows.

        A job has only the tensors that the model has when the job is built.
        """
        known = set(_all_names(self._spec.model))
        new = [name for name in plain.state if name not in known]
        other = self._take(self._start, self._rows(1)).state if new else {}
        for name in new:
            if not torch.equal(plain.state[name], other.get(name, torch.empty(0))):
                reason = "is made in a forward pass, but a job has only the tensors of the model at its build"
                remedy = f"make it in __init__: self.register_buffer(name, torch.zeros(…)); {_OR}"
                raise JobError(f"model.{name}", reason, remedy)

    def _check_repeatable(self, plain: StepResult, batch: Tensors) -> None:
        """Refuse a step if plain torch, repeating it from the same state, gets another result.

        A job computes every step in the same way as the first one, so it could not follow such a step.
        """
        end = perf_counter() + _AGAIN
        with closing(self._plain.takes(self._start, self._local, batch)) as takes:
            for number, repeated in enumerate(takes, 1):
                if name := _first_difference(plain, repeated, self._functions.trained):
                    raise _not_repeatable(name, plain, repeated)
                if number >= self._again or perf_counter() > end:
                    return

    # --- differences ---

    def _compare(self, plain: StepResult, ours: Mapping[str, Array], batch: Tensors) -> None:
        tensors = dict(self._tensors(plain, ours))
        different = [name for name, pair in tensors.items() if pair.apart()]
        loss = _Compared(np.zeros(1), ours[_LOSS].reshape(1), np.array([plain.loss]))
        state = {n: _Compared(*parts) for n, parts in self._optimizers(plain, ours).items()}
        if not different and not loss.apart() and not any(p.apart() for p in state.values()):
            return
        if not self._shaken:
            self._shaken = [(start, self._take(start, batch)) for start in self._shaken_starts()]
        trained = set(self._functions.trained)
        real = [n for n in different if self._is_real(n, tensors[n], plain, n in trained)]
        # a tensor that only one side changes is closer to the cause than differences that follow from it
        alone = [n for n in real if tensors[n].is_changed_by_ours != tensors[n].is_changed_by_plain]
        for name in alone:
            raise self._refused(name, tensors[name], loss)
        spread = max(abs(shaken.loss - plain.loss) for _, shaken in self._shaken)
        if loss.apart() > _TIMES * spread:
            raise self._loss_refused(loss)
        for name in real:
            raise self._refused(name, tensors[name], loss)
        largest = _largest_changes(state)
        for name, pair in state.items():
            spread = max(_norm(shaken.local[name].numpy(), plain.local[name].numpy()) for _, shaken in self._shaken)
            floor = _BESIDE * largest[name.partition(".")[0]]
            if pair.apart() > _TIMES * spread + floor:
                raise self._optimizer_refused(name, pair)

    def _tensors(self, plain: StepResult, ours: Mapping[str, Array]) -> Iterator[tuple[str, _Compared]]:
        """Yield the tensors to compare, with their names.

        These are the model's tensors, each under all its names, and the moving averages.
        """
        firsts = _all_names(self._spec.model)
        for name, first in firsts.items():
            if first not in self._left_out and name in plain.state and first in self._start:
                before, theirs = self._start[first].numpy(), plain.state[name].numpy()
                if theirs.shape != before.shape:
                    theirs = np.full(before.shape, np.inf)
                yield name, _Compared(before, ours[f"global.{first}"], theirs)
        share = self._spec.ema
        if share is None:
            return
        for name in self._functions.trained:
            average = self._start[name] * share + (1 - share) * plain.state[name]
            mine = ours[f"global.{AVERAGE}{name}"]
            yield AVERAGE + name, _Compared(self._start[name].numpy(), mine, average.numpy())

    def _optimizers(self, plain: StepResult, ours: Mapping[str, Array]) -> dict[str, tuple[Array, Array, Array]]:
        return {
            name: (self._local[name].numpy(), ours[f"local.{name}"], tensor.numpy())
            for name, tensor in plain.local.items()
            if name in self._local
        }

    def _shaken_starts(self) -> Iterator[dict[str, torch.Tensor]]:
        for number, size in enumerate(_SHAKES):
            source = torch.Generator().manual_seed(number)
            moved = {
                name: self._start[name] * (1 + size * (2 * torch.rand(self._start[name].shape, generator=source) - 1))
                for name in self._functions.trained
            }
            yield {**self._start, **moved}

    def _is_real(self, name: str, pair: _Compared, plain: StepResult, is_trained: bool) -> bool:
        """Return whether the two steps differ in a tensor by more than rounding errors."""
        among = np.ones(pair.before.shape, np.bool_)
        if is_trained and name in plain.gradients:
            for _, shaken in self._shaken:
                among &= are_certain(plain.gradients[name], shaken.gradients[name]).numpy()
        difference = pair.apart(among)
        if not difference:
            return False
        key = name.removeprefix(AVERAGE)
        spread = 0.0
        for start, shaken in self._shaken:
            if key not in shaken.state or shaken.state[key].shape != pair.before.shape:
                continue
            shift = shaken.state[key].double() - plain.state[key].double()
            if key in start:
                shift -= start[key].double() - self._start[key].double()
            spread = max(spread, _norm(shift.numpy()[among]))
        return difference > _TIMES * spread

    # --- errors ---

    def _refused(self, name: str, pair: _Compared, loss: _Compared) -> JobError:
        model = self._spec.model
        own = name.removeprefix(AVERAGE)
        part = own.rpartition(".")[0]
        in_eval = [at for at, _ in parts_in_eval(model) if not at or f"{part}.".startswith(f"{at}.")]
        if not pair.is_changed_by_ours:
            reason = f"a step of plain torch changes it (by at most {_largest(pair, 'plain')}), but the job does not"
            remedy = "change it in forward by operations of torch on the tensor itself, not in a hook or by NumPy"
        elif not pair.is_changed_by_plain:
            most = _largest(pair, "ours")
            reason = f"a step of the job changes it (by at most {most}), but a step of plain torch does not"
            remedy = (
                "leave its part in training mode, or write a train() of the model that keeps the part in eval mode"
                if in_eval
                else "do not write to it in forward"
            )
        else:
            reason = (
                f"a step of the job changes it, but differently from plain torch, by {pair.ratio:.1%} of the change"
            )
            remedy = "compute with it by other operations of torch"
        if shared := self._sharing(own):
            reason = f"{reason}; it shares its memory with {shared}, but in a job both are separate tensors"
            remedy = f"use one parameter for both, {own} = {shared}, or give each its own memory by clone()"
        elif in_eval:
            at = in_eval[-1] or "the model"
            reason = f"{reason}; {at} ({type(model.get_submodule(in_eval[-1])).__name__}) was returned in eval mode"
        if loss.ratio > 10 * _WITHIN:
            reason = f"{reason}; the loss is {loss.plain[0]:.6g} in plain torch and {loss.ours[0]:.6g} in the job"
        return JobError(f"model.{name}", reason, f"{remedy}; {_OR}")

    def _loss_refused(self, loss: _Compared) -> JobError:
        reason = (
            f"is {loss.plain[0]:.6g} in plain torch and {loss.ours[0]:.6g} in the job, "
            "for the same rows, weights and random numbers"
        )
        remedy = "compute the loss by other operations of torch"
        return JobError("loss", reason, f"{remedy}; {_OR}")

    def _optimizer_refused(self, name: str, pair: _Compared) -> JobError:
        kind, _, parameter = name.partition(".")
        of = f" of {parameter}" if parameter in self._own else ""
        reason = (
            f"{kind}{of} differs between a step of the job and a step of plain torch, by {pair.ratio:.1%} of the change"
        )
        remedy = "give a new optimizer of the model, without state and with torch's default options"
        return JobError("optimizer", reason, f"{remedy}; {_OR}")

    def _sharing(self, name: str) -> str | None:
        """Return the name of another tensor of the model that shares memory with this one; None if there is none."""
        own = self._own.get(name)
        place = 0 if own is None else own.untyped_storage().data_ptr()
        others: Sequence[str] = [
            other
            for other, tensor in self._own.items()
            if other != name and place and tensor.untyped_storage().data_ptr() == place
        ]
        return others[0] if others else None


def _first_difference(one: StepResult, other: StepResult, trained: Sequence[str]) -> str | None:
    """Return the name of a result that differs between two runs of a step by more than rounding, or None."""
    if not abs(one.loss - other.loss) <= _SAME * max(abs(one.loss), abs(other.loss)):
        return _LOSS
    if one.gradients.keys() != other.gradients.keys():
        return next(iter(one.gradients.keys() ^ other.gradients.keys()))
    slopes = {name: _norm(slope.numpy()) for name, slope in one.gradients.items()}
    most = 10 * _SAME * max(slopes.values(), default=0.0)
    for name, slope in one.gradients.items():
        if not _norm(slope.numpy(), other.gradients[name].numpy()) <= most:
            return name
    for name in one.state.keys() & other.state.keys() - set(trained):
        before, after = (result.state[name].numpy() for result in (one, other))
        if before.shape != after.shape or not np.allclose(before, after, 1e-4, 1e-6, equal_nan=True):
            return name
    return None


def _not_repeatable(name: str, one: StepResult, other: StepResult) -> JobError:
    reason = "if a step of plain torch is repeated with the same rows, weights and random numbers"
    if name == _LOSS:
        field, what = "loss", f"is {other.loss:.6g} after {one.loss:.6g}"
    else:
        is_slope = name in one.gradients or name in other.gradients
        field, what = f"model.{name}", f"has {'another gradient' if is_slope else 'other values'}"
    remedy = (
        'keep values that change from call to call in a buffer of the model, model.register_buffer("calls", '
        f"torch.zeros(())), and change it in place; draw random numbers by torch.rand; {_OR}"
    )
    return JobError(field, f"{what} {reason}, but a job computes every step in the same way as the first", remedy)


def _largest_changes(state: Mapping[str, _Compared]) -> dict[str, float]:
    """Return, for each kind of an optimizer's state (such as ``exp_avg``), the largest change of any of its tensors."""
    largest: dict[str, float] = {}
    for name, pair in state.items():
        kind = name.partition(".")[0]
        largest[kind] = max(largest.get(kind, 0.0), pair.change)
    return largest


def _perturb(weights: Sequence[torch.Tensor]) -> None:
    """Change trained weights a little, in place: move them towards 0, and turn zeros into small positive numbers.

    A weight that is not 0 keeps its sign and does not grow, so roots and logarithms of weights stay valid. Tensors that
    no optimizer moves are not changed, because such a tensor may be a mask that decided shapes during the capture.
    """
    generator = torch.Generator().manual_seed(0)
    for weight in weights:
        shrunk = weight * (1 - _APART * torch.rand(weight.shape, generator=generator))
        if not bool(weight.all()):
            risen = _APART * torch.rand(weight.shape, generator=generator)
            shrunk = torch.where(weight == 0, risen, shrunk)
        weight.copy_(shrunk)


def _all_names(model: nn.Module) -> dict[str, str]:
    """Map each name of the model's tensors to the first name of the same tensor.

    A module that the model holds several times counts only under its first name.
    """
    firsts: dict[int, str] = {}
    names = {}
    for prefix, slots in slots_of(model):
        for key, tensor in slots.items():
            if tensor is not None:
                name = f"{prefix}.{key}" if prefix else key
                names[name] = firsts.setdefault(id(tensor), name)
    return names


def _largest(pair: _Compared, which: str) -> str:
    after = pair.plain if which == "plain" else pair.ours
    change = np.abs(after.astype(np.float64) - pair.before)
    return f"{np.nanmax(change):.3g}"


def _in_words(output: str) -> str:
    kind, _, name = output.partition(".")
    return "the loss" if kind == "metric" else model_name(name)
