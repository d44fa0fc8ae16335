"""Descriptions of the panels about an order's rounds: the places that they recompute, their rulings and progress."""

from chain.client.client import ChainClient
from consumer.waiting import panel_stage
from domain.measures import coins, duration
from domain.proof.queries import OrderResponse, SeatsRequest
from domain.proof.records import AuditKind, AuditPlace, Panel, PanelPlace, PanelSeat, Round, Ruling
from pol.rules.states import RESULT, is_fetched, rule_fetched

_RULINGS = {
    Ruling.OPEN: "open",
    Ruling.RIGHT: "right",
    Ruling.WRONG: "wrong",
    Ruling.UNDECIDED: "undecided",
}


def read_seats(client: ChainClient, on_chain: OrderResponse) -> list[PanelSeat]:
    """Return the seats of all panels about an order's rounds, which the chain returns in pages."""
    seats: list[PanelSeat] = []
    for panel in on_chain.panels:
        panel_seats: list[PanelSeat] = []
        while len(panel_seats) < panel.seats:
            request = SeatsRequest(
                order_id=panel.order_id,
                leg=panel.leg,
                round=panel.round,
                dispute=panel.dispute,
                from_number=len(panel_seats),
            )
            page = client.query(request).seats
            if not page:
                break
            panel_seats += page
        seats += panel_seats
    return seats


def panel_rows(on_chain: OrderResponse, seats: list[PanelSeat]) -> list[tuple[object, ...]]:
    """Return a row for each place that the order's panels recompute.

    A row has the leg, the round, and the place's number, name, ruling and stage. The last two columns are the number of
    seats that recompute the place, and the number of answers from these seats.
    """
    rows: list[tuple[object, ...]] = []
    for panel in on_chain.panels:
        sitting = [seat for seat in seats if seat.key == panel.key]
        for number, place in enumerate(panel.places):
            asked = [seat for seat in sitting if number in seat.places]
            answers = sum(seat.answer(number) is not None for seat in asked)
            ruling = _RULINGS[place.ruling]
            if place.first_stage:
                ruling += f" (stage {place.first_stage}: wrong)"
            rows.append(
                (
                    panel.leg,
                    panel.round,
                    number,
                    name_place(place.place) + (", where the job stops" if place.stops else ""),
                    ruling,
                    place.stage or panel.stage,
                    len(asked),
                    answers,
                )
            )
    return rows


def name_place(place: AuditPlace) -> str:
    """Return the name of an audited place, for example ``segment 3 of slot 0``."""
    match place.kind:
        case AuditKind.AGGREGATION:
            return "aggregation"
        case AuditKind.UPDATE:
            return f"update of slot {place.slot}"
        case AuditKind.SEGMENT:
            return f"segment {place.segment} of slot {place.slot}"
        case AuditKind.HANDOVER:
            return f"encrypted chunk {place.chunk}"
        case AuditKind.STATES:
            return "states that the round left"
        case AuditKind.RESULT:
            return "encrypted result of the round"


def _describe_ruling(place: PanelPlace) -> str:
    if place.stops and place.ruling is Ruling.WRONG:
        return "does not stop the job, although the validator claims so"
    if is_fetched(place.place) and rule_fetched(place) is Ruling.WRONG:
        return "cannot be fetched: no one serves it" if place.place == RESULT else "cannot be fetched: they are lost"
    return f"is {_RULINGS[place.ruling]}"


def stopped_round(on_chain: OrderResponse) -> Round | None:
    """Return the round of the current leg in which the job stopped.

    Return None if the job did not stop, or if that round became void.
    """
    rounds = on_chain.rounds_of(on_chain.order.legs)
    return next((round for round in rounds if round.stopped is not None and not round.void), None)


def describe_stop(on_chain: OrderResponse) -> str:
    """Return a sentence about the place where the job stopped, or an empty text if it did not stop."""
    closed = stopped_round(on_chain)
    if closed is None or closed.stopped is None:
        return ""
    place = name_place(closed.stopped)
    if not closed.verified:
        claim = f"its validator reports that the job stops in round {closed.round}"
        return f"{claim}, because the {place} has no result; auditors recompute that"
    panel = on_chain.panel(closed.leg, closed.round)
    result = panel.places[0].finding if panel is not None and panel.places else None
    # Only segments consist of steps.
    step = f" (step {result.step})" if closed.stopped.kind is AuditKind.SEGMENT and result is not None else ""
    return (
        f"the job stops in round {closed.round}, because the {place} has no result{step}: a value is NaN or infinite, "
        "or a row of data is missing; the work before it is paid; assay job run stops there, too"
    )


def describe_panel(panel: Panel, now: int) -> list[str]:
    """Return lines about a panel: one per place that is wrong or undecided, one about a slash, and one about its stage.

    A panel that has decided has no current stage, so a panel that found every place right has no lines. ``now`` is the
    time of the chain's clock.
    """
    where = f"round {panel.round} of leg {panel.leg}"
    lines = [
        f"{where}: {name_place(place.place)} {_describe_ruling(place)}"
        for place in panel.places
        if place.ruling in (Ruling.WRONG, Ruling.UNDECIDED)
    ]
    lines += [
        f"{where}: {name_place(place.place)} was found wrong in stage {place.first_stage}, which made the round void"
        for place in panel.places
        if place.first_stage
    ]
    if panel.votes_on_slash:
        lines.append(
            f"{where}: two stages found it wrong; all other validators vote on whether its validator loses"
            f" {coins(panel.slash)} of its stake, and the order does not wait for that"
        )
    elif panel.slash:
        lines.append(f"{where}: its validator lost {coins(panel.slash)} of its stake")
    if panel.awaits_appeal:
        left = f" for another {duration(panel.appeal_until - now)}" if panel.appeal_until > now else ""
        return [*lines, f"{where}: this ruling can be appealed{left} (assay order appeal); then the round is void"]
    if panel.appellant and not panel.is_settled and panel.undecided:
        lines.append(f"{where}: {panel.appellant} appealed the ruling, so all other validators decide again")
    if panel.is_settled or panel.is_decided:
        return lines
    detail, until = panel_stage(panel)
    remaining = f" (for another {duration(until - now)} at most)" if until > now else ""
    return [*lines, f"the panel of {where}: {detail}{remaining}"]
