"""Taking and writing by index against eager torch: values, gradients, and indices that are nowhere."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from pol.capture.graph.capture import Tensors, capture_program
from pol.capture.idioms.rewritten import Rewriting, getitem
from pol.errors import OutOfRange
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE, NUMPY, Engine
from tests.unit.pol.capture.compared import Cases, compare

ONES = torch.ones(40, 30)


def _inputs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)

    def numbers(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, high, shape, generator=generator)

    return {
        "x": torch.randn(4, 6, 3, generator=generator),
        "y": torch.randn(5, 7, 3, generator=generator),
        "large": torch.randn(40, 30, generator=generator),
        "i": numbers(3, 3, 5, 2),
        "j": numbers(6, 4, 6, 3),
        "k": torch.stack([torch.randperm(6, generator=generator) for _ in range(4)]),
        "row": numbers(30, 40, 1),
        "few": torch.tensor([3, 0, -1, -3, 2, 1]),
        "up": torch.tensor([1, 3, 2, 0]),
        "twice": torch.tensor([1, 3, 1, 0]),
        "line": torch.arange(6.0),
        "whole": torch.arange(12).reshape(4, 3),
    }


CASES: Cases = {
    "gather": lambda t: t["x"].gather(1, t["i"]) + t["x"][:3, :5, :2].gather(0, t["i"]),
    "gather all": lambda t: t["x"].gather(1, t["j"]),
    "gather of a line": lambda t: t["line"].gather(0, t["few"].abs()),
    "gather of integers": lambda t: t["whole"].gather(1, t["i"][:, :1, 0]),
    "gather one of many": lambda t: t["large"].gather(1, t["row"]),
    "cross entropy of many": lambda t: F.cross_entropy(t["large"], t["row"][:, 0]),
    "take along": lambda t: torch.take_along_dim(t["x"][..., 0], t["k"], 1),
    "scatter": lambda t: t["x"][..., 0].scatter(1, t["k"][:, :4], t["y"][:4, :4, 0].detach()),
    "scatter along the first": lambda t: t["y"].scatter(0, t["i"][:1], t["x"].detach()),
    "scatter a number": lambda t: t["x"].scatter(1, t["j"], 2.5),
    "scatter one of many": lambda t: t["large"].scatter(1, t["row"], t["large"][:, :1] * 2),
    "scatter integers": lambda t: t["whole"].scatter(0, t["up"][None, :3], t["whole"] + 100),
    "scatter_add": lambda t: t["y"].scatter_add(1, t["i"], t["x"][:3, :5, :2] * 2),
    "scatter_add of a line": lambda t: t["line"].scatter_add(0, t["twice"], t["line"][:4]),
    "scatter_reduce": lambda t: t["y"].scatter_reduce(1, t["i"], t["x"][:3, :5, :2], "mean"),
    "index": lambda t: t["x"][t["few"]] + t["x"][:, t["few"]][:1],
    "index of two": lambda t: t["x"][t["twice"], :, t["few"][2:]],
    "index_add": lambda t: torch.index_add(t["x"], 1, t["twice"], t["y"][:4, :4], alpha=0.5),
    "index_copy": lambda t: torch.index_copy(t["x"], 0, t["up"][1:], t["y"][1:4, :6]),
    "index_fill": lambda t: t["x"].index_fill(1, t["up"], 3.0),
    "index_select": lambda t: t["x"].index_select(2, t["i"][0, 0]),
    "index_put": lambda t: t["x"].index_put((t["up"][1:],), t["y"][1:4, :6]),
    "index_put of two": lambda t: t["x"].index_put((t["up"][1:], t["up"][1:]), t["y"][0, :3]),
    "index_put adds": lambda t: t["x"].index_put((t["twice"],), t["y"][:4, :6], accumulate=True),
    "masked": lambda t: _masked(t["x"]),
    "padded embedding": lambda t: F.embedding(t["twice"], t["large"], padding_idx=1),
    "embedding by frequency": lambda t: F.embedding(t["twice"], t["large"], scale_grad_by_freq=True),
}


NUMBERS: Cases = {
    "of a row": lambda t: t["x"][t["up"][0]] + t["x"][:, t["few"][2]][:, None],
    "behind dots": lambda t: t["x"][..., t["up"][1] - 3],
    "of two": lambda t: t["x"][t["up"][3], t["few"][3]],
    "beside none": lambda t: t["x"][None, t["up"][0], 1:3, None, t["few"][5]],
    "beside others": lambda t: t["x"][t["up"], t["few"][0]] * t["x"][t["up"][0], t["up"], t["i"][0, 0, 0]][:, None],
    "beside a slice": lambda t: t["x"][t["up"], :, t["few"][0] - 4],
    "take": lambda t: t["x"].take(t["few"] * 3) + torch.take(t["x"], t["few"].abs()),
}


def _masked(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y[x > 0.5] = -1.0
    y[:, x[0, :, 0] > 0] = 2.0
    return y


def test_values_and_gradients() -> None:
    compare(CASES, _inputs())


def test_a_number_that_is_a_tensor_names_a_row() -> None:
    with Rewriting():
        compare(NUMBERS, _inputs())


def test_a_mask_before_a_number_has_its_own_dimensions() -> None:
    x, number = torch.arange(48.0).reshape(4, 4, 3), torch.tensor(1)
    mask = np.eye(4, dtype=bool)
    for key in ((mask, number), (mask.tolist(), number), ([0, 1], number), ([[0, 1]], number)):
        assert torch.equal(getitem(x, key), x[key])


def test_of_what_is_written_twice_the_last_stays() -> None:
    inputs = {"x": torch.zeros(3), "i": torch.tensor([1, 1, 2, 1]), "v": torch.arange(1.0, 5.0)}

    def function(t: Tensors) -> dict[str, torch.Tensor]:
        whole = t["x"].long().scatter(0, t["i"], t["v"].long() * 2**60)
        return {"out": t["x"].scatter(0, t["i"], t["v"]), "whole": whole}

    program = capture_program(function, inputs)
    for executor in (NUMPY, NATIVE):
        found = run(program, {n: t.numpy() for n, t in inputs.items()}, 1, backend(Engine(executor)))
        assert found["out"].tolist() == [0, 4, 3]
        assert found["whole"].tolist() == [0, 2**62, 3 * 2**60]


@pytest.mark.parametrize("wrong", [-1, 4])
@pytest.mark.parametrize(
    "function",
    [
        lambda t: t["large"].gather(1, t["i"]),
        lambda t: t["large"][:, :4].scatter_add(1, t["i"], ONES),
        lambda t: t["large"][:, :4].scatter(1, t["i"], ONES),
        lambda t: torch.index_add(t["large"][:, :4], 1, t["i"][0], ONES[:, :2]),
    ],
)
def test_no_index_names_an_element_of_another_line(function: Callable[[Tensors], torch.Tensor], wrong: int) -> None:
    inputs = {"large": torch.randn(40, 4).repeat(1, 10)[:, :4], "i": torch.zeros(40, 2).long()}
    program = capture_program(lambda t: {"out": function(t)}, inputs)
    arrays = {name: tensor.numpy().copy() for name, tensor in inputs.items()}
    arrays["i"][0, 1] = wrong
    with pytest.raises(OutOfRange):
        run(program, arrays, 1, backend(Engine(NUMPY)))
