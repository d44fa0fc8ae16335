"""A validator trains rightly and hands over noise that its panel does not draw, but the consumer proves it."""

from dataclasses import replace

from domain.ledger.queries import AccountRequest, AccountResponse
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import local_params
from link.handover import Sealed
from localnet.simulator.training import noise
from pol.rules.handover import HandoverId
from tests.support.chain_harness import COINS
from tests.support.chain_market import CONSUMER
from tests.support.handed_over import HandoverMarket, order_with_key


def all_noise(_: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
    return [noise(chunk) for chunk in sealed]


def played(*, complains: bool) -> tuple[HandoverMarket, bytes]:
    """Return a market in which a round-by-round right order was handed over as noise, and is over."""
    market = HandoverMarket(local_params())
    market.looks = False
    market.spoil = all_noise
    order_id = market.run(order_with_key())
    for round in range(2):
        market.train_round(order_id)
        market.answer_all(order_id, round)
    market.chain.pass_time(market.order(order_id).window + 2)
    if complains:
        market.chain.ok(market.complaint(order_id, 1, 4))
    market.pass_handover(order_id)
    assert market.order(order_id).state is OrderState.CLOSED
    return market, order_id


def wealth(market: HandoverMarket, name: str) -> int:
    """Return the money (uassay) in an account and in its bond account."""
    account: AccountResponse = market.chain.ask(AccountRequest(name))
    return market.chain.worth(name) + account.bond.free


def test_noise_is_not_paid_as_a_result() -> None:
    silent, without = played(complains=False)
    market, order_id = played(complains=True)
    assert silent.order(without).close_reason == CloseReason.SETTLED
    assert market.order(order_id).close_reason == CloseReason.FAILED
    assert LegEnd(market.leg(order_id).end_reason) is LegEnd.WRONG_HANDOVER
    # The validator sold noise for its part of the price; now it has neither the part nor its bond.
    gained = wealth(silent, "v0") - wealth(market, "v0")
    part = sum(p.amount for p in silent.all_of(without).payments if p.kind == "validator")
    assert part > 0
    assert gained == part + market.leg(order_id).job_bond
    # The consumer has the withheld part back, and what the bond covers of the rest.
    lost, lost_silent = COINS - market.chain.worth(CONSUMER), COINS - silent.chain.worth(CONSUMER)
    assert lost == lost_silent - gained
    # The providers did the work, and keep its pay.
    for name in ("v0p0", "v0p1"):
        assert wealth(market, name) == wealth(silent, name) > COINS


def test_a_replaced_ciphertext_does_not_help() -> None:
    """The complaint is about the root on chain. What the validator serves later does not matter."""
    market = HandoverMarket(local_params())
    market.looks = False
    market.spoil = all_noise
    order_id = market.run(order_with_key())
    for round in range(2):
        market.train_round(order_id)
        market.answer_all(order_id, round)
    complaint = market.complaint(order_id, 1, 4)
    market.spoil = HandoverMarket.spoil  # from now on it serves the states
    right = market.complaint(order_id, 1, 4)
    (refused,) = market.chain.block(replace(right, consumer=CONSUMER), seconds=0).tx_results
    assert refused.log.startswith("path")
    market.chain.ok(complaint)
