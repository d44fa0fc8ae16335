"""Providers that stand for shares that their validator rejected or let become void, and providers that stand falsely.

A thief rejected an honest share as a mismatch and let an accomplice commit to work that differs in one place: the
honest provider was paid nothing. A consumer and a validator let a round become void after all providers had delivered,
and paid a tenth of its price.
"""

from dataclasses import replace
from functools import partial

from chain.state_machine.ledger.tables import ESCROWS, POTS
from chain.state_machine.proof.tables import WRONG_PROVIDERS
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from domain.disputes.messages import MsgStand
from domain.disputes.queries import DisputesRequest
from domain.disputes.records import Dispute, DisputeState
from domain.errors import DEADLINE_PASSED, INSUFFICIENT_BOND, NOT_YOURS, WRONG_STATE
from domain.ledger.messages import MsgWithdrawBond
from domain.ledger.moves import BURNT_POT
from domain.ledger.records import BondKind, Depositor
from domain.legs.reasons import LegEnd
from domain.market.records import OrderState
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, SeatAnswer, ShareState
from pol.rules.commitment import update_claim
from tests.support.chain_market import BOND, Market, Trace, make_work, submit

VALUE = 38_000
MISMATCH = ShareReason.SEGMENT_MISMATCH


def stand(trace: Trace, **changes: object) -> MsgStand:
    claim = trace.claim
    message = MsgStand(claim.provider, claim.order_id, claim.leg, claim.round, claim.slot, claim.issue, trace.roots)
    return replace(message, **changes)  # type: ignore[arg-type]


def rejected(
    work: str, accepted: str, segment: int = 0, reason: ShareReason = MISMATCH, market: Market | None = None
) -> tuple[Market, bytes, Trace]:
    """Return a market whose validator rejected the ``work`` of ``v0p0``, and accepted that of ``v0p1`` in its slot."""
    market = market or Market(validators=8)
    order_id = market.run()
    first = market.trace(order_id, 0, provider="v0p0", work=work)
    market.commit(order_id, first, market.trace(order_id, 1, provider="v0p1"))
    second = market.trace(order_id, 0, issue=2, provider="v0p1", work=accepted)
    market.commit(order_id, second, reject=[(first.ref, int(reason), segment)])
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    return market, order_id, first


def disputes(market: Market, order_id: bytes) -> tuple[Dispute, ...]:
    found: tuple[Dispute, ...] = market.chain.ask(DisputesRequest(order_id)).disputes
    return found


def honest_answers(market: Market, order_id: bytes, slot: int = 0) -> tuple[SeatAnswer, ...]:
    """Return the answers of seats that recompute the places of the open panel rightly."""
    roots, leaves = make_work(market.order(order_id), 0, slot, "right")
    places = market.panel(order_id, 0).places
    found = []
    for answer in market.answers(order_id):
        place = places[answer.place].place
        if place.kind is AuditKind.UPDATE:
            root = update_claim(roots.update_root, roots.local_out, roots.metrics)
        else:
            root = leaves[place.segment].boundary_root
        found.append(replace(answer, root=root))
    return tuple(found)


def decide(market: Market, order_id: bytes) -> None:
    """Let the panel of the stand decide."""
    market.about = disputes(market, order_id)[-1].number
    market.say_all(order_id, lambda: honest_answers(market, order_id))
    market.about = 0


def job_bond(market: Market, order_id: bytes) -> int:
    return sum(row.amount for row in market.all_of(order_id).escrow.bonds if row.kind is BondKind.JOB)


def stake(market: Market, name: str = "v0") -> int:
    return VALIDATORS.must(market.chain.overlay(), name).stake


def wealth(market: Market, name: str = "v0p0") -> int:
    """Return what an account has, with its free bond."""
    return market.chain.worth(name) + market.chain.bond(name)


def burnt_coins(market: Market) -> int:
    return POTS.get(market.chain.overlay(), BURNT_POT.name)


def verify(market: Market, order_id: bytes) -> None:
    market.answer_all(order_id, 0)
    market.chain.pass_until(market.round(order_id, 0).window_ends)


