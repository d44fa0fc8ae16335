"""Held shares: a validator signs tasks of one issue for two providers, and commits the share of its accomplice.

The chain gives the other share an issue of its own, so that its provider loses nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.invariant import InvariantBroken
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.proof.handlers.ask_receipt import find_ask_duty
from chain.state_machine.proof.handlers.include_share import find_duty
from chain.state_machine.proof.invariants import check_held_shares
from chain.state_machine.proof.tables import HELD_COUNTS, HELD_ISSUES, SHARES, TAKING
from chain.state_machine.store import Overlay
from domain.disputes.messages import MsgStand
from domain.disputes.queries import DisputesRequest
from domain.errors import ALREADY_EXISTS, BAD_FIELD, BAD_PROOF, LIMIT_REACHED, NOT_YOURS, WRONG_STATE
from domain.keys import ShareKey
from domain.ledger.moves import BURNT_POT
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, SeatAnswer, Share, ShareState
from pol.rules.commitment import update_claim
from pol.rules.inclusion import HELD_ISSUES_FROM, HELD_SHARES_MAX
from tests.support.chain_market import BOND, Trace, sign_share
from tests.support.covered import CoverMarket
from tests.support.delivered import Sent, spoil
from tests.support.included import InclusionMarket, sign_task

VALUE = 38_000
FIRST = HELD_ISSUES_FROM


def begun() -> tuple[InclusionMarket, bytes, Trace, Sent]:
    """Return a market in which ``v0p0`` has trained slot 0, and its validator has committed only slot 1."""
    market = InclusionMarket(validators=6, providers=4)
    order_id = market.run()
    trace = market.delivered_trace(order_id, 0, provider="v0p0")
    market.commit(order_id, market.delivered_trace(order_id, 1, provider="v0p1"))
    return market, order_id, trace, market.send(order_id, trace)


def betray(market: InclusionMarket, order_id: bytes, work: str = "right") -> Trace:
    """Commit a share of an accomplice under the issue of the honest provider's task."""
    trace = market.delivered_trace(order_id, 0, work, provider="v0p2")
    market.commit(order_id, trace)
    return trace


def close(market: InclusionMarket, order_id: bytes) -> None:
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))


def verify(market: InclusionMarket, order_id: bytes) -> None:
    market.answer_all(order_id, 0)
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    while not market.round(order_id, 0).verified:
        market.chain.pass_time(5)


def worth(market: InclusionMarket, name: str) -> int:
    return market.chain.worth(name) + market.chain.bond(name)


def burnt_coins(market: InclusionMarket) -> int:
    return POTS.get(market.chain.overlay(), BURNT_POT.name)


def stand(trace: Trace, **changes: Any) -> MsgStand:
    claim = trace.claim
    message = MsgStand(claim.provider, claim.order_id, claim.leg, claim.round, claim.slot, claim.issue, trace.roots)
    return replace(message, **changes)


def held(market: InclusionMarket, order_id: bytes) -> list[Share]:
    return [share for share in market.shares(order_id) if share.held_as]


# --- what it is for ---


@pytest.mark.parametrize("when", ["open", "closed"])
def test_a_provider_is_paid_although_an_accomplice_has_its_issue(when: str) -> None:
    market, order_id, trace, sent = begun()
    before = worth(market, "v0p0")
    message = market.include(trace, deadline=market.chain.clock + 10**6)
    accomplice = betray(market, order_id)
    if when == "closed":
        close(market, order_id)
    market.chain.ok(message)
    (share,) = held(market, order_id)
    assert (share.key.issue, share.claim.issue, share.reason) == (FIRST, 1, ShareReason.INCLUDED)
    market.chain.ok(market.show_key(sent))
    if when == "open":
        close(market, order_id)
    # The accomplice's share keeps its slot and its money.
    assert market.share_of(order_id, accomplice).state is ShareState.ACCEPTED
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert worth(market, "v0p0") == before + VALUE
    assert market.chain.bond("v0p0") == BOND


def test_witnesses_help_against_an_accomplice_with_the_same_issue() -> None:
    market, order_id, trace, sent = begun()
    before = worth(market, "v0p0")
    betray(market, order_id)
    market.chain.ok(market.ask(sent))
    for name in market.wait_witnesses(sent).witnesses:
        market.chain.ok(market.witness(sent, name))
    market.chain.ok(market.show_key(sent, signature=b""))
    paid = market.ask_of(sent).paid
    assert paid
    close(market, order_id)
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert worth(market, "v0p0") == before + VALUE
    assert market.chain.bond("v0p0") == BOND - paid


