"""JSON of strangers: tokens are counted before anything is made of them."""

import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.foreign_json import count_tokens, read_json

VALUES = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.none(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=12,
)


def values_in(value: Any) -> int:
    """Count the values that a parser makes, keys included."""
    if isinstance(value, list):
        return 1 + sum(map(values_in, value))
    if isinstance(value, dict):
        return 1 + sum(1 + values_in(part) for part in value.values())
    return 1


@given(VALUES)
def test_there_are_no_more_values_than_tokens_and_one(value: Any) -> None:
    data = json.dumps(value).encode()
    assert values_in(value) <= count_tokens(data) + 1
    assert read_json(data, count_tokens(data)) == value


def test_too_many_tokens_are_refused_at_once() -> None:
    data = b"[" + b"[]," * 5_000_000 + b"0]"
    tracemalloc.start()
    before = time.process_time()
    try:
        with pytest.raises(ValueError, match="has 10000001 brackets, commas and colons, more than 10000000"):
            read_json(data, 10_000_000)
        assert time.process_time() - before < 1
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"{", b"", b"\xff"])
def test_what_is_too_deep_or_not_json_is_one_kind_of_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_json(data, 10**6)
