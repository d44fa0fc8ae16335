"""Appeals of rulings: a ruling against the chain that is not of the last stage has no effect while it can be appealed.

Only a few validators, drawn by lot, have voted before the last stage. So their ruling waits. If someone appeals it, all
eligible validators that are left decide the wrong places again, in the last stage of the same panel. If no one does,
the round becomes void when the time is over. Meanwhile the round is held, and no money moves.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import cut_bond, get_appeal_bond, lock_bond
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.holds import HELD_SECONDS_MAX, hold, release
from chain.state_machine.market.tables import ORDER_AUDITORS
from chain.state_machine.proof.room import move_panel, take_room, wait_for_seed
from chain.state_machine.proof.tables import APPEAL_DUE
from chain.state_machine.queue import cancel, schedule
from domain.keys import PanelKey
from domain.ledger.records import APPEAL_SLOT, BondKind, BondRow
from domain.legs.moves import BURN
from domain.legs.records import Leg
from domain.market.records import Order
from domain.moves import Transfer
from domain.proof.events import RulingAppealed, RulingWaits
from domain.proof.records import Panel, PanelPlace, Ruling
from domain.proof.transitions import PanelStep
from pol.rules.disputes import appeal_bond, appeal_seconds
from pol.rules.panels import audit_price
from pol.rules.tiers.table import tier_of


def await_appeal(ctx: Context, order: Order, panel: Panel) -> None:
    """Let a ruling against the chain wait until the time to appeal it is over. The round is held until then."""
    seconds = appeal_seconds(order.window, order.params.appeal_wait)
    until = ctx.clock + seconds
    panel = move_panel(ctx, panel, PanelStep.RULE, appeal_until=until)
    take_room(ctx, panel, 0)
    hold(ctx, panel.round_key, _hold_reason(panel.key), ctx.clock + HELD_SECONDS_MAX)
    schedule(ctx, until, APPEAL_DUE, *panel.key)
    ctx.emit(RulingWaits(panel.key, until))


def compute_bond(ctx: Context, order: Order, leg: Leg, panel: Panel, challenge_min: int) -> int:
    """Return the bond (uassay) of an appeal: the pay of all listed auditors for the places that they decide again."""
    price = audit_price(order.params, leg.price)
    cost = tier_of(leg).cost
    costs = (cost(order.terms, place.place.kind, price) for place in panel.places if _is_asked(place))
    seats = len(ORDER_AUDITORS.must(ctx.store, order.id).operators)
    return appeal_bond(costs, order.params.answer_fee, seats, challenge_min)


def open_appeal(ctx: Context, order: Order, leg: Leg, panel: Panel, appellant: str, bond: int) -> None:
    """Lock the bond of an appeal, and let all eligible validators that are left decide in the panel's last stage.

    They decide the places that were found wrong, and those on which the panel had not ruled yet. A place that was found
    wrong keeps its first finding. So the first ruling stays if the last stage cannot decide.
    """
    key = panel.key
    row = BondRow(
        kind=BondKind.APPEAL,
        owner=appellant,
        leg=key.leg,
        round=key.round,
        slot=APPEAL_SLOT,
        issue=key.dispute + 1,
        amount=bond,
    )
    lock_bond(ctx, order.id, row)
    cancel(ctx, panel.appeal_until, APPEAL_DUE, *key)
    asked = tuple(number for number, place in enumerate(panel.places) if _is_asked(place))
    places = tuple(replace(place, ruling=Ruling.OPEN) if _is_asked(place) else place for place in panel.places)
    panel = move_panel(
        ctx,
        panel,
        PanelStep.APPEAL,
        places=places,
        wanted=(0,) * len(panel.wanted),
        last_next=True,
        appellant=appellant,
    )
    ctx.emit(RulingAppealed(panel=key, appellant=appellant, bond=bond, places=asked))
    wait_for_seed(ctx, order, leg, panel, panel.stage + 1)


def end_appeal(ctx: Context, key: PanelKey, *, lost: bool = False) -> None:
    """End the wait for a ruling, or its appeal: return what is left of the bond, or burn it if it is ``lost``."""
    row = get_appeal_bond(ctx, key)
    if row is not None and lost:
        burn = Transfer(move=BURN, source=key.order_id.hex(), target="", amount=row.amount)
        cut_bond(ctx, key.order_id, row, (burn,))
    elif row is not None:
        return_bond(ctx, key.order_id, row)
    release(ctx, key.round_key, _hold_reason(key))


def _is_asked(place: PanelPlace) -> bool:
    return place.ruling in (Ruling.WRONG, Ruling.OPEN)


def _hold_reason(key: PanelKey) -> str:
    return f"ruling {key.dispute}"
