"""Right shares whose rounds a wrong share of another provider makes void, and those who try to earn by that.

One planted segment made all rounds void that were closed and not verified, and cost its provider the price of one
share. The other providers got nothing for theirs.
"""

from dataclasses import replace

import pytest

from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.proof import covers, taking
from chain.state_machine.proof.tables import VOID_CLAIMS, VOID_FUNDS
from domain.errors import WRONG_STATE
from domain.ledger.messages import MsgWithdrawBond
from domain.ledger.records import BondKind
from domain.legs.reasons import LegEnd
from domain.market.messages import MsgWithdrawBid
from domain.market.records import OrderState
from domain.proof.reasons import ShareReason
from domain.proof.records import ShareState
from pol.rules.cover import earned_by_share
from tests.support.chain_market import BOND, Trace
from tests.support.covered import CoverMarket

ALL = 10_000


def voided(
    backing: dict[str, tuple[int, int]],
    *,
    ahead: int = 2,
    goes_on: bool = False,
    poor: bool = False,
    slot: int = -1,
    **more: object,
) -> tuple[CoverMarket, bytes, Trace]:
    """Return a market in which ``ahead`` rounds were closed, and a share of the first one was found wrong.

    Without ``goes_on``, the validator has no bid left, so it does not continue. The wrong share is in ``slot``, if one
    is given.
    """
    for waited in range(20):
        market = CoverMarket(dict(backing), **more)
        market.chain.pass_time(waited)  # so that other beacons draw
        order_id = market.begin(slots=max(2, len(backing)))
        for _ in range(ahead):
            market.train_round(order_id)
        if poor:
            market.chain.ok(MsgWithdrawBond("v0", market.chain.bond("v0")))
        if not goes_on:
            market.chain.ok(MsgWithdrawBid("v0", market.leg(order_id).bid_id))
        wrong = market.find_wrong(order_id)
        if wrong is not None and slot in (-1, wrong.claim.slot):
            market.chain.pass_time(4)
            return market, order_id, wrong
    raise AssertionError("no beacon drew a segment outside the duty")


def right_shares(market: CoverMarket, order_id: bytes, wrong: Trace) -> list[Trace]:
    """Return the accepted shares of the void rounds whose providers may stand."""
    return [
        market.trace_of(order_id, 1, share.key.round, share.key.ref)
        for share in market.shares(order_id)
        if share.key.leg == 1 and share.state is ShareState.ACCEPTED and share.claim.provider != wrong.claim.provider
    ]


def pay(market: CoverMarket, order_id: bytes) -> int:
    """Return what a share earns in a verified round."""
    leg = market.all_of(order_id).legs[0]
    work = market.all_of(order_id).shares[0].work
    return earned_by_share(market.order(order_id), leg, work)


def bonds(market: CoverMarket, order_id: bytes, kind: BondKind) -> int:
    return sum(row.amount for row in market.all_of(order_id).escrow.bonds if row.kind is kind and row.leg == 1)


def wealth(market: CoverMarket, name: str) -> int:
    return market.chain.worth(name) + market.chain.bond(name)


def over(market: CoverMarket, order_id: bytes) -> None:
    """Let the time to stand pass, and everything be paid."""
    market.chain.pass_time(70)
    for _ in range(20):
        market.chain.block()
    assert not list(VOID_FUNDS.scan(market.chain.overlay(), order_id))
    assert not list(VOID_CLAIMS.keys(market.chain.overlay(), order_id))
    assert TALLIES.must(market.chain.overlay(), order_id).funds == 0


def paid_events(market: CoverMarket) -> dict[str, tuple[int, int]]:
    """Return what each provider got for a void share from bonds of wrong shares, and from the job bond."""
    found: dict[str, tuple[int, int]] = {}
    for event in market.chain.seen("share.void_paid"):
        name = str(event.get("provider"))
        before = found.get(name, (0, 0))
        found[name] = (before[0] + int(event.get("from_bonds")), before[1] + int(event.get("from_cover")))
    return found


def wrong_bond(market: CoverMarket, order_id: bytes, wrong: Trace) -> int:
    return next(share.bond for share in market.shares(order_id) if share.claim == wrong.claim)


# --- the bond of a share -------------------------------------------------------------------------


