"""A network that delays what is sent, and loses some of it; who calls learns after a while that nothing came."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from localnet.simulator.clock import Act, Clock

R = TypeVar("R")
TIMEOUT_MS = 2_000


@dataclass
class Network:
    """Delays in milliseconds; ``loss`` of a thousand messages do not come."""

    clock: Clock
    random: Random
    least: int = 5
    most: int = 80
    loss: int = 5
    rate: int = 10_000_000  # bytes/s
    twice: int = 0  # of a thousand messages that arrive a second time

    def delay(self, size: int = 0) -> int:
        return self.random.randint(self.least, self.most) + size * 1000 // self.rate

    def lost(self) -> bool:
        return self.random.randrange(1000) < self.loss

    def send(self, act: Act, size: int = 0) -> None:
        """Let something happen at the other end, or never."""
        if not self.lost():
            self.clock.after(self.delay(size), act)

    def call(self, serve: Callable[[], R | None], answered: Callable[[R | None], None], size: int = 0) -> None:
        """Ask a party, which serves when the call arrives; None if there was no answer."""

        def arrive() -> None:
            answer = serve()
            if self.twice and self.random.randrange(1000) < self.twice:
                self.clock.after(self.delay(size), again)
            if answer is None or self.lost():
                self.clock.after(TIMEOUT_MS, lambda: answered(None))
            else:
                self.clock.after(self.delay(), lambda: answered(answer))

        def again() -> None:
            serve()

        if self.lost():
            self.clock.after(TIMEOUT_MS, lambda: answered(None))
        else:
            self.clock.after(self.delay(size), arrive)
