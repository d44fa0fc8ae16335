"""The metrics of a node: their table, and the sources of their values.

All values are read outside the state machine: from committed snapshots, CometBFT's RPC and the disk. They are read only
when a scrape asks for them. Blocks, transactions and checks are counted after they have happened
(:class:`BlockMetrics`).
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from threading import Thread

from chain.app.application import Application
from chain.app.comet_rpc import CometStanding, CometView
from chain.app.interfaces import BlockWatcher, CommittedBlock
from chain.app.storage import Storage, StoreSnapshot
from chain.state_machine.gas_price import get_gas_price
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.queries import answer
from chain.state_machine.registry.members import get_active
from chain.state_machine.store import Overlay
from domain.block import TxResult
from domain.limits import EVENTS_LIMIT_MAX
from domain.market.records import OrderState
from domain.node.queries import EventsRequest
from domain.registry.queries import ValidatorsRequest
from domain.vocabulary import POTS as ALL_POTS
from host.metrics import Meters, Metric, MetricKind

_INTERVALS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)
KEYS_SECONDS = 600.0
"""Longest time between two counts of the state's keys, because a count reads all keys."""
SILENT_SECONDS = 60.0
"""Longest time without an answer of CometBFT before the node counts as unhealthy."""

HEIGHT = Metric("assay_node_height", MetricKind.GAUGE, "Height of the last committed block.")
BLOCK_AGE = Metric("assay_node_block_age_seconds", MetricKind.GAUGE, "Time since the time in the last block's header.")
BLOCK_INTERVAL = Metric(
    "assay_node_block_interval_seconds",
    MetricKind.HISTOGRAM,
    "Time between the header times of two consecutive blocks.",
    buckets=_INTERVALS,
)
TXS = Metric(
    name="assay_node_txs_total",
    kind=MetricKind.COUNTER,
    help="Transactions in blocks by code: ok, or codespace/number of the refusal.",
    labels=("code",),
)
CHECKS = Metric(
    name="assay_node_mempool_checks_total",
    kind=MetricKind.COUNTER,
    help="Checks for the mempool by kind (new, recheck) and code: ok, or codespace/number of the refusal.",
    labels=("kind", "code"),
)
ABCI = Metric(
    name="assay_node_abci_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time of each call of CometBFT, by method; none with --solo.",
    labels=("method",),
)
MEMPOOL_TXS = Metric("assay_node_mempool_txs", MetricKind.GAUGE, "Transactions in the mempool.")
MEMPOOL_BYTES = Metric("assay_node_mempool_bytes", MetricKind.GAUGE, "Bytes of the transactions in the mempool.")
PEERS = Metric("assay_node_peers", MetricKind.GAUGE, "Connected peers.")
CATCHING_UP = Metric(
    "assay_node_catching_up", MetricKind.GAUGE, "1 while the node fetches old blocks, 0 when it follows."
)
COMET_UP = Metric("assay_node_comet_up", MetricKind.GAUGE, "1 if CometBFT answers.")
COMET_STARTS = Metric("assay_node_comet_starts_total", MetricKind.COUNTER, "Starts of CometBFT by the node.")
DATABASE = Metric(
    name="assay_node_database_bytes",
    kind=MetricKind.GAUGE,
    help="Approximate size on disk of the database's parts: state, its tree, and blocks, transactions and events.",
    labels=("part",),
)
GAS_PRICE = Metric(
    "assay_node_gas_price_uassay",
    MetricKind.GAUGE,
    "Price of a unit of gas in the next block; duties pay less.",
)
STATE_KEYS = Metric("assay_node_state_keys", MetricKind.GAUGE, "Keys of the state, counted at most every ten minutes.")
DISK_FREE = Metric("assay_node_disk_free_bytes", MetricKind.GAUGE, "Free bytes on the disk of the home.")
SUPPLY = Metric(
    name="assay_node_supply_uassay",
    kind=MetricKind.GAUGE,
    help="All coins by pot.",
    labels=("pot",),
)
ORDERS_BY_STATE = Metric(name="assay_node_orders", kind=MetricKind.GAUGE, help="Orders by state.", labels=("state",))
VALIDATORS_BY_STANDING = Metric(
    name="assay_node_validators",
    kind=MetricKind.GAUGE,
    help="Validators by standing: active, jailed (by panels), or consensus_jailed.",
    labels=("standing",),
)
METRICS = (
    HEIGHT,
    BLOCK_AGE,
    BLOCK_INTERVAL,
    TXS,
    CHECKS,
    ABCI,
    MEMPOOL_TXS,
    MEMPOOL_BYTES,
    PEERS,
    CATCHING_UP,
    COMET_UP,
    COMET_STARTS,
    DATABASE,
    STATE_KEYS,
    GAS_PRICE,
    DISK_FREE,
    SUPPLY,
    ORDERS_BY_STATE,
    VALIDATORS_BY_STANDING,
)


class BlockMetrics(BlockWatcher):
    """The counters of checks, transactions and blocks, updated whenever the application handles one."""

    def __init__(self, meters: Meters) -> None:
        """Keep the counts in ``meters``."""
        self._meters = meters

    def checked(self, result: TxResult, *, recheck: bool) -> None:
        """Count one CheckTx under its kind (new or recheck) and the code of its result."""
        self._meters.count(CHECKS, "recheck" if recheck else "new", _code(result))

    def committed(self, before: CommittedBlock, block: CommittedBlock, results: Sequence[TxResult]) -> None:
        """Count the transactions of a block, and record the time since the previous block."""
        if before.height:
            self._meters.observe(BLOCK_INTERVAL, (block.time_ns - before.time_ns) / 1e9)
        for code, count in Counter(map(_code, results)).items():
            self._meters.count(TXS, code, by=count)


