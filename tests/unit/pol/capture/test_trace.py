"""What a traced program looks like: clean, pure, with errors that name the place in the model."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from assay import SGD, JobSpec
from pol.capture.draws.dropout import SeededDropout
from pol.capture.functions import JobFunctions, named
from pol.capture.graph.capture import Tensors, capture_program
from pol.capture.reports.reasons import in_words
from pol.capture.rules.registry import RULES
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import Engine
from pol.job.document import BATCH_NUMBER, STEP

NUMPY = backend(Engine("numpy"))


def _trace_one(function: object, *shape: int) -> list[str]:
    assert callable(function)
    program = capture_program(lambda t: {"out": function(t["x"])}, {"x": torch.zeros(shape)})
    return [node.op for node in program.nodes]


def test_views_that_cancel_each_other_vanish() -> None:
    assert _trace_one(lambda x: (x.T.contiguous().T.reshape(6).view(2, 3) * 1).detach(), 2, 3) == []


def test_equal_operations_are_one_node() -> None:
    assert _trace_one(lambda x: x.exp() * x.exp() + x.exp(), 3) == ["exp", "mul", "add"]


def test_operations_without_a_use_are_dropped() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.exp()
        return x + 1

    assert _trace_one(function, 3) == ["add"]


def test_expanded_operands_are_not_written_out() -> None:
    assert _trace_one(lambda x: x + x[:1].expand(4, 3), 4, 3) == ["slice", "add"]


def test_the_same_tensor_under_two_names_stays_two_inputs() -> None:
    same = torch.ones(2)
    program = capture_program(lambda t: {"out": t["a"] - t["b"]}, {"a": same, "b": same})
    inputs = {"a": np.array([3, 3], np.float32), "b": np.array([1, 2], np.float32)}
    np.testing.assert_array_equal(run(program, inputs, 0, NUMPY)["out"], [2, 1])


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        samples = torch.zeros(1, 4, 2)
        self.layer = nn.FractionalMaxPool2d(2, output_size=2, _random_samples=samples)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layer(x)
        return outputs.flatten(1)


def test_an_unsupported_operation_names_itself_its_line_and_a_remedy() -> None:
    model = Parts()
    with pytest.raises(JobError) as caught:
        capture_program(lambda t: {"out": model(t["x"])}, {"x": torch.zeros(4, 8, 8)})
    assert "torch.nn.functional.fractional_max_pool2d" in caught.value.reason
    assert "test_trace.py" in caught.value.field
    assert "self.layer(x)" in caught.value.field
    assert "pooling.py" in caught.value.field
    assert "module.py" not in caught.value.field
    assert caught.value.remedy == "use nn.MaxPool2d"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x * torch.randint(0, 2**25, (3,)), "16,777,216"),
        (lambda x: x[x > 0] * 2, "torch.where"),
        (lambda x: x.to(torch.complex64).real, "complex64"),
        (lambda x: x.long() & 3, "//"),
        (torch.lgamma, "torch.lgamma"),
        (torch.unique, "torch.unique"),
        (lambda x: x if x.sum() > 0 else -x, "depends on values of a tensor.*torch.where"),
        (lambda x: x * x.tolist()[0][0], r"remove \.item\(\)"),
        (lambda x: x + torch.from_numpy(x.numpy()), "the code calls NumPy there.*function of torch"),
    ],
)
def test_what_a_job_cannot_hold_is_refused_with_the_reason(function: object, reason: str) -> None:
    assert callable(function)

    def traced(tensors: Tensors) -> dict[str, torch.Tensor]:
        with SeededDropout(tensors["step"]):
            return {"out": function(tensors["x"])}

    with pytest.raises(JobError, match=reason):
        capture_program(traced, {"x": torch.zeros(4, 3), "step": torch.tensor(0)})


def _refused(function: Callable[[Tensors], Tensors]) -> JobError:
    with pytest.raises(JobError) as caught:
        capture_program(function, {"x": torch.zeros(4, 3)})
    return caught.value


def test_what_cannot_be_traced_names_the_line(caplog: pytest.LogCaptureFixture) -> None:
    error = _refused(lambda t: {"out": t["x"] @ t["x"]})  # shapes that do not fit
    assert "test_trace.py" in error.field
    assert "shapes that do not fit" in error.field
    assert "control flow" not in error.remedy
    error = _refused(lambda t: {"out": t["x"] if t["x"].sum() > 0 else -t["x"]})  # by value
    assert "by value" in error.field
    assert "control flow" in error.remedy
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_errors_of_torch_are_told_in_other_words_where_these_help() -> None:
    reason, remedy = in_words(AssertionError("Torch not compiled with CUDA enabled"), "other")
    assert "GPU" in reason
    assert "device=x.device" in remedy
    assert in_words(ValueError("a line.\nanother"), "other") == ("a line", "other")
    assert in_words(ValueError(), "other") == ("ValueError", "other")


def test_an_error_of_a_rule_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> int:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(RULES, "aten.exp.default", broken)
    assert "torch.exp" in _refused(lambda t: {"out": t["x"].exp()}).reason


class TestAttention:
    """``scaled_dot_product_attention`` with dropout, called by itself and by ``nn.MultiheadAttention``."""

    QUERY = torch.linspace(-1, 1, 2 * 5 * 4).reshape(2, 5, 4)

    def _run(self, attention: Callable[[torch.Tensor], torch.Tensor]) -> tuple[np.ndarray, set[str]]:
        def function(tensors: Tensors) -> dict[str, torch.Tensor]:
            with SeededDropout(tensors["step"]):
                return {"out": attention(tensors["x"])}

        step = torch.tensor(0)
        program = capture_program(function, {"x": self.QUERY, "step": step})
        inputs = {"x": self.QUERY.numpy(), "step": step.numpy()}
        return run(program, inputs, 3, NUMPY)["out"], {node.op for node in program.nodes}

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"is_causal": True},
            {"attn_mask": torch.ones(5, 5).tril().bool()},
            {"attn_mask": torch.ones(5, 5).tril(), "scale": 0.3},
        ],
    )
    def test_is_the_mean_over_masks(self, options: dict[str, Any]) -> None:
        """With a tiny p nothing is dropped, so the formula must be torch's own."""

        def attention(x: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(x, x * 2, x + 1, dropout_p=1e-9, **options)

        found, operations = self._run(attention)
        assert "uniform" in operations
        plain = F.scaled_dot_product_attention(self.QUERY, self.QUERY * 2, self.QUERY + 1, **options)
        np.testing.assert_allclose(found, plain.numpy(), rtol=2e-3, atol=2e-4)

    def test_drops(self) -> None:
        values = torch.eye(5).expand(2, 5, 5)

        def attention(x: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(x, x, values, dropout_p=0.5)

        found, _ = self._run(attention)
        assert 10 < int((found == 0).sum()) < 40

    @pytest.mark.parametrize("need_weights", [False, True])
    def test_inside_multi_head_attention(self, need_weights: bool) -> None:
        layer = nn.MultiheadAttention(4, 2, dropout=0.3, batch_first=True)
        _, operations = self._run(lambda x: layer(x, x, x, need_weights=need_weights)[0])
        assert "uniform" in operations


class TestDropout:
    def _run(self, p: float, steps: list[int], seed: int = 1) -> list[dict[str, np.ndarray]]:
        def function(tensors: Tensors) -> dict[str, torch.Tensor]:
            with SeededDropout(tensors["step"]):
                first = F.dropout(tensors["x"], p)
                return {"first": first, "second": nn.Dropout(p)(tensors["x"])}

        program = capture_program(function, {"x": torch.zeros(100, 80), "step": torch.tensor(0)})
        x = np.ones((100, 80), np.float32)
        return [run(program, {"x": x, "step": np.array(s)}, seed, NUMPY) for s in steps]

    def test_keeps_the_right_share_and_scales_it(self) -> None:
        (found,) = self._run(0.25, [0])
        assert set(np.unique(found["first"])) == {np.float32(0), np.float32(1 / 0.75)}
        assert abs(float((found["first"] > 0).mean()) - 0.75) < 0.02

    def test_differs_by_place_step_and_seed_and_repeats_otherwise(self) -> None:
        first, again, later = self._run(0.5, [4, 4, 5])
        (other,) = self._run(0.5, [4], seed=2)
        np.testing.assert_array_equal(first["first"], again["first"])
        for different in (first["second"], later["first"], other["first"]):
            assert abs(float((first["first"] == different).mean()) - 0.5) < 0.05

    def test_is_nothing_outside_training(self) -> None:
        def function(tensors: Tensors) -> dict[str, torch.Tensor]:
            with SeededDropout(tensors["step"]):
                return {"out": F.dropout(tensors["x"], 0.5, training=False)}

        program = capture_program(function, {"x": torch.zeros(3), "step": torch.tensor(0)})
        assert not program.nodes


class Inner(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function, self.layer = function, nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.layer(x))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return torch.lgamma(ctx.saved_tensors[0]) * gradients[0]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.lgamma, r"^model\.1\.inner \(Inner, test_trace.py:\d+ `return self.function"),
        (lambda x: x if x.sum() > 0 else -x, r"^model\.1\.inner \(Inner, .*x\.sum\(\) > 0"),
        (lambda x: x @ x[:2], r"^model\.1\.inner \(Inner, .*x @ x\[:2\]"),
        # It fails in the backward pass, where nothing of the model is on the stack.
        (lambda x: x * torch.unique(x).sum(), r"^model\.1\.inner \(Inner, .*torch\.unique\(x\)"),
        (
            Doubled.apply,
            r"^model\.1\.inner(\.layer \(gradient of Linear| \(gradient of Inner), .*self.layer\(x\)",
        ),
    ],
)
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_an_error_names_the_module_in_the_model(
    function: Callable[[torch.Tensor], torch.Tensor], expected: str, is_checkpointed: bool
) -> None:
    part = nn.Sequential()
    part.inner = Inner(function)
    model = nn.Sequential(nn.Linear(3, 4), part)
    data = {"x": np.zeros((4, 3), np.float32)}

    def loss(model: nn.Module, batch: Tensors) -> torch.Tensor:
        assert isinstance(model, nn.Sequential)
        x, last = model[0](batch["x"]), model[1]
        value: torch.Tensor = checkpoint(last, x, use_reentrant=False) if is_checkpointed else last(x)
        return value.sum()

    spec = JobSpec(
        name="places",
        model=model,
        loss=loss,
        train=data,
        holdout=data,
        optimizer=SGD(),
        schedule=0.1,
        steps=1,
        batch=4,
    )
    state = {name: p.detach().clone() for name, p in model.named_parameters()}
    inputs = {
        **named("global", state),
        "batch.x": torch.zeros(4, 3),
        STEP: torch.tensor(0),
        BATCH_NUMBER: torch.tensor(0),
    }
    with pytest.raises(JobError) as caught:
        capture_program(JobFunctions(spec, 1).step, inputs)
    assert re.search(expected, caught.value.field), caught.value.field
    assert "_unique2" not in str(caught.value)


def test_what_a_gradient_needs_and_is_changed_in_place_is_named_with_its_line() -> None:
    def function(t: Tensors) -> Tensors:
        x = t["x"].detach().requires_grad_()
        h = x.sigmoid()
        h += 1
        return {"out": torch.autograd.grad(h.sum(), x)[0]}

    with pytest.raises(JobError, match=r"is changed in place after it; .*h = h\.clone\(\)") as caught:
        capture_program(function, {"x": torch.zeros(3)})
    assert "h = x.sigmoid()" in caught.value.field or "h += 1" in caught.value.field
    assert "anomaly" not in str(caught.value)
