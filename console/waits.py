"""The sentence on what an order waits for, made from its story. Commands and the library use the same words."""

from collections.abc import Callable

from console.story import LegStory, OrderStory, RoundStory
from consumer.waiting import (
    NO_ROOM,
    Waiting,
    count_rounds,
    for_acceptance,
    for_appeal,
    for_bid,
    for_panel,
    for_round,
    for_settlement,
    for_window,
    tell_lots,
    tell_stage,
)
from consumer.words import Asker, list_failures, what_helps
from domain.market.records import OrderState
from domain.proof.records import Ruling, ShareState


def waiting_of(story: OrderStory, now: int, name: Callable[[str], str]) -> Waiting | None:
    """Return a description of what an order waits for at ``now`` (chain clock); None if the order is closed.

    ``name`` returns the display name of an operator address.
    """
    order, leg, asker = story.order, story.current, Asker.SHELL
    if story.state is OrderState.CLOSED:
        return None
    if story.state is OrderState.OPEN or leg is None:
        reason = list_failures(story.unmatched)
        remedy = what_helps(story.unmatched, 0, asker)
        until = min(story.expires_at, story.deadline)
        return for_bid(story.opened_at, until, now, reason, remedy)
    if story.state is OrderState.MATCHED:
        return for_acceptance(name(leg.validator), leg.matched_at, leg.accept_deadline, now, asker.follow(order.id))
    closed = [round for round in leg.rounds.values() if round.closed_height]
    if story.state is OrderState.RUNNING:
        return for_round(
            leg.open_round,
            _handed_in(leg),
            leg.slots,
            max((each.closed_at for each in closed), default=0),
            leg.progress_deadline,
            now,
            count_rounds(leg.closed, leg.verified, order.terms.rounds),
        )
    waiting = [round for round in closed if not round.verified_height and not round.void]
    if not waiting:
        return for_settlement(leg.settles_at, now, asker.fetch(order.id))
    first = min(waiting, key=lambda round: round.number)
    if first.appeal_until and not first.panel_over:
        return for_appeal(first.number, first.closed_at, first.appeal_until, now)
    if first.panel_over or _is_decided(first):
        return for_window(first.number, first.closed_at, max(first.window_ends, first.challenges_end), now)
    detail, until = _panel(first)
    return for_panel(first.number, detail, first.closed_at, until, now)


def _handed_in(leg: LegStory) -> int:
    open_round = leg.rounds.get(leg.open_round)
    shares = open_round.shares.values() if open_round else ()
    handed_in = (ShareState.COMMITTED, ShareState.ACCEPTED)
    return len({s.slot for s in shares if s.state in handed_in and not s.skipped})


def _is_decided(round: RoundStory) -> bool:
    return bool(round.places) and all(place.ruling is not Ruling.OPEN for place in round.places)


def _panel(round: RoundStory) -> tuple[str, int]:
    """Return a text on a panel's current activity, and the time by which it ends (chain clock; 0 if not known)."""
    if not round.stages:
        return (NO_ROOM if round.waits else tell_lots(1)), 0
    stage = round.stages[-1]
    if stage.ended:
        return tell_lots(stage.number + 1), 0
    seats = [seat for seat in round.seats if seat.stage == stage.number]
    committed = sum(seat.committed for seat in seats)
    revealed = sum(seat.revealed for seat in seats)
    commits = committed < len(seats) and not revealed
    detail = tell_stage(stage.number, len(seats), committed, revealed)
    return detail, stage.commits_end if commits else stage.reveals_end
