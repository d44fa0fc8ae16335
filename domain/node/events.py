"""Changes of the state that the node component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change


@dataclass(frozen=True, slots=True)
class RulesChanged(Change):
    """Another version of the rules holds from this block on."""

    KIND: ClassVar[str] = "rules.changed"
    version: int
