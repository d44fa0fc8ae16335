"""The validator's loop: read the chain, decide, act, remember. All judgement is in :mod:`validator.decide`.

One thread looks and decides about every duty; actions run in their lanes (:mod:`host.lanes`), or at once where they
wait for nobody.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
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
from pol.executor.names import DEFAULT
from pol.work.pool import PoolError, ReplayPool
from validator import metrics
from validator.decide.actions import Action, Lane, SendAnswer, SendNotice, SendTx
from validator.decide.admission import Admission, Policy
from validator.decide.duties import Duty, decide, duties
from validator.decide.outgoing import Outgo
from validator.decide.view import ChainView, Look
from validator.ledger import Ledger
from validator.observer import Observer
from validator.serve.service import Service
from validator.store import COMPUTING, StoreError, ValidatorStore, locked
from validator.work import numerics
from validator.work.files import clear
from validator.work.outbox import Outbox
from validator.work.perform import Performer, Table, work_of
from validator.work.probe import ProbeChecker
from validator.work.seats import Auditor
from validator.work.upkeep import Keeper
from wire.keys import Key, SignatureVerifier

_log = logging.getLogger("assay.validator")
R = TypeVar("R")
T = TypeVar("T")
TICK_SECONDS = 0.2
LEAST_SECONDS = 0.03
"""Between two looks, whoever wakes the loop."""
START_SECONDS = 300.0
"""For a process of the pool to be ready."""
THREADS = {Lane.WORK: 8, Lane.TRIAL: 1, Lane.AUDIT: 256}
"""How many actions of a lane run at a time."""
EXPECTED = (ChainError, ClusterError, PoolError, OSError)
"""What an action may end with that is no bug."""


@dataclass(frozen=True, slots=True)
class ValidatorConfig:
    """Where a validator's daemon lives and what it talks to."""

    home: Path
    node: str  # gRPC address of its node, host:port
    listen: str  # host:port of the cluster service
    endpoint: str  # host:port under which others reach it; published on chain
    backend: str = DEFAULT
    processes: int = 1
    blob_quota: int = 1 << 36
    owner_quota: int = 1 << 34
    admit: Policy = Policy.OPEN
    # Where metrics and health are told on 127.0.0.1; 0: nowhere.
    metrics_port: int = 0


class WrongChain(ChainError):
    """The node is of another chain than the one that this home has worked for."""

    def __init__(self, address: str, chain_id: str, known: str) -> None:
        """Name the node and both chains."""
        super().__init__(
            ErrorKind.BAD_RESPONSE,
            f"the node at {address} is of {chain_id}, and this home has worked for {known}",
            "give a node of that chain (--node), or another --home",
        )


PURPOSE = "validator"
"""What an operator's key is in use for, as its lock has it."""


def _in_use(pid: int) -> StoreError:
    return StoreError(
        f"another validator's daemon of this machine uses this key, as process {pid or '?'}",
        "end one of the two, the one whose home is a copy: each would publish its own endpoint",
    )


