"""Every operation of torch that takes, writes or reduces by index or mask has the value of eager, or is refused."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from pol.capture.graph.capture import Tensors, capture_program
from pol.capture.idioms.rewritten import Rewriting
from pol.errors import JobError
from tests.unit.pol.capture.compared import Cases, compare

_FAMILIES = re.compile(r"_?(unsafe_)?(scatter|index|masked|take|put|gather|segment_reduce)|.*(_reduce|_scatter)(_|$)")
_NOT_CALLED = {
    # a list of Python, not a tensor
    "index.str",
    "index.list_int",
    "index.list_float",
    "index.list_bool",
    "index.list_Tensor",
    "index.list_str",
}
_REFUSED = {
    "masked_select": "the number of elements that a mask selects",
    "_masked_softmax": "masked_fill",
    "_masked_softmax_backward": "masked_fill",
    "_masked_scale": "mask",
    "_segment_reduce_backward": "torch.segment_reduce",
    "_gather_sparse_backward": "sparse_grad",
    "_sparse_mm_reduce_impl": "sparse",
    "_sparse_mm_reduce_impl_backward": "sparse",
    "batch_norm_backward_reduce": "batch norm",
}
"""Operations that have a sentence, with a part of it."""
_WITHOUT_GRADIENT = ("scatter.reduce", "scatter.value_reduce", "segment_reduce.default")
_GENERATOR = torch.Generator().manual_seed(0)
INPUTS = {
    "x": torch.randn(4, 3, generator=_GENERATOR),
    "y": torch.randn(4, 3, generator=_GENERATOR),
    "v": torch.randn(5, generator=_GENERATOR),
    "i": torch.tensor([[1, 0, 1], [0, 2, 1], [3, 2, 3], [0, 0, 1]]),
    "r": torch.tensor([1, 3, 1, 0]),
    "m": torch.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 1], [0, 0, 1]]),
    "flat": torch.tensor([3, 0, 3, 7, 11]),
    "lengths": torch.tensor([1, 1, 2]),
}


def _schemas() -> Iterator[tuple[str, str, Any]]:
    """Yield name, overload and schema of each operation of the families that torch has."""
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        overload = schema.overload_name or "default"
        if namespace == "aten" and _FAMILIES.match(name) and f"{name}.{overload}" not in _NOT_CALLED:
            yield name, overload, schema


def _argument(name: str, argument: Any, t: Tensors) -> Any:
    """Return a value for an argument of an operation; None for one that is left out."""
    base, kind = name.rstrip("_").removeprefix("_unsafe_"), str(argument.type)
    by_row = base.startswith("index_") and base != "index_put"
    by_name: dict[str, Callable[[], Any]] = {
        "self": lambda: t["x"] * 1,
        "data": lambda: t["x"] * 1,
        "input": lambda: t["x"] * 1,
        "grad": lambda: t["y"].reshape(-1)[:8] if base.startswith("masked") else t["y"][t["r"]] if by_row else t["y"],
        "grad_output": lambda: t["y"] * 1,
        "out": lambda: torch.zeros(0),
        "dim": lambda: 0,
        "index": lambda: t["r"] if by_row else t["flat"] if base in ("put", "take") else t["i"],
        "source": lambda: t["v"] if base == "put" else t["y"],
        "values": lambda: t["y"],
        "mask": lambda: t["m"] > 0,
        "fill": lambda: 0.5,
        "value": lambda: t["v"].sum().detach() if kind == "Tensor" else 0.5,
        "lengths": lambda: t["lengths"],
        "sizes": lambda: [12],
        "self_sizes": lambda: [4, 3],
        "size": lambda: [2, 2],
        "stride": lambda: [3, 1],
        "end": lambda: 2,
        "accumulate": lambda: True,
        "sparse_grad": lambda: False,
    }
    if name == "_gather_sparse_backward" and argument.name == "grad":
        return t["y"]
    if argument.name == "index" and kind == "int":
        return 1
    if argument.name == "indices":
        return [t["r"]] if "List" in kind else None if base == "segment_reduce" else t["i"]
    if argument.name == "src":
        parts = {
            "select": t["y"][0],
            "diagonal": t["y"][0],
            "slice": t["y"][:2],
            "as_strided": t["y"][:2, :2],
        }
        return parts.get(base.removesuffix("_scatter"), t["y"])
    if argument.name == "reduce":
        kinds = {"scatter_reduce": "amax", "index_reduce": "prod", "segment_reduce": "max"}
        return kinds.get(base, "multiply")
    if argument.name in by_name:
        return by_name[argument.name]()
    assert argument.has_default_value(), (name, argument)
    return None


def _called(name: str, overload: str, schema: Any) -> Callable[[Tensors], Tensor]:
    operation = getattr(getattr(torch.ops.aten, name), overload)
    is_written = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
    has_gradient = not is_written and f"{name}.{overload}" not in _WITHOUT_GRADIENT

    def function(t: Tensors) -> Tensor:
        values, options = [], {}
        for argument in schema.arguments:
            value = _argument(name, argument, t)
            if isinstance(value, Tensor) and value.is_floating_point():
                value = value.to(t["x"].dtype)
            if argument.kwarg_only and value is not None:
                options[argument.name] = value
            elif not argument.kwarg_only and (value is not None or not argument.has_default_value()):
                values.append(value)
        with torch.set_grad_enabled(has_gradient):
            found: Tensor = operation(*values, **options)
        return found

    return function


def test_each_overload_of_the_families_is_traced_or_refused_with_a_sentence() -> None:
    traced: dict[str, Callable[[Tensors], Tensor]] = {}
    refused = set()
    for name, overload, schema in _schemas():
        if name in _REFUSED:
            refused.add(name)
        else:
            traced[f"{name} {overload}"] = _called(name, overload, schema)
    assert refused == set(_REFUSED)
    assert len(traced) > 70
    compare(traced, INPUTS)


def _reduced(reduce: str, *, include_self: bool) -> Callable[[Tensors], Tensor]:
    """Some of the sources are zero, some places get nothing, and some get several that are alike."""

    lines = 3 if include_self else 2

    def function(t: Tensors) -> Tensor:
        index, source = t["i"][:3, :lines], torch.where(t["m"] > 0, t["y"], 0.0)[:3, :lines]
        return t["x"].scatter_reduce(0, index, source, reduce, include_self=include_self)

    return function


def _rows_in_place(t: Tensors) -> Tensor:
    x = t["x"] * 1
    x.index_reduce_(0, t["r"], t["y"], "prod")
    return x.scatter_reduce_(1, t["i"][:, :2] % 3, t["y"][:, :2], "prod", include_self=False)


def _margin(t: Tensors) -> Tensor:
    """An angle that gets a margin at the true class, in place, as ArcFace has it."""
    cosines = t["x"].tanh()
    with torch.no_grad():
        angle = torch.acos(cosines.clamp(-0.999, 0.999))
        angle.scatter_(1, t["r"][:, None] % 3, 0.3, reduce="add")
        shift = angle.clamp(max=3.14).cos() - cosines
    return cosines + shift


REDUCTIONS: Cases = {
    **{
        f"{reduce} {include_self}": _reduced(reduce, include_self=include_self)
        for reduce in ("sum", "mean", "prod", "amax", "amin")
        for include_self in (True, False)
    },
    "margin": _margin,
    "in place": _rows_in_place,
    "amin of rows": lambda t: t["x"].index_reduce(0, t["r"], t["y"], "amin", include_self=False),
    "integers": lambda t: (t["x"] * 9).long().scatter_reduce(0, t["i"], (t["y"] * 9).long(), "amin"),
    "segments": lambda t: torch.segment_reduce(t["x"], "max", lengths=t["lengths"], initial=0.1),
    "segments by ends": lambda t: torch.segment_reduce(t["x"], "mean", offsets=t["ends"]),
    "product of segments": lambda t: torch.segment_reduce(t["x"], "prod", lengths=t["lengths"]),
    "fill": lambda t: torch.index_fill(t["x"], 0, t["r"], t["v"].sum()),
    "sparse gradient": lambda t: t["x"].gather(0, t["i"], sparse_grad=True),
    "counts": lambda t: t["x"].detach().histc(5, -1, 2) + t["x"].detach().histc(5),
}


# of segment_reduce about itself
@pytest.mark.filterwarnings("ignore:.*in beta.*:UserWarning", "ignore:The reduce argument:UserWarning")
def test_reductions_and_their_gradients() -> None:
    with Rewriting():
        compare(REDUCTIONS, INPUTS | {"ends": torch.tensor([0, 1, 3, 4])})


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda t: torch._masked_softmax(t["x"], t["m"] > 0), "masked_fill"),
        (lambda t: t["x"].masked_select(t["y"] > 0), "the number of elements that a mask selects"),
        (lambda t: torch.segment_reduce(t["x"], "sum", lengths=t["m"][:, :1], axis=1), "movedim"),
        (lambda t: t["r"].scatter_add(0, t["r"], t["r"]) * 1.0, "float32"),
    ],
    ids=["softmax", "select", "segments", "integers"],
)
def test_what_has_no_form_says_what_to_write(function: Callable[[Tensors], Tensor], part: str) -> None:
    with Rewriting(), pytest.raises(JobError) as caught:
        capture_program(lambda t: {"out": function(t)}, INPUTS)
    assert part in str(caught.value)
    assert "aten" not in str(caught.value)
