"""A search for the strategy with which a coalition gains most: random strategies, and hill climbing on the gain.

The gain of a strategy is the mean over a few draws of the market, the same for all strategies. A strategy that clearly
loses in the first one plays no more of them. The best strategy then plays draws that the search never used, so its gain
there is not the luck of the choice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from time import monotonic

from chain.state_machine.invariant import InvariantBroken
from localnet.simulator.coalitions import COALITIONS, Coalition, Gain, make_market, scheme, summarise
from localnet.simulator.play import run
from localnet.simulator.setups import Shape
from localnet.simulator.shrink import cut, same_failure, shrink
from localnet.simulator.strategies import HONEST, Strategy, describe, make_random, mutate, simplify
from localnet.simulator.world import Setup, World
from localnet.simulator.worth import play_wealth

STAGES = (1, 3, 9)
"""Numbers of markets in which a strategy was played when it is decided whether it goes on."""
LOSS = 10
"""A strategy that loses more than this part of honest work's earnings in the first market does not go on."""
FRESH = 1_000
"""First draw of those that the search does not use."""
KEPT = 6
"""Number of best strategies from which the search goes on."""


@dataclass(frozen=True)
class Outcome:
    """The gain (uassay) of a coalition in one draw, and what honest work earns it; or what does not hold."""

    gain: int = 0
    honest: int = 0
    failure: str = ""


@dataclass(frozen=True)
class Failure:
    """A strategy of a coalition that broke something in a draw."""

    coalition: str
    strategy: Strategy
    draw: int
    what: str


_HONEST: dict[tuple[Shape, int], Mapping[str, int]] = {}
"""The wealth that honest work gives each party, by market. Each process fills its own table."""


def honest_wealth(shape: Shape, draw: int) -> Mapping[str, int]:
    """Return what everyone earns in a draw of a market in which all are honest."""
    if (shape, draw) not in _HONEST:
        _HONEST[shape, draw] = play_wealth(make_market(draw, shape))
    return _HONEST[shape, draw]


def try_strategy(name: str, strategy: Strategy, draws: range, shape: Shape | None = None) -> list[Outcome]:
    """Return the outcomes of a coalition's strategy in some draws."""
    coalition = COALITIONS[name]
    return [_try(coalition, strategy, draw, shape or coalition.shape) for draw in draws]


def _try(coalition: Coalition, strategy: Strategy, draw: int, shape: Shape) -> Outcome:
    before = honest_wealth(shape, draw)
    own = sum(before[member] for member in coalition.members)
    members = frozenset(coalition.members)
    try:
        after = play_wealth(scheme(make_market(draw, shape), coalition, strategy), members)
    except (AssertionError, InvariantBroken) as broken:
        return Outcome(honest=own, failure=f"{type(broken).__name__}: {broken}")
    return Outcome(sum(after[member] for member in coalition.members) - own, own)


def attack_in_turn(draw: int) -> list[tuple[str, Strategy, Outcome]]:
    """Return the outcomes of one known attack of each coalition in a draw; which one it is depends on the draw."""
    # All coalitions but the largest share one honest market.
    attacks = [(name, known.known[draw % len(known.known)]) for name, known in COALITIONS.items()]
    return [(name, strategy, try_strategy(name, strategy, range(draw, draw + 1))[0]) for name, strategy in attacks]


