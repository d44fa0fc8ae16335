"""The events of bids, orders, legs, and the money of orders."""

from dataclasses import replace

from domain.keys import RoundKey
from domain.ledger.events import PaymentMade
from domain.ledger.records import (
    BondKind,
    BondRow,
    Depositor,
    Escrow,
    Payment,
)
from domain.legs.events import (
    LegDeadlinesMoved,
    LegFailed,
    OrderAccepted,
    OrderDeclined,
    OrderMatched,
    OrderProven,
    OrderRestarted,
    OrderSettled,
    PartEnded,
    PartReturned,
    PartWaits,
    ProgressRestarted,
    SlotStarted,
    StatesLacked,
)
from domain.legs.reasons import LegEnd, PartEnd
from domain.legs.records import Leg, LegState, SlotStart
from domain.market.events import (
    BidChanged,
    BidClosed,
    BidPlaced,
    DeadlineMoved,
    OrderClosed,
    OrderExcluded,
    OrderHeld,
    OrderOpened,
    OrderReleased,
    OrderSubmitted,
    OrderUnmatched,
)
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.proof.events import OrderVerified
from localnet.simulator.rebuilt.books import Rebuilt, take

FROM_DEPOSITS = frozenset(
    (
        "provider",
        "validator",
        "auditor",
        "protocol",
        "deposit_burn",
        "refund_burn",
        "withheld_compensation",
        "withheld_burn",
        "part_burn",
    )
)
"""Payments that use up a deposit; a refund returns what is left of it."""
FROM_WITHHELD = frozenset(("validator", "withheld_compensation", "withheld_burn", "part_burn"))
BURNS = frozenset(("burn", "deposit_burn", "refund_burn", "withheld_burn", "part_burn"))
TO_POOL = frozenset(("protocol", "decline_fee"))
BLAMES_JOB = frozenset(
    (
        LegEnd.PAYLOAD_NOT_DELIVERED,
        LegEnd.DECLINED_BAD_JOB,
        LegEnd.DECLINED_WORK_MISMATCH,
        LegEnd.DECLINED_TOO_SLOW,
        LegEnd.DECLINED_NOT_FINITE,
    )
)
NOBODYS = frozenset((LegEnd.WRONG_SHARE, LegEnd.UNDECIDED))
"""Ends of a running leg that are not its validator's fault."""


@take.register
def _(change: BidPlaced, books: Rebuilt) -> None:
    books.bids[change.bid] = change.record


@take.register
def _(change: BidChanged, books: Rebuilt) -> None:
    known = books.bids[change.bid]
    books.bids[change.bid] = replace(
        known,
        offer=replace(known.offer, price=change.price),
        capacity=change.capacity,
        expires_at=change.expires_at,
        placed_height=change.placed_height,
    )


@take.register
def _(change: BidClosed, books: Rebuilt) -> None:
    del books.bids[change.bid]


@take.register
def _(change: OrderSubmitted, books: Rebuilt) -> None:
    row = Depositor(address=change.consumer, locked=change.deposit, paid=0, refunded=0)
    books.orders[change.order] = change.record
    books.escrows[change.order] = Escrow(change.order, (row,), ())
    books.paid[change.order] = 0


@take.register
def _(change: OrderOpened, books: Rebuilt) -> None:
    # A provider's fault counts if its validator does not continue.
    last = books.legs.get((change.order, change.leg))
    if last is not None and last.end_reason == LegEnd.WRONG_SHARE:
        books.count_failure(change.order)
    books.change_order(
        change.order,
        state=OrderState.OPEN,
        opened_at=change.opened_at,
        opened_height=change.opened_height,
        expires_at=change.expires_at,
        unmatched=(),
    )


@take.register
def _(change: OrderUnmatched, books: Rebuilt) -> None:
    books.change_order(change.order, unmatched=change.failed)


@take.register
def _(change: OrderExcluded, books: Rebuilt) -> None:
    known = books.orders[change.order].excluded
    books.change_order(change.order, excluded=tuple(sorted({*known, change.validator})))


@take.register
def _(change: OrderMatched, books: Rebuilt) -> None:
    offer = books.bids[change.bid].offer
    books.change_order(change.order, state=OrderState.MATCHED, legs=change.leg, unmatched=())
    books.legs[change.order, change.leg] = Leg(
        order_id=change.order,
        number=change.leg,
        bid_id=change.bid,
        validator=change.validator,
        price=change.price,
        tier=change.tier,
        first_round=change.first_round,
        rounds=change.rounds,
        first_slot=change.first_slot,
        slots=change.slots,
        work=change.work,
        job_bond=change.job_bond,
        providers_bps=offer.providers_bps,
        slot_speed=offer.slot_speed,
        slots_at_once=offer.slots,
        state=LegState.MATCHED,
        end_reason=0,
        matched_at=change.matched_at,
        accept_deadline=change.accept_deadline,
        progress_deadline=0,
        round=change.first_round,
        verified=0,
        void=0,
        initial_root=change.initial_root,
        global_in=change.initial_root,
        settles_at=0,
        from_leg=change.from_leg,
    )
    _begin_slots(books, change)
    books.reserve(change.bid, change.work)
    row = BondRow(
        kind=BondKind.JOB, owner=change.validator, leg=change.leg, round=0, slot=0, issue=0, amount=change.job_bond
    )
    books.lock(change.order, row)


def _begin_slots(books: Rebuilt, change: OrderMatched) -> None:
    if not change.from_leg:
        return
    last = RoundKey(change.order, change.from_leg, change.first_round - 1)
    for key in books.rounds[last].share_keys:
        roots = books.shares[key].roots
        assert roots is not None
        books.locals[change.order, change.leg, key.slot] = roots.local_out


