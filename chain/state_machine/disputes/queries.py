"""Answers about disputes."""

from collections.abc import Mapping
from types import MappingProxyType

from chain.state_machine.component import Answer
from chain.state_machine.disputes.tables import DISPUTES
from chain.state_machine.store import Overlay
from domain.disputes.queries import DisputesRequest, DisputesResponse


def _disputes(store: Overlay, request: DisputesRequest) -> DisputesResponse:
    return DisputesResponse(tuple(DISPUTES.scan(store, request.order_id)))


ANSWERS: Mapping[type, Answer] = MappingProxyType({DisputesRequest: _disputes})
