"""The end of a panel's stage, and the ruling about its places (protocol section 5.3).

At the end of a stage a place is decided if enough of all answers so far agree. One stage alone never decides against
the chain. In the last stage a place is decided only by more than half of the stake of all validators that have or could
have a seat. So a round cannot be verified because seats are silent, or because one accomplice is drawn by chance.
"""

from dataclasses import dataclass, replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import BOND_GAS, PAY_GAS
from chain.state_machine.ledger.order_money import get_challenge_bond
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.appeals import await_appeal, end_appeal
from chain.state_machine.proof.hooks import DISPUTE_RULED
from chain.state_machine.proof.liability import get_slashable
from chain.state_machine.proof.panels import is_decided
from chain.state_machine.proof.places import get_stop_step
from chain.state_machine.proof.room import count_next, move_panel, take_room, wait_for_seed
from chain.state_machine.proof.seats import cut_seat, get_votes, settle_panel, weigh_panel
from chain.state_machine.proof.settlement import advance
from chain.state_machine.proof.slashes import end_slash_vote, weigh_slash
from chain.state_machine.proof.stages import resume_later
from chain.state_machine.proof.stands import end_stand
from chain.state_machine.proof.tables import FETCH_DUE, PANEL_DUTIES, PANELS, SEATS, STAGE_DUE
from chain.state_machine.proof.voiding import end_void, will_be_void
from chain.state_machine.queue import QueueEntry, cancel, schedule
from chain.state_machine.registry.members import count_silence
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.events import PlaceRuled, SeatSilent, StageEnded
from domain.proof.records import AuditKind, Finding, Panel, PanelSeat, Review, Ruling
from domain.proof.transitions import PanelStep
from pol.rules.panels import SILENCE, STAGES
from pol.rules.tiers.table import tier_of
from pol.rules.tiers.tier import Quorum, Tier
from pol.rules.tiers.votes import is_unserved


def on_stage(ctx: Context, entry: QueueEntry) -> None:
    """End the stage if its time is over or all committed seats have revealed, else begin the time to reveal."""
    panel = PANELS.get(ctx.store, *entry.panel_key)
    if panel is None or not panel.is_open or ctx.clock < panel.commits_end:
        return
    if panel.revealed == panel.committed or ctx.clock >= panel.reveals_end:
        end_stage(ctx, panel)
    else:
        schedule(ctx, panel.reveals_end, STAGE_DUE, *panel.key)