def test_the_bond_is_the_multiple_that_both_sides_signed() -> None:
    market = CoverMarket({"v0p0": (5, ALL), "v0p1": (1, 0)})
    order_id = market.begin()
    market.commit(order_id, *market.traces_of_round(order_id))
    shares = {share.claim.provider: share for share in market.shares(order_id)}
    assert shares["v0p0"].bond == 5 * shares["v0p1"].bond
    assert market.chain.bond("v0p0") == BOND - shares["v0p0"].bond
    assert (shares["v0p0"].claim.multiple, shares["v0p0"].claim.cover) == (5, ALL)


def test_a_share_whose_multiple_its_provider_cannot_pay_is_skipped() -> None:
    market = CoverMarket({"v0p0": (64, 0), "v0p1": (1, 0)})
    order_id = market.begin()
    market.commit(order_id, market.trace(order_id, 1, provider="v0p1"))
    value = market.shares(order_id)[0].bond
    market.chain.ok(MsgWithdrawBond("v0p0", BOND - 63 * value))
    market.commit(order_id, market.trace(order_id, 0, provider="v0p0"))
    assert market.skipped() == [ShareReason.NO_BOND]


def test_a_provider_cannot_put_other_numbers_on_chain_than_its_claim_has() -> None:
    market = CoverMarket({"v0p0": (5, 0), "v0p1": (1, 0)})
    order_id = market.begin()
    honest = market.trace(order_id, 0, provider="v0p0")
    forged = [replace(honest.claim, multiple=1), replace(honest.claim, cover=ALL)]
    market.commit(order_id, *(replace(honest.signed, claim=claim) for claim in forged))
    assert market.skipped() == [ShareReason.BAD_SIGNATURE] * 2


# --- who pays ------------------------------------------------------------------------------------


