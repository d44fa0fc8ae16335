"""Panels of closed rounds: their stages, and their decisions (protocol sections 5.1 and 5.3).

The tier of the leg gives the probability that a round gets a panel. If the probability is below 1, a lot decides after
the round is closed. A round without a panel is verified when its window is over, as on a chain without auditors.

A stage begins with its seed. It draws validators that are not parties, weighted by stake. Each of them first commits to
its answers and then reveals them. At the end of a stage a place is decided if enough of all answers so far agree. One
stage alone never decides against the chain. The next stage draws new seats for the places that are not decided. The
last stage gives a seat to every remaining validator. A place is then decided only by more than half of the stake of all
validators that have or could have a seat. So a round cannot be verified because seats are silent, or because one
accomplice is drawn by chance.
"""

from dataclasses import dataclass, replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import BOND_GAS, PAY_GAS
from chain.state_machine.ledger.order_money import get_challenge_bond, get_job_bond, get_share_bond
from chain.state_machine.legs.ends import void_leg
from chain.state_machine.legs.money import cut_for_consumer
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.holds import extend_deadline
from chain.state_machine.market.tables import ORDER_AUDITORS, ORDERS
from chain.state_machine.proof.gas import READ_GAS, SEAT_GAS, VALIDATOR_GAS
from chain.state_machine.proof.hooks import DISPUTE_RULED, FINDER, REWARDED
from chain.state_machine.proof.lots import open_lot
from chain.state_machine.proof.room import (
    ask_room,
    count_next,
    get_panel_parties,
    move_panel,
    take_room,
    weigh_ask,
)
from chain.state_machine.proof.rounds import void_round
from chain.state_machine.proof.seats import (
    cut_seat,
    get_votes,
    settle_panel,
    weigh_panel,
)
from chain.state_machine.proof.settlement import advance
from chain.state_machine.proof.shares import count_share
from chain.state_machine.proof.slashes import end_slash_vote, open_slash_vote, slash_at_once, weigh_slash
from chain.state_machine.proof.stands import end_stand, get_standing
from chain.state_machine.proof.tables import (
    AUDIT_STAGE,
    BEHIND_PANELS,
    PANEL_DUTIES,
    PANELS,
    ROUNDS,
    SEATS,
    SHARES,
    STAGE_DUE,
    VOID_DUE,
    WORK_DUE,
    WRONG_PROVIDERS,
    PanelSubject,
)
from chain.state_machine.queue import QueueEntry, cancel, schedule
from chain.state_machine.registry.members import count_silence, may_serve
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.tables import number_of
from domain.amount import BPS, ceil_div
from domain.keys import PanelKey, RoundKey, ShareKey, ShareRef
from domain.ledger.records import BondRow
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg
from domain.limits import SEATS_MAX
from domain.market.records import JobTerms, Order
from domain.moves import Transfer
from domain.proof.events import (
    DisputePanelOpened,
    PanelSkipped,
    PlaceDrawn,
    PlaceRuled,
    SeatSilent,
    ShareFoundWrong,
    StageEnded,
    StageOpened,
)
from domain.proof.moves import FINDER_REWARD
from domain.proof.params import ProofParams
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    AuditPlace,
    Panel,
    PanelPlace,
    PanelSeat,
    Round,
    Ruling,
    Share,
    ShareRoots,
)
from domain.proof.transitions import PANEL_STEPS, PanelStep
from domain.registry.records import Validator
from pol.rules.commitment import update_claim
from pol.rules.handover import chunk_layout
from pol.rules.lots import draw, draw_weighted, duty_segments, seed
from pol.rules.panels import (
    SILENCE,
    STAGES,
    ShareExtent,
    commit_seconds,
    draw_chunk,
    group_places,
    is_place,
    least_segments,
    reveal_seconds,
    segment_count,
)
from pol.rules.schedule import served_terms, share_segments
from pol.rules.stands import draw_stand_places
from pol.rules.stops import stop_of, stop_step
from pol.rules.tiers.table import tier_of
from pol.rules.tiers.tier import Quorum
from pol.rules.tiers.votes import is_unserved


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
        _wait_for_seed(ctx, order, leg, panel, AUDIT_STAGE)


