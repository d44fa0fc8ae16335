"""The thread that sends transactions, one at a time. Each transaction contains everything that is due.

:mod:`validator.decide.outgoing` decides what goes next, and what happens to the rest if one message fails.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from threading import Condition, Event, Thread

from chain.client.client import TxReceipt
from chain.client.errors import TxRefused
from chain.client.sender import TxSender
from validator.decide import outgoing
from validator.decide.outgoing import Outgo, Outgoing, Sifted, messages_of

_log = logging.getLogger("assay.validator.outbox")

OTHER_TIMEOUT_BLOCKS = 6
"""Number of blocks after which a transaction expires if its messages are not duties."""
Sent = Callable[[Outgo, TxReceipt], None]
"""The function that is called with an action and its receipt when its messages are in a block."""


class TxOutcome(StrEnum):
    """The outcome of a transaction."""

    ARRIVED = "arrived"
    REFUSED = "refused"
    # The outcome is unknown: the transaction may be in a block.
    FAILED = "failed"


class Outbox:
    """The sender of the actions that the last look asked for. It sets ``wake`` whenever a transaction has ended."""

    def __init__(
        self,
        sender: TxSender,
        sent: Sent,
        stop: Event,
        wake: Event,
        expected: tuple[type[Exception], ...],
        now: Callable[[], float] = time.monotonic,
        ended: Callable[[TxOutcome], None] = lambda outcome: None,
    ) -> None:
        """Start the thread. ``expected`` are exceptions that are not bugs, and ``now`` returns seconds.

        ``ended`` is called with the outcome of each transaction.
        """
        self._ended = ended
        self._sender = sender
        self._sent = sent
        self._stop = stop
        self._wake = wake
        self._expected = expected
        self._now = now
        self._state = Outgoing()
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def want(self, actions: Iterable[Outgo], seen: float, *, whole: bool) -> None:
        """Send ``actions`` instead of the actions that wait to be sent. A look that began at ``seen`` (seconds of
        ``now``) asked for them.
        """
        with self._changed:
            self._state = outgoing.want(self._state, actions, int(seen * 1000), whole=whole)
            self._changed.notify()

    def busy(self) -> list[str]:
        """Return the keys of the actions that are under way or can be sent at once."""
        with self._changed:
            free = outgoing.waiting(self._state, self._ms())
            return [action.key for action in (*self._state.under_way, *free)]

    def close(self) -> None:
        """Drop the waiting actions and wait for the transaction under way, which ends if the client is closed."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._state = outgoing.take(self._state, self._ms())
                # The next look comes soon, and wakes this thread for actions whose pause has ended by then.
                while not self._closed and not self._state.under_way:
                    self._changed.wait()
                    self._state = outgoing.take(self._state, self._ms())
                if self._closed:
                    return
                going = self._state.under_way
                in_lane = outgoing.in_lane(self._state)
            end = self._send(going, in_lane)
            with self._changed:
                self._state = end(self._state)
            self._wake.set()

    def _send(self, going: Sequence[Outgo], in_lane: bool) -> Callable[[Outgoing], Outgoing]:
        """Send a transaction, and return the change of the state that follows from its outcome."""
        keys = [action.key for action in going]
        try:
            try:
                # Duties must not wait long for other transactions, because only one is under way at a time.
                blocks = None if all(map(outgoing.half_of, going)) else OTHER_TIMEOUT_BLOCKS
                receipt = self._sender.send(*messages_of(going), in_lane=in_lane, timeout_blocks=blocks)
            except TxRefused as refusal:
                self._ended(TxOutcome.REFUSED)
                passing, bad = self._sift(going, refusal)
                return lambda state: outgoing.refused(state, passing, bad, self._ms())
            self._ended(TxOutcome.ARRIVED)
            for action in going:
                self._sent(action, receipt)
        except self._expected as error:
            self._ended(TxOutcome.FAILED)
            _log.warning("%s: %s", ", ".join(keys), error)
        except Exception:  # noqa: BLE001 - logged, and tried again: the daemon continues
            # During a stop, the client and the database are closed while they are used. That is not a bug.
            if not self._stop.is_set():
                _log.exception("bug in %s", ", ".join(keys))
        else:
            return lambda state: outgoing.arrived(state, self._ms())
        return lambda state: outgoing.failed(state, keys, self._ms())

    def _sift(self, going: Sequence[Outgo], refusal: TxRefused) -> Sifted:
        """Return the actions of a refused transaction that the chain would accept now, and those that it refuses."""
        refusals = {action.key: refusal for action in going}

        def passes(actions: Sequence[Outgo]) -> bool:
            try:
                self._sender.simulate(*messages_of(actions))
            except TxRefused as refused:
                refusals[actions[-1].key] = refused
                return False
            return True

        passing, bad = outgoing.sift(going, passes)
        for action in bad:
            _log.warning("%s: %s", action.key, refusals[action.key])
        if not bad:
            _log.warning("a transaction of %d messages was refused: %s", len(messages_of(going)), refusal)
        return passing, bad

    def _ms(self) -> int:
        return int(self._now() * 1000)
