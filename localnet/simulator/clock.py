"""Virtual time: what happens is an event at a millisecond, and time jumps from one event to the next."""

from collections.abc import Callable
from heapq import heappop, heappush

Act = Callable[[], None]


class Clock:
    """Events in the order of their time; those of one moment in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now = 0
        self._events: list[tuple[int, int, Act]] = []
        self._count = 0

    def at(self, when: int, act: Act) -> None:
        """Let something happen at a time, or at once where that is over."""
        self._count += 1
        heappush(self._events, (max(when, self.now), self._count, act))

    def after(self, delay: int, act: Act) -> None:
        self.at(self.now + delay, act)

    def step(self) -> None:
        """Let the next event happen."""
        self.now, _, act = heappop(self._events)
        act()

    @property
    def seconds(self) -> float:
        return self.now / 1000


class Alarm:
    """Wakes its owner at the earliest of the times that were asked for since the last time."""

    def __init__(self, clock: Clock, act: Act) -> None:
        self._clock, self._act = clock, act
        self._at: int | None = None

    def within(self, delay: int) -> None:
        at = self._clock.now + delay
        if self._at is None or at < self._at:
            self._at = at
            self._clock.at(at, lambda: self._ring(at))

    def _ring(self, at: int) -> None:
        if self._at == at:
            self._at = None
            self._act()
