"""LSTM, GRU and RNN as repeats: a turn is one step in time, and its body is the same however long sequences are.

What needs no state of the step before is one product for all steps: the inputs' part of the gates, and the gradients of
all weights. The body has the product of state and weights, and the gates.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pol.ops.repeat import CARRY, CONSTANT, SEQUENCE, STACKED
from pol.tracing.repeat_op import repeated
from pol.tracing.repeats import (
    Operands,
    Slopes,
    Turn,
    Values,
    Way,
    apart,
    slopes,
    traced_turn,
    with_gradient,
)
from pol.tracing.trace import trace_program
from pol.tracing.turns import BEGIN, END, GIVEN, SLOPE, Passes, taken_apart

Cell = Callable[[Tensor, Tensor, Values], list[Tensor]]
"""The parts of gates by inputs and by state, and what is carried, to what is carried on; the state comes first."""


def _lstm(by_input: Tensor, by_state: Tensor, carried: Values) -> list[Tensor]:
    i, f, g, o = (by_input + by_state).chunk(4, 1)
    c = f.sigmoid() * carried[1] + i.sigmoid() * g.tanh()
    return [o.sigmoid() * c.tanh(), c]


def _gru(by_input: Tensor, by_state: Tensor, carried: Values) -> list[Tensor]:
    (a_r, a_z, a_n), (b_r, b_z, b_n) = by_input.chunk(3, 1), by_state.chunk(3, 1)
    n = (a_n + (a_r + b_r).sigmoid() * b_n).tanh()
    return [(carried[0] - n) * (a_z + b_z).sigmoid() + n]


def _tanh(by_input: Tensor, by_state: Tensor, carried: Values) -> list[Tensor]:
    del carried
    return [(by_input + by_state).tanh()]


def _relu(by_input: Tensor, by_state: Tensor, carried: Values) -> list[Tensor]:
    del carried
    return [(by_input + by_state).relu()]


Layer = Callable[[Tensor, Values, Values], tuple[Tensor, ...]]
"""Inputs, what each way begins with, and weights, to states of all steps and what is carried at the end."""

CELLS: Mapping[Any, Cell] = {
    torch.lstm: _lstm,
    torch.gru: _gru,
    torch.rnn_tanh: _tanh,
    torch.rnn_relu: _relu,
}
"""Function of torch to its cell."""


def _turn(cell: Cell) -> Turn:
    def turn(carried: Values, parts: Values, weights: Values) -> tuple[Values, Values]:
        ends = cell(parts[0], functional.linear(carried[0], *weights), carried)
        return ends, ends[:1]

    return turn


@lru_cache(64)
def _passes(cell: Cell, carried: int, rows: int, gates: int, hidden: int, has_bias: bool) -> Passes:
    """Return both passes; gradients by the gates' parts are stacked, and weights have none of their own."""

    def function(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        weights = [value for name, value in values.items() if name.startswith(CONSTANT)]
        begun = [values[f"{CARRY}.{at}"].detach().requires_grad_() for at in range(carried)]
        by_input = values[f"{SEQUENCE}.0"].detach().requires_grad_()
        by_state = functional.linear(begun[0], *weights).detach().requires_grad_()
        ends = cell(by_input, by_state, begun)
        results = {f"{END}.{at}": end for at, end in enumerate(ends)} | {f"{GIVEN}.0": ends[0]}
        *begins, first, second = slopes(results, [*begun, by_input, by_state], values)
        begins[0] = begins[0] + second @ weights[0]
        outputs = {f"{CARRY}.{at}": end for at, end in enumerate(ends)}
        outputs |= {f"{BEGIN}.{at}": begin for at, begin in enumerate(begins)}
        return {**outputs, f"{STACKED}.0": ends[0], f"{SLOPE}.0": first, f"{SLOPE}.1": second}

    with apart():
        state = torch.zeros(rows, hidden)
        names = {f"{CARRY}.{at}": state for at in range(carried)}
        names |= {
            f"{SEQUENCE}.0": torch.zeros(rows, gates),
            f"{CONSTANT}.0": torch.zeros(gates, hidden),
        }
        if has_bias:
            names[f"{CONSTANT}.1"] = torch.zeros(gates)
        names |= {f"{END}.{at}": state for at in range(carried)} | {f"{GIVEN}.0": state}
        return taken_apart(trace_program(function, names))


@lru_cache(64)
def _body(cell: Cell, carried: int, rows: int, gates: int, hidden: int, has_bias: bool) -> Any:
    with apart():
        state, given = torch.zeros(rows, hidden), torch.zeros(1, rows, gates)
        weights = [torch.zeros(gates, hidden), *([torch.zeros(gates)] if has_bias else [])]
        return traced_turn(_turn(cell), Operands([state] * carried, [given], weights, 1, False))


def _finish(operands: Operands, states: Tensor, found: Slopes) -> list[Tensor | None]:
    """Return the gradients by the inputs' part of the gates and by the weights, from those of all steps."""
    begun = operands.carried[0].unsqueeze(0)
    before = [states[1:], begun] if operands.reverse else [begun, states[:-1]]
    by_state = found.others[1].flatten(0, 1)
    weight = by_state.t() @ torch.cat(before).flatten(0, 1)
    bias = [by_state.sum(0)] if len(operands.constants) == 2 else []
    return [found.others[0], weight, *bias]


def recurrent(
    cell: Cell, x: Tensor, begun: Values, weights: Values, *, reverse: bool
) -> tuple[Tensor, list[Tensor]]:
    """Return the states of all steps of one layer in one direction, and what is carried at the end.

    ``x`` is [steps, rows, features]; ``weights`` are by input and by state, then both biases if there are any.
    """
    by_input = functional.linear(x, weights[0], *weights[2:3])
    own = [weights[1], *weights[3:]]
    operands = Operands(begun, [by_input], own, x.shape[0], reverse)
    form = cell, len(begun), *begun[0].shape[:1], *weights[1].shape, len(own) == 2
    if operands.need_gradient:
        parts = with_gradient(Way(_turn(cell), _passes(*form), _finish), operands)
    else:
        parts = repeated(_body(*form), operands.all, operands.count, reverse=reverse)
    return parts[-1], parts[:-1]


def layer(function: Any, has_biases: bool, bidirectional: bool, batch_first: bool) -> Layer:
    """Return one layer in the place of a function of torch."""
    cell, each = CELLS[function], 4 if has_biases else 2

    def run(x: Tensor, begun: Values, weights: Values) -> tuple[Tensor, ...]:
        x = x.transpose(0, 1) if batch_first else x
        found = [
            recurrent(
                cell, x, [part[way] for part in begun], weights[way * each : (way + 1) * each],
                reverse=way == 1,
            )
            for way in range(2 if bidirectional else 1)
        ]  # fmt: skip
        states = torch.cat([of_way for of_way, _ in found], 2)
        ends = [torch.stack(parts) for parts in zip(*(end for _, end in found), strict=True)]
        return states.transpose(0, 1) if batch_first else states, *ends

    return run
