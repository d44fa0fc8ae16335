"""Decisions about an order that was won: the record, the chain and the clock in; record and actions out."""

from dataclasses import replace
from typing import Any

import pytest

from domain.amount import BPS, price_ceil
from domain.keys import ShareRef
from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.records import Conditions, OrderState
from domain.proof.messages import AcceptedShare, MsgAcceptShares, MsgCloseRound, MsgCommitTraces, Rejection
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, AuditPlace, PanelPlace, Ruling, Share, ShareState
from link.types import BlobRef, ShareSubmission
from pol.rules.schedule import segment_work, share_segments, share_work
from pol.rules.stops import AGGREGATION
from pol.rules.tiers.table import least_multiple
from tests.support.chain_market import ANY, digest
from tests.unit.validator.support import (
    FILES,
    ORDER_ID,
    PARAMS,
    TERMS,
    WORKERS,
    about,
    chain,
    claim_of,
    closed,
    ended,
    loaded,
    packet_of,
    segment,
    share_key,
    share_of,
    signed_of,
    state,
    view,
    works,
)
from validator.decide import actions as do
from validator.decide.admission import Backing
from validator.decide.assign import PATIENCE, anchors_of, give_out
from validator.decide.orders import decide_order as decide
from validator.decide.plan import FreeProvider
from validator.decide.receive import (
    opening_verified,
    payload_complete,
    payload_offered,
    sealed,
    segment_checked,
    state_recomputed,
)
from validator.decide.records import (
    CheckedSegment,
    LegKey,
    LocalOrder,
    Opening,
    SealedResult,
    exclude,
    new_order,
)
from validator.decide.retention import fold, needed_blobs, served_rounds
from validator.decide.rounds import OPEN_SECONDS, aggregated, not_aggregated, segments_to_check
from validator.decide.tasks import open_tasks
from validator.decide.view import View

KEY = LegKey(ORDER_ID, 1)
MATCHED = {"state": LegState.MATCHED}


def messages(actions: tuple[do.Action, ...]) -> list[object]:
    return [m for a in actions if isinstance(a, do.SendTx) for m in a.messages]


# Matched


def test_nothing_is_sent_while_the_payload_may_still_come() -> None:
    local = new_order(ORDER_ID, 1)
    assert decide(local, view(chain(assigned=MATCHED), 9)) == (local, ())


@pytest.mark.parametrize("clock", [10, 19])
def test_an_undelivered_payload_is_declined_before_the_deadline(clock: int) -> None:
    local = payload_offered(new_order(ORDER_ID, 1), FILES)
    _, actions = decide(local, view(chain(assigned=MATCHED), clock))
    assert messages(actions) == [MsgDeclineOrder("v0", ORDER_ID, 1, LegEnd.PAYLOAD_NOT_DELIVERED)]
    assert decide(local, view(chain(assigned=MATCHED), 9))[1] == ()


def test_a_payload_that_comes_too_late_for_a_trial_is_its_senders_fault() -> None:
    """The trial has half the time at most, however slow the bid says that a slot is."""
    local = payload_offered(new_order(ORDER_ID, 1), FILES)
    for speed, latest in ((10**9, 60), (2 * 10**6, 38), (10**5, 35)):
        assigned = {**MATCHED, "slot_speed": speed, "accept_deadline": 100}
        assert decide(local, view(chain(assigned=assigned), latest - 1))[1] == (), speed
        _, actions = decide(local, view(chain(assigned=assigned), latest))
        assert messages(actions) == [MsgDeclineOrder("v0", ORDER_ID, 1, LegEnd.PAYLOAD_NOT_DELIVERED)]


def test_a_payload_is_tried_until_the_deadline_is_near_and_then_declined_for_a_fee() -> None:
    local = payload_complete(payload_offered(new_order(ORDER_ID, 1), FILES))
    now = chain(assigned=MATCHED)
    for clock in (5, 13):
        _, early = decide(local, view(now, clock))
        assert early == (do.TryJob(f"{ORDER_ID.hex()}/1/try", KEY, now.order, now.legs[0], 12),)
    _, late = decide(local, view(now, 14))
    assert messages(late) == [MsgDeclineOrder("v0", ORDER_ID, 1, LegEnd.DECLINED_NO_CAPACITY)]


def test_a_loaded_job_is_accepted_until_the_deadline_and_not_later() -> None:
    _, actions = decide(loaded(), view(chain(assigned=MATCHED), 19))
    assert messages(actions) == [MsgAcceptOrder("v0", ORDER_ID, 1)]
    assert decide(loaded(), view(chain(assigned=MATCHED), 20))[1] == ()


# A round


def planned(clock: int = 10) -> LocalOrder:
    return decide(loaded(), view(chain(), clock))[0]


def with_packets(local: LocalOrder) -> LocalOrder:
    (current,) = local.rounds
    held = tuple(replace(w, signed=signed_of(local, w), packet=packet_of(local, w)) for w in current.works)
    return replace(local, rounds=(replace(current, works=held),))


def on_chain(local: LocalOrder, **changes: object) -> OrderResponse:
    shares = tuple(share_of(w.signed, **changes) for w in works(local) if w.signed)
    return chain(shares=shares)


