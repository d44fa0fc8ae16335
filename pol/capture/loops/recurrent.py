"""LSTM, GRU and RNN as repeats. A turn is one step in time, and the body is the same whatever the length of the
sequence.

Two kinds of values do not depend on the previous state: the inputs' part of the gates, and the gradients of all
weights. Each of them is computed by one product for all steps. The body has the product of state and weights, the
gates, and the projection of an LSTM, if the LSTM has one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pol.capture.graph.capture import capture_program
from pol.capture.loops.repeats import (
    Operands,
    Slopes,
    Values,
    Way,
    apart,
    captured_turn,
    slopes,
    with_gradient,
)
from pol.capture.loops.turns import BEGIN, END, GIVEN, SLOPE, Passes, taken_apart
from pol.capture.rules.repeat_op import repeated
from pol.ops.repeat import CARRY, CONSTANT, SEQUENCE, STACKED

Cell = Callable[[Tensor, Tensor, Values], list[Tensor]]
"""Function that returns the next carried values. Its arguments are the inputs' part of the gates, the state's part of
the gates, and the carried values, of which the first is the state.
"""


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
"""Function of the inputs, the weights and each direction's initial values; it returns all states and the last carried
values.
"""

CELLS: Mapping[Any, Cell] = {
    torch.lstm: _lstm,
    torch.gru: _gru,
    torch.rnn_tanh: _tanh,
    torch.rnn_relu: _relu,
}
"""Cell of each recurrent function of torch."""


@dataclass(frozen=True, slots=True)
class _Form:
    """Form of a turn: its cell, and the shapes of carried values and weights; the last weight may be a projection."""

    cell: Cell
    carried: tuple[torch.Size, ...]
    weights: tuple[torch.Size, ...]
    is_projected: bool

    def turn(self, carried: Values, parts: Values, weights: Values) -> tuple[Values, Values]:
        """Compute one step; return the next carried values, and the values to stack.

        The state is stacked. If there is a projection, the state before the projection is also stacked.
        """
        own = weights[:-1] if self.is_projected else weights
        ends = self.cell(parts[0], functional.linear(carried[0], *own), carried)
        if not self.is_projected:
            return ends, ends[:1]
        state = functional.linear(ends[0], weights[-1])
        return [state, *ends[1:]], [state, ends[0]]

    def zeros(self) -> tuple[list[Tensor], Tensor, list[Tensor]]:
        """Return zeros for the carried values, the inputs' part of the gates, and the weights."""
        carried, weights = ([torch.zeros(shape) for shape in shapes] for shapes in (self.carried, self.weights))
        return carried, torch.zeros(self.carried[0][0], self.weights[0][0]), weights