def open_dispute_panel(ctx: Context, order: Order, closed: Round, dispute: int, place: AuditPlace) -> None:
    """Open the panel that decides a dispute about one place of a closed round.

    If the round's own panel has decided the place, all eligible validators decide it again, in a single stage, which is
    the last one.
    """
    leg = LEGS.must(ctx.store, closed.order_id, closed.leg)
    shares = _get_extents(ctx, closed, served_terms(order.terms, leg))
    disputed = _make_place(ctx, closed, place, _get_stops(closed, shares))
    panel = replace(
        _make_panel(closed.key.panel(dispute)),
        places=(disputed,),
        last_next=is_decided(ctx, closed.key, place),
    )
    PANEL_STEPS.check(PanelStep.OPEN_DISPUTE, None, panel.state)
    PANELS.put(ctx.store, panel)
    ctx.emit(DisputePanelOpened(panel.key, panel.last_next))
    _emit_place(ctx, panel.key, 0, disputed)
    ask_room(ctx, order, panel)


def open_stand_panel(ctx: Context, order: Order, key: PanelKey, standing: ShareRef) -> None:
    """Open the panel that recomputes places of one share, whose provider stands for it."""
    panel = replace(_make_panel(key), standing=standing)
    PANEL_STEPS.check(PanelStep.OPEN_DISPUTE, None, panel.state)
    PANELS.put(ctx.store, panel)
    ctx.emit(DisputePanelOpened(panel.key, panel.last_next))
    ask_room(ctx, order, panel)


def is_decided(ctx: Context, key: RoundKey, place: AuditPlace) -> bool:
    """Return whether the round's own panel has ruled on a place."""
    panel = PANELS.get(ctx.store, *key.panel())
    return panel is not None and any(p.place == place and p.ruling is not Ruling.OPEN for p in panel.places)


def is_drawn(ctx: Context, key: RoundKey, place: AuditPlace) -> bool:
    """Return whether the round's own panel has drawn a place."""
    panel = PANELS.get(ctx.store, *key.panel())
    return panel is not None and any(drawn.place == place for drawn in panel.places)


def has_place(ctx: Context, order: Order, closed: Round, place: AuditPlace) -> bool:
    """Return whether a closed round has this place, so that a panel can recompute it."""
    leg = LEGS.must(ctx.store, closed.order_id, closed.leg)
    return is_place(place, _get_extents(ctx, closed, served_terms(order.terms, leg)), closed.stopped)


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


def _draw_audit(ctx: Context, subject: PanelSubject, beacon: bytes) -> None:
    """Draw whether a closed round gets a panel. If it does, ask for audit room; otherwise remove the panel."""
    key = subject.panel
    order = ORDERS.must(ctx.store, key.order_id)
    panel = PANELS.must(ctx.store, *key)
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    rate = tier_of(leg).rate(order, leg, ROUNDS.must(ctx.store, *key.round_key))
    (number,) = draw(seed("panel/audit", subject.id, beacon), BPS, 1)
    if number < rate:
        ask_room(ctx, order, panel)
        return
    PANEL_STEPS.check(PanelStep.SKIP, panel.state, None)
    PANELS.delete(ctx.store, *key)
    ctx.emit(PanelSkipped(key))
    # The window of the round may already be over.
    advance(ctx, ORDERS.must(ctx.store, key.order_id))


def _wait_for_seed(ctx: Context, order: Order, leg: Leg, panel: Panel, stage: int) -> None:
    subject = PanelSubject(panel.key, stage)
    open_lot(ctx, subject, get_panel_parties(ctx, order, leg, panel.key), order.params.lot_wait)


