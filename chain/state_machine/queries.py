"""Answers to queries: pure functions of a state. Lists are in key order and cut at a limit."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from chain.state_machine.context import HEAD, NEXT_EVENT, NS, PARAMS
from chain.state_machine.ledger import queries as ledger
from chain.state_machine.market import queries as market
from chain.state_machine.proof import queries as proof
from chain.state_machine.registry import queries as registry
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.tables import R
from domain import queries as q
from domain.bounds import check
from domain.errors import UNKNOWN_REQUEST, Refusal


def answer(reader: Reader, request: q.Query[R]) -> R:
    """Answer a request of ``domain.queries`` (all but events, which lie beside the state).

    A Refusal names what is not there, or the path of a field that is out of its bounds.
    """
    found = ANSWERS.get(type(request))
    if found is None:
        name = type(request).__name__
        raise Refusal(UNKNOWN_REQUEST, "request", f"{name} is not answered here", "ask the node")
    check(request)
    response: R = found(Overlay(reader), request)
    return response


def _status(store: Overlay, _: q.StatusRequest) -> q.StatusResponse:
    """App hash and mode are the node's to fill in."""
    head = HEAD.must(store)
    return q.StatusResponse(
        chain_id=head.chain_id,
        height=head.height,
        time_ns=head.time_ns,
        clock=head.clock_ns // NS,
        next_event=NEXT_EVENT.get(store),
        app_hash=b"",
        solo=False,
    )


def _params(store: Overlay, _: q.ParamsRequest) -> q.ParamsResponse:
    return q.ParamsResponse(PARAMS.must(store))


ANSWERS: Mapping[type, Callable[[Overlay, Any], Any]] = MappingProxyType(
    {
        q.StatusRequest: _status,
        q.ParamsRequest: _params,
        **ledger.ANSWERS,
        **registry.ANSWERS,
        **market.ANSWERS,
        **proof.ANSWERS,
    }
)