def test_a_request_is_for_the_own_share_and_not_for_the_one_with_the_issue() -> None:
    """The accomplice asks for witnesses first, and has a posted receipt."""
    market, order_id, trace, sent = begun()
    accomplice = betray(market, order_id)
    other = market.send(order_id, accomplice)
    market.chain.ok(market.ask(other), market.include(trace))
    assert find_ask_duty(market.chain.overlay(), market.ask(sent)) is not None
    market.chain.ok(market.ask(sent))
    market.chain.refused(ALREADY_EXISTS, market.ask(sent))
    assert find_ask_duty(market.chain.overlay(), market.ask(sent)) is None
    assert market.ask_of(sent).issue == FIRST
    assert market.ask_of(other).issue == 1


def test_a_share_that_the_accomplice_only_includes_keeps_no_one_out() -> None:
    market, order_id, trace, _ = begun()
    market.chain.ok(market.include(market.delivered_trace(order_id, 0, provider="v0p2")), market.include(trace))
    assert [share.claim.provider for share in held(market, order_id)] == ["v0p0"]


def test_the_provider_stands_for_a_held_share() -> None:
    """The accomplice's share differs in a place that no panel recomputes. The panel of the stand is about the other."""
    market, order_id, trace, sent = begun()
    before = worth(market, "v0p0")
    betray(market, order_id, "made up")
    right = market.content(order_id, 0)
    market.chain.ok(market.include(trace, deadline=market.chain.clock + 10**6))
    market.chain.ok(market.show_key(sent))
    close(market, order_id)
    share = market.share_of(order_id, trace)
    market.chain.refused(NOT_YOURS, stand(trace, issue=1))
    market.chain.ok(stand(trace, issue=share.key.issue))
    (dispute,) = market.chain.ask(DisputesRequest(order_id)).disputes
    market.about = dispute.number
    panel = market.wait_stage(order_id)
    assert {place.place.issue for place in panel.places} == {FIRST}
    update = update_claim(right.roots.update_root, right.roots.local_out, right.roots.metrics)

    def answers() -> tuple[SeatAnswer, ...]:
        places = [place.place for place in market.panel(order_id, 0).places]
        roots = [update if p.kind is AuditKind.UPDATE else right.leaves[p.segment].boundary_root for p in places]
        return tuple(replace(answer, root=roots[answer.place]) for answer in market.answers(order_id))

    market.traces[order_id, 1, 0, share.key.ref] = trace
    market.say_all(order_id, answers)
    market.about = 0
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert worth(market, "v0p0") == before + VALUE


class TakingMarket(InclusionMarket, CoverMarket):
    """A market in which shares can be included, and a panel can find one wrong."""


def test_a_leg_that_continues_takes_held_shares_over_and_gives_their_numbers_to_no_other() -> None:
    for waited in range(20):
        market = TakingMarket({f"v0p{number}": (1, 0) for number in range(4)})
        order_id = market.begin(rounds=3)
        market.chain.pass_time(waited)  # so that other beacons draw
        trace = market.delivered_trace(order_id, 1, provider="v0p0")
        sent = market.send(order_id, trace)
        before = worth(market, "v0p0")
        accomplice = market.delivered_trace(order_id, 1, provider="v0p2")
        market.commit(order_id, market.delivered_trace(order_id, 0, provider="v0p1"), accomplice)
        market.chain.ok(market.include(trace))
        market.chain.ok(market.show_key(sent))
        close(market, order_id)
        wrong = market.find_wrong(order_id)
        if wrong is not None and wrong.claim.slot == 0:
            break
    else:
        raise AssertionError("no beacon drew a segment of slot 0 outside the duty")
    market.chain.pass_time(market.order(order_id).window + 2)
    while market.leg(order_id).number == 1 or TAKING.has(market.chain.overlay(), order_id, 2):
        market.chain.block()
    assert market.share_of(order_id, accomplice).key == ShareKey(order_id, 2, 0, 1, 1)
    assert market.share_of(order_id, trace).key == ShareKey(order_id, 2, 0, 1, FIRST)
    market.chain.refused(ALREADY_EXISTS, market.include(trace))
    # The validator signs tasks of the first issue again, which now has a share that the leg has taken over.
    for name in ("v0p2", "v0p3"):
        again = market.delivered_trace(order_id, 1, provider=name)
        market.chain.ok(market.include(again))
        market.chain.refused(ALREADY_EXISTS, market.include(again))
    issues = [share.key.issue for share in market.shares(order_id) if share.key.leg == 2 and share.held_as]
    assert issues == [FIRST, FIRST + 1, FIRST + 2]
    market.traces.pop((order_id, 2, 0, trace.ref))  # the share with this issue is the accomplice's
    market.commit(order_id, market.delivered_trace(order_id, 0, provider="v0p3", issue=2))
    close(market, order_id)
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert worth(market, "v0p0") - before == sum(
        int(event.get("paid")) for event in market.chain.seen("share.compared")
    )
    assert worth(market, "v0p0") > before