def _code(result: TxResult) -> str:
    return f"{result.codespace}/{result.code}" if result.code else "ok"


class OrderCounts:
    """The number of orders by state. It reads all orders once, and later only the orders that new events name."""

    def __init__(self, app: Application) -> None:
        """Count the orders of ``app``; the first :meth:`read` reads them."""
        self._app = app
        self._active: dict[bytes, OrderState] = {}
        self._counts: Counter[OrderState] = Counter()
        self._next = 0

    def read(self) -> dict[OrderState, int]:
        """Return the number of orders in each state, as of the newest commit."""
        snapshot = self._app.committed()
        if not self._next:
            for order in ORDERS.scan(Overlay(snapshot)):
                self._put(order.id, order.state)
            self._next = snapshot.head.next_event
        changed: dict[bytes, None] = {}
        while self._next < snapshot.head.next_event:
            limit = min(EVENTS_LIMIT_MAX, snapshot.head.next_event - self._next)
            for event in self._app.events(EventsRequest(self._next, limit)).events:
                if event.type.startswith("order."):
                    changed[bytes.fromhex(dict(event.attributes)["order"])] = None
            self._next += limit
        for order_id in changed:
            self._put(order_id, ORDERS.must(Overlay(snapshot), order_id).state)
        return {state: self._counts[state] for state in OrderState}

    def _put(self, order_id: bytes, state: OrderState) -> None:
        known = self._active.pop(order_id, None)
        if known is not None:
            self._counts[known] -= 1
        self._counts[state] += 1
        # The state of a closed order is not kept, because it never changes, and the number of closed orders grows
        # without bound.
        if state is not OrderState.CLOSED:
            self._active[order_id] = state


class NodeLook:
    """A collector of a node's metrics, and of the reasons why it is unhealthy or not ready."""

    def __init__(
        self,
        meters: Meters,
        app: Application,
        storage: Storage,
        comet: CometView | None,
        waiting: Callable[[], int] | None = None,
    ) -> None:
        """Keep the objects to read from.

        A solo node has no ``comet``; its ``waiting`` returns the size of the mempool.
        """
        self._meters = meters
        self._app = app
        self._storage = storage
        self._comet = comet
        self._waiting = waiting
        self._orders = OrderCounts(app)
        self._keys_at = -KEYS_SECONDS
        self._answered = time.monotonic()
        meters.before_scrape(self.look)

    def look(self) -> None:
        """Set the metrics that are read at each scrape instead of being counted."""
        show = self._meters.show
        head = self._app.head.block
        show(DISK_FREE, shutil.disk_usage(self._storage.path).free)
        self._read_comet()
        if not self._app.started.is_set():
            return
        show(HEIGHT, head.height)
        if head.height:
            show(BLOCK_AGE, max(0.0, time.time() - head.time_ns / 1e9))
        sizes = self._storage.sizes()
        self._meters.show_all(DATABASE, {(part,): size for part, size in sizes.items()})
        state = Overlay(self._app.view().reader)
        show(GAS_PRICE, get_gas_price(state) / 10**6)
        self._meters.show_all(SUPPLY, {(name,): POTS.get(state, name) for name in ALL_POTS})
        standing = Counter("jailed" if validator.jailed else "active" for validator in get_active(state))
        listed = answer(self._app.view().reader, ValidatorsRequest(), self._app.rulebook)
        standing["consensus_jailed"] = len(listed.consensus_jailed)
        names = ("active", "jailed", "consensus_jailed")
        self._meters.show_all(VALIDATORS_BY_STANDING, {(name,): standing[name] for name in names})
        if head.height:
            self._count_orders()
            self._count_keys()

    def health(self) -> Sequence[str]:
        """Return the reasons why the node is unhealthy. A fatal error is not one of them: it ends the node."""
        self._standing()
        silent = time.monotonic() - self._answered
        if self._comet is not None and silent > SILENT_SECONDS:
            return [f"CometBFT has not answered for {silent:.0f} s"]
        return []

    def readiness(self) -> Sequence[str]:
        """Return the reasons why the node cannot serve the newest state to clients."""
        if not self._app.started.is_set():
            return ["the node has no state yet"]
        if self._comet is None:
            return []
        standing = self._standing()
        if standing is None:
            return ["CometBFT does not answer"]
        return ["the node is catching up with the chain"] if standing.catching_up else []

    def _standing(self) -> CometStanding | None:
        standing = self._comet.standing() if self._comet is not None else None
        if standing is not None:
            self._answered = time.monotonic()
        return standing

    def _read_comet(self) -> None:
        show = self._meters.show
        standing = self._standing()
        if self._comet is not None:
            show(COMET_UP, standing is not None)
        if standing is not None:
            show(PEERS, len(standing.peers))
            show(CATCHING_UP, standing.catching_up)
            show(MEMPOOL_TXS, standing.waiting_txs)
            show(MEMPOOL_BYTES, standing.waiting_bytes)
        elif self._waiting is not None:
            show(MEMPOOL_TXS, self._waiting())

    def _count_orders(self) -> None:
        counts = self._orders.read().items()
        self._meters.show_all(ORDERS_BY_STATE, {(state.name.lower(),): count for state, count in counts})

    def _count_keys(self) -> None:
        """Start a thread that counts the keys of the state, if a count is due. No scrape waits for it."""
        if self._keys_at + KEYS_SECONDS <= time.monotonic():
            self._keys_at = time.monotonic()
            snapshot = self._app.committed()
            Thread(
                target=lambda: self._meters.show(STATE_KEYS, count_keys(snapshot)),
                name="metrics-keys",
                daemon=True,
            ).start()


def count_keys(snapshot: StoreSnapshot) -> int:
    """Return the number of keys in a state; the function reads all of them."""
    return sum(1 for _ in snapshot.scan(b""))
