"""Convolutions and pools of every form against torch in FP64: values and gradients, on NumPy and on native kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from pol.capture.graph.capture import Tensors, capture_program
from pol.errors import JobError, OutOfRange
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE, NUMPY, Engine

Value = Callable[[Tensors], torch.Tensor]
CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
AVERAGES = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
LARGEST = (F.max_pool1d, F.max_pool2d, F.max_pool3d)


def _tensors(sizes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {name: torch.randn(size, generator=generator) for name, size in sizes.items()}


def _with_gradients(value: Value, tensors: Tensors, weights: torch.Tensor) -> dict[str, torch.Tensor]:
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}
    found = value(leaves)
    weighted = (found * weights.to(found.dtype)).sum()
    gradients = torch.autograd.grad(weighted, list(leaves.values()))
    return {"value": found.detach(), **dict(zip(leaves, gradients, strict=True))}


def check(value: Value, **sizes: tuple[int, ...]) -> None:
    tensors = _tensors(sizes)
    wide = {name: tensor.double() for name, tensor in tensors.items()}
    weights = torch.ones_like(value(wide)).cumsum(-1).sin().float()
    expected = _with_gradients(value, wide, weights)
    program = capture_program(lambda given: _with_gradients(value, given, weights), tensors)
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    for executor in (NUMPY, NATIVE):
        found = run(program, arrays, 1, backend(Engine(executor)))
        for name, right in expected.items():
            scale = max(1.0, float(right.abs().max()) if right.numel() else 0.0)
            np.testing.assert_allclose(found[name], right.numpy(), atol=2e-3 * scale, rtol=0)


@st.composite
def forms(draw: st.DrawFn, rank: int) -> dict[str, Any]:
    """Draw sizes of an input and of windows, with whatever torch permits."""

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    return {
        "inputs": each(1, 9),
        "kernel": each(1, 4),
        "stride": each(1, 3),
        "padding": each(0, 2),
        "dilation": each(1, 3),
    }


@settings(max_examples=15, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_convolutions(data: st.DataObject, rank: int, groups: int, has_bias: bool) -> None:
    form = data.draw(forms(rank))
    rows = zip(form["inputs"], form["padding"], form["dilation"], form["kernel"], strict=True)
    assume(all(size + 2 * p >= d * (k - 1) + 1 for size, p, d, k in rows))
    sizes = {"x": (2, 2 * groups, *form["inputs"]), "w": (3 * groups, 2, *form["kernel"])}
    if has_bias:
        sizes["b"] = (3 * groups,)
    options = {name: form[name] for name in ("stride", "padding", "dilation")}
    function = CONVOLUTIONS[rank - 1]
    check(lambda t: function(t["x"], t["w"], t.get("b"), groups=groups, **options), **sizes)


@settings(max_examples=15, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 2))
def test_transposed_convolutions(data: st.DataObject, rank: int, groups: int) -> None:
    form = data.draw(forms(rank))
    more = tuple(
        data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(form["stride"], form["dilation"], strict=True)
    )
    rows = zip(
        form["inputs"],
        form["stride"],
        form["padding"],
        form["dilation"],
        form["kernel"],
        more,
        strict=True,
    )
    assume(all((n - 1) * s - 2 * p + d * (k - 1) + m + 1 > 0 for n, s, p, d, k, m in rows))
    options = {name: form[name] for name in ("stride", "padding", "dilation")}
    function = TRANSPOSED[rank - 1]
    check(
        lambda t: function(t["x"], t["w"], groups=groups, output_padding=more, **options),
        x=(2, 2 * groups, *form["inputs"]),
        w=(2 * groups, 3, *form["kernel"]),
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_transposed_convolution_has_room_for_windows_that_are_none_of_its_input(
    rank: int,
) -> None:
    """Where the padding behind is as large as a stride, which a dilation permits."""
    check(
        lambda t: TRANSPOSED[rank - 1](t["x"], t["w"], output_padding=2, dilation=3, padding=1),
        x=(2, 2, *[4] * rank),
        w=(2, 3, *[2] * rank),
    )


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding_may_be_a_word(rank: int, padding: str) -> None:
    check(
        lambda t: CONVOLUTIONS[rank - 1](t["x"], t["w"], padding=padding),
        x=(2, 2, *[5] * rank),
        w=(3, 2, *[3] * rank),
    )


@settings(max_examples=15, deadline=None)
@given(st.data(), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans())
def test_pools(data: st.DataObject, rank: int, ceil: bool, count_padding: bool, is_largest: bool) -> None:
    form = data.draw(forms(rank))
    kernel, dilation = form["kernel"], form["dilation"] if is_largest else (1,) * rank
    padding = tuple(min(p, k // 2) for p, k in zip(form["padding"], kernel, strict=True))
    # torch itself pools no volume that is smaller than a window, whatever is padded
    rows = zip(form["inputs"], dilation, kernel, strict=True)
    assume(all(size >= d * (k - 1) + 1 for size, d, k in rows))
    options: dict[str, Any] = {"stride": form["stride"], "padding": padding, "ceil_mode": ceil}
    options |= {"dilation": dilation} if is_largest else {"count_include_pad": count_padding}
    function = (LARGEST if is_largest else AVERAGES)[rank - 1]
    check(lambda t: function(t["x"], kernel, **options), x=(2, 3, *form["inputs"]))


OTHERS: dict[str, tuple[Value, tuple[int, ...]]] = {
    "adaptive average": (lambda t: F.adaptive_avg_pool2d(t["x"], (3, 2)), (2, 3, 7, 8)),
    "adaptive average, one": (lambda t: F.adaptive_avg_pool2d(t["x"], 1), (2, 3, 7, 8)),
    "adaptive maximum": (lambda t: F.adaptive_max_pool2d(t["x"], (3, 2)), (2, 3, 6, 8)),
    "the first of equal ones": (
        lambda t: F.max_pool2d((t["x"] > 0).float(), 3, 1, return_indices=True)[1] * t["x"].sum(),
        (2, 3, 7, 6),
    ),
    "where it was": (
        lambda t: F.max_pool2d(t["x"], 3, 2, 1, return_indices=True)[1] * t["x"].sum(),
        (2, 3, 7, 6),
    ),
    "nearest": (lambda t: F.interpolate(t["x"], scale_factor=(2, 3)), (2, 3, 3, 4)),
    "pixel shuffle": (lambda t: F.pixel_shuffle(t["x"], 2), (2, 8, 3, 3)),
    "same": (lambda t: F.conv2d(t["x"], t["x"][:, :, :3, :3], padding="same"), (3, 3, 5, 5)),
    "group norm": (lambda t: F.group_norm(t["x"], 2, t["x"][0, :, 0, 0]), (2, 4, 3, 3)),
    "instance norm": (lambda t: F.instance_norm(t["x"]), (2, 4, 3, 3)),
    "batch norm": (
        lambda t: F.batch_norm(t["x"], None, None, t["x"][0, :, 0, 0], training=True),
        (3, 4, 3, 3),
    ),
    "columns by number": (lambda t: t["x"][:, torch.tensor([2, 0, 2])], (2, 3, 4)),
    "pairs by number": (
        lambda t: t["x"][torch.tensor([1, 0, 1]), torch.tensor([2, 0, 2])],
        (2, 3, 4),
    ),
    "pairs from behind": (
        lambda t: t["x"][torch.tensor([-1, 0, -2]), torch.tensor([2, -3, 2])],
        (2, 3, 4),
    ),
    "numbers apart": (
        lambda t: t["x"][torch.tensor([[1], [0]]), :, torch.tensor([2, 0, 2])],
        (2, 3, 4),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_forms(name: str) -> None:
    value, size = OTHERS[name]
    check(value, x=size)


def test_a_pair_of_which_one_number_is_outside_names_no_row() -> None:
    tensors = {"x": torch.ones(2, 3), "i": torch.tensor([0, 1]), "j": torch.tensor([0, 1])}
    program = capture_program(lambda t: {"out": t["x"][t["i"], t["j"]]}, tensors)
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    for executor in (NUMPY, NATIVE):
        # of the first row, whose width is 3, it would be the first of the second one
        for outside in (3, -4):
            wrong = {**arrays, "j": np.array([outside, 0])}
            with pytest.raises(OutOfRange):
                run(program, wrong, 1, backend(Engine(executor)))


def test_a_long_sum_is_made_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pol.capture.rules.window.MAX_SUMMED", 20)
    check(lambda t: F.conv2d(t["x"], t["w"], padding=1), x=(2, 3, 5, 7), w=(4, 3, 3, 3))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            lambda t: F.fractional_max_pool2d(t["x"], 2, output_size=2, _random_samples=torch.zeros(2, 3, 2)),
            "nn.MaxPool2d",
        ),
        (lambda t: t["x"][t["x"] > 0].sum(), "fixed shapes|a mask"),
    ],
)
def test_what_cannot_be_says_so(value: Value, reason: str) -> None:
    tensors = _tensors({"x": (2, 3, 4, 5)})
    with pytest.raises(JobError, match=reason):
        capture_program(lambda t: {"out": value(t)}, tensors)
