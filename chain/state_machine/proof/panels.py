"""Panels of closed rounds: their stages, and their decisions (protocol sections 5.1 and 5.3).

The tier of the leg gives the probability that a round gets a panel. If it is below 1, a lot decides after the close. A
round without a panel is verified when its window is over, as on a chain without auditors.

A stage begins with its seed. It draws validators that are not parties, by stake; each of them commits, then reveals. At
the end of a stage a place is decided if enough of all answers so far agree. For the other places the next stage draws
new seats. The last stage seats all remaining validators, and only more than half of the stake of all that could ever
sit can decide. So neither silence nor one accomplice who happens to be drawn can verify a round.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import BOND_GAS
from chain.state_machine.ledger.order_money import get_job_bond, get_share_bond
from chain.state_machine.legs.ends import void_leg
from chain.state_machine.legs.fees import compute_audit_fee
from chain.state_machine.legs.money import cut_for_consumer
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import get_parties
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.gas import READ_GAS, SEAT_GAS, VALIDATOR_GAS
from chain.state_machine.proof.lots import open_lot
from chain.state_machine.proof.room import ask_room, take_room, weigh_ask
from chain.state_machine.proof.rounds import void_round
from chain.state_machine.proof.seats import (
    cut_seat,
    get_votes,
    settle_panel,
    weigh_panel,
)
from chain.state_machine.proof.settlement import advance
from chain.state_machine.proof.shares import count_share, weigh_open_round
from chain.state_machine.proof.tables import (
    AUDIT_STAGE,
    PANEL_DUTIES,
    PANELS,
    ROUNDS,
    SEATS,
    SHARES,
    STAGE_DUE,
    PanelSubject,
)
from chain.state_machine.queue import QueueEntry, cancel, schedule
from chain.state_machine.registry.members import halve_promise, is_active
from chain.state_machine.registry.tables import VALIDATORS
from domain.amount import BPS
from domain.keys import ShareKey
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg
from domain.limits import SEATS_MAX
from domain.market.records import JobTerms, Order
from domain.proof.events import (
    PanelSkipped,
    PlaceDrawn,
    PlaceRuled,
    SeatSilent,
    ShareFoundWrong,
    StageEnded,
    StageOpened,
)
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
from domain.registry.records import Validator
from pol.rules.commitment import update_claim
from pol.rules.lots import draw, draw_weighted, duty_segments, seed
from pol.rules.panels import (
    STAGES,
    ShareExtent,
    commit_seconds,
    next_seats,
    reveal_seconds,
    segment_count,
)
from pol.rules.schedule import served_terms, share_segments
from pol.rules.stops import stop_of
from pol.rules.tiers.table import tier_of
from pol.rules.tiers.tier import Quorum


def open_panel(ctx: Context, order: Order, closed: Round) -> None:
    """Open the panel of a closed round.

    Do nothing if the order has no auditors, or if its tier never gives it a panel.
    """
    key = closed.key
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    rate = tier_of(leg).rate(order, leg, closed)
    if order.params.auditors == 0 or rate == 0:
        return
    panel = Panel(
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
        wanted=order.params.auditors,
        seats=0,
        first_seat=0,
        committed=0,
        revealed=0,
        is_settled=False,
        eligible=0,
        stake=0,
        load=0,
    )
    PANELS.put(ctx.store, panel)
    if rate >= BPS:
        ask_room(ctx, order, panel)
    else:
        _wait_for_seed(ctx, order, leg, panel, AUDIT_STAGE)


def _draw_audit(ctx: Context, subject: PanelSubject, beacon: bytes) -> None:
    """Draw whether a closed round gets a panel; if it does, ask for audit room, otherwise remove the panel."""
    key = subject.round
    order = ORDERS.must(ctx.store, key.order_id)
    panel = PANELS.must(ctx.store, *key)
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    rate = tier_of(leg).rate(order, leg, ROUNDS.must(ctx.store, *key))
    (number,) = draw(seed("panel/audit", subject.id, beacon), BPS, 1)
    if number < rate:
        ask_room(ctx, order, panel)
        return
    PANELS.delete(ctx.store, *key)
    ctx.emit(PanelSkipped(key))
    # The window of the round may already be over.
    advance(ctx, ORDERS.must(ctx.store, key.order_id))


def _wait_for_seed(ctx: Context, order: Order, leg: Leg, panel: Panel, stage: int) -> None:
    subject = PanelSubject(panel.key, stage)
    open_lot(ctx, subject, get_parties(ctx, order, leg.validator), order.params.lot_wait)


# --- a stage begins ------------------------------------------------------------------------------


def draw_stage(ctx: Context, subject: PanelSubject, beacon: bytes) -> None:
    """Begin the next stage: draw its seats from the remaining validators; the first stage also draws the places."""
    if subject.stage == AUDIT_STAGE:
        _draw_audit(ctx, subject, beacon)
        return
    key = subject.round
    panel = PANELS.must(ctx.store, *key)
    order = ORDERS.must(ctx.store, key.order_id)
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    stage = subject.stage
    if panel.stage == 0:
        panel = replace(panel, places=_draw_places(ctx, subject, beacon, order, leg))
    seats = SEATS.scan(ctx.store, *key)
    remaining = _get_remaining(ctx, order, leg, seats)
    is_last = stage == STAGES or panel.wanted > len(remaining)
    drawn = _draw_seats(subject, beacon, remaining, len(remaining) if is_last else panel.wanted)
    drawn = drawn[: SEATS_MAX - panel.seats]
    commits_end = ctx.clock + (commit_seconds(order.params, order.audit_ms) if drawn else 0)
    panel = replace(
        panel,
        stage=stage,
        seed=seed("panel/digest", subject.id, beacon),
        commits_end=commits_end,
        reveals_end=commits_end + (reveal_seconds(order.params) if drawn else 0),
        is_last=is_last,
        is_open=True,
        wanted=0,
        seats=panel.seats + len(drawn),
        first_seat=panel.seats,
        committed=0,
        revealed=0,
        eligible=panel.seats + len(remaining),
        stake=sum(seat.stake for seat in seats) + sum(validator.stake for validator in remaining),
    )
    PANELS.put(ctx.store, panel)
    take_room(ctx, order, panel, len(drawn))
    for number, validator in enumerate(drawn, panel.first_seat):
        _seat(ctx, panel, number, validator)
    ctx.emit(
        StageOpened(
            round=key,
            stage=stage,
            seed=panel.seed,
            first_seat=panel.first_seat,
            seats=tuple(validator.operator for validator in drawn),
            places=panel.undecided,
            commits_end=panel.commits_end,
            reveals_end=panel.reveals_end,
            is_last=is_last,
            stakes=tuple(validator.stake for validator in drawn),
            eligible=panel.eligible,
            stake=panel.stake,
        )
    )
    schedule(ctx, panel.commits_end, STAGE_DUE, *key)


def weigh_stage_draw(ctx: Context, subject: PanelSubject) -> int:
    """Return the gas of drawing a stage; it depends on the validators and seats that are read, and on the new seats."""
    if subject.stage == AUDIT_STAGE:
        return weigh_ask(ctx)
    panel = PANELS.must(ctx.store, *subject.round)
    validators = sum(1 for _ in VALIDATORS.keys(ctx.store))
    is_last = subject.stage == STAGES or panel.wanted > validators - panel.seats
    seats = validators if is_last else panel.wanted
    reads = VALIDATOR_GAS * (2 * validators + panel.seats) + _weigh_places(ctx, panel)
    return reads + SEAT_GAS * min(seats, SEATS_MAX)


def _weigh_places(ctx: Context, panel: Panel) -> int:
    """Return the gas of drawing a panel's places.

    It depends on the shares of the round, and on whether the job stopped.
    """
    if panel.stage:
        return 0
    closed = ROUNDS.must(ctx.store, *panel.key)
    return len(closed.shares) * (VALIDATOR_GAS if closed.stopped is None else READ_GAS)


def _get_remaining(ctx: Context, order: Order, leg: Leg, seats: list[PanelSeat]) -> list[Validator]:
    """Return the validators that may still sit in a panel: active, not a party, and without an earlier seat in it."""
    parties = get_parties(ctx, order, leg.validator)
    seated = {seat.validator for seat in seats}
    may_sit = tier_of(leg).may_sit
    return [
        validator
        for validator in VALIDATORS.scan(ctx.store)
        if validator.operator not in seated
        and validator.operator not in parties
        and is_active(validator)
        and may_sit(order, validator.audit_speed, validator.audit_rate)
    ]


def _draw_seats(subject: PanelSubject, beacon: bytes, remaining: list[Validator], count: int) -> list[Validator]:
    """Return the validators drawn for a stage, with their stakes as weights. The load of auditors has no effect."""
    lot = seed("panel/seats", subject.id, beacon)
    drawn = draw_weighted(lot, [validator.stake for validator in remaining], count)
    return [remaining[index] for index in drawn]


def _draw_places(ctx: Context, subject: PanelSubject, beacon: bytes, order: Order, leg: Leg) -> tuple[PanelPlace, ...]:
    closed = ROUNDS.must(ctx.store, *subject.round)
    terms = served_terms(order.terms, leg)
    fee = compute_audit_fee(order, leg, closed.work)
    segments = segment_count(terms, order.params, order.price_limit, fee, order.audit_ms)
    shares = _get_extents(ctx, closed, terms)
    lot = seed("panel/places", subject.id, beacon)
    stops = {share.stop for share in shares if share.stop is not None}
    if closed.stopped is not None:
        stops.add(closed.stopped)
    drawn = tuple(
        PanelPlace(
            place=place,
            claim=_get_claim(ctx, closed, place, stops),
            ruling=Ruling.OPEN,
            stage=0,
            finding=None,
            stops=place in stops,
        )
        for place in tier_of(leg).draw_places(lot, shares, segments, closed.stopped)
    )
    for number, panel_place in enumerate(drawn):
        place = panel_place.place
        ctx.emit(
            PlaceDrawn(
                round=closed.key,
                place=number,
                kind=int(place.kind),
                slot=place.slot,
                issue=place.issue,
                segment=place.segment,
                stops=panel_place.stops,
                claim=panel_place.claim,
            )
        )
    return drawn


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
            return update_claim(roots.update_root, roots.local_out)
        case AuditKind.SEGMENT:
            return b""


def _seat(ctx: Context, panel: Panel, number: int, validator: Validator) -> None:
    seat = PanelSeat(
        order_id=panel.order_id,
        leg=panel.leg,
        round=panel.round,
        number=number,
        validator=validator.operator,
        stage=panel.stage,
        stake=validator.stake,
        places=panel.undecided,
        commitment=b"",
        answers=(),
        revealed=False,
    )
    SEATS.put(ctx.store, seat)
    PANEL_DUTIES.set(ctx.store, number + 1, validator.operator, *panel.key)


# --- a stage ends --------------------------------------------------------------------------------


def on_stage(ctx: Context, entry: QueueEntry) -> None:
    """End the stage if its time is over or all committed seats have revealed, else begin the time to reveal."""
    panel = PANELS.get(ctx.store, *entry.round_key)
    if panel is None or not panel.is_open or ctx.clock < panel.commits_end:
        return
    if panel.revealed == panel.committed or ctx.clock >= panel.reveals_end:
        end_stage(ctx, panel)
    else:
        schedule(ctx, panel.reveals_end, STAGE_DUE, *panel.key)


def weigh_stage(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of a stage's end; it depends on the panel's answers and seats, and on the leg, which may fail."""
    panel = PANELS.get(ctx.store, *entry.round_key)
    if panel is None or not panel.is_open:
        return 0
    leg = LEGS.must(ctx.store, panel.order_id, panel.leg)
    shares = weigh_open_round(ctx, leg.open_round) if leg.is_live else 0
    return 2 * weigh_panel(panel) + BOND_GAS * len(panel.places) + shares


