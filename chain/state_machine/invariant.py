"""What a component says must always hold, as a value."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chain.state_machine.context import Running
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Table


class InvariantBroken(Exception):
    """Something that must always hold does not: a bug, which stops the chain."""


def ensure(holds: bool, what: str) -> None:
    """Raise InvariantBroken with ``what`` unless it holds."""
    if not holds:
        raise InvariantBroken(what)


@dataclass(frozen=True, slots=True)
class Each:
    """What must hold of each record of a table; it can only break when something about that record changes."""

    table: Table[Any]
    checks: tuple[Callable[[Overlay, Any], None], ...]


@dataclass(frozen=True, slots=True)
class Invariants:
    """The invariants of a component: what every block checks, and what every block of every test checks as well."""

    block: tuple[Callable[[Overlay], None], ...] = ()
    whole: tuple[Callable[[Overlay, Running], None], ...] = ()
    each: tuple[Each, ...] = ()
