"""Panels of closed rounds: their stages, and what they decide (protocol sections 5.1 and 5.3).

A stage begins with its seed, and seats strangers by stake; each commits, then reveals. At its end every place is
decided on which enough of all who revealed so far say the same. For the others the next stage seats new ones. The last
stage seats everybody who is left, and only more than half of the stake of all who could ever sit decides: silence
verifies nothing, and neither does a lucky accomplice.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.gas import SEAT_GAS, VALIDATOR_GAS, VOTE_GAS
from chain.state_machine.market.tables import ASSIGNMENTS, ORDERS
from chain.state_machine.proof.lots import get_parties, open_lot
from chain.state_machine.proof.tables import (
    PANEL_DUTIES,
    PANEL_POTS,
    PANELS,
    ROUNDS,
    SEATS,
    SHARES,
    PanelSubject,
)
from chain.state_machine.queue import Due, Entry, schedule
from chain.state_machine.registry.members import cut_stake, halve_promise, is_active
from chain.state_machine.registry.tables import VALIDATORS
from domain.events import PlaceDrawn, PlaceRuled, SeatSilent, StageOpened
from domain.limits import SEATS_MAX
from domain.records import (
    Assignment,
    AuditKind,
    Order,
    Panel,
    PanelPlace,
    PanelSeat,
    Place,
    Round,
    RoundKey,
    Ruling,
    Validator,
)
from escrow.settle import audit_fee
from pol.rules.commitment import update_claim
from pol.rules.lots import draw_weighted, seed
from pol.rules.panels import (
    STAGES,
    Vote,
    commit_seconds,
    decide,
    differ,
    draw_places,
    is_eligible,
    next_seats,
    place_cost,
    reveal_seconds,
    ruling_of,
    segment_count,
)
from pol.rules.schedule import share_segments

PENALTY_TIMES = 3
"""How often the cost of a place a seat loses that was silent on it, or said something else than the ruling."""


def open_panel(ctx: Context, order: Order, assignment: Assignment, closed: Round) -> None:
    """Open the panel of a round that was just closed; without auditors (a genesis choice) there is none."""
    if order.params.auditors == 0:
        return
    key = closed.key
    panel = Panel(
        order_id=key.order_id,
        attempt=key.attempt,
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
        eligible=0,
        stake=0,
    )
    PANELS.put(ctx.store, panel)
    _wait_for_seed(ctx, order, assignment, panel)


def _wait_for_seed(ctx: Context, order: Order, assignment: Assignment, panel: Panel) -> None:
    subject = PanelSubject(panel.key, panel.stage + 1)
    open_lot(ctx, subject, get_parties(ctx, order, assignment), order.params.lot_wait)


# --- a stage begins ------------------------------------------------------------------------------


def draw_stage(ctx: Context, subject: PanelSubject, beacon: bytes) -> None:
    """Begin the next stage: seat as many as it wants of those who are left, and at the first one draw the places."""
    key = subject.round
    panel = PANELS.must(ctx.store, *key)
    order = ORDERS.must(ctx.store, key.order_id)
    assignment = ASSIGNMENTS.must(ctx.store, key.order_id, key.attempt)
    stage = subject.stage
    if panel.stage == 0:
        panel = replace(panel, places=_draw_places(ctx, subject, beacon, order, assignment))
    seats = SEATS.scan(ctx.store, *key)
    left = _get_left(ctx, order, assignment, seats)
    is_last = stage == STAGES or panel.wanted > len(left)
    drawn = _draw_seats(subject, beacon, left, len(left) if is_last else panel.wanted)
    drawn = drawn[: SEATS_MAX - panel.seats]
    clock, window = ctx.clock, order.window
    commits_end = clock + (commit_seconds(window) if drawn else 0)
    panel = replace(
        panel,
        stage=stage,
        seed=seed("panel/digest", subject.id, beacon),
        commits_end=commits_end,
        reveals_end=commits_end + (reveal_seconds(window) if drawn else 0),
        is_last=is_last,
        is_open=True,
        wanted=0,
        seats=panel.seats + len(drawn),
        first_seat=panel.seats,
        committed=0,
        revealed=0,
        eligible=panel.seats + len(left),
        stake=sum(seat.stake for seat in seats) + sum(able.stake for able in left),
    )
    PANELS.put(ctx.store, panel)
    for number, validator in enumerate(drawn, panel.first_seat):
        _seat(ctx, panel, number, validator)
    ctx.emit(
        StageOpened(
            key,
            stage,
            panel.seed,
            panel.first_seat,
            tuple(validator.operator for validator in drawn),
            panel.undecided,
            panel.commits_end,
            panel.reveals_end,
            is_last,
        )
    )
    schedule(ctx, panel.commits_end, Due.STAGE, *key)


def weigh_stage_draw(ctx: Context, subject: PanelSubject) -> int:
    """Return the gas of a draw: the validators who are looked at, of whom each may get a seat, and the seats so far."""
    panel = PANELS.must(ctx.store, *subject.round)
    validators = sum(1 for _ in VALIDATORS.keys(ctx.store))
    is_last = subject.stage == STAGES or panel.wanted > validators - panel.seats
    seats = validators if is_last else panel.wanted
    shares = len(ROUNDS.must(ctx.store, *subject.round).shares) if panel.stage == 0 else 0
    looked_at = VALIDATOR_GAS * (2 * validators + panel.seats + shares)
    return looked_at + SEAT_GAS * min(seats, SEATS_MAX)


def _get_left(
    ctx: Context, order: Order, assignment: Assignment, seats: list[PanelSeat]
) -> list[Validator]:
    """Return the validators who may sit and never did in this panel, by operator."""
    parties = get_parties(ctx, order, assignment)
    seated = {seat.validator for seat in seats}
    return [
        validator
        for validator in VALIDATORS.scan(ctx.store)
        if validator.operator not in seated
        and validator.operator not in parties
        and is_active(validator)
        and is_eligible(
            order.terms,
            order.params,
            order.audit_ms,
            validator.audit_speed,
            validator.audit_rate,
        )
    ]


def _draw_seats(
    subject: PanelSubject, beacon: bytes, left: list[Validator], count: int
) -> list[Validator]:
    """Return who sits in a stage; load never changes who is drawn."""
    lot = seed("panel/seats", subject.id, beacon)
    drawn = draw_weighted(lot, [validator.stake for validator in left], count)
    return [left[index] for index in drawn]


def _draw_places(
    ctx: Context, subject: PanelSubject, beacon: bytes, order: Order, assignment: Assignment
) -> tuple[PanelPlace, ...]:
    closed, terms = ROUNDS.must(ctx.store, *subject.round), order.terms
    fee = audit_fee(closed.work, assignment.price, order.params.audit_bps)
    segments = segment_count(
        terms, order.params, order.price_limit, fee, order.audit_ms, order.window
    )
    shares = [(ref.slot, ref.issue, share_segments(terms)) for ref in closed.shares]
    places = draw_places(seed("panel/places", subject.id, beacon), shares, segments)
    for number, place in enumerate(places):
        drawn = PlaceDrawn(
            closed.key, number, int(place.kind), place.slot, place.issue, place.segment
        )
        ctx.emit(drawn)
    return tuple(
        PanelPlace(place, _get_claim(ctx, closed, place), Ruling.OPEN, 0, None) for place in places
    )


def _get_claim(ctx: Context, closed: Round, place: Place) -> bytes:
    """Return the root that the chain has for a place; of a segment it has none."""
    match place.kind:
        case AuditKind.AGGREGATION:
            return closed.next_root
        case AuditKind.UPDATE:
            roots = SHARES.must(ctx.store, *closed.key.share(place.slot, place.issue)).roots
            if roots is None:
                raise LookupError("an accepted share has no roots")
            return update_claim(roots.update_root, roots.local_out)
        case AuditKind.SEGMENT:
            return b""


def _seat(ctx: Context, panel: Panel, number: int, validator: Validator) -> None:
    seat = PanelSeat(
        order_id=panel.order_id,
        attempt=panel.attempt,
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


def on_stage(ctx: Context, entry: Entry) -> None:
    """Go on from commitments to answers, or end the stage."""
    panel = PANELS.get(ctx.store, *entry.round_key)
    if panel is None or not panel.is_open or ctx.clock < panel.commits_end:
        return
    if panel.revealed == panel.committed or ctx.clock >= panel.reveals_end:
        end_stage(ctx, panel)
    else:
        schedule(ctx, panel.reveals_end, Due.STAGE, *panel.key)


def weigh_stage(ctx: Context, entry: Entry) -> int:
    """Return the gas of a stage's end: its seats, and every answer of the panel."""
    panel = PANELS.get(ctx.store, *entry.round_key)
    return 0 if panel is None else weigh_panel(panel)


