"""The HTTP application of the gateway: it turns JSON requests into calls of the node's gRPC services.

The gateway holds no state of the chain and trusts nothing that arrives: every size, number and time is bounded, and an
error is always ``{"code", "message", "details"}``, as in the Cosmos SDK.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from chain.app.rest.forms import read_body, read_parameters, to_json
from chain.app.rest.openapi import make_document
from chain.app.rest.routes import RestRoute, field_of, make_routes
from chain.app.services.table import METHODS
from domain.errors import Refusal

log = logging.getLogger(__name__)

HEIGHT_HEADER: Final = "x-cosmos-block-height"
BODY_BYTES_MAX: Final = 1 << 20  # larger than a transaction in base64, in a request for a simulation
ANSWER_BYTES_MAX: Final = 8 << 20
"""Largest answer of the node that the gateway turns into JSON."""
CALLS_MAX: Final = 4
"""Largest number of calls to the node at once: most of the node's threads stay free for clients over gRPC."""
CALL_SECONDS: Final = 10.0

_CHANNEL: Final = (
    ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
    ("grpc.enable_retries", 0),
)
_STATUS: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
}
"""HTTP statuses of gRPC statuses, as in grpc-gateway; all others are 500."""
_OF_HTTP: Final = {
    404: (501, grpc.StatusCode.UNIMPLEMENTED, "Not Implemented"),
    405: (501, grpc.StatusCode.UNIMPLEMENTED, "Method Not Allowed"),
}
_BUSY: Final = "the node is busy; try again in a few seconds"


class Gateway:
    """The gateway to the node at ``host:port``."""

    def __init__(self, node: str, origins: tuple[str, ...] = ("*",)) -> None:
        """Connect on the first call. Pages of the ``origins`` may use the gateway; "*" stands for all."""
        self._node = node
        self._channel: Any = None
        self._slots = asyncio.Semaphore(CALLS_MAX)
        routes = make_routes(METHODS.values())
        self._document = json.dumps(make_document(routes)).encode()
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=[HEIGHT_HEADER],
            max_age=600,
        )
        self.app = Starlette(
            routes=[
                Route("/openapi.json", self._openapi),
                *(Route(route.pattern, self._handler(route), methods=[route.verb]) for route in routes),
            ],
            middleware=[cors],
            exception_handlers={HTTPException: _of_http, Exception: _bug},
        )

    async def _openapi(self, _: Request) -> Response:
        return Response(self._document, media_type="application/json")

    def _handler(self, route: RestRoute) -> Callable[[Request], Awaitable[Response]]:
        method = route.method

        async def handle(request: Request) -> Response:
            message = method.request()
            try:
                if route.verb == "POST":
                    body = await _body(request)
                    if len(body) > BODY_BYTES_MAX:
                        text = f"the body is too large; send at most {BODY_BYTES_MAX} bytes"
                        return _error(grpc.StatusCode.RESOURCE_EXHAUSTED, text, 413)
                    read_body(body, message)
                    pairs = []
                else:
                    pairs = list(request.query_params.multi_items())
                pairs += [(field_of(name), str(text)) for name, text in request.path_params.items()]
                read_parameters(pairs, message)
            except Refusal as refusal:
                return _error(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))
            except ClientDisconnect:
                return Response(status_code=400)
            try:
                data, height = await self._call(method.path, message.SerializeToString(), request.headers)
            except grpc.aio.AioRpcError as error:
                return _error(error.code(), error.details() or "")
            except TimeoutError:
                return _error(grpc.StatusCode.UNAVAILABLE, _BUSY)
            try:
                answer = to_json(method.response.FromString(data))
            except ValueError as error:
                return _error(grpc.StatusCode.FAILED_PRECONDITION, f"the answer {error}; use gRPC")
            headers = {HEIGHT_HEADER: height, f"grpc-metadata-{HEIGHT_HEADER}": height}
            return Response(answer, media_type="application/json", headers=headers)

        return handle

    async def _call(self, path: str, data: bytes, headers: Headers) -> tuple[bytes, str]:
        """Return the response of the node, and the height of its state."""
        if self._channel is None:  # made here, because it belongs to the running loop
            self._channel = grpc.aio.insecure_channel(self._node, options=_CHANNEL)
        asked = headers.get(HEIGHT_HEADER, "")
        metadata = ((HEIGHT_HEADER, asked[:32]),) if asked else ()
        async with asyncio.timeout(CALL_SECONDS):
            await self._slots.acquire()
        try:
            call = self._channel.unary_unary(path)(data, timeout=CALL_SECONDS, metadata=metadata)
            response: bytes = await call
            initial = dict(await call.initial_metadata())
            return response, str(initial.get(HEIGHT_HEADER, "0"))
        finally:
            self._slots.release()


async def _body(request: Request) -> bytes:
    """Return the body of a request, or as much of it as shows that it is larger than BODY_BYTES_MAX."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        parts.append(part)
        if size > BODY_BYTES_MAX:
            break
    return b"".join(parts)


def _error(status: grpc.StatusCode, text: str, http: int = 0) -> Response:
    number: int = status.value[0]
    body = json.dumps({"code": number, "message": text, "details": []}, ensure_ascii=False)
    return Response(body.encode("utf-8", "replace"), http or _STATUS.get(status, 500), media_type="application/json")


async def _of_http(_: Request, error: Exception) -> Response:
    number = error.status_code if isinstance(error, HTTPException) else 500
    http, status, text = _OF_HTTP.get(number, (number, grpc.StatusCode.INVALID_ARGUMENT, "Bad Request"))
    return _error(status, text, http)


async def _bug(request: Request, error: Exception) -> Response:
    log.error("bug in %s", request.url.path, exc_info=error)
    return _error(grpc.StatusCode.INTERNAL, "internal error; the log of the gateway has the details")
