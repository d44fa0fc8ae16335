"""Answers about legs: the legs that a validator serves now."""

from collections.abc import Mapping
from types import MappingProxyType

from chain.state_machine.component import Answer
from chain.state_machine.context import HEAD, NS
from chain.state_machine.legs.tables import LEGS, LIVE_LEGS
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.legs.queries import LiveLegsRequest, LiveLegsResponse


def _duties(store: Overlay, request: LiveLegsRequest) -> LiveLegsResponse:
    name = request.validator
    legs = [LEGS.must(store, order_id, number_of(leg)) for _, order_id, leg in LIVE_LEGS.keys(store, name)]
    head = HEAD.must(store)
    return LiveLegsResponse(tuple(legs), head.clock_ns // NS, head.height)


ANSWERS: Mapping[type, Answer] = MappingProxyType({LiveLegsRequest: _duties})
