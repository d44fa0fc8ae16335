"""The decision about a mirror: which data of another validator's round this daemon fetches and keeps for its seats.

A validator may name mirrors when it closes a round. A mirror is another validator whose operator agreed to that in its
own configuration. Once the panel is drawn, the mirror fetches the openings and blobs of the drawn places from the
winner. It serves them to the seats of that panel. So a winner that disappears, or that serves only some
seats, leaves the data behind.

The record of a mirror is that of a seat in stage 0, which no panel has. It has no answers and owes nothing. It is
served like the record of a seat of an earlier stage (:func:`validator.decide.seats.serves_later`).

The mirror fetches instead of being sent to, so nothing that it did not ask for can fill its disk. It asks for no
place whose data contain the result of an undecided place of other seats. It asks for nothing while this validator has a
seat in the panel.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from domain.limits import STATE_CHUNK_BYTES
from domain.market.records import JobTerms
from domain.proof.queries import NumberedPlace, OrderResponse, PanelDuty, PanelResponse
from domain.proof.records import AuditKind, AuditPlace, Panel
from link.types import AuditOpening
from validator.decide.actions import Action, EndSeat, MirrorPlace
from validator.decide.records import LocalSeat, SeatKey, Sizes, seat_key
from validator.decide.seats import find_fault, fits_sizes, may_serve, new_seat
from validator.decide.showing import shows_result
from validator.decide.view import Look

STAGE = 0
"""The stage of a mirror's record. The stages of panels begin at 1."""
QUOTA_PART = 4
"""A mirror fills at most this part of the daemon's store of blobs: a quarter."""
ORDERS_MAX = 64
"""Most orders of one winner that a mirror reads in a look."""


def find_mirrored(on_chain: OrderResponse, winner: str, me: str) -> list[PanelDuty]:
    """Return the drawn and undecided panels about rounds of ``winner`` that name ``me`` as a mirror.

    Each has the places that are undecided now. Two kinds of panels are not mirrored: the provider that stands for a
    share sends the data to the seats itself, and seats fetch the states that a round left by their roots.
    """
    legs = {leg.number for leg in on_chain.legs if leg.validator == winner}
    named = {closed.key for closed in on_chain.rounds if closed.leg in legs and me in closed.mirrors}
    return [_duty_of(panel) for panel in on_chain.panels if panel.round_key in named and _is_wanted(panel)]


def _is_wanted(panel: Panel) -> bool:
    if panel.standing is not None or panel.asker:
        return False
    return panel.stage > 0 and bool(panel.undecided) and not panel.is_settled


def _duty_of(panel: Panel) -> PanelDuty:
    return PanelDuty(
        order_id=panel.order_id,
        leg=panel.leg,
        round=panel.round,
        stage=STAGE,
        seed=panel.seed,
        places=tuple(NumberedPlace(number, panel.places[number].place) for number in panel.undecided),
        commits_end=panel.commits_end,
        reveals_end=panel.reveals_end,
        commitment=b"",
        dispute=panel.dispute,
    )


def get_bytes(terms: JobTerms, places: Iterable[AuditPlace]) -> int:
    """Return the bytes of the job's files and of the data of these places, by the order's terms."""
    state = terms.global_bytes + terms.local_bytes
    sizes = {
        AuditKind.SEGMENT: state,
        AuditKind.UPDATE: 2 * state,
        AuditKind.AGGREGATION: state + terms.slots * terms.update_bytes,
        AuditKind.HANDOVER: STATE_CHUNK_BYTES,
        AuditKind.STATES: terms.result_bytes,
        AuditKind.RESULT: terms.result_bytes,
    }
    return terms.delivered_bytes + sum(sizes[place.kind] for place in places)


def choose_mirrored(
    found: Iterable[tuple[PanelDuty, JobTerms]], recorded: Collection[SeatKey], most: int
) -> dict[SeatKey, PanelDuty]:
    """Return the panels that this daemon mirrors: first those that have a record, then others, up to ``most`` bytes."""
    by_key = {seat_key(duty): (duty, terms) for duty, terms in found}
    chosen: dict[SeatKey, PanelDuty] = {}
    for key in sorted(by_key, key=lambda key: (key not in recorded, str(key))):
        duty, terms = by_key[key]
        size = get_bytes(terms, (asked.place for asked in duty.places))
        if size <= most:
            most -= size
            chosen[key] = duty
    return chosen


def may_mirror(panel: Panel, number: int, undecided: Collection[int]) -> bool:
    """Return whether a mirror may have the data of a place: they show no result of an undecided place of other seats.

    The seats of a group answer all places of the group, so they have the data of all these places already.
    """
    asked = panel.places[number]
    others = (panel.places[other] for other in undecided)
    return not any(other.group != asked.group and shows_result(asked.place, other.place) for other in others)


def find_mirror_fault(
    asked: AuditPlace, opening: AuditOpening, terms: JobTerms, subject: PanelResponse, seat: LocalSeat
) -> str:
    """Return what is wrong with an opening that a mirror got; an empty string if nothing is wrong.

    No blob may be larger than the order's terms allow. The job is not loaded for this.
    """
    why = find_fault(asked, opening, terms, subject.shares, seat.files)
    sizes = Sizes(terms.global_bytes, terms.local_bytes, terms.update_bytes)
    if not why and not fits_sizes(opening, sizes):
        why = "a state or an update in the opening has a wrong size"
    return why


def mirrored_opening(seat: LocalSeat, index: int, opening: AuditOpening, why: str) -> LocalSeat:
    """Record the opening of a place, or ``why`` the winner's opening is wrong. A wrong one is not asked for again."""
    place = seat.places[index]
    if place.accepted or not place.is_open:
        return seat
    if why:
        changed = replace(place, unavailable=why)
        files = seat.files
    else:
        # The opening of a hand-over place has no files.
        changed = replace(place, opening=replace(opening, payload=()), accepted=True)
        files = seat.files or opening.payload
    return replace(seat, files=files, places=(*seat.places[:index], changed, *seat.places[index + 1 :]))


def decide_mirror(key: SeatKey, seat: LocalSeat | None, look: Look) -> tuple[LocalSeat | None, tuple[Action, ...]]:
    """Return the updated record of a mirror, and the actions that fetch what is missing.

    The record is kept until the panel has decided its places.
    """
    duty = look.chain.mirrored.get(key)
    if duty is None:
        if seat is not None and may_serve(seat, look.chain.earlier.get(key.panel)):
            return seat, ()
        return seat, (EndSeat(f"{key}/end", key),)
    subject = look.chain.subjects.get(key)
    if subject is None:
        return seat, ()
    seat = seat or new_seat(duty, look.chain.clock)
    if any(own.panel == key.panel for own in look.chain.duties):
        return seat, ()
    undecided = {asked.number for asked in duty.places}
    steps: list[Action] = []
    for index, (place, asked) in enumerate(zip(seat.places, seat.duty.places, strict=True)):
        done = place.served or not place.is_open
        if done or asked.number not in undecided or not may_mirror(subject.panel, asked.number, undecided):
            continue
        steps.append(
            MirrorPlace(
                key=f"{key}/{asked.number}",
                seat=key,
                index=index,
                number=asked.number,
                place=asked.place,
                subject=subject,
            )
        )
    return seat, tuple(steps)