@take.register
def _(change: PartWaits, books: Rebuilt) -> None:
    books.change_leg(change.order, change.leg, part=change.amount, part_until=change.until)


@take.register
def _(change: PartEnded, books: Rebuilt) -> None:
    books.change_leg(change.order, change.leg, part=0, part_until=0)
    if change.end in (PartEnd.UNAVAILABLE, PartEnd.COMPLAINT):
        books.withhold(change.order, -change.amount)


@take.register
def _(change: SlotStarted, books: Rebuilt) -> None:
    key = change.order, change.leg, change.slot
    books.openings[key] = SlotStart(
        order_id=change.order, leg=change.leg, slot=change.slot, local_root=change.local_root
    )
    books.locals[key] = change.local_root


@take.register
def _(change: OrderAccepted, books: Rebuilt) -> None:
    books.change_order(change.order, state=OrderState.RUNNING)
    books.change_leg(change.order, change.leg, state=LegState.RUNNING)


@take.register
def _(change: ProgressRestarted, books: Rebuilt) -> None:
    books.change_leg(change.order, change.leg, progress_deadline=change.deadline)


@take.register
def _(change: OrderDeclined, books: Rebuilt) -> None:
    _fail(books, change)
    if change.reason in BLAMES_JOB:
        books.count_failure(change.order)


@take.register
def _(change: LegFailed, books: Rebuilt) -> None:
    _fail(books, change)
    books.change_leg(change.order, change.leg, left_at=change.left_at)
    if change.reason != LegEnd.WRONG_SHARE:
        books.count_failure(change.order)
    if change.reason not in NOBODYS:
        failed = books.validators[change.validator].legs_failed
        books.change_validator(change.validator, legs_failed=failed + 1)


def _fail(books: Rebuilt, change: OrderDeclined | LegFailed) -> None:
    state = LegState.FAILED
    books.change_leg(change.order, change.leg, state=state, end_reason=change.reason)


@take.register
def _(change: OrderProven, books: Rebuilt) -> None:
    books.change_order(change.order, state=OrderState.PROVEN)
    books.change_leg(change.order, change.leg, state=LegState.PROVEN)


@take.register
def _(change: OrderVerified, books: Rebuilt) -> None:
    books.change_leg(change.order, change.leg, settles_at=change.settles_at)


@take.register
def _(change: StatesLacked, books: Rebuilt) -> None:
    books.change_leg(change.order, change.leg, asked=change.asked)


@take.register
def _(change: OrderRestarted, books: Rebuilt) -> None:
    books.change_order(change.order, next_round=change.next_round, work_verified=change.work_verified)
    books.change_leg(change.order, change.leg, back_leg=change.back_leg, back_root=change.root)


@take.register
def _(change: OrderHeld | OrderReleased, books: Rebuilt) -> None:
    """Nothing that others read tells of holds, but the events."""


@take.register
def _(change: LegDeadlinesMoved, books: Rebuilt) -> None:
    books.change_leg(
        change.order,
        change.leg,
        accept_deadline=change.accept_deadline,
        progress_deadline=change.progress_deadline,
    )


@take.register
def _(change: DeadlineMoved, books: Rebuilt) -> None:
    books.change_order(change.order, deadline=change.deadline)


@take.register
def _(change: OrderSettled, books: Rebuilt) -> None:
    done = LegState.DONE
    books.change_leg(change.order, change.leg, state=done, end_reason=change.reason)
    settled = books.validators[change.validator].orders_settled
    books.change_validator(change.validator, orders_settled=settled + 1)


@take.register
def _(change: OrderClosed, books: Rebuilt) -> None:
    reason = CloseReason(change.reason)
    books.change_order(change.order, state=OrderState.CLOSED, close_reason=int(reason))


@take.register
def _(change: PaymentMade, books: Rebuilt) -> None:
    payment = Payment(to=change.to, kind=change.kind, amount=change.amount, round=change.round)
    number = books.paid[change.order]
    books.payments[change.order, number] = payment
    books.paid[change.order] = number + 1
    if change.leg:
        _pay_from_bond(books, change)
    else:
        _pay_from_deposit(books, change)
    books.burnt += change.amount if change.kind in BURNS else 0
    books.community += change.amount if change.kind in TO_POOL else 0


def _pay_from_bond(books: Rebuilt, change: PaymentMade) -> None:
    round = change.round if change.issue else 0
    key = change.order, change.leg, round, change.slot, change.issue
    row = books.bond_rows.pop(key)
    if row.amount > change.amount:
        books.bond_rows[key] = replace(row, amount=row.amount - change.amount)
    if change.kind == "bond_return":
        books.add_free(change.to, change.amount)


def _pay_from_deposit(books: Rebuilt, change: PaymentMade) -> None:
    escrow, left, rows = books.escrows[change.order], change.amount, []
    for row in escrow.depositors:
        if change.kind == "refund":
            part = left if row.address == change.to else 0
            rows.append(replace(row, locked=row.locked - part, refunded=row.refunded + part))
        else:
            assert change.kind in FROM_DEPOSITS, change.kind
            part = min(left, row.locked)
            rows.append(replace(row, locked=row.locked - part, paid=row.paid + part))
        left -= part
    assert left == 0, "a deposit pays more than it has"
    used = change.amount if change.kind in FROM_WITHHELD else 0
    books.escrows[change.order] = replace(escrow, depositors=tuple(rows), withheld=escrow.withheld - used)


@take.register
def _(change: PartReturned, books: Rebuilt) -> None:
    books.withhold(change.order, -change.amount)