def end_stage(ctx: Context, panel: Panel) -> None:
    """Decide places, punish silent seats, and continue with the next stage, the next round, or the end of the leg."""
    key = panel.key
    cancel(ctx, panel.reveals_end, STAGE_DUE, *key)
    order = ORDERS.must(ctx.store, key.order_id)
    seats = SEATS.scan(ctx.store, *key)
    new = [seat for seat in seats if seat.stage == panel.stage]
    silent = 0
    for seat in new:
        if _punish_silence(ctx, order, panel, seat):
            silent += 1
    panel, answers_differ = _rule(ctx, order, panel, seats)
    wanted = next_seats(panel.seats, silent, answers_differ=answers_differ)
    panel = replace(panel, is_open=False, wanted=wanted)
    PANELS.put(ctx.store, panel)
    take_room(ctx, order, panel, wanted if panel.undecided else 0)
    ctx.emit(StageEnded(key, panel.stage, wanted))
    rulings = {place.ruling for place in panel.places}
    if Ruling.WRONG in rulings or Ruling.UNDECIDED in rulings:
        _end_void(ctx, order, panel)
    elif Ruling.OPEN in rulings:
        leg = LEGS.must(ctx.store, key.order_id, key.leg)
        _wait_for_seed(ctx, order, leg, panel, panel.stage + 1)
    else:
        advance(ctx, order)