def test_a_right_share_that_was_rejected_is_paid_by_its_validator() -> None:
    """The accomplice's share differs in a place that no panel recomputes; the honest provider stands."""
    market, order_id, honest = rejected("right", "made up")
    before, had = wealth(market), stake(market) + job_bond(market, order_id)
    market.chain.ok(stand(honest))
    decide(market, order_id)
    ended = disputes(market, order_id)[-1]
    assert ended.state is DisputeState.UPHELD
    assert market.chain.bond("v0p0") == BOND
    assert wealth(market) == before + VALUE + VALUE  # the bond was locked before
    paid = sum(int(event.get("paid")) for event in market.chain.seen("panel.paid"))
    assert had - stake(market) - job_bond(market, order_id) == VALUE + paid
    share = next(s for s in market.shares(order_id) if s.claim == honest.claim)
    assert share.state is ShareState.RIGHT


def test_a_cheat_that_stands_is_judged_where_its_validator_found_the_mismatch() -> None:
    market, order_id, cheat = rejected("cheat", "right", segment=1)
    before, had = wealth(market), stake(market)
    market.chain.ok(stand(cheat))
    market.about = disputes(market, order_id)[-1].number
    panel = market.wait_stage(order_id)
    assert panel.places[0].place.segment == 1
    market.about = 0
    decide(market, order_id)
    assert disputes(market, order_id)[-1].state is DisputeState.FAILED
    added = disputes(market, order_id)[-1].bond - VALUE
    assert wealth(market) == before - added
    assert stake(market) == had
    verify(market, order_id)
    assert market.round(order_id, 0).verified
    assert market.chain.seen("share.compared") == []


def test_who_does_not_stand_loses_the_bond_of_a_share_that_differs() -> None:
    market, order_id, _ = rejected("cheat", "right")
    verify(market, order_id)
    before, burnt = wealth(market), burnt_coins(market)
    assert market.round(order_id, 0).verified
    closed = market.round(order_id, 0)
    market.chain.pass_until(closed.closed_at + 62)
    assert wealth(market) == before
    assert burnt_coins(market) == burnt + VALUE
    market.settle(order_id)
    assert market.chain.bond("v0p0") == BOND - VALUE


def test_who_was_silent_keeps_the_bond_and_cannot_stand() -> None:
    market, order_id, silent = rejected("cheat", "right", reason=ShareReason.NO_ANSWER)
    market.chain.refused(WRONG_STATE, stand(silent))
    verify(market, order_id)
    assert market.chain.bond("v0p0") == BOND


def test_a_stand_holds_neither_its_round_nor_the_settlement() -> None:
    market, order_id, cheat = rejected("cheat", "right", segment=1)
    market.chain.ok(stand(cheat))
    verify(market, order_id)
    assert market.round(order_id, 0).verified
    market.train_round(order_id)
    market.answer_all(order_id, 1)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)
    assert market.chain.seen("order.settled")


def test_nobody_stands_twice_or_for_the_share_of_another() -> None:
    market, _, honest = rejected("right", "made up")
    market.chain.refused(NOT_YOURS, stand(honest, provider="v0p1"))
    market.chain.ok(stand(honest))
    market.chain.refused(WRONG_STATE, stand(honest))


def test_a_share_that_equals_the_accepted_one_needs_no_stand() -> None:
    market, _, honest = rejected("right", "right")
    market.chain.refused(WRONG_STATE, stand(honest))


def test_no_share_stands_when_its_time_is_over() -> None:
    market, order_id, honest = rejected("right", "made up")
    market.chain.pass_until(market.round(order_id, 0).closed_at + 60)
    market.chain.refused(DEADLINE_PASSED, stand(honest))


