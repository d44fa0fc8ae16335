"""What an order waits for, in the words of commands and of the library, made of its story."""

from collections.abc import Callable

from console.story import LegStory, OrderStory, RoundStory
from consumer.waiting import (
    NO_ROOM,
    Waiting,
    count_rounds,
    for_acceptance,
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
    """Return what an order waits for at ``now`` on the chain's clock; None where it is closed.

    ``name`` says who an operator is.
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
    closed = [found for found in leg.rounds.values() if found.closed_height]
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
    waiting = [found for found in closed if not found.verified_height and not found.void]
    if not waiting:
        return for_settlement(leg.settles_at, now, asker.fetch(order.id))
    first = min(waiting, key=lambda found: found.number)
    if first.panel_over or _is_decided(first):
        return for_window(first.number, first.closed_at, first.window_ends, now)
    detail, until = _panel(first)
    return for_panel(first.number, detail, first.closed_at, until, now)


def _handed_in(leg: LegStory) -> int:
    found = leg.rounds.get(leg.open_round)
    shares = found.shares.values() if found else ()
    return len({s.slot for s in shares if s.state is ShareState.COMMITTED and not s.skipped})


def _is_decided(found: RoundStory) -> bool:
    return bool(found.places) and all(place.ruling is not Ruling.OPEN for place in found.places)


def _panel(found: RoundStory) -> tuple[str, int]:
    """Say where a panel is, and until when that may last (0: not known)."""
    if not found.stages:
        return (NO_ROOM if found.waits else tell_lots(1)), 0
    stage = found.stages[-1]
    if stage.ended:
        return tell_lots(stage.number + 1), 0
    seats = [seat for seat in found.seats if seat.stage == stage.number]
    committed = sum(seat.committed for seat in seats)
    revealed = sum(seat.revealed for seat in seats)
    commits = committed < len(seats) and not revealed
    told = tell_stage(stage.number, len(seats), committed, revealed)
    return told, stage.commits_end if commits else stage.reveals_end
