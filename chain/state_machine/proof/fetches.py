"""Panels about bytes: a party says that it was not served them, and strangers try to fetch them.

The validator of the next leg asks for the states from which its leg starts (:mod:`chain.state_machine.proof.states`).
The consumer asks for the encrypted result of a hand-over round (:mod:`chain.state_machine.proof.results`). Each of the
two is a :class:`Fetch`: who pays the seats, and what follows from the ruling. All else is the same. The order is held.
A seat that has all bytes answers with their root and a digest, and serves them from then on. Otherwise it answers
``unavailable``, which only the last stage can decide.
"""

from collections.abc import Mapping
from types import MappingProxyType

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import BOND_GAS, PAY_GAS
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import weigh_end
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof import results, states
from chain.state_machine.proof.fetch import Fetch
from chain.state_machine.proof.gas import READ_GAS
from chain.state_machine.proof.room import move_panel, take_room, weigh_ask
from chain.state_machine.proof.seats import settle_panel, weigh_panel
from chain.state_machine.proof.tables import PANELS
from chain.state_machine.queue import QueueEntry
from domain.proof.records import AuditKind
from domain.proof.transitions import PanelStep
from pol.rules.states import rule_fetched

_FETCHES: Mapping[AuditKind, Fetch] = MappingProxyType(
    {AuditKind.STATES: states.FETCH, AuditKind.RESULT: results.FETCH}
)


def on_fetch(ctx: Context, entry: QueueEntry) -> None:
    """Open the panel about the states from which a leg starts, or end a panel about bytes that has decided.

    The community pool pays the seats what those who have to pay them cannot, so that the seats of small orders are
    paid, too.
    """
    panel = PANELS.get(ctx.store, *entry.panel_key)
    if panel is None:
        states.open_asked(ctx, entry.panel_key)
        return
    if panel.is_settled:
        return
    order = ORDERS.must(ctx.store, panel.order_id)
    place = panel.places[0]
    ruling = rule_fetched(place)
    fetch = _FETCHES[place.place.kind]
    move_panel(ctx, panel, PanelStep.END_DISPUTE, is_settled=True)
    take_room(ctx, panel, 0)
    payers = fetch.find_payers(ctx, order, panel, ruling)
    settle_panel(ctx, order, panel, payers.fee, payers.bonds, undecided=True)
    fetch.go_on(ctx, ORDERS.must(ctx.store, order.id), panel, ruling)


def weigh_fetch(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of opening or ending a panel about bytes."""
    panel = PANELS.get(ctx.store, *entry.panel_key)
    if panel is None:
        return weigh_ask(ctx)
    legs = sum(1 for _ in LEGS.keys(ctx.store, panel.order_id))
    return 2 * weigh_panel(panel) + 2 * (PAY_GAS + BOND_GAS) + 2 * READ_GAS * legs + weigh_end(ctx, entry)