def weigh_panel(panel: Panel) -> int:
    """Return the gas of reading what the seats of a panel said, and of paying or cutting each of them."""
    return panel.seats * (SEAT_GAS + VOTE_GAS * len(panel.places))


def end_stage(ctx: Context, panel: Panel) -> None:
    """Decide what can be decided, let the silent pay, and go on with what is left."""
    key = panel.key
    order = ORDERS.must(ctx.store, key.order_id)
    seats = SEATS.scan(ctx.store, *key)
    new = [seat for seat in seats if seat.stage == panel.stage]
    silent = sum(_punish_silence(ctx, order, panel, seat) for seat in new)
    places, answers_differ = list(panel.places), False
    for number in panel.undecided:
        votes = get_votes(seats, number)
        found = decide(
            votes,
            auditors=order.params.auditors,
            eligible=panel.eligible,
            stake=panel.stake,
            is_last=panel.is_last,
        )
        if found is None and not panel.is_last:
            answers_differ = answers_differ or differ(votes)
            continue
        place = places[number]
        ruling = ruling_of(found, place.claim)
        places[number] = replace(place, ruling=ruling, stage=panel.stage, found=found)
        ctx.emit(PlaceRuled(key, number, panel.stage, int(ruling)))
    wanted = next_seats(panel.seats, silent, answers_differ=answers_differ)
    panel = replace(panel, places=tuple(places), is_open=False, wanted=wanted)
    PANELS.put(ctx.store, panel)
    assignment = ASSIGNMENTS.must(ctx.store, key.order_id, key.attempt)
    _wait_for_seed(ctx, order, assignment, panel)


