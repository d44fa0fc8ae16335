"""Tasks that the chain expects of an address, with deadlines (chain clock), and a provider's current shares."""

from collections.abc import Iterator
from typing import Any

from console.story import LegStory, OrderStory, RoundStory
from domain.market.records import OrderState
from domain.proof.records import ShareState


def duties_of(story: OrderStory, address: str) -> Iterator[tuple[str, int]]:
    """Yield the tasks that ``address`` has in an order, each with its deadline (chain clock).

    ``address`` is the address of a validator, a provider or the consumer.
    """
    current = story.current
    if current is None:
        return
    if address == story.order.consumer:
        yield from _of_consumer(story, current)
    if address == current.validator:
        yield from _of_winner(story, current)
    if story.state is OrderState.RUNNING:
        yield from _of_provider(story, current, address)
    for round in current.rounds.values():
        yield from _of_seat(story, round, address)


def _of_consumer(story: OrderStory, current: LegStory) -> Iterator[tuple[str, int]]:
    if story.state is OrderState.MATCHED:
        yield "deliver the job's files", current.accept_deadline
    if current.settles_at:
        yield "fetch the result, and dispute it if it is wrong", current.settles_at


def _of_winner(story: OrderStory, current: LegStory) -> Iterator[tuple[str, int]]:
    if story.state is OrderState.MATCHED:
        yield "accept or decline", current.accept_deadline
    if story.state is OrderState.RUNNING:
        yield f"close round {current.open_round}", current.progress_deadline


def _of_provider(story: OrderStory, current: LegStory, address: str) -> Iterator[tuple[str, int]]:
    open_round = current.rounds.get(current.open_round)
    for share in open_round.shares.values() if open_round else ():
        is_committed = share.state is ShareState.COMMITTED and not share.skipped
        if share.provider == address and is_committed:
            task = f"show the drawn segments of slot {share.slot} in round {current.open_round}"
            yield task, current.progress_deadline


def _of_seat(story: OrderStory, round: RoundStory, address: str) -> Iterator[tuple[str, int]]:
    if round.panel_over or not round.stages or round.stages[-1].ended:
        return
    stage = round.stages[-1]
    for seat in round.seats:
        if (seat.validator, seat.stage) != (address, stage.number):
            continue
        if not seat.committed:
            yield f"recompute round {round.number}, and commit to the answers", stage.commits_end
        elif not seat.revealed:
            yield f"reveal the answers on round {round.number}", stage.reveals_end


def work_of(story: OrderStory, address: str) -> Iterator[dict[str, Any]]:
    """Yield the committed and accepted shares of a provider in an order's open round and in the round before it."""
    current = story.current
    if current is None or story.state is not OrderState.RUNNING:
        return
    for number in (current.open_round, current.open_round - 1):
        round = current.rounds.get(number)
        for share in round.shares.values() if round else ():
            if share.provider != address or share.skipped:
                continue
            if share.state not in (ShareState.COMMITTED, ShareState.ACCEPTED):
                continue
            yield {
                "order": story.order.id.hex(),
                "job": story.order.terms.job_id.hex(),
                "leg": current.number,
                "round": number,
                "rounds": story.order.terms.rounds,
                "slot": share.slot,
                "issue": share.issue,
                "in_hand": share.state is ShareState.COMMITTED,
                "height": share.height,
            }
