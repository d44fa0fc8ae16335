"""Handlers of messages, one file each, always in the same rhythm.

``check_stateless`` looks at the message alone: at the bounds of its fields (:mod:`domain.bounds`), and then at what the
handler has to say about several fields together, if anything. ``check_state`` looks at the message and the state, and
returns what it found; ``apply`` changes the state and emits events, and cannot refuse. A stateless check also runs
before a transaction enters the mempool; it must therefore not depend on anything that may change until the block.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any

from chain.state_machine.ledger.handlers import deposit_bond, send, withdraw_bond
from chain.state_machine.market.handlers import (
    accept_order,
    cancel_order,
    change_bid,
    decline_order,
    place_bid,
    stop_order,
    submit_order,
    withdraw_bid,
)
from chain.state_machine.proof.handlers import (
    answer_audit,
    close_round,
    commit_traces,
    object_report,
    prove,
    report_provider,
)
from chain.state_machine.registry.handlers import (
    certify_provider,
    leave_cluster,
    register_provider,
    set_endpoint,
)
from domain import messages as m
from domain.bounds import check


@dataclass(frozen=True, slots=True)
class Handler:
    """The three steps of a message, and its type url for events."""

    action: str
    check_stateless: Callable[[Any], None]
    check_state: Callable[[Any, Any], Any]
    apply: Callable[[Any, Any, Any], None]


def _handler(action: str, module: ModuleType) -> Handler:
    return Handler(action, _stateless(module), module.check_state, module.apply)


def _stateless(module: ModuleType) -> Callable[[Any], None]:
    """Return the check of a message alone: whoever built it, it is within its bounds before a handler looks at it."""
    check_fields: Callable[[Any], None] | None = getattr(module, "check_stateless", None)
    if check_fields is None:
        return check

    def check_stateless(message: Any) -> None:
        check(message)
        check_fields(message)

    return check_stateless


HANDLERS: Mapping[type, Handler] = MappingProxyType(
    {
        m.MsgSend: _handler("/cosmos.bank.v1beta1.MsgSend", send),
        m.MsgSetEndpoint: _handler("/assay.registry.v1.MsgSetEndpoint", set_endpoint),
        m.MsgRegisterProvider: _handler(
            "/assay.registry.v1.MsgRegisterProvider", register_provider
        ),
        m.MsgLeaveCluster: _handler("/assay.registry.v1.MsgLeaveCluster", leave_cluster),
        m.MsgCertifyProvider: _handler("/assay.registry.v1.MsgCertifyProvider", certify_provider),
        m.MsgDepositBond: _handler("/assay.registry.v1.MsgDepositBond", deposit_bond),
        m.MsgWithdrawBond: _handler("/assay.registry.v1.MsgWithdrawBond", withdraw_bond),
        m.MsgPlaceBid: _handler("/assay.market.v1.MsgPlaceBid", place_bid),
        m.MsgChangeBid: _handler("/assay.market.v1.MsgChangeBid", change_bid),
        m.MsgWithdrawBid: _handler("/assay.market.v1.MsgWithdrawBid", withdraw_bid),
        m.MsgSubmitOrder: _handler("/assay.market.v1.MsgSubmitOrder", submit_order),
        m.MsgCancelOrder: _handler("/assay.market.v1.MsgCancelOrder", cancel_order),
        m.MsgAcceptOrder: _handler("/assay.market.v1.MsgAcceptOrder", accept_order),
        m.MsgDeclineOrder: _handler("/assay.market.v1.MsgDeclineOrder", decline_order),
        m.MsgStopOrder: _handler("/assay.market.v1.MsgStopOrder", stop_order),
        m.MsgCommitTraces: _handler("/assay.pol.v1.MsgCommitTraces", commit_traces),
        m.MsgReportProvider: _handler("/assay.pol.v1.MsgReportProvider", report_provider),
        m.MsgObjectReport: _handler("/assay.pol.v1.MsgObjectReport", object_report),
        m.MsgCloseRound: _handler("/assay.pol.v1.MsgCloseRound", close_round),
        m.MsgProve: _handler("/assay.pol.v1.MsgProve", prove),
        m.MsgAnswerAudit: _handler("/assay.pol.v1.MsgAnswerAudit", answer_audit),
    }
)
