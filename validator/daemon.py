"""The validator's loop: read the chain, decide, act, record. All decisions are made in :mod:`validator.decide`.

One thread reads the chain and decides about every duty. Actions run in their lanes (:mod:`host.lanes`); an action that
waits for nothing runs at once.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from chain.client import away
from chain.client.client import ChainClient, TxReceipt
from chain.client.clock import REMEDY, ClockCheck
from chain.client.errors import ChainError, ErrorKind
from chain.client.sender import TxSender
from host.files import write_whole
from host.lanes import Lanes
from host.lock import secret_held
from host.metrics import Meters, MetricsServer
from link.blobs import BlobStore
from link.client import ClusterClient, Connections
from link.errors import ClusterError, ClusterErrorKind
from link.handover import derive_scalar
from link.server import ClusterServer
from link.tls import make_certificate
from pol.executor.names import DEFAULT_ENGINE, Engine
from pol.machines.form import Shape, number_of
from pol.work.cluster.dispatch import NodeReport
from pol.work.cluster.seen import forget_nodes, write_nodes
from pol.work.executor import LOCAL, PoolError
from pol.work.replayer import Lane as ReplayLane
from validator import metrics
from validator.decide.actions import Action, Lane, SendAnswer, SendNotice, SendTx
from validator.decide.admission import NEWCOMER_ROUNDS, UNCOVERED, Admission, Backing, Policy
from validator.decide.duties import Duty, decide, duties
from validator.decide.mirrors import QUOTA_PART
from validator.decide.outgoing import Outgo
from validator.decide.trial import GROUP_STARTS
from validator.decide.view import ChainView, Look
from validator.ledger import Ledger
from validator.observer import Observer
from validator.serve.service import Service
from validator.store import COMPUTING, StoreError, ValidatorStore, locked
from validator.work import numerics
from validator.work.attest import Attester
from validator.work.files import clear
from validator.work.mirrors import MirrorKeeper
from validator.work.outbox import Outbox
from validator.work.perform import OWN, SEATS, TRIALS, Performer, Table, work_of
from validator.work.probe import ProbeChecker
from validator.work.results import ResultFinder
from validator.work.seats import Auditor
from validator.work.states import StateFetcher, StatesFinder
from validator.work.together import start_together
from validator.work.upkeep import Keeper
from validator.work.witness import Witness
from wire.keys import Key, SignatureVerifier

_log = logging.getLogger("assay.validator")
R = TypeVar("R")
T = TypeVar("T")
TICK_SECONDS = 0.5
"""Longest pause between two looks. A look asks the node several times, and blocks take about a second."""
LEAST_SECONDS = 0.03
"""Shortest pause between two looks, however often the loop is woken."""
START_SECONDS = 300.0
"""Longest time (s) for the start of a process of the pool."""
THREADS = {Lane.WORK: 8, Lane.TRIAL: 1, Lane.AUDIT: 256, Lane.MIRROR: 4}
"""Number of actions that may run at a time, by lane."""
CLUSTER_WORKS = 48
"""The same for places of own rounds on a cluster, which replays all drawn segments of a share at once."""
EXPECTED = (ChainError, ClusterError, PoolError, OSError)
"""Errors that an action may raise without a bug in this program."""


@dataclass(frozen=True, slots=True)
class ValidatorConfig:
    """The settings of a validator's daemon: its home, its addresses, and its limits in bytes and processes."""

    home: Path
    node: str  # gRPC address of its node, host:port
    listen: str  # host:port of the cluster service
    endpoint: str  # host:port at which others reach it; published on the chain
    engine: Engine = DEFAULT_ENGINE
    # A value of --executor: where replays run.
    executor: str = LOCAL
    # Machines that replay a segment together, or stages and machines per stage.
    machines: Shape = 1
    processes: int = 1
    blob_quota: int = 1 << 36
    owner_quota: int = 1 << 34
    admit: Policy = Policy.INVITED
    # The bonds that tasks state for providers that were admitted without an invitation of their own.
    backing: Backing = UNCOVERED
    # Port on 127.0.0.1 that serves metrics and health; 0 means no port.
    metrics_port: int = 0
    # The validators that this one names as mirrors of its rounds, and those whose rounds it mirrors.
    mirrors: tuple[str, ...] = ()
    mirror_for: tuple[str, ...] = ()
    # Rounds that may wait for their panels while one of them has a newcomer's share.
    newcomer_rounds: int = NEWCOMER_ROUNDS


