"""Operations that are composed of primitives, many in one trace, against eager torch in FP64."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from pol.capture.graph.capture import Tensors, capture_program
from pol.capture.idioms.rewritten import Rewriting
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE, NUMPY, Engine
from tests.unit.pol.capture.compared import Cases, compare

E = torch.tensor([-1.0, 0.0, 0.5])


def _inputs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    x, z = torch.randn(2, 4, 6, generator=generator)
    return {
        "x": x,
        "z": z,
        "p": torch.rand(4, 6, generator=generator) * 0.9 + 0.05,
        "n": torch.randint(-9, 10, (4, 6), generator=generator),
        "m": torch.tensor([[2, 2, -2, 3, -7, 1]] * 4),
        "equal": torch.tensor([2.0, -1.0, 2.0, 0.0, -1.0, -0.0, 2.0]),
        "mask": x > 0,
    }


ORDER: Cases = {
    "sort": lambda t: t["x"].sort(1).values + t["x"].sort(0, descending=True).values,
    "sort integers": lambda t: t["n"].sort(1, descending=True).values + t["n"].sort(0).indices,
    "argsort": lambda t: torch.cat(
        [
            t["equal"].argsort(stable=True),
            t["equal"].argsort(stable=True, descending=True),
        ]
    ),
    "sort a mask": lambda t: t["mask"].sort(1).values.float(),
    "sort a scalar": lambda t: t["x"][0, 0].sort().values,
    "topk": lambda t: t["x"].topk(3, 1).values + t["x"].topk(3, 1, largest=False).indices,
    "kthvalue": lambda t: t["x"].kthvalue(2, 1).values + t["x"].kthvalue(4, 1, True).indices,
    "median": lambda t: t["x"].median(1).values + t["x"].median() + t["x"].median(1).indices,
    "quantile": lambda t: t["x"].quantile(0.3, 1) + t["x"].msort()[0, :4],
    "searchsorted": lambda t: torch.searchsorted(t["x"].detach().sort(1).values, t["z"].detach()),
    "bucketize": lambda t: torch.bucketize(t["x"], E) + torch.bucketize(t["n"], E, right=True).sum(),
    "cumsum": lambda t: t["x"].cumsum(1) + t["x"].cumsum(0) + t["x"][0, 0].cumsum(0),
    "cumsum of integers": lambda t: t["n"].cumsum(1) + t["mask"].cumsum(0),
    "cumprod": lambda t: t["x"].cumprod(1),
    "logcumsumexp": lambda t: (t["x"] * 9).logcumsumexp(1),
    "cummax": lambda t: t["x"].cummax(1).values + t["z"].cummin(0).indices,
    "prod": lambda t: t["x"].prod(1) + t["p"].prod() + t["x"][:, :5].prod(1, keepdim=True)[:, 0],
    "flip": lambda t: t["x"].flip(1) + t["z"].flip(0, 1) + torch.rot90(t["x"][:, :4])[:, :1],
}

FUNCTIONS: Cases = {
    "rounding": lambda t: (t["x"] * 3).floor() + (t["x"] * 3).ceil() * 2 + t["x"].trunc() * 4,
    "round": lambda t: (t["x"] * 3).round() + t["z"].round(decimals=1) + t["x"].frac() + t["n"].floor(),
    "ties": lambda t: (t["n"] * 0.5).round() + (t["n"] * 0.5).floor() + (t["n"] * 2.0**20).ceil(),
    "angles": lambda t: (t["x"] * 4).sin() + (t["z"] * 4).cos() * 2 + t["x"].tan() * 0.1,
    "inverse angles": lambda t: (t["x"] * 9).atan() + (t["p"] * 2 - 1).asin() + t["p"].acos(),
    "atan2": lambda t: torch.atan2(t["x"], t["z"]) + torch.hypot(t["x"], t["z"]),
    "hyperbolic": lambda t: t["x"].sinh() + t["x"].cosh() + t["x"].asinh() + (1 + t["p"]).acosh(),
    "atanh": lambda t: (t["p"] * 2 - 1).atanh() + t["p"].logit(),
    "logarithms": lambda t: t["p"].log2() + t["p"].log10() + t["x"].exp2() + t["p"].log1p(),
    "errors": lambda t: t["x"].erfc() + (t["x"] * 3).erfc() * 100 + (t["p"] * 2 - 1).erfinv(),
    "powers": lambda t: t["p"] ** 1.7 + t["p"] ** t["z"] + 2.0 ** t["x"] + t["x"] ** 10,
    "more powers": lambda t: t["p"] ** -9.0 / 2.0**30 + (t["x"] * 0.9) ** 41 + t["n"].abs() ** 3,
    "signs of powers": lambda t: (t["n"] * 2.0 + 1) ** t["m"].float() + (t["n"] * 0.25) ** 77.0 / 1e27,
    "zero to a power": lambda t: torch.zeros(6) ** t["n"].float().abs(),
    "remainder": lambda t: torch.remainder(t["x"] * 9, 0.7) + t["x"] % t["p"] + torch.fmod(t["z"], 0.3),
    "division that rounds": lambda t: (
        torch.div(t["x"], 0.4, rounding_mode="floor") + torch.div(t["z"], t["p"], rounding_mode="trunc")
    ),
    "division of integers": lambda t: torch.cat(
        [
            t["n"] // 3,
            t["n"] // t["m"],
            t["n"] % 4,
            t["n"] % t["m"],
            torch.fmod(t["n"], t["m"]),
            torch.fmod(t["n"], -4),
            torch.div(t["n"], t["m"], rounding_mode="trunc"),
        ]
    ),
    "sinc": lambda t: t["x"].sinc() + torch.copysign(t["p"], t["x"]) + torch.fmax(t["x"], t["z"]),
    "norms": lambda t: t["x"].norm(3, dim=1) + t["x"].norm(math.inf, 1) + F.softsign(t["x"]).sum(1),
}


def _pictures() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(6)
    x, z = torch.randn(2, 4, 6, generator=generator)
    return {
        "x": x,
        "z": z,
        "p": torch.rand(4, 6, generator=generator) + 0.1,
        "w": torch.randn(2, 6, 6, generator=generator),
        "image": torch.randn(2, 2, 5, 6, generator=generator),
        "line": torch.randn(2, 3, 7, generator=generator),
        "volume": torch.randn(1, 2, 3, 4, 5, generator=generator),
        "labels": torch.tensor([3, 0, 5, 1]),
        "offsets": torch.tensor([0, 3, 3]),
        "targets": torch.tensor([[1, 1], [2, 0]]),
        "lengths": torch.tensor([2, 1]),
        "joined": torch.tensor([1, 1, 2]),
    }


def _resized(x: torch.Tensor, mode: str, align: bool) -> torch.Tensor:
    return F.interpolate(x, scale_factor=1.7, mode=mode, align_corners=align)


def _bag(t: Tensors, mode: str) -> torch.Tensor:
    several = F.embedding_bag(t["labels"], t["x"].T, t["offsets"], mode=mode, padding_idx=5)
    return several + F.embedding_bag(t["labels"].reshape(2, 2), t["z"].T, mode=mode)[:1]


LAYERS: Cases = {
    "diagonals": lambda t: t["x"].diagonal(1) + t["x"].diagonal(-1)[0] + t["x"][:4, :4].diag().sum(),
    "made diagonal": lambda t: t["x"].diag_embed(1) + torch.diag(t["z"][0, :3]).sum(),
    "unfold": lambda t: t["x"].unfold(1, 3, 2).sum(1) + t["x"].unfold(0, 3, 1)[:, :3, 0].mean(),
    "columns": lambda t: F.unfold(t["image"], (2, 3), padding=1, stride=2),
    "back from columns": lambda t: F.fold(t["line"][:, :, :6].repeat(1, 4, 1), (3, 4), (2, 2)),
    "bilinear": lambda t: (
        _resized(t["image"], "bilinear", False)[..., :8] + _resized(t["image"], "bilinear", True)[..., :8]
    ),
    "bicubic": lambda t: _resized(t["image"], "bicubic", False) + _resized(t["image"], "bicubic", True),
    "smaller": lambda t: (
        F.interpolate(t["image"], size=(3, 4), mode="bilinear", antialias=True)
        + F.interpolate(t["image"], size=(3, 4), mode="bicubic", antialias=True)
    ),
    "of a line": lambda t: F.interpolate(t["line"], size=5, mode="linear") + F.interpolate(t["line"], size=5),
    "of a volume": lambda t: F.interpolate(t["volume"], scale_factor=1.5, mode="trilinear"),
    "nearest": lambda t: (
        F.interpolate(t["image"], size=(7, 9)) + F.interpolate(t["image"], size=(7, 9), mode="nearest-exact")
    ),
    "padded": lambda t: (
        F.pad(t["image"], (1, 2, 2, 1), mode="replicate") + F.pad(t["image"], (1, 2, 2, 1), mode="reflect")
    ),
    "padded volume": lambda t: F.pad(t["volume"], (1, 2, 1, 1, 0, 1), mode="replicate"),
    "adaptive": lambda t: (
        F.adaptive_max_pool2d(t["image"], (3, 4)) + F.adaptive_max_pool1d(t["line"], 3)[..., :2, None, :1]
    ),
    "adaptive volume": lambda t: F.adaptive_max_pool3d(t["volume"], (2, 3, 2)),
    "lp pool": lambda t: F.lp_pool2d(t["image"].abs() + 0.1, 2, 2) + F.local_response_norm(t["image"], 3)[..., :2, :3],
    "cdist": lambda t: (
        torch.cdist(t["x"], t["z"]) + torch.cdist(t["x"], t["z"], p=1) + torch.cdist(t["x"], t["z"], p=3)
    ),
    "pdist": lambda t: F.pdist(t["x"]) + torch.cdist(t["x"], t["x"]).sum(),
    "margins": lambda t: F.multi_margin_loss(t["x"], t["labels"]) + F.triplet_margin_loss(t["x"], t["z"], t["p"]),
    "soft margin": lambda t: (
        F.soft_margin_loss(t["x"], t["z"].detach().sign()) + F.hinge_embedding_loss(t["x"], torch.ones(4, 6))
    ),
    "nll": lambda t: F.gaussian_nll_loss(t["x"], t["z"], t["p"]) + F.poisson_nll_loss(t["x"], t["p"]),
    "shrink": lambda t: (
        F.hardshrink(t["x"]) + F.softshrink(t["z"]) + F.rrelu(t["x"]) + F.selu(t["x"]) + F.prelu(t["x"], t["z"][0])
    ),
    "gates": lambda t: F.glu(t["x"]) + torch.lerp(t["x"], t["z"], 0.3)[:, :3] + F.celu(t["x"], 1.3)[:, :3],
    "of both": lambda t: F.bilinear(t["x"], t["z"], t["w"]) + torch.einsum("bi,oij,bj->bo", t["x"], t["w"], t["z"]),
    "weight norm": lambda t: torch._weight_norm(t["x"], t["p"][:, :1], 0),
    "products": lambda t: (
        torch.addmv(t["x"][:, 0], t["x"], t["z"][0]) + torch.addbmm(t["x"][:, :6], t["w"][:, :4], t["w"])[:, 0]
    ),
    "masked scatter": lambda t: t["x"].masked_scatter(t["z"] > 0, t["p"]),
    "bags": lambda t: torch.cat([_bag(t, "sum"), _bag(t, "mean"), _bag(t, "max")]),
    "grid": lambda t: F.grid_sample(t["image"], torch.tanh(t["image"]).permute(0, 2, 3, 1), align_corners=False),
    "grid to the edge": lambda t: F.grid_sample(
        t["image"], t["image"].permute(0, 2, 3, 1), padding_mode="border", align_corners=True
    ),
    "ctc": lambda t: F.ctc_loss(
        t["line"][..., :3].permute(2, 0, 1).log_softmax(-1),
        t["targets"],
        torch.tensor([3, 2]),
        t["lengths"],
    ),
    "ctc joined": lambda t: F.ctc_loss(
        t["line"].permute(2, 0, 1).log_softmax(-1),
        t["joined"],
        torch.tensor([7, 6]),
        t["lengths"],
        reduction="none",
    ),
    "ctc too long": lambda t: F.ctc_loss(
        t["line"][..., :1].permute(2, 0, 1).log_softmax(-1),
        t["joined"],
        torch.tensor([1, 1]),
        t["lengths"],
        zero_infinity=True,
    ),
}


def test_layers_and_losses() -> None:
    with Rewriting():
        # one of the two ways to sample is enough to trace
        traced = {name: case for name, case in LAYERS.items() if name != "grid to the edge"}
        compare(traced, _pictures(), products={"of_both", "products"})


@pytest.mark.parametrize(
    "name",
    [
        "ctc",
        "ctc joined",
        "ctc too long",
        "grid",
        "grid to the edge",
        "nll",
    ],
)
def test_what_is_in_other_words_is_the_same(name: str) -> None:
    inputs = {n: t.double() if t.is_floating_point() else t for n, t in _pictures().items()}
    with Rewriting():
        mine = LAYERS[name](inputs)
    torch.testing.assert_close(mine, LAYERS[name](inputs))


@pytest.mark.parametrize("cases", [ORDER, FUNCTIONS], ids=["order", "functions"])
def test_values_and_gradients(cases: Cases) -> None:
    compare(cases, _inputs())


def test_functions_are_as_near_as_the_page_says() -> None:
    """Units in the last place of FP32, at 20,000 numbers each."""
    random = np.random.default_rng(1)
    known: dict[str, tuple[float, float, float]] = {
        "sin": (-1e4, 1e4, 3),
        "cos": (-1e4, 1e4, 3),
        "tan": (-1e4, 1e4, 5),
        "atan": (-50, 50, 3),
        "asin": (-1, 1, 3),
        "acos": (-1, 1, 3),
        "sinh": (-80, 80, 4),
        "cosh": (-80, 80, 4),
        "asinh": (-1e4, 1e4, 4),
        "atanh": (-1, 1, 4),
        "acosh": (1, 1e4, 4),
        "expm1": (-80, 80, 3),
        "log1p": (-0.99, 1e4, 3),
        "log2": (1e-6, 1e6, 3),
        "log10": (1e-6, 1e6, 3),
        "erfc": (-5, 9, 7),
        "erfinv": (-1, 1, 5),
    }
    inputs = {
        name: torch.from_numpy(random.uniform(low, high, 20_000).astype(np.float32))
        for name, (low, high, _) in known.items()
    }
    program = capture_program(lambda t: {name: getattr(torch, name)(t[name]) for name in known}, inputs)
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    found = backend(Engine(NATIVE)).compile(program, 1).run(arrays)
    for name, (_, _, most) in known.items():
        right = getattr(torch, name)(inputs[name].double()).numpy()
        unit = np.spacing(np.abs(right).astype(np.float32)).astype(np.float64)
        assert np.abs((found[name] - right) / unit).max() < most, name


def test_functions_keep_within_their_range_where_they_lose_their_digits() -> None:
    x = torch.cat([torch.linspace(0.9, 1, 400) * 10.0**n for n in (6, 7, 8, 12, 20, 38)])
    low = torch.tensor([-1e20, -1e10, -3, 0.5])
    program = capture_program(
        lambda t: {"sin": t["x"].sin(), "cos": t["x"].cos(), "tan": t["x"].tan(), "acosh": t["low"].acosh()},
        {"x": x, "low": low},
    )
    found = backend(Engine(NATIVE)).compile(program, 1).run({"x": x.numpy(), "low": low.numpy()})
    assert max(np.abs(found[name]).max() for name in ("sin", "cos")) <= 1
    assert np.isfinite(found["tan"]).all()
    assert np.isnan(found["acosh"]).all()


def test_what_is_not_finite_stays_so() -> None:
    special = torch.tensor([math.inf, -math.inf, math.nan, 0.0, 1.0, -1.0])
    functions = [
        "floor",
        "ceil",
        "round",
        "trunc",
        "sin",
        "cos",
        "atan",
        "asin",
        "sinh",
        "cosh",
        "asinh",
        "atanh",
        "acosh",
        "expm1",
        "log1p",
        "exp2",
        "erfc",
        "erfinv",
    ]
    pairs = [special[:, None].expand(6, 6).reshape(-1), special.repeat(6)]
    program = capture_program(
        lambda t: {
            **{name: getattr(torch, name)(t["x"]) for name in functions},
            "pow": t["a"] ** t["b"],
            "hypot": torch.hypot(t["a"], t["b"]),
            "atan2": torch.atan2(t["a"], t["b"]),
            "cumsum": t["x"].logcumsumexp(0),
        },
        {"x": special, "a": pairs[0], "b": pairs[1]},
    )
    arrays = {"x": special.numpy(), "a": pairs[0].numpy(), "b": pairs[1].numpy()}
    for name in (NUMPY, NATIVE):
        found = backend(Engine(name)).compile(program, 1).run(arrays)
        for function in functions:
            np.testing.assert_allclose(found[function], getattr(torch, function)(special), rtol=1e-6, err_msg=function)
        np.testing.assert_allclose(found["pow"], pairs[0] ** pairs[1])
        np.testing.assert_allclose(found["hypot"], torch.hypot(*pairs))
        np.testing.assert_allclose(found["atan2"], torch.atan2(*pairs), rtol=1e-6)


def test_running_sums_keep_their_length() -> None:
    x = {"x": torch.ones(0, 3), "y": torch.ones(3, 1)}
    program = capture_program(lambda t: {"out": t["x"].cumsum(0), "one": t["y"].cumsum(1)}, x)
    found = run(program, {n: t.numpy() for n, t in x.items()}, 1, backend(Engine(NUMPY)))
    assert found["out"].shape == (0, 3)
    assert found["one"].tolist() == [[1]] * 3
