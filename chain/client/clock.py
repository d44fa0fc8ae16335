"""The check of this machine's clock against the chain's blocks. If the clock is wrong, other parties refuse requests.

If the time of a block is later than this machine's clock, the clock is behind. An old last block does not show that the
clock is wrong: the chain may have stopped, or the node may be fetching old blocks. The clock is ahead if two further
blocks are as old as the last one, and come at the rate at which time passes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final

from domain.measures import duration
from domain.node.queries import StatusResponse

TOLERANCE_SECONDS: Final = 45
"""Largest difference between this machine's clock and the chain's; validators accept 60 s in either direction."""
SHOWN_BLOCKS: Final = 2
_PAUSE_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 6.0
_STANDS_SECONDS: Final = 10.0
"""Longest wait (seconds) for two further blocks. If they do not come in this time, nothing is known about the clock."""
REMEDY: Final = "set the clock of this machine (as root: timedatectl set-ntp true)"


@dataclass(frozen=True, slots=True)
class _Seen:
    height: int
    time: float
    steady: float


class ClockCheck:
    """A comparison of a node's blocks with this machine's clock; for one thread. Tests pass their own clocks."""

    def __init__(
        self,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use the clocks ``now`` (Unix seconds) and ``steady`` (a clock that is never set)."""
        self._now = now
        self._steady = steady
        self._first: _Seen | None = None
        self.problem = ""
        """The problem of the clock as text; empty if the clock is right, or nothing is known."""

    @property
    def is_sure(self) -> bool:
        """True if the last call of :meth:`look` found the clock right or wrong, False if it needs further blocks."""
        return self._first is None or bool(self.problem)

    def look(self, status: StatusResponse) -> str:
        """Compare the clock with a status of the node, and return the problem; an empty text if there is none."""
        seen = _Seen(status.height, status.time_ns / 1e9, self._steady())
        age = self._now() - seen.time
        if age < -TOLERANCE_SECONDS:
            self._first = None
            self.problem = f"the clock of this machine is {_words(-age)} behind the chain's last block"
        elif age <= TOLERANCE_SECONDS:
            self._first = None
            self.problem = ""
        elif self._first is None or self._runs_faster(seen):
            self._first = seen
        elif seen.height >= self._first.height + SHOWN_BLOCKS:
            self.problem = (
                f"the clock of this machine is {_words(age)} ahead of the chain's: block {seen.height:,} has just come,"
                " although its time is that long ago"
            )
        return self.problem

    def _runs_faster(self, seen: _Seen) -> bool:
        """Return whether block times advance faster than the clock, as while the node is fetching old blocks."""
        first = self._first
        passed = 0.0 if first is None else seen.steady - first.steady
        return first is not None and seen.time - first.time > 2 * passed + TOLERANCE_SECONDS / 2

    def wait_until_right(
        self,
        ask: Callable[[], StatusResponse | None],
        stop: Event,
        note: Callable[[str], None],
    ) -> None:
        """Wait until the clock is right, until the chain has stopped, so that nothing can be known, or until ``stop``
        is set.

        ``ask`` returns the node's status, or None if the node is away. ``note`` is called once with the problem.
        """
        reported = False
        ends = self._steady() + _STANDS_SECONDS
        while not stop.is_set():
            status = ask()
            if status is not None:
                problem = self.look(status)
                if problem and not reported:
                    note(f"{problem}; {REMEDY}")
                    reported = True
                if not problem and (self.is_sure or self._steady() > ends):
                    return
            stop.wait(_PAUSE_SECONDS)


def find_wrong_clock(
    ask: Callable[[], StatusResponse],
    seconds: float = _LOOK_SECONDS,
    pause: Callable[[float], None] = time.sleep,
    check: ClockCheck | None = None,
) -> str:
    """Return the problem of this machine's clock as text; it is empty if there is none or the chain has stopped.

    If the last block is old, the function waits for further blocks, at most ``seconds``.
    """
    check, waited = check or ClockCheck(), 0.0
    while not check.look(ask()) and not check.is_sure and waited < seconds:
        pause(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS
    return check.problem


def _words(seconds: float) -> str:
    return duration(round(seconds))