# --- a stage begins ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The seats of a new stage: each validator with the places that it recomputes, and the group of these places.

    The group is -1 in the last stage, in which a seat may have places of several groups.
    """

    seats: tuple[tuple[Validator, tuple[int, ...], int], ...]
    is_last: bool
    eligible: int
    stake: int


def draw_stage(ctx: Context, subject: PanelSubject, beacon: bytes) -> None:
    """Begin the next stage: draw its seats from the remaining validators; the first stage also draws the places.

    A stage that repeats the previous stage has the same seats.
    """
    if subject.stage == AUDIT_STAGE:
        _draw_audit(ctx, subject, beacon)
        return
    key = subject.panel
    panel = PANELS.must(ctx.store, *key)
    order = ORDERS.must(ctx.store, key.order_id)
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    if not panel.for_slash and panel.standing is None and _waits_for_earlier(ctx, leg, panel):
        take_room(ctx, panel, 0)
        BEHIND_PANELS.mark(ctx.store, *key, subject.stage)
        return
    if panel.stage == 0 and panel.dispute == 0:
        panel = replace(panel, places=_draw_places(ctx, subject, beacon, order, leg))
    if panel.stage == 0 and panel.standing is not None:
        panel = replace(panel, places=_draw_stand_places(ctx, subject, beacon, order, panel))
    before = SEATS.scan(ctx.store, *key)
    drawn = _draw_seats(ctx, subject, beacon, order, leg, panel, before)
    count = len(drawn.seats)
    commits_end = ctx.clock + (commit_seconds(order.params, order.audit_ms) if count else 0)
    first_seat = panel.first_seat if panel.repeats else panel.seats
    repeats = first_seat < len(before)
    panel = move_panel(
        ctx,
        panel,
        PanelStep.DRAW,
        stage=subject.stage,
        seed=seed("panel/digest", subject.id, beacon),
        commits_end=commits_end,
        reveals_end=commits_end + (reveal_seconds(order.params) if count else 0),
        is_last=drawn.is_last,
        is_open=True,
        wanted=(0,) * len(panel.wanted),
        seats=first_seat + count,
        first_seat=first_seat,
        committed=0,
        revealed=0,
        eligible=drawn.eligible,
        stake=drawn.stake,
        repeats=False,
        last_next=False,
    )
    take_room(ctx, panel, count)
    for number, (validator, places, _) in enumerate(drawn.seats, first_seat):
        _seat(ctx, panel, number, validator, places)
    ctx.emit(
        StageOpened(
            panel=key,
            stage=panel.stage,
            seed=panel.seed,
            first_seat=panel.first_seat,
            seats=tuple(validator.operator for validator, _, __ in drawn.seats),
            places=panel.undecided,
            commits_end=panel.commits_end,
            reveals_end=panel.reveals_end,
            is_last=panel.is_last,
            stakes=tuple(SEATS.must(ctx.store, *key, number).stake for number in range(first_seat, panel.seats)),
            groups=tuple(group for _, __, group in drawn.seats),
            repeats=repeats,
            eligible=panel.eligible,
            stake=panel.stake,
        )
    )
    schedule(ctx, panel.commits_end, STAGE_DUE, *key)
    # A seat needs no more time at work than the slowest eligible validator.
    schedule(ctx, ctx.clock + ceil_div(order.audit_ms, 1_000), WORK_DUE, *key, panel.stage)


def weigh_stage_draw(ctx: Context, subject: PanelSubject) -> int:
    """Return the gas of drawing a stage; it depends on the validators and seats that are read, and on the new seats."""
    if subject.stage == AUDIT_STAGE:
        return weigh_ask(ctx)
    panel = PANELS.must(ctx.store, *subject.panel)
    validators = sum(1 for _ in VALIDATORS.keys(ctx.store))
    groups = len(panel.open_groups) or len(panel.wanted)
    reads = VALIDATOR_GAS * ((2 + groups) * validators + panel.seats) + _weigh_places(ctx, panel)
    seats = panel.seats - panel.first_seat if panel.repeats else sum(panel.wanted)
    # A stage that may become the last one seats everyone.
    may_end = panel.last_next or subject.stage > 1
    return reads + SEAT_GAS * min(max(seats, validators) if may_end else seats, SEATS_MAX)


def _weigh_places(ctx: Context, panel: Panel) -> int:
    """Return the gas of drawing a panel's places.

    It depends on the shares of the round, and on whether the job stopped.
    """
    if panel.stage or panel.dispute:
        return 0
    closed = ROUNDS.must(ctx.store, *panel.round_key)
    return len(closed.shares) * (VALIDATOR_GAS if closed.stopped is None else READ_GAS)


def _waits_for_earlier(ctx: Context, leg: Leg, panel: Panel) -> bool:
    """Return whether an earlier round of the leg waits for the vote of all validators, because it was not served.

    If that round becomes void, the panel's round becomes void too. The seats of the panel would then have worked for
    nothing.
    """
    rounds = range(leg.next_round, panel.round)
    earlier = (each for number in rounds for each in PANELS.scan(ctx.store, leg.order_id, leg.number, number))
    return any((each.last_next or each.is_last) and not each.is_decided and each.standing is None for each in earlier)


def _resume_later(ctx: Context, order: Order, leg: Leg) -> None:
    """Continue the panels that waited for the vote of all validators on an earlier round, because that vote is over."""
    for _, __, round, dispute, stage in list(BEHIND_PANELS.keys(ctx.store, order.id, leg.number)):
        key = RoundKey(order.id, leg.number, number_of(round)).panel(number_of(dispute))
        BEHIND_PANELS.delete(ctx.store, *key, number_of(stage))
        panel = PANELS.must(ctx.store, *key)
        take_room(ctx, panel, count_next(panel))
        _wait_for_seed(ctx, order, leg, panel, number_of(stage))


def _draw_seats(
    ctx: Context,
    subject: PanelSubject,
    beacon: bytes,
    order: Order,
    leg: Leg,
    panel: Panel,
    before: list[PanelSeat],
) -> _Drawn:
    """Draw the seats of a stage by stake; the load of auditors has no effect.

    ``before`` are the seats of earlier stages. No validator recomputes a place twice, and none has two seats in a
    stage. The stage is the last one in four cases: it is the fourth stage, not counting a repeated one; after it, a
    stage with all validators that are left could exceed ``SEATS_MAX`` seats; a group of places needs more seats than
    there are validators left for it; or the previous stage made it the last one. The last stage gives a seat to every
    validator that is left, as far as ``SEATS_MAX`` allows.
    """
    pool = _get_pool(ctx, order, leg, panel.key)
    stakes = {validator.operator: validator.stake for validator in pool}
    stakes |= {seat.validator: seat.stake for seat in reversed(before)}
    count, stake = len(stakes), sum(stakes.values())
    if panel.repeats:
        again = (seat for seat in before if seat.number >= panel.first_seat)
        seats = ((VALIDATORS.must(ctx.store, seat.validator), seat.places, _group(panel, seat)) for seat in again)
        return _Drawn(seats=tuple(seats), is_last=False, eligible=count, stake=stake)
    groups = panel.open_groups
    sat: dict[int, set[str]] = {group: set() for group in groups}
    for seat in before:
        for number in seat.places:
            if panel.places[number].group in sat:
                sat[panel.places[number].group].add(seat.validator)
    is_last = panel.last_next or subject.stage >= STAGES + panel.was_repeated
    is_last = is_last or panel.seats + sum(panel.wanted) + len(pool) > SEATS_MAX
    drawn: list[tuple[Validator, tuple[int, ...], int]] = []
    taken: set[str] = set()
    for group, places in groups.items():
        free = [v for v in pool if v.operator not in sat[group] and v.operator not in taken]
        if is_last or panel.wanted[group] > len(free):
            is_last = True
            break
        # The seed of the first group is the same as in a panel with only one group.
        lot = seed(f"panel/seats/{group}" if group else "panel/seats", subject.id, beacon)
        chosen = [free[at] for at in draw_weighted(lot, [v.stake for v in free], panel.wanted[group])]
        taken.update(validator.operator for validator in chosen)
        drawn += [(validator, places, group) for validator in chosen]
    if is_last:
        drawn = []
        for validator in pool:
            free_groups = [group for group in groups if validator.operator not in sat[group]]
            places = tuple(sorted(number for group in free_groups for number in groups[group]))
            if places:
                drawn.append((validator, places, -1))
        drawn = drawn[: SEATS_MAX - panel.seats]
    return _Drawn(seats=tuple(drawn), is_last=is_last, eligible=count, stake=stake)


def _group(panel: Panel, seat: PanelSeat) -> int:
    return panel.places[seat.places[0]].group


def _get_pool(ctx: Context, order: Order, leg: Leg, key: PanelKey) -> list[Validator]:
    """Return the validators that may sit in a panel of an order: not jailed, not a party, and able to audit it.

    A validator is able if it could audit the order when the order was submitted. If fewer than twice ``auditors`` such
    validators are left, the validators that can audit it now are added.
    """
    parties = set(get_panel_parties(ctx, order, leg, key))
    active = [
        validator
        for validator in VALIDATORS.scan(ctx.store)
        if validator.operator not in parties and may_serve(validator)
    ]
    listed = set(ORDER_AUDITORS.must(ctx.store, order.id).operators)
    left = [validator for validator in active if validator.operator in listed]
    if len(left) >= 2 * order.params.auditors:
        return left
    may_sit = tier_of(leg).may_sit
    return [
        validator
        for validator in active
        if validator.operator in listed or may_sit(order, validator.audit_speed, validator.audit_rate)
    ]


def _draw_places(ctx: Context, subject: PanelSubject, beacon: bytes, order: Order, leg: Leg) -> tuple[PanelPlace, ...]:
    closed = ROUNDS.must(ctx.store, *subject.panel.round_key)
    terms = served_terms(order.terms, leg)
    panel = PANELS.must(ctx.store, *subject.panel)
    segments = segment_count(terms, order.params, len(panel.wanted))
    shares = _get_extents(ctx, closed, terms)
    lot = seed("panel/places", subject.id, beacon)
    stops = _get_stops(closed, shares)
    places = tier_of(leg).draw_places(lot, shares, segments, closed.stopped)
    if closed.ciphertext_root:
        chunk = draw_chunk(lot, chunk_layout(terms, len(closed.shares)))
        places = (*places, chunk) if chunk is not None else places
    groups = group_places(places, least_segments(terms, order.params))
    drawn = tuple(_make_place(ctx, closed, place, stops, group) for place, group in zip(places, groups, strict=True))
    for number, place in enumerate(drawn):
        _emit_place(ctx, panel.key, number, place)
    return drawn


def _draw_stand_places(
    ctx: Context, subject: PanelSubject, beacon: bytes, order: Order, panel: Panel
) -> tuple[PanelPlace, ...]:
    """Draw the places of a share whose provider stands for it."""
    closed = ROUNDS.must(ctx.store, *panel.round_key)
    share = get_standing(ctx, panel)
    claim = share.claim
    roots = _get_roots(ctx, share.key)
    lot = seed("panel/places", subject.id, beacon)
    count = ctx.block.params.of(ProofParams).stand_segments
    stop = stop_of(order.terms, claim.slot, claim.issue, roots)
    places = draw_stand_places(lot, order.terms, share, roots, count)
    drawn = tuple(_make_place(ctx, closed, place, {stop} if stop is not None else set()) for place in places)
    for number, place in enumerate(drawn):
        _emit_place(ctx, panel.key, number, place)
    return drawn


def _get_stops(closed: Round, shares: list[ShareExtent]) -> set[AuditPlace]:
    """Return the places at which, according to the chain, the job stopped in a round."""
    stops = {share.stop for share in shares if share.stop is not None}
    if closed.stopped is not None:
        stops.add(closed.stopped)
    return stops


def _make_place(ctx: Context, closed: Round, place: AuditPlace, stops: set[AuditPlace], group: int = 0) -> PanelPlace:
    """Return a place of a panel, without a ruling, and with the root that the chain has for it."""
    return PanelPlace(
        place=place,
        claim=_get_claim(ctx, closed, place, stops),
        ruling=Ruling.OPEN,
        stage=0,
        finding=None,
        stops=place in stops,
        group=group,
    )


def _emit_place(ctx: Context, key: PanelKey, number: int, place: PanelPlace) -> None:
    where = place.place
    ctx.emit(
        PlaceDrawn(
            panel=key,
            place=number,
            kind=int(where.kind),
            slot=where.slot,
            issue=where.issue,
            segment=where.segment,
            stops=place.stops,
            claim=place.claim,
            group=place.group,
            chunk=where.chunk,
        )
    )


def _get_extents(ctx: Context, closed: Round, terms: JobTerms) -> list[ShareExtent]:
    """Return the extents of a round's accepted shares. The shares themselves are read only if the job stopped."""
    if closed.stopped is None:
        return [ShareExtent(ref.slot, ref.issue, share_segments(terms)) for ref in closed.shares]
    extents = []
    for key in closed.share_keys:
        roots = _get_roots(ctx, key)
        stop = stop_of(terms, key.slot, key.issue, roots)
        extents.append(ShareExtent(slot=key.slot, issue=key.issue, segments=roots.segments, stop=stop))
    return extents


