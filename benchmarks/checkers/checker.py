"""The interface of the checkers that the matrix compares: the columns of its table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.security.setting import Claim, Setting


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a checker: the fault that it found, or empty text, and the steps that all its parties ran."""

    fault: str
    steps: int


Draw = Callable[[bytes], Verdict]
"""A function that returns the verdict for a lot (32 bytes). It replays each place once, however many lots draw it."""


class Checker(Protocol):
    """A way to check a claim."""

    @property
    def name(self) -> str:
        """The name of the column."""
        ...

    def examine(self, setting: Setting, claim: Claim) -> Draw:
        """Return a function that judges a claim, given a lot. The claim was made before any lot was known."""
        ...
