"""What the commands of a provider call: run, try out, measure, look, leave."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
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
from domain.amount import PFLOP
from domain.ledger.queries import AccountResponse
from domain.market.queries import BidsRequest
from domain.node.queries import StatusResponse
from domain.proof.queries import OrderResponse
from domain.registry.messages import MsgLeaveCluster
from domain.registry.queries import ProviderRequest, ValidatorsRequest
from domain.registry.records import Provider, Validator
from link.client import ClusterClient, connect
from link.errors import ClusterError, ClusterErrorKind
from pol.executor.names import DEFAULT

__all__ = [
    "Forecast",
    "NodeChain",
    "ProviderConfig",
    "ProviderError",
    "bench",
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
    """:class:`compute_provider.interfaces.ChainReader` over a node."""

    def __init__(self, client: ChainClient) -> None:
        """Ask through ``client``."""
        self._client = client

    def status(self) -> StatusResponse:
        """Where the chain stands."""
        return self._client.status()

    def order(self, order_id: bytes) -> OrderResponse:
        """An order with all about it."""
        return self._client.order(order_id)

    def account(self, address: str) -> AccountResponse:
        """Balance and bond."""
        return self._client.account(address)

    def validator(self, operator: str) -> Validator | None:
        """A validator by its operator address."""
        known = self._client.query(ValidatorsRequest()).validators
        return next((each for each in known if each.operator == operator), None)

    def operator(self, name: str) -> str:
        """Return the operator address of the validator of this address or moniker; ProviderError."""
        known = self._client.query(ValidatorsRequest()).validators
        found = [each.operator for each in known if name in (each.operator, each.moniker)]
        # Somebody may have chosen another one's address as moniker.
        if name in found:
            return name
        if len(found) != 1:
            why = "several validators are" if found else "no validator is"
            raise ProviderError(f"{why} called {name}", "name one by its address, see assay status")
        return found[0]

    def provider(self, address: str) -> Provider | None:
        """A provider, wherever it is or asks to be."""
        return self._client.query(ProviderRequest(address)).provider


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a provider could earn with a validator, if it had work all the time."""

    moniker: str
    validator: str  # its operator's address
    speed: Speed
    # Bytes/s; None: the validator does not answer.
    bandwidth: int | None
    # The validator's lowest standing bid; None: it has none.
    price_per_pflop: int | None
    providers_bps: int
    income_per_day: int  # uassay

    @property
    def note(self) -> str:
        """What to know about the number."""
        return "an upper bound: with work all day, at the validator's lowest bid, before gas"


def run_provider(
    config: ProviderConfig,
    stop: Event | None = None,
    on_joined: Callable[[], None] | None = None,
    on_waiting: Callable[[str], None] = _log.warning,
    behave: Callable[[str], Behaviour] = lambda chain_id: Honest(),
) -> None:
    """Join the validator's cluster and work until ``stop``; call it on the main thread.

    A node that does not answer yet is waited for. ``on_waiting`` hears what keeps it from joining. ``behave`` gives the
    behaviour on a chain, by its id. ProviderError where there is no such validator.
    """
    stop = stop or Event()
    with ChainClient(config.node) as client, closed_at(stop, client):
        chain = NodeChain(client)

        def ask() -> tuple[str, str]:
            return chain.status().chain_id, chain.operator(config.validator)

        node = WatchedNode(config.node, stop, on_waiting)
        found = node.wait_for(ask)
        if found is None:
            return
        chain_id, operator = found
        # Before anything is signed: with a wrong clock every request is refused.
        ClockCheck().wait_until_right(lambda: node.ask(chain.status), stop, on_waiting)
        if stop.is_set():
            return
        known = replace(config, validator=operator)
        sender = TxSender(client, config.key)
        Daemon(known, chain_id, chain, sender, behave(chain_id), stop).run(on_joined, on_waiting)


def bench(backend: str = DEFAULT, seconds: float = 2.0) -> Speed:
    """Measure this machine."""
    return measure_speed(backend, seconds)


def dry_run(config: ProviderConfig) -> Forecast:
    """Measure this machine and the way to the validator; say what it could earn; change nothing."""
    speed = measure_speed(config.backend)
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
        # It does answer, and joining would fail in the same way.
        if error.kind is ClusterErrorKind.STALE:
            raise
        return None


def leave(config: ProviderConfig) -> None:
    """Leave the cluster on the chain."""
    with ChainClient(config.node) as client:
        TxSender(client, config.key).send(MsgLeaveCluster(config.key.address))


def node_of(home: Path) -> str:
    """Return the node that the daemon in ``home`` was started with last, as host:port; empty where nobody knows."""
    try:
        found = read_status(home)
    except ProviderError:
        return ""
    return (found or {}).get("node") or ""


def status(home: Path) -> dict[str, Any] | None:
    """Return what the daemon in ``home`` wrote last, or None if none ever ran there; ProviderError if it is damaged.

    ``pid`` is the process that runs there now, 0 if none does.
    """
    found = read_status(home)
    return None if found is None else {**found, "pid": runs_as(home)}
