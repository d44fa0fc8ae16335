"""The errands that an actor has under way, and the times from which they may begin again."""

from dataclasses import dataclass, field

PAUSE_MS = 200
"""Until what ended may begin again."""


@dataclass
class Errands:
    """Errands under way, by key, and the time from which each may begin again."""

    busy: dict[str, None] = field(default_factory=dict)
    pauses: dict[str, int] = field(default_factory=dict)

    def begin(self, key: str, now: int) -> bool:
        """Begin something, unless it is under way, or ended a moment ago."""
        if key in self.busy or now < self.pauses.get(key, 0):
            return False
        self.busy[key] = None
        return True

    def end(self, key: str, now: int, pause: int = PAUSE_MS) -> None:
        """End something, which may begin again after a pause."""
        self.busy.pop(key, None)
        self.pauses[key] = now + pause
