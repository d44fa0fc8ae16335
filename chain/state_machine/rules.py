"""The rules of the chain, and the choice of the version that applies at a height.

A version is made of components; their handlers, tables and other parts are merged once. The genesis lists the versions,
and for each version the height from which it applies (``Genesis.rules``). The state keeps this list. A node whose
software lacks the version of the next block stops before that block and reports it.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, TypeVar

from chain.state_machine.component import Answer, Component
from chain.state_machine.components import COMPONENTS
from chain.state_machine.context import SCHEDULE, Context, Draw
from chain.state_machine.gas import LANE_PERCENT, use_gas
from chain.state_machine.genesis import check_genesis
from chain.state_machine.handler import Handler
from chain.state_machine.kinds import Due
from chain.state_machine.queue import Effect
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Space
from domain.errors import UNKNOWN_REQUEST, Expected, Refusal
from domain.genesis import Genesis
from domain.messages import Message, signer_of
from domain.params import Params

K = TypeVar("K")
V = TypeVar("V")


class Rules:
    """One version of the rules: the merged parts of its components."""

    def __init__(
        self,
        version: int,
        components: tuple[Component, ...],
        migrate: Callable[[Overlay], None] | None = None,
    ) -> None:
        """Merge ``components``; a component may use only components before it.

        At the height from which this version applies, ``migrate`` changes the state before the components' own
        migrations. ``migrate`` is for records that no longer belong to any component.

        Raise ValueError if two components claim the same name, table, message, kind of entry, lot or query.
        """
        self.version = version
        self.components = components
        self._migrate = migrate
        _merge("component", ((c.name, c) for c in components))
        self.tables: Mapping[int, Space] = _merge(
            "table", ((table.prefix, table) for c in components for table in c.tables)
        )
        self.handlers: Mapping[type, Handler[Any, Any]] = _merge(
            "message", ((handler.message, handler) for c in components for handler in c.handlers)
        )
        self._urls = frozenset(handler.message.URL for handler in self.handlers.values())
        self.effects: Mapping[int, Effect] = _merge(
            "kind of entry",
            ((effect.due.number, effect) for c in components for effect in c.effects),
        )
        self.kinds: Mapping[int, Due] = MappingProxyType(
            {number: effect.due for number, effect in self.effects.items()}
        )
        self.draws: Mapping[str, Draw] = _merge(
            "lot", ((draw.subject.PURPOSE, draw) for c in components for draw in c.draws)
        )
        self.answers: Mapping[type, Answer] = _merge("query", chain(*(c.answers.items() for c in components)))
        self._hooks: dict[object, tuple[Callable[..., Any], ...]] = {}
        for component in components:
            for subscription in component.hooks:
                before = self._hooks.get(subscription.hook, ())
                self._hooks[subscription.hook] = (*before, subscription.function)
        antes = [c.ante for c in components if c.ante is not None]
        if len(antes) != 1:
            raise ValueError(f"{len(antes)} components have an ante; exactly one must have one")
        self.ante = antes[0]
        percent = sum(LANE_PERCENT) + sum(c.due_percent for c in components)
        if percent > 100:
            raise ValueError(f"lanes and components together have {percent} % of the gas for due work; at most 100 %")

    def migrate(self, store: Overlay) -> None:
        """Convert a state of the previous version to the form of this version."""
        if self._migrate is not None:
            self._migrate(store)
        for component in self.components:
            if component.migrate is not None:
                component.migrate(store)

    def get_handler(self, message: Message) -> Handler[Any, Any]:
        """Return the handler of a message; raise Refusal if this version of the rules has none.

        The refusal has the code for an unknown message, so that nodes with and without the newer version agree.
        """
        handler = self.handlers.get(type(message))
        if handler is None:
            reason = f"{message.URL} is not a message of version {self.version} of the rules"
            raise Refusal(UNKNOWN_REQUEST, "body.messages", reason, "send it after the chain changes to newer rules")
        return handler

    def check_message(self, message: Message, is_bounded: bool) -> None:
        """Refuse a message that these rules do not have, or whose fields are wrong whatever the state is."""
        self.get_handler(message).check_stateless(message, is_bounded)

    def has_message(self, url: str) -> bool:
        """Return whether these rules have a message with this type url."""
        return url in self._urls

    def apply_message(self, ctx: Context, message: Message) -> None:
        """Check a message against the state, take the gas that this shows, and apply it."""
        handler = self.get_handler(message)
        records = handler.check_state(ctx, message)
        if handler.weight is not None:
            use_gas(ctx, handler.weight(ctx, message, records), message.URL)
        ctx.note("message", ("action", message.URL), ("sender", signer_of(message)))
        handler.apply(ctx, message, records)

    def check_params(self, params: Params) -> None:
        """Refuse parameters that do not fit each other."""
        for component in self.components:
            if component.check_params is not None:
                component.check_params(params)

    def get_subscribers(self, hook: object) -> tuple[Callable[..., Any], ...]:
        """Return the functions that are subscribed to a hook, in the order of the components."""
        return self._hooks.get(hook, ())


def _merge(what: str, pairs: Iterable[tuple[K, V]]) -> Mapping[K, V]:
    """Return a mapping of the pairs; raise ValueError if a key comes twice.

    The error's text uses ``what`` as the word for a key.
    """
    table: dict[K, V] = {}
    for key, value in pairs:
        if key in table:
            name = key.__name__ if isinstance(key, type) else key
            raise ValueError(f"two components claim the {what} {name}")
        table[key] = value
    return MappingProxyType(table)


class RulesMissing(Expected):
    """An error of a node whose software lacks the version of the rules that a block needs."""

    def __init__(self, height: int, version: int, known: Iterable[int]) -> None:
        """Report the missing ``version``, the first ``height`` that needs it, and the ``known`` versions."""
        has = ", ".join(map(str, sorted(known)))
        super().__init__(
            f"block {height} needs version {version} of the rules, but this software only has {has}",
            f"install a release of assay with version {version} of the rules and start the node again; "
            "it continues from its last block",
            field=f"rules from height {height}",
        )


class Rulebook:
    """The versions of the rules that a node's software has. The height of a block selects one of them."""

    def __init__(self, *versions: Rules) -> None:
        """Take the versions, the oldest first; raise ValueError if their numbers do not increase."""
        numbers = [rules.version for rules in versions]
        if not numbers or numbers != sorted(set(numbers)):
            raise ValueError(f"versions of the rules must increase: {numbers}")
        self._versions: Mapping[int, Rules] = MappingProxyType(dict(zip(numbers, versions, strict=True)))

    def at(self, store: Overlay, height: int) -> Rules:
        """Return the rules for a height, chosen by the list in the state; RulesMissing if the software lacks them."""
        return self._need(SCHEDULE.must(store).version_at(height), height)

    def at_genesis(self, genesis: Genesis) -> Rules:
        """Return the rules of block 1; refuse a genesis whose list of rules is not valid.

        The software must have the first version; later versions may come with later releases.
        """
        heights = [entry.height for entry in genesis.rules]
        versions = [entry.version for entry in genesis.rules]
        check_genesis(heights[0] == 1, "rules[0].height", "must be 1, because block 1 needs rules")
        for index, (before, entry) in enumerate(pairwise(genesis.rules), 1):
            rises = entry.height > before.height
            reason = f"{entry.height} must be greater than {before.height}: heights must increase"
            check_genesis(rises, f"rules[{index}].height", reason)
            rises = entry.version > before.version
            reason = f"{entry.version} must be greater than {before.version}: versions must increase"
            check_genesis(rises, f"rules[{index}].version", reason)
        known = versions[0] in self._versions
        has = ", ".join(map(str, self._versions))
        check_genesis(known, "rules[0].version", f"this software lacks version {versions[0]}; it has {has}")
        return self._versions[versions[0]]

    def get_missing(self, store: Overlay, height: int) -> RulesMissing | None:
        """Return the error for the first version, from ``height`` on, that the software lacks.

        Return None if the software has all versions that are needed.
        """
        for entry in SCHEDULE.must(store).rules:
            if entry.height >= height and entry.version not in self._versions:
                return RulesMissing(entry.height, entry.version, self._versions)
        return None

    def enter(self, store: Overlay, height: int) -> tuple[Rules, bool]:
        """Return the rules of a block that begins, and whether they are new in this block.

        If the rules are new, migrate the state from version to version until it fits them.
        """
        schedule = SCHEDULE.must(store)
        before = schedule.version_at(height - 1)
        version = schedule.version_at(height)
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