# --- what must not be gained by it ---


@pytest.mark.parametrize("work", ["right", "made up"])
def test_a_provider_that_delivered_nothing_is_not_paid_and_loses_nothing(work: str) -> None:
    market, order_id, trace, _ = begun()
    before = worth(market, "v0p0")
    betray(market, order_id, work)
    market.chain.ok(market.include(trace))
    close(market, order_id)
    verify(market, order_id)
    assert worth(market, "v0p0") == before
    assert market.chain.bond("v0p0") == BOND


def test_a_held_share_keeps_no_slot_and_frees_none() -> None:
    market, order_id, trace, _ = begun()
    betray(market, order_id)
    market.chain.ok(market.include(trace))
    market.commit(order_id, market.delivered_trace(order_id, 0, issue=2, provider="v0p3"))
    assert market.skipped() == [ShareReason.SLOT_TAKEN]
    betrayed = market.traces[order_id, 1, 0, trace.ref]
    assert betrayed.claim.provider == "v0p2"


def test_a_held_share_cannot_be_committed() -> None:
    market, order_id, trace, _ = begun()
    accomplice = betray(market, order_id)
    market.chain.ok(market.include(trace))
    market.commit(order_id, reject=[(accomplice.ref, int(ShareReason.NO_ANSWER))])
    (share,) = held(market, order_id)
    as_held = sign_share(replace(trace.claim, issue=share.held_as))
    market.commit(order_id, trace, as_held)
    assert set(market.skipped()) <= {ShareReason.WRONG_ISSUE, ShareReason.OTHER_COMMITMENT, ShareReason.MALFORMED}
    assert len(market.skipped()) == 2


def test_no_task_has_an_issue_that_the_chain_gives() -> None:
    """Otherwise a validator could take the issue of the next held share, and stop the chain or keep the share out."""
    market, order_id, trace, _ = begun()
    taken = market.delivered_trace(order_id, 0, provider="v0p3", issue=FIRST)
    market.commit(order_id, taken)
    assert market.skipped() == [ShareReason.MALFORMED]
    market.chain.refused(BAD_FIELD, market.include(taken), field="issue")
    market.chain.refused(BAD_FIELD, market.ask(market.send(order_id, taken)), field="issue")
    last = market.delivered_trace(order_id, 0, provider="v0p3", issue=FIRST - 1)
    market.chain.ok(market.include(last))
    betray(market, order_id)
    market.chain.ok(market.include(trace))
    assert held(market, order_id)[0].claim == trace.claim


def test_a_held_share_is_included_once() -> None:
    market, order_id, trace, _ = begun()
    betray(market, order_id)
    message = market.include(trace)
    assert find_duty(market.chain.overlay(), message) is not None
    market.chain.ok(message)
    assert find_duty(market.chain.overlay(), message) is None
    market.chain.refused(ALREADY_EXISTS, message)
    other = sign_share(replace(trace.claim, commitment=bytes(32)))
    market.chain.refused(ALREADY_EXISTS, market.include(replace(trace, signed=other)))
    assert len(held(market, order_id)) == 1


def test_a_held_share_needs_a_task_of_its_own() -> None:
    market, order_id, trace, _ = begun()
    accomplice = betray(market, order_id)
    until = market.chain.clock + 60
    key = trace.claim.key
    others = sign_task(key, accomplice.claim.provider, until)
    market.chain.refused(BAD_PROOF, market.include(trace, deadline=until, task_signature=others))
    as_held = replace(key, issue=FIRST)
    market.chain.refused(
        BAD_PROOF, market.include(trace, deadline=until, task_signature=sign_task(as_held, "v0p0", until))
    )


def test_keys_and_receipts_of_the_share_with_the_issue_do_not_fit_the_held_one() -> None:
    market, order_id, trace, sent = begun()
    accomplice = betray(market, order_id)
    market.chain.ok(market.include(trace))
    other = market.send(order_id, accomplice)
    # The honest provider's key for the accomplice's share, and the other way round.
    market.chain.refused(NOT_YOURS, market.show_key(sent, issue=1))
    market.chain.refused(NOT_YOURS, market.show_key(other, issue=FIRST))
    # The validator's receipt for the accomplice.
    stolen = market.sign_receipt(other)
    market.chain.refused(BAD_PROOF, market.show_key(sent, signature=stolen))
    # A validator posts receipts only for committed shares.
    market.chain.refused(WRONG_STATE, market.receipt(sent, issue=FIRST))
    market.chain.ok(market.show_key(sent))
    assert market.share_of(order_id, trace).is_received
    assert not market.share_of(order_id, accomplice).is_received


