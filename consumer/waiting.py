"""What an order waits for, since when, until when, and what would help: one sentence for every place that shows it.

Commands and the library make it of the chain's answer with :func:`waiting`. The console, which knows an order by its
events, calls the functions for the single states.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from consumer.words import Asker
from domain.legs.records import Leg
from domain.market.records import OrderState
from domain.measures import duration
from domain.proof.queries import OrderResponse
from domain.proof.records import Panel, Round, ShareState
from domain.readable import Readable

_NOTHING_TO_DO: Final = "there is nothing to do"
NO_ROOM: Final = "until auditors have room for it, it does not begin"


@dataclass(frozen=True, slots=True)
class Waiting(Readable):
    """What an order waits for. Times are those of the chain's clock, 0 where there is none.

    Example::

        found = order.why().waiting
        if found:
            print(found, found.until - found.now)
    """

    what: str
    # How far that is.
    detail: str
    # What would make it quicker, or what comes when the time is over.
    helps: str
    since: int
    until: int
    # When it was asked.
    now: int

    def __str__(self) -> str:
        """Return the sentence."""
        line = f"waits for {self.what}"
        if self.since and self.now > self.since:
            line += f" for {duration(self.now - self.since)}"
        if self.until > self.now:
            line += f", for another {duration(self.until - self.now)} at most"
        line += f": {self.detail}" if self.detail else ""
        return line + (f"; {self.helps}" if self.helps else "")


def waiting(
    answer: OrderResponse,
    now: int,
    *,
    reason: str = "",
    remedy: str = "",
    asker: Asker = Asker.PYTHON,
) -> Waiting | None:
    """Return what an order waits for at ``now`` on the chain's clock; None where it is closed.

    ``reason`` and ``remedy`` say why no bid takes an order that is open (:func:`consumer.words.explain`).
    """
    order, leg = answer.order, answer.current
    if order.state is OrderState.CLOSED:
        return None
    if order.state is OrderState.OPEN or leg is None:
        ends = min(order.expires_at, order.deadline)
        return for_bid(order.opened_at, ends, now, reason, remedy)
    if order.state is OrderState.MATCHED:
        return for_acceptance(leg.validator, leg.matched_at, leg.accept_deadline, now, asker.follow(order.id))
    rounds = answer.rounds_of(leg.number)
    if order.state is OrderState.RUNNING:
        begun = rounds[-1].closed_at if rounds else 0
        return for_round(
            leg.round,
            _handed_in(answer, leg),
            leg.slots,
            begun,
            leg.progress_deadline,
            now,
            count_rounds(leg.closed, leg.verified, order.terms.rounds),
        )
    unverified = [found for found in rounds if not found.verified and not found.void]
    if not unverified:
        return for_settlement(leg.settles_at, now, asker.fetch(order.id))
    return _for_verification(answer, unverified, now)


def for_bid(since: int, until: int, now: int, reason: str, remedy: str) -> Waiting:
    """Return what an order in the book waits for."""
    at_the_end = "without a bid it closes then, and its deposit comes back"
    helps = f"{remedy}; {at_the_end}" if remedy else at_the_end
    detail = reason or "the next auction looks for one"
    return Waiting(what="a bid", detail=detail, helps=helps, since=since, until=until, now=now)


def for_acceptance(validator: str, since: int, until: int, now: int, follow: str) -> Waiting:
    """Return what a matched order waits for; ``follow`` is what delivers its files."""
    return Waiting(
        what="its validator to accept it",
        detail=f"{validator} takes the job's files from its consumer, and tries the job",
        helps=f"{follow} delivers the files, so leave it running",
        since=since,
        until=until,
        now=now,
    )


def for_round(number: int, handed_in: int, slots: int, since: int, until: int, now: int, progress: str) -> Waiting:
    """Return what an order in training waits for: round ``number``, counted from 0 like everywhere."""
    return Waiting(
        what=f"round {number} to close",
        detail=f"{handed_in} of {slots} slots have handed in their shares; {progress}",
        helps=f"{_NOTHING_TO_DO}: a validator that is late loses the order to another one",
        since=since,
        until=until,
        now=now,
    )


def for_settlement(until: int, now: int, fetch: str) -> Waiting:
    """Return what an order with all rounds verified waits for; ``fetch`` is what fetches its result."""
    return Waiting(
        what="its settlement",
        detail="all rounds are verified, and its consumer has this time to fetch the result",
        helps=f"fetch it with {fetch}",
        since=0,
        until=until,
        now=now,
    )


def for_window(number: int, since: int, until: int, now: int) -> Waiting:
    """Return what a closed round waits for whose panel has decided, or that has none."""
    return Waiting(
        what=f"the window of round {number}",
        detail="it is paid when the window is over",
        helps=_NOTHING_TO_DO,
        since=since,
        until=until,
        now=now,
    )


def for_panel(number: int, detail: str, since: int, until: int, now: int) -> Waiting:
    """Return what a closed round waits for while its panel recomputes parts of it."""
    return Waiting(
        what=f"the panel of round {number}",
        detail=detail,
        helps=f"{_NOTHING_TO_DO}: auditors that are silent lose stake, and others follow",
        since=since,
        until=until,
        now=now,
    )


def panel_stage(panel: Panel) -> tuple[str, int]:
    """Say where a panel is, and until when that may last (0: not known)."""
    if not panel.is_open:
        if not panel.stage and not panel.load:
            return NO_ROOM, 0
        return tell_lots(panel.stage + 1), 0
    seats = panel.seats - panel.first_seat
    told = tell_stage(panel.stage, seats, panel.committed, panel.revealed)
    commits = panel.committed < seats and not panel.revealed
    return told, panel.commits_end if commits else panel.reveals_end


def tell_lots(stage: int) -> str:
    """Say that a stage of a panel is next."""
    return f"the lots of its stage {stage} are drawn in the next blocks"


def tell_stage(stage: int, seats: int, committed: int, revealed: int) -> str:
    """Say how far a stage of a panel is that has its seats."""
    if committed < seats and not revealed:
        return f"{committed} of {seats} auditors of stage {stage} have committed"
    return f"{revealed} of {committed} auditors of stage {stage} have shown their answers"


def count_rounds(closed: int, verified: int, rounds: int) -> str:
    """Say how far an order's rounds are."""
    return f"{closed} of {rounds} rounds are closed, {verified} verified"


def _for_verification(answer: OrderResponse, unverified: Sequence[Round], now: int) -> Waiting:
    """Return what the first round waits for that is not verified yet."""
    found = unverified[0]
    panel = answer.panel(found.leg, found.round)
    if panel is None or panel.is_settled or panel.is_decided:
        return for_window(found.round, found.closed_at, found.window_ends, now)
    detail, until = panel_stage(panel)
    return for_panel(found.round, detail, found.closed_at, until, now)


def _handed_in(answer: OrderResponse, leg: Leg) -> int:
    """Return how many slots of the open round have a share that stands."""
    return len(
        {
            share.claim.slot
            for share in answer.shares
            if (share.claim.leg, share.claim.round) == (leg.number, leg.round) and share.state is ShareState.COMMITTED
        }
    )