def with_openings(local: LocalOrder, *indices: int, verified: bool = False) -> LocalOrder:
    (current,) = local.rounds
    openings = tuple(Opening(i, BlobRef(digest("g", i), 100), BlobRef(digest("l", i), 50), verified) for i in indices)
    held = tuple(replace(w, openings=openings) for w in current.works)
    return replace(local, rounds=(replace(current, works=held),))


def all_checked(local: LocalOrder, now: OrderResponse) -> LocalOrder:
    (current,) = local.rounds
    for work in current.works:
        share = next(s for s in now.shares if s.claim.slot == work.slot)
        for index in segments_to_check(current, work, share):
            checked = CheckedSegment(index, ShareReason.NONE, digest("root"))
            local = segment_checked(local, share_key(work.slot, work.issue), checked)
    return local


def test_the_slots_of_a_round_go_to_those_who_are_there() -> None:
    local = planned()
    assert [(w.slot, w.issue, w.provider) for w in works(local)] == [(0, 1, "p0"), (1, 1, "p1")]
    assert all(w.local_in == local.payload.initial_local for w in works(local))
    nobody = decide(loaded(), view(chain(), workers=()))
    assert nobody == (loaded(), ())


def test_an_attested_order_has_the_bond_of_its_lower_chance_if_all_providers_can_lock_it() -> None:
    """One provider without a credential, or without the coins, keeps the chance of its round high."""
    taking = replace(ANY, attested=True)

    def multiples(*bonds: int, conditions: Conditions = taking) -> set[int]:
        workers = tuple(replace(each, attested_bond=bond) for each, bond in zip(WORKERS, bonds, strict=True))
        on_chain = chain(ordered={"conditions": conditions}, assigned={"tier": "sampled", "job_bond": 10**12})
        local, _ = decide(loaded(), view(on_chain, workers=workers))
        return {work.backing.multiple for work in works(local)}

    on_chain = chain(ordered={"conditions": taking}, assigned={"tier": "sampled", "job_bond": 10**12})
    usual = least_multiple(on_chain.order, on_chain.legs[0])
    raised = least_multiple(on_chain.order, on_chain.legs[0], attested=True)
    assert usual < raised
    bond = raised * price_ceil(share_work(TERMS), on_chain.legs[0].price)
    assert multiples(bond, bond) == {raised}
    assert multiples(bond, 0) == multiples(bond, bond - 1) == {usual}
    assert multiples(bond, bond, conditions=ANY) == {usual}


def test_a_round_that_is_planned_is_not_planned_again() -> None:
    local = planned()
    again, actions = decide(local, view(chain(), 11, workers=(*WORKERS, FreeProvider("p2", 10**12))))
    assert (again, actions) == (local, ())


def test_all_shares_that_are_here_go_on_chain_in_one_message() -> None:
    local, actions = decide(with_packets(planned()), view(chain()))
    (message,) = messages(actions)
    assert isinstance(message, MsgCommitTraces)
    assert [s.claim.slot for s in message.shares] == [0, 1]
    assert not message.rejections
    assert decide(local, view(on_chain(local, drawn=(), is_drawn=False)))[1] == ()


def test_who_does_not_answer_is_replaced_by_the_other() -> None:
    local = planned()
    late = max(w.answer_by for w in works(local))
    assert decide(local, view(chain(), late - 1))[0] == local
    after, _ = decide(local, view(chain(), late, workers=WORKERS[1:]))
    first, *_ = sorted(works(after), key=lambda w: (w.slot, w.issue))
    assert (first.verdict, first.settled) == (ShareReason.NO_ANSWER, True)
    assert {w.provider for w in works(after) if w.issue == 2} == {"p1"}
    assert after.excluded == ()


def distant(**changes: Any) -> OrderResponse:
    """Return a chain with much time for each share, which takes some time."""
    terms = replace(TERMS, step_work=2 * 10**9)
    return chain(assigned={"progress_deadline": 100_000}, ordered={"terms": terms}, **changes)


def test_who_is_gone_is_waited_for_until_the_deadline_of_its_task_and_no_longer() -> None:
    """Until then, it can put its share on chain itself and be paid, also if another provider has the slot."""
    far = distant()
    local, _ = decide(loaded(), view(far))
    first = next(works(local))
    term = first.answer_by - 10
    assert (first.wait_until - 10) // 2 == term > PATIENCE
    gone = {"workers": WORKERS[1:]}
    assert not [w for w in works(decide(local, view(far, first.answer_by - 1, **gone))[0]) if w.issue == 2]
    after, _ = decide(local, view(far, first.answer_by, **gone))
    assert [(w.slot, w.provider) for w in works(after) if w.issue == 2] == [(first.slot, "p1")]


