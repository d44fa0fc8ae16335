"""Operators of rivals apply to a cluster. As members they would be parties, and nobody could audit its orders."""

from pathlib import Path

from chain.state_machine.registry.tables import CLUSTERS
from chain.state_machine.store import Overlay
from domain.registry.messages import MsgAdmitProvider, MsgRegisterProvider
from tests.support.chain_market import Market
from validator.daemon import ValidatorConfig
from validator.decide.admission import Admission, Policy


def admit_applicants(market: Market, admission: Admission, *applicants: str) -> list[str]:
    """Let validator v0 admit those applicants that its daemon would, and return them."""
    market.chain.ok(*(MsgRegisterProvider(name, "v0") for name in applicants))
    admitted = [name for name in applicants if not admission.problem(name)]
    if admitted:
        market.chain.ok(*(MsgAdmitProvider("v0", name) for name in admitted))
    return admitted


def test_a_rivals_operator_is_not_admitted_by_any_setting() -> None:
    market = Market()
    rivals = market.validators[1:]
    admission = Admission(Policy.OPEN, dict.fromkeys(rivals, True), frozenset(rivals))
    assert admit_applicants(market, admission, *rivals) == []
    assert not any(CLUSTERS.has(Overlay(market.chain.store), "v0", name) for name in rivals)
    order_id = market.submit()
    assert market.leg(order_id).validator == "v0", "rivals that are no parties leave strangers to audit the order"


def test_a_daemon_admits_by_invitation_unless_its_operator_says_open() -> None:
    market = Market()
    config = ValidatorConfig(Path(), "127.0.0.1:1", "127.0.0.1:0", "here:1")
    admission = Admission(config.admit, {"v1p0": True}, frozenset(market.validators[1:]))
    assert admit_applicants(market, admission, "v1p0", "v1p1") == ["v1p0"]