class WrongChain(ChainError):
    """The error that is raised if the node belongs to another chain than this home."""

    def __init__(self, address: str, chain_id: str, known: str) -> None:
        """Take the node's address, its chain id, and the chain id of this home."""
        super().__init__(
            ErrorKind.BAD_RESPONSE,
            f"the node at {address} belongs to {chain_id}, but this home belongs to {known}",
            f"use a node of {known} (--node), or another --home",
        )


PURPOSE = "validator"
"""The purpose that is recorded in the lock on an operator's key."""


def _in_use(pid: int) -> StoreError:
    return StoreError(
        f"another validator's daemon on this machine already uses this key: process {pid or '?'}",
        "stop the daemon whose --home is a copy: each of the two daemons would publish its own endpoint",
    )


class ValidatorDaemon:
    """A validator's daemon; :meth:`run` returns when ``stop`` is set."""

    def __init__(self, config: ValidatorConfig, key: Key, stop: Event) -> None:
        """Open the stores and the connection; nothing is sent before :meth:`run`."""
        self._config = config
        self._stop = stop
        self._me = key.address
        self._pub_key = key.pub_key
        self._sign = key.sign
        self._wake = Event()
        # The home is locked before its records are opened, because opening them moves damaged records away.
        self._locks = ExitStack()
        self._locks.enter_context(locked(config.home))
        self._locks.enter_context(secret_held(key.secret, PURPOSE, _in_use))
        self._client = ChainClient(config.node)
        self._node = away.WatchedNode(config.node, stop, _log.warning)
        self._clock = ClockCheck()
        self._sender = TxSender(self._client, key)
        self._store = ValidatorStore(config.home / "validator.db")
        self._store.set_aside_damaged()
        self._blobs = BlobStore(config.home / "blobs", config.blob_quota, config.owner_quota, config.blob_quota // 4)
        self._jobs = config.home / "jobs"
        self._ledger = Ledger(self._store, self._blobs, self._wake)
        self._meters = Meters(metrics.METRICS)
        self._counts = metrics.ValidatorCounts(self._meters)
        self._scratch = scratch = config.home / "scratch"
        clear(scratch)
        reads = (self._jobs, config.home / "blobs")
        own = ReplayLane(
            name=OWN, processes=config.processes, folder=scratch, reads=reads, ended=self._counts.replays(OWN)
        )
        # A lane of its own, so that long replays of own rounds cannot delay a seat: a missed seat costs stake.
        seats = replace(own, name=SEATS, ended=self._counts.replays(SEATS))
        trials = ReplayLane(
            name=TRIALS,
            processes=1,
            folder=config.home / "trials",
            reads=reads[:1],
            fresh=True,
            ended=self._counts.replays(TRIALS),
        )
        lanes = own, seats, trials
        # A daemon that was killed could not delete the file.
        forget_nodes(config.home)
        self._replayer = start_together(
            config.executor, config.engine, lanes, (OWN, SEATS, TRIALS), config.machines, config.home, self._see_nodes
        )
        threads = THREADS if config.executor == LOCAL else {**THREADS, Lane.WORK: CLUSTER_WORKS}
        self._lanes = Lanes(threads, stop, self._wake, EXPECTED, ended=self._counts.ended)
        self._observer = Observer(
            self._me,
            self._client,
            self._ledger,
            mirror_for=config.mirror_for,
            mirror_bytes=config.blob_quota // QUOTA_PART,
        )
        self._secret = derive_scalar(key.secret, "assay/validator-secret")
        self._links = Connections(key)
        self._outbox = Outbox(self._sender, self._sent, stop, self._wake, EXPECTED, ended=self._counts.sent)
        self._health = metrics.ValidatorHealth(
            me=self._me,
            node=config.node,
            home=config.home,
            meters=self._meters,
            client=self._client,
            blobs=self._blobs,
            lanes=self._lanes,
            pools=self._replayer.lanes,
        )
        self._meters.before_scrape(self._health.look)
        # Chain clock (seconds) at the first look.
        self._since: int | None = None

    # Life

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Wait for the node, publish the endpoint, serve calls, and do the duties until the daemon is stopped.

        ChainError if waiting cannot help, because the node belongs to another chain or the key is not that of a
        validator.
        """
        with away.closed_at(self._stop, self._client):
            self._run(ready)

    def _run(self, ready: Callable[[], None] | None) -> None:
        server: ClusterServer | None = None
        metrics_server = self._start_metrics()
        prepared = [
            self._replayer.lanes[SEATS].submit(numerics.prepare, self._config.engine, timeout=START_SECONDS)
            for _ in range(self._config.processes)
        ]
        try:
            self._node.wait_for(self._connect)
            # The clock is checked before the server starts: with a wrong clock, the server would refuse the calls of
            # others.
            self._clock.wait_until_right(lambda: self._node.ask(self._client.status), self._stop, _log.warning)
            # There is a first look before the server starts, so that the server knows its first callers.
            self._node.wait_for(self._look)
            if self._stop.is_set():
                return
            self._check_operator()
            self._log_backend(prepared[0])
            server = ClusterServer(self._config.listen, self._certificate, self._service, self._chain_id)
            server.start()
            while not self._stop.is_set():
                self._tick()
                self._replayer.tend()
                self._health.turned = time.monotonic()
                self._health.away = self._node.away
                self._health.published = self._ledger.standing.published
                if ready and self._ledger.standing.published:
                    ready()
                    ready = None
                self._wake.wait(TICK_SECONDS)
                self._wake.clear()
                self._stop.wait(LEAST_SECONDS)
        finally:
            self._stop.set()
            if metrics_server is not None:
                metrics_server.close()
            if server is not None:
                server.stop()
            self._close()

    def _start_metrics(self) -> MetricsServer | None:
        """Start and return the server of metrics and health; return None if the configuration has no port for it."""
        port = self._config.metrics_port
        if not port:
            return None
        return MetricsServer(port, self._meters, health=self._health.health, ready=self._health.readiness)

    def _connect(self) -> None:
        self._chain_id = self._check_chain()
        verify = self._counts.verifying(SignatureVerifier())
        self._service = Service(
            self._me, self._chain_id, self._ledger, verify, self._wake, self._pub_key, self._secret, self._sign
        )
        self._service.admission = self._make_admission(frozenset())
        self._health.service = self._service
        self._certificate = make_certificate(self._config.home)
        self._table = self._make_table()

    def _make_table(self) -> Table:
        """Return the functions that carry out actions, by the action's class.

        Also set the functions that handle receipts.
        """
        ledger = self._ledger
        blobs = self._blobs
        jobs = self._jobs
        performer = Performer(
            chain_id=self._chain_id,
            secret=self._secret,
            client=self._client,
            ledger=ledger,
            blobs=blobs,
            jobs=jobs,
            scratch=self._scratch,
            replayer=self._replayer,
            engine=self._config.engine,
            processes=self._config.processes,
            clock=lambda: self._service.view.clock,
            starts=1 if number_of(self._config.machines) == 1 else GROUP_STARTS,
            alarmed=self._counts.alarmed,
        )
        auditor = Auditor(
            ledger=ledger,
            blobs=blobs,
            jobs=jobs,
            scratch=self._scratch,
            run=self._run_for_seat,
            engine=self._config.engine,
            connect=self._link,
            clock=lambda: self._service.view.clock,
        )
        mirrors = MirrorKeeper(ledger=ledger, blobs=blobs, connect=self._link)
        keeper = Keeper(ledger=ledger, blobs=blobs, jobs=jobs, keep_providers=self._service.presence.keep)
        self._receipts: Mapping[type, Callable[[Any, TxReceipt], None]] = {
            SendTx: performer.sent,
            SendNotice: performer.sent,
            SendAnswer: auditor.answered,
        }
        states = StateFetcher(ledger=ledger, blobs=blobs, run=performer.run, connect=self._link)
        finder = StatesFinder(states, self._run_for_seat, lambda: self._service.view.clock)
        results = ResultFinder(
            ledger=ledger,
            blobs=blobs,
            run=self._run_for_seat,
            connect=self._link,
            clock=lambda: self._service.view.clock,
        )
        witness = Witness(me=self._me, ledger=ledger, blobs=blobs, connect=self._link)
        attester = Attester(chain_id=self._chain_id, client=self._client, ledger=ledger, run=self._run_for_seat)
        prober = ProbeChecker(performer.run, self._config.engine, self._service.prober.judge)
        return {
            **performer.table(),
            **auditor.table(),
            **mirrors.table(),
            **keeper.table(),
            **states.table(),
            **finder.table(),
            **results.table(),
            **witness.table(),
            **attester.table(),
            **prober.table(),
        }

    def _check_chain(self) -> str:
        """Check the clock, and return the chain's id; WrongChain if this home belongs to another chain."""
        status = self._client.status()
        chain_id = status.chain_id
        before = self._clock.problem
        if self._clock.look(status) not in ("", before):
            _log.warning("%s; %s", self._clock.problem, REMEDY)
        self._health.clock = self._clock.problem
        known = self._store.chain(chain_id)
        if known != chain_id:
            raise WrongChain(self._config.node, chain_id, known)
        return chain_id

    def _close(self) -> None:
        """Close the connections and pools that threads wait for, then end the threads, then close the stores."""
        self._client.close()
        self._links.close()
        self._replayer.close()
        forget_nodes(self._config.home)
        self._lanes.close()
        self._outbox.close()
        self._store.close()
        self._blobs.close()
        self._locks.close()

    def _check_operator(self) -> None:
        if self._me not in self._service.view.validators:
            raise ChainError(
                ErrorKind.NOT_FOUND,
                f"{self._me} is not a validator of {self._chain_id}",
                "start the daemon with the operator's key (--from)",
            )

    def _log_backend(self, prepared: Future[str]) -> None:
        """Log the name of the back end that a process of the pool loaded, and write the name to a file; ExecutionError
        if no back end works.
        """
        try:
            computing = prepared.result()
        except PoolError as error:
            _log.warning("cannot find out which back end computes: %s", error)
            return
        _log.info("computing with %s", computing)
        write_whole(self._config.home / COMPUTING, computing)

    # One look at the chain

    def _tick(self) -> None:
        try:
            # Another node may have taken over the address since the last look.
            if self._node.away or self._observer.slow:
                self._check_chain()
            self._look()
            self._node.back()
            self._health.looked = self._observer.began
            self._act()
        except WrongChain:
            raise
        except ChainError as error:
            self._node.lost(error)
            self._stop.wait(away.PAUSE_SECONDS)
        except (OSError, sqlite3.Error) as error:  # such as a full disk, which may have space again later
            remedy = "free some space on this disk, or make it writable: the daemon then continues by itself"
            _log.error("cannot read or write in %s: %s; %s", self._config.home, error, remedy)
            self._stop.wait(1.0)

    def _look(self) -> None:
        """Read the chain, and update the view and the admission rules from which the service answers."""
        # Until the endpoint is seen on the chain, each look reads everything: callers and audits wait for the endpoint.
        whole = not self._ledger.standing.published
        service = self._service
        asking = service.asking.names()
        view = self._observer.look(service.view, whole=whole, asking=asking, bonding=service.bonding.names())
        if self._since is None:
            self._since = view.clock
        if view.whole:
            operators = frozenset(view.validators) - {self._me}
            service.admission = self._make_admission(operators)
            self._watch_endpoint(view)
        service.see(view, asking)

    def _make_admission(self, operators: frozenset[str]) -> Admission:
        store = self._store
        return Admission(
            policy=self._config.admit,
            named=store.named(),
            operators=operators,
            backings=store.backings(),
            backing=self._config.backing,
        )

    def _watch_endpoint(self, view: ChainView) -> None:
        """Log an error, once, if the chain has another endpoint or certificate than this daemon published."""
        own = view.validators.get(self._me)
        mine = (self._config.endpoint, self._certificate.der)
        before = self._health.rival
        self._health.rival = ""
        if self._ledger.standing.published and own is not None and (own.endpoint, own.certificate) != mine:
            self._health.rival = (
                f"another daemon with this operator's key has published {own.endpoint}, so no one calls this daemon;"
                " stop one of the two daemons, and restart the other"
            )
        if self._health.rival and not before:
            _log.error("%s", self._health.rival)

    def _act(self) -> None:
        """Decide about every duty, start the actions, and queue the transactions."""
        view = self._service.view
        look = Look(
            chain=view,
            me=self._me,
            chain_id=self._chain_id,
            secret=self._secret,
            since=self._since or 0,
            workers=self._service.workers(),
            machines=self._service.presence.machines(),
            endpoint=self._config.endpoint,
            certificate=self._certificate.der,
            seats=self._store.seats(),
            measured=self._service.prober.measured(),
            doubted=self._service.doubted,
            held=self._ledger.held_initial_states(view.orders.values(), self._me),
            # The chain refuses a message that names an account without a validator.
            mirrors=tuple(name for name in self._config.mirrors if name in view.validators),
            witnesses=self._store.witnesses(),
            attests=self._store.attests(),
            newcomer_rounds=self._config.newcomer_rounds,
        )
        wanted: list[Outgo] = []
        for duty in duties(look):
            try:
                wanted += self._decide(duty, look)
            except (OSError, sqlite3.Error):
                raise
            except Exception:  # noqa: BLE001 - logged; a bug in one duty must not stop the others
                _log.exception("bug in %s", duty)
        self._outbox.want(wanted, self._observer.began, whole=look.chain.whole)

    def _decide(self, duty: Duty, look: Look) -> list[Outgo]:
        """Decide about a duty, carry out or start its actions, and return the actions that send a transaction.

        Actions that wait for nothing are carried out under the lock, before the record can change again. The
        transactions of all duties are sent together.
        """
        with self._ledger.lock:
            before = self._ledger.get(duty)
            after, actions = decide(duty, before, look)
            if after is not None and after != before:
                self._ledger.put(duty, before, after)
            for action in actions:
                if action.lane == Lane.HERE:
                    work_of(self._table, action)()
        wanted: list[Outgo] = []
        for action in actions:
            if isinstance(action, Outgo):
                wanted.append(action)
            elif action.lane != Lane.HERE:
                self._start(action)
        return wanted

    def _start(self, action: Action) -> None:
        self._lanes.start(action.key, work_of(self._table, action), action.lane, self._observer.began)

    def _sent(self, action: Outgo, receipt: TxReceipt) -> None:
        """Handle the receipt of the transaction that carried an action's messages."""
        self._receipts[type(action)](action, receipt)

    def _run_for_seat(self, seconds: float, function: Callable[[R], T], request: R) -> T:
        """Run a function in the lane of seats, and return its result."""
        return self._replayer.recompute(SEATS, function, request, seconds)

    def _see_nodes(self, nodes: tuple[NodeReport, ...]) -> None:
        """Write the nodes of a cluster to a file, for `assay validator status` and the console."""
        write_nodes(self._config.home, nodes)

    def _link(self, operator: str) -> ClusterClient:
        """Return a client of another validator; ClusterError if there is no such validator."""
        validator = self._service.view.validators.get(operator)
        if validator is None:
            raise ClusterError(ClusterErrorKind.UNREACHABLE, f"{operator} is not, or no longer, a validator")
        return self._links.client(validator, self._chain_id)
