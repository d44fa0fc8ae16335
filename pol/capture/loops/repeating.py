"""``assay.repeat``: a loop with a fixed number of turns, for recurrences without a layer in torch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._pytree import tree_flatten, tree_unflatten

from pol.capture.graph.sites import active_sites
from pol.capture.loops.repeats import (
    Operands,
    Swapping,
    Turn,
    Values,
    Within,
    looped,
    numbered,
    repeat_turns,
    resolved,
    tried,
)
from pol.capture.reports.origin import CallSites
from pol.capture.rules.registry import dtype_of
from pol.limits import MAX_TURNS

Put = Callable[[Values], Any]
"""Function that returns a value of the same form in which other tensors replace the value's tensors."""


def repeat(
    function: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    sequence: Any = None,
    *,
    count: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Call ``function(carry, part)`` for one turn after another; return the last carry, and all outputs stacked.

    ``function`` returns ``(carry, output)``. The next turn gets this carry, which must have the same form as the carry
    that the function got. The outputs of all turns are stacked along a new first dimension; an output may also be None.
    ``carry``, ``sequence`` and the output are tensors, or tuples, lists and dicts of tensors. ``function`` may read
    weights and other tensors from its surroundings.

    ``part`` is the part of the sequence that belongs to the turn: the elements of its tensors at one index of their
    first dimension. Turns go from the first index to the last. With ``reverse=True``, they go from the last index to
    the first. Each output has the same index as its part. If there is no sequence, each part is None, and there are
    ``count`` turns.

    In a job, the whole loop is one operation with any number of turns, and its gradient is another operation. Outside
    of a job, it is an ordinary loop.

    Raises TypeError or ValueError if the function, its values or the number of turns are not accepted.

    Example::

        def turn(hidden, token):
            hidden = cell(token, hidden)
            return hidden, hidden

        last, all_of_them = assay.repeat(turn, first_hidden, tokens)
    """
    initial, put_carry, form = _tensors(carry, "carry")
    sequences, put_parts, _ = _tensors(sequence, "sequence")
    put_output: list[Put] = []

    def turn(carried: Values, parts: Values, constants: Values) -> tuple[Values, Values]:
        del constants
        result: object = function(put_carry(carried), put_parts(parts))
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError("the function of a repeat must return a tuple of two: the carry, and an output or None")
        ends, _, form_now = _tensors(result[0], "carry")
        if form_now != form:
            raise TypeError("the carry after a turn must have the same tuples, lists and dicts as before the turn")
        for before, after in zip(carried, ends, strict=True):
            if (before.shape, before.dtype) != (after.shape, after.dtype):
                raise ValueError(f"the carry is {_kind(before)} before a turn, and {_kind(after)} after it")
        outputs, put, _ = _tensors(result[1], "output")
        put_output[:] = [put]
        return ends, outputs

    operands = Operands(
        carried=initial,
        sequences=sequences,
        constants=[],
        count=_turns(sequences, count),
        reverse=reverse,
    )
    is_captured = get_proxy_mode() is not None
    ends, stacked = _captured(turn, operands) if is_captured else looped(turn, operands)
    return put_carry(ends), put_output[0](stacked)


def _tensors(value: Any, what: str) -> tuple[list[Tensor], Put, object]:
    """Return the tensors of a value, a function that replaces them by other tensors, and the form of the value."""
    leaves, spec = tree_flatten(value)
    is_tensor = [leaf is not None for leaf in leaves]
    for leaf in leaves:
        if leaf is not None and not isinstance(leaf, Tensor):
            raise TypeError(f"the {what} of a repeat holds {type(leaf).__name__}; give tensors, as torch.tensor(0.0)")

    def put(values: Values) -> Any:
        rest = iter(values)
        return tree_unflatten([next(rest) if is_one else None for is_one in is_tensor], spec)

    return [leaf for leaf in leaves if leaf is not None], put, (spec, is_tensor)


def _turns(sequences: Sequence[Tensor], count: int | None) -> int:
    lengths = {len(value) if value.dim() else 0 for value in sequences}
    if count is not None:
        lengths.add(count)
    if len(lengths) != 1:
        reason = f"different numbers of turns: {sorted(lengths)}" if lengths else "neither a sequence nor a count"
        raise ValueError(f"a repeat needs one number of turns, but got {reason}")
    (turns,) = lengths
    if type(turns) is not int or not 1 <= turns <= MAX_TURNS:
        raise ValueError(f"a repeat has 1 to {MAX_TURNS} turns, not {turns}")
    return turns


def _kind(value: Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _captured(turn: Turn, operands: Operands) -> tuple[list[Tensor], list[Tensor]]:
    """Add a repeat of ``turn`` to the program; return its last carried values and its stacked outputs.

    All values of a repeat have one dtype. If there are both numbers and bool values, the bool values become numbers.
    """
    sites = active_sites()
    first = sites.next
    is_drawn = False

    def of_number(carried: Values, parts: Values, constants: Values) -> tuple[Values, Values]:
        nonlocal is_drawn
        with numbered(parts[-1], operands.count) as number:
            ends_and_outputs = turn(carried, parts[:-1], constants)
        is_drawn = number.is_used
        return ends_and_outputs

    sequences = [*operands.sequences, torch.arange(operands.count)]
    seen, ends, outputs = tried(of_number, replace(operands, sequences=sequences))
    if not is_drawn:
        sequences = list(operands.sequences)
    if not ends and not outputs:
        return [], []
    kinds = [value.dtype for value in (*ends, *outputs)]
    dtypes = {dtype_of(dtype) for dtype in kinds}
    if {"f32", "i64"} <= dtypes:
        raise ValueError(
            "a repeat carries and returns either integers or real numbers, not both; use float32 for the integers, "
            "which is exact up to 2^24, or a separate repeat"
        )
    dtype = None
    if len(dtypes) > 1:
        dtype = torch.float32 if "f32" in dtypes else torch.int64
    count = len(operands.carried)

    def plain(values: Values) -> list[Tensor]:
        return [v.to(dtype) if dtype is not None and v.dtype == torch.bool else v for v in values]

    def within(carried: Values, parts: Values, constants: Values) -> tuple[Values, Values]:
        own = [value.to(kind) for value, kind in zip(carried, kinds, strict=False)]
        # Each capture of the body draws from the same sites.
        with Swapping(seen, constants), sites.again_from(first):
            body_ends, body_outputs = (of_number if is_drawn else turn)(own, parts, ())
        return plain(body_ends), plain(body_outputs)

    here = Within.now()

    @contextmanager
    def again() -> Iterator[None]:
        # torch computes gradients after it has left these modes, so they are entered again.
        with CallSites(), sites.drawing, here.again():
            yield

    constants = [resolved(value) for value in seen]
    plain_operands = Operands(
        carried=plain(operands.carried),
        sequences=sequences,
        constants=constants,
        count=operands.count,
        reverse=operands.reverse,
    )
    results = [value for values in repeat_turns(within, plain_operands, again) for value in values]
    own = [value.to(kind) for value, kind in zip(results, kinds, strict=True)]
    return own[:count], own[count:]
