"""A scenario and its outcome."""

from collections.abc import Callable
from dataclasses import dataclass, field

from localnet.simulator.scenarios.markets import Market
from localnet.simulator.world import World

SIMULATOR = "simulator"
COMET = "comet"


@dataclass(frozen=True)
class Scenario:
    """A market in which someone behaves badly in one way, and the fault that the chain's records then show.

    ``shown`` tells whether what the scenario is about happened. A lot may prevent it: then the market is played with
    other seeds, at most ``tries`` times. ``seed`` is the first of them: one that shows it by the rules of today.
    """

    name: str
    shows: str
    fault: str
    market: Market
    shown: Callable[[World], bool] = lambda _: True
    tries: int = 1
    seed: int = 1
    refusals: bool = False  # a refused message is what is expected; ``fault`` names it


@dataclass(frozen=True)
class PartyChange:
    """The coins of a party: what it had, and by how much that changed, with the fees that it paid (uassay)."""

    name: str
    role: str
    is_honest: bool
    before: int
    change: int
    fees: int
    bought: int = 0  # verified work that a consumer paid for
    allowed: int = 0  # what the rules take although the fault may be another's

    @property
    def is_harmed(self) -> bool:
        """Return whether it is honest and lost more than fees, verified work, and what the rules allow."""
        return self.is_honest and self.change + self.fees + self.bought + self.allowed < 0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a scenario. The first fields are those of ``--output json``."""

    scenario: str
    engine: str
    expected_fault: str
    fault: str
    coins_conserved: bool
    closed_in_time: bool
    honest_unharmed: bool
    ok: bool
    findings: tuple[tuple[str, str, int], ...] = ()  # role and reason, name, how often
    parties: tuple[PartyChange, ...] = ()
    payments: tuple[tuple[str, str, int], ...] = ()  # kind, receiver, uassay
    pots: tuple[tuple[str, int], ...] = ()  # what went to fees, the community pool, and was burnt
    problem: str = ""
    closed: tuple[str, ...] = field(default=())  # why orders closed

    def summary(self) -> dict[str, object]:
        """Return the fields of ``--output json``."""
        return {name: getattr(self, name) for name in SUMMARY}


SUMMARY = (
    "scenario",
    "engine",
    "expected_fault",
    "fault",
    "coins_conserved",
    "closed_in_time",
    "honest_unharmed",
    "ok",
)
