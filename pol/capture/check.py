"""The check of a job when it is built: one step of it beside one step of plain torch with the person's own objects.

Both steps have the same batch of real rows, the same random numbers, and the same weights: those of the job, each of
the trained ones a little changed at random (:func:`_moved_apart`). Without that much would agree by chance in the first
step: what follows another tensor is equal to it when training begins, and where a weight is 0, nothing has a gradient
behind it.

**What counts as rounding.** The job's step is computed at 22 bits for all products, so it differs from plain FP32 by
some 10^-6, more where differences of nearly equal numbers are taken. What a step changes in a tensor has to agree
within a thousandth of the change, as a whole (``_WITHIN``). That alone would be too strict: a mathematically zero
gradient, as that of a bias before a batch norm, is rounding and nothing else, and Adam makes a whole step of it. So
where something differs, plain torch takes the step again, from weights that differ by 10^-5 and 10^-4: far more than
what 22 bits round, far less than what is trained otherwise. Elements whose gradient changes by a tenth are rounding,
and their weights are not compared; all else may differ by a few times what plain torch itself differs by, and an
optimizer's state by a small part of the largest change in any parameter.
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
from pol.capture.plain import Left, PlainStep, copies_of
from pol.capture.reports.notes import warn
from pol.capture.reports.origin import place_of_error
from pol.capture.reports.reasons import in_words
from pol.errors import ExecutionError, JobError, NotFinite, OutOfRange
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.program import Node, Program
from pol.names import input_name, model_name
from pol.ops.product import BITS
from pol.state.arrays import Array

Tensors = Mapping[str, torch.Tensor]
Progress = Callable[[str], None]

SHARE, LEAST = 0.2, 2.0
"""Most time that the check may take: a share of what the build took so far, or so many seconds if that is less."""
_COSTS = (1e-10, 1e-4, 5e-8)
"""Seconds for an operation of both steps, for a node (a call of plain torch, in each turn), and for a weight."""
_APART = 0.02
"""By how much weights are changed before both steps."""
_WITHIN = 1e-3
_ROUNDING = 2.0**-22
"""What two sums of FP32 numbers may differ by, relative to the larger one."""
_SHAKES = (1e-5, 1e-5, 1e-4)
"""Changes of the weights by which rounding is measured."""
_TIMES = 4.0
"""How many times what plain torch differs by the job's step may differ."""
_TENTH = 0.1
_BESIDE = 1e-4
"""What may be rounding of an optimizer's state, relative to the largest change of its kind in any parameter."""
_AGAIN = 0.5
"""Seconds at most in which a step is taken again and again."""
_SAME = 1e-5
"""What the same step of plain torch may differ by, relative to the larger one."""
_LOSS = "metric.loss"
_OR = "or give check=False to build the job as it is"


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
    """Refuse a job whose first step leaves something else than a step of plain torch; say so where none is compared.

    ``state`` and ``local`` are what the job begins with, at its step ``first``, ``since`` is when the build began, and
    ``is_wide`` whether something is cast to narrow types, which a job computes in FP32. The step of plain torch is
    taken ``again`` so often, if there is time, for it has to be the same whatever earlier ones have left in Python. A
    job that goes on from a result has the state of its optimizer from there, so its update is not that of the person's
    optimizer: there, the rule of the job moves the weights on both sides.

    Raises JobError, which names what differs and the cause.
    """
    wide = _at_most_bits(step)
    weights = sum(tensor.numel() for tensor in state.values())
    counts = (wide.work.flops, wide.unrolled_nodes, weights)
    seconds = sum(cost * count for cost, count in zip(_COSTS, counts, strict=True))
    most = max(LEAST, SHARE * (perf_counter() - since))
    if seconds > most:
        warn(f"not checked against plain torch: one step takes some {seconds:,.0f} s", tell)
        return
    tell("checking one step against plain torch")
    plain = PlainStep(spec, functions, is_wide, first)
    checker = _Checker(spec, functions, wide, state, local, data, plain, again)
    if reason := checker.check():
        warn(f"not checked against plain torch: {reason}", tell)


