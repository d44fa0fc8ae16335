"""Playing seeds: which of them break something, how fast that goes, and what the orders came to."""

from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

from chain.state_machine.invariant import InvariantBroken
from domain.market.reasons import CloseReason
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.shrink import NOTHING, Cuts, cut, shrink
from localnet.simulator.world import Setup, World

KINDS = (Kind.HONEST, Kind.MIXED, Kind.ROUGH, Kind.MIXED)


def kind_of(seed: int) -> Kind:
    """Return the kind of the run of a seed: in every fourth all are honest, and in every fourth much else fails."""
    return KINDS[seed % len(KINDS)]


@dataclass
class Played:
    """One run. ``failure`` is what does not hold, empty where all does; times in seconds."""

    seed: int
    kind: Kind
    failure: str = ""
    height: int = 0
    simulated: float = 0.0
    wall: float = 0.0
    crashes: int = 0
    challenges: int = 0
    closed: Counter[str] = field(default_factory=Counter)
    lost: int = 0  # uassay of honest validators, if the fault could be another's


def setup_of(seed: int, orders: int) -> Setup:
    """Return the setup of a seed."""
    return make_setup(seed, kind_of(seed), Shape(orders=orders))


def play(seed: int, orders: int, cuts: Cuts = NOTHING) -> Played:
    """Play a seed."""
    world = World(cut(setup_of(seed, orders), cuts))
    played, began = Played(seed, kind_of(seed)), perf_counter()
    played.failure = run(world)
    played.wall = perf_counter() - began
    played.simulated, played.height = world.clock.seconds, world.chain.height
    played.crashes, played.lost = world.crashes, sum(world.watch.losses.values())
    played.challenges = sum(len(challenger.disputes) for challenger in world.challengers.values())
    for order in world.orders:
        reason = world.order(order.order_id).order.close_reason if order.order_id else 0
        played.closed[CloseReason(reason).name.lower() if reason else "none"] += 1
    return played


def run(world: World) -> str:
    """Play a world to its end, and return what does not hold; empty if all does."""
    try:
        world.run()
    except (AssertionError, InvariantBroken) as broken:
        return f"{type(broken).__name__}: {broken}"
    return ""


def shrink_market(seed: int, orders: int, failure: str) -> tuple[Cuts, str]:
    """Return the smallest cuts of a seed's run that were found with which it fails so, and its failure then."""
    setup = setup_of(seed, orders)
    return shrink(setup, failure, lambda cuts: run(World(cut(setup, cuts))))
