"""Canonical JSON: one value, one encoding, no floats."""

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pol.errors import JobError, StateError
from pol.job.document import parse_job
from pol.job.strict_json import JsonLimits, dump_json, parse_json, read_part
from pol.limits import LIMITS
from pol.values import TensorSpec

VALUES = st.recursive(
    st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.booleans(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=12,
)


def parse(data: bytes, size: int = 1000, tokens: int = 10**6, depth: int = 8) -> object:
    return parse_json(data, JsonLimits(size, tokens, depth), "job.json")


@given(VALUES)
def test_round_trip(value: object) -> None:
    data = dump_json(value)
    parsed = parse(data, size=10**6, depth=50)
    assert parsed == value
    assert dump_json(parsed) == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"a":1.0}', "the float 1.0"),
        (b'{"a":1e5}', "the float 1e5"),
        (b'{"a":NaN}', "the float NaN"),
        (b'{"a":-Infinity}', "the float -Infinity"),
        (b'{"a":9223372036854775808}', "too large"),
        (b'{"a":' + b"9" * 5000 + b"}", "too large"),
        (b'{"a":1,"a":1}', "'a' occurs twice"),
        (b'{"b":1,"a":1}', "canonical"),
        (b'{"a": 1}', "canonical"),
        (b'{"a":1}\n', "canonical"),
        (b'{"a":"\\u0062"}', "canonical"),
        (b'{"a":-0}', "canonical"),
        ('{"a":"é"}'.encode(), "not JSON in ASCII"),
        (b"\xef\xbb\xbf{}", "not JSON in ASCII"),
        (b'{"a":"' + b"x" * 1000 + b'"}', "more than 1000"),
        (b"[" * 9 + b"]" * 9, "deeper than 8"),
        (b'{"a":' * 500, "deeper than 8"),
        (b"]" * 500, "not JSON"),
    ],
)
def test_refusals(data: bytes, reason: str) -> None:
    with pytest.raises(JobError) as caught:
        parse(data, size=1000 if len(data) < 2000 else 10**6)
    assert caught.value.field == "job.json"
    assert reason in caught.value.reason


def test_depth_is_not_fooled_by_strings() -> None:
    assert parse(b'"[[[[[[[[[[[["') == "[[[[[[[[[[[["
    assert parse(b'["\\"[[[[[[[[[[[[",[]]') == ['"[[[[[[[[[[[[', []]
    with pytest.raises(JobError, match="deeper"):
        parse(b'["\\\\",' + b"[" * 8 + b"]" * 9)


def test_a_part_that_does_not_fit_is_named() -> None:
    whole = {"name": "a", "dtype": "f32", "shape": [1]}
    assert read_part(TensorSpec, whole, "step") == TensorSpec("a", "f32", (1,))
    with pytest.raises(JobError) as caught:
        read_part(TensorSpec, {**whole, "shape": [1, 2**31]}, "step")
    assert caught.value.field == "step.shape[1]"
    assert caught.value.remedy


@pytest.mark.parametrize(
    "data",
    [
        b'"' + b'\\"' * 400_000,  # a string that is never closed, with a start at every character
        b'["' + b"\\\\" * 400_000,
        ("{" + ",".join(f'"{i:06d}":1' for i in range(100_000)) + ',"099999":1}').encode(),
        b'"' + b"a" * 2_000_000,
        b'"' * 16_000_000,
    ],
    ids=["escapes", "backslashes", "duplicate", "long", "quotes"],
)
def test_hostile_bytes_take_linear_time(data: bytes) -> None:
    before = time.process_time()
    with pytest.raises(JobError):
        parse(data, size=len(data))
    assert time.process_time() - before < 3  # quadratic: minutes to days


FULL = LIMITS.document_size
"""Bytes of the largest document that a default installation reads."""


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"[]," * ((FULL - 5) // 3) + b"0]",
        b"[" + b"{}," * ((FULL - 5) // 3) + b"0]",
        b"[" + b"0," * ((FULL - 4) // 2) + b"0]",
        b"[" + b'"",' * ((FULL - 5) // 3) + b"0]",
        b'{"":' + b'"",' * ((FULL - 9) // 3),
        b"]" * FULL,
    ],
    ids=["lists", "objects", "numbers", "strings", "pairs", "closing"],
)
def test_a_large_document_of_small_values_is_refused_at_once(data: bytes) -> None:
    """16 MiB of empty lists took 15 seconds and 577 MB to be read before they were refused."""
    assert len(data) <= FULL
    tracemalloc.start()
    before = time.process_time()
    try:
        with pytest.raises(JobError) as caught:
            parse_job(data)
        assert time.process_time() - before < 1
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert f"more than {LIMITS.json_tokens}" in caught.value.reason or "not JSON" in caught.value.reason


def test_the_limit_on_tokens_is_exact() -> None:
    data = dump_json([[], {}, "a,b", {"a": 1}])
    assert parse(data, tokens=9)
    with pytest.raises(JobError, match="has 9 brackets, commas and colons, more than 8"):
        parse(data, tokens=8)


def test_a_long_string_needs_little_memory() -> None:
    tracemalloc.start()
    try:
        parse(b'"' + b"a" * 1_000_000 + b'"', size=2_000_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["\ud800", "\x1b[31m", "a\nb", "\u202e", "\x00"])
def test_errors_hold_nothing_that_a_terminal_or_a_message_cannot(name: str) -> None:
    with pytest.raises(JobError) as caught:
        read_part(TensorSpec, {name: 1}, "step")
    assert str(caught.value).isprintable()
    str(caught.value).encode()
    assert str(StateError(name, name)).isprintable()