def test_noise_for_a_held_share_earns_nothing() -> None:
    market, order_id, trace, sent = begun()
    before = worth(market, "v0p0")
    betray(market, order_id)
    noise = spoil(sent, market.content(order_id, 0))
    market.chain.ok(market.include(trace))
    market.chain.ok(market.show_key(noise))
    market.chain.ok(market.show_chunk(noise, 0))
    close(market, order_id)
    verify(market, order_id)
    assert worth(market, "v0p0") == before - 100


def test_each_accomplice_with_the_same_work_costs_its_validator_the_value_twice() -> None:
    """Tasks of one issue for many accounts give nothing that tasks of many issues do not give."""
    market, order_id, _, __ = begun()
    names = ("v0p0", "v0p1", "v0p3")
    betray(market, order_id)
    before = {name: worth(market, name) for name in names}
    burnt = burnt_coins(market)
    for name in names:
        trace = market.delivered_trace(order_id, 0, provider=name)
        market.chain.ok(market.include(trace))
        market.chain.ok(market.show_key(market.send(order_id, trace)))
    betrayed = market.delivered_trace(order_id, 0, provider="v0p2")
    assert market.share_of(order_id, betrayed).state is ShareState.COMMITTED
    close(market, order_id)
    verify(market, order_id)
    for name in ("v0p0", "v0p3"):
        assert worth(market, name) - before[name] == VALUE
    assert burnt_coins(market) - burnt >= 3 * VALUE
    assert sorted(share.held_as for share in held(market, order_id)) == [FIRST, FIRST + 1, FIRST + 2]


def test_bonds_of_held_shares_return_when_their_leg_fails() -> None:
    market, order_id, trace, _ = begun()
    betray(market, order_id)
    market.chain.ok(market.include(trace))
    market.chain.pass_until(market.leg(order_id).progress_deadline + 1)
    assert market.chain.bond("v0p0") == BOND


def test_many_held_shares_are_compared_in_steps_and_none_is_kept_out_by_them() -> None:
    market, order_id, trace, _ = begun()
    until = market.chain.clock + 10**6
    betray(market, order_id)
    for issue in range(2, 72):
        market.chain.ok(
            market.include(market.delivered_trace(order_id, 0, provider="v0p3", issue=issue), deadline=until)
        )
        market.chain.ok(
            market.include(market.delivered_trace(order_id, 0, provider="v0p0", issue=issue), deadline=until)
        )
    market.delivered_trace(order_id, 0, provider="v0p2")
    market.chain.ok(market.include(trace, deadline=until))
    close(market, order_id)
    verify(market, order_id)
    assert len(held(market, order_id)) == 71
    assert {share.state for share in held(market, order_id)} == {ShareState.RIGHT}
    assert {market.chain.bond(name) for name in ("v0p0", "v0p3")} == {BOND}


def test_an_order_holds_as_many_shares_as_there_are_numbers() -> None:
    market, order_id, trace, _ = begun()
    betray(market, order_id)
    market.chain.checked = False
    market.chain.change(lambda store: HELD_COUNTS.set(store, HELD_SHARES_MAX - 1, order_id))
    market.chain.ok(market.include(trace))
    assert held(market, order_id)[0].held_as == 2**32 - 2
    another = market.delivered_trace(order_id, 0, provider="v0p3")
    market.chain.refused(LIMIT_REACHED, market.include(another))


def test_records_of_held_shares_that_do_not_fit_stop_the_chain() -> None:
    market, order_id, trace, _ = begun()
    betray(market, order_id)
    market.chain.ok(market.include(trace))
    share = market.share_of(order_id, trace)

    def free_issue(store: Overlay) -> None:
        free = replace(share, claim=replace(share.claim, issue=9))
        SHARES.put(store, free)
        HELD_ISSUES.delete(store, *trace.claim.key, "v0p0")
        HELD_ISSUES.set(store, FIRST, *free.claim.key, "v0p0")

    def lose_issue(store: Overlay) -> None:
        HELD_ISSUES.delete(store, *trace.claim.key, "v0p0")

    def count_another(store: Overlay) -> None:
        HELD_COUNTS.set(store, 2, order_id)

    def keep_slot(store: Overlay) -> None:
        SHARES.put(store, replace(share, state=ShareState.ACCEPTED))

    breaks: dict[str, Callable[[Overlay], None]] = {
        "does not find its held shares": lose_issue,
        "counts its held shares wrong": count_another,
        "holds a share whose issue is free": free_issue,
        "has a held share that keeps a slot": keep_slot,
    }
    for problem, change in breaks.items():
        store = market.chain.overlay()
        change(store)
        with pytest.raises(InvariantBroken, match=problem):
            check_held_shares(store, market.order(order_id))