def test_the_deadline_moves_on_while_the_provider_is_there_and_never_back() -> None:
    far = distant()
    local, _ = decide(loaded(), view(far))
    (term,) = {w.answer_by - 10 for w in works(local)}
    (most,) = {w.wait_until for w in works(local)}
    half = 10 + term - term // 2
    # All providers are there; or none is, so that no other provider could take the slot.
    for there in (WORKERS, ()):
        assert decide(local, view(far, half - 1, workers=there))[0] == local
        moved, _ = decide(local, view(far, half, workers=there))
        assert {w.answer_by for w in works(moved)} == {half + term}
        last, _ = decide(moved, view(far, half + term - 1, workers=there))
        assert {w.answer_by for w in works(last)} == {most}
        assert decide(last, view(far, most - 1, workers=there))[0] == last
    late = [w for w in works(decide(moved, view(far, most, workers=WORKERS))[0]) if w.issue == 1]
    assert {(w.answer_by, w.verdict) for w in late} == {(most, ShareReason.NO_ANSWER)}
    # One that was found wrong gets no more time than it has.
    bad = exclude(local, "p0")
    assert [w.answer_by for w in works(decide(bad, view(far, half))[0]) if w.provider == "p0"] == [10 + term]
    # Nor has a task of an older record, which names no longest time.
    (current,) = local.rounds
    old = local.put(replace(current, works=tuple(replace(w, wait_until=0) for w in current.works)))
    assert decide(old, view(far, half))[0] == old
    # A share that is handed in needs no more time.
    signed = with_packets(local)
    assert {w.answer_by for w in works(decide(signed, view(far, half))[0])} == {10 + term}


def test_who_is_away_for_a_moment_keeps_its_share_however_small_it_is() -> None:
    local, _ = decide(planned(), view(chain(), workers=WORKERS[1:]))
    (left,) = {w.answer_by - 10 for w in works(local)}
    assert left // 4 < PATIENCE
    assert decide(local, view(chain(), 9 + PATIENCE, workers=WORKERS[1:]))[0] == local


def test_a_faster_provider_serves_more_slots_and_its_shares_have_time_by_their_place() -> None:
    """It trains one after another, so the second of them cannot be there when the first is."""
    terms = replace(TERMS, slots=4, step_work=10**9)
    far = chain(assigned={"progress_deadline": 100_000}, ordered={"terms": terms})
    local, _ = decide(loaded(), view(far, workers=(FreeProvider("p0", 10**9), FreeProvider("p1", 4 * 10**9))))
    queue = [w for w in works(local) if w.provider == "p1"]
    assert [(w.slot, w.provider) for w in works(local)] == [
        (0, "p1"),
        (1, "p1"),
        (2, "p1"),
        (3, "p0"),
    ]
    first, second, third = (work.wait_until - 10 for work in queue)
    assert (second, third) == (2 * first, 3 * first)


def test_a_newcomer_serves_few_slots_until_they_held() -> None:
    """The next one is given when the validator has replayed the one before; then the round closes as ever."""
    params = replace(chain().order.params, newcomer_slots=1)
    alone = (FreeProvider("p0", 10**9, newcomer=True),)
    ordered = {"params": params}
    local, _ = decide(loaded(), view(chain(ordered=ordered), workers=alone))
    (work,) = works(local)
    assert (work.slot, work.provider) == (0, "p0")
    local, actions = decide(local, view(chain(ordered=ordered), workers=alone))
    assert len(list(works(local))) == 1
    assert actions == ()
    # With somebody who is known, it is not waited for.
    both = (*alone, FreeProvider("p1", 1))
    local_of_both, _ = decide(loaded(), view(chain(ordered=ordered), workers=both))
    assert [w.provider for w in works(local_of_both)] == ["p0", "p1"]
    # Nobody is given the other slot while the first one is only committed.
    local, shares = verified_first(local)
    for is_drawn, slots in ((False, [0]), (True, [0, 1])):
        drawn_shares = tuple(replace(share, is_drawn=is_drawn) for share in shares)
        now = chain(ordered=ordered, shares=drawn_shares)
        after, actions = decide(local, view(now, workers=alone))
        assert [w.slot for w in works(after)] == slots
        assert not any(isinstance(action, do.Aggregate) for action in actions)


def test_a_cautious_provider_gets_no_task_that_bonds_would_not_pay() -> None:
    """An earlier round may still become void by another provider's fault, and its own share with it."""
    for cover, ahead, given in ((0, 0, 2), (0, 1, 0), (BPS, 1, 2), (BPS, 2, 0)):
        backing = Backing(cover=cover)
        worker = FreeProvider("p0", 10**9, backing=backing, cautious=True)
        # The job bond pays the shares of two rounds.
        bond = 2 * 2 * price_ceil(share_work(TERMS), chain().legs[0].price)
        now = chain(assigned={"round": ahead, "job_bond": bond})
        issued = give_out(loaded(), view(now, workers=(worker,)), now.legs[0], [], set())
        assert len(issued) == given, (cover, ahead)
    bold = replace(worker, cautious=False)
    issued = give_out(loaded(), view(now, workers=(bold,)), now.legs[0], [], set())
    assert [work.backing for work in issued] == [backing] * 2


def verified_first(local: LocalOrder) -> tuple[LocalOrder, tuple[Share, ...]]:
    """Return the record with all segments of its only share checked, and the share."""
    (current,) = local.rounds
    (work,) = current.works
    signed = signed_of(local, work)
    done = tuple(CheckedSegment(i, 0, b"") for i in range(share_segments(TERMS) + 1))
    held = replace(work, signed=signed, packet=packet_of(local, work), checked=done)
    return local.put(replace(current, works=(held,))), (share_of(signed),)


