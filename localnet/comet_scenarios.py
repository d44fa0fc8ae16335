"""Scenarios on a network of real processes: a provider cheats, or a process is killed."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import run
from sys import executable
from tempfile import TemporaryDirectory
from threading import Event as Stop
from types import MappingProxyType

from chain.client.client import ChainClient
from chain.client.sender import TxSender
from consumer.errors import StillWaiting
from consumer.jobs import read_job
from consumer.request import Request
from consumer.submit import LIMIT_FACTOR, quote, submit
from consumer.watch import Delivery, wait_for
from domain.ledger.moves import COMMUNITY_POT
from domain.ledger.queries import AccountRequest
from domain.legs.records import LegState
from domain.market.events import OrderSubmitted
from domain.market.reasons import CloseReason
from domain.market.records import Conditions, OrderState
from domain.node.queries import EventsRequest, LoggedEvent
from domain.params import local_params
from domain.proof.queries import OrderResponse
from domain.registry.queries import ValidatorsRequest
from domain.vocabulary import changes_of
from localnet.create import KEY, create, test_keyring
from localnet.demo import EXAMPLES
from localnet.layout import Layout, NetworkError
from localnet.market import open_market
from localnet.network import Network
from localnet.simulator.scenarios.findings import EITHER_PROVIDER, NO_ONE, choose_fault, read_findings
from localnet.simulator.scenarios.scenario import COMET, Outcome, PartyChange
from pol.rules.tiers.table import DEFAULT_TIERS

CHEAT, WINNER = "prov0", "val0"
CLUSTERS = (2, 2, 0, 0)
"""Number of providers per validator: the second cluster serves the order if the first one fails."""
PATIENCE = 600.0
"""Seconds without any change of the order after which a scenario is given up."""
DEADLINE, MATCH_SECONDS = 3_600, 600


@dataclass(frozen=True)
class CometScenario:
    """A scenario with real processes: the way in which a provider cheats, or the process that is killed.

    ``kill`` is killed as soon as the order is in the state ``at``. ``dishonest`` are the parties that behave badly.
    """

    name: str
    shows: str
    fault: str
    misbehave: str = ""
    kill: str = ""
    at: LegState = LegState.RUNNING
    dishonest: frozenset[str] = frozenset()


def _cheat(name: str, shows: str, fault: str, misbehave: str) -> CometScenario:
    return CometScenario(name=name, shows=shows, fault=fault, misbehave=misbehave, dishonest=frozenset({CHEAT}))


_SCENARIOS = (
    _cheat(
        "wrong-update",
        "A provider trains rightly, and hands in an update that does not follow from it.",
        "provider: update_mismatch",
        "wrong_update",
    ),
    _cheat(
        "skipped-work",
        "A provider trains the first and the last segment, and invents the states in between.",
        "provider: segment_mismatch",
        "skip_training",
    ),
    _cheat(
        "made-up-stop",
        "A provider says that the job stops, to be done earlier.",
        "provider: not_stopped",
        "false_stop",
    ),
    _cheat(
        "garbage-update",
        "A provider sends bytes that are not the update of its commitment.",
        f"{EITHER_PROVIDER}: no_answer",
        "garbage",
    ),
    _cheat(
        "stolen-work",
        "A provider commits to what it did not train.",
        f"{EITHER_PROVIDER}: no_answer",
        "copy_trace",
    ),
    _cheat("never-answers", "A provider hands in nothing.", NO_ONE, "never_answer"),
    CometScenario(
        "gone-after-accepting",
        "A validator accepts an order, and its process is killed. Another one serves the order.",
        "validator: no_progress",
        kill=f"{WINNER}.validator",
        dishonest=frozenset({WINNER}),
    ),
    CometScenario("everyone-is-honest", "Everyone is honest.", NO_ONE),
)
COMET_SCENARIOS: Mapping[str, CometScenario] = MappingProxyType({each.name: each for each in _SCENARIOS})
"""All scenarios with real processes, by name."""


def play_on_comet(scenario: CometScenario, note: Callable[[str], None]) -> Outcome:
    """Play a scenario on a network of real processes in a temporary directory, and return its outcome."""
    with TemporaryDirectory(prefix="assay-scenario-") as folder:
        directory = Path(folder)
        note(f"{scenario.name}: building the job")
        _build(directory / "job")
        with _network(directory / "network", scenario) as network:
            note(f"{scenario.name}: starting {len(network.names())} processes")
            network.start()
            open_market(network)
            return _order(network, directory, scenario, note)


def _build(directory: Path) -> None:
    command = [executable, "-m", "assay.cli", "job", "build", str(EXAMPLES / "tiny.py"), "-o", str(directory)]
    built = run(command, capture_output=True, check=False)
    if built.returncode:
        raise NetworkError("the job could not be built", built.stderr.decode(errors="replace").strip()[-500:])


@contextmanager
def _network(directory: Path, scenario: CometScenario) -> Iterator[Network]:
    # Each segment is drawn, so no scenario depends on luck; a newcomer gets one slot, so the cheat gets one.
    params = local_params().replace(audit_bps=4_500, duty_segments=64, newcomer_slots=1)
    misbehave = {CHEAT: scenario.misbehave} if scenario.misbehave else {}
    network = Network(create(directory, providers=CLUSTERS, misbehave=misbehave, params=params))
    try:
        yield network
    finally:
        network.stop()


def _order(network: Network, directory: Path, scenario: CometScenario, note: Callable[[str], None]) -> Outcome:
    layout = network.layout
    home = Path(layout.consumer_home)
    key = test_keyring(home).unlock(KEY)
    with network.client(layout.validator("val3")) as client:
        job = read_job(directory / "job")
        request = Request(
            conditions=Conditions(tiers=DEFAULT_TIERS), price_limit=0, time_to_live=MATCH_SECONDS, deadline=DEADLINE
        )
        offer = quote(client, job, request)
        if not offer.price:
            raise NetworkError(*offer.explain())
        before = read_bonds(client, layout)
        limited = Request(
            conditions=Conditions(tiers=DEFAULT_TIERS),
            price_limit=LIMIT_FACTOR * offer.price,
            time_to_live=MATCH_SECONDS,
            deadline=DEADLINE,
        )
        submitted = submit(client, TxSender(client, key), key, job, limited)
        delivery = Delivery(
            client=client,
            key=key,
            order_id=submitted.order_id,
            directory=directory / "job",
            job=job,
            states=directory / "states",
        )
        note(f"{scenario.name}: the order is submitted")
        on_chain = _follow(network, client, delivery, scenario)
        return _outcome(scenario, layout, on_chain, before, read_bonds(client, layout), _events(client))


def _follow(network: Network, client: ChainClient, delivery: Delivery, scenario: CometScenario) -> OrderResponse:
    """Wait until the order is closed, and kill the scenario's process on the way."""
    killed = False
    last: OrderResponse | None = None

    def look(on_chain: OrderResponse) -> None:
        nonlocal killed, last
        last = on_chain
        network.check_alive()
        if scenario.kill and not killed and on_chain.current and on_chain.current.state is scenario.at:
            network.kill(scenario.kill)
            killed = True

    while True:
        before = last
        try:
            return wait_for(client, delivery.order_id, OrderState.CLOSED, delivery, Stop(), PATIENCE, look)
        except StillWaiting:
            if last == before:
                raise


