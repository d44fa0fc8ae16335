"""What depends on no input is a constant of the job; other dtypes than its own are computed in those that it has."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from pol.capture.graph import folding
from pol.capture.graph.capture import capture_program
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import Engine
from pol.job.program import Program

NUMPY = backend(Engine("numpy"))


def _traced(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Program:
    return capture_program(lambda t: {"out": function(t["x"])}, {"x": x})


def _ops(function: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> list[str]:
    return [node.op for node in _traced(function, torch.zeros(shape)).nodes]


def _is_same(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    found = run(_traced(function, x), {"x": x.numpy()}, 0, NUMPY)["out"]
    assert found.tobytes() == function(x).numpy().tobytes()


def test_a_table_of_positions_is_a_constant_with_torchs_own_bits() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(5)[:, None] / 10_000 ** (torch.arange(3) / 3)
        return x + torch.cat([angles.sin(), angles.cos()], -1).cumsum(0)

    assert _ops(function, 5, 6) == ["add"]
    _is_same(function, torch.randn(5, 6))


def test_a_constant_holds_only_what_differs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(4, 4).tril().bool().expand(8, 2, 4, 4)
        return torch.where(mask, x, -1.0)

    program = _traced(function, torch.zeros(8, 2, 4, 4))
    shapes = {constant.type.shape for constant in program.constants}
    assert shapes == {(1, 1, 4, 4), ()}
    _is_same(function, torch.randn(8, 2, 4, 4))


@pytest.mark.parametrize("values", [[0.0, -0.0, 1.0], [-0.0, -0.0, -0.0]])
def test_signs_of_zeros_are_kept(values: list[float]) -> None:
    table = torch.tensor(values)
    # the sign of what is divided by zero
    _is_same(lambda x: (x / table.neg()).clamp(-1, 1), torch.ones(3))


def test_large_values_are_left_to_primitives(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(64) * 3 + torch.arange(64) * 5

    assert _ops(function, 64) == ["add", "add"]
    # of the two only the first has room
    monkeypatch.setattr(folding, "ROOM", 600)
    assert _ops(function, 64).count("iota") == 1
    monkeypatch.setattr(folding, "MOST_BYTES", 64)
    assert _ops(function, 64).count("mul") == 2
    _is_same(function, torch.randn(64))


def test_memory_without_values_is_no_constant() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        made = torch.empty(3)
        made[1:] = x[1:]
        made[0] = 2.0
        return made

    _is_same(function, torch.randn(3))


def test_other_dtypes_are_computed_in_those_that_a_job_has() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        whole = (x.bfloat16().double() * 3).half().float()
        return whole + x.to(torch.int32).to(torch.uint8).long()

    found = run(_traced(function, torch.zeros(3)), {"x": np.array([0.1, 1.7, 2.3], np.float32)}, 0, NUMPY)
    x = np.array([0.1, 1.7, 2.3], np.float32)
    np.testing.assert_array_equal(found["out"], x * np.float32(3) + np.floor(x))


def test_views_by_strides_are_followed() -> None:
    def read(x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x.T, (2, 2), (1, 3), 1) * 1

    def written(x: torch.Tensor) -> torch.Tensor:
        made = x * 2
        made.as_strided_((2, 2), (3, 1), 1)
        return made.mul_(3)

    for function in (read, written):
        _is_same(function, torch.randn(2, 3))