def _at_most_bits(program: Program) -> Program:
    """Return a program whose products have the most bits there are."""
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
    """A tensor before a step, after that of the job, and after that of plain torch."""

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
        """Return how far both are apart beyond what may be rounding; 0 if they are not."""
        if np.array_equal(self.ours, self.plain):
            return 0.0
        before, ours, plain = (part if among is None else part[among] for part in (self.before, self.ours, self.plain))
        change = max(_norm(ours, before), _norm(plain, before))
        allowed = _WITHIN * change + _ROUNDING * max(_norm(before), _norm(plain))
        found = _norm(ours, plain)
        return 0.0 if found <= allowed else found

    @property
    def ratio(self) -> float:
        """Return how far both are apart, relative to the change."""
        change = max(self.change, _norm(self.ours, self.before))
        return _norm(self.ours, self.plain) / change if change else 0.0

    @property
    def change(self) -> float:
        """Return how much plain torch changes it."""
        return _norm(self.plain, self.before)


def _norm(values: Array, less: Array | None = None) -> float:
    """Return the norm of values, or of a difference."""
    if less is not None:
        values = np.subtract(values, less, dtype=np.float32)
    return float(np.linalg.norm(values.reshape(-1).astype(np.float32, copy=False)))


class _Checker:
    """One step of a job and of plain torch, and what differs between them."""

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
        self._spec, self._functions, self._step, self._data = spec, functions, step, data
        self._own = own_tensors(spec.model)
        start = copies_of(self._own, {name: state[name] for name in self._own})
        _moved_apart([start[name] for name in functions.trained])
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
        self._shaken: list[tuple[Tensors, Left]] = []

    def check(self) -> str | None:
        """Compare; return why that could not be done, if so. Raises JobError where something differs."""
        batch = self._rows(0)
        try:
            plain = self._take(self._start, batch)
        # of the person's own code, or of torch
        except Exception as error:  # noqa: BLE001
            place, (reason, _) = place_of_error(error), in_words(error, "")
            return f"a step of it fails: {f'{place}: ' if place else ''}{reason}"
        if not self._is_finite(plain):
            return "a step of it leaves NaN or infinity"
        self._check_repeatable(plain, batch)
        self._check_new(plain)
        try:
            ours = self._ours(batch)
        except NotFinite as error:
            what = _in_words(error.field)
            reason = f"{what} holds NaN or infinity after a step of the job, and numbers after one of plain torch"
            remedy = f"compute it in another way there; {_OR}"
            raise JobError("model", reason, remedy) from error
        except (OutOfRange, ExecutionError) as error:
            return f"a step of the job cannot be run here: {error}"
        self._compare(plain, ours, batch)
        return None

    def _is_finite(self, left: Left) -> bool:
        """Tell whether a step leaves numbers, but where there were none before it, as in a mask."""
        # a mask may have been infinite before
        own = {n: t for n, t in left.state.items() if not self._has_others(n)}
        found = (
            torch.tensor(left.loss),
            *left.gradients.values(),
            *own.values(),
            *left.local.values(),
        )
        return all(bool(torch.isfinite(tensor).all()) for tensor in found)

    def _has_others(self, name: str) -> bool:
        before = self._start.get(name)
        return before is not None and not bool(torch.isfinite(before).all())

    def _take(self, start: Tensors, batch: Tensors) -> Left:
        return self._plain.take(start, self._local, batch)

    def _rows(self, offset: int) -> dict[str, torch.Tensor]:
        """Return a batch of rows from all over the data."""
        count = len(next(iter(self._data.values())))
        batch = self._spec.batch
        rows = (np.arange(batch) * max(1, count // batch) + offset) % count
        return {name: torch.from_numpy(np.array(column[rows])) for name, column in self._data.items()}

    def _ours(self, batch: Tensors) -> dict[str, Array]:
        """Return the inputs of a step of the job as they are after it, and its loss."""
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
        given = {input_name(name): array for name, array in inputs.items()}
        found = run(self._step, given, self._spec.seed, backend(NATIVE))
        after = {name: found.get(input_name(name), array) for name, array in inputs.items()}
        return {**after, _LOSS: found[_LOSS]}

    def _check_new(self, plain: Left) -> None:
        """Refuse a tensor that forward makes in the model and that depends on the rows: no step hands it on."""
        known = set(_all_names(self._spec.model))
        new = [name for name in plain.state if name not in known]
        other = self._take(self._start, self._rows(1)).state if new else {}
        for name in new:
            if not torch.equal(plain.state[name], other.get(name, torch.empty(0))):
                reason = "is made in a forward pass, and a job hands on only what the model has when it is built"
                remedy = f"make it in __init__, register_buffer(name, torch.zeros(…)); {_OR}"
                raise JobError(f"model.{name}", reason, remedy)

    def _check_repeatable(self, plain: Left, batch: Tensors) -> None:
        """Refuse a step that is another one when it is taken again: a job has it as it was in its first call."""
        end = perf_counter() + _AGAIN
        with closing(self._plain.takes(self._start, self._local, batch)) as takes:
            for number, left in enumerate(takes, 1):
                if name := _otherwise(plain, left, self._functions.trained):
                    raise _another(name, plain, left)
                if number >= self._again or perf_counter() > end:
                    return

    # --- what differs ---

    def _compare(self, plain: Left, ours: Mapping[str, Array], batch: Tensors) -> None:
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
        # what one side alone changes says more than what follows from it
        alone = [n for n in real if tensors[n].is_changed_by_ours != tensors[n].is_changed_by_plain]
        for name in alone:
            raise self._refused(name, tensors[name], loss)
        spread = max(abs(left.loss - plain.loss) for _, left in self._shaken)
        if loss.apart() > _TIMES * spread:
            raise self._loss_refused(loss)
        for name in real:
            raise self._refused(name, tensors[name], loss)
        largest = _largest_changes(state)
        for name, pair in state.items():
            spread = max(_norm(left.local[name].numpy(), plain.local[name].numpy()) for _, left in self._shaken)
            floor = _BESIDE * largest[name.partition(".")[0]]
            if pair.apart() > _TIMES * spread + floor:
                raise self._optimizer_refused(name, pair)

    def _tensors(self, plain: Left, ours: Mapping[str, Array]) -> Iterator[tuple[str, _Compared]]:
        """Yield every tensor of the model, under all of its names, and the moving averages."""
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

    def _optimizers(self, plain: Left, ours: Mapping[str, Array]) -> dict[str, tuple[Array, Array, Array]]:
        return {
            name: (self._local[name].numpy(), ours[f"local.{name}"], tensor.numpy())
            for name, tensor in plain.local.items()
            if name in self._local
        }

    def _shaken_starts(self) -> Iterator[dict[str, torch.Tensor]]:
        for number, size in enumerate(_SHAKES):
            drawn = torch.Generator().manual_seed(number)
            moved = {
                name: self._start[name] * (1 + size * (2 * torch.rand(self._start[name].shape, generator=drawn) - 1))
                for name in self._functions.trained
            }
            yield {**self._start, **moved}

    def _is_real(self, name: str, pair: _Compared, plain: Left, is_trained: bool) -> bool:
        """Tell whether a tensor differs by more than rounding does."""
        among = np.ones(pair.before.shape, np.bool_)
        if is_trained and name in plain.gradients:
            gradient = plain.gradients[name]
            for _, left in self._shaken:
                moved = (left.gradients[name] - gradient).abs()
                among &= (moved <= _TENTH * gradient.abs()).numpy()
        found = pair.apart(among)
        if not found:
            return False
        key = name.removeprefix(AVERAGE)
        spread = 0.0
        for start, left in self._shaken:
            if key not in left.state or left.state[key].shape != pair.before.shape:
                continue
            shift = left.state[key].double() - plain.state[key].double()
            if key in start:
                shift -= start[key].double() - self._start[key].double()
            spread = max(spread, _norm(shift.numpy()[among]))
        return found > _TIMES * spread

    # --- words ---

    def _refused(self, name: str, pair: _Compared, loss: _Compared) -> JobError:
        model = self._spec.model
        own = name.removeprefix(AVERAGE)
        part = own.rpartition(".")[0]
        kept = [at for at, _ in parts_in_eval(model) if not at or f"{part}.".startswith(f"{at}.")]
        if not pair.is_changed_by_ours:
            reason = f"a step of plain torch changes it (by {_largest(pair, 'plain')} at most), and the job's leaves it"
            remedy = "write to it in forward by operations of torch on the tensor itself, not in a hook or by NumPy"
        elif not pair.is_changed_by_plain:
            most = _largest(pair, "ours")
            reason = f"the job's step changes it (by {most} at most), and one of plain torch leaves it"
            remedy = (
                "leave its part in training mode, or give a train() to the model that keeps it in eval mode"
                if kept
                else "leave it out of what forward writes to"
            )
        else:
            reason = f"a step of plain torch changes it otherwise than the job's, {pair.ratio:.1%} of the change apart"
            remedy = "write what is computed of it in another way"
        if shared := self._sharing(own):
            reason = f"{reason}; it is one memory with {shared}, and a job has two tensors there"
            remedy = f"make one parameter of both, {own} = {shared}, or two with a memory of their own (clone())"
        elif kept:
            at = kept[-1] or "the model"
            reason = f"{reason}; {at} ({type(model.get_submodule(kept[-1])).__name__}) was handed over in eval mode"
        if loss.ratio > 10 * _WITHIN:
            reason = f"{reason}; the loss is {loss.plain[0]:.6g} in plain torch and {loss.ours[0]:.6g} in the job"
        return JobError(f"model.{name}", reason, f"{remedy}; {_OR}")

    def _loss_refused(self, loss: _Compared) -> JobError:
        reason = (
            f"is {loss.plain[0]:.6g} in plain torch and {loss.ours[0]:.6g} in the job, "
            "of the same rows, weights and random numbers"
        )
        remedy = "write what forward or the loss computes in another way"
        return JobError("loss", reason, f"{remedy}; {_OR}")

    def _optimizer_refused(self, name: str, pair: _Compared) -> JobError:
        kind, _, parameter = name.partition(".")
        of = f" of {parameter}" if parameter in self._own else ""
        reason = (
            f"{kind}{of} is otherwise after a step of the job than after one of plain torch, "
            f"{pair.ratio:.1%} of the change apart"
        )
        remedy = "make a new optimizer of the model, without state and with plain options"
        return JobError("optimizer", reason, f"{remedy}; {_OR}")

    def _sharing(self, name: str) -> str | None:
        """Return another tensor of the model that lies in the memory of this one."""
        own = self._own.get(name)
        place = 0 if own is None else own.untyped_storage().data_ptr()
        found: Sequence[str] = [
            other
            for other, tensor in self._own.items()
            if other != name and place and tensor.untyped_storage().data_ptr() == place
        ]
        return found[0] if found else None


def _otherwise(one: Left, other: Left, trained: Sequence[str]) -> str | None:
    """Return what differs between two takes of a step by more than an order of summation makes; else None."""
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
        before, after = (left.state[name].numpy() for left in (one, other))
        if before.shape != after.shape or not np.allclose(before, after, 1e-4, 1e-6, equal_nan=True):
            return name
    return None


def _another(name: str, one: Left, other: Left) -> JobError:
    reason = "when a step of plain torch is taken again, of the same rows, weights and random numbers"
    if name == _LOSS:
        field, what = "loss", f"is {other.loss:.6g} after {one.loss:.6g}"
    else:
        is_slope = name in one.gradients or name in other.gradients
        field, what = f"model.{name}", f"has {'another gradient' if is_slope else 'other values'}"
    remedy = (
        'keep what changes from call to call in a buffer of the model, model.register_buffer("calls", '
        f"torch.zeros(())), and change that in place; draw by torch.rand; {_OR}"
    )
    return JobError(field, f"{what} {reason}, and a job takes each step as the first one", remedy)


def _largest_changes(state: Mapping[str, _Compared]) -> dict[str, float]:
    """Return the largest change of each kind of an optimizer's state."""
    found: dict[str, float] = {}
    for name, pair in state.items():
        kind = name.partition(".")[0]
        found[kind] = max(found.get(kind, 0.0), pair.change)
    return found


def _moved_apart(weights: Sequence[torch.Tensor]) -> None:
    """Change weights a little, in place: towards 0, and those that are 0 away from it.

    No number changes its sign or becomes larger in size, so what a model takes roots or logarithms of stays in order.
    What no optimizer moves stays as it is, for it may be a mask, and have decided shapes when the step was traced.
    """
    drawn = torch.Generator().manual_seed(0)
    for weight in weights:
        shrunk = weight * (1 - _APART * torch.rand(weight.shape, generator=drawn))
        if not bool(weight.all()):
            risen = _APART * torch.rand(weight.shape, generator=drawn)
            shrunk = torch.where(weight == 0, risen, shrunk)
        weight.copy_(shrunk)


def _all_names(model: nn.Module) -> dict[str, str]:
    """Return all names of the model's tensors, and the first of each tensor's; a part with two names has one here."""
    firsts: dict[int, str] = {}
    found = {}
    for prefix, slots in slots_of(model):
        for key, tensor in slots.items():
            if tensor is not None:
                name = f"{prefix}.{key}" if prefix else key
                found[name] = firsts.setdefault(id(tensor), name)
    return found


def _largest(pair: _Compared, which: str) -> str:
    after = pair.plain if which == "plain" else pair.ours
    change = np.abs(after.astype(np.float64) - pair.before)
    return f"{np.nanmax(change):.3g}"


def _in_words(output: str) -> str:
    kind, _, name = output.partition(".")
    return "the loss" if kind == "metric" else model_name(name)
