"""Audit room: how much of the auditors' time the panels may take together (protocol section 4.6).

A panel takes room from the close of its round, or waits for it; what frees room lets the next ones in, who pays most
for the work of its auditors first. Training goes on meanwhile, ``rounds_ahead`` at most, and what an order waits is
added to its deadline. Room only makes a panel begin later: a stage that follows takes what it needs, and load never
changes who is drawn.
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.legs.fees import compute_audit_fee
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.holds import get_held_seconds
from chain.state_machine.market.orders import get_parties
from chain.state_machine.market.tables import ORDER_DUE, ORDERS
from chain.state_machine.proof.gas import SEAT_GAS, VALIDATOR_GAS
from chain.state_machine.proof.lots import open_lot
from chain.state_machine.proof.tables import (
    AUDIT_LOAD,
    PANELS,
    ROOM_DUE,
    WAITING_PANELS,
    PanelSubject,
)
from chain.state_machine.queue import QueueEntry, cancel, schedule
from chain.state_machine.registry.members import is_active
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.tables import number_of
from domain.amount import PFLOP
from domain.market.events import DeadlineMoved
from domain.market.records import Order, OrderState
from domain.proof.events import PanelWaits, RoomTaken
from domain.proof.params import ProofParams
from domain.proof.records import Panel
from pol.rules.panels import least_work, panel_load, segment_count
from pol.rules.schedule import served_terms
from pol.rules.tiers.table import tier_of

_MOST = 2**62


def ask_room(ctx: Context, order: Order, panel: Panel) -> None:
    """Let a new panel begin where there is room and nobody waits for it, or wait in turn."""
    if not _is_anyone_waiting(ctx) and _has_room(ctx, order, panel):
        _begin(ctx, order, panel)
        return
    WAITING_PANELS.mark(ctx.store, *_turn(ctx, order, panel))
    tally = TALLIES.must(ctx.store, order.id)
    since = tally.waits_since if tally.waiting else ctx.clock
    TALLIES.update(ctx.store, order.id, waiting=tally.waiting + 1, waits_since=since)
    ctx.emit(PanelWaits(panel.key))
    schedule(ctx, ctx.clock, ROOM_DUE)


def take_room(ctx: Context, order: Order, panel: Panel, seats: int) -> None:
    """Let a panel take the room of so many seats, whatever there is; 0 gives back what it has."""
    load = _weigh(ctx, order, panel, seats)
    had = PANELS.must(ctx.store, *panel.key).load
    AUDIT_LOAD.set(ctx.store, AUDIT_LOAD.get(ctx.store) + load - had)
    if load != had:
        PANELS.update(ctx.store, *panel.key, load=load)
        ctx.emit(RoomTaken(panel.key, load))
    if load < had and _is_anyone_waiting(ctx):
        schedule(ctx, ctx.clock, ROOM_DUE)


def leave_room(ctx: Context, order: Order, panel: Panel) -> None:
    """Give back the room of a panel that is over, or its place among those who wait."""
    turn = _turn(ctx, order, panel)
    if WAITING_PANELS.has(ctx.store, *turn):
        _stop_waiting(ctx, order, turn)
    take_room(ctx, order, panel, 0)


def on_room(ctx: Context, _: QueueEntry) -> None:
    """Let the first panel begin that waits, if there is room for it, and look again."""
    for turn in WAITING_PANELS.keys(ctx.store):
        order = ORDERS.must(ctx.store, turn[1])
        panel = PANELS.must(ctx.store, turn[1], number_of(turn[2]), number_of(turn[3]))
        if _has_room(ctx, order, panel):
            _stop_waiting(ctx, order, _turn(ctx, order, panel))
            _begin(ctx, order, panel)
            schedule(ctx, ctx.clock, ROOM_DUE)
        return


def weigh_room(ctx: Context, _: QueueEntry) -> int:
    """Return the gas of letting one panel begin."""
    return SEAT_GAS + weigh_ask(ctx)


def weigh_ask(ctx: Context) -> int:
    """Return the gas of looking for room, and for who is a party: the validators, twice."""
    return 2 * VALIDATOR_GAS * sum(1 for _ in VALIDATORS.keys(ctx.store))


def _begin(ctx: Context, order: Order, panel: Panel) -> None:
    """Take the room of the first stage, and wait for its seed."""
    take_room(ctx, order, panel, order.params.auditors)
    leg = LEGS.must(ctx.store, order.id, panel.leg)
    parties = get_parties(ctx, order, leg.validator)
    open_lot(ctx, PanelSubject(panel.key, 1), parties, order.params.lot_wait)


def _has_room(ctx: Context, order: Order, panel: Panel) -> bool:
    """Tell whether a panel may begin; one that is larger than all there is begins alone."""
    total = AUDIT_LOAD.get(ctx.store)
    load = _weigh(ctx, order, panel, order.params.auditors)
    room = ctx.block.params.of(ProofParams).audit_room_bps * _count_able(ctx, order, panel)
    return total == 0 or total + load <= room


def _count_able(ctx: Context, order: Order, panel: Panel) -> int:
    """Return how many validators of the set promise enough for the order."""
    may_sit = tier_of(LEGS.must(ctx.store, order.id, panel.leg)).may_sit
    return sum(
        is_active(found) and may_sit(order, found.audit_speed, found.audit_rate) for found in VALIDATORS.scan(ctx.store)
    )


def _weigh(ctx: Context, order: Order, panel: Panel, seats: int) -> int:
    """Return the room that so many seats of a panel take, with as many places as it draws."""
    leg = LEGS.must(ctx.store, order.id, panel.leg)
    terms, fee = served_terms(order.terms, leg), compute_audit_fee(order, leg)
    segments = segment_count(terms, order.params, order.price_limit, fee, order.audit_ms)
    return panel_load(terms, order.params, segments, seats, order.audit_ms)


def _turn(ctx: Context, order: Order, panel: Panel) -> tuple[int, bytes, int, int]:
    """Return where a panel waits: the higher its fee for a FLOP of its auditors, the sooner; then by its name."""
    leg = LEGS.must(ctx.store, order.id, panel.leg)
    fee = compute_audit_fee(order, leg) * PFLOP
    least = least_work(served_terms(order.terms, leg), order.params)
    rate = fee // max(1, order.params.auditors * least)
    return _MOST - min(_MOST, rate), order.id, panel.leg, panel.round


def _is_anyone_waiting(ctx: Context) -> bool:
    return any(True for _ in WAITING_PANELS.keys(ctx.store))


def _stop_waiting(ctx: Context, order: Order, turn: tuple[int, bytes, int, int]) -> None:
    """Take a panel out of those who wait; with the last of an order its deadline moves by the time that it took."""
    WAITING_PANELS.delete(ctx.store, *turn)
    tally = TALLIES.must(ctx.store, order.id)
    waited = 0 if tally.waiting > 1 else ctx.clock - tally.waits_since
    # The time that the order is held as well is added when it is released.
    waited -= min(waited, get_held_seconds(ctx, order.id))
    TALLIES.update(ctx.store, order.id, waiting=tally.waiting - 1)
    if waited and order.state in (OrderState.RUNNING, OrderState.PROVEN):
        moved = ORDERS.update(ctx.store, order.id, deadline=order.deadline + waited)
        cancel(ctx, order.deadline, ORDER_DUE, order.id)
        schedule(ctx, moved.deadline, ORDER_DUE, order.id)
        ctx.emit(DeadlineMoved(order.id, moved.deadline))
