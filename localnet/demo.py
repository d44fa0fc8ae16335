"""The demo: a network on this machine, real orders with real data, a cheat, and all payments read from the chain."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from sys import executable
from threading import Event
from types import MappingProxyType
from typing import TypeVar

from chain.client.client import ChainClient
from chain.client.errors import ChainError
from chain.client.sender import TxSender
from consumer.disputes import stand_verdict
from consumer.errors import StillWaiting
from consumer.jobs import read_job
from consumer.request import Request
from consumer.result import fetch_result
from consumer.submit import LIMIT_FACTOR, SubmittedOrder, quote, submit
from consumer.watch import Delivery, wait_for, waits_for
from consumer.why import why
from domain.events import Change
from domain.market.events import OrderOpened
from domain.market.records import Conditions, OrderState
from domain.node.queries import EventsRequest
from domain.params import local_params
from domain.proof.events import RoundCompared
from domain.proof.queries import OrderRequest, OrderResponse, SeatsRequest
from domain.proof.reasons import ShareReason
from domain.proof.records import PanelSeat, ShareState
from domain.vocabulary import changes_of
from localnet.create import KEY, create, test_keyring
from localnet.layout import NetworkError
from localnet.machines import RAY, Machines, MachineUse, uses_of
from localnet.market import open_market
from localnet.network import Network
from pol.job.document import Job, order_terms
from pol.rules.replicas import REPLICAS
from pol.rules.schedule import total_work
from pol.rules.tiers.table import DEFAULT_TIERS, is_replicating, tier_named
from pol.state.arrays import State
from pol.values import metric_values
from pol.work.cluster.client import check_usable
from pol.work.executor import LOCAL, address_of
from validator.decide.records import VerdictRow
from validator.store import ValidatorStore
from wire.keys import Key

C = TypeVar("C", bound=Change)

CHEAT_METHOD = "skip_training"
CHEAT = "prov0"
CHEAPEST = "val0"
"""The validator whose bid wins the first order and has no capacity for the second."""
RIVAL = "val1"
"""The validator whose bid wins the second order."""
BUILD_SECONDS = 900.0
PATIENCE = 300.0
"""Seconds without any change of an order after which the demo gives up."""
DEADLINE = 7_200
"""The orders' deadline, in seconds of the chain's clock."""
MATCH_SECONDS = 600
"""The orders' time to live, in seconds of the chain's clock."""
ACCEPT_BASE = 300
"""Seconds of the chain's clock that a validator has for acceptance; a busy machine needs this much time."""
PROGRESS_BASE = 900
"""Seconds of the chain's clock that a round may take; a busy machine needs this much time."""
GROUP_WINDOW = 60
"""Least window of a round, in seconds of the chain's clock, if several processes compute each segment together. On a
machine with few processors, the groups of seats take long to start.
"""
EXAMPLES = next(
    filter(Path.is_dir, (Path(__file__).parents[1] / "examples", Path(sys.prefix) / "share" / "assay" / "examples")),
    Path("examples"),
)
"""Folder of the job files: in a checkout, or where a wheel installs them."""
JOBS: Mapping[str, Path] = MappingProxyType(
    {name: EXAMPLES / f"{name}.py" for name in ("digits", "vision", "gpt", "finetune")}
)
"""The jobs that the demo can train; each has at least two slots, so that the cheat gets one."""
TWICE = "digits"
"""The job that is ordered twice at the same time. It is small enough to be trained by two clusters at once."""
FOUR_SLOTS = EXAMPLES / "market.py"
CLUSTERS = (4, 4, 0, 0)
"""Number of providers per validator if two clusters compete; the other two validators serve neither order."""
_CALIBRATED = 2
"""Number of segments that the demo measures for a tier with thresholds."""
_LOOK_SECONDS = 0.5
_BUSY = "run the demo again when fewer other programs run on this machine"