def get_votes(seats: list[PanelSeat], place: int) -> list[Vote]:
    """Return what the seats said that were asked about a place, in their order."""
    return [
        Vote(seat.stage, seat.stake, seat.answer(place)) for seat in seats if place in seat.places
    ]


def _punish_silence(ctx: Context, order: Order, panel: Panel, seat: PanelSeat) -> bool:
    """Cut the stake of a seat for the places on which it was silent, halve its promise, and tell whether it was."""
    silent = tuple(place for place in seat.places if seat.answer(place) is None)
    PANEL_DUTIES.delete(ctx.store, seat.validator, *panel.key)
    if not silent:
        return False
    costs = (
        place_cost(order.terms, panel.places[place].place.kind, order.price_limit)
        for place in silent
    )
    cut = cut_seat(ctx, panel.key, seat.validator, PENALTY_TIMES * sum(costs))
    halve_promise(ctx, seat.validator)
    ctx.emit(SeatSilent(panel.key, seat.validator, panel.stage, silent, cut))
    return True


def cut_seat(ctx: Context, key: RoundKey, operator: str, owed: int) -> int:
    """Cut what a seat owes of its stake, as far as that goes, into the pot of the panel; return the cut."""
    cut = min(owed, VALIDATORS.must(ctx.store, operator).stake)
    cut_stake(ctx, operator, cut)
    PANEL_POTS.set(ctx.store, PANEL_POTS.get(ctx.store, *key) + cut, *key)
    return cut
