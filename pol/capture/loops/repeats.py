"""Repeats. A function that is called once per turn is captured only once, together with its gradient, and becomes a
``repeat`` in the program.

The body is captured separately from the surrounding function. Separate tensors replace the tensors that the body reads
from that function. Gradients of constants are summed from the last turn to the first one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from pol.capture.graph.capture import capture_program
from pol.capture.loops.turns import BEGIN, END, GIVEN, SLOPE, TOTAL, Passes, taken_apart
from pol.capture.reports.reasons import NotInAJob
from pol.capture.rules.repeat_op import repeated
from pol.job.program import Program
from pol.ops.repeat import CARRY, CONSTANT, SEQUENCE, STACKED

Values = Sequence[Tensor]
Turn = Callable[[Values, Values, Values], tuple[Values, Values]]
"""Function of the carried values, the parts of the sequences and the constants; it returns the next carried values and
the values to stack.
"""


@dataclass(eq=False, slots=True)
class TurnNumber:
    """Number of the turn that is captured."""

    value: Tensor
    count: int
    """Count of all turns."""
    is_used: bool = False
    """True if a site in the turn has used the turn's number to draw."""


_turns: ContextVar[tuple[TurnNumber, ...]] = ContextVar("turns", default=())
_tried: ContextVar[bool] = ContextVar("tried", default=False)


@contextmanager
def numbered(value: Tensor, count: int) -> Iterator[TurnNumber]:
    """Provide the number of a turn to the functions that draw random numbers within this context."""
    turn = TurnNumber(value, count)
    token = _turns.set((*_turns.get(), turn))
    try:
        yield turn
    finally:
        _turns.reset(token)


def depth() -> int:
    """Return how many nested turns surround the caller. Only turns in a :func:`numbered` context count."""
    return len(_turns.get())


def numbered_within(number: Tensor, outside: int) -> Tensor:
    """Combine ``number`` with the numbers of the present turns into one number, which no other combination gives.

    Only turns that are nested deeper than ``outside`` count.
    """
    number = resolved(number)
    for turn in _turns.get()[outside:]:
        turn.is_used = True
        number = number * turn.count + resolved(turn.value)
    return number


@contextmanager
def _trial() -> Iterator[None]:
    token = _tried.set(True)
    try:
        yield
    finally:
        _tried.reset(token)


def is_tried() -> bool:
    """Return whether a turn is being called with zeros, to find the tensors that it reads and returns."""
    return _tried.get()


@dataclass(frozen=True, slots=True)
class Operands:
    """Operands of a repeat: carried values, sequences, and constants."""

    carried: Values
    sequences: Values
    constants: Values
    count: int
    reverse: bool

    @property
    def all(self) -> list[Tensor]:
        """All operands, one after another."""
        return [*self.carried, *self.sequences, *self.constants]

    @property
    def parts(self) -> list[Tensor]:
        """Tensors with the shapes that the sequences' parts have in one turn."""
        return [sequence[0] for sequence in self.sequences]

    @property
    def need_gradient(self) -> bool:
        """True if any operand requires a gradient."""
        return torch.is_grad_enabled() and any(value.requires_grad for value in self.all)

    def like(self, values: Values) -> "Operands":
        """Return operands of the same form with these values."""
        first = len(self.carried)
        last = first + len(self.sequences)
        return Operands(
            carried=values[:first],
            sequences=values[first:last],
            constants=values[last:],
            count=self.count,
            reverse=self.reverse,
        )


def looped(turn: Turn, operands: Operands) -> tuple[list[Tensor], list[Tensor]]:
    """Call ``turn`` once per turn in eager torch; return the last carried values and the stacked outputs.

    This loop defines the meaning of a repeat.
    """
    carried = list(operands.carried)
    stacks = dict[int, Values]()
    turns = range(operands.count)
    for at in reversed(turns) if operands.reverse else turns:
        parts = [sequence[at] for sequence in operands.sequences]
        ends, stacks[at] = turn(carried, parts, operands.constants)
        carried = list(ends)
    stacked = [torch.stack(parts) for parts in zip(*(stacks[at] for at in turns), strict=True)]
    return carried, stacked


