"""Sending what is decided: a thread that has one transaction under way, with everything that is due in it.

What goes next, and what becomes of the rest where one message fails, is decided in :mod:`validator.decide.outgoing`.
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

Sent = Callable[[Outgo, TxReceipt], None]
"""What is done about an action when its messages are in a block."""


class TxOutcome(StrEnum):
    """What came of a transaction."""

    ARRIVED = "arrived"
    REFUSED = "refused"
    # It may have arrived all the same: nobody said.
    FAILED = "failed"


class Outbox:
    """Sends what the last look wanted; ``wake`` is set whenever a transaction has ended."""

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
        """Start the thread; ``expected`` are the exceptions of a world that fails, ``now`` counts seconds.

        ``ended`` hears what came of each transaction.
        """
        self._ended = ended
        self._sender, self._sent, self._stop, self._wake = sender, sent, stop, wake
        self._expected, self._now = expected, now
        self._state = Outgoing()
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def want(self, actions: Iterable[Outgo], seen: float, *, whole: bool) -> None:
        """Send these, and nothing else any more: all that a look wants that began when it was ``seen``."""
        with self._changed:
            self._state = outgoing.want(self._state, actions, int(seen * 1000), whole=whole)
            self._changed.notify()

    def busy(self) -> list[str]:
        """Return the keys of what is under way or can go at once."""
        with self._changed:
            free = outgoing.waiting(self._state, self._ms())
            return [action.key for action in (*self._state.under_way, *free)]

    def close(self) -> None:
        """Drop what waits, and wait for what is under way: whoever made the sender's client ends that."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._state = outgoing.take(self._state, self._ms())
                # The next look comes soon, and with it what has rested by then.
                while not self._closed and not self._state.under_way:
                    self._changed.wait()
                    self._state = outgoing.take(self._state, self._ms())
                if self._closed:
                    return
                going = self._state.under_way
            end = self._send(going)
            with self._changed:
                self._state = end(self._state)
            self._wake.set()

    def _send(self, going: Sequence[Outgo]) -> Callable[[Outgoing], Outgoing]:
        """Send a transaction, and return what has become of it."""
        keys = [action.key for action in going]
        try:
            try:
                receipt = self._sender.send(*messages_of(going))
            except TxRefused as refusal:
                self._ended(TxOutcome.REFUSED)
                kept, bad = self._sift(going, refusal)
                return lambda state: outgoing.refused(state, kept, bad, self._ms())
            self._ended(TxOutcome.ARRIVED)
            for action in going:
                self._sent(action, receipt)
        except self._expected as error:
            self._ended(TxOutcome.FAILED)
            _log.warning("%s: %s", ", ".join(keys), error)
        except Exception:  # noqa: BLE001 - logged, and tried again: the daemon goes on
            # A client or a database that was closed under it is no bug.
            if not self._stop.is_set():
                _log.exception("bug in %s", ", ".join(keys))
        else:
            return lambda state: outgoing.arrived(state, self._ms())
        return lambda state: outgoing.failed(state, keys, self._ms())

    def _sift(self, going: Sequence[Outgo], refusal: TxRefused) -> Sifted:
        """Tell what of a transaction that was refused the chain would take now."""
        said = {action.key: refusal for action in going}

        def passes(actions: Sequence[Outgo]) -> bool:
            try:
                self._sender.simulate(*messages_of(actions))
            except TxRefused as refused:
                said[actions[-1].key] = refused
                return False
            return True

        kept, bad = outgoing.sift(going, passes)
        for action in bad:
            _log.warning("%s: %s", action.key, said[action.key])
        if not bad:
            _log.warning("%d messages together: %s", len(messages_of(going)), refusal)
        return kept, bad

    def _ms(self) -> int:
        return int(self._now() * 1000)
