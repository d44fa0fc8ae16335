"""A cluster without a token is told from one that asks for it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from pol.work.cluster.stranger import CLOSED, OPEN, ask_as_stranger

Answer = Callable[[bytes, Any], bytes]


@contextmanager
def head(answer: Answer) -> Iterator[str]:
    """Serve the one question of a stranger."""
    handlers: dict[str, Any] = {"GetClusterId": grpc.unary_unary_rpc_method_handler(answer)}
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("ray.rpc.NodeInfoGcsService", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def refuse(_request: bytes, context: Any) -> bytes:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "InvalidAuthToken")
    return b""


@pytest.mark.parametrize(("answer", "status"), [(lambda _request, _context: b"id", OPEN), (refuse, CLOSED)])
def test_the_status_says_whether_a_token_is_asked_for(answer: Answer, status: str) -> None:
    with head(answer) as address:
        assert ask_as_stranger(address) == status


def test_a_head_that_is_not_there_is_neither() -> None:
    assert ask_as_stranger("127.0.0.1:1") == "UNAVAILABLE"