def _get_roots(ctx: Context, key: ShareKey) -> ShareRoots:
    roots = SHARES.must(ctx.store, *key).roots
    if roots is None:
        raise LookupError("an accepted share has no roots")
    return roots


def _get_claim(ctx: Context, closed: Round, place: AuditPlace, stops: set[AuditPlace]) -> bytes:
    """Return the root that the chain has for a place; empty for segments and for places at which the job stopped."""
    if place in stops:
        return b""
    match place.kind:
        case AuditKind.AGGREGATION:
            return closed.next_root
        case AuditKind.UPDATE:
            roots = _get_roots(ctx, closed.key.share(place.slot, place.issue))
            return update_claim(roots.update_root, roots.local_out, roots.metrics)
        case AuditKind.HANDOVER:
            return closed.ciphertext_root
        case AuditKind.SEGMENT:
            return b""


def _seat(ctx: Context, panel: Panel, number: int, validator: Validator, places: tuple[int, ...]) -> None:
    old = SEATS.get(ctx.store, *panel.key, number)
    seat = PanelSeat(
        order_id=panel.order_id,
        leg=panel.leg,
        round=panel.round,
        number=number,
        validator=validator.operator,
        stage=panel.stage,
        # A seat of a repeated stage keeps the weight of its draw.
        stake=old.stake if old else validator.stake,
        places=places,
        commitment=b"",
        answers=(),
        revealed=False,
        dispute=panel.dispute,
    )
    SEATS.put(ctx.store, seat)
    PANEL_DUTIES.set(ctx.store, number + 1, validator.operator, *panel.key)


