"""The tier ``sampled``: a lot decides which rounds get a panel, and no one gains by it.

A cluster may hope that its bad round is not drawn, hide a rejected share until the draw is over, or change what it
offers after the match. A proposer may try to steer the lot, and the money of audits that never happened may stay
somewhere.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from chain.state_machine.ledger.tables import BOND_ROWS
from chain.state_machine.proof.tables import LOTS, PANELS, PanelSubject
from chain.state_machine.store import Overlay
from domain.amount import BPS
from domain.disputes.records import DisputeState
from domain.errors import BAD_FIELD, NOT_YOURS
from domain.ledger.messages import MsgDepositBond
from domain.ledger.records import BondKind
from domain.legs.reasons import LegEnd
from domain.market.messages import MsgWithdrawBid
from domain.market.reasons import CloseReason
from domain.market.records import Conditions
from domain.params import Params, local_params
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, AuditPlace, ShareState
from pol.rules.lots import draw, seed
from pol.rules.tiers.table import least_multiple, panel_rate
from tests.support.chain_harness import COINS
from tests.support.chain_market import BOND, CONSUMER, Market, bid, make_terms, sign_share, submit
from tests.support.included import InclusionMarket
from tests.unit.chain.state_machine.disputes.test_challenges import commit, dispute, found_wrong, opening

ROUNDS = 40
BOTH = ("exact", "sampled")


def params(**changes: int) -> Params:
    return local_params().replace(**{"duty_segments": 1, "round_window": 60, **changes})


def ordered(
    *names: str, rounds: int = ROUNDS, rematch: bool = False, market: Market | None = None
) -> tuple[Market, bytes]:
    """Return a market in which ``v0`` won an order in the first of the named tiers."""
    tiers = names or ("sampled",)
    market = market or Market(params(), validators=6, bidders=())
    market.chain.ok(bid("v0", tiers=tiers))
    conditions = Conditions(tiers=tiers)
    message = submit(
        conditions=conditions,
        terms=make_terms(rounds=rounds),
        deposit=200_000 * rounds,
        deadline=10**6,
        rematch=rematch,
    )
    return market, market.run(message)


def lot_of(market: Market, order_id: bytes, round: int) -> PanelSubject:
    return PanelSubject(market.round(order_id, round).key.panel(), 0)


def draws(market: Market, order_id: bytes, round: int, audited: bool) -> Callable[[bytes], bool]:
    """Return whether a beacon draws a panel for a round, or none, as ``audited`` says."""
    lot, rate = (
        lot_of(market, order_id, round),
        panel_rate(market.order(order_id), market.leg(order_id), bond_of(market, order_id)),
    )

    def fits(beacon: bytes) -> bool:
        (number,) = draw(seed("panel/audit", lot.id, beacon), BPS, 1)
        return (number < rate) is audited

    return fits


def bond_of(market: Market, order_id: bytes) -> int:
    rows = BOND_ROWS.iterate(market.chain.overlay(), order_id, market.leg(order_id).number, int(BondKind.JOB))
    return sum(row.amount for row in rows)


def draw_audit(market: Market, order_id: bytes, round: int, *, audited: bool) -> None:
    """Make blocks whose beacons draw a panel for a closed round, or none."""
    fits = draws(market, order_id, round, audited)
    for _ in range(30):
        panel = PANELS.get(market.chain.overlay(), *lot_of(market, order_id, round).panel)
        if panel is None or panel.load:
            assert (panel is not None) is audited
            return
        market.chain.block(value=market.chain.value_for(fits))
    raise AssertionError("nothing was drawn")


def is_panel_sure(market: Market, order_id: bytes) -> None:
    """Check that a round gets a panel, although all beacons would draw none."""
    fits = draws(market, order_id, 0, audited=False)
    for _ in range(30):
        if PANELS.must(market.chain.overlay(), *lot_of(market, order_id, 0).panel).load:
            return
        market.chain.block(value=market.chain.value_for(fits))
    raise AssertionError("no panel began")


def skipped_round(market: Market, order_id: bytes, round: int = 0) -> None:
    """Train and close a round that gets no panel."""
    market.train_round(order_id)
    draw_audit(market, order_id, round, audited=False)


def pass_wait(market: Market, order_id: bytes, round: int = 0) -> None:
    market.chain.pass_until(market.round(order_id, round).challenges_end)
    market.chain.pass_time(2)


# --- the lot, and what it costs ------------------------------------------------------------------


def test_an_order_settles_and_pays_only_the_panels_that_sat() -> None:
    market, order_id = ordered(rounds=20)
    audited = []
    for round in range(20):
        market.train_round(order_id)
        while (panel := market.all_of(order_id).panel(1, round)) is not None and not panel.stage:
            market.chain.block()
        audited.append(panel is not None)
        if panel is not None:
            market.answer_all(order_id, round)
        market.chain.pass_until(market.round(order_id, round).window_ends + 2)
    pass_wait(market, order_id, 19)
    market.pass_handover(order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    fees = [int(event.get("audit_fee")) for event in market.chain.seen("round.verified")]
    assert [fee > 0 for fee in fees] == audited
    assert 0 < audited.count(True) < 20
    prices = sum(int(event.get("price")) for event in market.chain.seen("round.verified"))
    assert market.chain.worth(CONSUMER) == COINS - prices - sum(fees)
    market.chain.check_books()


def test_no_block_of_the_winner_alone_completes_the_lot() -> None:
    """Otherwise the winner would withhold its reveal until the beacon draws no panel."""
    market, order_id = ordered()
    market.train_round(order_id)
    for _ in range(3):
        market.chain.block(proposer="v0")
        assert LOTS.scan(market.chain.overlay())
        assert not PANELS.must(market.chain.overlay(), *lot_of(market, order_id, 0).panel).load
    draw_audit(market, order_id, 0, audited=False)


# --- doubtful rounds -----------------------------------------------------------------------------


def test_a_round_with_a_rejected_share_has_no_lot_but_a_panel() -> None:
    """Otherwise a cluster's wrong share would beat a right one in a round that no one recomputes."""
    market, order_id = ordered()
    first = market.trace(order_id, 0, provider="v0p0")
    market.commit(order_id, first, market.trace(order_id, 1, provider="v0p1"))
    again = market.trace(order_id, 0, work="made up", issue=2, provider="v0p1")
    market.commit(order_id, again, reject=[(first.ref, int(ShareReason.SEGMENT_MISMATCH), 0)])
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    is_panel_sure(market, order_id)


