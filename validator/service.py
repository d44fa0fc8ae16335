"""What the validator answers on the link: one method per call, each reads or changes a record and returns at once."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Event, RLock

from chain.types.queries import OrderResponse
from chain.types.reasons import ShareReason
from chain.types.records import AssignmentState, Validator
from cluster import types as t
from cluster.blob_calls import BlobCalls
from cluster.blobs import BlobStore
from cluster.errors import ClusterError, Kind
from pol.rules.commitment import share_sign_bytes
from validator.decide import find_assignment
from validator.plan import Worker
from validator.receive import (
    JOB_FILE,
    late_share,
    mark_late,
    opening_received,
    payload_complete,
    payload_offered,
    share_received,
)
from validator.records import LocalOrder, PayloadStage
from validator.store import ValidatorStore
from validator.tasks import audit_opening, open_tasks, train_tasks

_log = logging.getLogger("assay.validator")
POLL_MS = 300
LIVE_SECONDS = 5.0
"""A provider that has not polled for this long gets no new work."""
SLOTS_GRANTED = 64


@dataclass(frozen=True, slots=True)
class ChainView:
    """What the daemon last read from the chain; the service answers from it, never by a query of its own."""

    clock: int
    orders: dict[bytes, OrderResponse]
    validators: dict[str, Validator]
    providers: dict[str, int]  # of this cluster: address -> certified speed in FLOP/s, 0 if none


@dataclass(frozen=True, slots=True)
class Progress:
    """What a provider said it is doing with a share."""

    provider: str
    doing: t.Doing


class Service(BlobCalls):
    """Implements :class:`cluster.types.Handlers` over the store; shared with the daemon's loop through ``lock``."""

    def __init__(
        self,
        me: str,
        chain_id: str,
        store: ValidatorStore,
        blobs: BlobStore,
        verify: Callable[[bytes, bytes, bytes], bool],
        wake: Event,
    ) -> None:
        """Serve from ``store`` and ``blobs``; ``wake`` is set when something arrived that the loop should see."""
        self.me, self.chain_id = me, chain_id
        self.store, self.blobs = store, blobs
        self.lock = RLock()
        self.view = ChainView(0, {}, {}, {})
        self.benchmarks: dict[str, t.Benchmark] = {}
        self.progress: dict[t.ShareKey, Progress] = {}
        self._verify, self._wake = verify, wake
        self._seen: dict[str, float] = {}
        self._readers: dict[bytes, set[str]] = {}

    # Who

    def roles(self, caller: t.Caller) -> frozenset[t.Role]:
        """What the caller is to this validator."""
        view, address = self.view, caller.address
        roles = set()
        if address in view.providers:
            roles.add(t.Role.PROVIDER)
        if address in view.validators and address != self.me:
            roles.add(t.Role.AUDITOR)
        if any(chain.order.consumer == address for chain in view.orders.values()):
            roles.add(t.Role.CONSUMER)
        return frozenset(roles)

    def workers(self) -> tuple[Worker, ...]:
        """Return the providers that poll, by address, with certified (else claimed) speed."""
        now, view = time.monotonic(), self.view
        found: list[Worker] = []
        for address, seen in sorted(self._seen.items()):
            if now - seen <= LIVE_SECONDS and address in view.providers:
                claimed = self.benchmarks.get(address)
                speed = view.providers[address] or (claimed.speed if claimed else 0)
                found.append(Worker(address, speed, SLOTS_GRANTED))
        return tuple(found)

    # Blobs

    def may_put(self, caller: t.Caller, request: t.PutChunkRequest) -> None:
        """Take blobs from providers and consumers of this validator, within their quotas."""
        if not self.roles(caller) & {t.Role.PROVIDER, t.Role.CONSUMER}:
            raise ClusterError(Kind.NOT_ALLOWED, "only providers and consumers send blobs", "", "")

    def may_read(self, caller: t.Caller, digest: bytes) -> None:
        """Give a blob only to whom a task, an opening or a result named it."""
        if caller.address not in self._readers.get(digest, ()):
            raise ClusterError(
                Kind.NOT_ALLOWED,
                "this blob was not given to you",
                "ask for its task first",
                "sha256",
            )

    def _grant(self, caller: t.Caller, blobs: Iterable[t.BlobRef]) -> None:
        for blob in blobs:
            self._readers.setdefault(blob.sha256, set()).add(caller.address)

    # Providers

    def join(self, caller: t.Caller, request: t.JoinRequest) -> t.JoinReply:
        """Take a provider of this cluster into work."""
        self.benchmarks[caller.address] = request.benchmark
        self._seen[caller.address] = time.monotonic()
        limits = t.JoinLimits(SLOTS_GRANTED, self.blobs.owner_quota, POLL_MS)
        self._wake.set()
        return t.JoinReply(True, "", limits)

    def poll(self, caller: t.Caller, request: t.PollRequest) -> t.PollReply:
        """Tell a provider everything it has to do now."""
        self._seen[caller.address] = time.monotonic()
        for doing in request.doing:
            self.progress[doing.key] = Progress(caller.address, doing)
        view = self.view
        train: list[t.TrainTask] = []
        opening: list[t.OpenTask] = []
        for local, chain in self._running():
            train += train_tasks(local, chain, caller.address, view.clock)
            opening += open_tasks(local, chain, caller.address)
        train, opening = train[: t.TASKS_MAX], opening[: t.TASKS_MAX]
        for task in train:
            self._grant(caller, (task.global_in.blob, task.local_in.blob))
            self._grant(caller, (file.blob for file in task.payload))
        return t.PollReply(tuple(train), tuple(opening), POLL_MS)

    def submit_share(self, caller: t.Caller, request: t.ShareSubmission) -> t.Verdict:
        """Take a signed share; what is wrong on its face ends the issue at once."""
        claim = request.claim
        if claim.provider != caller.address:
            raise ClusterError(
                Kind.NOT_ALLOWED, "not the caller", "submit your own shares", "claim.provider"
            )
        if not all(self.blobs.has(blob.sha256) for blob in (request.update, request.local_out)):
            raise ClusterError(
                Kind.WRONG_STATE, "its blobs are not here", "put them before the share", "update"
            )
        with self.lock:
            local, chain = self._find(claim.order_id, claim.attempt)
            message = share_sign_bytes(self.chain_id, claim)
            changed, reason = share_received(
                local,
                chain.order.terms,
                self.chain_id,
                request,
                lambda: self._verify(caller.pub_key, message, request.signature),
            )
            if late_share(local, request):
                changed, reason = mark_late(local, request), ShareReason.LATE
            self._keep(local, changed, (request.update, request.local_out))
        self._wake.set()
        return t.Verdict(reason == ShareReason.NONE, int(reason), reason.name.lower())

    def submit_opening(self, caller: t.Caller, request: t.OpeningSubmission) -> t.Verdict:
        """Take the states at a boundary."""
        blobs = (request.global_state, request.local_state)
        if not all(self.blobs.has(blob.sha256) for blob in blobs):
            raise ClusterError(
                Kind.WRONG_STATE, "its blobs are not here", "put them before the opening", "index"
            )
        with self.lock:
            local, chain = self._find(request.key.order_id, request.key.attempt)
            wanted = {task.key: task.indices for task in open_tasks(local, chain, caller.address)}
            if request.index not in wanted.get(request.key, ()):
                return t.Verdict(False, int(ShareReason.NONE), "not wanted (any more)")
            changed = opening_received(local, request)
            if changed is not None:
                self._keep(local, changed, blobs)
        self._wake.set()
        return t.Verdict(True)

    # Consumers

    def offer_payload(self, caller: t.Caller, request: t.PayloadOffer) -> t.PayloadWanted:
        """Take note of the files of an order's job, and say which blobs are missing."""
        with self.lock:
            local, chain = self._find(request.order_id)
            self._check_consumer(caller, chain)
            terms = chain.order.terms
            files = {file.path: file.blob for file in request.files}
            if files.get(JOB_FILE, t.BlobRef(b"", 1)).sha256 != terms.job_id:
                raise ClusterError(
                    Kind.BAD_REQUEST, "job.json is not the ordered job", "send that job", "files"
                )
            size = sum(blob.size for blob in files.values())
            if len(files) != len(request.files) or size != terms.payload_bytes:
                raise ClusterError(
                    Kind.BAD_REQUEST,
                    f"{size} bytes where the order says {terms.payload_bytes}",
                    "offer every payload file once",
                    "files",
                )
            if local.payload.stage == PayloadStage.ABSENT:
                changed = payload_offered(local, request.files)
                self._keep(local, changed, files.values())
                local = changed
            self._complete_payload(local)
        missing = tuple(blob for blob in files.values() if not self.blobs.has(blob.sha256))
        return t.PayloadWanted(missing)

    def payload_status(self, caller: t.Caller, request: t.PayloadStatusRequest) -> t.PayloadState:
        """Tell whether the payload is here and loads."""
        with self.lock:
            local, chain = self._find(request.order_id)
            self._check_consumer(caller, chain)
            local = self._complete_payload(local)
        stage = local.payload.stage
        return t.PayloadState(
            stage >= PayloadStage.COMPLETE, stage == PayloadStage.LOADED, local.payload.text
        )

    def get_result(self, caller: t.Caller, request: t.ResultRequest) -> t.ResultManifest:
        """Tell the consumer where its encrypted result is."""
        with self.lock:
            local = self.store.latest(request.order_id)
            chain = self.view.orders.get(request.order_id)
        if local is None or chain is None:
            raise ClusterError(
                Kind.NOT_FOUND, "no such order here", "ask its validator", "order_id"
            )
        self._check_consumer(caller, chain)
        if local.result is None or not local.rounds or local.rounds[-1].next_global is None:
            raise ClusterError(Kind.WRONG_STATE, "no result yet", "ask again when it is proven", "")
        result, final = local.result, local.rounds[-1].next_global
        self._grant(caller, (result.blob,))
        last = min(request.first + request.limit, len(result.points))
        leaves = tuple(
            t.ResultLeaf(result.points[i], result.lengths[i], result.hashes[i])
            for i in range(request.first, last)
        )
        return t.ResultManifest(
            local.order_id, local.attempt, final.root, result.blob, len(result.points), leaves
        )

    # Auditors

    def get_opening(self, caller: t.Caller, request: t.OpeningRequest) -> t.AuditOpening:
        """Tell a seated auditor what replay of a place needs."""
        with self.lock:
            local, chain = self._find(request.order_id, request.attempt)
        audit = next(
            (a for a in chain.audits if (a.attempt, a.round) == (request.attempt, request.round)),
            None,
        )
        if audit is None or caller.address not in {seat.validator for seat in audit.seats}:
            raise ClusterError(
                Kind.NOT_ALLOWED, "no seat in this audit", "wait until you are drawn", "round"
            )
        if request.place >= len(audit.places):
            raise ClusterError(
                Kind.BAD_REQUEST, f"the audit has {len(audit.places)} places", "", "place"
            )
        opening = audit_opening(local, request.round, audit.places[request.place], self.chain_id)
        self._grant(caller, _blobs_of(opening))
        return opening

    # Records

    def _running(self) -> list[tuple[LocalOrder, OrderResponse]]:
        live = (AssignmentState.RUNNING, AssignmentState.PROVEN, AssignmentState.FAILED)
        found: list[tuple[LocalOrder, OrderResponse]] = []
        with self.lock:
            for chain in self.view.orders.values():
                for assignment in chain.assignments:
                    if assignment.validator == self.me and assignment.state in live:
                        local = self.store.load(assignment.order_id, assignment.attempt)
                        if local is not None:
                            found.append((local, chain))
        return found

    def _find(self, order_id: bytes, attempt: int = 0) -> tuple[LocalOrder, OrderResponse]:
        chain = self.view.orders.get(order_id)
        if chain is None:
            raise ClusterError(
                Kind.NOT_FOUND, "no such order with this validator", "check the id", "order_id"
            )
        number = attempt or chain.order.attempt
        assignment = find_assignment(chain, number)
        local = self.store.load(order_id, number)
        if local is None or assignment is None or assignment.validator != self.me:
            raise ClusterError(
                Kind.NOT_FOUND,
                "not an attempt of this validator",
                "read the order again",
                "attempt",
            )
        return local, chain

    def _check_consumer(self, caller: t.Caller, chain: OrderResponse) -> None:
        if chain.order.consumer != caller.address:
            raise ClusterError(
                Kind.NOT_ALLOWED, "not your order", "use the key that ordered", "order_id"
            )

    def _complete_payload(self, local: LocalOrder) -> LocalOrder:
        blobs = [file.blob.sha256 for file in local.payload.files]
        if local.payload.stage == PayloadStage.OFFERED and all(map(self.blobs.has, blobs)):
            local = payload_complete(local)
            self.store.save(local)
            self._wake.set()
        return local

    def _keep(self, before: LocalOrder, after: LocalOrder, blobs: Iterable[t.BlobRef]) -> None:
        if after != before:
            for blob in blobs:
                self.blobs.hold(blob.sha256, holder_of(after))
            self.store.save(after)


def holder_of(local: LocalOrder) -> str:
    """Return the name under which an attempt holds its blobs."""
    return f"{local.order_id.hex()}/{local.attempt}"


def _blobs_of(opening: t.AuditOpening) -> list[t.BlobRef]:
    blobs = [file.blob for file in opening.payload]
    for state in opening.states:
        blobs += [state.global_state.blob, state.local_state.blob]
    blobs += [update.update.blob for update in opening.updates]
    return blobs + ([opening.local_out.blob] if opening.local_out else [])