# --- a stage ends --------------------------------------------------------------------------------


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
    # The round may become void, and its refund may be burnt.
    return 2 * weigh_panel(panel) + BOND_GAS * len(panel.places) + PAY_GAS + weigh_slash(ctx)


def on_work(ctx: Context, entry: QueueEntry) -> None:
    """Free the audit room of a stage, because every seat has had the longest time that its work can take."""
    panel = PANELS.get(ctx.store, *entry.panel_key)
    if panel is not None and panel.is_open and panel.stage == entry.number(4):
        take_room(ctx, panel, 0)


def end_stage(ctx: Context, panel: Panel) -> None:
    """Decide places, punish silent seats, and continue with the next stage, the next round, or the end of the leg.

    A stage in which fewer than half of the seats answered is repeated once in a panel, and no seat is punished. After a
    second stage of this kind, all validators that are left vote in the last stage. If the stage voted only on a slash,
    the round is void already, and only the panel ends.
    """
    key = panel.key
    cancel(ctx, panel.reveals_end, STAGE_DUE, *key)
    order = ORDERS.must(ctx.store, key.order_id)
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
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
    panel = _rule(ctx, order, leg, panel, seats)
    last_next = bool(panel.undecided) and (lacks_half or panel.last_next)
    step = PanelStep.GO_ON if panel.undecided else PanelStep.DECIDE
    panel = move_panel(ctx, panel, step, is_open=False, last_next=last_next)
    take_room(ctx, panel, count_next(panel))
    ctx.emit(StageEnded(panel=key, stage=panel.stage, wanted=panel.wanted, repeats=False, last_next=last_next))
    if panel.for_slash:
        end_slash_vote(ctx, order, leg, panel, slashed=bool(_get_slashable(ctx, panel)))
        return
    rulings = {place.ruling for place in panel.places}
    if Ruling.OPEN in rulings and not rulings & {Ruling.WRONG, Ruling.UNDECIDED}:
        _wait_for_seed(ctx, order, leg, panel, panel.stage + 1)
    elif panel.standing is not None:
        end_stand(ctx, order, leg, panel)
    elif rulings == {Ruling.RIGHT} or _confirms(ctx, panel, rulings):
        if panel.dispute:
            _end_dispute(ctx, order, panel)
        _resume_later(ctx, order, leg)
        advance(ctx, order)
    else:
        _end_void(ctx, order, panel)


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
        StageEnded(panel=panel.key, stage=panel.stage, wanted=panel.wanted, repeats=True, last_next=panel.last_next)
    )
    _wait_for_seed(ctx, order, leg, panel, panel.stage + 1)


