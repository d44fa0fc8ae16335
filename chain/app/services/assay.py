"""Our own query services: ``assay.registry.v1.Query`` and ``assay.market.v1.Query``."""

from dataclasses import replace
from typing import Any

from chain.app.interfaces import QueryPort
from chain.app.services.call import Handler
from chain.state_machine.queries import answer
from domain.queries import (
    EventsRequest,
    Query,
    SimulateMatchRequest,
    StatusRequest,
    StatusResponse,
)
from wire.queries import METHODS, QueryMethod, decode_request, encode_response


def handlers(app: QueryPort) -> dict[str, Handler]:
    """Return path -> handler of all our queries."""
    return {path: _handler(app, method) for path, method in METHODS.items()}


def _handler(app: QueryPort, method: QueryMethod) -> Handler:
    return lambda data: encode_response(method, _answer(app, decode_request(method, data)))


def _answer(app: QueryPort, request: Query[Any]) -> object:
    if isinstance(request, EventsRequest):
        return app.events(request.since, request.limit)
    if isinstance(request, SimulateMatchRequest):
        return app.simulate_match(request)
    view = app.view()
    response = answer(view.reader, request)
    if isinstance(request, StatusRequest) and isinstance(response, StatusResponse):
        # The state cannot hold its own root, nor who runs it.
        return replace(
            response,
            chain_id=app.chain_id,
            height=view.head.height,
            time_ns=view.head.time_ns,
            app_hash=view.head.app_hash,
            solo=app.solo,
        )
    return response