@dataclass(frozen=True, slots=True)
class Moment:
    """The demo's progress at one moment."""

    phase: str
    height: int
    # The submitted orders: the first order, and the second order if the demo has one.
    orders: tuple[OrderResponse, ...] = ()
    # Loss of the first order at the end of its last closed round.
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The results of a finished demo, from which the summary is made."""

    network: Network
    job: Job
    job_directory: Path
    submitted: SubmittedOrder
    deposit: int
    price: int
    on_chain: OrderResponse
    seats: tuple[PanelSeat, ...]  # of all panels
    blocks: int
    verdicts: tuple[VerdictRow, ...]
    curve: tuple[tuple[float, float], ...]  # (rounds trained, loss)
    second: OrderResponse | None  # or the replica of the first order
    compared: tuple[int, ...]  # outcomes of the comparisons of the first order's rounds with those of its replica
    state: State
    path: Path
    sha256: bytes
    seconds: dict[str, float]
    machines: tuple[MachineUse, ...] = ()


class Demo:
    """A run of the demo; ``show`` is called whenever its progress changes."""

    def __init__(
        self,
        directory: Path,
        show: Callable[[Moment], None],
        down: tuple[str, ...] = (),
        job: str = "digits",
        begun: Callable[[Network], None] = lambda network: None,
        done: Callable[["Finished"], None] = lambda finished: None,
        executor: str = LOCAL,
        machines: int = 1,
        tier: str = DEFAULT_TIERS[0],
    ) -> None:
        """Use ``directory`` for all files, and train the job ``job`` of ``JOBS``. Its orders are verified in ``tier``.

        Validators in ``down`` and their clusters are not started. ``begun`` is called with the network before it
        starts, and ``done`` with the results before it stops.

        All daemons that do not cheat compute where ``executor`` says: a value of ``--executor``, or ``ray`` for a Ray
        cluster of ``machines`` nodes, which the demo starts on this machine. Otherwise so many machines compute each
        segment together. NetworkError or ClusterUnusable if this machine cannot use the cluster.
        """
        self._directory = directory
        self._tier = tier
        self._show = show
        self._down = down
        self._begun = begun
        self._done = done
        self._cluster = Machines(directory, machines) if executor == RAY else None
        self._executor, self._group = executor, 1 if executor == RAY else machines
        if executor != RAY and (address := address_of(executor)):
            check_usable(address)
        # In a tier that replicates, the second cluster trains the same order.
        self._twice = job == TWICE and RIVAL not in down and not is_replicating(tier)
        self._file = FOUR_SLOTS if self._twice else JOBS[job]
        self._seconds: dict[str, float] = {}
        self._curve: dict[float, float] = {}  # Stored here, because validators delete their records of old rounds.
        self._started = time.monotonic()
        self._height = 0
        self._looked = 0.0

    def run(self) -> Finished:
        """Run the demo, stop its network, and return the results.

        Raise NetworkError, ConsumerError or ChainError if the demo fails.
        """
        self._show_phase("building the job")
        job_directory = self._directory / "job"
        build = _start_job("build", str(self._file), "-o", str(job_directory))
        try:
            return self._run(job_directory, build)
        finally:
            build.kill()
            build.wait()
            if self._cluster is not None:
                self._cluster.stop()

    def _run(self, job_directory: Path, build: "Popen[bytes]") -> Finished:
        executor, environment = self._executor, dict[str, str]()
        if self._cluster is not None:
            self._show_phase("starting the machines")
            self._cluster.start()
            executor, environment = self._cluster.executor, dict(self._cluster.environment)
        # Each new provider gets at most one slot, even if it is fast. This ensures that the cheating provider gets a
        # slot.
        params = local_params().replace(
            newcomer_slots=1,
            accept_base=ACCEPT_BASE,
            accept_max=2 * ACCEPT_BASE,
            progress_base=PROGRESS_BASE,
        )
        if self._group > 1:
            params = params.replace(round_window=GROUP_WINDOW)
        clusters = CLUSTERS if self._twice else 2
        layout = create(
            self._directory,
            providers=clusters,
            misbehave={CHEAT: CHEAT_METHOD},
            params=params,
            executor=executor,
            machines=self._group,
        )
        network = Network(layout, environment)
        try:
            self._begun(network)
            up = names_without(network, self._down)
            validators = sum(name.endswith(".validator") for name in up)
            self._show_phase(f"starting {validators} validators and {len(up) - 2 * validators} providers")
            network.start(up)
            self._finish(network, build, "building the job")
            if tier_named(self._tier).hardware:
                self._set_thresholds(network, job_directory)
            # The cheapest bid has capacity for one order only, so the second order goes to the next cluster.
            work = total_work(order_terms(read_job(job_directory)))
            open_market(
                network,
                capacities={CHEAPEST: work} if self._twice else {},
                look=lambda: self._show_phase("opening the market", network),
            )
            self._seconds["network"] = time.monotonic() - self._started
            finished = self._order(network, job_directory)
            self._done(finished)
            return finished
        finally:
            network.stop()

    def _order(self, network: Network, job_directory: Path) -> Finished:
        job = read_job(job_directory)
        home = Path(network.layout.consumer_home)
        key = test_keyring(home).unlock(KEY)
        with network.client() as client:
            submitted, price, deposit, on_chain, second = self._train(network, client, key, job, job_directory)
            if not on_chain.order.close_reason or not on_chain.rounds:
                reasons = "; ".join(str(why(on_chain, client.status().clock)).splitlines())
                raise NetworkError(
                    f"no round of the order was verified: {reasons} (logs: {self._directory}/logs)",
                    _BUSY,
                )
            result = fetch_result(client, key, submitted.order_id, job, self._directory / "scratch")
            path = self._directory / "model.safetensors"
            digest = result.save(path)
            compared = tuple(
                change.outcome
                for change in _changes(client, RoundCompared)
                if change.round.order_id == submitted.order_id
            )
            blocks = client.status().height
            seats = tuple(seat for panel in on_chain.panels for seat in client.query(SeatsRequest(*panel.key)).seats)
        self._seconds["total"] = time.monotonic() - self._started
        return Finished(
            network=network,
            job=job,
            job_directory=job_directory,
            submitted=submitted,
            deposit=deposit,
            price=price,
            on_chain=on_chain,
            seats=seats,
            blocks=blocks,
            verdicts=tuple(verdicts_of(network, submitted.order_id)),
            curve=tuple(sorted(self._curve.items())),
            second=second,
            compared=compared,
            state=result.state,
            path=path,
            sha256=digest,
            seconds={name: round(value, 1) for name, value in self._seconds.items()},
            machines=uses_of(network.layout),
        )

    def _train(
        self, network: Network, client: ChainClient, key: Key, job: Job, directory: Path
    ) -> tuple[SubmittedOrder, int, int, OrderResponse, OrderResponse | None]:
        request = Request(
            conditions=Conditions(tiers=(self._tier,)),
            price_limit=0,
            time_to_live=MATCH_SECONDS,
            deadline=DEADLINE,
            replicas=REPLICAS if is_replicating(self._tier) else 0,
        )
        offer = quote(client, job, request)
        if not offer.winners:
            raise NetworkError(*offer.explain())
        price = offer.winners[-1].offer.price
        self._show_phase("submitting the order", network)
        limited = replace(request, price_limit=price)
        submitted = submit(client, TxSender(client, key), key, job, limited)
        delivery = Delivery(client=client, key=key, order_id=submitted.order_id, directory=directory, job=job)
        second: Delivery | None = None
        if self._twice:
            # The limit is high enough for the price of the next cluster.
            more = replace(request, price_limit=LIMIT_FACTOR * price)
            other = submit(client, TxSender(client, key), key, job, more)
            second = Delivery(client=client, key=key, order_id=other.order_id, directory=directory, job=job)

        def seen(on_chain: OrderResponse) -> None:
            network.check_alive()
            void = [closed.round for closed in on_chain.rounds if closed.void]
            if void:
                raise NetworkError(
                    f"the auditors did not confirm round {void[0]} (logs: {self._directory}/logs)",
                    _BUSY,
                )
            if any(tried.end_reason for tried in on_chain.legs):
                # No other bid fits the first order's price limit, so the order cannot continue.
                self._moment(network, client, on_chain, None)
                raise NetworkError(
                    "the first order's leg ended, because the machine was too busy for the deadlines of a local network"
                    f" (logs: {self._directory}/logs)",
                    _BUSY,
                )
            other = client.query(OrderRequest(second.order_id)) if second else None
            if second and other:
                second.step(other)
            self._moment(network, client, on_chain, other)

        def reach(state: OrderState, phase: str) -> OrderResponse:
            begun = time.monotonic()
            on_chain = self._patiently(client, delivery, state, seen)
            self._seconds[phase] = time.monotonic() - begun
            return on_chain

        reach(OrderState.RUNNING, "match")
        reach(OrderState.PROVEN, "train_and_verify")
        on_chain = reach(OrderState.CLOSED, "windows")
        ended = None
        if second:
            ended = self._patiently(
                client,
                second,
                OrderState.CLOSED,
                lambda other: self._moment(network, client, on_chain, other),
            )
        for replica in submitted.replicas[1:]:
            begun = Delivery(client=client, key=key, order_id=replica, directory=directory, job=job)
            ended = self._patiently(
                client,
                begun,
                OrderState.CLOSED,
                lambda other: self._moment(network, client, on_chain, other),
            )
        return submitted, price, _deposited(client, submitted.order_id), on_chain, ended

    def _patiently(
        self,
        client: ChainClient,
        delivery: Delivery,
        state: OrderState,
        seen: Callable[[OrderResponse], None],
    ) -> OrderResponse:
        """Wait until an order reaches a state, and return the chain's answer about the order.

        Raise NetworkError if nothing about the order changes for ``PATIENCE`` seconds.
        """
        last: list[OrderResponse | None] = [None]

        def look(on_chain: OrderResponse) -> None:
            last[0] = on_chain
            seen(on_chain)

        while True:
            before = last[0]
            try:
                return wait_for(client, delivery.order_id, state, delivery, Event(), PATIENCE, look)
            except StillWaiting as error:
                if last[0] is None:
                    raise
                if last[0] == before:
                    raise NetworkError(
                        f"nothing about the order has changed for {PATIENCE:.0f} s: it {waits_for(last[0])} "
                        f"(logs: {self._directory}/logs)",
                        _BUSY,
                    ) from error

    def _set_thresholds(self, network: Network, job_directory: Path) -> None:
        """Measure honest runs of the job in hardware arithmetic, and build it again with the thresholds that follow."""
        profile = self._directory / "profile.json"
        measure = [str(job_directory), "--segments", str(_CALIBRATED), "--rounds", "1", "--out", str(profile)]
        build = ["build", str(self._file), "-o", str(job_directory), "--tolerance", str(profile)]
        for phase, arguments in (
            ("measuring honest runs", ["calibrate", *measure]),
            ("building the job with thresholds", build),
        ):
            process = _start_job(*arguments)
            try:
                self._finish(network, process, phase)
            finally:
                process.kill()
                process.wait()

    def _finish(self, network: Network, process: "Popen[bytes]", phase: str, seconds: float = BUILD_SECONDS) -> None:
        """Wait until a process about the job has ended, and show the chain's height meanwhile."""
        ends = time.monotonic() + seconds
        while True:
            try:
                _, errors = process.communicate(timeout=_LOOK_SECONDS)
                break
            except TimeoutExpired:
                network.check_alive()
                if time.monotonic() > ends:
                    raise NetworkError(f"{phase} took more than {seconds:.0f} s", _BUSY) from None
                self._show_phase(phase, network)
        if process.returncode:
            text = errors.decode(errors="replace")[-500:]
            raise NetworkError(f"{phase} failed: {text}")

    def _show_phase(self, phase: str, network: Network | None = None) -> None:
        if network is not None and time.monotonic() > self._looked + _LOOK_SECONDS:
            with network.client() as client, suppress(ChainError):
                self._height = client.status().height
            self._looked = time.monotonic()
        self._show(Moment(phase, self._height))

    def _moment(
        self,
        network: Network,
        client: ChainClient,
        on_chain: OrderResponse,
        second: OrderResponse | None,
    ) -> None:
        self._curve |= loss_curve(network, on_chain)
        loss = self._curve[max(self._curve)] if self._curve else None
        orders = (on_chain, second) if second else (on_chain,)
        state = on_chain.order.state.name.lower()
        self._show(Moment(phase=state, height=client.status().height, orders=orders, loss=loss))


