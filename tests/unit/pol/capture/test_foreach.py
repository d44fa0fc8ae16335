"""Functions of lists of tensors, and views of weights under ``no_grad``: as torch has them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pol.capture.rewrites import foreach
from tests.unit.pol.capture.test_kept import agrees, classes, spec_of

_CALLS: dict[str, tuple[Any, ...]] = {
    "mul_": (0.5,),
    "add_": ([1.0, 2.0],),
    "lerp_": ("tensors", 0.25),
    "addcmul_": ("tensors", "tensors", 0.1),
    "addcdiv_": ("tensors", "tensors", [0.1, 0.2]),
    "maximum_": ([0.7, 1.5],),
    "clamp_min_": (1.5,),
    "copy_": ("tensors",),
    "zero_": (),
    "norm": (),
    "mul": ("tensors",),
    "sqrt": (),
    "pow": (2.0,),
    "div": (torch.tensor(3.0),),
}


@pytest.mark.parametrize("name", _CALLS)
def test_functions_of_lists(name: str) -> None:
    function = getattr(torch, f"_foreach_{name}")
    ours, theirs, others = ([torch.ones(2), torch.full((3,), 2.0)] for _ in range(3))
    given = [others if isinstance(part, str) else part for part in _CALLS[name]]
    mine = foreach.FUNCTIONS[function](ours, *given)
    right = function(theirs, *given)
    torch.testing.assert_close(ours, theirs)
    if not name.endswith("_"):
        torch.testing.assert_close(list(mine), list(right))


def test_scales_may_be_named() -> None:
    ours, theirs = ([torch.ones(2)] for _ in range(2))
    for one, function in (
        (ours, foreach.FUNCTIONS[torch._foreach_addcmul_]),
        (theirs, torch._foreach_addcmul_),
    ):
        function(one, tensor1=[torch.ones(2)], tensor2=[torch.ones(2)], scalars=[0.5])
        function(one, [torch.ones(2)], [torch.ones(2)], value=2)
    torch.testing.assert_close(ours, theirs)


def _by_lists(model: Any) -> None:
    both = [model.weight, model.bias]
    torch._foreach_mul_(both, 0.99)
    torch._foreach_copy_([model.before, model.fixed], [model.bias, model.bias * 2])


def _by_views(model: Any) -> None:
    flat = model.weight.view(-1)
    flat.mul_(0.99)
    flat.add_(0.001)
    model.weight[1].sub_(0.01)
    model.weight.t()[2:4].clamp_(-0.1, 0.1)
    model.weight.chunk(2)[0].mul_(0.9)


def _by_diagonals(model: Any) -> None:
    model.weight.diagonal().mul_(0.5)
    model.bias.unsqueeze(0).copy_(torch.full((1, 2), 0.1))


class _Writes(nn.Linear):
    """A layer that writes to its weights in each call."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        torch.manual_seed(0)
        super().__init__(8, 2)
        self.register_buffer("before", torch.zeros(2))
        self.fixed = nn.Parameter(torch.zeros(2), requires_grad=False)
        self._write = write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            with torch.no_grad():
                self._write(self)
        assert isinstance(self.before, torch.Tensor)
        return super().forward(x) + self.before + self.fixed


@pytest.mark.parametrize("write", [_by_lists, _by_views, _by_diagonals])
def test_writes_to_weights_in_forward(write: Callable[[Any], None], tmp_path: Path) -> None:
    told: list[str] = []
    agrees(lambda: spec_of(_Writes(write), classes), tmp_path, told)
    assert not [line for line in told if line.startswith("warning")]
