"""The rules of the chain: the components with their tables folded together once, for every message to come."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeVar

from chain.state_machine.component import Answer, Component
from chain.state_machine.components import COMPONENTS
from chain.state_machine.context import Draw
from chain.state_machine.gas import LANE_PERCENT
from chain.state_machine.handler import Handler
from chain.state_machine.kinds import Due
from chain.state_machine.queue import Effect
from chain.state_machine.tables import Space

K = TypeVar("K")
V = TypeVar("V")


class Rules:
    """One version of the rules. Making it folds the tables of all components and refuses those that do not fit."""

    def __init__(self, version: int, components: tuple[Component, ...]) -> None:
        """Fold ``components``, which come in the order in which they stand on each other.

        Raises ValueError where two of them claim the same name, table, message, kind of entry, lot or query.
        """
        self.version = version
        self.components = components
        _fold("component", ((c.name, c) for c in components))
        self.tables: Mapping[int, Space] = _fold(
            "table", ((table.prefix, table) for c in components for table in c.tables)
        )
        self.handlers: Mapping[type, Handler[Any, Any]] = _fold(
            "message", ((handler.message, handler) for c in components for handler in c.handlers)
        )
        self.effects: Mapping[int, Effect] = _fold(
            "kind of entry",
            ((effect.due.number, effect) for c in components for effect in c.effects),
        )
        self.kinds: Mapping[int, Due] = MappingProxyType(
            {number: effect.due for number, effect in self.effects.items()}
        )
        self.draws: Mapping[type, Draw] = _fold(
            "lot", chain(*(c.draws.items() for c in components))
        )
        self.answers: Mapping[type, Answer] = _fold(
            "query", chain(*(c.answers.items() for c in components))
        )
        self._hooks: dict[object, tuple[Callable[..., Any], ...]] = {}
        for component in components:
            for subscription in component.hooks:
                before = self._hooks.get(subscription.hook, ())
                self._hooks[subscription.hook] = (*before, subscription.function)
        antes = [c.ante for c in components if c.ante is not None]
        if len(antes) != 1:
            raise ValueError(f"{len(antes)} components check transactions; exactly one has to")
        self.ante = antes[0]
        percent = sum(LANE_PERCENT) + sum(c.due_percent for c in components)
        if percent > 100:
            raise ValueError(f"lanes and components share {percent} % of the gas for due work")

    def get_subscribers(self, hook: object) -> tuple[Callable[..., Any], ...]:
        """Return the functions behind a hook, in the order of the components."""
        return self._hooks.get(hook, ())


def _fold(what: str, pairs: Iterable[tuple[K, V]]) -> Mapping[K, V]:
    """Return the pairs as a table; ValueError for a key that comes twice."""
    table: dict[K, V] = {}
    for key, value in pairs:
        if key in table:
            name = key.__name__ if isinstance(key, type) else key
            raise ValueError(f"two components claim the {what} {name}")
        table[key] = value
    return MappingProxyType(table)


RULES = Rules(1, COMPONENTS)
"""The rules of this software."""