def names_without(network: Network, down: tuple[str, ...]) -> list[str]:
    """Return the names of a network's processes, except those of validators in ``down`` and of their providers."""
    excluded = {f"{moniker}.{part}" for moniker in down for part in ("node", "validator")}
    excluded |= {spec.name for spec in network.layout.providers if spec.validator in down}
    return [name for name in network.names() if name not in excluded]


def _start_job(*arguments: str) -> "Popen[bytes]":
    """Start a command about the job in a separate process, because only the capture and measurements need torch."""
    return Popen([executable, "-m", "assay.cli", "job", *arguments], stdout=PIPE, stderr=PIPE)


def _deposited(client: ChainClient, order_id: bytes) -> int:
    """Return an order's deposit (uassay), which is in the event that opened the order."""
    for opened in _changes(client, OrderOpened):
        if opened.order == order_id:
            return opened.deposit
    raise NetworkError("the chain has no event of the order")


def _changes(client: ChainClient, kind: type[C]) -> Iterator[C]:
    """Yield all events of a kind that the chain has, in their order."""
    since = 1
    while True:
        page = client.query(EventsRequest(since, 1000))
        if not page.events:
            return
        yield from changes_of(kind, page.events)
        since = page.events[-1].number + 1


def verdicts_of(network: Network, order_id: bytes) -> list[VerdictRow]:
    """Return the verdicts on the order's shares from the databases of all validators."""
    rows: list[VerdictRow] = []
    for spec in network.layout.validators:
        path = Path(spec.home) / "validator" / "validator.db"
        if path.exists():
            store = ValidatorStore(path)
            rows += store.verdicts(order_id)
            store.close()
    return sorted(rows, key=lambda v: (v.leg, v.round, v.slot, v.issue))


