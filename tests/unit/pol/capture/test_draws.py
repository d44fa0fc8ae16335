"""Random numbers of a model's forward: what they are made of, how they are distributed, and by what they are keyed."""

from collections.abc import Callable
from math import erf, sqrt

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from assay import JobSpec
from pol.capture.draws.dropout import EVALUATION, SeededDropout
from pol.capture.functions import JobFunctions
from pol.capture.graph.capture import Tensors, capture_program
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import BACKENDS, NATIVE, Engine
from pol.job.program import Program
from pol.state.arrays import Array

COUNT = 20_000
ONES = torch.ones(COUNT)


def _program(draw: Callable[[], dict[str, torch.Tensor]]) -> Program:
    def traced(t: Tensors) -> dict[str, torch.Tensor]:
        with SeededDropout(t["number"]):
            return {name: value + t["zero"].to(value.dtype) for name, value in draw().items()}

    return capture_program(traced, {"number": torch.tensor(0), "zero": torch.zeros(())})


def _drawn(program: Program, number: int = 3, seed: int = 7, name: str = NATIVE) -> dict[str, Array]:
    inputs = {"number": np.array(number), "zero": np.zeros((), np.float32)}
    return run(program, inputs, seed, backend(Engine(name)))


@pytest.fixture(scope="module")
def program() -> Program:
    return _program(
        lambda: {
            "rand": torch.rand(COUNT),
            "rand_like": torch.rand_like(ONES),
            "randn": torch.randn(2, COUNT // 2).flatten(),
            "randn_like": torch.randn_like(ONES),
            "normal": torch.normal(2 * ONES, 3.0),
            "normal_": torch.empty(COUNT).normal_(2, 3),
            "uniform_": torch.empty(COUNT).uniform_(-1, 3),
            "exponential_": torch.empty(COUNT).exponential_(2.0),
            "bernoulli": torch.bernoulli(0.3 * ONES),
            "bernoulli_": torch.empty(COUNT).bernoulli_(0.7),
            "randint": torch.randint(-2, 3, (COUNT,)),
            "randperm": torch.randperm(50),
            "multinomial": torch.multinomial(torch.tensor([1.0, 2.0, 5.0]), COUNT, replacement=True),
            "distinct": torch.multinomial(torch.tensor([1.0, 0.0, 5.0]).expand(9, 3), 2),
            "alpha": F.alpha_dropout(torch.full((COUNT,), 0.5), 0.3, True),
            "features": F.feature_alpha_dropout(torch.full((COUNT // 10, 5, 2), 0.5), 0.3, True),
            "rrelu": F.rrelu(-ONES, training=True),
            "gumbel": F.gumbel_softmax(torch.tensor([1.0, 2.0, 5.0]).log().expand(COUNT, 3), hard=True),
        }
    )


def test_moments(program: Program) -> None:
    found = _drawn(program)
    moments = {
        "rand": (0.5, 1 / 12),
        "rand_like": (0.5, 1 / 12),
        "randn": (0, 1),
        "randn_like": (0, 1),
        "normal": (2, 9),
        "normal_": (2, 9),
        "uniform_": (1, 4 / 3),
        "exponential_": (0.5, 0.25),
        "bernoulli": (0.3, 0.21),
        "bernoulli_": (0.7, 0.21),
        "randint": (0, 2),
        "rrelu": (-(1 / 8 + 1 / 3) / 2, (1 / 3 - 1 / 8) ** 2 / 12),
    }
    for name, (mean, variance) in moments.items():
        assert abs(found[name].mean() - mean) < 5 * sqrt(variance / COUNT), name
        assert abs(found[name].var() / variance - 1) < 0.07, name
    for name in ("rand", "randn", "normal", "uniform_"):
        assert len(np.unique(found[name])) > 0.99 * COUNT
    assert not np.array_equal(found["rand"], found["rand_like"])


def test_normal_numbers_have_the_quantiles_of_theirs(program: Program) -> None:
    found = np.sort(_drawn(program)["randn"].astype(np.float64))
    expected = np.array([(1 + erf(x / sqrt(2))) / 2 for x in found])
    # Kolmogorov and Smirnov; one of a million goes beyond
    assert np.abs(expected - np.arange(COUNT) / COUNT).max() < 2.7 / sqrt(COUNT)


def test_choices(program: Program) -> None:
    found = _drawn(program)
    assert sorted(found["randperm"].tolist()) == list(range(50))
    assert set(found["randint"].tolist()) == {-2, -1, 0, 1, 2}
    for shares in (np.bincount(found["multinomial"]), found["gumbel"].sum(0)):
        np.testing.assert_allclose(shares / COUNT, np.array([1, 2, 5]) / 8, atol=0.02)
    assert set(found["gumbel"].flatten().tolist()) == {0, 1}
    # what has no weight is drawn last
    assert sorted({tuple(sorted(row)) for row in found["distinct"].tolist()}) == [(0, 2)]
    a, b = np.unique(found["alpha"])
    assert a < -1 < 0 < b
    assert abs((found["alpha"] == a).mean() - 0.3) < 0.02
    kept = found["features"] == found["features"].max()
    assert (kept.all(2) | ~kept.any(2)).all()


def test_they_are_keyed_by_seed_batch_and_place(program: Program) -> None:
    first = _drawn(program)
    for other in (_drawn(program, number=4), _drawn(program, seed=8)):
        assert all(not np.array_equal(first[name], other[name]) for name in first if name != "distinct")
    sites = [node.attrs["site"] for node in program.nodes if node.op == "uniform"]
    assert sorted(sites) == list(range(18))


def test_every_executor_draws_the_same() -> None:
    small = _program(lambda: {"n": torch.randn(33), "p": torch.randperm(40), "i": torch.randint(9, (7,))})
    found = [_drawn(small, name=name) for name in BACKENDS]
    for other in found[1:]:
        assert all(found[0][name].tobytes() == other[name].tobytes() for name in other)


def test_what_draws_outside_of_a_model_is_refused() -> None:
    with pytest.raises(JobError, match="functions that the model or the loss calls"):
        capture_program(lambda t: {"out": t["x"] + torch.rand(3)}, {"x": torch.zeros(3)})


def test_evaluation_draws_the_same_for_each_batch() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    data = {"x": np.ones((4, 3), np.float32)}
    spec = JobSpec(
        name="noisy",
        model=model,
        loss=lambda m, b: (m(b["x"]) + torch.randn(4, 2)).sum(),
        train=data,
        holdout=data,
        steps=1,
        batch=4,
        seed=3,
    )
    inputs = {f"global.{name}": value.detach() for name, value in model.named_parameters()}
    inputs["batch.x"] = torch.from_numpy(data["x"])
    program = capture_program(JobFunctions(spec, 1).evaluate, inputs)
    (drawn,) = [node for node in program.nodes if node.op == "uniform"]
    number = program.constants[drawn.args[0] - len(program.inputs)]
    assert number.data == EVALUATION.to_bytes(8, "little", signed=True)