# --- capture of a body ---


def _same(value: Tensor) -> Tensor:
    return value


@contextmanager
def apart() -> Iterator[None]:
    """Suspend the surrounding capture within this context."""
    # The hooks prevent that a surrounding checkpoint handles the tensors that are saved here.
    with _disable_current_modes(), torch.enable_grad(), saved_tensors_hooks(_same, _same):
        yield


def stand_ins(values: Iterable[Tensor]) -> list[Tensor]:
    """Return zeros with the shapes and dtypes of values, for a capture."""
    return [torch.zeros(tuple(value.shape), dtype=value.dtype) for value in values]


_active: ContextVar[tuple["Swapping", ...]] = ContextVar("active", default=())


class Swapping(TorchFunctionMode):
    """A mode for the body of a repeat: in calls of torch, it replaces the tensors of the surrounding function."""

    def __init__(self, outer: Values = (), inner: Values = ()) -> None:
        super().__init__()
        self.pairs = {id(a): (a, b) for a, b in zip(outer, inner, strict=True)}

    def __enter__(self) -> Self:
        """Enter the mode."""
        _active.set((*_active.get(), self))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the mode."""
        _active.set(_active.get()[:-1])
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function with the replacements."""
        arguments, options = tree_map(self.swapped, (tuple(args), kwargs or {}))
        return function(*arguments, **options)

    def swapped(self, value: Any) -> Any:
        """Return the replacement of an argument, or the argument itself."""
        return self.pairs[id(value)][1] if id(value) in self.pairs else value


class _Finding(Swapping):
    """A mode that finds the tensors that a body reads from the surrounding function, and replaces them with zeros.

    Raises NotInAJob if the body writes to such a tensor.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = super().__torch_function__(function, types, args, kwargs)
        for outer, inner in self.pairs.values():
            if inner._version:
                reason = (
                    f"a turn of a repeat changes a tensor of shape {list(outer.shape)} in place, "
                    "and the repeat does not carry it"
                )
                remedy = (
                    "make the tensor part of the carry, and return its new value; call layers that keep "
                    "statistics, such as BatchNorm, on all steps at once before or after the repeat, or use "
                    "LayerNorm or GroupNorm instead"
                )
                raise NotInAJob(reason, remedy)
        return result

    def swapped(self, value: Any) -> Any:
        if isinstance(value, FakeTensor) and id(value) not in self.pairs:
            (inner,) = stand_ins([value])
            self.pairs[id(value)] = value, inner
        return super().swapped(value)


@dataclass(frozen=True, slots=True)
class Within:
    """The turns within which a call runs. If a checkpointed part runs again for its gradients, it must run within the
    same turns.
    """

    turns: tuple[TurnNumber, ...]
    swapping: tuple[Swapping, ...]

    @classmethod
    def now(cls) -> Self:
        """Return the turns around the caller."""
        return cls(_turns.get(), _active.get())

    @property
    def is_any(self) -> bool:
        """True if the call is in the body of a repeat."""
        return bool(self.swapping)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Enter these turns again within this context."""
        turns, active = _turns.set(self.turns), _active.set(())
        try:
            with ExitStack() as stack:
                for mode in self.swapping:
                    stack.enter_context(mode)
                yield
        finally:
            _active.reset(active)
            _turns.reset(turns)


def resolved(value: Tensor) -> Tensor:
    """Return the tensor that stands for ``value`` in the bodies that are being captured, or ``value`` itself."""
    for mode in reversed(_active.get()):
        value = mode.swapped(value)
    return value


def tried(turn: Turn, operands: Operands) -> tuple[list[Tensor], Values, Values]:
    """Call a turn with zeros, and return the surrounding tensors that it reads.

    Also return zeros with the shapes and dtypes of its next carried values, and of its outputs.
    """
    with apart():
        inside = [stand_ins(values) for values in (operands.carried, operands.parts)]
        with _Finding() as finding, _trial():
            ends, outputs = turn(inside[0], inside[1], ())
        return [outer for outer, _ in finding.pairs.values()], stand_ins(ends), stand_ins(outputs)