def loss_curve(network: Network, on_chain: OrderResponse) -> dict[float, float]:
    """Return the mean loss over all slots after each segment of the closed rounds, by the number of rounds trained.

    Rounds that are not closed are left out, because a cheating provider may have made their shares. The values
    come from the winning validator's records on this machine, which hold the rounds whose windows are open; the chain
    has only hashes.
    """
    order = on_chain.order
    closed = {round.round for round in on_chain.rounds_of(order.legs)}
    points: dict[float, list[float]] = {}
    for spec in network.layout.validators:
        path = Path(spec.home) / "validator" / "validator.db"
        if not path.exists():
            continue
        store = ValidatorStore(path)
        local = store.latest(order.id)
        store.close()
        for current in local.rounds if local else ():
            for work in current.works if current.round in closed else ():
                if work.packet and not work.verdict:
                    boundaries = work.packet.boundaries
                    for index, boundary in enumerate(boundaries, 1):
                        at = round(current.round + index / len(boundaries), 3)
                        points.setdefault(at, []).append(metric_values(boundary.metrics)[0])
    slots = order.terms.slots
    return {at: sum(values) / slots for at, values in points.items() if len(values) == slots}


def _second(finished: Finished) -> dict[str, object] | None:
    """Return the outcome of the second order; None if there is no second order.

    ``same_model`` is true if both orders produced the same model.
    """
    second = finished.second
    if second is None:
        return None
    return {
        "id": second.order.id,
        "validator": second.current.validator if second.current else "",
        "price_per_pflop": second.current.price if second.current else 0,
        "closed": second.order.close_reason,
        "providers": sorted({share.claim.provider for share in second.shares}),
        "same_model": bool(second.rounds) and second.rounds[-1].next_root == finished.on_chain.rounds[-1].next_root,
    }


