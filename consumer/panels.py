"""What panels say of an order's rounds, for people."""

from chain.client.client import ChainClient
from consumer.waiting import panel_stage
from domain.measures import duration
from domain.proof.queries import OrderResponse, SeatsRequest
from domain.proof.records import AuditKind, Panel, PanelPlace, PanelSeat, Place, Round, Ruling

_RULINGS = {
    Ruling.OPEN: "open",
    Ruling.RIGHT: "as the validator says",
    Ruling.WRONG: "wrong",
    Ruling.UNDECIDED: "undecided",
}


def read_seats(client: ChainClient, on_chain: OrderResponse) -> list[PanelSeat]:
    """Return the seats of all panels about an order."""
    seats: list[PanelSeat] = []
    for panel in on_chain.panels:
        found: list[PanelSeat] = []
        while len(found) < panel.seats:
            request = SeatsRequest(order_id=panel.order_id, leg=panel.leg, round=panel.round, from_number=len(found))
            page = client.query(request).seats
            if not page:
                break
            found += page
        seats += found
    return seats


def panel_rows(on_chain: OrderResponse, seats: list[PanelSeat]) -> list[tuple[object, ...]]:
    """Return a row for each place: what it is, its ruling, and how many of those who sit have said something of it."""
    rows: list[tuple[object, ...]] = []
    for panel in on_chain.panels:
        sitting = [seat for seat in seats if seat.key == panel.key]
        for number, place in enumerate(panel.places):
            asked = [seat for seat in sitting if number in seat.places]
            said = sum(seat.answer(number) is not None for seat in asked)
            ruling = _RULINGS[place.ruling]
            rows.append(
                (
                    panel.leg,
                    panel.round,
                    number,
                    name_place(place.place) + (", where the job stops" if place.stops else ""),
                    ruling,
                    place.stage or panel.stage,
                    len(asked),
                    said,
                )
            )
    return rows


def name_place(place: Place) -> str:
    """Return what a place is, in words."""
    match place.kind:
        case AuditKind.AGGREGATION:
            return "aggregation"
        case AuditKind.UPDATE:
            return f"update of slot {place.slot}"
        case AuditKind.SEGMENT:
            return f"segment {place.segment} of slot {place.slot}"


def _tell_ruling(place: PanelPlace) -> str:
    if place.stops and place.ruling is Ruling.WRONG:
        return "does not stop the job, and the validator says so"
    return f"is {_RULINGS[place.ruling]}"


def stopped_round(on_chain: OrderResponse) -> Round | None:
    """Return the round of the current leg in which the job stopped, unless that was found wrong."""
    rounds = on_chain.rounds_of(on_chain.order.legs)
    return next((found for found in rounds if found.stopped is not None and not found.void), None)


def tell_stop(on_chain: OrderResponse) -> str:
    """Return in a sentence where the job stopped, and what became of it; empty where it did not."""
    closed = stopped_round(on_chain)
    if closed is None or closed.stopped is None:
        return ""
    place = name_place(closed.stopped)
    if not closed.verified:
        says = f"its validator says that the job stops in round {closed.round}"
        return f"{says}, because the {place} has no result; strangers recompute that"
    panel = on_chain.panel(closed.leg, closed.round)
    found = panel.places[0].found if panel is not None and panel.places else None
    # Of an update and an aggregation there is no step.
    inside = closed.stopped.kind is AuditKind.SEGMENT and found is not None
    step = f" (step {found.step})" if inside and found is not None else ""
    return (
        f"the job stops in round {closed.round}, because the {place} has no result{step}: something is not finite, "
        "or a row is not there; what was done before is paid, and assay job run stops there, too"
    )


def tell_panel(panel: Panel, now: int) -> list[str]:
    """Return what a panel waits for, and what it found wrong; nothing of one that found all as it should be.

    ``now`` is the time on the chain's clock.
    """
    where = f"round {panel.round} of leg {panel.leg}"
    lines = [
        f"{where}: {name_place(place.place)} {_tell_ruling(place)}"
        for place in panel.places
        if place.ruling in (Ruling.WRONG, Ruling.UNDECIDED)
    ]
    if panel.is_settled or panel.is_decided:
        return lines
    detail, until = panel_stage(panel)
    left = f" (for another {duration(until - now)} at most)" if until > now else ""
    return [*lines, f"the panel of {where}: {detail}{left}"]