def test_half_of_a_wrong_shares_bond_is_burnt_and_the_rest_pays_right_shares_before_the_consumer() -> None:
    market, order_id, wrong = voided({"v0p0": (40, 0), "v0p1": (40, 0)})
    bond = wrong_bond(market, order_id, wrong)
    right = right_shares(market, order_id, wrong)
    burns = [payment.amount for payment in market.all_of(order_id).payments if payment.kind == "burn"]
    assert burns == [bond // 2]
    assert len(right) == 2
    value = pay(market, order_id)
    name = right[0].claim.provider
    before = wealth(market, name)
    for trace in right:
        market.chain.ok(market.stand(trace))
    for trace in right:
        market.decide(trace)
    over(market, order_id)
    assert paid_events(market) == {name: (2 * value, 0)}
    assert wealth(market, name) >= before + 2 * value
    # The bonds of its other shares returned.
    assert market.chain.bond(wrong.claim.provider) == BOND - bond
    assert market.order(order_id).state is OrderState.CLOSED


def test_the_job_bond_pays_up_to_the_cover_that_the_task_stated() -> None:
    market, order_id, wrong = voided({"v0p0": (1, ALL), "v0p1": (1, ALL)})
    leg = market.all_of(order_id).legs[0]
    right = right_shares(market, order_id, wrong)
    before = wealth(market, "v0")
    for trace in right:
        market.chain.ok(market.stand(trace))
    for trace in right:
        market.decide(trace)
    over(market, order_id)
    ((from_bonds, from_cover),) = paid_events(market).values()
    assert 0 < from_cover <= leg.job_bond
    assert from_bonds + from_cover <= 2 * pay(market, order_id)
    assert wealth(market, "v0") >= before + leg.job_bond - from_cover - 10


def test_a_provider_without_cover_takes_nothing_of_the_job_bond() -> None:
    """Sybil providers of a rival, admitted as ``open``, sacrifice one share to take an honest validator's job bond."""
    market, order_id, wrong = voided({"v0p0": (1, 0), "v0p1": (1, 0)})
    leg = market.all_of(order_id).legs[0]
    before = wealth(market, "v0")
    for trace in right_shares(market, order_id, wrong):
        market.chain.ok(market.stand(trace))
        market.decide(trace)
    over(market, order_id)
    assert all(cover == 0 for _, cover in paid_events(market).values())
    assert wealth(market, "v0") == before + leg.job_bond
    # The owner of all these shares lost more than it got back.
    bond = wrong_bond(market, order_id, wrong)
    assert sum(part for part, _ in paid_events(market).values()) <= bond // 2


def test_a_high_cover_of_others_does_not_change_what_a_task_stated() -> None:
    """A validator states a cover of everything to one provider, and little to another one that serves as much."""
    market, order_id, wrong = voided({"v0p0": (1, ALL), "v0p1": (1, 1_000), "v0p2": (1, ALL)}, ahead=2)
    leg = market.all_of(order_id).legs[0]
    right = right_shares(market, order_id, wrong)
    for trace in right:
        market.chain.ok(market.stand(trace))
    for trace in right:
        market.decide(trace)
    over(market, order_id)
    paid = paid_events(market)
    assert sum(cover for _, cover in paid.values()) <= leg.job_bond
    low = paid.get("v0p1", (0, 0))[1]
    high = max(cover for name, (_, cover) in paid.items() if name != "v0p1")
    assert low <= leg.job_bond // 10
    if wrong.claim.provider != "v0p1":
        assert 0 < low < high


def test_shares_without_a_cover_make_no_covered_share_poorer() -> None:
    market, order_id, wrong = voided({"v0p0": (1, ALL), "v0p1": (1, 0), "v0p2": (1, 0)}, slot=1)
    assert wrong.claim.provider == "v0p1"
    leg = market.all_of(order_id).legs[0]
    for trace in right_shares(market, order_id, wrong):
        market.chain.ok(market.stand(trace))
        market.decide(trace)
    over(market, order_id)
    paid = paid_events(market)
    covered = sum(1 for trace in right_shares(market, order_id, wrong) if trace.claim.cover)
    unpaid = covered * pay(market, order_id) - paid["v0p0"][0]
    assert min(leg.job_bond, unpaid) - paid["v0p0"][1] <= 2


def test_who_stands_first_gets_no_more_than_who_stands_last() -> None:
    """An accomplice that stands at once gets the same fraction as an honest provider that stands at the end."""
    market, order_id, wrong = voided({"v0p0": (1, ALL), "v0p1": (1, ALL), "v0p2": (1, ALL)}, ahead=2)
    right = right_shares(market, order_id, wrong)
    market.chain.ok(market.stand(right[0]))
    market.decide(right[0])
    market.chain.pass_time(20)
    for trace in right[1:]:
        market.chain.ok(market.stand(trace))
        market.decide(trace)
    over(market, order_id)
    amounts = {(int(e.get("from_bonds")), int(e.get("from_cover"))) for e in market.chain.seen("share.void_paid")}
    assert len(market.chain.seen("share.void_paid")) == len(right)
    assert len(amounts) == 1


def test_a_wrong_share_that_stands_gets_nothing_and_loses_its_bond() -> None:
    market, order_id, wrong = voided({"v0p0": (1, ALL), "v0p1": (1, ALL)})
    cheat, *_ = right_shares(market, order_id, wrong)
    before = wealth(market, cheat.claim.provider)
    market.chain.ok(market.stand(cheat))
    market.decide(cheat, right=False)
    over(market, order_id)
    assert paid_events(market) == {}
    # It has the bond of its other share again, and lost that of this one.
    assert wealth(market, cheat.claim.provider) < before + 2 * wrong_bond(market, order_id, wrong)


def test_the_provider_of_the_wrong_share_is_paid_for_none_of_its_shares() -> None:
    market, order_id, wrong = voided({"v0p0": (1, ALL), "v0p1": (1, ALL)})
    for share in market.shares(order_id):
        if share.claim.provider == wrong.claim.provider:
            trace = market.trace_of(order_id, 1, share.key.round, share.key.ref)
            market.chain.refused(WRONG_STATE, market.stand(trace))


def test_without_stands_the_consumer_gets_the_rest_and_the_job_bond_returns() -> None:
    market, order_id, _ = voided({"v0p0": (40, ALL), "v0p1": (40, ALL)})
    leg = market.all_of(order_id).legs[0]
    before = wealth(market, "v0")
    over(market, order_id)
    assert wealth(market, "v0") == before + leg.job_bond
    assert market.order(order_id).state is OrderState.CLOSED
    kinds = [payment.kind for payment in market.all_of(order_id).payments]
    assert "compensation" in kinds
    assert bonds(market, order_id, BondKind.SHARE) == bonds(market, order_id, BondKind.JOB) == 0


# --- the validator continues ---------------------------------------------------------------------


def test_shares_that_are_taken_over_are_not_paid_as_void() -> None:
    market, order_id, wrong = voided({"v0p0": (1, ALL), "v0p1": (1, ALL)}, ahead=1, goes_on=True)
    for trace in right_shares(market, order_id, wrong):
        market.chain.refused(WRONG_STATE, market.stand(trace))
    market.chain.pass_time(4)
    leg = market.leg(order_id)
    assert leg.number == 2
    taken = [share for share in market.shares(order_id) if share.taken_by == 2]
    assert [(share.claim.multiple, share.claim.cover) for share in taken] == [(1, ALL)]
    # No other round became void, so the job bond and the rest of the wrong share's bond wait for no one.
    assert bonds(market, order_id, BondKind.JOB) == 0
    assert not list(VOID_FUNDS.scan(market.chain.overlay(), order_id))


def test_a_share_cannot_stand_before_it_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "TAKEN_PER_CALL", 1)
    market, order_id, wrong = voided({"v0p0": (1, ALL), "v0p1": (1, ALL)}, goes_on=True, slot=0, params={"due_gas": 1})
    for _ in range(60):
        if market.leg(order_id).number == 2:
            break
        market.chain.block()
    first = next(trace for trace in right_shares(market, order_id, wrong) if trace.claim.round == 0)
    assert VOID_FUNDS.get(market.chain.overlay(), order_id, 1) is not None
    market.chain.refused(WRONG_STATE, market.stand(first))


