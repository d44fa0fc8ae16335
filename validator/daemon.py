"""The validator's loop: read the chain, decide, act, remember. All judgement is in :mod:`validator.decide.orders`.

One thread reads the chain and decides; actions run in the lanes of :mod:`host.lanes`: transactions one after the
other, replays in the process pool, and audits, which wait for others, beside them.
"""

import logging
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Event

from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind
from chain.client.sender import TxSender
from domain.messages import MsgAnswerAudit, MsgCertifyProvider, MsgSetEndpoint
from domain.queries import AuditDuty, OrderRequest, OrderResponse, ValidatorsRequest
from domain.records import OrderState
from host.lanes import Lanes
from link.blobs import BlobStore
from link.client import ClusterClient
from link.connections import Connections
from link.errors import ClusterError, Kind
from link.handover import derive_scalar
from link.server import ClusterServer
from link.tls import make_certificate
from pol.work.pool import PoolError, ReplayPool
from validator.decide.actions import SendTx, View
from validator.decide.orders import decide
from validator.ledger import Ledger
from validator.observer import CERTIFY_SECONDS, Observer
from validator.serve.service import Service
from validator.store import ValidatorStore
from validator.verdicts import VerdictBook
from validator.waiting import Node, WrongChain
from validator.work.audit import Auditor
from validator.work.files import sweep
from validator.work.perform import Performer
from wire.keys import Key, SignatureVerifier

_log = logging.getLogger("assay.validator")
TICK_SECONDS = 0.2
LEAST_SECONDS = 0.03
"""Between two looks, whoever wakes the loop."""
KEEP_SECONDS = 7 * 86_400
"""How long a result is served after its order closed (protocol section 6.2), on the chain clock."""
UNCLAIMED_SECONDS = 3_600
"""How long bytes are kept that nothing names."""
UNUSED_SECONDS = 86_400
"""How long a job directory is kept that nobody uses."""
CLEAN_SECONDS = 60.0
EXPECTED = (ChainError, ClusterError, PoolError, OSError)
"""What an action may end with that is no bug."""


class Lane(StrEnum):
    """Where an action runs."""

    TX = "tx"
    WORK = "work"
    AUDIT = "audit"


# A seat in each of so many rounds: an audit whose winner is silent keeps its thread to the end.
THREADS = {Lane.TX: 1, Lane.WORK: 8, Lane.AUDIT: 64}


@dataclass(frozen=True, slots=True)
class ValidatorConfig:
    """Where a validator's daemon lives and what it talks to."""

    home: Path
    node: str  # gRPC address of its node, host:port
    listen: str  # host:port of the cluster service
    endpoint: str  # host:port under which others reach it; published on chain
    backend: str = "numpy"
    processes: int = 1
    blob_quota: int = 1 << 36
    owner_quota: int = 1 << 34


