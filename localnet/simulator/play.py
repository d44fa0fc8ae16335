"""Playing seeds: which of them break something, how fast that goes, and what the orders came to."""

from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

from chain.state_machine.invariant import InvariantBroken
from domain.market.reasons import CloseReason
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import World

HONEST_EVERY = 4


def kind_of(seed: int) -> Kind:
    """Return who is in the run of a seed: in every fourth all are honest."""
    return Kind.HONEST if seed % HONEST_EVERY == 0 else Kind.MIXED


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
    closed: Counter[str] = field(default_factory=Counter)
    lost: int = 0  # uassay of honest validators, if the fault could be another's


def play(seed: int, orders: int) -> Played:
    """Play a seed."""
    kind = kind_of(seed)
    world = World(make_setup(seed, kind, Shape(orders=orders)))
    played, began = Played(seed, kind), perf_counter()
    try:
        world.run()
    except (AssertionError, InvariantBroken) as broken:
        played.failure = f"{type(broken).__name__}: {broken}"
    played.wall = perf_counter() - began
    played.simulated, played.height = world.clock.seconds, world.chain.height
    played.crashes, played.lost = world.crashes, sum(world.watch.losses.values())
    for order in world.orders:
        reason = world.order(order.order_id).order.close_reason if order.order_id else 0
        played.closed[CloseReason(reason).name.lower() if reason else "none"] += 1
    return played