def read_bonds(client: ChainClient, layout: Layout) -> dict[str, int]:
    """Return the bond account of each provider and validator, and a validator's stake with it, by name."""
    stakes = {found.operator: found.stake for found in client.query(ValidatorsRequest()).validators}
    addresses = {spec.name: spec.address for spec in layout.providers}
    addresses |= {spec.moniker: spec.operator for spec in layout.validators}
    bonds = {}
    for name, address in addresses.items():
        bond = client.query(AccountRequest(address)).bond
        bonds[name] = bond.free + sum(left.amount for left in bond.withdrawals) + stakes.get(address, 0)
    return bonds


def _events(client: ChainClient) -> list[LoggedEvent]:
    events: list[LoggedEvent] = []
    while True:
        page = client.query(EventsRequest(len(events) + 1, 1_000)).events
        if not page:
            return events
        events += page


def _outcome(
    scenario: CometScenario,
    layout: Layout,
    on_chain: OrderResponse,
    before: Mapping[str, int],
    after: Mapping[str, int],
    events: list[LoggedEvent],
) -> Outcome:
    """Return the outcome: the fault as events tell it, the deposit's coins, and the bonds of the honest."""
    names = {spec.address: spec.name for spec in layout.providers}
    names |= {spec.operator: spec.moniker for spec in layout.validators} | {layout.consumer: "consumer"}
    names[COMMUNITY_POT.address] = "community pool"
    findings = read_findings(events)
    parties = tuple(
        PartyChange(
            name=name,
            role="provider" if name.startswith("prov") else "validator",
            is_honest=name not in scenario.dishonest,
            before=before[name],
            change=after[name] - before[name],
            fees=0,
        )
        for name in before
    )
    honest = [address for address, name in names.items() if name not in scenario.dishonest]
    fault = choose_fault(scenario.fault, findings, honest)
    payments: Counter[tuple[str, str]] = Counter()
    for payment in on_chain.payments:
        payments[payment.kind, names.get(payment.to, payment.to)] += payment.amount
    locked = sum(change.deposit for change in changes_of(OrderSubmitted, events))
    conserved = locked == sum(row.paid + row.refunded for row in on_chain.escrow.depositors)
    closed = CloseReason(on_chain.order.close_reason)
    unharmed = closed is CloseReason.SETTLED and not any(party.is_harmed for party in parties)
    shown = fault == scenario.fault
    return Outcome(
        scenario=scenario.name,
        engine=COMET,
        expected_fault=scenario.fault,
        fault=fault,
        coins_conserved=conserved,
        closed_in_time=on_chain.order.state is OrderState.CLOSED,
        honest_unharmed=unharmed,
        ok=shown and conserved and unharmed,
        findings=tuple((str(f), names.get(f.name, f.name), count) for f, count in sorted(findings.items())),
        parties=parties,
        payments=tuple((kind, to, amount) for (kind, to), amount in sorted(payments.items())),
        problem="" if shown else "the scenario did not show what it is about",
        closed=(closed.name.lower(),),
    )