class ValidatorDaemon:
    """A validator's daemon; :meth:`run` returns when ``stop`` is set."""

    def __init__(self, config: ValidatorConfig, key: Key, stop: Event) -> None:
        """Open the stores and connect; nothing is sent before :meth:`run`."""
        self._config, self._stop = config, stop
        self._me = key.address
        self._wake = Event()
        self._client = ChainClient(config.node)
        self._node = Node(self._client, stop)
        self._sender = TxSender(self._client, key)
        self._store = ValidatorStore(config.home / "validator.db")
        self._store.set_aside_damaged()
        self._blobs = BlobStore(
            config.home / "blobs", config.blob_quota, config.owner_quota, config.blob_quota // 4
        )
        self._jobs = config.home / "jobs"
        self._ledger = Ledger(self._store, self._blobs, self._wake)
        self._pool = ReplayPool(config.processes, folder=config.home / "scratch")
        self._lanes = Lanes(THREADS, stop, self._wake, EXPECTED)
        self._observer = Observer(self._me, self._client, self._ledger)
        self._verdicts = VerdictBook(self._store)
        self._secret = derive_scalar(key.secret, "assay/validator-secret")
        self._links = Connections(key)
        self._since: int | None = None  # chain clock at the first look
        self._clean_at = 0.0
        self._certifying = False  # such a transaction is under way

    # Life

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Wait for the node, publish the endpoint, serve, and work until stopped.

        ChainError where waiting cannot help: a node of another chain, a key that is no validator's.
        """
        server: ClusterServer | None = None
        try:
            # Looked at once, so that the first callers meet somebody who knows them.
            if not (self._node.wait_for(self._connect) and self._node.wait_for(self._look)):
                return
            certificate = make_certificate(self._config.home)
            server = ClusterServer(self._config.listen, certificate, self._service, self._chain_id)
            server.start()
            if not self._node.wait_for(partial(self._publish, certificate.der)):
                return
            if ready:
                ready()
            while not self._stop.is_set():
                self._tick()
                self._wake.wait(TICK_SECONDS)
                self._wake.clear()
                self._stop.wait(LEAST_SECONDS)
        finally:
            self._stop.set()
            if server is not None:
                server.stop()
            self._close()

    def _connect(self) -> None:
        self._chain_id = self._check_chain()
        self._service = Service(
            self._me, self._chain_id, self._ledger, SignatureVerifier(), self._wake
        )
        self._performer = Performer(
            self._chain_id,
            self._secret,
            self._client,
            self._sender,
            self._ledger,
            self._blobs,
            self._jobs,
            self._pool,
            self._config.backend,
        )

    def _check_chain(self) -> str:
        """Return the chain's id, which never changes for a home."""
        chain_id = self._client.status().chain_id
        known = self._store.chain(chain_id)
        if known != chain_id:
            raise WrongChain(self._config.node, chain_id, known)
        return chain_id

    def _close(self) -> None:
        """Close what threads wait for, then wait for the threads, then close what they write to."""
        self._client.close()
        self._links.close()
        self._pool.close()
        self._lanes.close()
        self._store.close()
        self._blobs.close()

    def _publish(self, certificate: bytes) -> None:
        """Put endpoint and certificate on chain where they differ from what is there."""
        validators = self._client.query(ValidatorsRequest()).validators
        own = next((v for v in validators if v.operator == self._me), None)
        if own is None:
            raise ChainError(
                ErrorKind.NOT_FOUND,
                f"{self._me} is not a validator of {self._chain_id}",
                "run this with the operator's key (--from)",
            )
        if (own.endpoint, own.certificate) != (self._config.endpoint, certificate):
            self._sender.send(MsgSetEndpoint(self._me, self._config.endpoint, certificate))

    # One look at the chain

    def _tick(self) -> None:
        try:
            # Another node may have taken the address between two looks.
            if self._node.away or self._observer.slow:
                self._check_chain()
            self._look()
            self._node.back()
            self._act()
        except WrongChain:
            raise
        except ChainError as error:
            self._node.lost(error)
        except (OSError, sqlite3.Error) as error:  # a full disk: go on when there is room again
            _log.error("the disk under %s: %s", self._config.home, error)
            self._stop.wait(1.0)

    def _act(self) -> None:
        self._certify()
        for duty in self._observer.audits:
            key = f"audit/{duty.order_id.hex()}/{duty.attempt}/{duty.round}/{duty.draw_ends}"
            self._lanes.start(key, partial(self._audit, duty), Lane.AUDIT, self._observer.began)
        for order_id, chain in self._service.view.orders.items():
            try:
                self._follow(order_id, chain)
            except (OSError, sqlite3.Error):
                raise
            except Exception:  # noqa: BLE001 - logged; one order must not take the others down
                _log.exception("bug in order %s", order_id.hex())
        if self._observer.slow and time.monotonic() >= self._clean_at:
            self._clean_at = time.monotonic() + CLEAN_SECONDS
            self._blobs.collect(time.time() - UNCLAIMED_SECONDS)
            sweep(self._jobs, UNUSED_SECONDS)
            self._service.presence.keep(self._service.view.providers)

    def _look(self) -> None:
        view = self._observer.look(self._service.view)
        if self._since is None:
            self._since = view.clock
        self._service.view = view

    def _follow(self, order_id: bytes, chain: OrderResponse) -> None:
        for assignment in chain.assignments:
            if assignment.validator == self._me and chain.order.state != OrderState.CLOSED:
                self._decide(chain, assignment.attempt)
        if self._observer.slow:
            self._tidy(order_id, chain)

    def _decide(self, chain: OrderResponse, attempt: int) -> None:
        with self._ledger.lock:
            before = self._ledger.load(chain.order.id, attempt)
            if before is None:
                return
            view = View(
                chain,
                self._service.view.clock,
                self._since or 0,
                self._me,
                self._chain_id,
                self._service.workers(),
                self._secret,
            )
            local, actions = decide(before, view)
            if local != before:
                self._ledger.save(before, local)
        self._verdicts.write(before, chain)
        for action in actions:
            lane = Lane.TX if isinstance(action, SendTx) else Lane.WORK
            perform = partial(self._performer.perform, local, chain, action)
            self._lanes.start(action.key, perform, lane, self._observer.began)

    def _tidy(self, order_id: bytes, chain: OrderResponse) -> None:
        """Release what is not needed any more, and forget an order whose result was served long enough."""
        closed = chain.order.state == OrderState.CLOSED
        now = self._service.view.clock
        forget = closed and now - self._store.closed_since(order_id, now) > KEEP_SECONDS
        for attempt in self._store.attempts(order_id):
            local = self._ledger.load(order_id, attempt)
            if local is None:
                continue
            if forget:
                self._ledger.forget(local)
            else:
                self._ledger.tidy(local, chain, self._service.view.clock)
        if closed:
            self._verdicts.drop(order_id)
        if forget:
            self._observer.forget(order_id)

    # Audits of other validators

    def _audit(self, duty: AuditDuty) -> None:
        chain = self._client.query(OrderRequest(duty.order_id))
        # The last fifth of the draw is for the transaction.
        left = duty.draw_ends - self._service.view.clock
        seconds = max(1.0, min(0.8 * left, left - 1.2))
        winner = next(a.validator for a in chain.assignments if a.attempt == duty.attempt)
        auditor = Auditor(
            self._me,
            self._chain_id,
            self._blobs,
            self._jobs,
            self._performer.run,
            self._config.backend,
            self._stop.wait,
        )
        found = auditor.answer(duty, chain, partial(self._link, winner), seconds)
        if self._stop.is_set():
            return  # what could not be had may be there after the restart
        answers = tuple(item.answer for item in found)
        self._sender.send(
            MsgAnswerAudit(self._me, duty.order_id, duty.attempt, duty.round, answers)
        )
        agreed = all(item.agrees for item in found)
        self._store.save_answered(duty.order_id, duty.attempt, duty.round, agreed)

    def _link(self, operator: str) -> ClusterClient:
        validator = self._service.view.validators.get(operator)
        if validator is None:
            raise ClusterError(Kind.UNREACHABLE, f"{operator} is no validator (any more)")
        return self._links.client(validator, self._chain_id)

    # Providers' capability

    def _certify(self) -> None:
        """Put on chain what providers measured, checked later against the time that their shares take.

        One after the other: anybody may register here, and duties do not wait behind a crowd.
        """
        if self._certifying:
            return
        for address, speed in self._service.view.providers.items():
            benchmark = self._service.presence.benchmark(address)
            if speed or benchmark is None or not benchmark.speed:
                continue
            message = MsgCertifyProvider(
                self._me,
                address,
                benchmark.device_class,
                benchmark.speed,
                benchmark.memory,
                benchmark.bandwidth,
                CERTIFY_SECONDS,
            )
            send = partial(self._send_certificate, message)
            self._certifying = True
            if self._lanes.start(f"certify/{address}", send, Lane.TX, self._observer.slow_began):
                return
            self._certifying = False

    def _send_certificate(self, message: MsgCertifyProvider) -> None:
        try:
            self._sender.send(message)
        finally:
            self._certifying = False