def test_a_rejected_share_that_was_hidden_until_no_panel_was_drawn_brings_one() -> None:
    market = InclusionMarket(params(), validators=6, providers=4, bidders=())
    _, order_id = ordered(market=market)
    hidden = market.delivered_trace(order_id, 0, provider="v0p0")
    message = market.include(hidden, deadline=10**9)
    for slot, name in enumerate(("v0p2", "v0p1")):
        market.commit(order_id, market.delivered_trace(order_id, slot, issue=2, provider=name))
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    draw_audit(market, order_id, 0, audited=False)
    assert not PANELS.has(market.chain.overlay(), *lot_of(market, order_id, 0).panel)
    market.chain.ok(message)
    market.answer_all(order_id, 0)
    pass_wait(market, order_id)
    assert market.round(order_id, 0).verified
    (event,) = market.chain.seen("round.verified")
    assert int(event.get("audit_fee")) > 0
    market.chain.check_books()


def test_a_share_that_is_included_before_the_draw_is_as_good_as_a_rejected_one() -> None:
    market = InclusionMarket(params(), validators=6, providers=4, bidders=())
    _, order_id = ordered(market=market)
    message = market.include(market.delivered_trace(order_id, 0, provider="v0p0"), deadline=10**9)
    for slot, name in enumerate(("v0p2", "v0p1")):
        market.commit(order_id, market.delivered_trace(order_id, slot, issue=2, provider=name))
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    market.chain.ok(message, seconds=0)
    is_panel_sure(market, order_id)


def test_a_round_that_repeats_a_void_one_is_recomputed() -> None:
    """Otherwise a cluster whose wrong share was found would try the same again, at the same odds."""
    market, order_id = ordered(rematch=True)
    market.train_round(order_id)
    draw_audit(market, order_id, 0, audited=True)
    market.chain.ok(bid("v1", tiers=("sampled",)))
    market.fault_round(order_id)
    while market.leg(order_id).number == 1:
        market.chain.pass_time(10)
    market.accept(order_id)
    market.train_round(order_id)
    is_panel_sure(market, order_id)


# --- bonds ---------------------------------------------------------------------------------------


