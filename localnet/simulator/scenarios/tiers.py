"""Scenarios of the table, played in other tiers than the default one.

A tier whose lots draw only some rounds finds a wrong round by a panel, by a challenge, or by a replica. So each market
here has a job bond that is high enough to make draws rare, and a scenario is played until a lot left a round out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from domain.market.reasons import CloseReason
from domain.proof.events import PanelSkipped, RoundCompared, StageOpened
from domain.proof.reasons import Comparison
from domain.vocabulary import changes_of
from localnet.simulator.behaviours import LazyAuditor
from localnet.simulator.scenarios.scenario import Scenario
from localnet.simulator.world import World
from pol.rules.tiers.replicated import REPLICATED
from pol.rules.tiers.sampled import SAMPLED
from pol.rules.tiers.tolerance import TOLERANCE

RARE = {"job_bond_bps": 10_000}
"""Parameters with which rounds are drawn rarely: the job bond is the price of the whole leg."""
TRIES = 20


Shown = Callable[[World], bool]


@dataclass(frozen=True)
class Replayed:
    """A scenario of the table that is played in another tier.

    ``shows`` says what happens there. If ``skips`` is true, a lot must leave at least one round out. ``seed`` is the
    first one to play. ``shown`` tells whether the scenario showed its subject in this tier, if it is another one there;
    ``fault`` is what the chain's records show there. ``changes`` are fields of the market.
    """

    name: str
    shows: str
    skips: bool = True
    seed: int = 1
    shown: Shown | None = None
    fault: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)


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


def compared(outcome: Comparison, shown: Shown = lambda _: True) -> Shown:
    """Return what tells whether a comparison had an outcome, and the scenario showed its subject."""
    return lambda world: (
        shown(world) and any(change.outcome == outcome for change in changes_of(RoundCompared, world.chain.events))
    )


def all_settled(world: World) -> bool:
    """Return whether all replicas were settled."""
    return all(reason == CloseReason.SETTLED for reason in _reasons(world))


def one_goes_on(world: World) -> bool:
    """Return whether one replica failed, and the other one was settled. The rounds that it closed alone had panels."""
    compared = {change.round: change.outcome for change in changes_of(RoundCompared, world.chain.events)}
    skipped = {change.panel.round_key for change in changes_of(PanelSkipped, world.chain.events)}
    are_seen = all(compared[key] == Comparison.CONFIRMED for key in skipped)
    return are_seen and sorted(_reasons(world)) == sorted((CloseReason.SETTLED, CloseReason.FAILED))


def _reasons(world: World) -> list[CloseReason]:
    return [CloseReason(world.order(order.order_id).order.close_reason) for order in world.orders]


_REPLICATED = (
    Replayed(
        "everyone-is-honest",
        "Everyone is honest. Replicas confirm each other's rounds, and a lot leaves some of them without a panel.",
        shown=compared(Comparison.CONFIRMED, all_settled),
    ),
    Replayed(
        "wrong-middle-segment",
        "A provider invents a segment. Its validator finds it, and the share that replaces it is late, so a panel"
        " audits the round.",
        skips=False,
        shown=compared(Comparison.ALONE, all_settled),
    ),
    Replayed(
        "wrong-aggregation",
        "A validator closes rounds on wrong aggregates. The replicas differ, panels find it, and it is slashed.",
        skips=False,
        shown=compared(Comparison.DIFFERENT, one_goes_on),
    ),
    Replayed(
        "rejects-right-shares",
        "A validator rejects right shares as mismatches. Panels recompute its rounds, and it pays.",
        skips=False,
        shown=compared(Comparison.ALONE, all_settled),
    ),
    Replayed(
        "censors-a-provider",
        "A validator keeps a provider off the chain. The provider includes its shares, which brings panels.",
        skips=False,
        shown=all_settled,
    ),
    Replayed(
        "signs-no-receipt",
        "A validator takes no delivery of one provider. Witnesses have it, and the validator pays.",
        skips=False,
        shown=all_settled,
    ),
    Replayed(
        "gives-up",
        "A validator gives its replica up in the second round. The other one goes on, and has a panel for every round.",
        skips=False,
        shown=compared(Comparison.ALONE, one_goes_on),
    ),
    Replayed(
        "gone-after-commitments",
        "A validator puts commitments on chain and is gone. The other one goes on.",
        skips=False,
        shown=compared(Comparison.ALONE, one_goes_on),
    ),
    Replayed("never-accepts", "A validator accepts no order. The other one goes on.", skips=False, shown=one_goes_on),
    Replayed(
        "seats-do-not-compute",
        "Some strangers repeat what the chain claims, where they are drawn.",
        skips=False,
        shown=all_settled,
        changes={"swaps": dict.fromkeys(("v3", "v5"), LazyAuditor)},
    ),
    Replayed(
        "job-stops-in-a-step",
        "A job stops in a step of its second round. All replicas say so, and are paid for what was trained before.",
        skips=False,
    ),
    Replayed(
        "consumer-never-delivers",
        "A consumer delivers its job to no one. Every replica ends, and each validator and the consumer lose a fee.",
        skips=False,
    ),
)


_TOLERANCE = (
    Replayed(
        "everyone-is-honest",
        "Everyone is honest. Seats compare states with their own, and lots draw reviews of some of them.",
        skips=False,
        shown=lambda world: all_settled(world) and is_reviewed(world),
    ),
    Replayed(
        "wrong-middle-segment",
        "A provider invents a segment. Its validator finds it outside the thresholds.",
        skips=False,
    ),
    Replayed("wrong-update", "A provider invents an update, which is exact here, too.", skips=False),
    Replayed(
        "missed-by-the-validator",
        "A third of a share is invented. The validator's draws miss it, and seats find it outside the thresholds.",
        skips=False,
    ),
    Replayed("wrong-aggregation", "A validator aggregates wrongly. The seats find it by its root.", skips=False),
    Replayed(
        "rejects-right-shares",
        "A validator rejects right shares as mismatches. Providers stand for them, and it pays.",
        skips=False,
    ),
    Replayed("signs-no-receipt", "A validator takes no delivery of one provider. Witnesses have it.", skips=False),
    Replayed(
        "lets-a-friend-cheat",
        "A validator accepts whatever its friend, a provider, invents. Panels find it.",
        skips=False,
    ),
    Replayed("false-challenge", "An operator says of a right state that it is outside. Its bond pays.", skips=False),
    Replayed("true-challenge", "An operator finds a segment outside the thresholds, and is rewarded.", skips=False),
    Replayed(
        "seats-do-not-compute",
        "A third of the strangers say that each claim is within the thresholds, and compute nothing. Reviews find it.",
        skips=False,
        fault="auditor: refuted",
    ),
    Replayed("seats-lie", "A third of the strangers say of right states that they are outside.", skips=False),
    Replayed("seats-say-unavailable", "A third of the strangers say that states are not served.", skips=False),
    Replayed("seat-gone-after-committing", "Seats are gone after they committed to their own states.", skips=False),
    Replayed("seat-gone-after-revealing", "Seats are gone before anyone reviews their states.", skips=False),
    Replayed("3-of-4-seats-collude", "A validator aggregates wrongly, and three of four seats help it.", skips=False),
    Replayed("serves-all-but-one", "A validator serves every seat but one, which says so.", skips=False),
    Replayed("job-stops-in-a-step", "A job stops in a step, and all seats find that it stops there.", skips=False),
)


def is_reviewed(world: World) -> bool:
    """Return whether a lot drew a review of a panel."""
    return any(change.stage > 1 for change in changes_of(StageOpened, world.chain.events))


def has_skipped(shown: Callable[[World], bool]) -> Callable[[World], bool]:
    """Return whether a scenario showed its subject, and a lot left a round out."""
    return lambda world: shown(world) and any(True for _ in changes_of(PanelSkipped, world.chain.events))


def play_in_tiers(table: Mapping[str, Scenario]) -> Iterable[Scenario]:
    """Yield scenarios of the table in other tiers. The name of each begins with the name of its tier."""
    for tier, rows in ((SAMPLED.name, _SAMPLED), (REPLICATED.name, _REPLICATED), (TOLERANCE.name, _TOLERANCE)):
        for replayed in rows:
            yield _replay(table[replayed.name], tier, replayed)


def _replay(scenario: Scenario, tier: str, replayed: Replayed) -> Scenario:
    market, shown = scenario.market, replayed.shown or scenario.shown
    changes = {
        "tier": tier,
        "rounds": max(4, market.rounds),
        "params": {**market.params, **RARE},
        **replayed.changes,
    }
    return replace(
        scenario,
        name=f"{tier}-{replayed.name}",
        shows=replayed.shows,
        fault=replayed.fault or scenario.fault,
        market=replace(market, **changes),
        shown=has_skipped(shown) if replayed.skips else shown,
        tries=TRIES,
        seed=replayed.seed,
    )
