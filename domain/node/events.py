"""Changes of the state that the node component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change


@dataclass(frozen=True, slots=True)
class RulesChanged(Change):
    """A new version of the rules is in force from this block on."""

    KIND: ClassVar[str] = "rules.changed"
    version: int
