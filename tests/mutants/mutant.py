"""The record of a mutant."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place: ``old`` occurs once in ``file`` and becomes ``new``; one of ``tests`` must then fail."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
