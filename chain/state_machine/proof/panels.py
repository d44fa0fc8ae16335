"""Panels of rounds and of disputes: how they are opened, and what they know about a place (protocol section 5.1).

The tier of the leg gives the probability that a round gets a panel. If the probability is below 1, a lot decides after
the round is closed. A round without a panel is verified when its window is over, as on a chain without auditors.

A panel then goes from stage to stage (:mod:`chain.state_machine.proof.stages`) until it has a ruling about each of its
places (:mod:`chain.state_machine.proof.rulings`). A ruling against the chain makes the round void
(:mod:`chain.state_machine.proof.voiding`).
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.proof.places import emit_place, get_extents, get_stops, make_place
from chain.state_machine.proof.room import ask_room, wait_for_seed
from chain.state_machine.proof.tables import AUDIT_STAGE, PANELS
from domain.amount import BPS
from domain.keys import PanelKey, RoundKey, ShareRef
from domain.market.records import Order
from domain.proof.events import DisputePanelOpened, ResultMissed, StatesPanelOpened
from domain.proof.records import AuditPlace, Panel, PanelPlace, Round, Ruling
from domain.proof.transitions import PANEL_STEPS, PanelStep
from pol.rules.schedule import served_terms
from pol.rules.tiers.table import tier_of


def open_panel(ctx: Context, order: Order, closed: Round) -> None:
    """Open the panel of a closed round.

    Do nothing if the order has no auditors, or if its tier never gives the round a panel.
    """
    key = closed.key
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    rate = tier_of(leg).rate(order, leg, closed)
    if order.params.auditors == 0 or rate == 0:
        return
    panel = _make_panel(key.panel())
    PANEL_STEPS.check(PanelStep.ASK, None, panel.state)
    PANELS.put(ctx.store, panel)
    if rate >= BPS:
        ask_room(ctx, order, panel)
    else:
        wait_for_seed(ctx, order, leg, panel, AUDIT_STAGE)


def open_dispute_panel(ctx: Context, order: Order, closed: Round, dispute: int, place: AuditPlace) -> None:
    """Open the panel that decides a dispute about one place of a closed round.

    If the round's own panel has decided the place, all eligible validators decide it again, in a single stage, which is
    the last one.
    """
    leg = LEGS.must(ctx.store, closed.order_id, closed.leg)
    shares = get_extents(ctx, closed, served_terms(order.terms, leg))
    disputed = make_place(ctx, closed, place, get_stops(closed, shares))
    panel = replace(
        _make_panel(closed.key.panel(dispute)),
        places=(disputed,),
        last_next=is_decided(ctx, closed.key, place),
    )
    PANEL_STEPS.check(PanelStep.OPEN_DISPUTE, None, panel.state)
    PANELS.put(ctx.store, panel)
    ctx.emit(DisputePanelOpened(panel.key, panel.last_next))
    emit_place(ctx, panel.key, 0, disputed)
    ask_room(ctx, order, panel)


def open_stand_panel(ctx: Context, order: Order, key: PanelKey, standing: ShareRef) -> None:
    """Open the panel that recomputes places of one share, whose provider stands for it."""
    panel = replace(_make_panel(key), standing=standing)
    PANEL_STEPS.check(PanelStep.OPEN_DISPUTE, None, panel.state)
    PANELS.put(ctx.store, panel)
    ctx.emit(DisputePanelOpened(panel.key, panel.last_next))
    ask_room(ctx, order, panel)


def open_fetch_panel(
    ctx: Context, order: Order, opened: StatesPanelOpened | ResultMissed, place: AuditPlace, root: bytes
) -> None:
    """Open the panel that tries to fetch bytes, because the asker that ``opened`` names could not.

    ``root`` is what the chain has about the bytes. If ``opened`` says so, all eligible validators decide in a single
    stage.
    """
    asked = PanelPlace(place=place, claim=root, ruling=Ruling.OPEN, stage=0, finding=None)
    panel = replace(_make_panel(opened.panel), places=(asked,), asker=opened.asker, last_next=opened.last_next)
    PANEL_STEPS.check(PanelStep.OPEN_DISPUTE, None, panel.state)
    PANELS.put(ctx.store, panel)
    ctx.emit(opened)
    emit_place(ctx, panel.key, 0, asked)
    ask_room(ctx, order, panel)


def is_decided(ctx: Context, key: RoundKey, place: AuditPlace) -> bool:
    """Return whether the round's own panel has ruled that the chain's root of a place is right."""
    panel = PANELS.get(ctx.store, *key.panel())
    return panel is not None and any(p.place == place and p.ruling is Ruling.RIGHT for p in panel.places)


def is_found_wrong(ctx: Context, key: RoundKey, place: AuditPlace) -> bool:
    """Return whether a panel of a round has found a place wrong. This ruling can be appealed, or is appealed."""
    found = (known for panel in PANELS.scan(ctx.store, *key) if panel.standing is None for known in panel.places)
    return any(
        known.place == place and known.finding is not None and known.ruling is not Ruling.RIGHT for known in found
    )


def is_drawn(ctx: Context, key: RoundKey, place: AuditPlace) -> bool:
    """Return whether the round's own panel has drawn a place."""
    panel = PANELS.get(ctx.store, *key.panel())
    return panel is not None and any(drawn.place == place for drawn in panel.places)


def _make_panel(key: PanelKey) -> Panel:
    """Return a panel that has not begun."""
    return Panel(
        order_id=key.order_id,
        leg=key.leg,
        round=key.round,
        places=(),
        stage=0,
        seed=b"",
        commits_end=0,
        reveals_end=0,
        is_last=False,
        is_open=False,
        wanted=(),
        seats=0,
        first_seat=0,
        committed=0,
        revealed=0,
        is_settled=False,
        eligible=0,
        stake=0,
        load=0,
        dispute=key.dispute,
    )