class ValidatorDaemon:
    """A validator's daemon; :meth:`run` returns when ``stop`` is set."""

    def __init__(self, config: ValidatorConfig, key: Key, stop: Event) -> None:
        """Open the stores and connect; nothing is sent before :meth:`run`."""
        self._config, self._stop = config, stop
        self._me = key.address
        self._wake = Event()
        # Before anything is opened: who opens the records sets aside what it cannot read.
        self._held = ExitStack()
        self._held.enter_context(locked(config.home))
        self._held.enter_context(secret_held(key.secret, PURPOSE, _in_use))
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
        counted, scratch = self._counts.replays, config.home / "scratch"
        clear(scratch)
        self._scratch = scratch
        self._pool = ReplayPool(config.processes, folder=scratch, ended=counted("own"))
        # Silence on a seat is cut: no replay of its own rounds, however long, keeps this validator from it.
        self._seat_pool = ReplayPool(config.processes, folder=scratch, ended=counted("seats"))
        self._trials = ReplayPool(1, folder=config.home / "trials", fresh=True, ended=counted("trials"))
        self._lanes = Lanes(THREADS, stop, self._wake, EXPECTED, ended=self._counts.ended)
        self._observer = Observer(self._me, self._client, self._ledger)
        self._secret = derive_scalar(key.secret, "assay/validator-secret")
        self._links = Connections(key)
        self._outbox = Outbox(self._sender, self._sent, stop, self._wake, EXPECTED, ended=self._counts.sent)
        pools = {"own": self._pool, "seats": self._seat_pool, "trials": self._trials}
        self._told = metrics.ValidatorHealth(
            me=self._me,
            node=config.node,
            home=config.home,
            meters=self._meters,
            client=self._client,
            blobs=self._blobs,
            lanes=self._lanes,
            pools=pools,
        )
        self._meters.before_scrape(self._told.look)
        # Chain clock at the first look.
        self._since: int | None = None

    # Life

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Wait for the node, publish the endpoint, serve, and work until stopped.

        ChainError where waiting cannot help: a node of another chain, a key that is no validator's.
        """
        with away.closed_at(self._stop, self._client):
            self._run(ready)

    def _run(self, ready: Callable[[], None] | None) -> None:
        server: ClusterServer | None = None
        told = self._tell()
        prepared = [
            self._seat_pool.submit(numerics.prepare, self._config.backend, timeout=START_SECONDS)
            for _ in range(self._config.processes)
        ]
        try:
            self._node.wait_for(self._connect)
            # Before anything is signed: with a wrong clock the calls of others are refused.
            self._clock.wait_until_right(lambda: self._node.ask(self._client.status), self._stop, _log.warning)
            # Looked at once, so that the first callers meet somebody who knows them.
            self._node.wait_for(self._look)
            if self._stop.is_set():
                return
            self._check_operator()
            self._say_what_computes(prepared[0])
            server = ClusterServer(self._config.listen, self._certificate, self._service, self._chain_id)
            server.start()
            while not self._stop.is_set():
                self._tick()
                self._told.turned = time.monotonic()
                self._told.away = self._node.away
                self._told.published = self._ledger.standing.published
                if ready and self._ledger.standing.published:
                    ready()
                    ready = None
                self._wake.wait(TICK_SECONDS)
                self._wake.clear()
                self._stop.wait(LEAST_SECONDS)
        finally:
            self._stop.set()
            if told is not None:
                told.close()
            if server is not None:
                server.stop()
            self._close()

    def _tell(self) -> MetricsServer | None:
        """Tell metrics and health on the port for that, where there is one."""
        port, told = self._config.metrics_port, self._told
        if not port:
            return None
        return MetricsServer(port, self._meters, health=told.health, ready=told.readiness)

    def _connect(self) -> None:
        self._chain_id = self._check_chain()
        verify = self._counts.verifying(SignatureVerifier())
        self._service = Service(self._me, self._chain_id, self._ledger, verify, self._wake)
        self._told.service = self._service
        self._certificate = make_certificate(self._config.home)
        self._table = self._make_table()

    def _make_table(self) -> Table:
        """Return how each kind of action is carried out, and say what follows what was sent."""
        ledger, blobs, jobs = self._ledger, self._blobs, self._jobs
        performer = Performer(
            chain_id=self._chain_id,
            secret=self._secret,
            client=self._client,
            ledger=ledger,
            blobs=blobs,
            jobs=jobs,
            scratch=self._scratch,
            pool=self._pool,
            trials=self._trials,
            backend=self._config.backend,
            processes=self._config.processes,
            clock=lambda: self._service.view.clock,
        )
        auditor = Auditor(
            ledger=ledger,
            blobs=blobs,
            jobs=jobs,
            run=self._run_for_seat,
            backend=self._config.backend,
            connect=self._link,
            clock=lambda: self._service.view.clock,
        )
        keeper = Keeper(ledger=ledger, blobs=blobs, jobs=jobs, keep_providers=self._service.presence.keep)
        self._receipts: Mapping[type, Callable[[Any, TxReceipt], None]] = {
            SendTx: performer.sent,
            SendNotice: performer.sent,
            SendAnswer: auditor.answered,
        }
        prober = ProbeChecker(performer.run, self._config.backend, self._service.prober.judge)
        return {**performer.table(), **auditor.table(), **keeper.table(), **prober.table()}

    def _check_chain(self) -> str:
        """Return the chain's id, which never changes for a home."""
        status = self._client.status()
        chain_id = status.chain_id
        before = self._clock.problem
        if self._clock.look(status) not in ("", before):
            _log.warning("%s; %s", self._clock.problem, REMEDY)
        self._told.clock = self._clock.problem
        known = self._store.chain(chain_id)
        if known != chain_id:
            raise WrongChain(self._config.node, chain_id, known)
        return chain_id

    def _close(self) -> None:
        """Close what threads wait for, then wait for the threads, then close what they write to."""
        self._client.close()
        self._links.close()
        self._pool.close()
        self._seat_pool.close()
        self._trials.close()
        self._lanes.close()
        self._outbox.close()
        self._store.close()
        self._blobs.close()
        self._held.close()

    def _check_operator(self) -> None:
        if self._me not in self._service.view.validators:
            raise ChainError(
                ErrorKind.NOT_FOUND,
                f"{self._me} is not a validator of {self._chain_id}",
                "run this with the operator's key (--from)",
            )

    def _say_what_computes(self, prepared: Future[str]) -> None:
        """Log what a process of the pool has found, and keep it for others; ExecutionError where nothing computes."""
        try:
            computing = prepared.result()
        except PoolError as error:
            _log.warning("what computes is not known: %s", error)
            return
        _log.info("computing with %s", computing)
        write_whole(self._config.home / COMPUTING, computing)

    # One look at the chain

    def _tick(self) -> None:
        try:
            # Another node may have taken the address between two looks.
            if self._node.away or self._observer.slow:
                self._check_chain()
            self._look()
            self._node.back()
            self._told.looked = self._observer.began
            self._act()
        except WrongChain:
            raise
        except ChainError as error:
            self._node.lost(error)
            self._stop.wait(away.PAUSE_SECONDS)
        except (OSError, sqlite3.Error) as error:  # a full disk: go on when there is room again
            _log.error("the disk under %s: %s", self._config.home, error)
            self._stop.wait(1.0)

    def _look(self) -> None:
        # Until the endpoint stands on chain, callers and audits wait for it.
        whole = not self._ledger.standing.published
        service, asking = self._service, self._service.asking.names()
        view = self._observer.look(service.view, whole=whole, asking=asking)
        if self._since is None:
            self._since = view.clock
        if view.whole:
            service.admission = Admission(self._config.admit, self._store.named())
            self._watch_endpoint(view)
        service.see(view, asking)

    def _watch_endpoint(self, view: ChainView) -> None:
        """Say once that the chain has another endpoint or certificate than this daemon has published."""
        own = view.validators.get(self._me)
        mine = (self._config.endpoint, self._certificate.der)
        before, self._told.rival = self._told.rival, ""
        if self._ledger.standing.published and own is not None and (own.endpoint, own.certificate) != mine:
            self._told.rival = (
                f"another daemon with this operator's key has published {own.endpoint}, so that nobody calls this one;"
                " end one of the two, and start the other anew"
            )
        if self._told.rival and not before:
            _log.error("%s", self._told.rival)

    def _act(self) -> None:
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
            held=self._ledger.held_openings(view.orders.values(), self._me),
        )
        wanted: list[Outgo] = []
        for duty in duties(look):
            try:
                wanted += self._decide(duty, look)
            except (OSError, sqlite3.Error):
                raise
            except Exception:  # noqa: BLE001 - logged; one duty must not take the others down
                _log.exception("bug in %s", duty)
        self._outbox.want(wanted, self._observer.began, whole=look.chain.whole)

    def _decide(self, duty: Duty, look: Look) -> list[Outgo]:
        """Decide about a duty, and act; what waits for nobody is done before its record can change again.

        What is to be sent is returned: all duties' goes out together.
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
        """Take note of what came of a transaction."""
        self._receipts[type(action)](action, receipt)

    def _run_for_seat(self, seconds: float, function: Callable[[R], T], request: R) -> T:
        """Run a function in the pool for seats, where what has to end first begins first."""
        return self._seat_pool.submit(function, request, timeout=seconds).result()

    def _link(self, operator: str) -> ClusterClient:
        """Return a client of another validator; ClusterError where there is none."""
        validator = self._service.view.validators.get(operator)
        if validator is None:
            raise ClusterError(ClusterErrorKind.UNREACHABLE, f"{operator} is no validator (any more)")
        return self._links.client(validator, self._chain_id)
