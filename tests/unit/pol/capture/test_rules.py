"""Every rule against eager torch in FP64: the same small function, traced and run, and computed by torch."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from pol.capture.graph.capture import Tensors, capture_program
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import Engine
from pol.job.program import Program

NUMPY = backend(Engine("numpy"))


def _inputs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return {
        "x": torch.randn(4, 6, generator=generator),
        "z": torch.randn(4, 6, generator=generator) + 0.1,
        "w": torch.randn(6, 3, generator=generator),
        "b": torch.randn(2, 3, 4, generator=generator),
        "c": torch.randn(2, 4, 5, generator=generator),
        "i": torch.tensor([3, 0, 5, 1]),
        "mask": torch.tensor([True, False, True, True]).reshape(4, 1),
    }


CASES: dict[str, Callable[[Tensors], torch.Tensor]] = {
    "add_alpha": lambda t: torch.add(t["x"], t["z"], alpha=0.5),
    "rsub": lambda t: 2 - t["x"],
    "div": lambda t: t["x"] / t["z"],
    "int_to_float": lambda t: t["i"] * 0.25 + t["x"][:, 0],
    "true_division_of_ints": lambda t: t["i"] / 4,
    "bool_product": lambda t: (t["mask"] * (t["x"] > 0)).float(),
    "xor": lambda t: (t["mask"] ^ (t["x"] > 0)).float(),
    "not": lambda t: (~(t["x"] > 0)).float(),
    "compare_int": lambda t: (t["i"] >= 2).float() + (t["i"] != 5).float(),
    "compare_int_with_float": lambda t: (t["i"] > 0.5).float(),
    "sum_of_bool_counts": lambda t: (t["x"] > 0).sum().float(),
    "clamp": lambda t: t["x"].clamp(-0.5, 0.7),
    "clamp_tensor": lambda t: torch.clamp(t["x"], min=t["z"]),
    "masked_fill": lambda t: t["x"].masked_fill(t["mask"], -3.0),
    "where_scalar": lambda t: torch.where(t["x"] > 0, t["x"], 0.5),
    "pow": lambda t: t["x"] ** 2 + t["x"].abs() ** 0.5 + (t["x"].abs() + 1) ** -1.5 + t["x"] ** 3,
    "rsqrt": lambda t: torch.rsqrt(t["x"].abs() + 0.1),
    "reciprocal": lambda t: torch.reciprocal(t["z"]),
    "sigmoid": lambda t: torch.sigmoid(t["x"] * 40),
    "log1p": lambda t: torch.log1p(t["x"].abs() * 1e-6),
    "expm1": lambda t: torch.expm1(t["x"] * 1e-4),
    "sign": lambda t: torch.sign(t["x"]) + torch.sgn(t["z"] * 0),
    "softmax": lambda t: F.softmax(t["x"], -1),
    "log_softmax": lambda t: F.log_softmax(t["x"], 0),
    "gelu": lambda t: F.gelu(t["x"]) + F.gelu(t["z"], approximate="tanh"),
    "silu": lambda t: F.silu(t["x"]),
    "softplus": lambda t: F.softplus(t["x"]),
    "elu": lambda t: F.elu(t["x"]),
    "leaky_relu": lambda t: F.leaky_relu(t["x"], 0.1),
    "mse": lambda t: F.mse_loss(t["x"], t["z"]),
    "bce_with_logits": lambda t: F.binary_cross_entropy_with_logits(t["x"], (t["z"] > 0).float()),
    "cross_entropy": lambda t: F.cross_entropy(t["x"], t["i"]),
    "cross_entropy_ignore": lambda t: F.cross_entropy(t["x"], t["i"], ignore_index=5),
    "cross_entropy_smooth": lambda t: F.cross_entropy(t["x"], t["i"], label_smoothing=0.1),
    "layer_norm": lambda t: F.layer_norm(t["x"], (6,), t["z"][0], t["z"][1]),
    "group_norm": lambda t: F.group_norm(t["x"], 2),
    "embedding": lambda t: F.embedding(t["i"], t["w"]),
    "index": lambda t: t["w"][t["i"]],
    "index_select": lambda t: torch.index_select(t["x"], 1, t["i"]),
    "gather": lambda t: t["x"].gather(1, t["i"][:, None]),
    "bmm": lambda t: torch.bmm(t["b"], t["c"]),
    "mv": lambda t: t["x"] @ t["z"][0] + torch.dot(t["x"][0], t["z"][0]),
    "linear": lambda t: F.linear(t["x"], t["w"].T, t["w"][0]),
    "attention": lambda t: F.scaled_dot_product_attention(t["c"].mT, t["c"].mT, t["c"].mT, is_causal=True),
    "mean_var": lambda t: t["x"].mean(0) + t["x"].var(0) + t["x"].std(0, correction=0),
    "amax_amin": lambda t: t["x"].amax(1) - t["x"].amin(1) + t["x"].max() * t["x"].min(),
    "max_dim": lambda t: t["x"].max(1).values + t["x"].max(1).indices,
    "argmax": lambda t: t["x"].argmax(-1).float() + t["x"].argmax(),
    "cat_stack": lambda t: torch.cat([t["x"], t["z"]], 1).sum(1) + torch.stack([t["x"], t["z"]])[1, :, 0],
    "many_cat": lambda t: torch.cat([t["x"] * k for k in range(70)], 1)[:, 300:],
    "split_unbind": lambda t: sum(torch.split(t["x"], 4, 1)[1].unbind(1)) + t["x"].chunk(2, 1)[0][:, 1],
    "views": lambda t: t["b"].permute(2, 0, 1).reshape(4, 6).T.unsqueeze(1).squeeze(1),
    "slices": lambda t: t["x"][1:3, ::2] + t["x"][-1, -1] + t["x"].narrow(1, 1, 3)[0],
    "expand": lambda t: t["x"][:, :1].expand(4, 6) + 0,
    "pad": lambda t: F.pad(t["x"], (1, 2, 0, 1), value=0.5),
    "tril": lambda t: torch.tril(t["x"]) + torch.triu(t["x"], 1),
    "arange": lambda t: torch.arange(2, 14, 2) * t["x"] + torch.arange(6) + torch.arange(1, 7),
    "fills": lambda t: torch.zeros_like(t["x"]) + torch.ones(4, 1) * torch.full((6,), 0.5) + t["x"].new_full((6,), 2.0),
    "one_hot": lambda t: (t["i"][:, None] == torch.arange(6)).float(),
    "in_place": lambda t: t["x"].clone().mul_(2).add_(t["z"]).clamp_(min=0),
    "write_slice": lambda t: _written(t["x"]),
    "isnan_isinf": lambda t: (
        torch.isnan(t["x"] / 0 * 0).float() + torch.isinf(t["x"] / 0).float() + torch.isfinite(t["x"])
    ),
    "extremes": lambda t: t["x"].max() + 2 * t["x"].min() + t["x"].min(1).values,
    "min_dim_index": lambda t: t["x"].min(1).indices.float() + t["x"].argmax(1),
    "norms": lambda t: t["x"].norm() + torch.linalg.vector_norm(t["z"], ord=1, dim=0),
    "normalize": lambda t: F.normalize(t["x"], dim=-1),
    "cosine": lambda t: F.cosine_similarity(t["x"], t["z"]),
    "kl": lambda t: F.kl_div(F.log_softmax(t["x"], 1), F.softmax(t["z"], 1), reduction="batchmean"),
    "repeat_tile": lambda t: t["x"].repeat(2, 3) + torch.tile(t["x"][:1], (8, 3)),
    "gather_of_a_row": lambda t: t["w"][:, 1].gather(0, t["i"]),
    "class_weights": lambda t: F.cross_entropy(
        t["x"], t["i"], torch.arange(1.0, 7.0).to(t["x"].dtype), label_smoothing=0.1
    ),
    "addcdiv": lambda t: torch.addcdiv(t["x"], t["z"], t["x"].abs() + 1, value=0.5),
    "circular_pad": lambda t: F.pad(t["b"], (1, 1), mode="circular"),
    "written_with_gradient": lambda t: _written(t["x"] * 1),
    "in_place_beside_a_norm": lambda t: F.layer_norm(t["x"].clone().add_(t["z"]), (6,)),
    "table_of_one_after_a_scalar": lambda t: torch.cat([t["x"][0] * 0.5, torch.tensor([0.5]).to(t["x"])]),
    "closed_over_table": lambda t: t["x"] * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
}

GRADIENTS = [
    "softmax",
    "log_softmax",
    "gelu",
    "silu",
    "sigmoid",
    "layer_norm",
    "group_norm",
    "linear",
    "attention",
    "cross_entropy",
    "cross_entropy_ignore",
    "cross_entropy_smooth",
    "bce_with_logits",
    "mse",
    "clamp",
    "slices",
    "split_unbind",
    "cat_stack",
    "pad",
    "tril",
    "pow",
    "gather",
    "leaky_relu",
    "softplus",
    "elu",
    "mean_var",
    "views",
    "where_scalar",
    "bmm",
    "extremes",
    "norms",
    "normalize",
    "cosine",
    "kl",
    "repeat_tile",
    "gather_of_a_row",
    "class_weights",
    "addcdiv",
    "circular_pad",
    "written_with_gradient",
    "in_place_beside_a_norm",
]


def _written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1:3] = 7.0
    y[2] = x[0] * 2
    return y


def _program(case: str, gradient: bool) -> Program:
    def function(tensors: Tensors) -> dict[str, torch.Tensor]:
        return {"out": _value(case, tensors, gradient)}

    return capture_program(function, _inputs())


def _value(case: str, tensors: Tensors, gradient: bool) -> torch.Tensor:
    if not gradient:
        return CASES[case](tensors)
    leaves = {
        name: tensor.detach().requires_grad_() if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }
    result = CASES[case](leaves)
    weights = torch.arange(1.0, result.numel() + 1, dtype=result.dtype).reshape(result.shape)
    wanted = [tensor for tensor in leaves.values() if tensor.requires_grad]
    found: Sequence[torch.Tensor | None] = torch.autograd.grad((result * weights).sum(), wanted, allow_unused=True)
    return torch.cat([part.reshape(-1) for part in found if part is not None])


def _check(case: str, gradient: bool) -> None:
    inputs = _inputs()
    program = _program(case, gradient)
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    found = run(program, arrays, 1, NUMPY)["out"]
    wide = {n: t.double() if t.is_floating_point() else t for n, t in inputs.items()}
    expected = _value(case, wide, gradient).detach().numpy()
    assert found.shape == expected.shape
    # products keep 15 bits of the largest element of a row, everything else is FP32
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(
        found, expected, rtol=2e-5, atol=3e-4 * scale if "matmul" in _ops(program) else 2e-6 * scale
    )


def _ops(program: Program) -> set[str]:
    return {node.op for node in program.nodes}


@pytest.mark.parametrize("case", CASES)
def test_values_agree_with_eager_fp64(case: str) -> None:
    _check(case, gradient=False)


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients_agree_with_eager_fp64(case: str) -> None:
    _check(case, gradient=True)


@pytest.mark.parametrize("padding", [None, 3])
def test_gradient_of_an_embedding_adds_up_repeated_rows(padding: int | None) -> None:
    index = torch.tensor([[1, 3, 1], [0, 1, 3]])
    table = torch.arange(20.0).reshape(5, 4)

    def function(tensors: Tensors) -> dict[str, torch.Tensor]:
        leaf = tensors["table"].detach().requires_grad_()
        rows = F.embedding(tensors["index"], leaf, padding_idx=padding)
        weights = torch.arange(24.0).reshape(2, 3, 4)
        return {"out": torch.autograd.grad((rows * weights).sum(), leaf)[0]}

    program = capture_program(function, {"table": table, "index": index})
    found = run(program, {"table": table.numpy(), "index": index.numpy()}, 1, NUMPY)["out"]
    expected = function({"table": table, "index": index})["out"].numpy()
    np.testing.assert_array_equal(found, expected)


def test_small_numbers_keep_their_digits() -> None:
    x = torch.tensor([1e-6, 3e-5, -2e-5, 0.0])
    program = capture_program(lambda t: {"out": torch.expm1(t["x"])}, {"x": x})
    found = run(program, {"x": x.numpy()}, 1, NUMPY)["out"]
    np.testing.assert_allclose(found, np.expm1(x.double().numpy()), rtol=1e-6)
    program = capture_program(lambda t: {"out": torch.log1p(t["x"])}, {"x": x})
    found = run(program, {"x": x.numpy()}, 1, NUMPY)["out"]
    np.testing.assert_allclose(found, np.log1p(x.double().numpy()), rtol=1e-6)