def test_later_rounds_are_paid_while_the_next_leg_goes_on() -> None:
    market, order_id, wrong = voided({"v0p0": (40, ALL), "v0p1": (40, ALL)}, goes_on=True)
    later = [trace for trace in right_shares(market, order_id, wrong) if trace.claim.round == 1]
    market.chain.pass_time(4)
    assert market.leg(order_id).number == 2
    # The cover of the failed leg stays locked beside the bond of the next one.
    assert bonds(market, order_id, BondKind.JOB) > 0
    for trace in later:
        market.chain.ok(market.stand(trace))
        market.decide(trace)
    market.chain.pass_time(70)
    for _ in range(10):
        market.chain.block()
    # The bond of the wrong share has waited, too.
    ((from_bonds, _),) = paid_events(market).values()
    assert from_bonds > 0
    assert set(paid_events(market)) == {trace.claim.provider for trace in later}
    assert bonds(market, order_id, BondKind.JOB) == 0


def test_a_validator_does_not_back_the_next_leg_with_what_the_cover_may_still_pay() -> None:
    market, order_id, _ = voided({"v0p0": (1, ALL), "v0p1": (1, ALL)}, goes_on=True, poor=True)
    market.chain.pass_time(4)
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_SHARE
    assert market.order(order_id).legs == 1
    assert bonds(market, order_id, BondKind.JOB) > 0


def test_a_stand_that_is_not_decided_holds_the_payment_of_all() -> None:
    market, order_id, wrong = voided({"v0p0": (1, ALL), "v0p1": (1, ALL), "v0p2": (1, ALL)})
    first, *others = right_shares(market, order_id, wrong)
    market.chain.ok(market.stand(first))
    market.decide(first)
    market.chain.pass_time(40)
    market.chain.ok(market.stand(others[0]))
    fund = VOID_FUNDS.must(market.chain.overlay(), order_id, 1)
    market.chain.pass_until(fund.until + 1)
    assert market.chain.seen("share.void_paid") == []
    market.decide(others[0])
    over(market, order_id)
    assert len(market.chain.seen("share.void_paid")) == 2


def test_many_right_shares_are_paid_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covers, "PAID_PER_CALL", 1)
    market, order_id, wrong = voided({"v0p0": (1, ALL), "v0p1": (1, ALL), "v0p2": (1, ALL)}, ahead=2)
    right = right_shares(market, order_id, wrong)
    for trace in right:
        market.chain.ok(market.stand(trace))
    for trace in right:
        market.decide(trace)
    over(market, order_id)
    assert len(market.chain.seen("share.void_paid")) == len(right)


def test_a_void_round_by_the_validator_is_paid_by_the_validator() -> None:
    market = CoverMarket({"v0p0": (1, ALL), "v0p1": (1, ALL)})
    order_id = market.begin()
    market.train_round(order_id)
    market.fault_round(order_id)
    market.chain.pass_time(4)
    assert market.round_of(order_id, 1, 0).by_validator
    assert not list(VOID_FUNDS.scan(market.chain.overlay(), order_id))