@dataclass
class Climb:
    """The search for one coalition: the strategies that are tried, and the best so far."""

    name: str
    random: Random
    best: list[tuple[float, Strategy]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    waiting: list[Strategy] = field(default_factory=list)
    tried: int = 0

    def __post_init__(self) -> None:
        self.waiting += [*COALITIONS[self.name].known]

    def propose(self) -> Strategy:
        """Return a strategy that was not tried yet."""
        decisions = COALITIONS[self.name].decisions
        while True:
            if self.waiting:
                strategy = self.waiting.pop()
            elif self.random.randrange(5) == 0:
                strategy = make_random(self.random, decisions)
            else:
                # The better a strategy is, the more often the search goes on from it.
                parents = [*(known for _, known in self.best), HONEST]
                rank = min(self.random.randrange(len(parents)), self.random.randrange(len(parents)))
                strategy = mutate(parents[rank], self.random, decisions)
            if describe(strategy) not in self.seen and strategy:
                self.seen.add(describe(strategy))
                return strategy

    def goes_on(self, outcomes: Sequence[Outcome]) -> bool:
        """Return whether a strategy with these outcomes may be among the best."""
        gain = fmean(outcome.gain for outcome in outcomes)
        if len(outcomes) == STAGES[0]:
            return gain * LOSS >= -fmean(outcome.honest for outcome in outcomes)
        return len(self.best) < KEPT or gain > self.best[-1][0]

    def take(self, strategy: Strategy, gain: float) -> None:
        """Record the gain of a strategy."""
        self.best.append((gain, strategy))
        self.best.sort(key=lambda known: (-known[0], describe(known[1])))
        del self.best[KEPT:]


@dataclass(frozen=True)
class Found:
    """The best strategy of a coalition that a search found, and its gain in draws that the search did not use."""

    gain: Gain
    strategy: Strategy
    tried: int
    searched: float  # mean gain in the draws of the search


Stop = Callable[[int], bool]
"""A function that is told how many strategies were tried, and returns whether the search ends."""


def for_seconds(seconds: float) -> Stop:
    """Return a function that ends a search some time after its first call."""
    ends: float | None = None

    def is_over(_: int) -> bool:
        nonlocal ends
        if ends is None:
            ends = monotonic() + seconds
        return monotonic() >= ends

    return is_over


def search(
    pool: Executor, jobs: int, stop: Stop, confirm: int, names: tuple[str, ...] = tuple(COALITIONS), seed: int = 0
) -> Iterator[Found | Failure]:
    """Search for all coalitions in turn until ``stop``; yield what broke something, and then the best of each.

    ``confirm`` is the number of fresh draws in which the best strategy of each coalition is played.
    """
    climbs = [Climb(name, Random(f"search {seed} {name}")) for name in names]
    running: dict[Future[list[Outcome]], tuple[Climb, Strategy, list[Outcome]]] = {}
    begun = 0

    def begin(climb: Climb, strategy: Strategy, before: list[Outcome]) -> None:
        played = len(before)
        draws = range(played + 1, next(stage for stage in STAGES if stage > played) + 1)
        running[pool.submit(try_strategy, climb.name, strategy, draws)] = climb, strategy, before

    while running or not stop(begun):
        while len(running) < jobs and not stop(begun):
            climb = climbs[begun % len(climbs)]
            begin(climb, climb.propose(), [])
            begun += 1
        done, _ = wait(running, return_when=FIRST_COMPLETED) if running else (set(), None)
        for future in done:
            climb, strategy, before = running.pop(future)
            outcomes = [*before, *future.result()]
            broken = [(draw, o.failure) for draw, o in enumerate(outcomes, 1) if o.failure]
            for draw, what in broken:
                yield Failure(coalition=climb.name, strategy=strategy, draw=draw, what=what)
            if not broken and climb.goes_on(outcomes):
                if len(outcomes) < STAGES[-1]:
                    begin(climb, strategy, outcomes)
                    continue
                climb.take(strategy, fmean(outcome.gain for outcome in outcomes))
            climb.tried += 1
    yield from _confirm(pool, climbs, confirm)


def _confirm(pool: Executor, climbs: list[Climb], draws: int) -> Iterator[Found | Failure]:
    """Play the best strategy of each coalition in draws that the search did not use."""
    rows = [(climb, *(climb.best[0] if climb.best else (0.0, dict(HONEST)))) for climb in climbs]
    played = [
        [pool.submit(try_strategy, climb.name, strategy, range(draw, draw + 1)) for draw in _fresh(draws)]
        for climb, _, strategy in rows
    ]
    for (climb, searched, strategy), futures in zip(rows, played, strict=True):
        outcomes = [future.result()[0] for future in futures]
        for draw, outcome in zip(_fresh(draws), outcomes, strict=True):
            if outcome.failure:
                yield Failure(coalition=climb.name, strategy=strategy, draw=draw, what=outcome.failure)
        pairs = [(outcome.gain, outcome.honest) for outcome in outcomes if not outcome.failure]
        if pairs:
            yield Found(gain=summarise(climb.name, pairs), strategy=strategy, tried=climb.tried, searched=searched)


def _fresh(draws: int) -> range:
    return range(FRESH, FRESH + draws)


def shrink_scheme(failure: Failure) -> tuple[Strategy, tuple[int, ...], str]:
    """Return the simplest strategy and the fewest orders that were found with which a coalition breaks the same."""
    coalition = COALITIONS[failure.coalition]
    market = make_market(failure.draw, coalition.shape)
    strategy, what = failure.strategy, failure.what

    def fails(setup: Setup) -> str:
        found = run(World(setup))
        return found if same_failure(found, what) else ""

    simpler = True
    while simpler:
        simpler = False
        for candidate in simplify(strategy):
            if fails(scheme(market, coalition, candidate)):
                strategy, simpler = candidate, True
                break
    setup = scheme(market, coalition, strategy)
    cuts, what = shrink(setup, what, lambda cuts: run(World(cut(setup, cuts))))
    return strategy, cuts.orders or (), what
