"""Panels of rounds and of disputes: how they are opened, and what they know about a place (protocol section 5.1).

The tier of the leg gives the probability that a round gets a panel. If the probability is below 1, a lot decides after
the round is closed, unless the round is doubtful and the tier gives every doubtful round a panel. A round without a
panel is verified when its window is over, as on a chain without auditors.

A panel then goes from stage to stage (:mod:`chain.state_machine.proof.stages`) until it has a ruling about each of its
places (:mod:`chain.state_machine.proof.rulings`). A ruling against the chain makes the round void
(:mod:`chain.state_machine.proof.voiding`).
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_job_bond
from chain.state_machine.ledger.tables import BOND_ROWS
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import begin_wait
from chain.state_machine.proof.gas import CLOSE_GAS
from chain.state_machine.proof.hooks import ATTESTED
from chain.state_machine.proof.places import emit_place, get_extents, get_stops, make_place
from chain.state_machine.proof.room import ask_room, wait_for_seed
from chain.state_machine.proof.tables import AUDIT_STAGE, COMPARING, PANELS, REPLICAS_DUE, ROUNDS, SHARES
from chain.state_machine.queue import schedule
from domain.amount import BPS
from domain.keys import PanelKey, RoundKey, ShareRef
from domain.ledger.records import BondKind
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.events import DisputePanelOpened, PanelRecalled, ResultMissed, StatesPanelOpened
from domain.proof.records import AuditPlace, Panel, PanelPlace, Round, Ruling, ShareState
from domain.proof.transitions import PANEL_STEPS, PanelStep
from pol.rules.schedule import served_terms
from pol.rules.tiers.table import panel_rate, tier_of


def open_panel(ctx: Context, order: Order, closed: Round) -> None:
    """Open the panel of a closed round.

    Do nothing if the order has no auditors, or if its tier never gives the round a panel.
    """
    key = closed.key
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    rate = get_rate(ctx, order, leg, closed)
    if order.params.auditors == 0 or rate == 0:
        return
    panel = _make_panel(key.panel())
    PANEL_STEPS.check(PanelStep.ASK, None, panel.state)
    PANELS.put(ctx.store, panel)
    if order.replicas:
        # The comparison with the other replicas decides about the panel.
        COMPARING.mark(ctx.store, *key)
        begin_wait(ctx, order.id)
        schedule(ctx, ctx.clock, REPLICAS_DUE, order.first_replica)
    else:
        ask_panel(ctx, order, closed, panel)


def ask_panel(ctx: Context, order: Order, closed: Round, panel: Panel) -> None:
    """Let the panel of a round begin when there is room for it, or let a lot decide whether it begins."""
    leg = LEGS.must(ctx.store, order.id, closed.leg)
    if get_rate(ctx, order, leg, closed) >= BPS:
        ask_room(ctx, order, panel)
    else:
        wait_for_seed(ctx, order, leg, panel, AUDIT_STAGE)


def get_rate(ctx: Context, order: Order, leg: Leg, closed: Round) -> int:
    """Return the chance (bps) with which a closed round gets a panel."""
    tier = tier_of(leg)
    job_bond = get_job_bond(ctx, order.id, leg.number)
    attested = order.conditions.attested and any(ATTESTED(ctx, order, leg, closed))
    rate = panel_rate(order, leg, job_bond.amount if job_bond is not None else 0, attested=attested)
    if rate < BPS and tier.draws_doubtful and _is_doubtful(ctx, closed):
        return BPS
    return rate


def _is_doubtful(ctx: Context, closed: Round) -> bool:
    """Return whether a closed round has a rejected share, or repeats a round that became void in the leg before."""
    before = ROUNDS.get(ctx.store, closed.order_id, closed.leg - 1, closed.round)
    if before is not None and before.void:
        return True
    parts = (closed.order_id, closed.leg, int(BondKind.SHARE), closed.round)
    shares = (SHARES.must(ctx.store, *row.share(closed.order_id)) for row in BOND_ROWS.iterate(ctx.store, *parts))
    return any(share.state is ShareState.REJECTED for share in shares)


def weigh_doubt(order: Order, leg: Leg) -> int:
    """Return the gas of finding out whether a round is doubtful: its shares are read if a lot could decide.

    If the order takes credentials, their shares are read again, with a credential and a policy of each.
    """
    tier = tier_of(leg)
    attested = order.conditions.attested
    could_skip = tier.draws_doubtful and panel_rate(order, leg, leg.job_bond, attested=attested) < BPS
    reads = 2 + 4 * attested
    return reads * CLOSE_GAS * leg.slots if could_skip else 0


def doubt_round(ctx: Context, order: Order, key: RoundKey) -> None:
    """Open the panel of a closed round that was not drawn, because a share came that its validator did not accept.

    Do nothing if the round is still open or has a panel, or if its tier leaves this to the lot. If the lot has not
    decided yet, it finds the round doubtful.
    """
    closed = ROUNDS.get(ctx.store, *key)
    if closed is None or PANELS.has(ctx.store, *key.panel()) or not order.params.auditors:
        return
    if tier_of(LEGS.must(ctx.store, key.order_id, key.leg)).draws_doubtful:
        ctx.emit(PanelRecalled(key.panel()))
        open_panel(ctx, order, closed)


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