def test_a_share_with_a_bond_that_is_too_small_for_the_chance_is_not_committed() -> None:
    market, order_id = ordered()
    least = least_multiple(market.order(order_id), market.leg(order_id))
    assert least > 1
    right = market.trace(order_id, 0)
    cheap = sign_share(replace(right.claim, multiple=least - 1))
    market.commit(order_id, cheap)
    assert market.skipped() == [ShareReason.MALFORMED]
    market.commit(order_id, right)
    (share,) = market.shares(order_id)
    assert (share.state, share.bond) == (ShareState.COMMITTED, least * share.bond // share.claim.multiple)


def test_a_provider_cannot_include_a_share_with_such_a_bond_either() -> None:
    market = InclusionMarket(params(), validators=6, providers=4, bidders=())
    _, order_id = ordered(market=market)
    trace = market.delivered_trace(order_id, 0, provider="v0p0")
    claim = replace(trace.claim, multiple=trace.claim.multiple - 1)
    cheap = replace(trace, signed=sign_share(claim))
    market.chain.refused(BAD_FIELD, market.include(cheap), field="multiple")


def test_a_validator_whose_job_bond_is_used_up_hides_behind_no_lot() -> None:
    """Its chance is computed from what is left of the bond, not from what it once was."""
    market, order_id = ordered(market=Market(params(), validators=6, bidders=(), checked=False))

    def use_up(overlay: Overlay) -> None:
        at = order_id, 1, int(BondKind.JOB), 0, 0, 0
        BOND_ROWS.put_at(overlay, replace(BOND_ROWS.must(overlay, *at), amount=1), *at)

    market.train_round(order_id)
    lot = lot_of(market, order_id, 0)
    assert not PANELS.must(market.chain.overlay(), *lot.panel).load
    fits = draws(market, order_id, 0, audited=False)
    market.chain.change(use_up)
    for _ in range(5):
        market.chain.block(value=market.chain.value_for(fits))
    assert market.wait_stage(order_id).places


# --- challenges of rounds without a panel --------------------------------------------------------


def test_any_account_with_a_bond_challenges_a_round_without_a_panel_and_is_paid() -> None:
    market, order_id = ordered()
    skipped_round(market, order_id)
    place, name = AuditPlace(AuditKind.AGGREGATION, 0, 0, 0), "v5p1"
    market.chain.pass_until(market.round(order_id, 0).window_ends + 2)
    assert not market.round(order_id, 0).verified
    before = market.chain.bond(name)
    market.chain.ok(commit(market, order_id, place, name=name))
    market.chain.ok(opening(order_id, place, name=name))
    market.about = 1
    market.say_all(order_id, lambda: found_wrong(market, order_id))
    market.chain.pass_time(5)
    assert market.round_of(order_id, 1, 0).void
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND
    assert dispute(market, order_id).state is DisputeState.UPHELD
    market.chain.pass_time(300)
    assert market.chain.bond(name) + market.chain.worth(name) > before + COINS - BOND
    market.chain.check_books()


def test_a_false_challenge_of_such_a_round_costs_its_challenger_and_not_the_consumer() -> None:
    market, order_id = ordered(rounds=ROUNDS)
    market.chain.ok(MsgDepositBond(CONSUMER, BOND))
    skipped_round(market, order_id)
    place, name = AuditPlace(AuditKind.AGGREGATION, 0, 0, 0), "v5p1"
    before = market.chain.bond(name)
    market.chain.ok(commit(market, order_id, place, name=name))
    market.chain.ok(opening(order_id, place, name=name))
    market.about = 1
    market.say_all(order_id, partial(market.answers, order_id))
    market.about = 0
    pass_wait(market, order_id)
    assert market.round(order_id, 0).verified
    assert market.chain.bond(name) < before
    (event,) = market.chain.seen("round.verified")
    assert int(event.get("audit_fee")) == 0
    market.chain.check_books()


def test_no_stranger_challenges_an_order_in_exact_that_names_none() -> None:
    market, order_id = ordered("exact")
    market.train_round(order_id)
    place = AuditPlace(AuditKind.AGGREGATION, 0, 0, 0)
    market.chain.refused(NOT_YOURS, commit(market, order_id, place, name="v5p1"), field="challenger")
    closed = market.round(order_id, 0)
    assert closed.challenges_end == closed.window_ends


# --- the tier of a leg ---------------------------------------------------------------------------


def test_a_bid_that_is_changed_after_the_match_changes_no_tier() -> None:
    market, order_id = ordered("exact")
    market.chain.ok(MsgWithdrawBid("v0", market.leg(order_id).bid_id), bid("v0", tiers=("sampled",)))
    market.train_round(order_id)
    assert market.leg(order_id).tier == "exact"
    assert market.wait_stage(order_id).places


@pytest.mark.parametrize("tiers", [BOTH, BOTH[::-1]])
def test_each_leg_of_an_order_has_the_rules_of_its_own_tier(tiers: tuple[str, ...]) -> None:
    """An order that allows two tiers goes on with the other one if the next bid offers only that."""
    market = Market(params(), validators=6, bidders=())
    market.chain.ok(bid("v0", tiers=tiers[:1]))
    message = submit(
        conditions=Conditions(tiers=tiers),
        terms=make_terms(rounds=ROUNDS),
        deposit=200_000 * ROUNDS,
        deadline=10**6,
        rematch=True,
    )
    order_id = market.run(message)
    market.chain.pass_until(market.leg(order_id).progress_deadline + 2)
    market.chain.ok(bid("v1", tiers=tiers[1:]))
    market.chain.pass_time(20)
    legs = market.all_of(order_id).legs
    assert [leg.tier for leg in legs] == list(tiers)
    market.accept(order_id)
    market.train_round(order_id)
    closed = market.round(order_id, 0)
    waits = closed.challenges_end - closed.window_ends
    assert waits == (local_params().for_order().challenge_wait_min if tiers[1] == "sampled" else 0)
    market.chain.check_books()
