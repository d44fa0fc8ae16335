"""The validator's loop: read the chain, decide, act, remember. All judgement is in :mod:`validator.decide`.

One thread reads the chain and decides; transactions go out one after the other from a second; replays run in the
process pool, and what waits for others (fetching an audit's openings) in a few more threads. Every action has a key;
an action under way is not started again, and one that failed is tried again after a pause.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock
from typing import TypeVar

from chain.client.client import ChainClient, TxReceipt
from chain.client.errors import ChainError, ErrorKind
from chain.client.sender import TxSender
from chain.types.messages import (
    Message,
    MsgAnswerAudit,
    MsgCertifyProvider,
    MsgCommitTraces,
    MsgSetEndpoint,
)
from chain.types.queries import (
    AuditDuty,
    DutiesRequest,
    OrderRequest,
    OrderResponse,
    ProvidersRequest,
    ValidatorsRequest,
)
from chain.types.records import OrderState
from chain.wire.keys import Key, SignatureVerifier
from cluster.blobs import BlobStore
from cluster.client import ClusterClient
from cluster.errors import ClusterError
from cluster.handover import HandoverId, ciphertext_root, derive_scalar, seal_result
from cluster.server import ClusterServer
from cluster.tls import make_certificate
from cluster.types import StateRef
from pol.replay.pool import PoolError, ReplayPool
from pol.replay.records import Range
from validator import numerics, receive
from validator.audit import Auditor
from validator.decide import (
    Action,
    Aggregate,
    CheckPlace,
    LoadJob,
    Recompute,
    Seal,
    SendTx,
    View,
    accepted_works,
    aggregated,
    decide,
    find_round,
    is_verified,
)
from validator.files import materialise
from validator.numerics import Claimed
from validator.records import Checked, LocalOrder, SealedResult, SlotWork, new_order
from validator.service import ChainView, Service, holder_of
from validator.store import ValidatorStore, VerdictRow
from validator.tasks import find_work

T = TypeVar("T")
_log = logging.getLogger("assay.validator")
TICK_SECONDS = 0.2
SLOW_TICK_SECONDS = 2.0
RETRY_SECONDS = 2.0
REPLAY_SECONDS = 600.0
CERTIFY_SECONDS = 86_400
KEEP_SECONDS = 7 * 86_400
"""How long a result is served after its order closed (protocol section 6.2)."""


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
        self._config, self._key, self._stop = config, key, stop
        self._me = key.address
        self._wake = Event()
        self._client = ChainClient(config.node)
        self._sender = TxSender(self._client, key)
        self._store = ValidatorStore(config.home / "validator.db")
        self._blobs = BlobStore(config.home / "blobs", config.blob_quota, config.owner_quota)
        self._jobs = config.home / "jobs"
        self._pool = ReplayPool(config.processes)
        self._txs = ThreadPoolExecutor(1, thread_name_prefix="tx")
        self._workers = ThreadPoolExecutor(8, thread_name_prefix="work")
        self._busy: dict[str, float] = {}  # key -> time before which it is not started again
        self._busy_lock = Lock()
        self._cluster_clients: dict[tuple[str, bytes], ClusterClient] = {}
        self._own_secret = derive_scalar(key.secret, "assay/validator-secret")
        self._closed: dict[bytes, OrderResponse] = {}
        self._slow_at = 0.0

    # Life

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Publish the endpoint, serve, and work until stopped."""
        status = self._client.status()
        self._chain_id = status.chain_id
        certificate = make_certificate(self._config.home)
        self._service = Service(
            self._me,
            self._chain_id,
            self._store,
            self._blobs,
            SignatureVerifier(),
            self._wake,
        )
        server = ClusterServer(self._config.listen, certificate, self._service, self._chain_id)
        server.start()
        try:
            self._publish(certificate.der)
            if ready:
                ready()
            while not self._stop.is_set():
                self._tick()
                self._wake.wait(TICK_SECONDS)
                self._wake.clear()
        finally:
            server.stop()
            self._close()

    def _close(self) -> None:
        self._txs.shutdown(wait=False, cancel_futures=True)
        self._pool.close()
        self._workers.shutdown(wait=True, cancel_futures=True)
        for client in self._cluster_clients.values():
            client.close()
        self._client.close()
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
            self._observe()
        except ChainError as error:
            _log.warning("the node does not answer: %s", error)
            self._stop.wait(1.0)
            return
        self._certify()
        for chain in self._service.view.orders.values():
            for assignment in chain.assignments:
                if assignment.validator == self._me:
                    self._decide(chain, assignment.attempt)

    def _observe(self) -> None:
        duties = self._client.query(DutiesRequest(self._me))
        view = self._service.view
        orders: dict[bytes, OrderResponse] = dict(self._closed)
        for order_id in sorted({a.order_id for a in duties.assignments}):
            orders[order_id] = self._client.query(OrderRequest(order_id))
        now = time.monotonic()
        if now >= self._slow_at:
            self._slow_at = now + SLOW_TICK_SECONDS
            validators = {v.operator: v for v in self._client.query(ValidatorsRequest()).validators}
            found = self._client.query(ProvidersRequest(self._me, 1000, "")).providers
            providers = {p.address: p.capability.speed if p.capability else 0 for p in found}
            for order_id, _ in self._store.all_orders():
                if order_id not in orders:
                    chain = self._client.query(OrderRequest(order_id))
                    orders[order_id] = chain
                    if chain.order.state == OrderState.CLOSED:
                        self._closed[order_id] = chain
        else:
            validators, providers = view.validators, view.providers
            for order_id, chain in view.orders.items():
                orders.setdefault(order_id, chain)
        with self._service.lock:
            for order_id, chain in orders.items():
                for assignment in chain.assignments:
                    mine = assignment.validator == self._me
                    if mine and self._store.load(order_id, assignment.attempt) is None:
                        self._store.save(new_order(order_id, assignment.attempt))
            self._service.view = ChainView(duties.clock, orders, validators, providers)
        for duty in duties.audits:
            self._start(
                f"audit/{duty.order_id.hex()}/{duty.attempt}/{duty.round}",
                partial(self._audit, duty),
            )

    def _decide(self, chain: OrderResponse, attempt: int) -> None:
        service = self._service
        with service.lock:
            before = self._store.load(chain.order.id, attempt)
            if before is None:
                return
            view = View(
                chain,
                service.view.clock,
                self._me,
                self._chain_id,
                service.workers(),
                self._own_secret,
            )
            local, actions = decide(before, view)
            if local != before:
                self._store.save(local)
            self._write_verdicts(local, chain)
        for action in actions:
            self._act(local, chain, action)

    # Acting

    def _start(
        self, key: str, work: Callable[[], None], executor: ThreadPoolExecutor | None = None
    ) -> None:
        """Start ``work`` unless it is under way or failed a moment ago."""
        with self._busy_lock:
            if time.monotonic() < self._busy.get(key, 0.0):
                return
            self._busy[key] = float("inf")

        def guarded() -> None:
            pause = RETRY_SECONDS
            try:
                work()
                pause = TICK_SECONDS
            except (ChainError, ClusterError, PoolError, OSError) as error:
                _log.warning("%s: %s", key, error)
            except Exception:  # logged, and the action is tried again; the daemon goes on
                _log.exception("bug in %s", key)
            finally:
                with self._busy_lock:
                    self._busy[key] = time.monotonic() + pause
                self._wake.set()

        (executor or self._workers).submit(guarded)

    def _act(self, local: LocalOrder, chain: OrderResponse, action: Action) -> None:
        match action:
            case SendTx(key, messages):
                self._start(key, lambda: self._send(local, messages), self._txs)
            case LoadJob(key):
                self._start(key, lambda: self._load(local, chain))
            case CheckPlace(key):
                self._start(key, lambda: self._check(local, chain, action))
            case Recompute(key):
                self._start(key, lambda: self._recompute(local, chain, action))
            case Aggregate(key):
                self._start(key, lambda: self._aggregate(local, action))
            case Seal(key):
                self._start(key, lambda: self._seal(local, chain))

    def _send(self, local: LocalOrder, messages: tuple[Message, ...]) -> None:
        receipt = self._sender.send(*messages)
        for message in messages:
            if isinstance(message, MsgCommitTraces):
                self._take_skipped(local, message, receipt)

    def _take_skipped(
        self, local: LocalOrder, message: MsgCommitTraces, receipt: TxReceipt
    ) -> None:
        for event in receipt.events:
            if event.type == "share.skipped":
                slot, issue, reason = (int(event.get(k)) for k in ("slot", "issue", "reason"))
                self._change(
                    local,
                    partial(
                        receive.share_skipped,
                        number=message.round,
                        slot=slot,
                        issue=issue,
                        reason=reason,
                    ),
                )

    def _change(self, local: LocalOrder, change: Callable[[LocalOrder], LocalOrder]) -> LocalOrder:
        """Apply a change to the record as it is now."""
        with self._service.lock:
            now = self._store.load(local.order_id, local.attempt)
            if now is None:
                return local
            after = change(now)
            if after != now:
                self._store.save(after)
        self._wake.set()
        return after

    def _run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function in the pool and wait for it; PoolError where it has no result in time."""
        return self._pool.submit(function, *arguments, timeout=REPLAY_SECONDS).result()

    def _directory(self, local: LocalOrder) -> Path:
        return materialise(local.payload.files, self._blobs, self._jobs)

    def _load(self, local: LocalOrder, chain: OrderResponse) -> None:
        outcome = self._run(numerics.load, self._directory(local))
        self._change(
            local,
            lambda now: receive.job_loaded(now, chain.order.terms, outcome.terms, outcome.text),
        )

    def _states(
        self, local: LocalOrder, round: int, work: SlotWork, index: int
    ) -> tuple[Path, Path]:
        path = self._blobs.path
        if index == 0:
            current = find_round(local, round)
            if current is None:
                raise AssertionError("a share belongs to a round")
            return path(current.global_in.blob.sha256), path(work.local_in.blob.sha256)
        opening = next(held for held in work.openings if held.index == index)
        return path(opening.global_state.sha256), path(opening.local_state.sha256)

    def _check(self, local: LocalOrder, chain: OrderResponse, action: CheckPlace) -> None:
        current = find_round(local, action.round)
        work = find_work(current, action.slot, action.issue) if current else None
        if current is None or work is None or work.packet is None:
            return
        claim, leaves = work.packet.claim, work.packet.leaves
        states = self._states(local, action.round, work, action.place)
        if action.place == claim.segments:
            path = self._blobs.path
            outcome = self._run(
                numerics.check_update,
                self._directory(local),
                path(current.global_in.blob.sha256),
                states,
                (path(work.packet.update.sha256), path(work.packet.local_out.sha256)),
                Claimed(b"", leaves[-1].boundary_root, (), claim.update_root, claim.local_out),
            )
        else:
            first, last = leaves[action.place], leaves[action.place + 1]
            outcome = self._run(
                numerics.check_segment,
                self._directory(local),
                Range(action.round, claim.first, claim.count),
                action.place,
                states,
                Claimed(first.boundary_root, last.boundary_root, last.metrics),
                self._config.backend,
            )
        checked = Checked(action.place, int(outcome.reason), outcome.root)
        self._change(
            local,
            lambda now: receive.place_checked(
                now, action.round, action.slot, action.issue, checked
            ),
        )

    def _recompute(self, local: LocalOrder, chain: OrderResponse, action: Recompute) -> None:
        current = find_round(local, action.round)
        work = find_work(current, action.slot, action.issue) if current else None
        if current is None or work is None or work.packet is None:
            return
        held = [0, *(o.index for o in work.openings if o.index < action.index)]
        start = max(held)
        claim = work.packet.claim
        root, global_bytes, local_bytes = self._run(
            numerics.recompute_states,
            self._directory(local),
            Range(action.round, claim.first, claim.count),
            start,
            action.index,
            self._states(local, action.round, work, start),
            self._config.backend,
        )
        if root != work.packet.leaves[action.index].boundary_root:
            _log.error(
                "share %d/%d of round %d is wrong outside what was drawn: boundary %d",
                action.slot,
                action.issue,
                action.round,
                action.index,
            )
            return
        blobs = (self._blobs.add(global_bytes), self._blobs.add(local_bytes))
        for blob in blobs:
            self._blobs.hold(blob.sha256, holder_of(local))

        def keep(now: LocalOrder) -> LocalOrder:
            return receive.state_at_hand(now, action.round, work, action.index, *blobs)

        self._change(local, keep)

    def _aggregate(self, local: LocalOrder, action: Aggregate) -> None:
        current = find_round(local, action.round)
        if current is None:
            return
        path = self._blobs.path
        updates = tuple(
            (work.count, path(work.packet.update.sha256))
            for work in accepted_works(current)
            if work.packet is not None
        )
        encoded = self._run(
            numerics.aggregate_round,
            self._directory(local),
            path(current.global_in.blob.sha256),
            updates,
            self._config.backend,
        )
        blob = self._blobs.add(encoded.data)
        self._blobs.hold(blob.sha256, holder_of(local))
        self._change(local, lambda now: aggregated(now, action.round, StateRef(encoded.root, blob)))

    def _seal(self, local: LocalOrder, chain: OrderResponse) -> None:
        final = local.rounds[-1].next_global
        if final is None:
            return
        chunks = self._run(numerics.result_chunks, self._blobs.path(final.blob.sha256))
        handover = HandoverId(self._chain_id, local.order_id, local.attempt)
        sealed = seal_result(handover, chunks, chain.order.order_key, self._own_secret)
        blob = self._blobs.add(b"".join(item.ciphertext for item in sealed))
        self._blobs.hold(blob.sha256, holder_of(local))
        result = SealedResult(
            ciphertext_root(handover, sealed),
            blob,
            tuple(item.point for item in sealed),
            tuple(len(item.ciphertext) for item in sealed),
            tuple(sha256(item.ciphertext).digest() for item in sealed),
        )
        self._change(local, lambda now: receive.sealed(now, result))

    # Audits of other validators

    def _audit(self, duty: AuditDuty) -> None:
        chain = self._client.query(OrderRequest(duty.order_id))
        winner = next(a.validator for a in chain.assignments if a.attempt == duty.attempt)
        validator = self._service.view.validators[winner]
        client = self._cluster_client(validator.endpoint, validator.certificate)
        auditor = Auditor(
            self._me,
            self._chain_id,
            self._blobs,
            self._jobs,
            self._run,
            self._config.backend,
            self._stop.wait,
        )
        # The last fifth of the draw is for the transaction.
        seconds = max(1.0, (duty.draw_ends - self._service.view.clock) * 0.8 - 1.0)
        answers = auditor.answer(duty, chain, client, seconds)
        self._sender.send(
            MsgAnswerAudit(self._me, duty.order_id, duty.attempt, duty.round, answers)
        )
        agreed = all(answer.root for answer in answers)
        self._store.save_answered(duty.order_id, duty.attempt, duty.round, agreed)

    def _cluster_client(self, endpoint: str, certificate: bytes) -> ClusterClient:
        key = (endpoint, certificate)
        if key not in self._cluster_clients:
            self._cluster_clients[key] = ClusterClient(
                endpoint, certificate, self._key, self._chain_id
            )
        return self._cluster_clients[key]

    # Providers' capability

    def _certify(self) -> None:
        """Put on chain what providers measured, checked later against the time that their shares take."""
        view = self._service.view
        for address, benchmark in list(self._service.benchmarks.items()):
            if view.providers.get(address) == 0:
                message = MsgCertifyProvider(
                    self._me,
                    address,
                    benchmark.device_class,
                    benchmark.speed,
                    benchmark.memory,
                    benchmark.bandwidth,
                    CERTIFY_SECONDS,
                )
                self._start(f"certify/{address}", partial(self._certify_one, message), self._txs)

    def _certify_one(self, message: MsgCertifyProvider) -> None:
        self._sender.send(message)
        with self._service.lock:
            view = self._service.view
            providers = {**view.providers, message.provider: message.speed}
            self._service.view = replace(view, providers=providers)

    # For people

    def _write_verdicts(self, local: LocalOrder, chain: OrderResponse) -> None:
        shares = {
            (s.claim.round, s.claim.slot, s.claim.issue): s
            for s in chain.shares
            if s.claim.attempt == local.attempt
        }
        for current in local.rounds:
            for work in current.works:
                share = shares.get((current.number, work.slot, work.issue))
                accepted = current.next_global is not None and not work.verdict
                if not (work.verdict or accepted or is_verified(work, share)):
                    continue
                failed = [c.place for c in work.checked if c.reason]
                self._store.save_verdict(
                    VerdictRow(
                        local.order_id,
                        local.attempt,
                        current.number,
                        work.slot,
                        work.issue,
                        work.provider,
                        work.packet.claim.segments if work.packet else 0,
                        len(work.checked),
                        int(work.verdict),
                        failed[0] if failed else -1,
                    )
                )
