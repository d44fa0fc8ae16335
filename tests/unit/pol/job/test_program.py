"""Programs: numbering, types, caps, and JSON that names the field at fault."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.errors import JobError
from pol.job.program import Node, Program, ProgramBuilder, make_program, parse_program, program_json
from pol.limits import LIMITS, Limits
from pol.values import TensorSpec
from tests.unit.pol.mlp import step_program


def small() -> Program:
    builder = ProgramBuilder()
    half = builder.constant("f32", (), np.array(0.5, "<f4").tobytes())
    x = builder.input("global.x", "f32", (4, 3))
    builder.node("exp", x)  # nobody needs it
    y = builder.node("mul", x, half)
    builder.output("metric.sum", builder.node("sum", y, dims=[0, 1], keepdim=False))
    builder.output("global.x", y)
    return builder.build()


def described() -> Any:
    return copy.deepcopy(program_json(small()))


def test_builder_numbers_inputs_constants_nodes() -> None:
    program = small()
    assert [spec.name for spec in program.inputs] == ["global.x"]
    assert [node.op for node in program.nodes] == ["mul", "sum"]
    assert program.nodes[0].args == (0, 1)
    assert dict(program.outputs) == {"global.x": 2, "metric.sum": 3}
    assert list(program.outputs) == ["global.x", "metric.sum"]
    assert [str(value) for value in program.types] == ["f32[4,3]", "f32[]", "f32[4,3]", "f32[]"]


def test_builder_refuses_at_once() -> None:
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (4, 3))
    with pytest.raises(JobError) as caught:
        builder.node("sum", x, dims=[2], keepdim=False)
    assert caught.value.field == "nodes[0].attrs.dims"


@pytest.mark.parametrize("program", [small(), step_program()])
def test_json_round_trip(program: Program) -> None:
    again = parse_program(program_json(program))
    assert program_json(again) == program_json(program)
    assert again.types == program.types
    assert again.work == program.work


def test_work_is_the_sum_over_nodes() -> None:
    work = step_program(batch=32).work
    forward = 2 * 32 * (64 * 128 + 128 * 10)
    backward = 2 * 32 * (64 * 128 + 2 * 128 * 10)  # no gradient by the samples
    assert work.products == forward + backward
    assert work.elements > 0
    assert work.moved > 0


def test_peak_counts_what_a_product_needs_beside_its_values() -> None:
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (64, 64))
    builder.output("global.y", builder.node("matmul", x, x, bits=15))
    # the input and a copy, the result, FP64 of operands and result, and what is known of 128 rows and columns
    assert builder.build().peak_size == 64 * 64 * (3 * 4 + 3 * 8) + 128 * 64


def test_peak_counts_what_is_alive() -> None:
    # an input, of which there may be a copy; then what a sum needs beside them
    assert small().peak_size == 2 * 48 + 4 + 48 + 4 + 8 * 12
    assert small().last_uses == ((), ())


def change(value: Any, path: list[str | int], new: object) -> Any:
    target = value
    for key in path[:-1]:
        target = target[key]
    if new is KeyError:
        del target[path[-1]]
    else:
        target[path[-1]] = new
    return value


@pytest.mark.parametrize(
    ("path", "new", "field"),
    [
        (["nodes"], KeyError, "step.nodes"),
        (["more"], 1, "step.more"),
        (["inputs"], 5, "step.inputs"),
        (["inputs", 0, "name"], "", "step.inputs[0].name"),
        (["inputs", 0, "name"], "global..x", "step.inputs[0].name"),
        (["inputs", 0, "name"], "../x", "step.inputs[0].name"),
        (["inputs", 0, "name"], "é", "step.inputs[0].name"),
        (["inputs", 0, "dtype"], "f64", "step.inputs[0].dtype"),
        (["inputs", 0, "shape"], [4, -3], "step.inputs[0].shape[1]"),
        (["inputs", 0, "shape"], [2**31], "step.inputs[0].shape[0]"),
        (["inputs", 0, "shape"], [2**20, 2**20], "step.inputs[0].shape"),
        (["inputs", 0, "shape"], [1] * 9, "step.inputs[0].shape"),
        (["inputs", 0, "kind"], 1, "step.inputs[0].kind"),
        (["constants", 0, "data"], "0000003", "step.constants[0].data"),
        (["constants", 0, "data"], "0000003F", "step.constants[0].data"),
        (["constants", 0, "data"], "00", "step.constants[0].data"),
        (["constants", 0, "dtype"], "bool", "step.constants[0].data"),
        (["constants", 0, "data"], "00" * (2**20 + 1), "step.constants[0].data"),
        (["nodes", 1, "op"], "pow", "step.nodes[1].op"),
        (["nodes", 1, "op"], 5, "step.nodes[1].op"),
        (["nodes", 1, "args"], [], "step.nodes[1].args"),
        (["nodes", 1, "args"], [3], "step.nodes[1].args[0]"),
        (["nodes", 1, "args"], [-1], "step.nodes[1].args[0]"),
        (["nodes", 1, "args"], [True], "step.nodes[1].args[0]"),
        (["nodes", 1, "args"], [0] * 65, "step.nodes[1].args"),
        (["nodes", 1, "attrs", "dims"], [0, 9], "step.nodes[1].attrs.dims[1]"),
        (["nodes", 1, "attrs", "dims"], [1, 0], "step.nodes[1].attrs.dims"),
        (["nodes", 1, "attrs", "axis"], 1, "step.nodes[1].attrs.axis"),
        (["nodes", 1, "attrs", "keepdim"], KeyError, "step.nodes[1].attrs.keepdim"),
        (["nodes", 1, "attrs"], [], "step.nodes[1].attrs"),
        (["nodes", 1, "code"], "import os", "step.nodes[1].code"),
        (["outputs"], [], "step.outputs"),
        (["outputs", "metric.sum"], 4, "step.outputs.metric.sum"),
        (["outputs", "metric.sum"], "3", "step.outputs.metric.sum"),
        (["outputs", "a b"], 3, "step.outputs.a b"),
    ],
)
def test_refusals_name_the_field(path: list[str | int], new: object, field: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_program(change(described(), path, new), LIMITS, "step")
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


def test_two_inputs_of_one_name() -> None:
    spec = TensorSpec("global.x", "f32", ())
    with pytest.raises(JobError) as caught:
        make_program([spec, spec], [], [], {})
    assert caught.value.field == "inputs"


@pytest.mark.parametrize("number", [-1, 1, 2])
def test_operands_and_outputs_exist_already(number: int) -> None:
    spec = TensorSpec("global.x", "f32", ())
    with pytest.raises(JobError) as caught:
        make_program([spec], [], [Node("neg", (number,), {})], {})
    assert caught.value.field == "nodes[0].args[0]"
    with pytest.raises(JobError) as caught:
        make_program([spec], [], [], {"global.x": number})
    assert caught.value.field == "outputs.global.x"


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        (Limits(nodes=1), "step.nodes"),
        (Limits(inputs=0), "step.inputs"),
        (Limits(constants_size=3), "step.constants[0].data"),
        (Limits(value_elements=11), "step.inputs[0].shape"),
        (Limits(live_size=103), "step.nodes"),
    ],
)
def test_caps(limits: Limits, field: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_program(described(), limits, "step")
    assert caught.value.field == field


def test_sizes_are_refused_before_anything_is_allocated() -> None:
    """A program of a few bytes cannot ask for memory: every cap is an integer comparison."""
    builder = ProgramBuilder()
    value = builder.node("full", shape=[1], dtype="f32", value="00000000")
    for _ in range(4):
        value = builder.node("broadcast", value, shape=[2**14, 2**14])
        value = builder.node("reshape", value, shape=[1, 2**28])
        value = builder.node("slice", value, starts=[0, 0], stops=[1, 1], steps=[1, 1])
    builder.output("global.x", builder.node("broadcast", value, shape=[2**16, 2**16]))
    with pytest.raises(JobError) as caught:
        builder.build()
    assert caught.value.field == f"nodes[{1 + 4 * 3}]"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_change_is_refused_as_a_job_error_or_still_a_program(data: st.DataObject) -> None:
    value = described()
    paths: list[list[str | int]] = []

    def collect(part: Any, path: list[str | int]) -> None:
        items = part.items() if isinstance(part, dict) else enumerate(part)
        for key, inner in items:
            paths.append([*path, key])
            if isinstance(inner, dict | list):
                collect(inner, [*path, key])

    collect(value, [])
    new: object = data.draw(
        st.sampled_from([KeyError, None, -1, 2**70, True, "", "f32", [], {}, [0], [[]], [-1], 1.5, "add"])
    )
    path = data.draw(st.sampled_from(paths))
    if new is KeyError and isinstance(path[-1], int):
        new = None
    try:
        program = parse_program(change(value, path, new))
    except JobError as error:
        field = error.field
    else:
        assert len(program.types) == program.first_node + len(program.nodes)
        field = "program"
    assert field.startswith("program")
