"""Failures of deliveries that are tried again: which of them a person is told."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class RepeatedTrouble:
    """Notes a failure when it occurs for the second time in a row, and notes it once.

    The first failure may only mean that the validator has not seen the match yet.
    """

    note: Callable[[str], None]
    _last: str = ""
    _noted: str = ""

    def hear(self, text: str) -> None:
        """Take the text of a failure."""
        if text == self._last != self._noted:
            self.note(text)
            self._noted = text
        self._last = text
