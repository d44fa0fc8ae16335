"""A market of real processes over one solo node: clusters as a test wants them, bids that only one order can take.

    with market_network(directory, clusters=(("", "late"), ("",)), params=params) as market:
        market.bid("val0", "here")
        order = market.submit("here")
        order.wait_closed(60)

Each cluster is a list of ways to misbehave, empty for an honest provider, or ``torch`` for an honest one that computes
with torch. Each order is followed by a thread that delivers its payload, as ``assay order submit --wait`` does; tests
wait for what the chain says of it.
"""

import os
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import tomli_w

from chain.client.client import ChainClient
from chain.client.errors import ChainError
from chain.client.sender import TxSender
from consumer.jobs import read_job
from consumer.request import Request
from consumer.submit import submit
from consumer.watch import POLL_SECONDS, Delivery
from domain.ledger.messages import MsgDepositBond
from domain.legs.records import Leg
from domain.limits import CAPABILITY_SECONDS_MAX
from domain.market.events import BidPlaced
from domain.market.messages import MsgPlaceBid
from domain.market.reasons import CloseReason
from domain.market.records import Conditions, Offer, OrderState
from domain.params import Params, local_params
from domain.proof.queries import OrderRequest, OrderResponse, SeatsRequest
from domain.proof.records import PanelSeat
from domain.registry.messages import MsgCertifyProvider
from domain.registry.queries import ValidatorsRequest
from domain.vocabulary import changes_of
from localnet.create import KEY, create, test_keyring
from localnet.layout import Layout, NetworkKind, ProviderSpec
from localnet.market import wait_for_clusters
from localnet.network import Network
from pol.job.cost import outer_work
from pol.job.document import dump_job
from tests.support.waiting import wait_until
from validator.decide.records import VerdictRow
from validator.store import ValidatorStore

JOB = Path(__file__).resolve().parents[1] / "fixtures" / "job_tiny"
"""2 rounds of 2 slots of 5 segments; built by ``python -m pol.capture examples/tiny.py DIRECTORY``."""
PRICE = 2 * 10**12
"""Two ``uassay`` for each 1,000 FLOPs: every sum of a job this small is worth looking at, and no bond too small."""
TORCH = "torch"
PORTS_EACH = 800
FIRST_PORT = 28_000 + PORTS_EACH * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 5)
PORTS = range(FIRST_PORT, FIRST_PORT + PORTS_EACH)
"""Not those of networks that other tests make at the same time, with ``assay`` or in another process of this run."""
MARKET_BOND = 10**9
START_SECONDS = 300.0
NEWCOMER_ROUNDS = 8
"""Rounds that may wait for their panels: all providers here are newcomers, and each wait would cost a window."""
SPEED = 10**9


def quick_params(**changes: int) -> Params:
    """Return the parameters of a local network with more places to audit and every segment drawn."""
    params = local_params().replace(audit_bps=4_500, duty_segments=64)
    return params.replace(**changes)


