"""Loops of a fixed number of turns: ``assay.repeat``, recurrent layers, CTC: one operation, with eager's values."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from assay import Precision, repeat
from pol.capture.draws.checkpoints import repeatable_checkpoints
from pol.capture.draws.dropout import SeededDropout
from pol.capture.graph.capture import capture_program
from pol.capture.graph.precision import gradient
from pol.capture.loops.turns import taken_apart
from pol.errors import JobError
from pol.executor.interface import run
from pol.executor.names import BACKENDS
from pol.job.program import Program
from pol.job.unroll import unroll
from tests.unit.pol.capture.compared import Cases, compare
from tests.unit.pol.executor.ops import bits, get

Function = Callable[[Mapping[str, Tensor]], Tensor]


def traced(function: Function, tensors: Mapping[str, Tensor], **options: Any) -> Program:
    """The loss of a function, and the gradient of every tensor that it takes."""

    def step(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        leaves = {
            name: value.detach().requires_grad_(value.is_floating_point())
            for name, value in given.items()
            if name != "batch_number"
        }
        with SeededDropout(given["batch_number"]) as draws, repeatable_checkpoints(draws):
            loss = function(leaves)
            wanted = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
            found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
        slopes = {n: s for n, s in zip(wanted, found, strict=True) if s is not None}
        return {"metric.loss": loss} | {
            f"global.{name}": gradient(slope, name.removeprefix("global.")) for name, slope in slopes.items()
        }

    return capture_program(step, {**tensors, "batch_number": torch.tensor(0)}, **options)


def counted(program: Program) -> list[tuple[int, int]]:
    """Nodes of each body, and how often it is repeated."""
    return [(len(body.nodes), count) for body, count in program.bodies]


# --- what people write ---


def _tensors() -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(3)
    shapes = {"x": (5, 2, 3), "h": (2, 4), "w": (4, 4), "u": (3, 4), "v": (4,)}
    return {name: torch.randn(shape, generator=random) * 0.5 for name, shape in shapes.items()}


def _elman(t: Mapping[str, Tensor]) -> Any:
    """Weights are read from around the turn; it says two things."""

    def turn(h: Tensor, x: Tensor) -> tuple[Tensor, dict[str, Tensor | None]]:
        h = torch.tanh(x @ t["u"] + h @ t["w"] + t["v"])
        return h, {"twice": h * 2, "nothing": None}

    h, out = repeat(turn, t["h"], t["x"])
    assert out["nothing"] is None
    return h.sum(0) + (out["twice"] ** 2).sum((0, 1))


def _backwards(t: Mapping[str, Tensor]) -> Any:
    total, seen = repeat(lambda s, x: (s * 0.5 + x, s), torch.zeros_like(t["x"][0]), t["x"], reverse=True)
    return torch.cat([total, seen[1]])


def _without_sequence(t: Mapping[str, Tensor]) -> Any:
    return repeat(lambda h, _: (torch.sin(h * t["v"]) + h, None), t["h"], count=6)[0]


def _fibonacci(t: Mapping[str, Tensor]) -> Any:
    (_, last), seen = repeat(lambda s, _: ((s[1], s[0] * 0.5 + s[1]), s[0]), (t["h"], t["h"] + 1), count=5)
    return last + seen.sum(0)


def _masked(t: Mapping[str, Tensor]) -> Any:
    """A truth is carried and told beside numbers."""

    def turn(state: tuple[Tensor, Tensor], x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        total, is_over = state
        total = torch.where(is_over, total, total + x)
        return (total, is_over | (total > 0.5)), is_over

    zeros = torch.zeros_like(t["x"][0])
    (total, _), over = repeat(turn, (zeros, zeros > 1), t["x"])
    return total + over.sum(0)


def _within(t: Mapping[str, Tensor]) -> Any:
    def outer(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        inner, _ = repeat(lambda s, row: (torch.sin(s * t["v"][:3]) + row, None), state, x)
        return inner * 0.5, inner

    state, seen = repeat(outer, t["x"][0, 0], t["x"])
    return state + seen.sum(0)


def _twice_differentiated(t: Mapping[str, Tensor]) -> Any:
    h, _ = repeat(lambda h, x: (torch.tanh(h * t["v"][:3] + x), None), t["x"][0] * 0, t["x"])
    (slope,) = torch.autograd.grad(h.sum(), t["x"], create_graph=True)
    return (slope**2).sum() + h.sum()


def _checkpointed(t: Mapping[str, Tensor]) -> Tensor:
    def part(x: Tensor, v: Tensor) -> Any:
        return repeat(lambda h, row: (torch.tanh(h * v + row), None), x[0] * 0, x)[0]

    found: Tensor = checkpoint(part, t["x"], t["v"][:3], use_reentrant=False)
    return found


LOOPS: Cases = {
    "elman": _elman,
    "backwards": _backwards,
    "without sequence": _without_sequence,
    "two": _fibonacci,
    "masked": _masked,
    "within": _within,
    "twice differentiated": _twice_differentiated,
    "checkpointed": _checkpointed,
}


def test_loops_are_what_they_are_in_eager_torch() -> None:
    compare(LOOPS, _tensors(), products={"elman"})


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_its_unrolling_on_every_executor(name: str) -> None:
    tensors = _tensors()
    program = traced(lambda t: LOOPS[name](t).sum(), tensors)
    assert program.nested
    arrays = {**{n: v.numpy() for n, v in tensors.items()}, "batch_number": np.array(0)}
    wanted = run(unroll(program), arrays, 7, get("numpy"))
    for executor in BACKENDS:
        found = run(program, arrays, 7, get(executor))
        assert {n: bits(v) for n, v in found.items()} == {n: bits(v) for n, v in wanted.items()}


def test_integers_are_carried_apart() -> None:
    def step(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        total, seen = repeat(lambda s, row: (s * 3 + row, s), given["n"], given["rows"])
        return {"total": total, "seen": seen}

    inputs = {"n": torch.tensor([1, 2**40]), "rows": torch.arange(8).reshape(4, 2)}
    program = capture_program(step, inputs)
    found = run(program, {n: v.numpy() for n, v in inputs.items()}, 7, get("native"))
    wanted = step(inputs)
    assert {n: v.tolist() for n, v in found.items()} == {n: v.tolist() for n, v in wanted.items()}


def test_a_sequence_of_any_length_is_as_many_nodes() -> None:
    sizes = set()
    for length in (3, 300):
        program = traced(lambda t: _elman(t).sum(), {**_tensors(), "x": torch.zeros(length, 2, 3)})
        sizes.add((len(program.nodes), *(nodes for nodes, _ in counted(program))))
        assert {count for _, count in counted(program)} == {length}
    assert len(sizes) == 1


def test_gradients_of_constants_are_added_up_from_the_last_turn() -> None:
    """In FP32 the order shows: what is large comes and goes before what is small."""
    rows = torch.tensor([1.0, 2.0**30, -(2.0**30)])
    program = traced(
        lambda t: repeat(lambda s, x: (s + x * t["w"], None), torch.zeros(()), t["x"])[0],
        {"w": torch.tensor(1.0), "x": rows},
    )
    arrays = {"w": np.array(1, np.float32), "x": rows.numpy(), "batch_number": np.array(0)}
    assert run(program, arrays, 7, get("numpy"))["global.w"] == 1.0
    other = {**arrays, "x": arrays["x"][::-1].copy()}
    assert run(program, other, 7, get("numpy"))["global.w"] == 0.0


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda t: repeat(lambda s, x: (s, None), t["v"], t["x"], count=4), "needs one number of turns"),
        (lambda t: repeat(lambda s, x: (s, None), t["v"]), "neither a sequence nor a count"),
        (lambda t: repeat(lambda s, x: (s, None), t["v"], count=0), "has 1 to 1048576 turns"),
        (lambda t: repeat(lambda s, x: s, t["v"], count=2), "must return a tuple of two"),
        (lambda t: repeat(lambda s, x: ((s, s), None), t["v"], count=2), "same tuples, lists and dicts"),
        (lambda t: repeat(lambda s, x: (s[:2], None), t["v"], count=2), r"float32\[4\] before"),
        (lambda t: repeat(lambda s, x: (s, None), 3.0, count=2), "holds float; give tensors"),
        (lambda t: repeat(lambda s, x: (s, s.long()), t["v"], count=2), "not both"),
        (
            lambda t: repeat(lambda s, x: (s + t["v"].add_(1), None), t["v"] + 0, count=2),
            "carry it",
        ),
        (
            lambda t: repeat(lambda s, x: (s if s.sum() > 0 else -s, None), t["v"], count=2),
            "if, a while",
        ),
    ],
)
def test_what_cannot_be_repeated_is_told(function: Any, told: str) -> None:
    with pytest.raises(JobError, match=told):
        traced(lambda t: function({n: v.clone() for n, v in t.items()})[0].sum(), _tensors())


def _drawing(t: Mapping[str, Tensor]) -> Tensor:
    """Draws before, in turns, in turns of turns, and behind; the sum of what was kept of v, and v's own part of it."""

    def inner(s: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return s, F.dropout(t["v"], 0.5) * x

    def outer(s: Tensor, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        _, found = repeat(inner, s, x)
        return s, {"own": F.dropout(t["v"], 0.5) * x[0], "inner": found}

    v, ones = t["v"], torch.ones(3, 4, 1)
    _, found = repeat(outer, torch.zeros(1), ones)
    parts = [
        F.dropout(v, 0.5)[None],
        found["own"],
        found["inner"].flatten(0, 1),
        F.dropout(v, 0.5)[None],
    ]
    return torch.cat(parts)


def _differences(t: Mapping[str, Tensor]) -> Tensor:
    drawn = _drawing(t).flatten(0, 1).reshape(-1, 64).sum(0)
    (slope,) = torch.autograd.grad(drawn.sum(), t["v"], create_graph=True)
    # what is drawn is linear in v
    return (slope * t["v"] - drawn).abs().sum() + slope.square().sum()


DRAWN: dict[str, Function] = {
    "sum": lambda t: _drawing(t).sum(),
    "squares": lambda t: _drawing(t).reshape(-1, 64).sum(0).square().sum(),
    "differences": _differences,
}


@cache
def _drawn(kind: str) -> Program:
    return traced(DRAWN[kind], {"v": torch.ones(64)})


@pytest.mark.parametrize("name", BACKENDS)
def test_each_turn_draws_its_own(name: str) -> None:
    program = _drawn("sum")
    inputs = {"v": np.ones(64, np.float32), "batch_number": np.array(5)}
    found = run(program, inputs, 7, get(name))
    expected = run(unroll(program), inputs, 7, get("numpy"))
    assert {n: bits(v) for n, v in found.items()} == {n: bits(v) for n, v in expected.items()}
    # the backward pass has the masks of the forward pass
    assert found["global.v"].sum() == found["metric.loss"]


@pytest.mark.parametrize("name", BACKENDS)
def test_gradients_of_gradients_have_the_draws_of_the_forward_pass(name: str) -> None:
    inputs = {"v": np.ones(64, np.float32), "batch_number": np.array(5)}
    squares, found = (run(_drawn(kind), inputs, 7, get(name))["metric.loss"] for kind in ("squares", "differences"))
    assert found == squares


KINDS: dict[str, Callable[..., Tensor]] = {
    "plain": lambda part, *given: part(*given),
    "checkpointed": lambda part, *given: checkpoint(part, *given, use_reentrant=False),
    "reentrant": lambda part, *given: checkpoint(part, *given, use_reentrant=True),
}


def _in_turns(t: Mapping[str, Tensor], kind: str) -> Tensor:
    """Parts that draw and read from around, in turns, in turns of turns, and around both."""
    run_part = KINDS[kind]

    def part(h: Tensor, x: Tensor) -> Tensor:
        return F.dropout(torch.tanh(F.dropout(h @ t["w"], 0.3) + x @ t["u"] + t["v"]), 0.4)

    def plain(h: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(h @ t["w"] * t["v"] + x @ t["u"])

    def inner(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h = run_part(part, h, x)
        return h, run_part(plain, h, x)

    def outer(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h = run_part(part, h, x)
        h, seen = repeat(inner, h, torch.stack([x, x * 0.5]))
        return run_part(plain, h, x), seen

    def whole(h: Tensor) -> Tensor:
        h, seen = repeat(outer, h, t["x"])
        found: Tensor = h.square().sum() + seen.sum()
        return found

    total: Tensor = run_part(whole, F.dropout(t["h"], 0.2))
    return total + run_part(part, t["h"], t["x"][0]).sum()


@cache
def _traced_in_turns(kind: str) -> Program:
    return traced(partial(_in_turns, kind=kind), _tensors())


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("kind", ["checkpointed", "reentrant"])
def test_what_is_checkpointed_in_a_turn_is_what_it_is_without(kind: str, name: str) -> None:
    """It draws the same again, and reads the same from around the turn."""
    inputs = {n: v.numpy() for n, v in _tensors().items()} | {"batch_number": np.array(3)}
    plain, again = (run(_traced_in_turns(one), inputs, 7, get(name)) for one in ("plain", kind))
    assert {n: bits(v) for n, v in again.items()} == {n: bits(v) for n, v in plain.items()}


def test_no_two_turns_draw_the_same() -> None:
    def step(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with SeededDropout(given["batch_number"]):
            return {"drawn": _drawing(given)}

    program = capture_program(step, {"v": torch.ones(64), "batch_number": torch.tensor(0)})
    rows = []
    for number in (0, 1, 2):
        inputs = {"v": np.ones(64, np.float32), "batch_number": np.array(number)}
        rows += [row.tobytes() for row in run(program, inputs, 7, get("native"))["drawn"]]
    # 1 before, 3 turns, 3 x 4 turns of turns, 1 behind
    assert len(rows) == len(set(rows)) == 3 * 17


def test_products_have_the_bits_of_their_pass() -> None:
    tensors = {f"global.{n}" if n in "uwv" else f"batch.{n}": v for n, v in _tensors().items()}

    def function(t: Mapping[str, Tensor]) -> Any:
        return _elman({name.partition(".")[2]: value for name, value in t.items()}).sum()

    precisions = {"": Precision(forward=8, input_gradient=22, weight_gradient=15)}
    program = traced(function, tensors, precisions=precisions)
    found = [{n.attrs["bits"] for n in b.nodes if "bits" in n.attrs} for b, _ in program.bodies]
    assert found == [{8}, {22}]


# --- layers of torch ---


LAYERS: dict[str, Callable[[], nn.RNNBase]] = {
    "LSTM": lambda: nn.LSTM(3, 5),
    "LSTM, two layers, both ways": lambda: nn.LSTM(3, 5, 2, bidirectional=True, batch_first=True),
    "GRU": lambda: nn.GRU(3, 5, bias=False),
    "GRU, both ways": lambda: nn.GRU(3, 5, bidirectional=True),
    "RNN": lambda: nn.RNN(3, 5, nonlinearity="relu"),
    "LSTM, projected": lambda: nn.LSTM(3, 5, proj_size=2),
}


def _of_layer(layer: nn.RNNBase) -> Function:
    def function(t: Mapping[str, Tensor]) -> Any:
        weights = {name: value for name, value in t.items() if name not in ("x", "h", "c")}
        begun = t["h"] if "c" not in t else (t["h"], t["c"])
        states, ended = torch.func.functional_call(layer, weights, (t["x"], begun))
        ends = ended if isinstance(ended, tuple) else (ended,)
        return (states**2).sum() + sum((end * end.sin()).sum() for end in ends)

    return function


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_are_those_of_torch(name: str) -> None:
    torch.manual_seed(1)
    layer = LAYERS[name]()
    ways = layer.num_layers * (2 if layer.bidirectional else 1)
    tensors = {n: p.detach() for n, p in layer.named_parameters()}
    tensors |= {"x": torch.randn(4, 4, 3), "h": torch.randn(ways, 4, layer.proj_size or 5)}
    if isinstance(layer, nn.LSTM):
        tensors["c"] = torch.randn(ways, 4, 5)
    program = traced(_of_layer(layer), tensors)
    assert len(program.bodies) == 2 * ways
    arrays = {**{n: v.numpy() for n, v in tensors.items()}, "batch_number": np.array(0)}
    wanted = run(unroll(program), arrays, 7, get("numpy"))
    for executor in BACKENDS:
        found = run(program, arrays, 7, get(executor))
        assert {n: bits(v) for n, v in found.items()} == {n: bits(v) for n, v in wanted.items()}
    leaves = {n: v.clone().requires_grad_() for n, v in tensors.items()}
    loss = _of_layer(layer)(leaves)
    slopes = torch.autograd.grad(loss, list(leaves.values()))
    for n, slope in zip(leaves, slopes, strict=True):
        scale = float(slope.abs().max())
        np.testing.assert_allclose(wanted[f"global.{n}"], slope, atol=1e-3 * scale, err_msg=n)
    np.testing.assert_allclose(wanted["metric.loss"], loss.detach(), rtol=1e-3)


def test_a_layer_computes_no_product_again_and_adds_no_weight_gradients_in_turns() -> None:
    """Weights have one product for all steps: the gates' gradients with what the steps began with."""
    layer = nn.LSTM(3, 5)
    tensors = {n: p.detach() for n, p in layer.named_parameters()}
    tensors |= {"x": torch.randn(9, 4, 3), "h": torch.randn(1, 4, 5), "c": torch.randn(1, 4, 5)}
    program = traced(_of_layer(layer), tensors)
    (forward, turns), (backward, _) = program.bodies
    assert turns == 9
    assert [node.op for node in (*forward.nodes, *backward.nodes)].count("matmul") == 2
    # four gates, the state of the cell before and its tangent after, and the states themselves
    assert sum(name.startswith("stacked") for name in forward.outputs) == 7


def test_a_layer_in_evaluation_stacks_its_states_alone() -> None:
    layer = nn.GRU(3, 5)
    weights = {n: p.detach() for n, p in layer.named_parameters()}

    def evaluate(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        own = {name: given[name] for name in weights}
        with SeededDropout(torch.tensor(-1)):
            return {"y": torch.func.functional_call(layer, own, (given["x"],))[0]}

    program = capture_program(evaluate, {**weights, "x": torch.randn(7, 2, 3)})
    ((body, count),) = program.bodies
    assert (count, sorted(body.outputs)) == (7, ["carry.0", "stacked.0"])


def test_gradients_of_gradients_go_through_a_layer() -> None:
    layer = nn.GRU(3, 2)

    def penalty(t: Mapping[str, Tensor]) -> Tensor:
        weights = {name: value for name, value in t.items() if name != "x"}
        states, _ = torch.func.functional_call(layer, weights, (t["x"],))
        (slope,) = torch.autograd.grad(states.sum(), t["x"], create_graph=True)
        found: Tensor = (slope**2).sum()
        return found

    tensors = {**{n: p.detach() for n, p in layer.named_parameters()}, "x": torch.randn(3, 2, 3)}
    program = traced(penalty, tensors)
    arrays = {**{n: v.numpy() for n, v in tensors.items()}, "batch_number": np.array(0)}
    leaves = {n: v.clone().requires_grad_() for n, v in tensors.items()}
    wanted = torch.autograd.grad(penalty(leaves), leaves["weight_hh_l0"])[0]
    found = run(program, arrays, 7, get("numpy"))["global.weight_hh_l0"]
    np.testing.assert_allclose(found, wanted, atol=2e-3 * float(wanted.abs().max()))


def test_ctc_of_any_length_is_as_many_nodes() -> None:
    sizes = []
    for length in (5, 60):
        lengths = torch.tensor([length, 3])

        def loss(t: Mapping[str, Tensor], sizes: Tensor = lengths) -> Tensor:
            return F.ctc_loss(t["x"].log_softmax(2), t["y"], sizes, torch.tensor([2, 1]))

        program = traced(
            loss,
            {"x": torch.randn(length, 2, 4), "y": torch.tensor([[1, 2], [3, 0]])},
        )
        sizes.append(len(program.nodes))
        assert [count for _, count in counted(program)] == [length - 1] * 2
    assert sizes[0] == sizes[1]


def test_only_what_is_dear_is_kept_for_the_backward_pass() -> None:
    """Of sin(x)^2 x: the sine, and not its square, which is one operation, nor the mask of anything."""
    tensors = {"x": torch.randn(3, 4), "s": torch.randn(4)}

    def function(t: Mapping[str, Tensor]) -> Any:
        def turn(s: Tensor, x: Tensor) -> tuple[Tensor, None]:
            sine = torch.exp(s + x)
            return torch.where(sine > 1, sine * 2, sine) * x, None

        return repeat(turn, t["s"], t["x"])[0].sum()

    program = traced(function, tensors)
    forward, backward = (body for body, _ in program.bodies)
    assert sum(name.startswith("stacked") for name in forward.outputs) == 1
    assert "exp" not in [node.op for node in backward.nodes]


def test_what_is_taken_apart_is_whole() -> None:
    """A pass that needs nothing of the other one."""
    program = traced(
        lambda t: repeat(lambda s, x: (s + x, None), torch.zeros(2), t["x"])[0].sum(),
        {"x": torch.randn(3, 2)},
    )
    forward, backward = (body for body, _ in program.bodies)
    assert list(forward.outputs) == ["carry.0"]
    assert sorted(backward.outputs) == ["carry.0", "stacked.0"]
    assert taken_apart.__doc__
