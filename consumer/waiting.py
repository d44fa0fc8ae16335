"""The sentence about the event that an order waits for, with its times and a remedy.

Commands and the library call :func:`waiting` with the chain's answer. The console has only the events of an order, so
it calls the functions for single states.
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
from pol.rules.states import RESULT, is_asking

_NOTHING_TO_DO: Final = "you need not do anything"
NO_ROOM: Final = "it begins when auditors are free"


@dataclass(frozen=True, slots=True)
class Waiting(Readable):
    """The event that an order waits for. Times are seconds of the chain's clock, 0 for an unknown time.

    Example::

        wait = order.why().waiting
        if wait:
            print(wait, wait.until - wait.now)
    """

    what: str
    # The progress so far.
    detail: str
    # A remedy, or a phrase about the event at the end of the time.
    helps: str
    since: int
    until: int
    # Time of the query to the chain.
    now: int

    def __str__(self) -> str:
        """Return the event, its times, the progress and the remedy as one sentence."""
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
    """Return the event that an order waits for; None if it is closed. ``now`` is the time of the chain's clock.

    For an open order, ``reason`` and ``remedy`` explain why no bid takes the order (:func:`consumer.words.explain`).
    """
    order = answer.order
    leg = answer.current
    if order.state is OrderState.CLOSED:
        return None
    if order.state is OrderState.OPEN or leg is None:
        ends = min(order.expires_at, order.deadline)
        return for_bid(order.opened_at, ends, now, reason, remedy)
    if order.state is OrderState.MATCHED:
        if is_asking(leg):
            return for_found_states(leg.validator, leg.first_round - 1, now)
        return for_acceptance(leg.validator, leg.matched_at, leg.accept_deadline, now, asker.follow(order.id))
    rounds = answer.rounds_of(leg.number)
    if leg.part:
        return for_states(leg.number, leg.part_until, now, asker.fetch(order.id))
    if order.state is OrderState.RUNNING:
        begun = rounds[-1].closed_at if rounds else 0
        if answer.holds_back and _handed_in(answer, leg) == leg.slots:
            return for_replicas(leg.round, now)
        return for_round(
            leg.round,
            _handed_in(answer, leg),
            leg.slots,
            begun,
            leg.progress_deadline,
            now,
            count_rounds(leg.closed, leg.verified, order.terms.rounds),
        )
    unverified = [round for round in rounds if not round.verified and not round.void]
    missed = next((panel for panel in answer.panels if _is_about_result(panel)), None)
    if missed is not None and not unverified:
        return for_found_result(missed.round, now)
    if not unverified:
        return for_settlement(leg.settles_at, now, asker.fetch(order.id))
    return _for_verification(answer, unverified, now)


def for_bid(since: int, until: int, now: int, reason: str, remedy: str) -> Waiting:
    """Return the wait of an open order for a bid. ``reason`` and ``remedy`` explain why no bid takes the order."""
    at_the_end = "if no bid takes the order by then, it closes and its deposit is refunded"
    helps = f"{remedy}; {at_the_end}" if remedy else at_the_end
    detail = reason or "the next auction looks for a bid"
    return Waiting(what="a bid", detail=detail, helps=helps, since=since, until=until, now=now)


def for_acceptance(validator: str, since: int, until: int, now: int, follow: str) -> Waiting:
    """Return the wait of a matched order for acceptance by its validator.

    ``follow`` is the command that delivers the job's files.
    """
    return Waiting(
        what="its validator to accept it",
        detail=f"{validator} receives the job's files from its consumer, and tests the job",
        helps=f"keep {follow} running, which delivers the files",
        since=since,
        until=until,
        now=now,
    )


def for_replicas(round: int, now: int) -> Waiting:
    """Return the wait of a round whose shares are all committed, for the other replicas of its order."""
    return Waiting(
        what="its replicas",
        detail=f"all shares of round {round} are committed, and become public when the other validators have theirs",
        helps="a replica that misses its deadline fails, and the others go on without it",
        since=0,
        until=0,
        now=now,
    )


def for_found_states(validator: str, round: int, now: int) -> Waiting:
    """Return the wait of a matched order for a panel that tries to fetch the states of a verified round."""
    return Waiting(
        what=f"a panel to find the states of round {round}",
        detail=f"{validator} could not fetch these states, from which the order goes on; auditors try to fetch them",
        helps=_NOTHING_TO_DO,
        since=0,
        until=0,
        now=now,
    )


def for_round(number: int, handed_in: int, slots: int, since: int, until: int, now: int, progress: str) -> Waiting:
    """Return the wait of an order in training for its round ``number`` to close. Rounds count from 0.

    ``slots`` is the number of the round's slots, and ``handed_in`` the number of those that have a committed share.
    ``progress`` is a phrase about all rounds.
    """
    return Waiting(
        what=f"round {number} to close",
        detail=f"{handed_in} of {slots} slots have committed their shares; {progress}",
        helps=f"{_NOTHING_TO_DO}: if the validator is late, another one gets the order",
        since=since,
        until=until,
        now=now,
    )


def _is_about_result(panel: Panel) -> bool:
    return bool(panel.asker) and not panel.is_settled and panel.places[0].place == RESULT


def for_found_result(round: int, now: int) -> Waiting:
    """Return the wait of a proven order for a panel that tries to fetch the encrypted result of a round."""
    return Waiting(
        what=f"a panel to find the result of round {round}",
        detail="its consumer was not served this result; auditors try to fetch it, and serve it then",
        helps=_NOTHING_TO_DO,
        since=0,
        until=0,
        now=now,
    )


def for_settlement(until: int, now: int, fetch: str) -> Waiting:
    """Return the wait for settlement of an order whose rounds are all verified, or, after that, for its stands.

    ``fetch`` is the command that fetches the result.
    """
    if now > until:
        return Waiting(
            what="the end of the time in which providers can stand for rejected shares",
            detail="all rounds are verified, and the time to fetch the result is over",
            helps="the rest of its deposit has returned; only bonds wait",
            since=until,
            until=0,
            now=now,
        )
    return Waiting(
        what="its settlement",
        detail="all rounds are verified, and its consumer can fetch the result until then",
        helps=f"fetch it with {fetch}",
        since=0,
        until=until,
        now=now,
    )


def for_states(leg: int, until: int, now: int, fetch: str) -> Waiting:
    """Return the wait of an order that ends after a failed leg, while the consumer can fetch the leg's states.

    ``fetch`` is the command that fetches them.
    """
    return Waiting(
        what=f"the end of the time in which the states of leg {leg} can be fetched",
        detail="until then its consumer can fetch the states of the last verified round, and deny that they are served",
        helps=f"fetch them with {fetch};"
        " if they are not served, deny it with assay order ack --denied (in Python: order.acknowledge(denied=True))",
        since=0,
        until=until,
        now=now,
    )


def for_window(number: int, since: int, until: int, now: int) -> Waiting:
    """Return the wait for the end of a closed round's window. The round needs no panel, or its panel has decided."""
    return Waiting(
        what=f"the window of round {number}",
        detail="the round is paid when the window ends",
        helps=_NOTHING_TO_DO,
        since=since,
        until=until,
        now=now,
    )


