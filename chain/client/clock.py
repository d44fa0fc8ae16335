"""The clock of this machine beside the chain's blocks: requests that are signed with a wrong time are refused.

A block that lies in this machine's future shows that its clock is behind. A last block that is old shows nothing by
itself: the chain may stand, or the node fetch old blocks. Two further blocks that come as fast as time passes and are
just as old show that the clock is ahead.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final

from domain.measures import duration
from domain.node.queries import StatusResponse

TOLERANCE_SECONDS: Final = 45
"""How far this machine's clock may be from the chain's; validators take requests of 60 s either way."""
SHOWN_BLOCKS: Final = 2
_PAUSE_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 6.0
_STANDS_SECONDS: Final = 10.0
"""After so long without two blocks an old one says nothing of the clock."""
REMEDY: Final = "set the clock of this machine (as root: timedatectl set-ntp true)"


@dataclass(frozen=True, slots=True)
class _Seen:
    height: int
    time: float
    steady: float


class ClockCheck:
    """Compares looks at a node with this machine's clock; for one thread. Tests hand in clocks."""

    def __init__(
        self,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Know nothing yet."""
        self._now, self._steady = now, steady
        self._first: _Seen | None = None
        self.problem = ""
        """What is wrong with the clock, in words; empty where it is right, or nothing is known."""

    @property
    def is_sure(self) -> bool:
        """True if the last look showed a right clock, or a wrong one; else further blocks tell."""
        return self._first is None or bool(self.problem)

    def look(self, status: StatusResponse) -> str:
        """Take a look into account, and return the problem."""
        seen = _Seen(status.height, status.time_ns / 1e9, self._steady())
        age = self._now() - seen.time
        if age < -TOLERANCE_SECONDS:
            self._first = None
            self.problem = f"the clock of this machine is {_words(-age)} behind the chain's last block"
        elif age <= TOLERANCE_SECONDS:
            self._first, self.problem = None, ""
        elif self._first is None or self._runs_faster(seen):
            self._first = seen
        elif seen.height >= self._first.height + SHOWN_BLOCKS:
            self.problem = (
                f"the clock of this machine is {_words(age)} ahead of the chain's: block {seen.height:,} has just come,"
                " and its time is so long ago"
            )
        return self.problem

    def _runs_faster(self, seen: _Seen) -> bool:
        """True if blocks come faster than time passes: the node fetches old ones."""
        first = self._first
        passed = 0.0 if first is None else seen.steady - first.steady
        return first is not None and seen.time - first.time > 2 * passed + TOLERANCE_SECONDS / 2

    def wait_until_right(
        self,
        ask: Callable[[], StatusResponse | None],
        stop: Event,
        note: Callable[[str], None],
    ) -> None:
        """Return when the clock is right, when the chain stands so that nothing is known, or at ``stop``.

        ``ask`` returns the node's status, None where it is away; ``note`` hears what is wrong, once.
        """
        told = False
        ends = self._steady() + _STANDS_SECONDS
        while not stop.is_set():
            status = ask()
            if status is not None:
                problem = self.look(status)
                if problem and not told:
                    note(f"{problem}; {REMEDY}")
                    told = True
                if not problem and (self.is_sure or self._steady() > ends):
                    return
            stop.wait(_PAUSE_SECONDS)


def find_wrong_clock(
    ask: Callable[[], StatusResponse],
    seconds: float = _LOOK_SECONDS,
    pause: Callable[[float], None] = time.sleep,
    check: ClockCheck | None = None,
) -> str:
    """Return what is wrong with this machine's clock, empty where it is right or the chain stands.

    Where the last block is old, further ones are waited for, for at most ``seconds``.
    """
    check, waited = check or ClockCheck(), 0.0
    while not check.look(ask()) and not check.is_sure and waited < seconds:
        pause(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS
    return check.problem


def _words(seconds: float) -> str:
    return duration(round(seconds))