def test_a_slot_that_failed_goes_to_another_provider_where_there_is_one_as_good() -> None:
    far = chain(assigned={"progress_deadline": 100_000})
    quick = (FreeProvider("p0", 10**9), FreeProvider("p1", 10**6))
    local, _ = decide(loaded(), view(far, workers=quick))
    assert {w.provider for w in works(local)} == {"p0"}
    late = max(w.wait_until for w in works(local))
    after, _ = decide(local, view(far, late, workers=quick))
    assert {w.provider for w in works(after) if w.issue == 2} == {"p1"}
    # Both failed as often: it is the other one's turn, though he serves other slots already.
    (current,) = local.rounds
    failed = tuple(
        replace(work, provider=name, verdict=ShareReason.NO_ANSWER, settled=True)
        for work, name in zip(current.works, ("p0", "p1"), strict=True)
    )
    both = replace(local, rounds=(replace(current, works=failed),))
    after, _ = decide(both, view(far, 20, workers=quick))
    assert [(w.slot, w.provider) for w in works(after) if w.issue == 2] == [(0, "p1"), (1, "p0")]
    # Where nobody else is there, it is tried again by the same.
    after, _ = decide(both, view(far, 20, workers=quick[:1]))
    assert {w.provider for w in works(after) if w.issue == 2} == {"p0"}


def test_each_issue_of_a_share_has_twice_the_time_of_the_one_before() -> None:
    """Nobody may be as quick as he said, and waiting as long once more would fail once more."""
    far = chain(assigned={"progress_deadline": 100_000})
    local, clock, had = loaded(), 10, []
    for _ in range(3):
        local, _ = decide(local, view(far, clock))
        latest = [w for w in works(local) if not w.verdict]
        (span,) = {w.wait_until - clock for w in latest}
        had.append(span)
        clock = latest[0].wait_until
    assert had == [had[0], 2 * had[0], 4 * had[0]]
    # Never more than two thirds of what is left, so that somebody else can still do it.
    near = chain(assigned={"progress_deadline": clock + 45})
    local, _ = decide(local, view(near, clock))
    assert {w.wait_until for w in works(local) if not w.verdict} == {clock + 30}
    # Where deadlines are hours, even the smallest share has minutes.
    public = chain(
        assigned={"progress_deadline": 100_000},
        ordered={"params": replace(PARAMS, progress_base=3_600)},
    )
    local, _ = decide(loaded(), view(public, clock))
    assert all(w.answer_by - clock >= 180 for w in works(local))


def test_a_restarted_daemon_gives_time_for_what_nobody_could_send() -> None:
    local = planned()
    late = max(w.answer_by for w in works(local)) + 50
    assert decide(local, view(chain(), late, since=late - 1))[0] == local
    after, _ = decide(local, view(chain(), late + PATIENCE, since=late))
    assert {w.verdict for w in works(after) if w.issue == 1} == {ShareReason.NO_ANSWER}
    # The same for openings that could not be uploaded: they are recomputed, because the share is delivered.
    held = with_packets(local)
    asked, _ = decide(held, view(on_chain(held), 12))
    _, actions = decide(asked, view(on_chain(held), 100, since=99))
    assert not any(isinstance(action, do.Recompute) for action in actions)
    gone, actions = decide(asked, view(on_chain(held), 12 + OPEN_SECONDS))
    assert not any(w.verdict for w in works(gone))
    assert any(isinstance(action, do.Recompute) for action in actions)


def test_places_are_replayed_as_their_openings_arrive() -> None:
    local = with_packets(planned())
    now = on_chain(local)
    _, actions = decide(local, view(now))
    # Only a segment that was picked and begins with the initial states needs none.
    assert {a.segment for a in actions if isinstance(a, do.CheckSegment)} <= {0}
    _, actions = decide(with_openings(local, 1, 4), view(now))
    segments = {a.segment for a in actions if isinstance(a, do.CheckSegment) and a.share.slot == 0}
    assert segments >= {1, 4}


def test_states_between_replayed_segments_are_kept_where_recomputing_would_take_too_long() -> None:
    """A provider of whose share nothing was drawn could stay silent when a panel asks for a segment of it."""
    # A window of 10 s leaves a second for a state. This machine may need four times as long as the bid says.
    slow = chain(assigned={"slot_speed": 8 * segment_work(TERMS)})
    assert chain().order.window == 10
    assert [w.anchors for w in works(planned())] == [(), ()]
    local = unpicked(with_packets(decide(loaded(), view(slow))[0]))
    assert [w.anchors for w in works(local)] == [(2,), (2,)]
    now = replace(slow, shares=on_chain(local, drawn=()).shares)
    (task, _) = [t for p in ("p0", "p1") for t in open_tasks(local, now, {}, p)]
    # It comes with the delivery, is compared with the trace there, and is not replayed.
    assert task.indices == (4,)
    held = with_openings(local, 2, 4)
    _, actions = decide(held, view(now))
    assert [a.segment for a in actions if isinstance(a, do.CheckSegment)] == [4, 4]
    done = all_checked(with_openings(local, 4), now)
    assert decide(done, view(now))[1] == ()
    done = all_checked(with_openings(local, 2, 4, verified=True), now)
    assert [type(action) for action in decide(done, view(now))[1]] == [do.Aggregate]


