"""What panels say of an order's rounds, for people."""

from chain.client.client import ChainClient
from domain.queries import OrderResponse, SeatsRequest
from domain.records import AuditKind, Panel, PanelSeat, Place, Ruling

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
            request = SeatsRequest(panel.order_id, panel.attempt, panel.round, len(found))
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
                    panel.attempt,
                    panel.round,
                    number,
                    name_place(place.place),
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


def tell_panel(panel: Panel) -> list[str]:
    """Return what a panel waits for, and what it found wrong; nothing of one that found all as it should be."""
    where = f"round {panel.round} of attempt {panel.attempt}"
    lines = [
        f"{where}: {name_place(place.place)} is {_RULINGS[place.ruling]}"
        for place in panel.places
        if place.ruling in (Ruling.WRONG, Ruling.UNDECIDED)
    ]
    if panel.is_settled or panel.is_decided:
        return lines
    if not panel.is_open:
        if not panel.stage and not panel.load:
            return [*lines, f"{where} waits until auditors have room for its panel"]
        return [*lines, f"{where} waits for the seed of stage {panel.stage + 1} of its panel"]
    sitting = panel.seats - panel.first_seat
    return [
        *lines,
        f"{where}: stage {panel.stage} of its panel, {panel.committed} of {sitting} have committed (until "
        f"{panel.commits_end} s), {panel.revealed} have shown their answers (until {panel.reveals_end} s)",
    ]
