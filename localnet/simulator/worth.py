"""The wealth of parties: their coins, less the cost of the work that they did, and the results that they hold.

A consumer that gets no work keeps its coins, and has gained nothing by that. So the results that it holds count what
they cost: verified rounds what was paid for them, and rounds that it got otherwise the price of their work.
"""

from collections.abc import Iterable

from domain.amount import price_floor
from domain.proof.queries import OrderResponse
from domain.proof.records import Round
from localnet.simulator.actors.consumer import OrderActor
from localnet.simulator.setups import PRICE
from localnet.simulator.world import OUTSIDER, Setup, World
from pol.rules.replicas import replica_ids
from pol.rules.schedule import round_work

COST = PRICE // 10
"""Cost of training and replaying (uassay per PFLOP): so low that a market of small jobs pays everyone for its work."""
BOUGHT = frozenset(("provider", "validator", "auditor", "protocol"))
"""Payments for verified work."""


def play_wealth(setup: Setup, coalition: frozenset[str] = frozenset()) -> dict[str, int]:
    """Play a setup, and return what each party gained (uassay)."""
    world = World(setup)
    people = (*world.validators, *world.providers, *{o.message.consumer for o in setup.orders})
    before = {name: world.worth(name) for name in people}
    filler = world.worth(OUTSIDER) if setup.filler is not None else 0
    world.run()
    gains = {name: world.worth(name) - before[name] - _cost(world, name) for name in people}
    gains[OUTSIDER] = world.worth(OUTSIDER) - filler if setup.filler is not None else 0
    for order in world.orders:
        name = order.plan.message.consumer
        gains[name] += value_of(world, order, coalition if name in coalition else frozenset((name,)))
    return gains


def _cost(world: World, name: str) -> int:
    actors = (world.validators.get(name), world.providers.get(name), world.challengers.get(name))
    return price_floor(sum(actor.worked for actor in actors if actor is not None), COST)


def value_of(world: World, order: OrderActor, holders: frozenset[str]) -> int:
    """Return the value (uassay) of the right results of an order that its consumer and its friends hold."""
    if not order.order_id:
        return 0
    answer = world.order(order.order_id)
    roots = world.job(answer.order.id).result_roots()
    # A round in which the job stops leaves no state, and its work up to the stop is worth what it costs.
    right = {round: roots[round] if round < len(roots) else b"" for round in range(answer.order.terms.rounds)}
    verified = {closed.round: closed.next_root == right[closed.round] for closed in answer.rounds if closed.verified}
    paid = sum(p.amount for p in answer.payments if p.kind in BOUGHT and verified.get(p.round, any(verified.values())))
    # The result of a replica is worth nothing beside that of another one.
    replicas = [world.order(name) for name in replica_ids(answer.order)]
    if replicas and order.order_id != replicas[0].order.id:
        return paid
    had = {closed.round for each in replicas or (answer,) for closed in each.rounds if closed.verified}
    others = [round for round, root in right.items() if root and round not in had]
    held = [round for round in others if _is_held(world, answer, round, right[round], holders)]
    price = max((leg.price for leg in answer.legs), default=0)
    return paid + len(held) * price_floor(round_work(answer.order.terms), price)


def _is_held(world: World, answer: OrderResponse, round: int, root: bytes, holders: frozenset[str]) -> bool:
    """Return whether the result of a round that is not verified is in the hands of ``holders``."""
    if holders & world.aggregated.get((answer.order.id, round), set()):
        return True
    closed = [c for c in answer.rounds if c.round == round and c.next_root == root]
    return _is_taken(answer, closed)


def _is_taken(answer: OrderResponse, closed: Iterable[Round]) -> bool:
    legs = {leg.number: leg for leg in answer.legs}
    return any(legs[c.leg].is_taken(c.round) for c in closed)