def for_panel(number: int, detail: str, since: int, until: int, now: int) -> Waiting:
    """Return the wait for the panel of a closed round, which still recomputes parts of the round."""
    return Waiting(
        what=f"the panel of round {number}",
        detail=detail,
        helps=f"{_NOTHING_TO_DO}: auditors that do not answer lose stake, and others replace them",
        since=since,
        until=until,
        now=now,
    )


def for_appeal(number: int, since: int, until: int, now: int) -> Waiting:
    """Return the wait for the end of the time in which a ruling against a closed round can be appealed."""
    return Waiting(
        what=f"appeals of the ruling about round {number}",
        detail="its auditors found the round wrong, and it becomes void if no one appeals",
        helps="if you know that it is right, have all validators decide: assay order appeal",
        since=since,
        until=until,
        now=now,
    )


def panel_stage(panel: Panel) -> tuple[str, int]:
    """Return a phrase about a panel's current stage, and the time by which the stage ends (0 if it is not known)."""
    if not panel.is_open:
        if not panel.stage and not panel.load:
            return NO_ROOM, 0
        return tell_lots(panel.stage + 1), 0
    seats = panel.seats - panel.first_seat
    progress = tell_stage(panel.stage, seats, panel.committed, panel.revealed)
    commits = panel.committed < seats and not panel.revealed
    return progress, panel.commits_end if commits else panel.reveals_end


def tell_lots(stage: int) -> str:
    """Return a phrase for a panel whose next stage has no seats yet."""
    return f"the auditors of stage {stage} are drawn in the next blocks"


def tell_stage(stage: int, seats: int, committed: int, revealed: int) -> str:
    """Return a phrase that says how many auditors of a stage have committed to their answers, or have revealed them."""
    if committed < seats and not revealed:
        return f"{committed} of {seats} auditors of stage {stage} have committed"
    return f"{revealed} of {committed} auditors of stage {stage} have revealed their answers"


def count_rounds(closed: int, verified: int, rounds: int) -> str:
    """Return a phrase for the numbers of closed and verified rounds of an order."""
    return f"{closed} of {rounds} rounds are closed, {verified} verified"


def _for_verification(answer: OrderResponse, unverified: Sequence[Round], now: int) -> Waiting:
    """Return the wait for the first unverified round: for its panel, or for its window if no panel is at work."""
    first = unverified[0]
    panel = answer.panel(first.leg, first.round)
    if panel is not None and panel.awaits_appeal:
        return for_appeal(first.round, first.closed_at, panel.appeal_until, now)
    if panel is None or panel.is_settled or panel.is_decided:
        return for_window(first.round, first.closed_at, max(first.window_ends, first.challenges_end), now)
    detail, until = panel_stage(panel)
    return for_panel(first.round, detail, first.closed_at, until, now)


def _handed_in(answer: OrderResponse, leg: Leg) -> int:
    """Return the number of slots that have a committed or accepted share in the leg's open round."""
    return len(
        {
            share.claim.slot
            for share in answer.shares
            if (share.key.leg, share.key.round) == (leg.number, leg.round)
            and share.state in (ShareState.COMMITTED, ShareState.ACCEPTED)
        }
    )