def weigh_stage(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of a stage's end; it depends on the panel's answers and seats."""
    panel = PANELS.get(ctx.store, *entry.panel_key)
    if panel is None or not panel.is_open:
        return 0
    return _weigh_ruling(ctx, panel)


def _weigh_ruling(ctx: Context, panel: Panel) -> int:
    operator = LEGS.must(ctx.store, panel.order_id, panel.leg).validator
    # The round may become void, its refund may be burnt, and the bond of an appeal returns or is burnt.
    return 2 * weigh_panel(panel) + BOND_GAS * (len(panel.places) + 2) + PAY_GAS + weigh_slash(ctx, operator)


def on_work(ctx: Context, entry: QueueEntry) -> None:
    """Free the audit room of a stage, because every seat has had the longest time that its work can take."""
    panel = PANELS.get(ctx.store, *entry.panel_key)
    if panel is not None and panel.is_open and panel.stage == entry.number(4):
        take_room(ctx, panel, 0)


def end_stage(ctx: Context, panel: Panel) -> None:
    """Decide places, punish silent seats, and continue with the next stage, the next round, or the end of the leg.

    A stage in which fewer than half of the seats answered is repeated once in a panel, and no seat is punished. After a
    second stage of this kind, all validators that are left vote in the last stage. If the stage voted only on a slash,
    the round is void already, and only the panel ends. A ruling against the chain has an effect at once only if the
    stage was the last one; otherwise it can be appealed.
    """
    key = panel.key
    cancel(ctx, panel.reveals_end, STAGE_DUE, *key)
    order = ORDERS.must(ctx.store, key.order_id)
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    if will_be_void(ctx, leg, panel):
        return
    seats = SEATS.scan(ctx.store, *key)
    new = [seat for seat in seats if seat.stage == panel.stage]
    # A seat or two that replace silent ones say nothing about an outage.
    is_large = len(new) >= order.params.auditors and not panel.is_last
    lacks_half = is_large and 2 * panel.revealed < len(new)
    if lacks_half and not panel.was_repeated:
        _repeat(ctx, order, leg, panel, new)
        return
    for seat in new:
        _punish_silence(ctx, order, leg, panel, seat)
    _conclude(ctx, order, leg, panel, seats, lacks_half=lacks_half)


def on_spared(ctx: Context, entry: QueueEntry) -> None:
    """Rule the places of a stage of which no review was drawn."""
    panel = PANELS.get(ctx.store, *entry.panel_key)
    if panel is None or panel.review is not Review.SPARED or panel.is_settled:
        return
    order = ORDERS.must(ctx.store, panel.order_id)
    leg = LEGS.must(ctx.store, panel.order_id, panel.leg)
    if not will_be_void(ctx, leg, panel):
        _conclude(ctx, order, leg, panel, SEATS.scan(ctx.store, *panel.key), lacks_half=False)


def weigh_spared(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of ruling the places of a stage without a review; it depends on the panel's answers and seats."""
    panel = PANELS.get(ctx.store, *entry.panel_key)
    return _weigh_ruling(ctx, panel) if panel is not None and panel.review is Review.SPARED else 0


def _conclude(ctx: Context, order: Order, leg: Leg, panel: Panel, seats: list[PanelSeat], *, lacks_half: bool) -> None:
    """Rule the places that are decided, and continue with the next stage, the next round, or the end of the leg."""
    key = panel.key
    ruled = _rule(ctx, order, leg, panel, seats)
    last_next = bool(ruled.undecided) and ruled.review is Review.NONE and (lacks_half or ruled.last_next)
    panel = move_panel(
        ctx,
        panel,
        PanelStep.GO_ON if ruled.undecided else PanelStep.DECIDE,
        places=ruled.places,
        wanted=ruled.wanted,
        review=ruled.review,
        is_open=False,
        last_next=last_next,
    )
    panel = take_room(ctx, panel, count_next(panel))
    ctx.emit(
        StageEnded(
            panel=key,
            stage=panel.stage,
            wanted=panel.wanted,
            repeats=False,
            last_next=last_next,
            review=int(panel.review),
        )
    )
    if panel.for_slash:
        end_slash_vote(ctx, order, leg, panel, slashed=bool(get_slashable(ctx, panel)))
        return
    rulings = {place.ruling for place in panel.places}
    if Ruling.OPEN in rulings and not rulings & {Ruling.WRONG, Ruling.UNDECIDED}:
        wait_for_seed(ctx, order, leg, panel, panel.stage + 1)
    elif panel.asker:
        schedule(ctx, ctx.clock, FETCH_DUE, *key)
    elif panel.standing is not None:
        end_stand(ctx, order, leg, panel)
    elif rulings == {Ruling.RIGHT} or _confirms(ctx, panel, rulings):
        end_appeal(ctx, key)
        if panel.dispute:
            _end_dispute(ctx, order, panel)
        resume_later(ctx, order, leg)
        advance(ctx, order)
    elif panel.is_last:
        end_void(ctx, order, panel)
    else:
        await_appeal(ctx, order, panel)


def on_appeal(ctx: Context, entry: QueueEntry) -> None:
    """Make a round void, because no one has appealed the ruling of its panel in time."""
    panel = PANELS.get(ctx.store, *entry.panel_key)
    if panel is None or not panel.awaits_appeal or ctx.clock < panel.appeal_until:
        return
    leg = LEGS.must(ctx.store, panel.order_id, panel.leg)
    if not will_be_void(ctx, leg, panel):
        end_void(ctx, ORDERS.must(ctx.store, panel.order_id), panel)


def weigh_appeal(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of making a round void; it depends on the panel's answers and seats."""
    panel = PANELS.get(ctx.store, *entry.panel_key)
    return _weigh_ruling(ctx, panel) if panel is not None and panel.awaits_appeal else 0


def _confirms(ctx: Context, panel: Panel, rulings: set[Ruling]) -> bool:
    """Return whether this is a dispute about an already decided place that could not be decided again, so that the
    first ruling stays.
    """
    again = panel.dispute > 0 and is_decided(ctx, panel.round_key, panel.places[0].place)
    return again and rulings == {Ruling.UNDECIDED}


def _end_dispute(ctx: Context, order: Order, panel: Panel) -> None:
    """Pay the seats of a dispute that did not make its round void.

    If the place is right, the bond of the dispute pays the seats. If the dispute is undecided, the community pool pays
    them.
    """
    undecided = panel.places[0].ruling is Ruling.UNDECIDED
    bond = get_challenge_bond(ctx, panel.key)
    move_panel(ctx, panel, PanelStep.END_DISPUTE, is_settled=True)
    settle_panel(ctx, order, panel, losers=() if bond is None or undecided else (bond,), undecided=undecided)
    DISPUTE_RULED(ctx, panel)


def _repeat(ctx: Context, order: Order, leg: Leg, panel: Panel, new: list[PanelSeat]) -> None:
    """Let the seats of a stage answer again in the next stage, with another seed."""
    for seat in new:
        PANEL_DUTIES.delete(ctx.store, seat.validator, *panel.key)
    panel = move_panel(ctx, panel, PanelStep.GO_ON, is_open=False, repeats=True, was_repeated=True)
    take_room(ctx, panel, len(new))
    ctx.emit(
        StageEnded(
            panel=panel.key,
            stage=panel.stage,
            wanted=panel.wanted,
            repeats=True,
            last_next=panel.last_next,
            review=int(panel.review),
        )
    )
    wait_for_seed(ctx, order, leg, panel, panel.stage + 1)


def _rule(ctx: Context, order: Order, leg: Leg, panel: Panel, seats: list[PanelSeat]) -> Panel:
    """Decide the places that can be decided, and return the changed panel.

    The returned panel also has the number of new seats that each group needs, and whether the next stage must be the
    last. If every place is right and the stage may be reviewed, its segments have no ruling yet.
    """
    places = list(panel.places)
    wanted = [0] * len(panel.wanted)
    last_next = False
    tier = tier_of(leg)
    found: list[_Found] = []
    for number in panel.undecided:
        votes = get_votes(seats, number)
        place = places[number]
        stop = get_stop_step(ctx, order, panel, place) if place.stops else None
        quorum = Quorum(
            auditors=order.params.auditors,
            eligible=panel.eligible,
            stake=panel.stake,
            is_last=panel.is_last,
            claim=place.claim,
            stop=stop,
        )
        finding = tier.decide(votes, quorum)
        if finding is None and not panel.is_last:
            wanted[place.group] = max(wanted[place.group], tier.count_wanted(votes, quorum))
            last_next = last_next or is_unserved(votes)
            continue
        ruling, stage = tier.rule(finding, place.claim, stop), panel.stage
        if ruling is Ruling.UNDECIDED and place.finding is not None:
            # The last stage could not decide the appeal, so the first ruling stays.
            ruling, stage, finding = Ruling.WRONG, place.stage, place.finding
        found.append(_Found(place=number, ruling=ruling, stage=stage, finding=finding))
    kept = [] if any(wanted) else _find_reviewed(panel, tier, found)
    for each in found:
        number, finding, place = each.place, each.finding, places[each.place]
        if number in kept:
            wanted[place.group] = 1
            continue
        places[number] = replace(place, ruling=each.ruling, stage=each.stage, finding=finding)
        kind, root, step = (finding.kind, finding.root, finding.step) if finding else (0, b"", 0)
        ctx.emit(
            PlaceRuled(
                panel=panel.key,
                place=number,
                stage=each.stage,
                ruling=int(each.ruling),
                kind=int(kind),
                root=root,
                step=step,
            )
        )
    review = Review.WAITS if kept else Review.NONE
    return replace(panel, places=tuple(places), wanted=tuple(wanted), last_next=last_next, review=review)


@dataclass(frozen=True, slots=True)
class _Found:
    """The ruling that follows for a place at the end of a stage."""

    place: int
    ruling: Ruling
    stage: int
    finding: Finding | None


def _find_reviewed(panel: Panel, tier: Tier, found: list[_Found]) -> list[int]:
    """Return the places whose seats may be reviewed: the segments of a stage that found every place right.

    There is no review after the last stages of a panel, or if too few validators are left for one.
    """
    segments = [each.place for each in found if panel.places[each.place].place.kind is AuditKind.SEGMENT]
    right = all(each.ruling is Ruling.RIGHT for each in found)
    if not (tier.review_rate and right) or panel.review is Review.SPARED or panel.is_last or panel.for_slash:
        return []
    groups = {panel.places[number].group for number in segments}
    fits = panel.stage + 1 < STAGES + panel.was_repeated and panel.seats + len(groups) <= panel.eligible
    return segments if fits else []


def _punish_silence(ctx: Context, order: Order, leg: Leg, panel: Panel, seat: PanelSeat) -> None:
    """Cut the stake of a seat that gave no answer for some place.

    Halve its promise if it was also silent shortly before.
    """
    silent = tuple(place for place in seat.places if seat.answer(place) is None)
    PANEL_DUTIES.delete(ctx.store, seat.validator, *panel.key)
    if silent:
        cut = cut_seat(ctx, order, leg, panel, seat, silent, SILENCE)
        count_silence(ctx, seat.validator)
        ctx.emit(SeatSilent(panel=panel.key, auditor=seat.validator, stage=panel.stage, places=silent, cut=cut))
