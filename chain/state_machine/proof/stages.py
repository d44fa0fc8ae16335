"""Stages of panels: the seed of a stage draws its seats (protocol section 5.1).

A stage begins with its seed. It draws validators that are not parties, weighted by stake. Each of them first commits to
its answers and then reveals them. The next stage draws new seats for the places that are not decided. The last stage
gives a seat to every remaining validator.
"""

from dataclasses import dataclass, replace

from chain.state_machine.context import Context
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import ORDER_AUDITORS, ORDERS
from chain.state_machine.proof.gas import SEAT_GAS, VALIDATOR_GAS
from chain.state_machine.proof.panels import get_rate, weigh_doubt
from chain.state_machine.proof.places import draw_round_places, draw_share_places, weigh_places
from chain.state_machine.proof.room import (
    ask_room,
    count_next,
    get_panel_parties,
    move_panel,
    take_room,
    wait_for_seed,
    weigh_ask,
)
from chain.state_machine.proof.settlement import advance
from chain.state_machine.proof.tables import (
    AUDIT_STAGE,
    BEHIND_PANELS,
    PANEL_DUTIES,
    PANELS,
    REVIEW_DUE,
    ROUNDS,
    SEATS,
    STAGE_DUE,
    WORK_DUE,
    PanelSubject,
)
from chain.state_machine.queue import schedule
from chain.state_machine.registry.members import get_active, may_audit
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.staking.tables import count_bonded
from chain.state_machine.tables import number_of
from domain.amount import BPS, ceil_div
from domain.keys import PanelKey, RoundKey
from domain.legs.records import Leg
from domain.limits import SEATS_MAX
from domain.market.records import Order
from domain.proof.events import PanelSkipped, ReviewSpared, StageOpened
from domain.proof.records import Panel, PanelSeat, Review
from domain.proof.transitions import PANEL_STEPS, PanelStep
from domain.registry.records import Validator
from pol.rules.lots import draw, draw_weighted, seed
from pol.rules.panels import STAGES, commit_seconds, reveal_seconds
from pol.rules.states import fetch_seconds
from pol.rules.tiers.table import tier_of


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
        panel = replace(panel, places=draw_round_places(ctx, subject, beacon, order, leg))
    if panel.stage == 0 and panel.standing is not None:
        panel = replace(panel, places=draw_share_places(ctx, subject, beacon, order, panel))
    before = SEATS.scan(ctx.store, *key)
    if panel.review is Review.WAITS and not _is_reviewed(subject, beacon, leg):
        _spare(ctx, panel)
        return
    drawn = _draw_seats(ctx, subject, beacon, order, leg, panel, before)
    count = len(drawn.seats)
    commits_end = ctx.clock + (get_commit_seconds(order, leg, panel) if count else 0)
    compare_end = commits_end + (get_compare_seconds(order, leg) if count else 0)
    first_seat = panel.first_seat if panel.repeats else panel.seats
    repeats = first_seat < len(before)
    panel = move_panel(
        ctx,
        panel,
        PanelStep.DRAW,
        stage=subject.stage,
        seed=seed("panel/digest", subject.id, beacon),
        earlier_seeds=(*panel.earlier_seeds, panel.seed) if panel.stage else (),
        commits_end=commits_end,
        reveals_end=compare_end + (reveal_seconds(order.params) if count else 0),
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
        review=Review.NONE,
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


def _draw_audit(ctx: Context, subject: PanelSubject, beacon: bytes) -> None:
    """Draw whether a closed round gets a panel. If it does, ask for audit room; otherwise remove the panel."""
    key = subject.panel
    order = ORDERS.must(ctx.store, key.order_id)
    panel = PANELS.must(ctx.store, *key)
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    rate = get_rate(ctx, order, leg, ROUNDS.must(ctx.store, *key.round_key))
    (number,) = draw(seed("panel/audit", subject.id, beacon), BPS, 1)
    if number < rate:
        ask_room(ctx, order, panel)
        return
    PANEL_STEPS.check(PanelStep.SKIP, panel.state, None)
    PANELS.delete(ctx.store, *key)
    ctx.emit(PanelSkipped(key))
    # The window of the round may already be over.
    advance(ctx, ORDERS.must(ctx.store, key.order_id))


def _is_reviewed(subject: PanelSubject, beacon: bytes, leg: Leg) -> bool:
    """Return whether the seed draws a review of the stage before."""
    (number,) = draw(seed("panel/review", subject.id, beacon), BPS, 1)
    return number < tier_of(leg).review_rate


def _spare(ctx: Context, panel: Panel) -> None:
    """Let the places of a stage be ruled without a review."""
    panel = replace(panel, review=Review.SPARED)
    PANELS.put(ctx.store, panel)
    take_room(ctx, panel, 0)
    ctx.emit(ReviewSpared(panel.key))
    schedule(ctx, ctx.clock, REVIEW_DUE, *panel.key)


def get_commit_seconds(order: Order, leg: Leg, panel: Panel) -> int:
    """Return the time (seconds) that the seats of a panel have to commit in a stage."""
    fetch = fetch_seconds(order.terms, order.params) if panel.asker else 0
    return commit_seconds(order.params, order.audit_ms) + fetch - get_compare_seconds(order, leg)


def get_compare_seconds(order: Order, leg: Leg) -> int:
    """Return the time (seconds) that the seats of a stage have to compare states after they have committed."""
    return ceil_div(tier_of(leg).compare_part * order.audit_ms, 1_000)


def weigh_stage_draw(ctx: Context, subject: PanelSubject) -> int:
    """Return the gas of drawing a stage; it depends on the validators and seats that are read, and on the new seats."""
    if subject.stage == AUDIT_STAGE:
        leg = LEGS.must(ctx.store, subject.panel.order_id, subject.panel.leg)
        return weigh_ask(ctx) + weigh_doubt(ORDERS.must(ctx.store, leg.order_id), leg)
    panel = PANELS.must(ctx.store, *subject.panel)
    validators = count_bonded(ctx.store)
    groups = len(panel.open_groups) or len(panel.wanted)
    reads = VALIDATOR_GAS * ((2 + groups) * validators + panel.seats) + weigh_places(ctx, panel)
    seats = panel.seats - panel.first_seat if panel.repeats else sum(panel.wanted)
    # A stage that may become the last one seats everyone.
    may_end = panel.last_next or subject.stage > 1
    return reads + SEAT_GAS * min(max(seats, validators) if may_end else seats, SEATS_MAX)


def _waits_for_earlier(ctx: Context, leg: Leg, panel: Panel) -> bool:
    """Return whether an earlier round of the leg waits for the vote of all validators, or for an appeal.

    If that round becomes void, the panel's round becomes void too. The seats of the panel would then have worked for
    nothing.
    """
    rounds = range(leg.next_round, panel.round)
    earlier = (each for number in rounds for each in PANELS.scan(ctx.store, leg.order_id, leg.number, number))
    return any(each.standing is None and _may_void(each) for each in earlier)


def _may_void(panel: Panel) -> bool:
    """Return whether a panel may make its round void soon, so that panels of later rounds wait for it."""
    return panel.awaits_appeal or ((panel.last_next or panel.is_last) and not panel.is_decided)


def resume_later(ctx: Context, order: Order, leg: Leg) -> None:
    """Continue the panels that waited for the vote of all validators on an earlier round, because that vote is over."""
    for _, __, round, dispute, stage in list(BEHIND_PANELS.keys(ctx.store, order.id, leg.number)):
        key = RoundKey(order.id, leg.number, number_of(round)).panel(number_of(dispute))
        BEHIND_PANELS.delete(ctx.store, *key, number_of(stage))
        panel = PANELS.must(ctx.store, *key)
        take_room(ctx, panel, count_next(panel))
        wait_for_seed(ctx, order, leg, panel, number_of(stage))


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
    pool = get_pool(ctx, order, leg, panel.key)
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


def get_pool(ctx: Context, order: Order, leg: Leg, key: PanelKey) -> list[Validator]:
    """Return the validators that may sit in a panel of an order: not jailed, not a party, and able to audit it.

    A validator is able if it could audit the order when the order was submitted. If fewer than twice ``auditors`` such
    validators are left, the validators that can audit it now are added.
    """
    parties = set(get_panel_parties(ctx, order, leg, key))
    active = [
        validator for validator in get_active(ctx.store) if validator.operator not in parties and may_audit(validator)
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