def _rule(ctx: Context, order: Order, leg: Leg, panel: Panel, seats: list[PanelSeat]) -> Panel:
    """Decide the places that can be decided, and return the changed panel.

    The returned panel also has the number of new seats that each group needs, and whether the next stage must be the
    last.
    """
    places = list(panel.places)
    wanted = [0] * len(panel.wanted)
    last_next = False
    tier = tier_of(leg)
    for number in panel.undecided:
        votes = get_votes(seats, number)
        place = places[number]
        stop = _get_stop_step(ctx, order, panel, place) if place.stops else None
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
        ruling = tier.rule(finding, place.claim, stop)
        places[number] = replace(place, ruling=ruling, stage=panel.stage, finding=finding)
        kind, root, step = (finding.kind, finding.root, finding.step) if finding else (0, b"", 0)
        ctx.emit(
            PlaceRuled(
                panel=panel.key,
                place=number,
                stage=panel.stage,
                ruling=int(ruling),
                kind=int(kind),
                root=root,
                step=step,
            )
        )
    return replace(panel, places=tuple(places), wanted=tuple(wanted), last_next=last_next)


def _get_stop_step(ctx: Context, order: Order, panel: Panel, place: PanelPlace) -> int:
    """Return the number of the step at which the job stops in a place, according to the chain; 0 outside segments."""
    where = place.place
    if where.kind is not AuditKind.SEGMENT:
        return 0
    roots = _get_roots(ctx, panel.round_key.share(where.slot, where.issue))
    return stop_step(order.terms, panel.round, where, roots)


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


