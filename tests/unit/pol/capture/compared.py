"""Many small functions in one trace: values and gradients on two executors beside eager torch in FP64."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import torch

from pol.capture.graph.capture import Tensors, capture_program
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE, NUMPY, Engine

_WITHIN, _OF_PRODUCTS = 3e-6, 6e-4
Cases = Mapping[str, Callable[[Tensors], torch.Tensor]]


def results(cases: Cases, tensors: Tensors) -> dict[str, torch.Tensor]:
    """The value of each function, and the gradients of what it takes, one behind the other."""
    found = {}
    for name, function in ((name.replace(" ", "_"), function) for name, function in cases.items()):
        leaves = {
            key: tensor.detach().requires_grad_() if tensor.is_floating_point() else tensor
            for key, tensor in tensors.items()
        }
        value = function(leaves)
        found[name] = value.detach() + 0
        if value.requires_grad:
            weights = torch.arange(1.0, value.numel() + 1, dtype=value.dtype).reshape(value.shape)
            wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]
            parts: Sequence[torch.Tensor | None] = torch.autograd.grad(
                (value * weights / max(1, value.numel())).sum(), wanted, allow_unused=True
            )
            flat = [part.reshape(-1) for part in parts if part is not None]
            found[f"{name}.gradient"] = torch.cat(flat)
    return found


def compare(cases: Cases, inputs: Tensors, products: Collection[str] = ()) -> None:
    """Trace all functions at once; those with products of matrices may differ more."""
    program = capture_program(lambda tensors: results(cases, tensors), inputs)
    wide = {n: t.double() if t.is_floating_point() else t for n, t in inputs.items()}
    expected = results(cases, wide)
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    found = {name: run(program, arrays, 1, backend(Engine(name))) for name in (NUMPY, NATIVE)}
    wrong = []
    for name, value in expected.items():
        mine, right = found[NUMPY][name], value.numpy()
        assert mine.tobytes() == found[NATIVE][name].tobytes(), name
        scale = max(1.0, float(np.abs(right).max())) if right.size else 1.0
        within = _OF_PRODUCTS if name.split(".")[0] in products else _WITHIN
        if mine.shape != right.shape or not np.allclose(mine, right, rtol=0, atol=within * scale):
            wrong.append(f"{name}: {mine} is not {right}")
    assert not wrong, "\n".join(wrong)
