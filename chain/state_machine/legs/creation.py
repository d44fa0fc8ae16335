"""The creation of a leg. An order was sold to a bid, which serves some of the order's rounds and slots, starting from
given states.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import lock_bond
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.legs.tables import ACCEPT_DUE, LEGS, LIVE_LEGS, SLOT_STARTS
from chain.state_machine.market.auction import ask_rest
from chain.state_machine.market.book import reserve
from chain.state_machine.market.holds import get_held_seconds
from chain.state_machine.market.hooks import Match
from chain.state_machine.market.tables import ORDERS, ORDERS_OF_VALIDATOR
from chain.state_machine.queue import schedule
from domain.amount import ceil_div
from domain.ledger.records import BondKind, BondRow
from domain.legs.events import OrderMatched, SlotStarted
from domain.legs.records import Leg, SlotStart
from domain.legs.transitions import LEG_STEPS, LegStep
from domain.market.records import JobTerms, Order
from domain.market.transitions import ORDER_STEPS, OrderStep
from pol.rules.schedule import served_terms, total_work


@dataclass(frozen=True, slots=True)
class LegExtent:
    """The part of an order that a leg serves: its rounds and slots, and the states from which it starts.

    If ``from_leg`` is not 0, the leg continues a verified round of that leg: the one before ``first_round``. Each slot
    then starts from the local state at the end of its accepted share in that round. Otherwise ``local_roots`` has the
    slots that do not start from the local state of the order's terms.
    """

    first_round: int
    rounds: int
    first_slot: int
    slots: int
    initial_root: bytes
    local_roots: Mapping[int, bytes] = field(default_factory=dict)
    from_leg: int = 0


def get_whole(terms: JobTerms) -> LegExtent:
    """Return the extent of a leg that serves a whole order, starting from the payload."""
    return LegExtent(
        first_round=0,
        rounds=terms.rounds,
        first_slot=0,
        slots=terms.slots,
        initial_root=terms.global_root,
    )


def get_rest(ctx: Context, order: Order) -> LegExtent:
    """Return the extent of a leg that serves every round of an order that is not verified yet."""
    last = LEGS.get(ctx.store, order.id, order.legs) if order.legs else None
    if last is None or not order.next_round:
        return get_whole(order.terms)
    return LegExtent(
        first_round=order.next_round,
        rounds=order.terms.rounds - order.next_round,
        first_slot=0,
        slots=order.terms.slots,
        initial_root=last.left_root,
        from_leg=last.verified_leg,
    )


def open_rest(ctx: Context, match: Match) -> None:
    """Open a leg that serves the rest of a matched order."""
    open_leg(ctx, match, get_rest(ctx, match.order))


def open_leg(ctx: Context, match: Match, extent: LegExtent) -> Leg:
    """Open a leg: lock the job bond, reserve the bid's capacity, and set the deadline to accept.

    Raise ValueError for an extent outside the order. Only a bug can cause this error, because no message contains an
    extent.
    """
    order = match.order
    _check_extent(order.terms, extent)
    leg = _make_leg(ctx, match, extent)
    LEGS.put(ctx.store, leg)
    LIVE_LEGS.mark(ctx.store, leg.validator, leg.order_id, leg.number)
    state = ORDER_STEPS.after(OrderStep.MATCH, order.state)
    ORDERS.update(ctx.store, order.id, state=state, legs=leg.number, unmatched=())
    ORDERS_OF_VALIDATOR.mark(ctx.store, leg.validator, order.id)
    TALLIES.update(ctx.store, order.id, paid=0, compensated=0)
    reserve(ctx, leg.bid_id, leg.validator, leg.work, leg.price)
    schedule(ctx, leg.accept_deadline, ACCEPT_DUE, order.id, leg.number)
    _emit_matched(ctx, leg)
    _put_starts(ctx, leg, extent.local_roots)
    row = BondRow(
        kind=BondKind.JOB,
        owner=leg.validator,
        leg=leg.number,
        round=0,
        slot=0,
        issue=0,
        amount=leg.job_bond,
    )
    lock_bond(ctx, order.id, row)
    return leg


def _make_leg(ctx: Context, match: Match, extent: LegExtent) -> Leg:
    """Return the new leg of a match."""
    order, bid, terms = match.order, match.bid, match.order.terms
    asked = ask_rest(order)
    wait = asked.accept_seconds + ceil_div(asked.trial_work, bid.offer.slot_speed)
    return Leg(
        order_id=order.id,
        number=order.legs + 1,
        bid_id=bid.id,
        validator=bid.validator,
        price=match.price,
        tier=match.tier,
        first_round=extent.first_round,
        rounds=extent.rounds,
        first_slot=extent.first_slot,
        slots=extent.slots,
        work=total_work(served_terms(terms, extent)),
        job_bond=match.job_bond,
        providers_bps=bid.offer.providers_bps,
        slot_speed=bid.offer.slot_speed,
        slots_at_once=bid.offer.slots,
        state=LEG_STEPS.after(LegStep.MATCH),
        end_reason=0,
        matched_at=ctx.clock,
        # If the order is held, the end of the pause adds its length to the deadline. So the pause is subtracted here.
        accept_deadline=ctx.clock + wait - get_held_seconds(ctx, order.id),
        progress_deadline=0,
        round=extent.first_round,
        verified=0,
        void=0,
        initial_root=extent.initial_root,
        global_in=extent.initial_root,
        settles_at=0,
        from_leg=extent.from_leg,
    )


def _emit_matched(ctx: Context, leg: Leg) -> None:
    ctx.emit(
        OrderMatched(
            order=leg.order_id,
            leg=leg.number,
            validator=leg.validator,
            bid=leg.bid_id,
            price=leg.price,
            job_bond=leg.job_bond,
            work=leg.work,
            tier=leg.tier,
            first_round=leg.first_round,
            rounds=leg.rounds,
            first_slot=leg.first_slot,
            slots=leg.slots,
            initial_root=leg.initial_root,
            matched_at=leg.matched_at,
            accept_deadline=leg.accept_deadline,
            from_leg=leg.from_leg,
        )
    )


def _put_starts(ctx: Context, leg: Leg, local_roots: Mapping[int, bytes]) -> None:
    """Store the local roots of slots that do not start from the local state of the order's terms."""
    for slot, root in sorted(local_roots.items()):
        SLOT_STARTS.put(
            ctx.store,
            SlotStart(order_id=leg.order_id, leg=leg.number, slot=slot, local_root=root),
        )
        ctx.emit(SlotStarted(order=leg.order_id, leg=leg.number, slot=slot, local_root=root))


def _check_extent(terms: JobTerms, extent: LegExtent) -> None:
    """Check that an extent has at least one round and slot of the order, and local roots only for its own slots."""
    rounds = range(extent.first_round, extent.first_round + extent.rounds)
    slots = range(extent.first_slot, extent.first_slot + extent.slots)
    inside = (
        0 <= rounds.start < rounds.stop <= terms.rounds
        and 0 <= slots.start < slots.stop <= terms.slots
        and all(slot in slots for slot in sorted(extent.local_roots))
    )
    if not inside:
        raise ValueError(f"{extent} is not a part of {terms.rounds} rounds of {terms.slots} slots")
