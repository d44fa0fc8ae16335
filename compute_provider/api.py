"""The functions behind the provider's commands: run, dry run, bench, status and leave."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from chain.client.away import WatchedNode, closed_at
from chain.client.client import ChainClient
from chain.client.clock import ClockCheck
from chain.client.sender import TxSender
from compute_provider.daemon import Daemon
from compute_provider.interfaces import Behaviour, Honest, ProviderConfig, ProviderError
from compute_provider.links import find_validator
from compute_provider.store import read_status, runs_as
from compute_provider.work.bench import Speed, measure_bandwidth, measure_speed
from compute_provider.work.elsewhere import ClusterMachines
from domain.amount import PFLOP
from domain.attest.queries import CredentialsRequest
from domain.keys import PanelKey
from domain.ledger.queries import AccountResponse
from domain.market.queries import BidsRequest
from domain.node.queries import StatusResponse
from domain.params import Params
from domain.proof.queries import OrderResponse, SeatsRequest
from domain.proof.records import PanelSeat
from domain.registry.messages import MsgLeaveCluster
from domain.registry.queries import ProviderRequest, ValidatorsRequest
from domain.registry.records import Provider, Validator
from link.client import ClusterClient, connect
from link.errors import ClusterError, ClusterErrorKind
from pol.executor.names import DEFAULT_ENGINE, Engine
from pol.machines.form import Shape, number_of
from pol.work.cluster.dispatch import NodeReport
from pol.work.executor import LOCAL

__all__ = [
    "Forecast",
    "NodeChain",
    "ProviderConfig",
    "ProviderError",
    "bench",
    "bench_cluster",
    "dry_run",
    "leave",
    "node_of",
    "run_provider",
    "runs_as",
    "status",
]
_log = logging.getLogger("assay.provider")
_PAGE = 100


class NodeChain:
    """A :class:`compute_provider.interfaces.ChainReader` that queries a node."""

    def __init__(self, client: ChainClient) -> None:
        """Use ``client`` for all queries to the node."""
        self._client = client

    def status(self) -> StatusResponse:
        """Return the chain's height, clock and id."""
        return self._client.status()

    def order(self, order_id: bytes) -> OrderResponse:
        """Return an order with its legs, rounds, shares, escrow and payments."""
        return self._client.order(order_id)

    def seats(self, panel: PanelKey) -> tuple[PanelSeat, ...]:
        """Return the seats of a panel in all its stages."""
        return self._client.query(SeatsRequest(*panel)).seats

    def params(self) -> Params:
        """Return the chain's parameters."""
        return self._client.params()

    def account(self, address: str) -> AccountResponse:
        """Return the balance and the bond of an address."""
        return self._client.account(address)

    def has_credential(self, owner: str) -> bool:
        """Return whether an account has a credential in force."""
        return bool(self._client.query(CredentialsRequest(owner)).in_force)

    def count_validators(self) -> int:
        """Return the number of validators."""
        return len(self._client.query(ValidatorsRequest()).validators)

    def validator(self, operator: str) -> Validator | None:
        """Return the validator with this operator address; None if there is none."""
        validators = self._client.query(ValidatorsRequest()).validators
        return next((each for each in validators if each.operator == operator), None)

    def operator(self, name: str) -> str:
        """Return the operator address of the validator with this address or moniker.

        ProviderError if there is no such validator, or if several validators have this moniker.
        """
        validators = self._client.query(ValidatorsRequest()).validators
        operators = [each.operator for each in validators if name in (each.operator, each.moniker)]
        # A validator may have chosen the address of another one as its moniker.
        if name in operators:
            return name
        if len(operators) != 1:
            why = "several validators are" if operators else "no validator is"
            raise ProviderError(f"{why} called {name}", "use the validator's address; assay status lists them")
        return operators[0]

    def provider(self, address: str) -> Provider | None:
        """Return the chain's record of a provider, in whichever cluster it is; None if it never applied to a
        cluster.
        """
        return self._client.query(ProviderRequest(address)).provider


@dataclass(frozen=True, slots=True)
class Forecast:
    """An estimate of what a provider could earn with a validator if it always had work."""

    moniker: str
    validator: str  # operator address of the validator
    speed: Speed
    # Bytes/s; None if the validator does not answer.
    bandwidth: int | None
    # Price of the validator's lowest standing bid (uassay); None if it has no bid.
    price_per_pflop: int | None
    providers_bps: int
    income_per_day: int  # uassay

    @property
    def note(self) -> str:
        """The assumptions behind ``income_per_day``."""
        return "an upper bound: with work all day, at the validator's lowest bid, before gas"


