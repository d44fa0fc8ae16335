"""All services of a node, as one table from gRPC path to handler, which gRPC and the ABCI query use."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chain.app.cosmos_services import (
    Handler,
    account_handlers,
    node_handlers,
    transaction_handlers,
)
from chain.app.interfaces import UNREACHABLE, Broadcaster, QueryPort
from chain.state_machine.queries import answer
from domain.errors import Refusal
from domain.market.queries import SimulateMatchRequest
from domain.node.queries import EventsRequest, StatusRequest, StatusResponse
from domain.queries import Query
from wire.queries import METHODS, QueryMethod, decode_request, encode_response


def route(app: QueryPort) -> Callable[[str, bytes], bytes | None]:
    """Return the function that answers ABCI queries from a gRPC path and the request's bytes.

    It returns the bytes of the response, or None for an unknown path.

    Transactions cannot be sent this way, because wallets broadcast over CometBFT's RPC.
    """
    table = build_table(app, None)

    def answer_path(path: str, data: bytes) -> bytes | None:
        handler = table.get(path)
        return None if handler is None else handler(data)

    return answer_path


def build_table(app: QueryPort, broadcaster: Broadcaster | None) -> dict[str, Handler]:
    """Return the handlers of all services by gRPC path. Without a broadcaster, no handler sends transactions."""
    table = {
        **account_handlers(app),
        **transaction_handlers(app, broadcaster),
        **node_handlers(app),
        **assay_handlers(app),
    }
    return {path: _if_started(app, handler) for path, handler in table.items()}


def _if_started(app: QueryPort, handler: Handler) -> Handler:
    """Return a handler that calls ``handler``, but raises a Refusal while the node waits for its first state."""

    def handle(data: bytes) -> bytes:
        if not app.chain_id:
            reason, remedy = "is not there yet: the node waits for CometBFT", "try again in a few seconds"
            raise Refusal(UNREACHABLE, "state", reason, remedy)
        return handler(data)

    return handle


# --- queries of this chain ----------------------------------------------------------------------


def assay_handlers(app: QueryPort) -> dict[str, Handler]:
    """Return the handlers of all queries of this chain, by path."""
    return {path: _handler(app, method) for path, method in METHODS.items()}


def _handler(app: QueryPort, method: QueryMethod) -> Handler:
    return lambda data: encode_response(method, _answer(app, decode_request(method, data)))


def _answer(app: QueryPort, request: Query[Any]) -> object:
    if isinstance(request, EventsRequest):
        return app.events(request.since, request.limit)
    if isinstance(request, SimulateMatchRequest):
        return app.simulate_match(request)
    view = app.view()
    response = answer(view.reader, request, app.rulebook)
    if isinstance(request, StatusRequest) and isinstance(response, StatusResponse):
        # The state cannot contain its own root, its block, or the kind of node.
        return replace(
            response,
            chain_id=app.chain_id,
            height=view.head.height,
            time_ns=view.head.time_ns,
            app_hash=view.head.app_hash,
            solo=app.solo,
        )
    return response
