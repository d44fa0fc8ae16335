"""Playing a scenario in the simulator, and reading its outcome from the chain."""

from collections import Counter
from collections.abc import Callable, Mapping

from chain.state_machine.invariant import InvariantBroken
from chain.state_machine.invariants import check_all
from chain.state_machine.ledger.tables import POTS
from domain.distribution.moves import REWARDS_POT
from domain.ledger.moves import BURNT_POT, COMMUNITY_POT, FEES_POT
from domain.legs.events import OrderDeclined
from domain.legs.params import LegsParams
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.proof.events import DeliveryWitnessed, ReceiptAsked, ResultRuled, SeatPaid
from domain.proof.records import Ruling
from domain.vocabulary import POTS as ALL_POTS
from domain.vocabulary import changes_of
from localnet.simulator.scenarios.findings import ChainFinding, choose_fault, read_findings
from localnet.simulator.scenarios.markets import make_world
from localnet.simulator.scenarios.scenario import SIMULATOR, Outcome, PartyChange, Scenario
from localnet.simulator.watch import BLAMES
from localnet.simulator.world import OUTSIDER, World
from localnet.simulator.worth import BOUGHT as PAID_FOR

BOUGHT = (*PAID_FOR, "withheld_compensation", "withheld_burn")
"""Payments for verified work; the last two are a part that its validator lost."""
NOT_SHOWN = "the scenario did not show what it is about"
SINKS = (FEES_POT.name, REWARDS_POT.name, COMMUNITY_POT.name, BURNT_POT.name)


def play_scenario(scenario: Scenario, note: Callable[[str], None] = lambda _: None) -> Outcome:
    """Play a scenario until it shows what it is about, and return its outcome; ``note`` gets a line for each retry."""
    outcome, last = None, scenario.seed + scenario.tries - 1
    for seed in range(scenario.seed, scenario.seed + scenario.tries):
        if outcome is not None:
            note(f"{scenario.name}: the lots fell otherwise; playing seed {seed}, the last is {last}")
        outcome, shown = _play(scenario, seed)
        if shown or outcome.problem != NOT_SHOWN:
            break
    assert outcome is not None
    return outcome


def _play(scenario: Scenario, seed: int) -> tuple[Outcome, bool]:
    world = make_world(scenario.market, seed)
    roles = _roles(world)
    before = {name: world.worth(name) for name in roles}
    fees = Counter(world.chain.fees)
    pots = _pots(world)
    problem = ""
    try:
        world.run()
        check_all(world.chain.store)
        world.chain.check_books()
    except (AssertionError, InvariantBroken) as broken:
        problem = f"{type(broken).__name__}: {broken}"
    parties = _changes(world, roles, before, fees)
    findings = read_findings(world.chain.events)
    if scenario.refusals:
        findings.update(_refusals(world))
    honest = [party.name for party in parties if party.is_honest]
    fault = choose_fault(scenario.fault, findings, honest)
    after = _pots(world)
    gained = {name: after[name] - pots[name] for name in SINKS}
    conserved = not problem and sum(party.change for party in parties) + sum(gained.values()) == 0
    orders = [world.order(order.order_id).order for order in world.orders if order.order_id]
    in_time = bool(orders) and all(order.state is OrderState.CLOSED for order in orders) and "Unending" not in problem
    unharmed = not problem and not any(party.is_harmed for party in parties)
    shown = fault == scenario.fault and scenario.shown(world)
    outcome = Outcome(
        scenario=scenario.name,
        engine=SIMULATOR,
        expected_fault=scenario.fault,
        fault=fault,
        coins_conserved=conserved,
        closed_in_time=in_time,
        honest_unharmed=unharmed,
        ok=shown and conserved and in_time and unharmed,
        findings=tuple((str(found), found.name, count) for found, count in sorted(findings.items())),
        parties=parties,
        payments=_payments(world),
        pots=tuple(gained.items()),
        problem=problem or ("" if shown else NOT_SHOWN),
        closed=tuple(CloseReason(order.close_reason).name.lower() for order in orders if order.close_reason),
    )
    return outcome, shown or bool(problem)


def _roles(world: World) -> dict[str, str]:
    roles = dict.fromkeys(world.validators, "validator") | dict.fromkeys(world.providers, "provider")
    roles |= {order.plan.message.consumer: "consumer" for order in world.orders}
    known = {account.address for account in world.chain.genesis.accounts}
    return roles | dict.fromkeys(sorted(known - roles.keys()), "outsider")


def _is_honest(world: World, name: str) -> bool:
    if name in world.validators:
        return world.validators[name].behaviour.honest
    if name in world.providers:
        return world.providers[name].behaviour.honest
    if name == OUTSIDER:
        return False
    return all(order.plan.honest for order in world.orders if order.plan.message.consumer == name)


def _changes(
    world: World, roles: Mapping[str, str], before: Mapping[str, int], fees: Mapping[str, int]
) -> tuple[PartyChange, ...]:
    bought, allowed = Counter[str](), Counter[str]()
    for order in world.orders:
        for payment in world.order(order.order_id).payments if order.order_id else ():
            if payment.kind in BOUGHT:
                bought[order.plan.message.consumer] += payment.amount
    fee = world.setup.params.of(LegsParams).payload_fee
    for declined in changes_of(OrderDeclined, world.chain.events):
        if declined.reason in BLAMES:
            allowed[declined.validator] += fee
            allowed[world.order(declined.order).order.consumer] += fee
    # If a result can be fetched, no one can tell whether its validator served it, and the consumer pays the seats.
    for ruled in changes_of(ResultRuled, world.chain.events):
        if ruled.ruling == Ruling.RIGHT:
            seats = (paid for paid in changes_of(SeatPaid, world.chain.events) if paid.panel == ruled.panel)
            allowed[ruled.asker] += sum(paid.paid for paid in seats)
    askers = {change.share: change.provider for change in changes_of(ReceiptAsked, world.chain.events)}
    for witnessed in changes_of(DeliveryWitnessed, world.chain.events):
        # The provider pays the witnesses of its delivery. Its validator may have been away, and the share is not paid.
        allowed[askers[witnessed.share]] += witnessed.paid
    return tuple(
        PartyChange(
            name=name,
            role=role,
            is_honest=_is_honest(world, name),
            before=before[name],
            change=world.worth(name) - before[name],
            fees=world.chain.fees.get(name, 0) - fees.get(name, 0),
            bought=bought[name],
            allowed=allowed[name],
        )
        for name, role in roles.items()
    )


def _pots(world: World) -> dict[str, int]:
    store = world.chain.overlay()
    return {name: POTS.get(store, name) for name in ALL_POTS}


def _payments(world: World) -> tuple[tuple[str, str, int], ...]:
    sums: Counter[tuple[str, str]] = Counter()
    for order in world.orders:
        for payment in world.order(order.order_id).payments if order.order_id else ():
            to = "community pool" if payment.to == COMMUNITY_POT.address else payment.to
            sums[payment.kind, to] += payment.amount
    return tuple((kind, to, amount) for (kind, to), amount in sorted(sums.items()))


def _refusals(world: World) -> Counter[ChainFinding]:
    """Return refused complaints, which cost their consumer no more than the fee."""
    count = sum(refusal.startswith("MsgComplain") for refusal in world.refused)
    consumer = world.orders[0].plan.message.consumer
    return Counter({ChainFinding("consumer", "refused_complaint", consumer): count} if count else {})