def _rule(ctx: Context, order: Order, panel: Panel, seats: list[PanelSeat]) -> tuple[Panel, bool]:
    """Decide the places that can be decided, and return the changed panel.

    The second value is True if answers differ on a place that cannot be decided yet.
    """
    places = list(panel.places)
    answers_differ = False
    tier = tier_of(LEGS.must(ctx.store, panel.order_id, panel.leg))
    quorum = Quorum(
        auditors=order.params.auditors,
        eligible=panel.eligible,
        stake=panel.stake,
        is_last=panel.is_last,
    )
    for number in panel.undecided:
        votes = get_votes(seats, number)
        finding = tier.decide(votes, quorum)
        if finding is None and not panel.is_last:
            answers_differ = answers_differ or tier.differ(votes)
            continue
        place = places[number]
        ruling = tier.rule(finding, place.claim, place.stops)
        places[number] = replace(place, ruling=ruling, stage=panel.stage, finding=finding)
        kind, root, step = (finding.kind, finding.root, finding.step) if finding else (0, b"", 0)
        ctx.emit(
            PlaceRuled(
                round=panel.key,
                place=number,
                stage=panel.stage,
                ruling=int(ruling),
                kind=int(kind),
                root=root,
                step=step,
            )
        )
    return replace(panel, places=tuple(places)), answers_differ


