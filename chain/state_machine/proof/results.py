"""Panels about the encrypted result of a hand-over round: the consumer says that it was never served it.

If the seats can fetch the result, the consumer pays them, because no one can tell who was at fault: it has its result
now, from the seats. The rest of its bond returns, and the wait before the settlement begins again. If the last stage
finds that the result is unavailable, this is the validator's fault, like a wrong hand-over. If the panel cannot decide,
no one pays.
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_job_bond, get_result_bond, lock_bond
from chain.state_machine.legs.ends import void_leg
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.holds import HELD_SECONDS_MAX, hold, release
from chain.state_machine.market.orders import is_ending
from chain.state_machine.proof.fetch import Fetch, Payers
from chain.state_machine.proof.panels import open_fetch_panel
from chain.state_machine.proof.tables import WINDOW_DUE, WRONG_HANDOVERS
from chain.state_machine.queue import schedule
from domain.ledger.records import RESULT_SLOT, BondKind, BondRow
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg
from domain.market.records import Order, OrderState
from domain.proof.events import ResultMissed, ResultRuled
from domain.proof.records import Panel, Round, Ruling
from pol.rules.orders import handover_seconds
from pol.rules.states import RESULT, result_number

HOLD_REASON = "result"
"""The reason for which an order is held while a panel tries to fetch a result."""


def ask_result(ctx: Context, order: Order, leg: Leg, closed: Round, bond: int) -> None:
    """Lock the consumer's bond, hold the order, and open the panel about the result of a round."""
    key = closed.key.panel(result_number(leg))
    row = BondRow(
        kind=BondKind.RESULT,
        owner=order.consumer,
        leg=leg.number,
        round=closed.round,
        slot=RESULT_SLOT,
        issue=key.dispute,
        amount=bond,
    )
    lock_bond(ctx, order.id, row)
    LEGS.update(ctx.store, order.id, leg.number, missed=leg.missed + 1)
    hold(ctx, order.id, HOLD_REASON, ctx.clock + HELD_SECONDS_MAX)
    opened = ResultMissed(panel=key, asker=order.consumer, bond=bond, last_next=leg.missed > 0)
    open_fetch_panel(ctx, order, opened, RESULT, closed.ciphertext_root)


def _find_payers(ctx: Context, order: Order, panel: Panel, ruling: Ruling) -> Payers:
    """Let the consumer pay if the result can be fetched, and the validator if it is unavailable."""
    bond = None
    if ruling is Ruling.RIGHT:
        bond = get_result_bond(ctx, panel.key)
    elif ruling is Ruling.WRONG:
        bond = get_job_bond(ctx, order.id, panel.leg)
    return Payers(bonds=(bond,) if bond is not None else ())


def _go_on(ctx: Context, order: Order, panel: Panel, ruling: Ruling) -> None:
    """Return the consumer's bond, and fail the leg or let its settlement wait again.

    If the order was held for too long, it may have ended meanwhile. Then only the bond returns.
    """
    row = get_result_bond(ctx, panel.key)
    if row is not None:
        return_bond(ctx, order.id, row)
    leg = LEGS.must(ctx.store, order.id, panel.leg)
    goes_on = order.state is not OrderState.CLOSED and not is_ending(ctx, order) and order.legs == leg.number
    settles_at = 0
    if goes_on and leg.is_live and leg.settles_at and ruling is not Ruling.WRONG:
        # The consumer has its whole time to fetch the result from the seats.
        settles_at = ctx.clock + handover_seconds(order.terms, order.params, order.window)
        LEGS.update(ctx.store, order.id, leg.number, settles_at=settles_at)
        schedule(ctx, settles_at, WINDOW_DUE, order.id, leg.number, leg.round)
    if goes_on and ruling is Ruling.WRONG:
        WRONG_HANDOVERS.mark(ctx.store, order.id, leg.number)
    ctx.emit(ResultRuled(panel=panel.key, asker=panel.asker, ruling=int(ruling), settles_at=settles_at))
    release(ctx, order.id, HOLD_REASON)
    if goes_on and ruling is Ruling.WRONG:
        void_leg(ctx, order, LEGS.must(ctx.store, order.id, leg.number), LegEnd.WRONG_HANDOVER)


FETCH = Fetch(find_payers=_find_payers, go_on=_go_on)
"""The panel about a result."""