class MarketOrder:
    """An order with the thread that follows it and delivers its payload."""

    def __init__(self, market: "MarketNetwork", order_id: bytes, deposit: int, deliver: bool, keep: bool = False):
        self.id, self.deposit = order_id, deposit
        self._market, self._stop = market, Event()
        directory = market.job_directory
        states = market.layout.path / "states" if keep else None
        self._delivery = Delivery(market.client, market.key, order_id, directory, market.job, states=states)
        self.deliver = deliver
        self.on_chain: OrderResponse = market.client.query(OrderRequest(order_id))
        self._thread = Thread(target=self._follow, name=f"order {order_id.hex()[:8]}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            with suppress(ChainError):  # the node may be down; that is what some tests are about
                self.on_chain = self._market.client.query(OrderRequest(self.id))
                if self.on_chain.order.state is OrderState.CLOSED:
                    return
                if self.deliver:
                    self._delivery.step(self.on_chain)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    @property
    def leg(self) -> Leg:
        """The last leg."""
        return self.on_chain.legs[-1]

    @property
    def close_reason(self) -> CloseReason:
        """Why it closed."""
        return CloseReason(self.on_chain.order.close_reason)

    def wait(self, condition: Callable[[OrderResponse], object], what: str, seconds: float) -> None:
        """Wait until the chain says something of the order; processes that end by themselves fail the test."""

        def holds() -> bool:
            self._market.network.check_alive()
            return bool(condition(self.on_chain))

        try:
            wait_until(holds, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}, but {self._where()}") from None

    def wait_state(self, state: OrderState, seconds: float) -> None:
        """Wait until the order has reached a state."""
        self.wait(lambda on_chain: on_chain.order.state >= state, f"the order to be {state.name}", seconds)

    def wait_verified(self, seconds: float) -> None:
        """Wait until the last round is verified, so that the validator serves the result."""
        self.wait_state(OrderState.PROVEN, seconds)
        self.wait(lambda on_chain: on_chain.rounds[-1].verified, "the last round to be verified", seconds)

    def wait_closed(self, seconds: float) -> OrderResponse:
        """Wait for the end."""
        self.wait_state(OrderState.CLOSED, seconds)
        return self.on_chain

    def paid(self, *kinds: str, to: str = "") -> int:
        """Return the sum of the payments of these kinds, to one address if given."""
        payments = self.on_chain.payments
        return sum(p.amount for p in payments if p.kind in kinds and to in ("", p.to))

    def _where(self) -> str:
        order = self.on_chain.order
        legs = ", ".join(
            f"{self._market.moniker_of(a.validator)} {a.state.name} in round {a.round}, end {a.end_reason}"
            for a in self.on_chain.legs
        )
        logs = self._market.network.last_log_lines()
        return f"it is {order.state.name}, end {order.close_reason}; {legs or 'no leg'}; {logs}"


class MarketNetwork:
    """A running network with a consumer."""

    def __init__(self, network: Network, job_directory: Path) -> None:
        self.network = network
        self.layout = network.layout
        # The last validator's node: in a network with several nodes, tests stop others.
        self.client: ChainClient = network.client(self.layout.nodes[-1])
        self.job_directory = job_directory
        self.job = read_job(job_directory)
        self.key = test_keyring(Path(self.layout.consumer_home)).unlock(KEY)
        self.sender = TxSender(self.client, self.key)
        self.orders: list[MarketOrder] = []

    def bid(self, moniker: str, *regions: str, price: int = PRICE, capacity: int = 10**12) -> bytes:
        """Place a bid of a validator that serves only orders which name all of ``regions``; return its id."""
        key = test_keyring(Path(self.layout.validator(moniker).home)).unlock(KEY)
        offer = Offer(
            price=price,
            slot_speed=SPEED,
            slots=len(self.members(moniker)) or 1,
            device_class="cpu",
            memory=1 << 30,
            regions=regions,
            tiers=("exact",),
            min_work=1,
            max_work=capacity,
            providers_bps=7_000,
        )
        message = MsgPlaceBid(key.address, offer, capacity, 86_400)
        receipt = TxSender(self.client, key).send(message)
        return next(changes_of(BidPlaced, receipt.events)).bid

    def submit(
        self,
        *regions: str,
        price_limit: int = PRICE,
        time_to_live: int = 60,
        deadline: int = 3_600,
        deliver: bool = True,
        keep: bool = False,
    ) -> MarketOrder:
        """Submit an order for bids inside ``regions``, and follow it; ``keep`` copies of its verified states."""
        conditions = Conditions(regions=tuple(sorted(regions)), tiers=("exact",))
        request = Request(conditions, price_limit, time_to_live, deadline)
        made = submit(self.client, self.sender, self.key, self.job, request)
        order = MarketOrder(self, made.order_id, made.deposit, deliver, keep)
        self.orders.append(order)
        return order

    def look(self, order: MarketOrder) -> OrderResponse:
        """Return what the chain says of an order now."""
        return self.client.query(OrderRequest(order.id))

    def seats(self, order: MarketOrder) -> list[PanelSeat]:
        """Return the seats of all panels about an order's rounds."""
        return [seat for panel in self.look(order).panels for seat in self.client.query(SeatsRequest(*panel.key)).seats]

    def operator(self, moniker: str) -> str:
        """Return a validator's operator address."""
        return self.layout.validator(moniker).operator

    def moniker_of(self, operator: str) -> str:
        """Return the name of the validator with this operator."""
        return next(spec.moniker for spec in self.layout.validators if spec.operator == operator)

    def members(self, moniker: str) -> tuple[ProviderSpec, ...]:
        """Return the providers in a validator's cluster."""
        return tuple(spec for spec in self.layout.providers if spec.validator == moniker)

    def cheat(self, method: str) -> ProviderSpec:
        """Return the provider that misbehaves in this way."""
        return next(spec for spec in self.layout.providers if spec.misbehave == method)

    def verdicts(self, moniker: str, order_id: bytes) -> list[VerdictRow]:
        """Return what a validator wrote down about an order's shares."""
        home = Path(self.layout.validator(moniker).home)
        store = ValidatorStore(home / "validator" / "validator.db")
        try:
            return store.verdicts(order_id)
        finally:
            store.close()

    def close(self) -> None:
        """Stop the orders' threads."""
        for order in self.orders:
            order.stop()
        self.client.close()


@contextmanager
def market_network(
    directory: Path,
    clusters: Sequence[Sequence[str]],
    params: Params | None = None,
    speed_of: Callable[[str], int] = lambda misbehave: SPEED,
    slots: int = 2,
    rounds: int = 2,
    job: Path | None = None,
    kind: NetworkKind = NetworkKind.SOLO,
    configure: Callable[[Layout], None] = lambda layout: None,
) -> Iterator[MarketNetwork]:
    """Run a network with one validator for each of ``clusters``, with market bonds and certified providers.

    By default one solo node makes all blocks; with ``kind`` COMETBFT, each validator has a node of its own.

    ``speed_of`` gives the FLOP/s that a provider is certified for, by how it misbehaves: its slots of the ``slots``
    that the job has, and the time that it is given for them, follow from that. After what was measured its validator
    says this of it, so that who serves what is the same on every machine. ``job`` is the directory of another job than
    the tiny one, with the slots and rounds that it has. Validators close rounds behind newcomers' shares. ``configure``
    may change the settings of homes before anything starts.
    """
    flat = [way for cluster in clusters for way in cluster]
    layout = create(
        directory,
        len(clusters),
        [len(cluster) for cluster in clusters],
        {f"prov{index}": way for index, way in enumerate(flat) if way not in ("", TORCH)},
        params or quick_params(),
        kind,
        {f"prov{index}": way for index, way in enumerate(flat) if way == TORCH},
        PORTS,
    )
    for spec in layout.validators:
        change_settings(spec.home, "validator", newcomer_rounds=NEWCOMER_ROUNDS)
    configure(layout)
    network = Network(layout)
    market = None
    try:
        network.start()
        market = MarketNetwork(network, job or _job_with(slots, rounds, layout.path / "job"))
        _deposit_bonds(market)
        wait_for_clusters(network, START_SECONDS)
        ways = zip(layout.providers, flat, strict=True)
        _certify(market, {spec.address: speed_of(way) for spec, way in ways})
        yield market
    finally:
        if market is not None:
            market.close()
        network.stop()


def change_settings(home: str, table: str, **values: int | str) -> None:
    """Change settings in a table of a home's configuration."""
    file = Path(home) / "config.toml"
    config = tomllib.loads(file.read_text())
    config.setdefault(table, {}).update(values)
    file.write_text(tomli_w.dumps(config))


def _job_with(slots: int, rounds: int, directory: Path) -> Path:
    """Write the tiny job with so many slots and rounds; of what it has of both, the work of an aggregation changes."""
    shutil.copytree(JOB, directory)
    document = replace(read_job(JOB).document, slots=slots, rounds=rounds)
    document = replace(document, outer_flops=outer_work(document))
    (directory / "job.json").write_bytes(dump_job(document))
    return directory


def _certify(market: MarketNetwork, speeds: Mapping[str, int]) -> None:
    """Let every validator certify its providers again, with these speeds; it looks before it accepts an order."""
    for spec in market.layout.validators:
        key = test_keyring(Path(spec.home)).unlock(KEY)
        for provider in market.members(spec.moniker):
            message = MsgCertifyProvider(
                key.address,
                provider.address,
                "cpu",
                speeds[provider.address],
                1 << 30,
                1 << 30,
                CAPABILITY_SECONDS_MAX,
            )
            TxSender(market.client, key).send(message)


def _deposit_bonds(market: MarketNetwork) -> None:
    """Give every validator a market bond, and wait until all have said where they serve: a bid needs that."""
    for spec in market.layout.validators:
        key = test_keyring(Path(spec.home)).unlock(KEY)
        TxSender(market.client, key).send(MsgDepositBond(key.address, MARKET_BOND))

    def published() -> bool:
        market.network.check_alive()
        return all(v.endpoint for v in market.client.query(ValidatorsRequest()).validators)

    wait_until(published, "the validators' endpoints", START_SECONDS)
