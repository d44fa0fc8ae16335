"""Strategies of bad parties: for each decision that such a party makes, the options among which it draws.

A strategy names only the decisions in which it is not honest. Its options are a bag: each draw takes one of them, so
``("send", "send", "never")`` is honest two times of three. The draw depends on the seed of the run, the party and the
subject alone. So a party that crashes and decides again decides the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from types import MappingProxyType

from localnet.simulator.memory_chain import digest

BAG_MAX = 4
"""Most options of a bag."""


class Role(StrEnum):
    """A kind of bad party. The names of its decisions begin with it."""

    PROVIDER = "provider"
    VALIDATOR = "validator"
    CONSUMER = "consumer"
    CHALLENGER = "challenger"
    FILLER = "filler"


_MAKES = ("honest", "first", "middle", "last", "idle", "update", "metrics", "quits", "copied", "garbage", "agreed")
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # A share of the first round of a leg, or of a later one.
        "provider makes first": _MAKES,
        "provider makes later": _MAKES,
        "provider hands in": ("send", "silent", "late"),
        "provider delivers": ("send", "hidden"),
        "provider opens": ("show", "closed", "junk"),
        "provider opens to panels": ("show", "nothing", "junk"),
        "validator answers a match": (
            "accept",
            "never",
            "bad job",
            "work mismatch",
            "too slow",
            "not finite",
            "not delivered",
            "no capacity",
            "by choice",
            "no states",
        ),
        "validator goes on": ("always", "vanishes", "stops"),
        "validator gives work": ("all", "friends", "strangers"),
        "validator judges friends": ("honest", "accept"),
        "validator judges strangers": ("honest", "accept", "segment", "update", "not finite", "silent", "late"),
        "validator commits": ("send", "never", "late"),
        "validator accepts shares": ("send", "never", "late"),
        "validator closes": ("send", "never", "late"),
        "validator aggregates": ("right", "wrong", "agreed"),
        "validator hands over": ("right", "global noise", "local noise"),
        "validator serves friends": ("serve", "nothing"),
        "validator serves strangers": ("serve", "nothing"),
        "validator serves challengers": ("serve", "nothing"),
        "seat attends": ("yes", "no"),
        "seat speaks of friends": ("truth", "vouch", "slander", "unavailable", "copy", "stopped"),
        "seat speaks of strangers": ("truth", "vouch", "slander", "unavailable", "copy", "stopped"),
        "seat reveals": ("send", "never", "late"),
        "proposer": ("makes", "withholds", "withholds while friends wait"),
        "consumer delivers": ("all", "never", "not to the first", "only to the first"),
        "consumer cancels": ("no", "soon", "late"),
        "consumer takes early": ("no", "yes"),
        "consumer complains": ("fairly", "always"),
        "consumer acknowledges": ("fairly", "denies", "silent"),
        "consumer keeps states": ("yes", "no"),
        "consumer's job": ("sound", "stops at once", "stops at the end"),
        "challenger of friends": ("nothing", "looks", "lies", "opens nothing", "says unserved", "asks again"),
        "challenger of strangers": ("nothing", "looks", "lies", "opens nothing", "says unserved", "asks again"),
        "filler": ("nothing", "always", "half", "while friends wait"),
    }
)
"""The decisions of bad parties. The first option of each is the honest one."""

Strategy = Mapping[str, tuple[str, ...]]
"""The bags of the decisions in which a party may not be honest."""
HONEST: Strategy = MappingProxyType({})


def own_decision(member: str, decision: str) -> str:
    """Return the key of a strategy for a decision that one member makes in its own way."""
    return f"{member}: {decision}"


def options_of(key: str) -> tuple[str, ...]:
    """Return the options of a key of a strategy."""
    return OPTIONS[key.rpartition(": ")[2]]


def honest_option(key: str) -> str:
    """Return the honest option of a key of a strategy."""
    return options_of(key)[0]


def decisions_of(roles: Mapping[str, frozenset[Role]]) -> tuple[str, ...]:
    """Return the keys of the strategies of a coalition: the decisions of all members, and those of each one."""
    common = [name for name in OPTIONS if any(_role_of(name) in own for own in roles.values())]
    single = [
        own_decision(member, name)
        for name in common
        for member, own in roles.items()
        if _role_of(name) in own and sum(_role_of(name) in other for other in roles.values()) > 1
    ]
    return (*common, *single)


def _role_of(decision: str) -> Role:
    first = decision.split(maxsplit=1)[0].removesuffix("'s")
    return Role.VALIDATOR if first in ("seat", "proposer") else Role(first)


def describe(strategy: Strategy) -> str:
    """Return a strategy in one line: its decisions, with the odds of their options."""
    return "; ".join(f"{name}: {_odds(bag)}" for name, bag in sorted(strategy.items())) or "honest"


def _odds(bag: tuple[str, ...]) -> str:
    parts = [f"{option} {bag.count(option)}/{len(bag)}" for option in dict.fromkeys(bag)]
    return bag[0] if len(parts) == 1 else ", ".join(parts)


def mutate(strategy: Strategy, random: Random, decisions: tuple[str, ...]) -> Strategy:
    """Return a strategy that differs in one to three decisions."""
    changed = dict(strategy)
    for _ in range(random.choice((1, 1, 2, 3))):
        name = random.choice(decisions)
        option, bag = random.choice(options_of(name)), changed.get(name, (honest_option(name),))
        match random.randrange(4):
            case 0 | 1:
                bag = (option,)
            case 2:
                bag = (*bag, option)[-BAG_MAX:]
            case _:
                bag = (honest_option(name),)
        changed[name] = bag
    return _without_honest(changed)


def make_random(random: Random, decisions: tuple[str, ...]) -> Strategy:
    """Return a strategy that is random in about a quarter of the decisions."""
    bags = {}
    for name in decisions:
        if random.randrange(4) == 0:
            options = random.choices(options_of(name), k=random.choice((1, 1, 2, 3)))
            bags[name] = tuple(options)
    return _without_honest(bags)


def simplify(strategy: Strategy) -> list[Strategy]:
    """Return the strategies that are honest in one more decision."""
    return [{name: bag for name, bag in strategy.items() if name != gone} for gone in strategy]


def _without_honest(bags: Strategy) -> Strategy:
    return {name: tuple(sorted(bag)) for name, bag in sorted(bags.items()) if set(bag) != {honest_option(name)}}


@dataclass(frozen=True)
class Mind:
    """The mind of one member of a coalition: the strategy, the seed of its draws, and its friends."""

    me: str
    strategy: Strategy
    seed: int
    friends: frozenset[str]

    def choose(self, decision: str, *about: object) -> str:
        """Return the option that this member takes in a decision about something."""
        bag = self.strategy.get(own_decision(self.me, decision)) or self.strategy.get(decision)
        if bag is None:
            return honest_option(decision)
        if len(bag) == 1:
            return bag[0]
        return bag[int.from_bytes(digest("mind", self.seed, self.me, decision, *about)[:4], "big") % len(bag)]

    def choose_about(self, name: str, decision: str, *about: object) -> str:
        """Return the option in a decision about ``name``, which is a friend or a stranger."""
        return self.choose(f"{decision} {'friends' if name in self.friends else 'strangers'}", name, *about)
