"""Answers about what validators owe."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from chain.state_machine.context import HEAD, NS
from chain.state_machine.market.tables import ASSIGNMENTS, LIVE_ASSIGNMENTS
from chain.state_machine.proof.tables import AUDITS, DUTIES
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain import queries as q


def _duties(store: Overlay, request: q.DutiesRequest) -> q.DutiesResponse:
    name = request.validator
    assignments = [
        ASSIGNMENTS.must(store, order_id, number_of(attempt))
        for _, order_id, attempt in LIVE_ASSIGNMENTS.keys(store, name)
    ]
    audits = []
    for _, order_id, attempt, round in DUTIES.keys(store, name):
        audit = AUDITS.must(store, order_id, number_of(attempt), number_of(round))
        audits.append(
            q.AuditDuty(audit.order_id, audit.attempt, audit.round, audit.places, audit.draw_ends)
        )
    head = HEAD.must(store)
    return q.DutiesResponse(tuple(assignments), tuple(audits), head.clock_ns // NS, head.height)


ANSWERS: Mapping[type, Callable[[Overlay, Any], Any]] = MappingProxyType({q.DutiesRequest: _duties})