# --- wrong and undecided places ------------------------------------------------------------------


def _end_void(ctx: Context, order: Order, panel: Panel) -> None:
    """Make a round void, and fail its leg, because a place is wrong or remained undecided.

    If a segment outside the validator's duty is wrong, the provider of its share loses the share's bond. For any other
    wrong place the validator loses the job bond. These bonds pay the seats of this panel first. Then they pay the seats
    of the later rounds' panels, which become void one by one (:func:`on_void`), and at last the consumer. If all places
    are right or undecided, no one loses a bond, and the community pool pays the seats.

    If this was the last stage, it may also slash the validator. After an earlier stage, a vote on the slash follows
    when all later rounds are void.
    """
    key = panel.round_key
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    wrong = _get_wrong(panel)
    for share in _get_wrong_shares(ctx, panel):
        count_share(ctx, share.claim.provider, accepted=-1, rejected=1)
        WRONG_PROVIDERS.mark(ctx.store, key.order_id, key.leg, share.claim.provider)
        ctx.emit(ShareFoundWrong(share.key, share.claim.provider))
    by_validator = _is_by_validator(ctx, panel)
    move_panel(ctx, PANELS.must(ctx.store, *panel.key), PanelStep.STOP, is_settled=True)
    slash = slash_at_once(ctx, order, leg, panel) if panel.is_last and _get_slashable(ctx, panel) else 0
    settle_panel(ctx, order, panel, losers=_get_losers(ctx, panel), undecided=not wrong, slash=slash)
    if panel.dispute:
        DISPUTE_RULED(ctx, panel)
    void_round(ctx, key, _get_losers(ctx, panel), undecided=not wrong, by_validator=by_validator)
    if wrong and not by_validator:
        # A provider's fault takes no time from the order.
        left = ROUNDS.must(ctx.store, *key).time_left
        extend_deadline(ctx, ORDERS.must(ctx.store, order.id), ctx.clock + left)
    reason = LegEnd.WRONG_ROUND if by_validator else LegEnd.WRONG_SHARE
    void_leg(ctx, order, leg, reason if wrong else LegEnd.UNDECIDED)
    _go_on_voiding(ctx, key, panel.key)


def on_void(ctx: Context, entry: QueueEntry) -> None:
    """Make the next round of a leg void, and pay the seats that answered for it."""
    key = entry.round_key
    origin = replace(key, round=entry.number(3)).panel(entry.number(4))
    panel = PANELS.must(ctx.store, *origin)
    # The panel of this round may have made it void in the same block.
    if not ROUNDS.must(ctx.store, *key).void:
        by_validator = _is_by_validator(ctx, panel)
        void_round(ctx, key, _get_losers(ctx, panel), undecided=not _get_wrong(panel), by_validator=by_validator)
    _go_on_voiding(ctx, key, origin)


