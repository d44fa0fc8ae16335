"""``assay.repeat``: a loop of a fixed number of turns, for recurrences that no layer of torch is."""

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
"""Puts tensors where others were."""


def repeat(
    function: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    sequence: Any = None,
    *,
    count: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Call ``function(carry, part)`` for one turn after another; return the last carry, and all outputs stacked.

    The function returns ``(carry, output)``: a carry of the same form for the next turn, and an output that is stacked
    along a new first dimension, or None. ``carry``, ``sequence`` and output are tensors, or tuples, lists and dicts of
    them. Each turn's part is one element of the sequence's tensors along their first dimension. Turns begin with the
    first element, or with the last one if ``reverse`` is set; an output has the place of its part. Without a sequence
    the part is None, and there are ``count`` turns. Weights and other tensors may be read from around the function.

    In a job this is one operation, however many turns there are, and so is its gradient. Elsewhere it is a loop.

    Raises TypeError and ValueError for what cannot be repeated.

    Example::

        def turn(hidden, token):
            hidden = cell(token, hidden)
            return hidden, hidden

        last, all_of_them = assay.repeat(turn, first_hidden, tokens)
    """
    begun, put_carry, form = _tensors(carry, "carry")
    sequences, put_parts, _ = _tensors(sequence, "sequence")
    put_output: list[Put] = []

    def turn(carried: Values, parts: Values, constants: Values) -> tuple[Values, Values]:
        del constants
        found: object = function(put_carry(carried), put_parts(parts))
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError("the function of a repeat returns two things: the carry, and an output or None")
        ends, _, form_now = _tensors(found[0], "carry")
        if form_now != form:
            raise TypeError("the carry is not put together after a turn as it is before it")
        for before, after in zip(carried, ends, strict=True):
            if (before.shape, before.dtype) != (after.shape, after.dtype):
                raise ValueError(f"the carry is {_kind(before)} before a turn, and {_kind(after)} after it")
        outputs, put, _ = _tensors(found[1], "output")
        put_output[:] = [put]
        return ends, outputs

    operands = Operands(
        carried=begun,
        sequences=sequences,
        constants=[],
        count=_turns(sequences, count),
        reverse=reverse,
    )
    is_traced = get_proxy_mode() is not None
    ends, stacked = _traced(turn, operands) if is_traced else looped(turn, operands)
    return put_carry(ends), put_output[0](stacked)


def _tensors(value: Any, what: str) -> tuple[list[Tensor], Put, object]:
    """Return the tensors of a value, what puts others in their places, and what tells its form."""
    leaves, spec = tree_flatten(value)
    is_tensor = [leaf is not None for leaf in leaves]
    for leaf in leaves:
        if leaf is not None and not isinstance(leaf, Tensor):
            raise TypeError(f"the {what} of a repeat holds {type(leaf).__name__}; give tensors")

    def put(values: Values) -> Any:
        given = iter(values)
        return tree_unflatten([next(given) if is_one else None for is_one in is_tensor], spec)

    return [leaf for leaf in leaves if leaf is not None], put, (spec, is_tensor)


def _turns(sequences: Sequence[Tensor], count: int | None) -> int:
    lengths = {len(value) if value.dim() else 0 for value in sequences}
    if count is not None:
        lengths.add(count)
    if len(lengths) != 1:
        told = f"{sorted(lengths)}" if lengths else "neither a sequence nor a count"
        raise ValueError(f"a repeat has one number of turns, and was given {told}")
    (turns,) = lengths
    if type(turns) is not int or not 1 <= turns <= MAX_TURNS:
        raise ValueError(f"a repeat has 1 to {MAX_TURNS} turns, not {turns}")
    return turns


def _kind(value: Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _traced(turn: Turn, operands: Operands) -> tuple[list[Tensor], list[Tensor]]:
    """Return what a repeat in the program gives: all in one dtype, for truths go as numbers where there are others."""
    sites = active_sites()
    first, is_drawn = sites.next, False

    def of_number(carried: Values, parts: Values, constants: Values) -> tuple[Values, Values]:
        nonlocal is_drawn
        with numbered(parts[-1], operands.count) as number:
            found = turn(carried, parts[:-1], constants)
        is_drawn = number.is_used
        return found

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
            "a repeat carries and gives integers or real numbers, not both; have the integers in float32, which is "
            "exact up to 2^24, or in a repeat of their own"
        )
    dtype = None
    if len(dtypes) > 1:
        dtype = torch.float32 if "f32" in dtypes else torch.int64
    count = len(operands.carried)

    def plain(values: Values) -> list[Tensor]:
        return [v.to(dtype) if dtype is not None and v.dtype == torch.bool else v for v in values]

    def within(carried: Values, parts: Values, constants: Values) -> tuple[Values, Values]:
        own = [value.to(kind) for value, kind in zip(carried, kinds, strict=False)]
        # the same sites in each capture
        with Swapping(seen, constants), sites.again_from(first):
            found = (of_number if is_drawn else turn)(own, parts, ())
        return plain(found[0]), plain(found[1])

    here = Within.now()

    @contextmanager
    def again() -> Iterator[None]:
        # torch computes gradients outside of the modes
        with CallSites(), sites.drawing, here.again():
            yield

    constants = [resolved(value) for value in seen]
    given = Operands(
        carried=plain(operands.carried),
        sequences=sequences,
        constants=constants,
        count=operands.count,
        reverse=operands.reverse,
    )
    found = [value for values in repeat_turns(within, given, again) for value in values]
    own = [value.to(kind) for value, kind in zip(found, kinds, strict=True)]
    return own[:count], own[count:]