def run_provider(
    config: ProviderConfig,
    stop: Event | None = None,
    on_joined: Callable[[], None] | None = None,
    on_waiting: Callable[[str], None] = _log.warning,
    behave: Callable[[str], Behaviour] = lambda chain_id: Honest(),
) -> None:
    """Join the validator's cluster and work until ``stop`` is set. Call this function on the main thread.

    If the node does not answer yet, wait for it. ``on_waiting`` is called with the reason why the provider cannot join.
    ``on_joined`` is called once the provider has joined. ``behave`` takes a chain's id and returns the provider's
    behaviour on that chain. ProviderError if there is no such validator.
    """
    stop = stop or Event()
    with ChainClient(config.node) as client, closed_at(stop, client):
        chain = NodeChain(client)

        def ask() -> tuple[str, str]:
            return chain.status().chain_id, chain.operator(config.validator)

        node = WatchedNode(config.node, stop, on_waiting)
        answer = node.wait_for(ask)
        if answer is None:
            return
        chain_id, operator = answer
        # The clock is checked before anything is signed: with a wrong clock every request is refused.
        ClockCheck().wait_until_right(lambda: node.ask(chain.status), stop, on_waiting)
        if stop.is_set():
            return
        resolved = replace(config, validator=operator)
        sender = TxSender(client, config.key)
        Daemon(resolved, chain_id, chain, sender, behave(chain_id), stop).run(on_joined, on_waiting)


def bench(engine: Engine = DEFAULT_ENGINE, seconds: float = 2.0) -> Speed:
    """Measure this machine's speed and memory."""
    return measure_speed(engine, seconds)


def bench_cluster(
    executor: str, engine: Engine, seconds: float, machines: Shape = 1
) -> tuple[Speed, int, tuple[NodeReport, ...]]:
    """Measure a cluster: the speed of each process while all measure, how many shares it trains at once, its nodes.

    If ``machines`` is not 1, so many nodes train a share together, and the speed is that of such a group. Then
    ``executor`` may also name this machine. Raises ClusterUnusable if this machine cannot use the cluster, and
    ProviderError if no node of it computes.
    """
    with TemporaryDirectory(prefix="assay-bench-") as folder:
        found = ClusterMachines(executor, engine, lambda *_: None, Path(folder), machines=machines)
        try:
            return found.measure(seconds), found.slots, found.nodes
        finally:
            found.close()


def dry_run(config: ProviderConfig) -> Forecast:
    """Measure this machine and its connection to the validator, and return an estimate of the income.

    The provider does not join.
    """
    if config.executor == LOCAL and number_of(config.machines) == 1:
        speed = measure_speed(config.engine)
    else:
        each, slots, _ = bench_cluster(config.executor, config.engine, 2.0, config.machines)
        speed = replace(each, flops=each.flops * slots, slowest=each.slowest * slots, quickest=each.quickest * slots)
    with ChainClient(config.node) as client:
        chain = NodeChain(client)
        operator = chain.operator(config.validator)
        validator = find_validator(chain, operator)
        with connect(validator, config.key, chain.status().chain_id) as link:
            bandwidth = _bandwidth(link)
        bids = client.query(BidsRequest(operator, _PAGE, b"")).bids
    best = min(bids, key=lambda bid: bid.offer.price, default=None)
    income = 0
    if best is not None:
        per_day = speed.flops * 86_400 * best.offer.price // PFLOP
        income = per_day * best.offer.providers_bps // 10_000
    return Forecast(
        moniker=validator.moniker,
        validator=operator,
        speed=speed,
        bandwidth=bandwidth,
        price_per_pflop=best.offer.price if best else None,
        providers_bps=best.offer.providers_bps if best else 0,
        income_per_day=income,
    )


def _bandwidth(link: ClusterClient) -> int | None:
    try:
        return measure_bandwidth(link)
    except ClusterError as error:
        # The validator answered that this machine's clock or chain is wrong. Joining would fail in the same way.
        if error.kind is ClusterErrorKind.STALE:
            raise
        return None


def leave(config: ProviderConfig) -> None:
    """Send the transaction with which the provider leaves its cluster."""
    with ChainClient(config.node) as client:
        TxSender(client, config.key).send(MsgLeaveCluster(config.key.address))


def node_of(home: Path) -> str:
    """Return the node (host:port) that the daemon in ``home`` last used; empty if its status file does not have it."""
    try:
        written = read_status(home)
    except ProviderError:
        return ""
    return (written or {}).get("node") or ""


def status(home: Path) -> dict[str, Any] | None:
    """Return the last status that the daemon in ``home`` wrote; None if no daemon ever ran there.

    ``pid`` in the status is the id of the daemon's process, or 0 if no daemon runs there now. ProviderError if the
    status file is damaged.
    """
    written = read_status(home)
    return None if written is None else {**written, "pid": runs_as(home)}