def test_no_more_states_are_kept_than_a_few_however_slow_the_machine_is() -> None:
    terms = replace(TERMS, round_steps=200)
    for speed, least in ((1, 6), (10**18, 0)):
        slow = chain(ordered={"terms": terms}, assigned={"slot_speed": speed})
        anchors = anchors_of(view(slow), slow.legs[0])
        assert len(anchors) == least
    assert anchors_of(view(chain(ordered={"terms": terms, "window": 0})), chain().legs[0]) == (15, 30, 45, 60, 75, 90)


def hand_in(local: LocalOrder, issue: int) -> LocalOrder:
    """Let the provider of an issue of slot 0 hand in its commitment."""
    (current,) = local.rounds
    work = next(w for w in current.works if (w.slot, w.issue) == (0, issue))
    held = replace(work, signed=signed_of(local, work))
    works_ = tuple(held if w is work else w for w in current.works)
    return replace(local, rounds=(replace(current, works=works_),))


@pytest.mark.parametrize(
    ("found", "told", "segment"),
    [
        (ShareReason.SEGMENT_MISMATCH, ShareReason.SEGMENT_MISMATCH, 3),
        (ShareReason.UPDATE_MISMATCH, ShareReason.UPDATE_MISMATCH, 3),
        (ShareReason.NOT_FINITE, ShareReason.NOT_FINITE, 3),
        # What was delivered beside the commitment is wrong: that may be right all the same.
        (ShareReason.MALFORMED, ShareReason.NO_ANSWER, 0),
    ],
)
def test_what_does_not_hold_is_rejected_together_with_the_new_share(
    found: ShareReason, told: ShareReason, segment: int
) -> None:
    """The chain hears of a mismatch only where the commitment itself is wrong: a wrong one would cost twice as much."""
    local = with_openings(with_packets(planned()), 1, 2, 3, 4)
    local = segment_checked(local, share_key(), CheckedSegment(3, found, digest("other")))
    now = on_chain(local)
    after, _ = decide(local, view(now))
    assert after.excluded == ("p0",)
    after = hand_in(after, 2)
    _, actions = decide(after, view(now))
    commit = next(m for m in messages(actions) if isinstance(m, MsgCommitTraces))
    assert commit.rejections == (Rejection(ShareRef(0, 1), told, segment),)
    assert [(s.claim.slot, s.claim.issue) for s in commit.shares] == [(0, 2)]


def test_a_verdict_that_comes_before_its_share_is_seen_on_chain_is_told_when_it_is() -> None:
    """Its provider sees the commitment first, and delivers what does not hash to it: the slot must get free again."""
    local = with_packets(planned())
    (current,) = local.rounds
    first, second = current.works
    bad = replace(first, packet=None, verdict=ShareReason.TRACE_NOT_BOUND)
    local = replace(local, rounds=(replace(current, works=(bad, second)),))
    after, actions = decide(local, view(chain()))
    assert not any(getattr(m, "rejections", ()) for m in messages(actions))
    _, actions = decide(after, view(on_chain(with_packets(planned()))))
    (commit,) = messages(actions)
    assert isinstance(commit, MsgCommitTraces)
    assert commit.rejections == (Rejection(ShareRef(0, 1), ShareReason.NO_ANSWER),)


def test_what_a_commitment_hides_is_waited_for_once_it_is_on_chain() -> None:
    local = planned()
    (current,) = local.rounds
    held = tuple(replace(w, signed=signed_of(local, w)) for w in current.works)
    local = replace(local, rounds=(replace(current, works=held),))
    after, actions = decide(local, view(chain()))
    assert [type(m) for m in messages(actions)] == [MsgCommitTraces]
    late = view(chain(), 100)
    assert not any(w.verdict for w in works(decide(after, late)[0]))
    now = chain(shares=tuple(share_of(w.signed) for w in held if w.signed))
    waiting, actions = decide(after, view(now, 20))
    assert actions == ()
    assert not any(w.verdict for w in works(waiting))
    gone, actions = decide(waiting, view(now, 20 + OPEN_SECONDS))
    assert {w.verdict for w in works(gone) if w.issue == 1} == {ShareReason.NO_ANSWER}
    (commit,) = messages(decide(gone, view(now, 21 + OPEN_SECONDS))[1])
    assert isinstance(commit, MsgCommitTraces)
    assert {rejection.reason for rejection in commit.rejections} == {ShareReason.NO_ANSWER}


def test_a_verdict_of_the_chain_that_the_record_lacks_is_taken_over() -> None:
    local = with_packets(planned())
    now = on_chain(local)
    ended = replace(now.shares[0], state=ShareState.REJECTED, reason=ShareReason.NO_ANSWER)
    after, _ = decide(local, view(replace(now, shares=(ended, now.shares[1]))))
    work = next(w for w in works(after) if (w.slot, w.issue) == (0, 1))
    assert (work.verdict, work.settled) == (ShareReason.NO_ANSWER, True)


