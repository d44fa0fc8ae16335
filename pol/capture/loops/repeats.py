"""A function that is called turn after turn, captured once: ``repeat`` in the program, with its gradient.

The body is captured apart from the function around it, with tensors of its own in the places of those that come from
there. Gradients of constants are added up from the last turn to the first one.
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
"""Carried values, parts of sequences and constants, to what is carried on and what is stacked."""


@dataclass(eq=False, slots=True)
class TurnNumber:
    """The number of the captured turn, the number of turns, and whether the turn was used."""

    value: Tensor
    count: int
    is_used: bool = False


_turns: ContextVar[tuple[TurnNumber, ...]] = ContextVar("turns", default=())
_tried: ContextVar[bool] = ContextVar("tried", default=False)


@contextmanager
def numbered(value: Tensor, count: int) -> Iterator[TurnNumber]:
    """Let what draws in a turn know its number."""
    turn = TurnNumber(value, count)
    token = _turns.set((*_turns.get(), turn))
    try:
        yield turn
    finally:
        _turns.reset(token)


def depth() -> int:
    """Return in how many turns whose numbers are known something is."""
    return len(_turns.get())


def numbered_within(number: Tensor, outside: int) -> Tensor:
    """Return what a number becomes in the turns within ``outside`` others: a number of its own for each of them."""
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
    """True if a turn is called with zeros, only to record its inputs and outputs."""
    return _tried.get()


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a repeat: carried values, sequences, and constants."""

    carried: Values
    sequences: Values
    constants: Values
    count: int
    reverse: bool

    @property
    def all(self) -> list[Tensor]:
        """Them one after another."""
        return [*self.carried, *self.sequences, *self.constants]

    @property
    def parts(self) -> list[Tensor]:
        """Tensors like the parts of sequences of one turn."""
        return [sequence[0] for sequence in self.sequences]

    @property
    def need_gradient(self) -> bool:
        """True if any of them requires a gradient."""
        return torch.is_grad_enabled() and any(value.requires_grad for value in self.all)

    def like(self, values: Values) -> "Operands":
        """Return the same with others in their places."""
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
    """Call a function for one turn after another: what eager torch does, and what a repeat means."""
    carried, stacks = list(operands.carried), dict[int, Values]()
    turns = range(operands.count)
    for at in reversed(turns) if operands.reverse else turns:
        parts = [sequence[at] for sequence in operands.sequences]
        ends, stacks[at] = turn(carried, parts, operands.constants)
        carried = list(ends)
    stacked = [torch.stack(parts) for parts in zip(*(stacks[at] for at in turns), strict=True)]
    return carried, stacked


# --- capturing a body ---


def _same(value: Tensor) -> Tensor:
    return value


@contextmanager
def apart() -> Iterator[None]:
    """Leave the current capture for a while."""
    # what is saved in here is no concern of a checkpoint around it
    with _disable_current_modes(), torch.enable_grad(), saved_tensors_hooks(_same, _same):
        yield


def stand_ins(values: Iterable[Tensor]) -> list[Tensor]:
    """Return zeros like values, for a capture."""
    return [torch.zeros(tuple(value.shape), dtype=value.dtype) for value in values]


_active: ContextVar[tuple["Swapping", ...]] = ContextVar("active", default=())


