"""``assay.*``: the queries of this chain's components, and its event log."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from chain.app.services.method import Answer, Call, Follow, Method, methods
from chain.state_machine.queries import answer
from domain.market.queries import SimulateMatchRequest
from domain.node.queries import EventsRequest, EventsResponse, StatusRequest, StatusResponse
from domain.queries import Query
from wire.canonical import parse
from wire.queries import METHODS as QUERY_METHODS
from wire.queries import STREAMS, QueryMethod

FOLLOW_SECONDS: Final = 30.0
"""Longest time (s) of a stream; then it ends, and the caller continues it with ``resume``."""
_TICK_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 10.0
"""Longest time (s) without a message in a stream. A message without events tells that the stream is alive."""


def _answer(request: Query[Any], call: Call) -> object:
    if isinstance(request, EventsRequest):
        return call.app.events(request)
    if isinstance(request, SimulateMatchRequest):
        return call.app.simulate_match(request)
    head = call.state.head
    response = answer(call.state.reader, request, call.app.rulebook)
    if isinstance(request, StatusRequest) and isinstance(response, StatusResponse):
        # The state cannot contain its own root, its block, or the kind of node.
        return replace(
            response,
            chain_id=call.app.chain_id,
            height=head.height,
            time_ns=head.time_ns,
            app_hash=head.app_hash,
            solo=call.app.solo,
        )
    return response


def _follow(request: EventsRequest, call: Call) -> Iterator[EventsResponse | None]:
    """Yield pages of events, the old ones first and then new ones as blocks come, without gaps.

    None comes at least once per second, so that the thread of a caller that is gone becomes free.
    """
    app = call.app
    ends = time.monotonic() + FOLLOW_SECONDS
    quiet_until = time.monotonic() + _QUIET_SECONDS
    while (now := time.monotonic()) < ends:
        height = app.view().head.height
        page = app.events(request)
        is_at_end = page.resume >= page.next
        if page.events or now >= quiet_until:
            yield page
            quiet_until = time.monotonic() + _QUIET_SECONDS
        request = replace(request, since=page.resume)
        if is_at_end:
            app.wait_for_block(height, min(quiet_until, ends, now + _TICK_SECONDS) - time.monotonic())
        yield None


def _row(method: QueryMethod) -> Answer:
    return lambda message, call: method.write_response(_answer(method.read_request(message), call))


def _stream(method: QueryMethod, follow: Follow) -> Answer:
    def pages(message: Any, call: Call) -> Iterator[Any]:
        request = method.read_request(message)  # outside the generator, so that a bad request is refused at once
        return (page and method.write_response(page) for page in follow(request, call))

    return pages


def _strictly(cls: Any, data: bytes) -> Any:
    """Read a request, and refuse unknown fields: a misspelt condition must not become a list of everything."""
    return parse(cls, data, "request")


_FOLLOWERS: Final = {"FollowEvents": _follow}


def _rows() -> Iterator[Method]:
    for method in QUERY_METHODS.values():
        yield from methods(method.service, {method.name: _row(method)}, parse=_strictly)
    for method in STREAMS.values():
        yield from methods(method.service, {method.name: _stream(method, _FOLLOWERS[method.name])}, parse=_strictly)


METHODS = tuple(_rows())