@lru_cache(64)
def _passes(form: _Form) -> Passes:
    """Return the forward and the backward pass of a turn.

    The backward pass stacks the gradients with respect to the inputs' and the state's part of the gates. The backward
    pass does not compute the gradients with respect to the weights; :func:`_finish` computes them for all steps at
    once.
    """
    carried, by_input, own = form.zeros()

    def function(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        weights = [value for name, value in values.items() if name.startswith(CONSTANT)]
        initial = [values[f"{CARRY}.{at}"].detach().requires_grad_() for at in range(len(carried))]
        by_input = values[f"{SEQUENCE}.0"].detach().requires_grad_()
        gates = weights[:-1] if form.is_projected else weights
        by_state = functional.linear(initial[0], *gates).detach().requires_grad_()
        ends = form.cell(by_input, by_state, initial)
        leaves = [*initial, by_input, by_state]
        stacked = [ends[0]]
        if form.is_projected:
            ends = [functional.linear(ends[0], weights[-1]), *ends[1:]]
            leaves = [*leaves, ends[0]]
            stacked = [ends[0], *stacked]
        results = {f"{END}.{at}": end for at, end in enumerate(ends)} | {f"{GIVEN}.0": ends[0]}
        gradients = slopes(results, leaves, values)
        begins = gradients[: len(initial)]
        others = gradients[len(initial) :]
        begins[0] = begins[0] + others[1] @ weights[0]
        outputs = {f"{CARRY}.{at}": end for at, end in enumerate(ends)}
        outputs |= {f"{BEGIN}.{at}": begin for at, begin in enumerate(begins)}
        outputs |= {f"{STACKED}.{at}": value for at, value in enumerate(stacked)}
        return outputs | {f"{SLOPE}.{at}": slope for at, slope in enumerate(others)}

    with apart():
        names = {f"{CARRY}.{at}": value for at, value in enumerate(carried)}
        names[f"{SEQUENCE}.0"] = by_input
        names |= {f"{CONSTANT}.{at}": value for at, value in enumerate(own)}
        names |= {f"{END}.{at}": value for at, value in enumerate(carried)}
        return taken_apart(capture_program(function, names | {f"{GIVEN}.0": carried[0]}))


@lru_cache(64)
def _body(form: _Form) -> Any:
    def turn(carried: Values, parts: Values, weights: Values) -> tuple[Values, Values]:
        ends, stacked = form.turn(carried, parts, weights)
        return ends, stacked[:1]

    with apart():
        carried, by_input, weights = form.zeros()
        return captured_turn(
            turn,
            Operands(
                carried=carried,
                sequences=[by_input.unsqueeze(0)],
                constants=weights,
                count=1,
                reverse=False,
            ),
        )


def _finish(operands: Operands, stacks: Values, slopes: Slopes) -> list[Tensor | None]:
    """Return the gradients with respect to the inputs' part of the gates and to the weights.

    They are computed from the gradients of all steps that the backward pass has stacked.
    """
    initial = operands.carried[0].unsqueeze(0)
    states = stacks[0]
    before = [states[1:], initial] if operands.reverse else [initial, states[:-1]]
    by_state = slopes.others[1].flatten(0, 1)
    weights = [by_state.t() @ torch.cat(before).flatten(0, 1)]
    if any(weight.dim() == 1 for weight in operands.constants):
        weights.append(by_state.sum(0))
    if 2 in slopes.others:
        weights.append(slopes.others[2].flatten(0, 1).t() @ stacks[1].flatten(0, 1))
    return [slopes.others[0], *weights]


def recurrent(cell: Cell, x: Tensor, initial: Values, weights: Values, *, reverse: bool) -> tuple[Tensor, list[Tensor]]:
    """Return the states of all steps of one layer in one direction, and the last carried values.

    ``x`` has the shape [steps, rows, features]. ``weights`` are the weights of the input and of the state, then both
    biases and the projection, if the layer has them.
    """
    biases = [weight for weight in weights if weight.dim() == 1]
    projection = weights[2 + len(biases) :]
    by_input = functional.linear(x, weights[0], *biases[:1])
    own = [weights[1], *biases[1:], *projection]
    operands = Operands(carried=initial, sequences=[by_input], constants=own, count=x.shape[0], reverse=reverse)
    carried, shapes = (tuple(value.shape for value in values) for values in (initial, own))
    form = _Form(cell=cell, carried=carried, weights=shapes, is_projected=bool(projection))
    if operands.need_gradient:
        parts = with_gradient(Way(form.turn, _passes(form), _finish), operands)
    else:
        parts = repeated(_body(form), operands.all, operands.count, reverse=reverse)
    return parts[len(initial)], parts[: len(initial)]


def layer(function: Any, bidirectional: bool, batch_first: bool) -> Layer:
    """Return a function that computes one layer of a recurrent function of torch as repeats."""
    cell = CELLS[function]

    def run(x: Tensor, initial: Values, weights: Values) -> tuple[Tensor, ...]:
        x = x.transpose(0, 1) if batch_first else x
        each = len(weights) // (2 if bidirectional else 1)
        directions = [
            recurrent(
                cell,
                x,
                [part[way] for part in initial],
                weights[way * each : (way + 1) * each],
                reverse=way == 1,
            )
            for way in range(2 if bidirectional else 1)
        ]
        states = torch.cat([of_way for of_way, _ in directions], 2)
        ends = [torch.stack(parts) for parts in zip(*(end for _, end in directions), strict=True)]
        return states.transpose(0, 1) if batch_first else states, *ends

    return run