class Swapping(TorchFunctionMode):
    """While active, tensors of the function around a body have others in their places."""

    def __init__(self, outer: Values = (), inner: Values = ()) -> None:
        super().__init__()
        self.pairs = {id(a): (a, b) for a, b in zip(outer, inner, strict=True)}

    def __enter__(self) -> Self:
        """Begin."""
        _active.set((*_active.get(), self))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        """End."""
        _active.set(_active.get()[:-1])
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function with the others."""
        given, options = tree_map(self.swapped, (tuple(args), kwargs or {}))
        return function(*given, **options)

    def swapped(self, value: Any) -> Any:
        """Return what is in the place of an argument."""
        return self.pairs[id(value)][1] if id(value) in self.pairs else value


class _Finding(Swapping):
    """Finds the tensors of the function around a body, and puts zeros in their places, which nothing writes to."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        found = super().__torch_function__(function, types, args, kwargs)
        for outer, inner in self.pairs.values():
            if inner._version:
                reason = (
                    f"a tensor of {list(outer.shape)} is changed in place there, in a turn of a "
                    "repeat that does not carry it"
                )
                remedy = (
                    "carry it, and return what it becomes; layers that keep statistics, as batch "
                    "norm does, are called on all steps at once, before or after the repeat, or "
                    "LayerNorm and GroupNorm take their places"
                )
                raise NotInAJob(reason, remedy)
        return found

    def swapped(self, value: Any) -> Any:
        if isinstance(value, FakeTensor) and id(value) not in self.pairs:
            (inner,) = stand_ins([value])
            self.pairs[id(value)] = value, inner
        return super().swapped(value)


@dataclass(frozen=True, slots=True)
class Within:
    """In which turns something is: what a part that runs again for its gradients has to be put back into."""

    turns: tuple[TurnNumber, ...]
    swapping: tuple[Swapping, ...]

    @classmethod
    def now(cls) -> Self:
        """Return the caller's place."""
        return cls(_turns.get(), _active.get())

    @property
    def is_any(self) -> bool:
        """True inside the body of a repeat."""
        return bool(self.swapping)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Be there once more."""
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
    """Return the tensor that replaces a tensor in the bodies that are being captured."""
    for mode in reversed(_active.get()):
        value = mode.swapped(value)
    return value


def tried(turn: Turn, operands: Operands) -> tuple[list[Tensor], Values, Values]:
    """Return which tensors around it a turn reads, and zeros like what it carries on and gives."""
    given = operands.carried, operands.parts
    with apart():
        inside = [stand_ins(values) for values in given]
        with _Finding() as finding, _trial():
            ends, outputs = turn(inside[0], inside[1], ())
        return [outer for outer, _ in finding.pairs.values()], stand_ins(ends), stand_ins(outputs)


def _named(kinds: Mapping[str, Values]) -> dict[str, Tensor]:
    return {f"{kind}.{at}": value for kind, some in kinds.items() for at, value in enumerate(some)}


def traced_turn(turn: Turn, operands: Operands) -> Program:
    """Return one turn as the body of a repeat."""
    shown = operands.carried, operands.parts, operands.constants
    first = len(operands.carried)
    last = first + len(operands.sequences)

    def function(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        given = list(values.values())
        ends, stacked = turn(given[:first], given[first:last], given[last:])
        return _named({CARRY: ends, STACKED: stacked})

    with apart():
        kinds = zip((CARRY, SEQUENCE, CONSTANT), map(stand_ins, shown), strict=True)
        return capture_program(function, _named(dict(kinds)))


def traced_gradient(turn: Turn, operands: Operands, wanted: Sequence[bool]) -> Passes:
    """Return one turn and its gradient by what is carried, and by sequences and constants that are ``wanted``."""
    shown = operands.carried, operands.parts, operands.constants
    first, sequences = len(operands.carried), len(operands.sequences)
    last = first + sequences

    def function(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        given = [
            value.detach().requires_grad_(value.is_floating_point())
            for name, value in values.items()
            if name.partition(".")[0] in (CARRY, SEQUENCE, CONSTANT)
        ]
        ends, stacked = turn(given[:first], given[first:last], given[last:])
        chosen = [at for at, is_wanted in enumerate(wanted) if is_wanted]
        leaves = [*given[:first], *(given[first + at] for at in chosen)]
        found = slopes(_named({END: ends, GIVEN: stacked}), leaves, values)
        outputs = _named({CARRY: ends, STACKED: stacked, BEGIN: found[:first]})
        for at, slope in zip(chosen, found[first:], strict=True):
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
    """Return the gradients by ``leaves``, where those by the results are ``values`` of the same names."""
    sources = {name: value for name, value in results.items() if value.requires_grad}
    if not sources:
        return [torch.zeros_like(leaf) for leaf in leaves]
    given = [values[name] for name in sources]
    found: Sequence[Tensor | None] = torch.autograd.grad(list(sources.values()), leaves, given, allow_unused=True)
    return [torch.zeros_like(leaf) if value is None else value for leaf, value in zip(leaves, found, strict=True)]


# --- in the graph ---


@dataclass(frozen=True, slots=True)
class Slopes:
    """Gradients that the backward pass has: by constants, and others turn by turn, all by their numbers."""

    totals: dict[int, Tensor]
    others: dict[int, Tensor]


Finish = Callable[[Operands, Values, Slopes], Sequence[Tensor | None]]
"""Operands, stacks, and what the backward pass has, to the gradients by sequences and constants."""


def _finish(operands: Operands, _: Values, found: Slopes) -> list[Tensor | None]:
    by_sequence = [found.others.get(at) for at in range(len(operands.sequences))]
    return by_sequence + [found.totals.get(at) for at in range(len(operands.constants))]


@dataclass(frozen=True, slots=True)
class Way:
    """The ways to compute a repeat: its turn, its two passes, and the last gradients of the backward pass.

    ``again`` puts a turn that runs again in the backward pass back to where it was called.
    """

    turn: Turn
    passes: Passes
    finish: Finish = _finish
    again: Callable[[], AbstractContextManager[object]] = nullcontext


class _Repeat(torch.autograd.Function):
    """The two passes of a repeat in the graph of a job."""

    @staticmethod
    def forward(ctx: Any, way: Way, form: Operands, *values: Tensor) -> Any:
        """Run the forward pass."""
        parts = repeated(way.passes.forward, list(values), form.count, reverse=form.reverse)
        carried = len(form.carried)
        ctx.way, ctx.form = way, form
        ctx.save_for_backward(*values, *parts[carried:])
        return tuple(parts[:carried] + [parts[carried + at] for at in way.passes.stacks])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Run the backward pass, from the last turn to the first one."""
        way, form = ctx.way, ctx.form
        inputs, carried = len(form.all), len(form.carried)
        # once, for a checkpoint gives it once
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
        given = [known[kind][at] for kind, at in way.passes.operands]
        found = repeated(way.passes.backward, given, form.count, reverse=not form.reverse)
        totals = [at for kind, at in way.passes.operands if kind == TOTAL]
        behind = found[carried + len(totals) :]
        slopes = Slopes(
            dict(zip(totals, found[carried:], strict=False)),
            {number: behind[at] for number, at in way.passes.slopes.items()},
        )
        return None, None, *found[:carried], *way.finish(operands, stacks, slopes)


