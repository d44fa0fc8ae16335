"""A lying validator cannot make a provider work for nothing: each claim is held against the chain."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from compute_provider.decide.claims import (
    bond_of,
    cover_problem,
    earned,
    has_committed,
    has_to_stand,
    is_over,
    must_show,
    place_opening,
    problem,
)
from compute_provider.decide.receive import trained
from compute_provider.decide.records import Shares, ShareWork, Stage
from domain.keys import ShareRef
from domain.ledger.records import Depositor, Escrow, Payment
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState, SlotStart
from domain.limits import SAMPLES_MAX
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import (
    AuditKind,
    AuditPlace,
    Round,
    Share,
    ShareClaim,
    ShareRoots,
    ShareState,
    TraceLeaf,
)
from link.types import BlobRef, DeliveryReceipt, OpenedState, StateRef, TrainTask
from pol.rules.commitment import check_leaf, compute_trace_root
from tests.unit.compute_provider.support import (
    ORDER_ID,
    PRICE,
    VALIDATOR,
    order,
    task,
    terms,
    with_leg,
    with_order,
)

KEY = task().key


def claim(round: int = 0, slot: int = 0, issue: int = 1) -> ShareClaim:
    return ShareClaim(
        order_id=ORDER_ID,
        leg=1,
        round=round,
        slot=slot,
        issue=issue,
        provider="p",
        commitment=bytes(32),
    )


def test_more_bytes_than_were_ordered_are_not_fetched() -> None:
    """Nothing would end a download but the disk."""
    right = task()
    assert problem(right, order(), VALIDATOR) == ""
    file = right.payload[-1]
    larger = replace(file, blob=BlobRef(file.blob.sha256, file.blob.size + 1))
    giants = [
        replace(right, payload=(*right.payload[:-1], larger)),
        replace(right, payload=(*right.payload, *right.payload)),
    ]
    for giant in giants:
        assert "are larger than the order" in problem(giant, order(), VALIDATOR)
    for name in ("global_in", "local_in"):
        state = getattr(right, name)
        for size in (state.blob.size - 1, state.blob.size + 1):
            changes: dict[str, Any] = {name: replace(state, blob=replace(state.blob, size=size))}
            odd = replace(right, **changes)
            assert f"{name} does not have the order's state size" in problem(odd, order(), VALIDATOR)


def share(state: ShareState, local_out: bytes = b"\x05" * 32, **changes: Any) -> Share:
    roots = ShareRoots(bytes(32), bytes(32), local_out, (), 1)
    shown = roots if state is ShareState.ACCEPTED else None
    return Share(claim(**changes), b"", bytes(32), 1, 1, state, 0, 0, 0, (), shown)


def closed_round(*, verified: bool = False, void: bool = False, slot: int = 0) -> Round:
    return Round(
        ORDER_ID,
        1,
        0,
        b"",
        b"",
        b"",
        (ShareRef(slot, 1),),
        1,
        0,
        0,
        500,
        verified=verified,
        void=void,
    )


def test_a_task_is_taken_only_if_bonds_would_pay_its_void_share() -> None:
    """One wrong share makes the rounds void that are closed and not verified, and the provider's share with them."""
    slots, price = order().legs[0].slots, bond_of(task(), order())
    bond = 2 * slots * price
    for cover, closed, is_taken in ((0, 0, True), (0, 1, False), (10_000, 1, True), (10_000, 2, False)):
        found = with_leg(order(), round=closed, job_bond=bond, rounds=9)
        assert (cover_problem(replace(task(), cover=cover), found) == "") == is_taken, (cover, closed)


def test_the_bond_of_a_task_is_a_multiple_of_the_price() -> None:
    assert bond_of(replace(task(), multiple=7), order()) == 7 * bond_of(task(), order())


