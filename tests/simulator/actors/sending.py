"""How a validator's transactions get into blocks: one is under way at a time, and each lane waits in its own order."""

from functools import partial
from typing import TYPE_CHECKING

from domain.block import TxResult
from domain.events import ShareSkipped, changes_of
from domain.messages import Message, MsgCommitTraces
from validator.decide import receive
from validator.decide.actions import Lane
from validator.decide.records import AttemptKey

if TYPE_CHECKING:
    from tests.simulator.actors.validator import ValidatorActor

LOST_MS = 4_000
"""Until a transaction whose result was lost is asked for again."""
Sent = tuple[Lane, str, tuple[Message, ...]]
"""A transaction, by its lane and the key of its action."""


class Sender:
    """What a validator sends, between two crashes."""

    def __init__(self, daemon: "ValidatorActor") -> None:
        self.daemon = daemon
        self._queues: dict[Lane, list[tuple[str, tuple[Message, ...]]]] = {}
        self._under_way: Sent | None = None

    def send(self, lane: Lane, key: str, messages: tuple[Message, ...]) -> None:
        """Send a transaction when those before it in its lane are through: one is under way at a time of all lanes.

        What its result says comes later, or never.
        """
        daemon = self.daemon
        messages = daemon.behaviour.sends(daemon, messages)
        if messages and daemon.errands.begin(key, daemon.world.clock.now):
            self._queues.setdefault(lane, []).append((key, messages))
            self._send_next()

    def _send_next(self, last: Lane | None = None) -> None:
        """Send what waits, if nothing is under way: of the lanes that wait not the last one again."""
        waiting = sorted((lane == last, lane) for lane, queue in self._queues.items() if queue)
        if self._under_way is not None or not waiting:
            return
        _, lane = waiting[0]
        key, messages = self._queues[lane].pop(0)
        sent = self._under_way = lane, key, messages
        daemon, life = self.daemon, self.daemon.life
        daemon.later(LOST_MS, partial(self._sent, sent, None))
        daemon.world.submit(
            messages, lambda result: self._sent(sent, result) if life == daemon.life else None
        )

    def _sent(self, sent: Sent, result: TxResult | None) -> None:
        lane, key, messages = sent
        if self._under_way is sent:
            self._under_way = None
            self.daemon.finished(key)
            self._send_next(lane)
        if result is not None:
            self._receipt(messages, result)
        self.daemon.wake()

    def _receipt(self, messages: tuple[Message, ...], result: TxResult) -> None:
        """Take note of what a transaction did."""
        daemon = self.daemon
        for message in messages:
            if result.code or not isinstance(message, MsgCommitTraces):
                continue
            attempt = AttemptKey(message.order_id, message.attempt)
            on_chain = daemon.world.order(message.order_id)
            for change in changes_of(ShareSkipped, result.events):
                skip = partial(receive.share_skipped, on_chain=on_chain, skipped=change)
                daemon.change(attempt, skip)
