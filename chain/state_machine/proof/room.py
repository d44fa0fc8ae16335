"""Audit room: the limit on the number of seats that may be at work at the same time, in all panels together (protocol
section 4.6).

When a round is closed, its panel takes room, or waits until there is room. A seat returns its room when it commits, but
at the latest after the time that the slowest eligible validator needs for the work. When room becomes free, the panel
that pays its auditors most per FLOP begins first. Training goes on during the wait, for at most ``rounds_ahead``
rounds, and the waiting time moves the order's deadline. Room only delays the start of a panel: later stages take the
room that they need, and the load never affects which validators are drawn.
"""

from dataclasses import replace
from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_challenge_bond
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import begin_wait, end_wait, get_parties
from chain.state_machine.market.tables import ORDER_AUDITORS, ORDERS
from chain.state_machine.proof.gas import SEAT_GAS, VALIDATOR_GAS
from chain.state_machine.proof.lots import open_lot
from chain.state_machine.proof.tables import (
    AUDIT_LOAD,
    COMPARING,
    PANELS,
    ROOM_DUE,
    WAITING_PANELS,
    PanelSubject,
)
from chain.state_machine.queue import QueueEntry, schedule
from chain.state_machine.registry.members import may_audit
from chain.state_machine.registry.tables import PROVIDERS, VALIDATORS
from chain.state_machine.staking.tables import count_bonded
from chain.state_machine.tables import number_of
from domain.amount import BPS, PFLOP
from domain.keys import PanelKey, RoundKey
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.events import PanelBegun, PanelWaits, RoomTaken
from domain.proof.params import ProofParams
from domain.proof.records import Panel
from domain.proof.transitions import PANEL_STEPS, PanelStep
from pol.rules.fees import compute_largest_fee
from pol.rules.panels import GROUP_SEATS, count_groups, least_work
from pol.rules.schedule import served_terms
from pol.rules.tiers.table import tier_of

_MOST = 2**62


def ask_room(ctx: Context, order: Order, panel: Panel) -> None:
    """Let a new panel begin if there is room and no other panel waits; otherwise let it wait."""
    if not _is_anyone_waiting(ctx) and _has_room(ctx, order):
        _begin(ctx, order, panel)
        return
    WAITING_PANELS.mark(ctx.store, *_turn(ctx, order, panel))
    begin_wait(ctx, order.id)
    ctx.emit(PanelWaits(panel.key))
    schedule(ctx, ctx.clock, ROOM_DUE)


def move_panel(ctx: Context, panel: Panel, step: PanelStep, **changes: Any) -> Panel:
    """Store a panel with changes that lead it to the state after a step, and return it."""
    moved = replace(panel, **changes)
    PANEL_STEPS.check(step, panel.state, moved.state)
    PANELS.put(ctx.store, moved)
    return moved


def take_room(ctx: Context, panel: Panel, seats: int) -> Panel:
    """Give a panel the room of ``seats`` seats, even if less room is free; return the panel as it is stored then.

    If ``seats`` is 0, take all its room back.
    """
    stored = PANELS.must(ctx.store, *panel.key)
    if seats == stored.load:
        return stored
    AUDIT_LOAD.set(ctx.store, AUDIT_LOAD.get(ctx.store) + seats - stored.load)
    changed = PANELS.update(ctx.store, *panel.key, load=seats)
    ctx.emit(RoomTaken(panel.key, seats))
    if seats < stored.load and _is_anyone_waiting(ctx):
        schedule(ctx, ctx.clock, ROOM_DUE)
    return changed


def count_next(panel: Panel) -> int:
    """Return the number of seats that a panel's next stage needs; 0 if no place is undecided."""
    return sum(panel.wanted) if panel.undecided or not panel.stage else 0


def wait_for_seed(ctx: Context, order: Order, leg: Leg, panel: Panel, stage: int) -> None:
    """Open the lot for the seed of a panel's stage."""
    subject = PanelSubject(panel.key, stage)
    open_lot(ctx, subject, get_panel_parties(ctx, order, leg, panel.key), order.params.lot_wait)


def leave_room(ctx: Context, order: Order, panel: Panel) -> None:
    """Take back the room of a panel that is over; if the panel is still waiting for room, or for the comparison with
    other replicas, end the wait.
    """
    turn = _turn(ctx, order, panel)
    if WAITING_PANELS.has(ctx.store, *turn):
        _stop_waiting(ctx, order, turn)
    if not panel.dispute:
        end_comparison(ctx, order, panel.round_key)
    take_room(ctx, panel, 0)


def end_comparison(ctx: Context, order: Order, key: RoundKey) -> None:
    """If a closed round waits for the comparison with other replicas, end the wait."""
    if COMPARING.has(ctx.store, *key):
        COMPARING.delete(ctx.store, *key)
        end_wait(ctx, order)


