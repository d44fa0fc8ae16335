"""Data types for the invariants of a component: conditions that must always hold."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chain.state_machine.context import Running
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Table


class InvariantBroken(Exception):
    """An error for a broken invariant. It is a bug, and stops the chain."""


def ensure(holds: bool, what: str) -> None:
    """Raise InvariantBroken with the text ``what``, unless ``holds`` is true."""
    if not holds:
        raise InvariantBroken(what)


@dataclass(frozen=True, slots=True)
class Each:
    """The invariants that each record of a table must satisfy.

    Only a change of the record itself, or of a related record, can break them.
    """

    table: Table[Any]
    checks: tuple[Callable[[Overlay, Any], None], ...]


@dataclass(frozen=True, slots=True)
class Invariants:
    """The invariants of a component: every block checks ``block``; in tests every block also checks the others."""

    block: tuple[Callable[[Overlay], None], ...] = ()
    # Invariants of the whole state.
    whole: tuple[Callable[[Overlay, Running], None], ...] = ()
    # Invariants of single records.
    each: tuple[Each, ...] = ()
