"""Whatever bytes come to a service, it answers with a response or a Refusal, on every path."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chain.app.services.table import METHODS, Services
from domain.errors import Refusal
from tests.support.solo_node import ALICE, SoloNode, running

UNARY = [path for path, method in METHODS.items() if not method.is_stream]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoloNode]:
    with running(tmp_path_factory.mktemp("node")) as solo:
        solo.engine.make_block()
        yield solo


def fields(descriptor: Any) -> st.SearchStrategy[bytes]:
    """Return a strategy for bytes in which the fields of a message have values of the right wire type."""
    tags = [field.number << 3 | (0 if field.cpp_type < 9 else 2) for field in descriptor.fields] or [8]

    def encode(tag: int, number: int, data: bytes) -> bytes:
        return bytes((tag & 0x7F, number)) if tag & 7 == 0 else bytes((tag & 0x7F, len(data))) + data

    texts = st.binary(max_size=40) | st.sampled_from((ALICE.address.encode(), b"uassay", b"\x08\x05", bytes(32)))
    one = st.builds(encode, st.sampled_from(tags), st.integers(0, 127), texts)
    return st.lists(one, max_size=4).map(b"".join)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), path=st.sampled_from(UNARY), height=st.sampled_from([0, 0, 1, 2, 10**18]))
def test_random_requests_have_an_answer_or_a_refusal(
    node: SoloNode, data: st.DataObject, path: str, height: int
) -> None:
    services = Services(node.app, node.engine)
    raw = data.draw(st.binary(max_size=80) | fields(METHODS[path].request.DESCRIPTOR))
    with suppress(Refusal):
        answered = services.call(path, raw, height)
        assert METHODS[path].response.FromString(answered.data) is not None