def on_room(ctx: Context, _: QueueEntry) -> None:
    """Let the first waiting panel begin if there is room for it; if so, schedule another entry for the next panel."""
    for turn in WAITING_PANELS.keys(ctx.store):
        order = ORDERS.must(ctx.store, turn[1])
        panel = PANELS.must(ctx.store, turn[1], *map(number_of, turn[2:]))
        if _has_room(ctx, order):
            _stop_waiting(ctx, order, _turn(ctx, order, panel))
            _begin(ctx, order, panel)
            schedule(ctx, ctx.clock, ROOM_DUE)
        return


def weigh_room(ctx: Context, _: QueueEntry) -> int:
    """Return the gas of letting one waiting panel begin."""
    return SEAT_GAS + weigh_ask(ctx)


def weigh_ask(ctx: Context) -> int:
    """Return the gas of computing the room and the parties; both computations read all validators."""
    return 2 * VALIDATOR_GAS * count_bonded(ctx.store)


def _begin(ctx: Context, order: Order, panel: Panel) -> None:
    """Take the room of the first stage, and open the lot for its seed.

    The panel of a round has as many groups of places as its fee can pay and the room allows. If other panels wait, it
    has only one group, and its fee is then lower.
    """
    leg = LEGS.must(ctx.store, order.id, panel.leg)
    groups = 1 if panel.dispute else _count_groups(ctx, order, leg)
    panel = move_panel(ctx, panel, PanelStep.BEGIN, wanted=(order.params.auditors,) * groups)
    ctx.emit(PanelBegun(panel.key, groups))
    take_room(ctx, panel, count_next(panel))
    wait_for_seed(ctx, order, leg, panel, 1)


def _count_groups(ctx: Context, order: Order, leg: Leg) -> int:
    """Return the number of groups of places that the panel of a round can have now."""
    able = _count_able(ctx, order)
    seats = 0
    if not _is_anyone_waiting(ctx):
        seats = min(able // GROUP_SEATS, _room(ctx, able) - AUDIT_LOAD.get(ctx.store))
    terms = served_terms(order.terms, leg)
    return count_groups(terms, tier_of(leg).paid(order.params), leg.price, compute_largest_fee(order, leg), seats)


def get_panel_parties(ctx: Context, order: Order, leg: Leg, key: PanelKey) -> tuple[str, ...]:
    """Return the parties that must not sit in a panel: the parties of the order, and the parties of a dispute.

    The parties of a dispute are the owner of its bond and, if the owner is a provider, its validator. The same holds
    for who appealed the ruling of the panel. If the panel is about states, its parties are the validator that asked
    for it, and the operators in its cluster.
    """
    parties = set(get_parties(ctx, order, leg.validator))
    panel = PANELS.get(ctx.store, *key)
    if panel is not None and panel.asker:
        parties.update(get_parties(ctx, order, panel.asker))
    bond = get_challenge_bond(ctx, key) if key.dispute else None
    bonded = (bond.owner if bond is not None else "", panel.appellant if panel is not None else "")
    for name in filter(None, bonded):
        provider = PROVIDERS.get(ctx.store, name)
        owners = (name, provider.validator if provider is not None else "")
        parties.update(owner for owner in owners if VALIDATORS.has(ctx.store, owner))
    return tuple(sorted(parties))


def _has_room(ctx: Context, order: Order) -> bool:
    """Return whether a panel may begin.

    If no other panel runs, it may begin even if it needs more than the whole room.
    """
    total = AUDIT_LOAD.get(ctx.store)
    return total == 0 or total + order.params.auditors <= _room(ctx, _count_able(ctx, order))


def _room(ctx: Context, able: int) -> int:
    """Return the number of seats that may be at work at once if ``able`` validators can audit an order."""
    return able * ctx.block.params.of(ProofParams).audit_room_bps // BPS


def _count_able(ctx: Context, order: Order) -> int:
    """Return the number of validators in the set that could audit the order when it was submitted."""
    found = (VALIDATORS.get(ctx.store, name) for name in ORDER_AUDITORS.must(ctx.store, order.id).operators)
    return sum(1 for validator in found if validator is not None and may_audit(validator))


def _turn(ctx: Context, order: Order, panel: Panel) -> tuple[int, bytes, int, int, int]:
    """Return the key by which waiting panels are sorted: by fee per FLOP, the highest first, and then by order, leg,
    round and dispute.
    """
    leg = LEGS.must(ctx.store, order.id, panel.leg)
    fee = compute_largest_fee(order, leg) * PFLOP
    least = least_work(served_terms(order.terms, leg), order.params)
    rate = fee // max(1, order.params.auditors * least)
    return _MOST - min(_MOST, rate), order.id, panel.leg, panel.round, panel.dispute


def _is_anyone_waiting(ctx: Context) -> bool:
    return any(True for _ in WAITING_PANELS.keys(ctx.store))


def _stop_waiting(ctx: Context, order: Order, turn: tuple[int, bytes, int, int, int]) -> None:
    """End the wait of a panel."""
    WAITING_PANELS.delete(ctx.store, *turn)
    end_wait(ctx, order)
