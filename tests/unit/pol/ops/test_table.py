"""Shape rules, attribute bounds and work of the table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pol.errors import JobError
from pol.limits import MAX_DIMENSION, MAX_SITE, MAX_SUMMED
from pol.ops.elementwise import broadcast_shapes
from pol.ops.primitive import FLOPS_PER_BYTE, FLOPS_PER_CALL, OpWork, runs
from pol.ops.table import PRIMITIVES, infer
from pol.values import TensorType
from tests.support.bodies import recurrence


def f32(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def i64(*shape: int) -> TensorType:
    return TensorType("i64", shape)


def boolean(*shape: int) -> TensorType:
    return TensorType("bool", shape)


WINDOWS = {
    "bits": 15,
    "transposed": False,
    "starts": [1, 0, 4],
    "strides": [1, 2, 2],
    "counts": [2, 3, 3],
    "kernel": [1, 3, 2],
    "steps": [1, 1, -4],
}

REPEATED = {"body": recurrence((2,)), "count": 3, "reverse": True}

ACCEPTED = [
    ("repeat", [f32(2), f32(3, 2), f32(2)], REPEATED, f32(2 + 3 * 2)),
    ("add", [f32(3, 1), f32(4)], {}, f32(3, 4)),
    ("mul", [i64(2), i64()], {}, i64(2)),
    ("div", [f32(2), f32(2)], {}, f32(2)),
    ("lt", [f32(2, 1), f32(3)], {}, boolean(2, 3)),
    ("eq", [boolean(2), boolean(2)], {}, boolean(2)),
    ("logical_not", [boolean(2)], {}, boolean(2)),
    ("where", [boolean(2, 1), i64(3), i64()], {}, i64(2, 3)),
    ("cast", [f32(2)], {"dtype": "bool"}, boolean(2)),
    ("reshape", [f32(2, 3)], {"shape": [3, 1, 2]}, f32(3, 1, 2)),
    ("reshape", [f32(0, 3)], {"shape": [0]}, f32(0)),
    ("permute", [f32(2, 3, 4)], {"dims": [2, 0, 1]}, f32(4, 2, 3)),
    ("broadcast", [f32(2, 1)], {"shape": [5, 2, 3]}, f32(5, 2, 3)),
    ("slice", [f32(5, 4)], {"starts": [1, 0], "stops": [5, 4], "steps": [3, 1]}, f32(2, 4)),
    ("slice", [f32(5)], {"starts": [2], "stops": [2], "steps": [9]}, f32(0)),
    ("concat", [f32(2, 1), f32(2, 3)], {"dim": 1}, f32(2, 4)),
    ("pad", [i64(2)], {"low": [1], "high": [3], "value": "00" * 8}, i64(6)),
    ("take", [f32(5, 2), i64(3, 4)], {}, f32(3, 4, 2)),
    ("sum", [boolean(2, 3)], {"dims": [0], "keepdim": False}, i64(3)),
    ("sum", [f32(2, 3)], {"dims": [0, 1], "keepdim": True}, f32(1, 1)),
    ("amax", [f32(2, 3)], {"dims": [1], "keepdim": False}, f32(2)),
    ("argmax", [f32(2, 3)], {"dim": 0, "keepdim": True}, i64(1, 3)),
    ("floor_divide", [i64(2, 1), i64(3)], {}, i64(2, 3)),
    ("add_rows", [i64(3, 4), f32(3, 4, 2)], {"rows": 5}, f32(5, 2)),
    ("add_rows", [i64(), f32()], {"rows": 1}, f32(1)),
    ("argsort", [f32(2, 3)], {"dim": 1}, i64(2, 3)),
    ("matmul", [f32(6, 2, 3), f32(6, 3, 5)], {"bits": 15}, f32(6, 2, 5)),
    ("matmul", [f32(1, MAX_SUMMED), f32(MAX_SUMMED, 1)], {"bits": 15}, f32(1, 1)),
    ("matmul_windows", [f32(2, 5, 12), f32(4, 3, 7, 9)], WINDOWS, f32(2, 5, 18)),
    (
        "matmul_windows",
        [f32(2, 5, 18), f32(4, 3, 7, 9)],
        {**WINDOWS, "transposed": True},
        f32(2, 5, 12),
    ),
    ("iota", [], {"size": 7}, i64(7)),
    ("full", [], {"shape": [2], "dtype": "bool", "value": "01"}, boolean(2)),
    ("uniform", [i64()], {"shape": [2, 2], "site": MAX_SITE}, f32(2, 2)),
]

REFUSED = [
    ("pow", [f32(2)], {}, "op"),
    ("add", [f32(2)], {}, "args"),
    ("add", [f32(2), f32(2), f32(2)], {}, "args"),
    ("add", [f32(2), i64(2)], {}, "args[1]"),
    ("add", [boolean(2), boolean(2)], {}, "args[0]"),
    ("add", [f32(2), f32(3)], {}, "args"),
    ("add", [f32(2), f32(2)], {"alpha": 2}, "attrs.alpha"),
    ("div", [i64(2), i64(2)], {}, "args[0]"),
    ("exp", [i64(2)], {}, "args[0]"),
    ("lt", [f32(2), i64(2)], {}, "args[1]"),
    ("logical_and", [f32(2), f32(2)], {}, "args[0]"),
    ("where", [f32(2), f32(2), f32(2)], {}, "args[0]"),
    ("where", [boolean(2), f32(2), i64(2)], {}, "args[2]"),
    ("cast", [f32(2)], {"dtype": "f64"}, "attrs.dtype"),
    ("cast", [f32(2)], {"dtype": ["f32"]}, "attrs.dtype"),
    ("reshape", [f32(2, 3)], {}, "attrs.shape"),
    ("reshape", [f32(2, 3)], {"shape": [5]}, "attrs.shape"),
    ("reshape", [f32(2, 3)], {"shape": [-1, -6]}, "attrs.shape[0]"),
    ("reshape", [f32(2, 3)], {"shape": [6, True]}, "attrs.shape[1]"),
    ("reshape", [f32(2, 3)], {"shape": 6}, "attrs.shape"),
    ("reshape", [f32(1)], {"shape": [1] * 9}, "attrs.shape"),
    ("reshape", [f32(1)], {"shape": [2**40]}, "attrs.shape[0]"),
    ("permute", [f32(2, 3)], {"dims": [0, 0]}, "attrs.dims"),
    ("permute", [f32(2, 3)], {"dims": [0]}, "attrs.dims"),
    ("broadcast", [f32(2, 3)], {"shape": [3, 3]}, "attrs.shape"),
    ("broadcast", [f32(2, 3)], {"shape": [3]}, "attrs.shape"),
    ("slice", [f32(5)], {"starts": [1], "stops": [6], "steps": [1]}, "attrs.stops[0]"),
    ("slice", [f32(5)], {"starts": [3], "stops": [2], "steps": [1]}, "attrs.stops[0]"),
    ("slice", [f32(5)], {"starts": [0], "stops": [5], "steps": [0]}, "attrs.steps[0]"),
    ("slice", [f32(5)], {"starts": [], "stops": [5], "steps": [1]}, "attrs.starts"),
    ("concat", [], {"dim": 0}, "args"),
    ("concat", [f32(2)] * 65, {"dim": 0}, "args"),
    ("concat", [f32(2), f32(2)], {"dim": 1}, "attrs.dim"),
    ("concat", [f32(2, 3), f32(2, 4)], {"dim": 0}, "args[1]"),
    ("concat", [f32(2), i64(2)], {"dim": 0}, "args[1]"),
    ("concat", [f32(2), f32(2)], {"dim": True}, "attrs.dim"),
    ("concat", [f32(MAX_DIMENSION), f32(1)], {"dim": 0}, ""),
    ("pad", [f32(2)], {"low": [0], "high": [0, 0], "value": "00000000"}, "attrs.high"),
    ("pad", [f32(2)], {"low": [0], "high": [0], "value": "00"}, "attrs.value"),
    ("pad", [f32(2)], {"low": [0], "high": [0], "value": "0000000G"}, "attrs.value"),
    ("pad", [f32(2)], {"low": [-1], "high": [0], "value": "00000000"}, "attrs.low[0]"),
    ("take", [f32(5), f32(3)], {}, "args[1]"),
    ("take", [f32(), i64(3)], {}, "args[0]"),
    ("take", [f32(0, 2), i64(3)], {}, "args[0]"),
    ("take", [f32(*[1] * 5), i64(*[1] * 5)], {}, ""),
    ("sum", [f32(2, 3)], {"dims": [1, 0], "keepdim": False}, "attrs.dims"),
    ("sum", [f32(2, 3)], {"dims": [0, 0], "keepdim": False}, "attrs.dims"),
    ("sum", [f32(2, 3)], {"dims": [2], "keepdim": False}, "attrs.dims"),
    ("sum", [f32(2, 3)], {"dims": [-1], "keepdim": False}, "attrs.dims[0]"),
    ("sum", [f32(2, 3)], {"dims": [0], "keepdim": 0}, "attrs.keepdim"),
    ("sum", [f32(2, 3)], {"dims": [0]}, "attrs.keepdim"),
    ("amax", [f32(0, 3)], {"dims": [0], "keepdim": False}, "attrs.dims"),
    ("amax", [boolean(3)], {"dims": [0], "keepdim": False}, "args[0]"),
    ("argmax", [f32(0, 3)], {"dim": 0, "keepdim": False}, "attrs.dim"),
    ("argmax", [f32(3)], {"dim": 1, "keepdim": False}, "attrs.dim"),
    ("floor_divide", [f32(2), f32(2)], {}, "args[0]"),
    ("add_rows", [f32(3), f32(3)], {"rows": 5}, "args[0]"),
    ("add_rows", [i64(3), i64(3)], {"rows": 5}, "args[0]"),
    ("add_rows", [i64(3), f32(4)], {"rows": 5}, "args[1]"),
    ("add_rows", [i64(3), f32()], {"rows": 5}, "args[1]"),
    ("add_rows", [i64(3), f32(3)], {"rows": 0}, "attrs.rows"),
    ("argsort", [f32()], {"dim": 0}, "attrs.dim"),
    ("argsort", [boolean(3)], {"dim": 0}, "args[0]"),
    ("matmul", [f32(2, 3), f32(4, 2)], {"bits": 15}, "args"),
    ("matmul", [f32(2, 3), f32(3, 2)], {}, "attrs.bits"),
    *(
        ("matmul", [f32(2, 3), f32(3, 2)], {"bits": bits}, "attrs.bits")
        for bits in (7, 9, 16, 21, 29, -8, True, "8", 8.0)
    ),
    ("matmul", [f32(3), f32(3, 2)], {"bits": 15}, "args[0]"),
    ("matmul", [i64(2, 3), i64(3, 2)], {"bits": 15}, "args[0]"),
    ("matmul", [f32(2, 2, 3), f32(3, 3, 2)], {"bits": 15}, "args"),
    ("matmul", [f32(2, 2, 3), f32(3, 2)], {"bits": 15}, "args"),
    ("matmul", [f32(2, 0), f32(0, 2)], {"bits": 15}, "args"),
    ("matmul", [f32(1, MAX_SUMMED + 1), f32(MAX_SUMMED + 1, 1)], {"bits": 15}, "args"),
    *(
        ("matmul_windows", [f32(2, 5, 12), f32(4, 3, 7, 9)], {**WINDOWS, name: value}, field)
        for name, value, field in (
            ("starts", [0, 3, 3], "attrs.starts[1]"),
            ("starts", [0, 0, 1], "attrs.starts[2]"),
            ("counts", [2, 3, 4], "attrs.starts[2]"),
            ("counts", [2, 0, 3], "attrs.counts[1]"),
            ("kernel", [1, 2, 2], "args"),
            ("steps", [1, 4, -2], "attrs.starts[1]"),
            ("steps", [1, -1, -2], "attrs.starts[1]"),
            ("strides", [1, 0, 3], "attrs.strides[1]"),
            ("strides", [1, 2], "attrs.strides"),
            ("transposed", True, "args"),
            ("transposed", 1, "attrs.transposed"),
            ("bits", 16, "attrs.bits"),
        )
    ),
    ("matmul_windows", [f32(2, 5, 11), f32(4, 3, 7, 9)], WINDOWS, "args"),
    ("matmul_windows", [f32(5, 12), f32(4, 3, 7, 9)], WINDOWS, "args[0]"),
    ("matmul_windows", [f32(3, 5, 12), f32(4, 3, 7, 9)], WINDOWS, "args[1]"),
    ("matmul_windows", [f32(0, 5, 12), f32(0, 3, 7, 9)], WINDOWS, "args[1]"),
    ("matmul_windows", [i64(2, 5, 12), f32(4, 3, 7, 9)], WINDOWS, "args[0]"),
    ("matmul_windows", [f32(2, 5, 0), f32(0, 3, 7, 9)], WINDOWS, "args"),
    ("iota", [], {"size": -1}, "attrs.size"),
    ("iota", [], {"size": MAX_DIMENSION + 1}, "attrs.size"),
    ("full", [], {"shape": [2], "dtype": "bool", "value": "02"}, "attrs.value"),
    ("full", [], {"shape": [2], "dtype": "f32", "value": 0}, "attrs.value"),
    ("uniform", [i64(1)], {"shape": [2], "site": 0}, "args[0]"),
    ("uniform", [f32()], {"shape": [2], "site": 0}, "args[0]"),
    ("uniform", [i64()], {"shape": [2], "site": MAX_SITE + 1}, "attrs.site"),
]


@pytest.mark.parametrize(("op", "operands", "attrs", "result"), ACCEPTED)
def test_shape_rules(op: str, operands: list[TensorType], attrs: dict[str, object], result: TensorType) -> None:
    assert infer(op, operands, attrs)[1] == result


@pytest.mark.parametrize(("op", "operands", "attrs", "field"), REFUSED)
def test_refusals(op: str, operands: list[TensorType], attrs: dict[str, object], field: str) -> None:
    with pytest.raises(JobError) as caught:
        infer(op, operands, attrs)
    assert caught.value.field == field


def test_every_shape_rule_is_shown_here() -> None:
    shown = {PRIMITIVES[op].rule for op, *_ in ACCEPTED}
    assert shown == {row.rule for row in PRIMITIVES.values()}


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=3))
def test_broadcasting_is_numpys(shapes: list[list[int]]) -> None:
    try:
        expected: tuple[int, ...] | None = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        expected = None
    assert broadcast_shapes([tuple(shape) for shape in shapes]) == expected


def work(op: str, operands: list[TensorType], **attrs: object) -> OpWork:
    checked, result = infer(op, operands, attrs)
    return PRIMITIVES[op].work(operands, checked, result)


def test_work_is_products_elements_bytes_and_calls() -> None:
    assert OpWork(1, 20, 300, 2).flops == 21 + 300 * FLOPS_PER_BYTE + 2 * FLOPS_PER_CALL
    assert OpWork(1, 2, 3, 4) + OpWork(10, 20, 30, 40) == OpWork(11, 22, 33, 44)
    product = work("matmul", [f32(6, 2, 3), f32(6, 3, 5)], bits=15)
    assert product.products == 2 * 6 * 2 * 3 * 5
    assert work("matmul", [f32(6, 2, 3), f32(6, 3, 5)], bits=8) == product
    wide = work("matmul", [f32(6, 2, 3), f32(6, 3, 5)], bits=22)
    assert wide.products == 3 * product.products
    assert product.moved == 4 * (36 + 90 + 60)
    assert work("add", [f32(3), f32(3)]).moved == 4 * 9
    assert work("sum", [f32(10, 2)], dims=[0], keepdim=False).moved == 4 * 22
    assert work("take", [f32(1000, 2), i64(3)]).moved == 48
    assert work("take", [f32(1, 0), i64(1000)]).moved == 8 * 1000
    assert work("slice", [f32(1000)], starts=[0], stops=[10], steps=[1]).moved == 80
    assert work("permute", [f32(4, 5)], dims=[1, 0]).moved == 2 * 80
    turn = recurrence((2,)).work + OpWork(moved=2 * 8, calls=2 + 3 + 2 * 2)
    repeated = work("repeat", [f32(2), f32(3, 2), f32(2)], **REPEATED)
    assert repeated == turn.times(3) + OpWork(moved=2 * 4 * 8, calls=8)
    for view in (work("reshape", [f32(10)], shape=[5, 2]), work("broadcast", [f32()], shape=[9])):
        assert (view.products, view.elements, view.moved) == (0, 0, 0)


@pytest.mark.parametrize(("op", "operands", "attrs", "result"), ACCEPTED)
def test_no_node_is_free(op: str, operands: list[TensorType], attrs: dict[str, object], result: TensorType) -> None:
    assert work(op, operands, **attrs).flops >= FLOPS_PER_CALL


@pytest.mark.parametrize(
    ("shape", "kinds", "expected"),
    [
        ((), [[]], 1),
        ((7,), [["kept"]], 1),
        ((8, 5), ["aa", "bb"], 1),
        ((8, 5), ["ab"], 8),
        ((8, 5, 3), ["aab"], 40),
        ((8, 5, 3), ["abb", "aaa"], 8),
        # what has size 1 parts nothing
        ((8, 5, 1), ["aab"], 1),
        ((8, 1, 5), ["aba"], 1),
        ((1, 5), ["ab"], 1),
        ((0, 5), ["ab"], 0),
    ],
)
def test_runs_are_what_a_loop_does_not_take_in_one_go(shape: tuple[int, ...], kinds: list[str], expected: int) -> None:
    assert runs(shape, kinds) == expected
