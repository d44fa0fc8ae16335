"""The rules of the chain, and which version of them holds at a height.

A version is made of components, whose tables are folded together once, for every message to come. The genesis lists
from which height on which version holds (``Genesis.rules``); the state keeps the list. A node whose software lacks the
version of the next block stops before that block, with a sentence that says so.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, TypeVar

from chain.state_machine.component import Answer, Component
from chain.state_machine.components import COMPONENTS
from chain.state_machine.context import SCHEDULE, Draw
from chain.state_machine.gas import LANE_PERCENT
from chain.state_machine.genesis import check_genesis
from chain.state_machine.handler import Handler
from chain.state_machine.kinds import Due
from chain.state_machine.queue import Effect
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Space
from domain.errors import UNKNOWN_REQUEST, Expected, Refusal
from domain.genesis import Genesis
from domain.messages import Message

K = TypeVar("K")
V = TypeVar("V")


class Rules:
    """One version of the rules. Making it folds the tables of all components and refuses those that do not fit."""

    def __init__(
        self,
        version: int,
        components: tuple[Component, ...],
        migrate: Callable[[Overlay], None] | None = None,
    ) -> None:
        """Fold ``components``, which come in the order in which they stand on each other.

        ``migrate`` changes the state before the components do, at the height from which this version holds; it is for
        what belongs to no component any longer.

        Raises ValueError where two of them claim the same name, table, message, kind of entry, lot or query.
        """
        self.version = version
        self.components = components
        self._migrate = migrate
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
        self.draws: Mapping[str, Draw] = _fold(
            "lot", ((draw.subject.PURPOSE, draw) for c in components for draw in c.draws)
        )
        self.answers: Mapping[type, Answer] = _fold("query", chain(*(c.answers.items() for c in components)))
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

    def migrate(self, store: Overlay) -> None:
        """Bring a state that the version before left into the form of this one."""
        if self._migrate is not None:
            self._migrate(store)
        for component in self.components:
            if component.migrate is not None:
                component.migrate(store)

    def get_handler(self, message: Message) -> Handler[Any, Any]:
        """Return the handler of a message; a Refusal if these rules have none, though the software knows the message.

        The code is that of a message that nobody knows: nodes with and without the newer version must agree.
        """
        handler = self.handlers.get(type(message))
        if handler is None:
            reason = f"{message.URL} is not a message of version {self.version} of the rules"
            raise Refusal(UNKNOWN_REQUEST, "body.messages", reason, "wait for the height that brings it")
        return handler

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


class RulesMissing(Expected):
    """The software of this node lacks the version of the rules that the next block needs."""

    def __init__(self, height: int, version: int, known: Iterable[int]) -> None:
        """Say which version is missing from which height on, and which ones there are."""
        has = ", ".join(map(str, sorted(known)))
        super().__init__(
            f"block {height} needs version {version} of the rules, and this software has {has}",
            f"install a release of assay with version {version} of the rules and start the node again: "
            "it goes on from the block that it has",
            field=f"rules from height {height}",
        )


class Rulebook:
    """The versions of the rules that a node's software has, chosen by the height of a block."""

    def __init__(self, *versions: Rules) -> None:
        """Take the versions, the oldest first; ValueError if their numbers do not rise."""
        numbers = [rules.version for rules in versions]
        if not numbers or numbers != sorted(set(numbers)):
            raise ValueError(f"versions of the rules have to rise: {numbers}")
        self._versions: Mapping[int, Rules] = MappingProxyType(dict(zip(numbers, versions, strict=True)))

    def at(self, store: Overlay, height: int) -> Rules:
        """Return the rules of a height by the list in the state; RulesMissing if the software lacks them."""
        return self._need(SCHEDULE.must(store).version_at(height), height)

    def at_genesis(self, genesis: Genesis) -> Rules:
        """Return the rules of block 1, or refuse a genesis whose list is not one.

        A version that is missing here may come with a later release, if it is not the first.
        """
        heights = [entry.height for entry in genesis.rules]
        versions = [entry.version for entry in genesis.rules]
        check_genesis(heights[0] == 1, "rules[0].height", "is not 1: block 1 has no rules")
        for index, (before, entry) in enumerate(pairwise(genesis.rules), 1):
            rises = entry.height > before.height
            reason = f"{entry.height} does not follow {before.height}: heights have to rise"
            check_genesis(rises, f"rules[{index}].height", reason)
            rises = entry.version > before.version
            reason = f"{entry.version} does not follow {before.version}: versions have to rise"
            check_genesis(rises, f"rules[{index}].version", reason)
        known = versions[0] in self._versions
        has = ", ".join(map(str, self._versions))
        check_genesis(known, "rules[0].version", f"{versions[0]} is unknown; this software has {has}")
        return self._versions[versions[0]]

    def get_missing(self, store: Overlay, height: int) -> RulesMissing | None:
        """Return the first change of the rules from ``height`` on that this software cannot follow."""
        for entry in SCHEDULE.must(store).rules:
            if entry.height >= height and entry.version not in self._versions:
                return RulesMissing(entry.height, entry.version, self._versions)
        return None

    def enter(self, store: Overlay, height: int) -> tuple[Rules, bool]:
        """Return the rules of a block that begins, and whether they hold for the first time.

        Then the state has been migrated, through each version in between.
        """
        schedule = SCHEDULE.must(store)
        before, version = schedule.version_at(height - 1), schedule.version_at(height)
        rules = self._need(version, height)
        for step in range(before + 1, version + 1):
            if step in self._versions:
                self._versions[step].migrate(store)
        return rules, version != before

    def _need(self, version: int, height: int) -> Rules:
        rules = self._versions.get(version)
        if rules is None:
            raise RulesMissing(height, version, self._versions)
        return rules


RULES = Rules(1, COMPONENTS)
"""The newest rules of this software."""
RULEBOOK = Rulebook(RULES)
"""All rules of this software."""
