"""Transactions of a validator: the real decisions choose what goes together, and what goes next."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from domain.block import TxResult
from domain.messages import Message
from domain.proof.events import ShareSkipped
from domain.proof.messages import MsgCommitTraces
from domain.vocabulary import changes_of
from validator.decide import outgoing, receive
from validator.decide.actions import SendTx
from validator.decide.outgoing import Outgo, Outgoing, messages_of
from validator.decide.records import LegKey

if TYPE_CHECKING:
    from localnet.simulator.actors.validator import ValidatorActor

LOST_MS = 3_000
"""Until a transaction whose result was lost is asked for again: less than a fifth of a stage (``setups.params``), so
that a seat whose commitment waits behind it still commits in time.
"""


class Sender:
    """The sender of a validator, between two crashes."""

    def __init__(self, daemon: "ValidatorActor") -> None:
        self.daemon = daemon
        self._state = Outgoing()

    def want(self, actions: Sequence[Outgo], seen: int) -> None:
        """Send what a look wants, as far as this validator sends it at all."""
        daemon = self.daemon
        sent = [self._altered(action) for action in actions if daemon.behaviour.sends(daemon, action.messages)]
        self._state = outgoing.want(self._state, sent, seen, whole=daemon.view.whole)
        self._send_next()

    def _altered(self, action: Outgo) -> Outgo:
        """Return an action with what this validator sends instead."""
        if not isinstance(action, SendTx):
            return action
        messages = self.daemon.behaviour.alters(self.daemon, action.messages)
        return action if messages == action.messages else replace(action, messages=messages)

    def _send_next(self) -> None:
        """Send what is due, if nothing is under way; what its result says comes later, or never."""
        daemon, world, life = self.daemon, self.daemon.world, self.daemon.life
        if self._state.under_way:
            return
        self._state = outgoing.take(self._state, world.clock.now)
        going = self._state.under_way
        if going:
            daemon.later(LOST_MS, partial(self._sent, going, None))
            world.submit(
                messages_of(going),
                lambda result: self._sent(going, result) if life == daemon.life else None,
                in_lane=outgoing.in_lane(self._state),
            )

    def _sent(self, going: tuple[Outgo, ...], result: TxResult | None) -> None:
        now = self.daemon.world.clock.now
        if self._state.under_way is going:
            if result is None:
                keys = [action.key for action in going]
                self._state = outgoing.failed(self._state, keys, now)
            elif result.code:
                kept, bad = outgoing.sift(going, self._passes)
                self._state = outgoing.refused(self._state, kept, bad, now)
            else:
                self._state = outgoing.arrived(self._state, now)
            self._send_next()
        if result is not None:
            self._receipt(messages_of(going), result)
        self.daemon.wake()

    def _passes(self, actions: Sequence[Outgo]) -> bool:
        chain = self.daemon.world.chain
        return not chain.simulate(chain.tx(*messages_of(actions))).code

    def _receipt(self, messages: tuple[Message, ...], result: TxResult) -> None:
        """Take note of what a transaction did."""
        daemon = self.daemon
        for message in messages:
            if result.code or not isinstance(message, MsgCommitTraces):
                continue
            leg = LegKey(message.order_id, message.leg)
            on_chain = daemon.world.order(message.order_id)
            for change in changes_of(ShareSkipped, result.events):
                if change.share.order_id == message.order_id:
                    skip = partial(receive.share_skipped, on_chain=on_chain, skipped=change)
                    daemon.change(leg, skip)
