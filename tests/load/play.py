"""Many orders at once on a network of real processes: four nodes, four validators and their providers."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from chain.client.errors import ChainError
from consumer.request import Request
from consumer.submit import submit
from consumer.watch import Delivery
from domain.market.reasons import CloseReason
from domain.market.records import Conditions, OrderState
from domain.proof.queries import OrderRequest, OrderResponse
from localnet.layout import NetworkKind
from tests.support.market_network import PRICE, MarketNetwork, market_network, quick_params

VALIDATORS = 4
REGION = "load"
PARAMS = quick_params(round_window=15, accept_base=300, accept_max=600, progress_base=600, stage_base=150)
"""Time enough for a machine that runs all processes of the network."""
DEADLINE = 6 * 3_600
"""Seconds on the chain clock within which each order must close."""
THREADS = 4
SAMPLE_SECONDS = 5.0
CLOSED = OrderState.CLOSED.name.lower()
STUCK_SECONDS = 1_200.0
"""Time without a change of any order after which the run is given up."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Memory:
    """The resident memory (bytes) of a process when a quarter of the orders had closed, and its most after that."""

    early: int
    most: int

    @property
    def growth(self) -> float:
        """The most as a multiple of the early amount."""
        return self.most / self.early if self.early else 1.0


@dataclass(frozen=True)
class LoadResult:
    """The ends of all orders, counted by reason, with the time and the memory of the run.

    ``late`` orders ended at a deadline. ``missing`` is the number of orders of whose deposit a coin is missing.
    """

    orders: int
    closed: Mapping[str, int]
    late: int
    missing: int
    seconds: float
    memory: Mapping[str, Memory]

    @property
    def ok(self) -> bool:
        """True if all orders settled in time, and no coin is missing."""
        return self.closed == {CloseReason.SETTLED.name.lower(): self.orders} and not self.late and not self.missing


def play_load(orders: int, providers: int, at_once: int, directory: Path, tell: Tell) -> LoadResult:
    """Submit orders, of which each validator serves ``at_once`` at the same time, and wait until all are closed."""
    clusters = [[""] * (providers // VALIDATORS + (number < providers % VALIDATORS)) for number in range(VALIDATORS)]
    tell(f"starting a network of {VALIDATORS} nodes, {VALIDATORS} validators and {providers} providers")
    with market_network(directory, clusters, PARAMS, kind=NetworkKind.COMETBFT) as market:
        for spec, cluster in zip(market.layout.validators, clusters, strict=True):
            if cluster:
                market.bid(spec.moniker, REGION, capacity=at_once * market.job.total_flops)
        begun = time.monotonic()
        followed: list[_Followed] = []
        with ThreadPoolExecutor(1) as consumer:
            # The id of an order depends on the account's sequence, so one thread submits them one by one.
            submitted = [consumer.submit(lambda: followed.append(_Followed(market))) for _ in range(orders)]
            memory = _follow(market, followed, submitted, tell)
        return _judge(followed, time.monotonic() - begun, memory)


class _Followed:
    """An order whose payload is delivered, as ``assay order submit --wait`` does."""

    def __init__(self, market: MarketNetwork) -> None:
        conditions = Conditions(regions=(REGION,), tiers=("exact",))
        request = Request(conditions, PRICE, DEADLINE, DEADLINE)
        made = submit(market.client, market.sender, market.key, market.job, request)
        self.deposit = made.deposit
        self._market, self._id = market, made.order_id
        self._delivery = Delivery(market.client, market.key, made.order_id, market.job_directory, market.job)
        self.on_chain: OrderResponse = market.client.query(OrderRequest(made.order_id))

    @property
    def is_closed(self) -> bool:
        return self.on_chain.order.state is OrderState.CLOSED

    def step(self) -> None:
        with suppress(ChainError):
            self.on_chain = self._market.client.query(OrderRequest(self._id))
            self._delivery.step(self.on_chain)


def _follow(
    market: MarketNetwork, followed: Sequence[_Followed], submitted: Sequence[Future[None]], tell: Tell
) -> dict[str, Memory]:
    """Follow all orders to their ends, from the first submission on; return the memory of each process."""
    early: dict[str, int] = {}
    most: dict[str, int] = {}
    sampled = changed = time.monotonic()
    seen: Counter[str] = Counter()
    with ThreadPoolExecutor(THREADS) as pool:
        while seen[CLOSED] < len(submitted):
            market.network.check_alive()
            for future in submitted:
                if future.done():
                    future.result()  # an order that could not be submitted ends the run
            list(pool.map(_Followed.step, [order for order in followed if not order.is_closed]))
            states = Counter(order.on_chain.order.state.name.lower() for order in followed)
            now = time.monotonic()
            if states != seen:
                seen, changed = states, now
                tell(", ".join(f"{count} {state}" for state, count in sorted(states.items())))
            assert now - changed < STUCK_SECONDS, f"no order has changed for {STUCK_SECONDS:.0f} s"
            if now - sampled >= SAMPLE_SECONDS and 4 * states[CLOSED] >= len(submitted):
                sampled = now
                for name, resident in _read_memory(market).items():
                    early.setdefault(name, resident)
                    most[name] = max(most.get(name, 0), resident)
    return {name: Memory(early[name], most[name]) for name in early}


def _read_memory(market: MarketNetwork) -> dict[str, int]:
    """Return the resident memory of each process of the network, with that of its children."""
    found = {}
    for state in market.network.states():
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(state.pid)
            family = [process, *process.children(recursive=True)]
            found[state.name] = sum(member.memory_info().rss for member in family)
    return found


def _judge(followed: Sequence[_Followed], seconds: float, memory: Mapping[str, Memory]) -> LoadResult:
    answers = [order.on_chain for order in followed]
    reasons = Counter(CloseReason(answer.order.close_reason).name.lower() for answer in answers)
    late = sum(answer.order.close_reason in (CloseReason.DEADLINE, CloseReason.EXPIRED) for answer in answers)
    missing = 0
    for order in followed:
        escrow = order.on_chain.escrow
        accounted = sum(row.paid + row.refunded for row in escrow.depositors)
        missing += accounted != order.deposit or bool(escrow.bonds)
    return LoadResult(len(answers), dict(reasons), late, missing, round(seconds, 1), memory)