def test_a_leg_that_fails_saves_no_bond_of_a_wrong_share() -> None:
    """The validator and the provider have one owner: the leg fails before the provider's time to stand is over."""
    market = Market(validators=8)
    order_id = market.run()
    cheat = market.trace(order_id, 0, provider="v0p0", work="made up")
    market.commit(order_id, cheat, market.trace(order_id, 1, provider="v0p1"))
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, again, reject=[(cheat.ref, int(MISMATCH), 0)])
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    verify(market, order_id)
    market.train_round(order_id)
    market.fault_round(order_id, 1)
    market.chain.block()
    assert market.order(order_id).state is OrderState.OPEN
    assert market.chain.bond("v0p0") < BOND
    market.chain.pass_until(market.round(order_id, 0).closed_at + 60)
    share = next(s for s in market.shares(order_id) if s.claim == cheat.claim)
    assert market.chain.bond("v0p0") == BOND - share.bond


def void_by_validator(*, rematch: bool) -> tuple[Market, bytes, list[Trace]]:
    """Return a market whose validator served nothing of a closed round to the seats, so that the round is void."""
    market = Market(validators=12)
    order_id = market.run(submit(rematch=rematch))
    traces = market.traces_of_round(order_id)
    market.commit(order_id, *traces)
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    market.fault_round(order_id, 0)
    return market, order_id, traces


def test_right_shares_of_a_round_that_their_validator_made_void_are_paid() -> None:
    """The consumer and the validator have one owner: the providers delivered, and then no seat is served."""
    market, order_id, (first, second) = void_by_validator(rematch=False)
    assert market.leg(order_id).end_reason == LegEnd.WRONG_ROUND
    before, had = wealth(market), stake(market)
    market.chain.ok(stand(first), stand(second))
    for number in (1, 2):
        market.about = number
        slot = number - 1
        market.say_all(order_id, partial(honest_answers, market, order_id, slot))
    market.about = 0
    assert [each.state for each in disputes(market, order_id)] == [DisputeState.UPHELD] * 2
    assert wealth(market) == before + VALUE
    assert stake(market) < had - 2 * VALUE


def test_an_order_closes_when_its_providers_had_the_time_to_stand() -> None:
    market, order_id, (first, _) = void_by_validator(rematch=False)
    assert market.order(order_id).state is not OrderState.CLOSED
    assert market.chain.bond("v0p0") == BOND
    market.chain.ok(stand(first))
    assert market.chain.bond("v0p0") <= BOND - VALUE
    market.chain.pass_until(market.round_of(order_id, 1, 0).void_at + 62)
    assert market.order(order_id).state is not OrderState.CLOSED
    decide(market, order_id)
    market.chain.block()
    market.chain.block()
    assert market.order(order_id).state is OrderState.CLOSED
    assert market.chain.bond("v0p0") == BOND


def test_a_depositor_is_not_paid_for_its_share() -> None:
    market, order_id, (first, _) = void_by_validator(rematch=False)

    def deposit(overlay: Overlay) -> None:
        row = Depositor(address="v0p0", locked=0, paid=0, refunded=0)
        ESCROWS.update(overlay, order_id, depositors=(*ESCROWS.must(overlay, order_id).depositors, row))

    market.chain.change(deposit)
    market.chain.refused(WRONG_STATE, stand(first))


def test_who_was_found_wrong_in_a_leg_is_not_paid_for_another_share_of_it() -> None:
    market, order_id, (first, _) = void_by_validator(rematch=False)
    market.chain.change(lambda overlay: WRONG_PROVIDERS.mark(overlay, order_id, 1, "v0p0"))
    market.chain.refused(WRONG_STATE, stand(first))


def test_no_share_stands_in_a_round_that_is_not_void_by_its_validator() -> None:
    market = Market(validators=8)
    order_id = market.run()
    first, second = market.traces_of_round(order_id)
    market.commit(order_id, first, second)
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    market.chain.refused(WRONG_STATE, stand(first))


def test_a_stand_needs_a_bond_that_pays_its_seats() -> None:
    market, _, honest = rejected("right", "made up")
    free = market.chain.bond("v0p0")
    market.chain.ok(MsgWithdrawBond("v0p0", free))
    market.chain.refused(INSUFFICIENT_BOND, stand(honest))