def test_a_node_that_is_behind_is_not_followed() -> None:
    local = with_packets(planned())
    (current,) = local.rounds
    ahead = replace(local, rounds=(current, replace(current, round=1)))
    assert decide(ahead, view(chain())) == (ahead, ())


def test_a_round_is_aggregated_and_closed_only_when_every_place_holds() -> None:
    local = with_openings(with_packets(planned()), 1, 2, 3, 4)
    now = on_chain(local)
    done = all_checked(local, now)
    _, actions = decide(done, view(now))
    assert actions == (do.Aggregate(f"{ORDER_ID.hex()}/1/0/aggregate", KEY.round(0)),)
    (current,) = done.rounds
    less = replace(current.works[0], checked=current.works[0].checked[:-1])
    lacking = replace(done, rounds=(replace(current, works=(less, *current.works[1:])),))
    assert not any(isinstance(a, do.Aggregate) for a in decide(lacking, view(now))[1])
    closing = sealed(aggregated(done, 0, state("next")), 0, SEALED)
    _, actions = decide(closing, view(now))
    assert messages(actions) == [
        MsgAcceptShares(
            "v0",
            ORDER_ID,
            1,
            0,
            tuple(AcceptedShare(w.slot, 1, w.packet.roots) for w in works(local) if w.packet),
        ),
        MsgCloseRound("v0", ORDER_ID, 1, 0, digest("next"), digest("c")),
    ]


def test_a_round_that_does_not_aggregate_has_every_place_replayed() -> None:
    local = unpicked(with_openings(with_packets(planned()), 1, 2, 3, 4))
    now = on_chain(local)
    suspect = not_aggregated(all_checked(local, now), 0)
    _, actions = decide(suspect, view(now))
    (current,) = suspect.rounds
    for work in current.works:
        share: Share = next(s for s in now.shares if s.claim.slot == work.slot)
        assert segments_to_check(current, work, share) == (0, 1, 2, 3, 4)
    assert {type(a) for a in actions} == {do.CheckSegment}
    # All holds: the job itself has no next state.
    accept, close = messages(decide(all_checked(suspect, now), view(now))[1])
    assert isinstance(accept, MsgAcceptShares)
    assert isinstance(close, MsgCloseRound)
    assert (close.next_root, close.ciphertext_root, close.stopped) == (b"", b"", AGGREGATION)
    assert [accepted.slot for accepted in accept.shares] == [0, 1]


def unpicked(local: LocalOrder) -> LocalOrder:
    """Return the record without segments that the validator picked itself."""
    (current,) = local.rounds
    works = tuple(replace(work, picks=()) for work in current.works)
    return replace(local, rounds=(replace(current, works=works),))


def stopping(local: LocalOrder, *stops: int | None) -> LocalOrder:
    """Return the record with shares that end in these segments, delivered and committed to."""
    (current,) = local.rounds
    held = []
    for work, stop in zip(current.works, stops, strict=True):
        packet = packet_of(local, work)
        if stop is not None:
            packet = ended(packet, stop)
        signed = ShareSubmission(claim_of(local, work, packet), bytes(64))
        held.append(replace(work, signed=signed, packet=packet))
    return replace(local, rounds=(replace(current, works=tuple(held)),))


def test_a_share_by_which_the_order_ends_has_every_place_replayed_first() -> None:
    """One made-up segment is enough to bring a state to where training really breaks."""
    local = unpicked(with_openings(stopping(planned(), None, 3), 1, 2, 3, 4))
    now = on_chain(local, drawn=(0,))
    share: Share = next(s for s in now.shares if s.claim.slot == 1)
    (current,) = local.rounds
    assert segments_to_check(current, current.works[1], share) == (0, 3)
    local, actions = decide(all_checked(local, now), view(now))
    assert messages(actions) == []
    assert local.rounds[0].suspects == (ShareRef(1, 1),)
    local, actions = decide(local, view(now))
    assert [a.segment for a in actions if isinstance(a, do.CheckSegment)] == [1, 2]
    _, actions = decide(all_checked(local, now), view(now))
    accept, close = messages(actions)
    assert isinstance(accept, MsgAcceptShares)
    assert isinstance(close, MsgCloseRound)
    assert close.stopped == AuditPlace(AuditKind.SEGMENT, 1, 1, 3)
    assert [accepted.roots.segments for accepted in accept.shares] == [4, 3]


def test_a_stop_goes_out_before_the_leg_fails_for_want_of_time() -> None:
    """The duty was replayed; an honest validator loses no bond because a share is long."""
    local = unpicked(with_openings(stopping(planned(), 3, None), 1, 2, 3, 4))
    now = on_chain(local, drawn=(0,))
    local, _ = decide(all_checked(local, now), view(now))
    deadline = now.legs[0].progress_deadline
    for clock, closes in ((deadline - 50, False), (deadline - 40, True)):
        _, actions = decide(local, view(now, clock))
        assert bool(messages(actions)) == closes, clock
    # Where nothing is left to replay, it does not wait.
    local = unpicked(with_openings(stopping(planned(), 0, 3), 1, 2, 3, 4))
    now = on_chain(local, drawn=(0,))
    _, close = messages(decide(all_checked(local, now), view(now))[1])
    assert isinstance(close, MsgCloseRound)
    assert close.stopped == AuditPlace(AuditKind.SEGMENT, 0, 1, 0)