def _named(kinds: Mapping[str, Values]) -> dict[str, Tensor]:
    return {f"{kind}.{at}": value for kind, some in kinds.items() for at, value in enumerate(some)}


def captured_turn(turn: Turn, operands: Operands) -> Program:
    """Return one turn as the body of a repeat."""
    shown = operands.carried, operands.parts, operands.constants
    first = len(operands.carried)
    last = first + len(operands.sequences)

    def function(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        inputs = list(values.values())
        ends, stacked = turn(inputs[:first], inputs[first:last], inputs[last:])
        return _named({CARRY: ends, STACKED: stacked})

    with apart():
        kinds = zip((CARRY, SEQUENCE, CONSTANT), map(stand_ins, shown), strict=True)
        return capture_program(function, _named(dict(kinds)))


def captured_gradient(turn: Turn, operands: Operands, wanted: Sequence[bool]) -> Passes:
    """Capture one turn together with its gradients, as a forward and a backward pass.

    The gradients are taken with respect to the carried values, and to the ``wanted`` sequences and constants.
    """
    shown = operands.carried, operands.parts, operands.constants
    first = len(operands.carried)
    sequences = len(operands.sequences)
    last = first + sequences

    def function(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        inputs = [
            value.detach().requires_grad_(value.is_floating_point())
            for name, value in values.items()
            if name.partition(".")[0] in (CARRY, SEQUENCE, CONSTANT)
        ]
        ends, stacked = turn(inputs[:first], inputs[first:last], inputs[last:])
        chosen = [at for at, is_wanted in enumerate(wanted) if is_wanted]
        leaves = [*inputs[:first], *(inputs[first + at] for at in chosen)]
        gradients = slopes(_named({END: ends, GIVEN: stacked}), leaves, values)
        outputs = _named({CARRY: ends, STACKED: stacked, BEGIN: gradients[:first]})
        for at, slope in zip(chosen, gradients[first:], strict=True):
            if at < sequences:
                outputs[f"{SLOPE}.{at}"] = slope
            else:
                name = f"{TOTAL}.{at - sequences}"
                outputs[name] = values[name] + slope
        return outputs

    with apart():
        inside = [stand_ins(values) for values in shown]
        names = _named(dict(zip((CARRY, SEQUENCE, CONSTANT), inside, strict=True)))
        with _trial():
            ends, stacked = turn(*inside)
        names |= _named({END: stand_ins(ends), GIVEN: stand_ins(stacked)})
        for at, (value, is_wanted) in enumerate(zip(inside[2], wanted[sequences:], strict=True)):
            if is_wanted:
                names[f"{TOTAL}.{at}"] = torch.zeros_like(value)
        return taken_apart(capture_program(function, names))


def slopes(results: Mapping[str, Tensor], leaves: Values, values: Mapping[str, Tensor]) -> list[Tensor]:
    """Return the gradients with respect to ``leaves``.

    ``values`` has the given gradients with respect to ``results``, under the names of ``results``.
    """
    sources = {name: value for name, value in results.items() if value.requires_grad}
    if not sources:
        return [torch.zeros_like(leaf) for leaf in leaves]
    by_results = [values[name] for name in sources]
    by_leaves: Sequence[Tensor | None] = torch.autograd.grad(
        list(sources.values()), leaves, by_results, allow_unused=True
    )
    return [torch.zeros_like(leaf) if value is None else value for leaf, value in zip(leaves, by_leaves, strict=True)]


# --- in the graph ---


@dataclass(frozen=True, slots=True)
class Slopes:
    """Gradients from the backward pass, by their number.

    ``totals`` has the sums for constants, and ``others`` all other gradients, stacked turn by turn.
    """

    totals: dict[int, Tensor]
    others: dict[int, Tensor]


Finish = Callable[[Operands, Values, Slopes], Sequence[Tensor | None]]
"""Function that returns the gradients with respect to sequences and constants. Its arguments are the operands, the
stacks, and the gradients of the backward pass.
"""


def _finish(operands: Operands, _: Values, slopes: Slopes) -> list[Tensor | None]:
    by_sequence = [slopes.others.get(at) for at in range(len(operands.sequences))]
    return by_sequence + [slopes.totals.get(at) for at in range(len(operands.constants))]


@dataclass(frozen=True, slots=True)
class Way:
    """The functions that compute a repeat: its turn, its two passes, and the function for the final gradients.

    If a turn runs again in the backward pass, it runs within the context ``again``, which restores what surrounded the
    first run.
    """

    turn: Turn
    passes: Passes
    finish: Finish = _finish
    again: Callable[[], AbstractContextManager[object]] = nullcontext


class _Repeat(torch.autograd.Function):
    """A repeat in the graph of a job, with its two passes."""

    @staticmethod
    def forward(ctx: Any, way: Way, form: Operands, *values: Tensor) -> Any:
        """Run the forward pass."""
        parts = repeated(way.passes.forward, list(values), form.count, reverse=form.reverse)
        carried = len(form.carried)
        ctx.way = way
        ctx.form = form
        ctx.save_for_backward(*values, *parts[carried:])
        return tuple(parts[:carried] + [parts[carried + at] for at in way.passes.stacks])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Run the backward pass, from the last turn to the first one."""
        way, form = ctx.way, ctx.form
        inputs, carried = len(form.all), len(form.carried)
        # The tensors are read only once, because a checkpoint provides them only once.
        saved = ctx.saved_tensors
        operands, stacks = form.like(saved[:inputs]), saved[inputs:]
        if torch.is_grad_enabled():
            return None, None, *_differentiable(way, operands, gradients)
        known: dict[str, Values] = {
            END: gradients[:carried],
            GIVEN: gradients[carried:],
            SEQUENCE: operands.sequences,
            CONSTANT: operands.constants,
            TOTAL: [torch.zeros_like(value) for value in operands.constants],
            STACKED: stacks,
        }
        inputs_of_pass = [known[kind][at] for kind, at in way.passes.operands]
        results = repeated(way.passes.backward, inputs_of_pass, form.count, reverse=not form.reverse)
        totals = [at for kind, at in way.passes.operands if kind == TOTAL]
        behind = results[carried + len(totals) :]
        slopes = Slopes(
            dict(zip(totals, results[carried:], strict=False)),
            {number: behind[at] for number, at in way.passes.slopes.items()},
        )
        return None, None, *results[:carried], *way.finish(operands, stacks, slopes)


def with_gradient(way: Way, operands: Operands) -> list[Tensor]:
    """Run a repeat that has gradients; return its last carried values and its stacked outputs."""
    parts: Any = _Repeat.apply(way, operands, *operands.all)  # type: ignore[no-untyped-call]
    return list(parts)


def _differentiable(way: Way, operands: Operands, gradients: Values) -> tuple[Tensor | None, ...]:
    """Return gradients that can be differentiated again, computed turn by turn as in eager torch."""
    with way.again():
        ends, stacked = looped(way.turn, operands)
    leaves = [value for value in operands.all if value.requires_grad]
    sources = [(value, slope) for value, slope in zip([*ends, *stacked], gradients, strict=True) if value.requires_grad]
    gradients_of_leaves = iter(
        torch.autograd.grad(
            [value for value, _ in sources],
            leaves,
            [slope for _, slope in sources],
            create_graph=True,
            allow_unused=True,
        )
    )
    return tuple(next(gradients_of_leaves) if value.requires_grad else None for value in operands.all)


def repeat_turns(
    turn: Turn,
    operands: Operands,
    again: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[list[Tensor], list[Tensor]]:
    """Add a repeat of ``turn`` to the program; return its last carried values and its stacked outputs."""
    values = operands.all
    carried = len(operands.carried)
    if operands.need_gradient:
        wanted = [value.requires_grad for value in values[carried:]]
        way = Way(turn, captured_gradient(turn, operands, wanted), again=again)
        parts = with_gradient(way, operands)
    else:
        body = captured_turn(turn, operands)
        parts = repeated(body, values, operands.count, reverse=operands.reverse)
    return parts[:carried], parts[carried:]