def _punish_silence(ctx: Context, order: Order, panel: Panel, seat: PanelSeat) -> bool:
    """Return whether a seat gave no answer for some place; if so, cut its stake and halve its audit promise."""
    silent = tuple(place for place in seat.places if seat.answer(place) is None)
    PANEL_DUTIES.delete(ctx.store, seat.validator, *panel.key)
    if not silent:
        return False
    tier = tier_of(LEGS.must(ctx.store, panel.order_id, panel.leg))
    costs = (tier.cost(order.terms, panel.places[place].place.kind, order.price_limit) for place in silent)
    cut = cut_seat(ctx, panel.key, seat.validator, tier.penalty * sum(costs))
    halve_promise(ctx, seat.validator)
    ctx.emit(SeatSilent(round=panel.key, auditor=seat.validator, stage=panel.stage, places=silent, cut=cut))
    return True


# --- wrong and undecided places ------------------------------------------------------------------


def _end_void(ctx: Context, order: Order, panel: Panel) -> None:
    """Make a round void, and fail its leg, because a place is wrong or remained undecided.

    For a wrong segment outside the validator's duty, its provider loses the share's bond. For any other wrong place the
    validator loses the job bond. These bonds pay the seats first. If all places are right or undecided, no one loses a
    bond.
    """
    key = panel.key
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    wrong = [place for place in panel.places if place.ruling is Ruling.WRONG]
    shares = {
        share.claim.key: share for place in wrong if (share := _get_wrong_share(ctx, order, panel, place)) is not None
    }
    by_validator = any(_get_wrong_share(ctx, order, panel, place) is None for place in wrong)
    job_bond = get_job_bond(ctx, order.id, key.leg) if by_validator else None
    bonds = (job_bond, *(get_share_bond(ctx, share) for share in shares))
    losers = tuple(bond for bond in bonds if bond is not None)
    PANELS.update(ctx.store, *key, is_settled=True)
    settle_panel(ctx, order, panel, losers=losers)
    void_round(ctx, key)
    for share in shares.values():
        count_share(ctx, share.claim.provider, accepted=-1, rejected=1)
        ctx.emit(ShareFoundWrong(share.claim.key, share.claim.provider))
    # Read the bonds again, because the payment of seats has reduced them.
    rows = [get_job_bond(ctx, order.id, key.leg)] if by_validator else []
    rows += [get_share_bond(ctx, share) for share in shares]
    cut_for_consumer(ctx, order, leg, rows)
    reason = LegEnd.WRONG_ROUND if by_validator else LegEnd.WRONG_SHARE
    void_leg(ctx, order, leg, reason if wrong else LegEnd.UNDECIDED)


def _get_wrong_share(ctx: Context, order: Order, panel: Panel, place: PanelPlace) -> Share | None:
    """Return the share whose provider is liable for a wrong place; None if the validator is liable.

    The provider is liable for a segment outside the validator's duty whose leaf was shown. The validator is liable for
    data that it did not serve: a place that was unavailable, or a leaf that no seat got. It is also liable for every
    place at which it claims that the job stopped.
    """
    where = place.place
    if place.stops:
        return None
    unserved = place.finding is None or place.finding.kind is AnswerKind.UNAVAILABLE
    if where.kind is not AuditKind.SEGMENT or unserved or not place.claim:
        return None
    share = SHARES.must(ctx.store, *panel.key.share(where.slot, where.issue))
    duty = duty_segments(_get_roots(ctx, share.claim.key).segments, share.drawn)
    return None if where.segment in duty else share


def on_void(ctx: Context, entry: QueueEntry) -> None:
    """Make the next round of the leg void; if there is none, continue with the order."""
    if not void_round(ctx, entry.round_key):
        advance(ctx, ORDERS.must(ctx.store, entry.parts[0]))