def test_a_round_is_not_aggregated_while_a_slot_was_given_to_nobody() -> None:
    local = with_openings(with_packets(planned()), 1, 2, 3, 4)
    now = on_chain(local)
    done = all_checked(local, now)
    (current,) = done.rounds
    one = replace(done, rounds=(replace(current, works=current.works[:1]),))
    _, actions = decide(one, view(now, workers=()))
    assert not any(isinstance(action, do.Aggregate) for action in actions)


def test_a_round_does_not_end_while_a_slot_is_out() -> None:
    local = with_openings(stopping(planned(), 1, None), 1, 2, 3, 4)
    now = on_chain(local)
    done = all_checked(local, now)
    (current,) = done.rounds
    waiting = replace(current.works[1], packet=None, checked=())
    lacking = replace(done, rounds=(replace(current, works=(current.works[0], waiting)),))
    after, actions = decide(lacking, view(now))
    assert messages(actions) == []
    assert after.rounds[0].suspects == ()


def test_the_next_round_goes_on_from_the_slots_local_states() -> None:
    local = with_openings(with_packets(planned()), 1, 2, 3, 4)
    local = aggregated(all_checked(local, on_chain(local)), 0, state("next"))
    now = replace(
        on_chain(local, state=ShareState.ACCEPTED),
        rounds=(closed(),),
        legs=chain(assigned={"round": 1}).legs,
    )
    after, _ = decide(local, view(now))
    second = next(r for r in after.rounds if r.round == 1)
    assert second.global_in == state("next")
    assert [w.local_in.root for w in second.works] == [
        digest("local out", 0),
        digest("local out", 1),
    ]


# Audits and the end


def audited(index: int, **changes: Any) -> tuple[LocalOrder, View]:
    local = with_openings(with_packets(planned()), 1, 4, verified=True)
    local = aggregated(local, 0, state("next"))
    now = replace(
        on_chain(local, state=ShareState.ACCEPTED),
        rounds=(closed(),),
        legs=chain(assigned={"round": 1}).legs,
    )
    return local, view(now, panels=about(segment(index), **changes))


def only(local: LocalOrder, seen: View, kind: type) -> list[do.Action]:
    return [a for a in decide(local, seen)[1] if isinstance(a, kind)]


def test_an_audited_state_is_asked_for_and_then_recomputed() -> None:
    local, seen = audited(2)
    asked, actions = decide(local, replace(seen, clock=12))
    assert not any(isinstance(a, do.Recompute) for a in actions)
    assert only(asked, replace(seen, clock=16), do.Recompute) == []
    assert only(asked, replace(seen, clock=17), do.Recompute) == [
        do.Recompute(f"{ORDER_ID.hex()}/1/0/0/1/recompute/2", share_key(), 2)
    ]
    assert only(local, replace(seen, clock=12, workers=()), do.Recompute)  # nobody is there to ask


DECIDED = PanelPlace(segment(2), digest("claim"), Ruling.RIGHT, 1, None)


@pytest.mark.parametrize(
    ("index", "changes"),
    [(0, {}), (1, {}), (2, {"is_open": False}), (2, {"places": (DECIDED,)})],
)
def test_what_is_held_or_over_is_not_recomputed(index: int, changes: dict[str, Any]) -> None:
    local, seen = audited(index, **changes)
    assert not only(local, replace(seen, clock=100, workers=()), do.Recompute)


def test_states_brought_for_a_panel_are_hashed_before_anybody_gets_them() -> None:
    local, seen = audited(2)
    brought = with_openings(local, 1, 2, 4)
    (verify,) = only(brought, seen, do.VerifyOpening)
    assert isinstance(verify, do.VerifyOpening)
    assert verify.index == 2
    held = opening_verified(brought, share_key(), 2, holds=True)
    assert not only(held, seen, do.VerifyOpening)
    junk = opening_verified(brought, share_key(), 2, holds=False)
    assert junk.excluded == ("p0",)
    assert only(junk, seen, do.Recompute)  # at once


def test_what_cannot_be_recomputed_is_not_tried_for_ever() -> None:
    local, seen = audited(2)
    broken = state_recomputed(local, share_key(), 2, None)
    assert broken.excluded == ("p0",)
    assert not only(broken, replace(seen, clock=100), do.Recompute)


