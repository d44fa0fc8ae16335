"""A repeat in a program: its form, what is refused of it, its work and memory, and what it is once written out."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from pol.errors import JobError
from pol.job.program import Node, Program, ProgramBuilder, make_program, parse_program, program_json
from pol.job.strict_json import JsonLimits, dump_json, parse_json
from pol.job.unroll import unroll
from pol.limits import LIMITS, MAX_NESTED, MAX_TURNS, Limits
from pol.ops.primitive import OpWork
from tests.support.bodies import counter, nested, recurrence
from tests.unit.pol.job.test_program import change

BOUNDS = JsonLimits(LIMITS.document_size, LIMITS.json_tokens, LIMITS.json_depth)


def program(body: Program, count: int = 4, *, reverse: bool = False) -> Program:
    builder = ProgramBuilder()
    operands = []
    for spec in body.inputs:
        front = (count,) if spec.name.startswith("sequence") else ()
        operands.append(builder.input(f"global.{spec.name}", spec.dtype, (*front, *spec.shape)))
    result = builder.node("repeat", *operands, body=body, count=count, reverse=reverse)
    builder.output("metric.loss", result)
    return builder.build()


def test_a_program_with_a_body_is_itself_again() -> None:
    told = program_json(program(recurrence(), reverse=True))
    data = dump_json(told)
    value = parse_json(data, BOUNDS, "a program")
    again = parse_program(value)
    assert dump_json(program_json(again)) == data
    assert again.nodes[0].attrs["body"].types == recurrence().types


BODY = ["nodes", 0, "attrs", "body"]
REFUSED: list[tuple[list[Any], Any, str]] = [
    (["nodes", 0, "attrs", "count"], 0, "nodes[0].attrs.count"),
    (["nodes", 0, "attrs", "count"], 10**9, "nodes[0].attrs.count"),
    (["nodes", 0, "attrs", "count"], 5, "nodes[0].args[1]"),
    (["nodes", 0, "attrs", "count"], "4", "nodes[0].attrs.count"),
    (["nodes", 0, "attrs", "reverse"], 1, "nodes[0].attrs.reverse"),
    (["nodes", 0, "attrs", "reverse"], KeyError, "nodes[0].attrs.reverse"),
    (["nodes", 0, "attrs", "turns"], 4, "nodes[0].attrs.turns"),
    (["nodes", 0, "args"], [0, 1], "nodes[0].args"),
    (["nodes", 0, "args"], [0, 1, 1], "nodes[0].args[2]"),
    (["nodes", 0, "args"], [0, 1, 2] * 400, "nodes[0].args"),
    (BODY, KeyError, "nodes[0].attrs.body"),
    (BODY, 7, "nodes[0].attrs.body"),
    (BODY, [], "nodes[0].attrs.body"),
    (BODY, {}, "nodes[0].attrs.body.inputs"),
    ([*BODY, "code"], "import os", "nodes[0].attrs.body.code"),
    ([*BODY, "inputs", 0, "name"], "state.0", "nodes[0].attrs.body.inputs[0].name"),
    ([*BODY, "inputs", 0, "name"], "carry.1", "nodes[0].attrs.body.inputs[0].name"),
    ([*BODY, "inputs", 1, "name"], "carry.1", "nodes[0].attrs.body.outputs"),
    ([*BODY, "inputs", 2, "name"], "sequence.0", "nodes[0].attrs.body.inputs"),
    ([*BODY, "inputs", 2, "name"], "carry.1", "nodes[0].attrs.body.inputs[2].name"),
    ([*BODY, "inputs", 0, "shape"], [3, 2], "nodes[0].attrs.body.nodes[0]"),
    ([*BODY, "nodes", 0, "op"], "pow", "nodes[0].attrs.body.nodes[0].op"),
    ([*BODY, "nodes", 0, "args"], [0, 9], "nodes[0].attrs.body.nodes[0].args[1]"),
    ([*BODY, "nodes", 2, "op"], "cast", "nodes[0].attrs.body.nodes[2].attrs.dtype"),
    ([*BODY, "outputs", "carry.0"], KeyError, "nodes[0].attrs.body.outputs"),
    ([*BODY, "outputs", "carry.1"], 3, "nodes[0].attrs.body.outputs"),
    ([*BODY, "outputs", "stacked.2"], 3, "nodes[0].attrs.body.outputs"),
    ([*BODY, "outputs", "metric.loss"], 3, "nodes[0].attrs.body.outputs"),
    ([*BODY, "outputs", "stacked.0"], 77, "nodes[0].attrs.body.outputs.stacked.0"),
]


@pytest.mark.parametrize(("path", "new", "field"), REFUSED)
def test_what_is_no_repeat_is_refused(path: list[Any], new: Any, field: str) -> None:
    told = copy.deepcopy(program_json(program(recurrence())))
    with pytest.raises(JobError) as caught:
        parse_program(change(told, path, new), field="step")
    assert caught.value.field.startswith(f"step.{field}")
    assert caught.value.remedy


def test_what_is_carried_keeps_its_type() -> None:
    body = ProgramBuilder()
    body.output("carry.0", body.node("cast", body.input("carry.0", "f32", (2,)), dtype="bool"))
    with pytest.raises(JobError, match=r"carry.0 is bool\[2\] after a turn, and f32\[2\] before it"):
        program(body.build())


def test_parts_have_one_dtype() -> None:
    body = ProgramBuilder()
    state = body.input("carry.0", "f32", ())
    body.output("carry.0", state)
    body.output("stacked.0", body.node("cast", state, dtype="i64"))
    with pytest.raises(JobError, match="the outputs have different dtypes: f32 and i64"):
        program(body.build())


def test_nothing_comes_of_nothing() -> None:
    body = ProgramBuilder()
    body.input("constant.0", "f32", ())
    with pytest.raises(JobError, match="the outputs must be 0 carried values"):
        program(body.build())


def test_so_many_repeats_are_within_one_another_and_no_more() -> None:
    within = (2,) * (MAX_NESTED - 1)
    assert program(nested(counter(), within)).nested == MAX_NESTED
    with pytest.raises(JobError, match="repeats are nested 5 deep, more than 4"):
        program(nested(counter(), (*within, 2)))


def test_the_document_is_deep_enough_and_no_deeper() -> None:
    data = dump_json({"step": program_json(program(nested(recurrence_of_one(), (2,) * (MAX_NESTED - 1))))})
    parse_json(data, BOUNDS, "job.json")
    with pytest.raises(JobError, match="nested deeper"):
        parse_json(data, replace(BOUNDS, depth=LIMITS.json_depth - 1), "job.json")


def recurrence_of_one() -> Program:
    """A body whose nodes have lists among their attributes."""
    body = ProgramBuilder()
    state = body.node("reshape", body.input("carry.0", "f32", ()), shape=[1])
    body.output("carry.0", body.node("reshape", state, shape=[]))
    return body.build()


def test_turns_count_where_nodes_are_counted() -> None:
    inner = nested(counter(), (MAX_TURNS,))
    assert program(inner, 2).unrolled_nodes == 1 + 2 * (2 + MAX_TURNS)
    with pytest.raises(JobError, match=r"with all repeats written out, there are .* more than 20000000"):
        program(inner, MAX_TURNS)
    with pytest.raises(JobError, match="more than 12"):
        parse_program(program_json(program(counter(), 12)), Limits(unrolled_nodes=12))


def test_limits_hold_for_bodies() -> None:
    told = program_json(program(recurrence()))
    with pytest.raises(JobError) as caught:
        parse_program(told, Limits(nodes=2), "step")
    assert caught.value.field == "step.nodes[0].attrs.body.nodes"


def test_work_grows_with_the_turns() -> None:
    """Turns are not for nothing, however little they do: what costs time costs its sender."""
    empty = counter(nodes=0)
    one, many = program(empty, 1).work, program(empty, 1_001).work
    assert many == one + OpWork(moved=2 * 4, calls=5).times(1_000)
    inner = program(nested(counter(), (30,)), 50).work.calls
    assert inner >= 30 * 50


def test_memory_does_not_grow_with_the_turns() -> None:
    body = recurrence((64, 64))
    parts = 64 * 64 * 4
    few, many = program(body, 50), program(body, 150)
    # a sequence (read, and perhaps copied) and a stack, which is an output as it is, with a copy and flags
    assert many.peak_size - few.peak_size == 100 * (2 * parts + 2 * parts + parts // 4)


def test_constants_of_a_body_are_there_from_the_beginning() -> None:
    body = ProgramBuilder()
    state = body.input("carry.0", "f32", (256,))
    body.output("carry.0", body.node("add", state, body.constant("f32", (256,), bytes(1_024))))
    made = body.build()
    assert program(made).constants_size == 1_024
    assert program(made).peak_size >= program(made).types[0].size + 1_024


def test_a_program_without_repeats_is_its_own_unrolling() -> None:
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (2,))
    builder.output("global.x", builder.node("neg", x))
    plain = builder.build()
    assert program_json(unroll(plain)) == program_json(plain)


def test_an_unrolling_has_no_repeats_and_as_many_turns() -> None:
    flat = unroll(program(recurrence(), 70))
    assert not flat.nested
    assert sum(node.op == "tanh" for node in flat.nodes) == 70
    twice = unroll(program(nested(counter(), (5,)), 3))
    assert sum(node.op == "neg" for node in twice.nodes) == 15


def test_an_unrolling_may_be_too_long() -> None:
    with pytest.raises(JobError, match="more than 20000"):
        unroll(program(counter(), 20_001))


def test_outer_may_repeat_nothing_that_may_fail() -> None:
    body = ProgramBuilder()
    table, index = body.input("constant.0", "f32", (3,)), body.input("constant.1", "i64", ())
    body.output("stacked.0", body.node("take", table, index))
    assert body.build().may_fail
    assert not counter().may_fail
    assert program(body.build()).may_fail


def test_a_text_is_no_body() -> None:
    told = program_json(program(counter()))
    text = json.dumps(told["nodes"])
    with pytest.raises(JobError):
        make_program([], [], [Node("repeat", (), {"body": text, "count": 1, "reverse": False})], {})
