"""Scenarios of the table, played in other tiers than the default one.

A tier whose lots draw only some rounds finds a wrong round by a panel, or by a challenge. So each market here has a job
bond that is high enough to make draws rare, and a scenario is played until a lot left a round out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from domain.proof.events import PanelSkipped
from domain.vocabulary import changes_of
from localnet.simulator.scenarios.scenario import Scenario
from localnet.simulator.world import World
from pol.rules.tiers.sampled import SAMPLED

RARE = {"job_bond_bps": 10_000}
"""Parameters with which rounds are drawn rarely: the job bond is the price of the whole leg."""
TRIES = 20


@dataclass(frozen=True)
class Replayed:
    """A scenario of the table that is played in another tier.

    ``shows`` says what happens there. If ``skips`` is true, a lot must leave at least one round out. ``seed`` is the
    first one to play.
    """

    name: str
    shows: str
    skips: bool = True
    seed: int = 1


_SAMPLED = (
    Replayed("everyone-is-honest", "Everyone is honest. A lot leaves rounds out, which wait, and are paid."),
    Replayed(
        "wrong-middle-segment",
        "A provider invents a segment. Its validator finds it, and every round with a rejected share has a panel.",
        skips=False,
    ),
    Replayed("wrong-aggregation", "A validator closes rounds on wrong aggregates until a lot draws one of them."),
    Replayed(
        "rejects-right-shares",
        "A validator rejects right shares as mismatches. Panels recompute the rounds, and it pays.",
        skips=False,
    ),
    Replayed(
        "censors-a-provider",
        "A validator keeps a provider off the chain. The provider includes its shares, which brings panels.",
        skips=False,
    ),
    Replayed(
        "lets-a-friend-cheat",
        "A validator accepts whatever its friend, a provider, invents, until a lot draws one of their rounds.",
        skips=False,
        seed=5,
    ),
    Replayed(
        "true-challenge",
        "An operator finds an invented segment that no lot drew, challenges it, and is rewarded.",
        seed=5,
    ),
    Replayed("false-challenge", "An operator challenges a right place. Its bond pays the seats.", skips=False, seed=2),
    Replayed(
        "seats-do-not-compute",
        "A third of the strangers repeat what the chain claims, where they are drawn.",
        skips=False,
        seed=4,
    ),
    Replayed("seat-gone-after-committing", "Seats of drawn rounds are gone after they committed.", skips=False, seed=4),
    Replayed("3-of-4-seats-collude", "A validator aggregates wrongly, and three of the first four seats help it."),
)


def _skipped(shown: Callable[[World], bool]) -> Callable[[World], bool]:
    """Return whether a scenario showed its subject, and a lot left a round out."""
    return lambda world: shown(world) and any(True for _ in changes_of(PanelSkipped, world.chain.events))


def play_in_tiers(table: Mapping[str, Scenario]) -> Iterable[Scenario]:
    """Yield scenarios of the table in other tiers. The name of each begins with the name of its tier."""
    for replayed in _SAMPLED:
        scenario = table[replayed.name]
        market = scenario.market
        yield replace(
            scenario,
            name=f"{SAMPLED.name}-{replayed.name}",
            shows=replayed.shows,
            market=replace(market, tier=SAMPLED.name, rounds=max(4, market.rounds), params={**market.params, **RARE}),
            shown=_skipped(scenario.shown) if replayed.skips else scenario.shown,
            tries=TRIES,
            seed=replayed.seed,
        )
