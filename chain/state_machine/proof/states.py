"""Panels about the states from which a leg starts: the validator of the leg could not fetch them.

A panel of strangers tries to fetch the states (:mod:`pol.rules.states`). The leg waits for it: the order is held. If
the seats have the states, they serve them, the leg's validator pays the seats, and its time to accept begins again. If
the states are lost, the validator pays nothing, and the part that waits for the failed leg returns to the deposit. The
order then goes back if its deposit pays for that: to its newest verified hand-over round before the lost one, whose
states the consumer may have, or, if they are lost too, to the payload. If the panel cannot decide, no one pays, and the
order opens again without the validator.
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_job_bond
from chain.state_machine.legs.ends import WayBack, leave_states, lose_states
from chain.state_machine.legs.parts import end_part
from chain.state_machine.legs.progress import renew_accept
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.holds import HELD_SECONDS_MAX, hold, release
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.fetch import Fetch, Payers
from chain.state_machine.proof.panels import open_fetch_panel
from chain.state_machine.proof.seats import count_earned
from chain.state_machine.proof.tables import FETCH_DUE, ROUNDS
from chain.state_machine.queue import schedule
from domain.keys import PanelKey, RoundKey
from domain.legs.reasons import PartEnd
from domain.legs.records import Leg, LegState
from domain.market.records import Order
from domain.proof.events import StatesPanelOpened, StatesRuled
from domain.proof.records import Panel, Ruling
from pol.rules.schedule import round_work
from pol.rules.states import STATES, asking_leg, is_asking, panel_number

HOLD_REASON = "states"
"""The reason for which an order is held while a panel tries to fetch states."""


def ask_states(ctx: Context, order: Order, leg: Leg) -> None:
    """Hold an order, and let the queue open the panel about the states from which its leg starts."""
    hold(ctx, order.id, HOLD_REASON, ctx.clock + HELD_SECONDS_MAX)
    schedule(ctx, ctx.clock, FETCH_DUE, *RoundKey(order.id, leg.from_leg, leg.first_round - 1).panel(panel_number(leg)))


def open_asked(ctx: Context, key: PanelKey) -> None:
    """Open the panel about the states from which a leg starts, if the leg still waits for it."""
    order = ORDERS.must(ctx.store, key.order_id)
    leg = LEGS.must(ctx.store, order.id, asking_leg(key.dispute))
    if is_asking(leg):
        left = ROUNDS.must(ctx.store, *key.round_key)
        # If the asker lacks the states even after such a panel, all eligible validators decide in a single stage.
        opened = StatesPanelOpened(panel=key, asker=leg.validator, last_next=leg.asked > 1)
        open_fetch_panel(ctx, order, opened, STATES, left.next_root)


def _waits(leg: Leg) -> bool:
    return leg.state is LegState.MATCHED and is_asking(leg)


def _find_payers(ctx: Context, order: Order, panel: Panel, ruling: Ruling) -> Payers:
    """Let the leg's validator pay if the states can be fetched, and the part of the failed leg if they are lost."""
    leg = LEGS.must(ctx.store, order.id, asking_leg(panel.dispute))
    bond = get_job_bond(ctx, order.id, leg.number) if _waits(leg) and ruling is Ruling.RIGHT else None
    fee = 0
    source = LEGS.must(ctx.store, order.id, panel.leg)
    if ruling is Ruling.WRONG and source.part:
        fee = min(source.part, count_earned(ctx, order, panel))
        end_part(ctx, source, PartEnd.UNAVAILABLE)
    return Payers(fee=fee, bonds=(bond,) if bond is not None else ())


def _go_on(ctx: Context, order: Order, panel: Panel, ruling: Ruling) -> None:
    """Let the leg go on or end."""
    leg = LEGS.must(ctx.store, order.id, asking_leg(panel.dispute))
    waits = _waits(leg)
    leg = LEGS.update(ctx.store, order.id, leg.number, asked=leg.asked + 1, asked_at=ctx.clock)
    ctx.emit(
        StatesRuled(
            panel=panel.key,
            leg=leg.number,
            asker=panel.asker,
            ruling=int(ruling),
            asked=leg.asked,
            asked_at=leg.asked_at,
        )
    )
    seconds = leg.accept_deadline - leg.matched_at
    release(ctx, order.id, HOLD_REASON)
    if not waits:
        return
    order, leg = ORDERS.must(ctx.store, order.id), LEGS.must(ctx.store, order.id, leg.number)
    if ruling is Ruling.RIGHT:
        renew_accept(ctx, leg, seconds)
    elif ruling is Ruling.WRONG:
        lose_states(ctx, order, leg, _find_way_back(ctx, order, leg))
    else:
        leave_states(ctx, order, leg)


def _find_way_back(ctx: Context, order: Order, leg: Leg) -> WayBack:
    """Return the place to which an order goes back, because the states from which ``leg`` would start are lost.

    It is the end of the newest verified hand-over round before these states, of this leg's forerunners: the leg that it
    continues, the leg that this one continues, and so on. If the order has gone back to these states before, or if
    there is no such round, it is the payload.
    """
    start = WayBack(leg=0, next_round=0, root=order.terms.global_root, work=0)
    legs = {known.number: known for known in LEGS.scan(ctx.store, order.id)}
    if any((known.back_leg, known.back_root) == (leg.from_leg, leg.initial_root) for known in legs.values()):
        return start
    every = order.params.handover_every
    end = (leg.first_round - 1) // every * every
    if not end:
        return start
    source = legs[leg.from_leg]
    while source.first_round >= end:
        source = legs[source.from_leg]
    left = ROUNDS.must(ctx.store, order.id, source.number, end - 1)
    return WayBack(leg=source.number, next_round=end, root=left.next_root, work=end * round_work(order.terms))


FETCH = Fetch(find_payers=_find_payers, go_on=_go_on)
"""The panel about states."""