def _go_on_voiding(ctx: Context, key: RoundKey, origin: PanelKey) -> None:
    """Schedule the next round that becomes void because ``origin`` did.

    If no round is left, pay the consumer from the bonds of the parties at fault, let validators vote on a slash, and
    continue with the order.
    """
    following = replace(key, round=key.round + 1)
    closed = ROUNDS.get(ctx.store, *following)
    if closed is not None and not closed.void:
        schedule(ctx, ctx.clock, VOID_DUE, *following, origin.round, origin.dispute)
        return
    order = ORDERS.must(ctx.store, key.order_id)
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    panel = PANELS.must(ctx.store, *origin)
    finder = next((found for found in FINDER(ctx, origin) if found is not None), None)
    most = finder.bps * _count_bonds(ctx, leg, panel) // BPS if finder is not None else 0
    reward = Transfer(
        move=FINDER_REWARD, source=order.id.hex(), target=finder.address if finder is not None else "", amount=most
    )
    paid = cut_for_consumer(ctx, order, leg, _get_losers(ctx, panel), reward)
    if paid:
        REWARDED(ctx, origin, paid)
    if not panel.is_last:
        open_slash_vote(ctx, order, leg, panel, _get_slashable(ctx, panel))
    advance(ctx, order)


def _get_losers(ctx: Context, panel: Panel) -> tuple[BondRow, ...]:
    """Return the rest of the bonds of the parties that are at fault according to the rulings of a panel."""
    bonds = [get_share_bond(ctx, share.key) for share in _get_wrong_shares(ctx, panel)]
    if _is_by_validator(ctx, panel):
        bonds.insert(0, get_job_bond(ctx, panel.order_id, panel.leg))
    return tuple(bond for bond in bonds if bond is not None)


def _count_bonds(ctx: Context, leg: Leg, panel: Panel) -> int:
    """Return the sum (uassay) of the bonds that were locked by the parties at fault."""
    shares = sum(share.bond for share in _get_wrong_shares(ctx, panel))
    return shares + (leg.job_bond if _is_by_validator(ctx, panel) else 0)


def _is_by_validator(ctx: Context, panel: Panel) -> bool:
    """Return whether some place is wrong and the validator is at fault for it."""
    return any(_get_wrong_share(ctx, panel, place) is None for place in _get_wrong(panel))


def _get_slashable(ctx: Context, panel: Panel) -> tuple[int, ...]:
    """Return the numbers of the places for which the stage that just ended would slash the validator.

    The ruling must name the right result of the place. If a place was not served, or if no one has shown its leaf, the
    cause may be an outage. Such a place costs the job bond, but never a slash.
    """
    return tuple(
        number
        for number, place in enumerate(panel.places)
        if place.ruling is Ruling.WRONG
        and place.stage == panel.stage
        and not _is_unserved(place)
        and (place.stops or place.claim != b"")
        and _get_wrong_share(ctx, panel, place) is None
    )


def _is_unserved(place: PanelPlace) -> bool:
    return place.finding is None or place.finding.kind is AnswerKind.UNAVAILABLE


def _get_wrong_shares(ctx: Context, panel: Panel) -> list[Share]:
    """Return the shares whose providers are liable for a wrong place, each once."""
    found = (_get_wrong_share(ctx, panel, place) for place in _get_wrong(panel))
    return list({share.key: share for share in found if share is not None}.values())


def _get_wrong(panel: Panel) -> list[PanelPlace]:
    return [place for place in panel.places if place.ruling is Ruling.WRONG]


def _get_wrong_share(ctx: Context, panel: Panel, place: PanelPlace) -> Share | None:
    """Return the share whose provider is liable for a wrong place; None if the validator is liable.

    The provider is liable for a segment that is outside the validator's duty and whose leaf a seat has shown. The
    validator is liable if it did not serve data: if the place was unavailable, or if no seat got the leaf. It is also
    liable for every place at which it claims that the job stopped.
    """
    where = place.place
    if place.stops:
        return None
    unserved = _is_unserved(place)
    if where.kind is not AuditKind.SEGMENT or unserved or not place.claim:
        return None
    share = SHARES.must(ctx.store, *panel.round_key.share(where.slot, where.issue))
    duty = duty_segments(_get_roots(ctx, share.key).segments, share.drawn)
    return None if where.segment in duty else share