def with_gradient(way: Way, operands: Operands) -> list[Tensor]:
    """Return what is carried at the end, and what was stacked."""
    parts: Any = _Repeat.apply(way, operands, *operands.all)  # type: ignore[no-untyped-call]
    return list(parts)


def _differentiable(way: Way, operands: Operands, gradients: Values) -> tuple[Tensor | None, ...]:
    """Return the gradients so that they have gradients themselves: turn by turn, as eager torch has them."""
    with way.again():
        ends, stacked = looped(way.turn, operands)
    leaves = [value for value in operands.all if value.requires_grad]
    sources = [(value, slope) for value, slope in zip([*ends, *stacked], gradients, strict=True) if value.requires_grad]
    found = iter(
        torch.autograd.grad(
            [value for value, _ in sources],
            leaves,
            [slope for _, slope in sources],
            create_graph=True,
            allow_unused=True,
        )
    )
    return tuple(next(found) if value.requires_grad else None for value in operands.all)


def repeat_turns(
    turn: Turn,
    operands: Operands,
    again: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return what is carried at the end and what was stacked, by a repeat in the program."""
    values, carried = operands.all, len(operands.carried)
    if operands.need_gradient:
        wanted = [value.requires_grad for value in values[carried:]]
        way = Way(turn, traced_gradient(turn, operands, wanted), again=again)
        parts = with_gradient(way, operands)
    else:
        body = traced_turn(turn, operands)
        parts = repeated(body, values, operands.count, reverse=operands.reverse)
    return parts[:carried], parts[carried:]