def test_a_true_task_is_taken() -> None:
    assert problem(task(), order(), VALIDATOR) == ""
    # Ten steps of the tiny job in five segments, at 10^12 uassay per PFLOP, rounded up.
    known = terms()
    work = 10 * known.step_work + 5 * (known.global_bytes + known.local_bytes)
    assert bond_of(task(), order()) == -(-work * PRICE // 10**15)


TASKS: list[tuple[str, Callable[[TrainTask], TrainTask]]] = [
    ("no leg with this number", lambda t: replace(t, key=replace(t.key, leg=2))),
    ("open round", lambda t: replace(t, key=replace(t.key, round=1))),
    ("does not serve the slot", lambda t: replace(t, key=replace(t.key, slot=2))),
    ("global_in", lambda t: replace(t, global_in=StateRef(bytes(32), t.global_in.blob))),
    ("local_in", lambda t: replace(t, local_in=StateRef(bytes(32), t.local_in.blob))),
    ("job.json", lambda t: replace(t, payload=t.payload[1:])),
    (
        "job.json",
        lambda t: replace(t, payload=(replace(t.payload[0], blob=BlobRef(bytes(32), 5)), *t.payload[1:])),
    ),
]


@pytest.mark.parametrize(("reason", "lie"), TASKS)
def test_a_lie_about_the_task_is_seen(reason: str, lie: Callable[[TrainTask], TrainTask]) -> None:
    assert reason in problem(lie(task()), order(), VALIDATOR)


ORDERS: list[tuple[str, Callable[[OrderResponse], OrderResponse]]] = [
    ("order is not running", lambda o: with_order(o, state=OrderState.MATCHED)),
    ("order is not running", lambda o: with_order(o, state=OrderState.CLOSED)),
    ("current leg", lambda o: with_order(o, legs=2)),
    ("leg is not running", lambda o: with_leg(o, state=LegState.FAILED)),
    ("no leg with this number", lambda o: with_leg(o, validator="another")),
    ("open round", lambda o: with_leg(o, round=1)),
    ("global_in", lambda o: with_leg(o, global_in=bytes(32))),
    ("version", lambda o: with_order(o, terms=replace(o.order.terms, executor_version=2))),
    ("escrow", lambda o: replace(o, escrow=Escrow(ORDER_ID, (), ()))),
    (
        "escrow",
        lambda o: replace(o, escrow=Escrow(ORDER_ID, (Depositor("c", 0, 10**9, 0),), ())),
    ),
    (
        "escrow",
        lambda o: replace(o, escrow=Escrow(ORDER_ID, (Depositor("c", 0, 0, 10**9),), ())),
    ),
    (
        "escrow",
        lambda o: replace(o, escrow=Escrow(ORDER_ID, (Depositor("c", 10**9, 0, 0),), (), 10**9)),
    ),
]


@pytest.mark.parametrize(("reason", "change"), ORDERS)
def test_an_order_that_will_not_pay_is_not_worked_for(
    reason: str, change: Callable[[OrderResponse], OrderResponse]
) -> None:
    assert reason in problem(task(), change(order()), VALIDATOR)


def test_what_was_paid_does_not_count_twice() -> None:
    """``locked`` is what is left; an order that has paid most of its deposit still pays the rest."""
    needed = bond_of(task(), order())
    late = replace(order(), escrow=Escrow(ORDER_ID, (Depositor("c", needed, 10**12, 0),), ()))
    assert problem(task(), late, VALIDATOR) == ""
    short = replace(order(), escrow=Escrow(ORDER_ID, (Depositor("c", needed - 1, 0, 0),), ()))
    assert "escrow" in problem(task(), short, VALIDATOR)


def test_the_local_state_is_the_slots_last_accepted_one() -> None:
    known = with_leg(order(), round=2)
    known = replace(
        known,
        shares=(
            share(ShareState.ACCEPTED, round=0, local_out=b"\x01" * 32),
            share(ShareState.ACCEPTED, round=1, local_out=b"\x02" * 32),
            share(ShareState.REJECTED, round=1, issue=2, local_out=b"\x03" * 32),
            share(ShareState.ACCEPTED, round=1, slot=1, local_out=b"\x04" * 32),
        ),
    )
    third = replace(task(), key=replace(KEY, round=2))
    right = replace(third, local_in=StateRef(b"\x02" * 32, third.local_in.blob))
    assert problem(right, known, VALIDATOR) == ""
    assert "local_in" in problem(third, known, VALIDATOR)


def test_a_trace_is_kept_while_anybody_can_ask() -> None:
    running = order()
    assert not is_over(KEY, "p", running, 0)
    committed = replace(running, shares=(share(ShareState.COMMITTED),))
    assert not is_over(KEY, "p", committed, 10_000)
    accepted = replace(running, shares=(share(ShareState.ACCEPTED),))
    for verified, void, clock, over in (
        (False, False, 10_000, False),
        (True, False, 499, False),
        (True, False, 500, True),
        (False, True, 500, True),
    ):
        closed = replace(accepted, rounds=(closed_round(verified=verified, void=void),))
        assert is_over(KEY, "p", closed, clock) is over
    assert is_over(KEY, "p", with_order(accepted, state=OrderState.CLOSED), 0)


def test_a_trace_that_lost_is_let_go() -> None:
    for state in (ShareState.REJECTED, ShareState.RIGHT, ShareState.WRONG):
        assert is_over(KEY, "p", replace(order(), shares=(share(state),)), 0)
    other_won = replace(order(), rounds=(closed_round(slot=5),))
    assert is_over(KEY, "p", other_won, 0)
    assert is_over(KEY, "p", with_leg(order(), state=LegState.FAILED), 0)
    # A round that had closed before its leg failed still has its window.
    failed = with_leg(order(), state=LegState.FAILED)
    assert not is_over(KEY, "p", replace(failed, rounds=(closed_round(),)), 0)


def test_a_commitment_is_on_chain_when_this_very_one_stands() -> None:
    """Somebody else's, another one of ours, or one that fell already is nothing to deliver on."""
    mine = claim()
    assert not has_committed(order(), mine)
    assert has_committed(replace(order(), shares=(share(ShareState.COMMITTED),)), mine)
    for other in (
        replace(mine, provider="q"),
        replace(mine, commitment=b"\x01" * 32),
        replace(mine, issue=2),
    ):
        assert not has_committed(replace(order(), shares=(share(ShareState.COMMITTED),)), other)
    assert not has_committed(replace(order(), shares=(share(ShareState.REJECTED),)), mine)


def test_only_earnings_of_this_provider_count() -> None:
    payments = (
        Payment("me", "provider", 5, 0),
        Payment("me", "bond_return", 7, 0),
        Payment("you", "provider", 11, 0),
        Payment("me", "provider", 2, 1),
    )
    assert earned(replace(order(), payments=payments), "me") == 7


def test_a_task_of_a_leg_that_begins_later_starts_from_the_states_of_that_leg() -> None:
    begun, local = b"\x07" * 32, b"\x08" * 32
    opening = (SlotStart(ORDER_ID, 1, 0, local),)
    later = with_leg(order(), first_round=3, round=3, initial_root=begun, global_in=begun)
    later = replace(later, starts=opening)
    right = replace(
        task(),
        key=replace(KEY, round=3),
        global_in=replace(task().global_in, root=begun),
        local_in=replace(task().local_in, root=local),
    )
    assert problem(right, later, VALIDATOR) == ""
    initial = replace(right, local_in=task().local_in)
    assert problem(initial, later, VALIDATOR) == "the task's local_in is not the slot's last accepted state"
    # Another slot of the same leg starts from the order's local state.
    other = replace(initial, key=replace(right.key, slot=1))
    assert problem(other, later, VALIDATOR) == ""


def test_a_task_of_a_slot_that_the_leg_does_not_serve_is_not_taken() -> None:
    known = terms()
    part = with_leg(order(), first_slot=1, slots=known.slots - 1)
    assert problem(task(slot=0), part, VALIDATOR) == "the leg does not serve the slot"
    assert problem(task(slot=1), part, VALIDATOR) == ""


@pytest.mark.parametrize(("stop_step", "steps"), [(17, 2), (15, 0), (3, 0), (-1, 0), (2**80, SAMPLES_MAX)])
def test_the_steps_before_a_stop_are_counted_from_the_last_boundary(stop_step: int, steps: int) -> None:
    """A worker that is taken over may name any step."""
    stopped = Shares((ShareWork(task(), Stage.TRAINING),))
    (work,) = trained(stopped, KEY, text="it stops", stop_step=stop_step).works
    assert (work.stage, work.stop_step) == (Stage.TRAINED, stop_step)
    assert work.steps_since(15) == steps


def rejected(closed: bool, accepted_roots: ShareRoots | None = None, **changes: Any) -> OrderResponse:
    """Return an order in which the validator rejected a share as a mismatch, and accepted another one in its slot."""
    mine = replace(share(ShareState.REJECTED), reason=int(ShareReason.SEGMENT_MISMATCH))
    other = share(ShareState.ACCEPTED, issue=2)
    other = replace(other, claim=replace(other.claim, provider="q"), roots=accepted_roots or other.roots)
    rounds = (replace(closed_round(), shares=(ShareRef(0, 2),), **changes),) if closed else ()
    return replace(order(), shares=(mine, other), rounds=rounds)


def test_a_provider_stands_when_the_round_is_closed_with_another_result() -> None:
    mine = share(ShareState.REJECTED).claim
    running = rejected(closed=False)
    assert not has_to_stand(running, mine, "chain")
    assert not is_over(KEY, "p", running, 0)
    assert has_to_stand(rejected(closed=True), mine, "chain")
    stands = rejected(closed=True)
    stands = replace(stands, shares=(replace(stands.shares[0], stand=1), stands.shares[1]))
    assert not has_to_stand(stands, mine, "chain")
    assert not has_to_stand(with_order(rejected(closed=True), state=OrderState.CLOSED), mine, "chain")


def test_a_provider_stands_for_a_share_that_its_validator_made_void() -> None:
    accepted = replace(share(ShareState.ACCEPTED), is_received=True)
    for by_validator in (True, False):
        closed = replace(closed_round(void=True), by_validator=by_validator)
        void = replace(order(), shares=(accepted,), rounds=(closed,))
        assert has_to_stand(void, accepted.claim, "chain") is by_validator


def left(reason: LegEnd, *shares: Share) -> OrderResponse:
    """Return an order whose leg failed at 100 while its round was open."""
    failed = with_leg(order(), state=LegState.FAILED, end_reason=int(reason), left_at=100)
    return replace(failed, shares=shares)


def test_a_provider_stands_for_a_received_share_that_its_validator_left_open() -> None:
    open_share = replace(share(ShareState.REJECTED), reason=int(ShareReason.LEG_ENDED), is_received=True)
    claim = open_share.claim
    for reason, wanted in ((LegEnd.STOPPED_BY_VALIDATOR, True), (LegEnd.WRONG_SHARE, False), (LegEnd.UNDECIDED, False)):
        assert has_to_stand(left(reason, open_share), claim, "chain") is wanted, reason
    silent = replace(open_share, is_received=False)
    assert not has_to_stand(left(LegEnd.NO_PROGRESS, silent), claim, "chain")


def test_a_share_is_not_over_while_a_receipt_for_it_may_be_on_its_way() -> None:
    """The leg may fail between the delivery and the answer. Then the provider shows the key, and stands."""
    open_share = replace(share(ShareState.REJECTED), reason=int(ShareReason.LEG_ENDED))
    ended = left(LegEnd.NO_PROGRESS, open_share)
    until = 100 + ended.order.window
    assert not is_over(KEY, "p", ended, until - 1)
    receipt = DeliveryReceipt(at=until - 2, was_shown=False, signature=bytes(64))
    assert must_show(ended, open_share.claim, receipt, until - 1)
    assert is_over(KEY, "p", ended, until)
    assert not must_show(ended, open_share.claim, receipt, until)
    assert is_over(KEY, "p", left(LegEnd.WRONG_SHARE, open_share), 100)
    silent = replace(open_share, reason=int(ShareReason.NO_ANSWER))
    assert not is_over(KEY, "p", replace(order(), shares=(silent,)), 10_000)
    assert must_show(replace(order(), shares=(silent,)), silent.claim, replace(receipt, at=10_000), 10_000)


def test_a_share_is_not_over_before_the_chain_has_dropped_it() -> None:
    committed = share(ShareState.COMMITTED)
    assert not is_over(KEY, "p", left(LegEnd.NO_PROGRESS, committed), 0)
    assert is_over(KEY, "p", left(LegEnd.WRONG_SHARE, committed), 0)


def test_a_share_that_stands_does_not_replace_the_accepted_state_of_its_slot() -> None:
    known = replace(
        with_leg(order(), round=2),
        shares=(
            share(ShareState.ACCEPTED, round=1, local_out=b"\x02" * 32),
            share(ShareState.WRONG, round=1, issue=2, local_out=b"\x03" * 32),
        ),
    )
    third = replace(task(), key=replace(KEY, round=2))
    right = replace(third, local_in=StateRef(b"\x02" * 32, third.local_in.blob))
    assert "local_in" not in problem(right, known, VALIDATOR)


def test_an_opening_has_what_a_seat_needs_to_recompute_a_place() -> None:
    leaves = [TraceLeaf(index, 2 * index, bytes([index]) * 32) for index in (1, 2, 3)]
    root = compute_trace_root(leaves)
    blob = BlobRef(bytes(32), 1)
    put = [OpenedState(index, blob, blob, ()) for index in range(4)].__getitem__
    middle = AuditPlace(AuditKind.SEGMENT, 0, 1, 1)
    opening = place_opening(middle, leaves, (), put)
    assert [state.index for state in opening.states] == [1]
    assert [leaf.index for leaf in opening.leaves] == [1, 2]
    assert all(check_leaf(root, 3, leaf) for leaf in opening.leaves)
    first = place_opening(replace(middle, segment=0), leaves, (), put)
    assert [leaf.index for leaf in first.leaves] == [1]
    update = place_opening(AuditPlace(AuditKind.UPDATE, 0, 1, 3), leaves, (), put)
    assert ([leaf.index for leaf in update.leaves], [state.index for state in update.states]) == ([3], [0, 3])