def test_a_round_waits_while_as_many_as_allowed_are_not_verified() -> None:
    """The chain would refuse it; the aggregate is kept, and sent when there is room."""
    local = with_openings(with_packets(planned()), 1, 2, 3, 4)
    now = on_chain(local)
    closing = aggregated(all_checked(local, now), 0, state("next"))
    ahead = replace(now.order.params, rounds_ahead=2, handover_every=10)
    now = replace(now, order=replace(now.order, params=ahead))
    (leg,) = now.legs
    full = replace(now, legs=(replace(leg, first_round=leg.round - 2),))
    assert messages(decide(closing, view(full))[1]) == []
    room = replace(now, legs=(replace(leg, first_round=leg.round - 2, cleared=1),))
    assert [type(m) for m in messages(decide(closing, view(room))[1])] == [MsgAcceptShares, MsgCloseRound]


SEALED = SealedResult(digest("c"), BlobRef(digest("s"), 1), (), ())


def test_a_hand_over_round_is_sealed_before_it_is_closed() -> None:
    local = with_openings(with_packets(planned()), 1, 2, 3, 4)
    now = on_chain(local)
    local = aggregated(all_checked(local, now), 0, state("next"))
    seal = do.Seal(f"{ORDER_ID.hex()}/1/0/seal", KEY.round(0), now.order.order_key)
    assert decide(local, view(now))[1] == (seal,)
    assert decide(local, view(now))[1] == (seal,)  # again, until it is there
    _, close = messages(decide(sealed(local, 0, SEALED), view(now))[1])
    assert isinstance(close, MsgCloseRound)
    assert close.ciphertext_root == digest("c")
    # What was sealed meanwhile for a round that has left the record is nothing any more.
    assert sealed(local, 7, SEALED) == local


def test_other_rounds_are_closed_without() -> None:
    local = with_openings(with_packets(planned()), 1, 2, 3, 4)
    now = on_chain(local)
    rarely = replace(now.order.params, handover_every=10)
    now = replace(now, order=replace(now.order, params=rarely))
    done = aggregated(all_checked(local, now), 0, state("next"))
    _, close = messages(decide(done, view(now))[1])
    assert isinstance(close, MsgCloseRound)
    assert (close.round, close.ciphertext_root) == (0, b"")


def test_the_newest_verified_hand_over_is_served_and_those_taken_early() -> None:
    """Older ones are of no use: whoever goes on from the consumer's state goes on from the newest."""
    local = with_packets(planned())
    (first,) = local.rounds
    rounds = tuple(replace(first, round=r, sealed=_sealed(r)) for r in range(4))
    local = replace(local, rounds=rounds)
    records = [closed(r, verified=r < 3) for r in range(4)]
    now = replace(chain(), rounds=tuple(records))

    def served(seen: OrderResponse) -> list[int]:
        return [known.round for known in served_rounds(local, seen)]

    # A round that may still become void is kept, but served to nobody: its consumer could have it for nothing.
    assert served(now) == [2]
    assert [known.round for known in fold(local, now, {}, 100).rounds] == [2, 3]
    kept = needed_blobs(local, now, {}, 100)
    assert [r for r in range(4) if _sealed(r).blob.sha256 in kept] == [2, 3]
    # The last is not closed yet, and the one before it not verified.
    earlier = replace(now, rounds=(*records[:2], closed(2)))
    assert served(earlier) == [1]
    assert served(replace(now, rounds=(closed(0),))) == []
    # The consumer took round 2, and so gave up the refunds of rounds 1 and 2.
    (taken,) = chain(assigned={"taken_end": 3}).legs
    assert served(replace(now, legs=(taken,), rounds=(records[0], closed(1), closed(2), closed(3)))) == [0, 1, 2]
    assert served(replace(now, legs=(taken,))) == [2]
    # What was taken is there even if the leg fails, and its rounds are void and over.
    lost = replace(
        now,
        legs=(replace(taken, state=LegState.FAILED),),
        rounds=(*records[:2], closed(2, void=True), closed(3, void=True)),
    )
    assert served(lost) == [2]
    assert [known.round for known in fold(local, lost, {}, 100).rounds] == [2, 3]
    assert _sealed(2).blob.sha256 in needed_blobs(local, lost, {}, 100)
    gone = replace(lost, order=replace(now.order, state=OrderState.CLOSED), rounds=())
    assert served(gone) == [2]
    # A settled order is not looked at any more, and a failed leg hands nothing else over.
    over = replace(now, order=replace(now.order, state=OrderState.CLOSED), rounds=())
    done = chain(assigned={"state": LegState.DONE}).legs
    failed = chain(assigned={"state": LegState.FAILED}).legs
    assert served(replace(over, legs=done)) == [3]
    # Behind the last hand-over round the job may have stopped.
    (*sealed_ones, last) = local.rounds
    stopped = replace(local, rounds=(*sealed_ones, replace(last, sealed=None)))
    closed_order = replace(over, legs=done)
    assert [known.round for known in served_rounds(stopped, closed_order)] == [2]
    assert served(replace(over, legs=failed)) == served(replace(now, legs=failed)) == []


def _sealed(round: int) -> SealedResult:
    return replace(SEALED, blob=BlobRef(digest("sealed", round), 1))


def test_a_closed_order_asks_for_nothing() -> None:
    local, seen = audited(2)
    now = seen.on_chain
    over = replace(now, order=replace(now.order, state=OrderState.CLOSED))
    assert decide(local, replace(seen, on_chain=over, clock=100)) == (local, ())
