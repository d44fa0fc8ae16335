"""Captured steps that machines can divide: sums of each row first, and long products."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch

from pol.capture.graph import divisible as module
from pol.capture.graph.capture import capture_program
from pol.capture.graph.divisible import divisible
from pol.executor.numpy_backend import NumpyBackend
from pol.job.program import Program
from pol.split.costs import cost_of
from pol.split.machine import Machine
from pol.split.plan import make_plan
from pol.split.virtual import VirtualMachines
from pol.state.arrays import Array
from tests.unit.pol.executor.ops import bits

MACHINES = [Machine(speed=10**9, memory=2**33, bandwidth=10**8)] * 4
BATCH = ("batch.x",)
Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def captured(function: Function, rows: tuple[int, ...], weight: tuple[int, ...] = (3,)) -> Program:
    """The step that replaces a weight by the result of a function of the batch and the weight."""
    shapes = {"batch.x": torch.zeros(rows), "global.w": torch.zeros(weight)}
    return capture_program(lambda t: {"global.w": function(t["batch.x"], t["global.w"])}, shapes)


def inputs_of(program: Program) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    return {spec.name: rng.standard_normal(spec.shape).astype(np.float32) for spec in program.inputs}


def result(program: Program) -> Array:
    return np.asarray(NumpyBackend().compile(program, 1).run(inputs_of(program))["global.w"])


def ops(program: Program) -> Counter[str]:
    return Counter(node.op for node in program.nodes)


def partials(program: Program, machines: int = 2) -> int:
    """The bytes of FP32 partial sums that machines exchange, after a check of their result."""
    plan = make_plan(program, MACHINES[:machines], rows=machines)
    whole = result(program)
    found = VirtualMachines(plan, 1).run(inputs_of(program))["global.w"]
    assert bits(found) == bits(whole)
    traffic = cost_of(plan).traffic
    return traffic["tree_partials"].bytes if "tree_partials" in traffic else 0


def near(program: Program, other: Program) -> bool:
    return bool(np.allclose(result(program), result(other), rtol=1e-3, atol=1e-3))


@pytest.mark.parametrize("times", [4, 5])
@pytest.mark.parametrize("machines", [2, 4])
def test_each_row_is_summed_first(times: int, machines: int) -> None:
    before = captured(lambda x, w: (x * w).sum((0, 1)), (6, times, 3))
    after = divisible(before, BATCH)
    assert partials(before, machines) == 4 * times * 3 * (machines - 1)
    assert partials(after, machines) == 4 * 3 * (machines - 1)
    assert near(before, after)


@pytest.mark.parametrize("times", [4, 5])
def test_rows_and_times_that_are_one_dimension_are_parted(times: int) -> None:
    before = captured(lambda x, w: (x * w).flatten(0, 1).sum(0), (6, times, 3))
    after = divisible(before, BATCH)
    assert partials(before) == (4 * times * 3 if times == 4 else 0)
    assert partials(after) == 4 * 3
    assert near(before, after)


def test_a_loss_is_summed_per_row_first() -> None:
    before = captured(lambda x, w: (x * w).sum() * w, (6, 5, 3))
    after = divisible(before, BATCH)
    assert (partials(before), partials(after)) == (4 * 5 * 3, 4)
    assert near(before, after)


def test_times_before_rows_stay() -> None:
    before = captured(lambda x, w: (x * w).transpose(0, 1).sum((0, 1)), (6, 5, 3))
    assert divisible(before, BATCH).nodes == before.nodes
    assert partials(before) == 4 * 3


def test_a_sum_without_rows_stays() -> None:
    before = captured(lambda x, w: x.sum(2).mean() * (w * w).sum((0, 1)) * w, (6, 5, 3), (4, 7))
    after = divisible(before, ())
    assert after.nodes == before.nodes


@pytest.mark.parametrize(("side", "is_changed"), [(16, False), (32, True)])
def test_sums_of_channels_change_if_their_partials_are_large(side: int, is_changed: bool) -> None:
    """The sums of each row are many and short, and take longer on one machine."""
    before = captured(lambda x, w: (x * w[:, None, None]).sum((0, 2, 3)), (4, 4, side, side), (4,))
    after = divisible(before, BATCH)
    assert partials(before) == 4 * 4 * side * side
    assert partials(after) == (4 * 4 if is_changed else 4 * 4 * side * side)
    assert near(before, after)


# A cell in a Python loop: the gradients of its weight at each time.


def cell(times: int) -> Callable[..., torch.Tensor]:
    def gradient(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        slopes = [torch.tanh(x[:, time] @ w.T) for time in range(times)]
        total = slopes[0].T @ x[:, 0]
        bias = slopes[0].sum(0)
        for time in range(1, times):
            total = total + slopes[time].T @ x[:, time]
            bias = bias + slopes[time].sum(0)
        return total + bias[:, None]

    return gradient


@pytest.mark.parametrize("times", [2, 3, 70])
def test_gradients_at_many_times_become_one_product(times: int) -> None:
    before = captured(cell(times), (6, times, 3), (4, 3))
    after = divisible(before, BATCH)
    assert ops(before)["matmul"] == 2 * times
    assert ops(after)["matmul"] == times + 1
    assert (ops(before)["sum"], ops(after)["sum"]) == (times, 2)
    assert partials(after) == 4 * 4
    assert near(before, after)


def test_a_long_product_is_rounded_once() -> None:
    """Two products cancel. The small one between them is lost if each product is rounded and added on its own."""

    def gradient(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x[:, 0].T @ x[:, 1] + x[:, 2].T @ x[:, 2]) + x[:, 3].T @ x[:, 1]

    before = captured(gradient, (2, 4, 3), (3, 3))
    after = divisible(before, BATCH)
    x = np.zeros((2, 4, 3), np.float32)
    x[0, :, 0] = 1.0, 1.0, 2.0**-13, -1.0
    found = [
        np.asarray(NumpyBackend().compile(program, 1).run({"batch.x": x, "global.w": x[0, :3]})["global.w"])
        for program in (before, after)
    ]
    assert ops(after)["matmul"] == 1
    assert [value[0, 0] for value in found] == [0.0, 2.0**-26]


def test_a_product_that_is_also_read_alone_stays() -> None:
    """It would be computed twice."""

    def gradient(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        first, second = (x[:, at].T @ x[:, at + 1] for at in range(2))
        return (first + second) * second + w

    before = captured(gradient, (6, 3, 3), (3, 3))
    assert divisible(before, BATCH).nodes == before.nodes


def test_a_term_that_is_added_to_itself_stays() -> None:
    before = captured(lambda x, w: w + w + (x * w).sum(0), (6, 3))
    after = divisible(before, BATCH)
    assert after.nodes == before.nodes


def test_products_of_other_rows_stay() -> None:
    """A product that sums as many rows as the batch has, but not those of the batch."""

    def gradient(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return w @ (x[:, 0].T @ x[:, 1] + w.T @ w)

    before = captured(gradient, (6, 2, 3), (6, 3))
    assert divisible(before, BATCH).nodes == before.nodes


def test_long_products_are_as_long_as_the_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    before = captured(cell(16), (64, 16, 3), (4, 3))
    counts = []
    for slack in (0, 1 << 15, 1 << 24):
        monkeypatch.setattr(module, "MEMORY_SLACK", slack)
        after = divisible(before, BATCH)
        assert after.peak_size <= before.peak_size + max(slack, before.peak_size // 10)
        assert near(before, after)
        counts.append(ops(after)["matmul"])
    assert counts[0] > counts[1] > counts[2] == 17


def test_a_long_product_has_no_more_numbers_than_products_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SUMMED", 6 * 5)
    after = divisible(captured(cell(8), (6, 8, 3), (4, 3)), BATCH)
    assert ops(after)["matmul"] == 8 + 2