def summary(finished: Finished, quality: dict[str, object]) -> dict[str, object]:
    """Return the results of the demo as a JSON object, with ``quality`` as its description of the model.

    All amounts of money come from the chain.
    """
    on_chain = finished.on_chain
    layout = finished.network.layout
    names = {spec.address: spec.name for spec in layout.providers}
    paid = {"provider", "validator", "auditor"}
    payouts: dict[str, int] = {}
    for payment in on_chain.payments:
        if payment.kind in paid:
            payouts[payment.to] = payouts.get(payment.to, 0) + payment.amount
    fees = sum(p.amount for p in on_chain.payments if p.kind == "protocol")
    refund = sum(row.refunded for row in on_chain.escrow.depositors)
    wrong = [share for share in on_chain.shares if share.state is ShareState.WRONG]
    cheat = wrong[0] if wrong else None
    places = {v.key: v.segment for v in finished.verdicts}
    return {
        "validators": len(layout.validators),
        "providers": len(layout.providers),
        "blocks": finished.blocks,
        "order": {
            "id": on_chain.order.id,
            "job": on_chain.order.terms.job_id,
            "price_per_pflop": finished.price,
            "deposit": finished.deposit,
            "flops_quoted": total_work(order_terms(finished.job)),
            "flops_verified": on_chain.order.work_verified,
            "closed": on_chain.order.close_reason,
        },
        "second_order": _second(finished),
        "model": quality,
        "rounds": sum(r.verified for r in on_chain.rounds),
        "tier": on_chain.legs[-1].tier,
        "rounds_with_panel": sum(panel.dispute == 0 for panel in on_chain.panels),
        "loss": [{"rounds_trained": at, "loss": value} for at, value in finished.curve],
        "verdicts": [
            {
                "provider": v.provider,
                "name": names.get(v.provider, ""),
                "round": v.round,
                "slot": v.slot,
                "segments_committed": v.segments,
                "segments_checked": v.checked,
                "verdict": "rejected" if v.reason else "accepted",
                "reason": ShareReason(v.reason).name.lower() if v.reason else "",
            }
            for v in finished.verdicts
        ],
        "cheat": {
            "meant": next(spec.address for spec in layout.providers if spec.misbehave),
            "provider": cheat.claim.provider if cheat else "",
            "method": CHEAT_METHOD,
            "round": cheat.claim.round if cheat else -1,
            "slot": cheat.claim.slot if cheat else -1,
            "segment": places[cheat.claim.key] if cheat else -1,
            "stood": stand_verdict(on_chain, cheat) if cheat else "",
        },
        "payouts": payouts,
        "fees": fees,
        "refund": refund,
        "deposit_accounted": sum(payouts.values()) + refund + fees == finished.deposit,
        "result": {"path": str(finished.path), "sha256": finished.sha256},
        "machines": [asdict(machine) for machine in finished.machines],
        "seconds": finished.seconds,
    }
