"""The floor of the audit rate in the tier ``sampled``, if credentials lower it."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.attest.tables import CREDENTIALS
from chain.state_machine.context import PARAMS, BlockInfo, Context
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.panels import get_rate, weigh_doubt
from chain.state_machine.proof.tables import AUDIT_STAGE, PANELS, SHARES, PanelSubject
from chain.state_machine.rules import RULES
from domain.amount import BPS
from domain.attest.messages import MsgReleaseCredential
from domain.market.records import Conditions
from domain.proof.records import ShareState
from pol.rules.lots import draw, seed
from pol.rules.tiers.table import least_multiple, panel_rate
from tests.support.attested import AttestMarket, other_device, params, withdraw
from tests.support.chain_harness import CRYPTO
from tests.support.chain_market import bid, make_terms, submit

ROUNDS = 300
PROVIDERS = ("v0p0", "v0p1")


def running(
    tier: str = "sampled", attested: bool = True, rounds: int = ROUNDS, **changes: int
) -> tuple[AttestMarket, bytes]:
    """Return a market in which both providers of ``v0`` have credentials, and v0 runs an order."""
    market = AttestMarket(params(**changes))
    for number, name in enumerate(PROVIDERS):
        market.get_credential(name, other_device(number))
    market.chain.ok(bid("v0", tiers=(tier,)))
    message = submit(
        conditions=Conditions(tiers=(tier,), attested=attested),
        terms=make_terms(rounds=rounds),
        deposit=200_000 * rounds,
        deadline=10**6,
    )
    order_id = market.run(message)
    market.multiple = least_multiple(market.order(order_id), market.leg(order_id), attested=True)
    return market, order_id


def rate(market: AttestMarket, order_id: bytes, round: int = 0) -> int:
    """Return the chance of a panel for a closed round, as a block would compute it now."""
    chain = market.chain
    overlay = chain.overlay()
    ctx = Context(store=overlay, block=_block(market), crypto=CRYPTO, rules=RULES, next_event=1)
    order = ORDERS.must(overlay, order_id)
    leg = LEGS.must(overlay, order_id, order.legs)
    return get_rate(ctx, order, leg, market.round(order_id, round))


def _block(market: AttestMarket) -> Any:
    chain = market.chain
    return BlockInfo(
        chain_id="c",
        denom="uassay",
        height=chain.height,
        clock=chain.clock,
        params=PARAMS.get(chain.overlay()),
        previous_hash=b"",
        previous_beacon=b"",
    )


def test_a_round_of_attested_providers_has_the_lower_floor() -> None:
    market, order_id = running()
    order, leg = market.order(order_id), market.leg(order_id)
    assert panel_rate(order, leg, leg.job_bond) == order.params.audit_rate_min == 2_000
    assert panel_rate(order, leg, leg.job_bond, attested=True) == order.params.attested_rate_min == 500
    assert (least_multiple(order, leg), market.multiple) == (9, 39)
    market.train_round(order_id)
    assert rate(market, order_id) == 500


@pytest.mark.parametrize("attested", [True, False])
def test_a_lot_between_the_two_floors_skips_only_the_round_of_attested_providers(attested: bool) -> None:
    market, order_id = running(attested=attested)
    market.train_round(order_id)
    key = market.round(order_id, 0).key.panel()
    lot = PanelSubject(key, AUDIT_STAGE)

    def is_between(beacon: bytes) -> bool:
        (number,) = draw(seed("panel/audit", lot.id, beacon), BPS, 1)
        return 500 <= number < 2_000

    for _ in range(30):
        panel = PANELS.get(market.chain.overlay(), *key)
        if panel is None or panel.load:
            break
        market.chain.block(value=market.chain.value_for(is_between))
    assert (PANELS.get(market.chain.overlay(), *key) is None) is attested
    assert bool(market.chain.seen("panel.skipped")) is attested


def test_an_order_that_does_not_say_so_has_the_usual_floor() -> None:
    market, order_id = running(attested=False)
    market.train_round(order_id)
    assert rate(market, order_id) == 2_000


def test_the_usual_bond_has_the_usual_floor() -> None:
    market, order_id = running()
    market.multiple -= 1
    market.train_round(order_id)
    assert rate(market, order_id) == 2_000


def test_the_economic_part_of_the_rate_stays() -> None:
    market, order_id = running(rounds=10)
    order, leg = market.order(order_id), market.leg(order_id)
    least = panel_rate(order, leg, leg.job_bond, attested=True)
    assert 500 < least == panel_rate(order, leg, leg.job_bond)
    market.train_round(order_id)
    assert rate(market, order_id) == least


def test_the_tier_exact_knows_no_credentials() -> None:
    market, order_id = running("exact")
    market.train_round(order_id)
    assert rate(market, order_id) == BPS


def test_a_floor_above_the_usual_one_changes_nothing() -> None:
    market, order_id = running(attested_rate_min=4_000)
    market.train_round(order_id)
    assert rate(market, order_id) == 2_000


@pytest.mark.parametrize("way", ["released", "withdrawn", "expired", "other"])
def test_one_share_without_a_credential_is_enough_for_the_usual_floor(way: str) -> None:
    market, order_id = running()
    if way == "other":
        market.chain.ok(MsgReleaseCredential(PROVIDERS[1], other_device(1)))
    market.train_round(order_id)
    if way == "other":
        # A credential of later says nothing about a share of before.
        market.get_credential(PROVIDERS[1], other_device(1))
    elif way == "released":
        assert rate(market, order_id) == 500
        market.chain.ok(MsgReleaseCredential(PROVIDERS[1], other_device(1)))
    elif way == "withdrawn":
        market.pass_vote(withdraw())
    else:
        ends_at = market.chain.clock
        market.chain.change(lambda overlay: CREDENTIALS.update(overlay, other_device(1), ends_at=ends_at))
    assert rate(market, order_id) == 2_000


def test_a_rejected_share_makes_a_round_doubtful_whatever_credentials_say() -> None:
    market, order_id = running()
    market.train_round(order_id)
    assert rate(market, order_id) == 500
    key = market.shares(order_id)[0].key

    def reject(overlay: Any) -> None:
        SHARES.put(overlay, replace(SHARES.must(overlay, *key), state=ShareState.REJECTED))

    market.chain.checked = False
    market.chain.change(reject)
    assert rate(market, order_id) == BPS


def test_the_gas_of_a_close_counts_the_credentials() -> None:
    market, order_id = running()
    order, leg = market.order(order_id), market.leg(order_id)
    without = replace(order, conditions=replace(order.conditions, attested=False))
    assert weigh_doubt(order, leg) == 3 * weigh_doubt(without, leg)
