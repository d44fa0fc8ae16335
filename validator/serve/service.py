"""What the validator answers on the link: one method per call, each reads or changes a record and returns at once."""

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from threading import Event

from domain.keys import RoundKey
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from link import types as t
from link.errors import ClusterError, ClusterErrorKind
from pol.rules.commitment import share_sign_bytes
from validator.decide.admission import Admission
from validator.decide.idle import why_idle
from validator.decide.pace import doubted
from validator.decide.plan import FreeProvider
from validator.decide.quotas import Allowance, payload_quota, provider_quota
from validator.decide.receive import (
    late_share,
    mark_late,
    opening_received,
    payload_complete,
    payload_offered,
    share_delivered,
    share_received,
)
from validator.decide.records import JOB_FILE, LocalOrder, PayloadStage, nests
from validator.decide.retention import served_rounds
from validator.decide.second_look import Suspect, second_looks
from validator.decide.tasks import audit_opening, open_tasks, train_tasks
from validator.decide.view import ChainView
from validator.ledger import Ledger
from validator.serve.callers import Asking, Grants, Presence
from validator.serve.prober import Prober

_log = logging.getLogger("assay.validator")
POLL_MS = 300
RIVAL = (
    "another daemon asks to be served with this provider's key, and is refused as long as this one polls; end one of"
    " the two"
)
REFUSED_MS = 10_000
"""When somebody may ask again who is not admitted."""
SLOTS_GRANTED = 64
MEASURED_AGAIN = "; its speed is far below that of the others, or what it measured itself, and is measured again soon"
_FILE_BYTES = 64
"""What a file takes in a message beside its path."""


class Service:
    """Implements :class:`link.types.Handlers` over the records, on the threads of the server."""

    def __init__(
        self,
        me: str,
        chain_id: str,
        ledger: Ledger,
        verify: Callable[[bytes, bytes, bytes], bool],
        wake: Event,
    ) -> None:
        """Serve from ``ledger``; ``wake`` is set when something arrived that the loop should see."""
        self.me, self.chain_id = me, chain_id
        self.ledger, self.blobs = ledger, ledger.blobs
        self.view = ChainView(clock=0, orders={}, validators={}, providers={})
        self.admission = Admission()
        self.doubted: frozenset[str] = frozenset()
        self.presence, self.asking, self.prober = Presence(), Asking(), Prober()
        self._suspects: dict[str, Suspect] = {}
        self._warned: set[str] = set()
        self._idle: dict[str, str] = {}
        self._verify, self._wake = verify, wake
        self._grants = Grants()

    def see(self, view: ChainView, asked: Collection[str]) -> None:
        """Answer from what the chain says now, for which these were asked about."""
        if view.clock != self.view.clock:
            self._idle = {}
        self.view = view
        self.asking.drop(name for name in asked if name not in view.applicants)
        due = {name for name, member in view.providers.items() if member.due}
        allowed = {name for name in view.applicants if not self.admission.problem(name)}
        self.doubted = frozenset(
            name
            for local, on_chain in self._records()
            for name in doubted(local, on_chain.order.terms, view.providers, view.clock)
        )
        self._suspects, again = second_looks(self._suspects, view.providers, self.presence.speeds(), view.clock)
        self.doubted |= again
        self.prober.want(due | allowed | self.doubted)

    # Who

    def roles(self, caller: t.Caller) -> frozenset[t.Role]:
        """What the caller is to this validator."""
        view, address = self.view, caller.address
        roles = set()
        if address in view.providers:
            roles.add(t.Role.PROVIDER)
        if address in view.applicants:
            roles.add(t.Role.APPLICANT)
        if any(seat.validator == address for about in view.panels.values() for seat in about.seats):
            roles.add(t.Role.AUDITOR)
        if any(on_chain.order.consumer == address for on_chain in view.orders.values()):
            roles.add(t.Role.CONSUMER)
        return frozenset(roles)

    def workers(self) -> tuple[FreeProvider, ...]:
        """Return the providers that poll and have a certified speed, by address."""
        known = self.view.providers
        return tuple(
            FreeProvider(address, known[address].speed, known[address].newcomer)
            for address in self.presence.live()
            if address in known and known[address].speed
        )

    # Blobs

    def stat_blob(self, caller: t.Caller, request: t.StatBlobRequest) -> t.BlobStatus:
        """How much of the caller's upload is here; whatever others sent, nobody hears of it."""
        self._allowance(caller, request.blob)
        return self.blobs.status(request.blob, caller.address)

    def put_chunk(self, caller: t.Caller, request: t.PutChunkRequest) -> t.BlobStatus:
        """Take bytes of a blob."""
        self.may_put(caller, request.blob)
        return self.blobs.put(request.blob, request.offset, request.data, caller.address)

    def get_chunk(self, caller: t.Caller, request: t.GetChunkRequest) -> t.Chunk:
        """Give bytes of a blob."""
        self.may_read(caller, request.sha256)
        data = self.blobs.read(request.sha256, request.offset, request.length)
        return t.Chunk(data, self.blobs.size(request.sha256))

    def may_put(self, caller: t.Caller, blob: t.BlobRef) -> None:
        """Take what was offered as a payload from its consumer, and from providers what they owe to their orders."""
        allowed = self._allowance(caller, blob)
        if allowed is None:
            return
        blobs, size = self.blobs.unclaimed(caller.address, besides=blob)
        if blobs >= allowed.blobs or size + blob.size > allowed.size:
            raise ClusterError(
                ClusterErrorKind.OVER_QUOTA,
                "too many blobs of yours wait for the share or opening that names them",
                "submit those first",
                field="blob",
            )

    def _allowance(self, caller: t.Caller, blob: t.BlobRef) -> Allowance | None:
        """Return what the caller may have sent that no record names yet, None where an offer names the blob.

        NOT_ALLOWED where it has no reason to send this one.
        """
        allowed = Allowance()
        for local, on_chain in self._records():
            mine = on_chain.order.consumer == caller.address
            if mine and any(file.blob == blob for file in local.payload.files):
                return None
            allowed += provider_quota(local, on_chain, self.view.panels, caller.address)
        if blob.size > allowed.largest:
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "this blob is neither in a payload that you offered nor of a share that you were given",
                "offer the payload, or ask for a task first",
                field="blob",
            )
        return allowed

    def may_read(self, caller: t.Caller, digest: bytes) -> None:
        """Give a blob only to whom a task, an opening or a result named it.

        Whoever was given a share of an order may read its payload. A consumer chooses how many files that is: a grant
        for each of them would drive out those of others.
        """
        if self._grants.holds(caller.address, digest):
            return
        for local, _ in self._records():
            works = (work for known in local.rounds for work in known.works)
            if any(work.provider == caller.address for work in works) and any(
                file.blob.sha256 == digest for file in local.payload.files
            ):
                return
        raise ClusterError(
            ClusterErrorKind.NOT_ALLOWED,
            "this blob was not given to you",
            "ask for its task first",
            field="sha256",
        )

    # Providers

    def join(self, caller: t.Caller, request: t.JoinRequest) -> t.JoinReply:
        """Take a provider of this cluster into work, and tell others what they wait for."""
        address = caller.address
        if address in self.view.providers or address in self.view.applicants:
            self._claim(address, request.session)
        if address in self.view.providers:
            if self.presence.join(address, request.machine):
                self._wake.set()
            return t.JoinReply(True, "", t.JoinLimits(SLOTS_GRANTED, POLL_MS))
        if problem := self.admission.problem(address):
            return _waits(problem, REFUSED_MS)
        if failures := self.prober.failing(address):
            return _waits(f"the probe failed: {failures.reason}", POLL_MS * 10)
        if not self.asking.hear(address):
            return _waits("too many ask to join now", REFUSED_MS)
        if address not in self.view.applicants:
            self._wake.set()
            return _waits("your request on the chain was not seen yet", POLL_MS)
        self.presence.join(address, request.machine)
        reason = self.prober.why_not(address)
        if not reason:
            return replace(_waits("being measured", POLL_MS), probe=True)
        measured = any(found.provider == address for found in self.prober.measured())
        return _waits("measured; the admission is on its way" if measured else reason, POLL_MS)

    def probe(self, caller: t.Caller, request: t.ProbeRequest) -> t.ProbeTask:
        """Go on with a measurement: never while the caller has something to train."""
        address = caller.address
        if address in self.view.providers:
            self.presence.poll(address)
        if self._has_work(address):
            self.prober.drop(address)
            return t.ProbeTask(text="there is a share to train first")
        task = self.prober.step(address, request.digests)
        if task.over:
            self._wake.set()
        return task

    def _has_work(self, address: str) -> bool:
        clock = self.view.clock
        return any(train_tasks(local, on_chain, address, clock) for local, on_chain in self._records())

    def poll(self, caller: t.Caller, request: t.PollRequest) -> t.PollReply:
        """Tell a provider everything it has to do now."""
        self._claim(caller.address, request.session)
        self.presence.poll(caller.address)
        self.presence.speak(caller.address, request.speed)
        clock = self.view.clock
        train: list[t.TrainTask] = []
        opening: list[t.OpenTask] = []
        for local, on_chain in self._records():
            train += train_tasks(local, on_chain, caller.address, clock)
            opening += open_tasks(local, on_chain, self.view.panels, caller.address)
        train, opening = _fitting(train)[: t.TASKS_MAX], opening[: t.TASKS_MAX]
        for task in train:
            self._grants.give(caller.address, (task.global_in.blob, task.local_in.blob))
        idle = not (train or opening)
        probe = idle and not self.prober.why_not(caller.address)
        warning = RIVAL if self.presence.has_rival(caller.address) else ""
        return t.PollReply(
            train=tuple(train),
            open=tuple(opening),
            retry_after_ms=POLL_MS,
            probe=probe,
            idle="" if train else self._why_idle(caller.address),
            warning=warning,
        )

    def _claim(self, address: str, session: bytes) -> None:
        """Serve this process of a provider; ClusterError TAKEN while another one with its key is served."""
        if self.presence.claim(address, session):
            return
        if address not in self._warned:
            self._warned.add(address)
            _log.warning("two daemons use the key of provider %s: the one that came first is served", address)
        raise ClusterError(
            ClusterErrorKind.TAKEN,
            "another daemon with this provider's key is joined here and polls",
            "end one of the two (after a restart this one is served in a moment)",
        )

    def _why_idle(self, address: str) -> str:
        """Return why a provider has nothing to train, as long as a sentence of the link may be.

        It is found once for each second of the chain: all providers of an idle cluster ask several times a second.
        """
        if address not in self._idle:
            known = self.view.providers
            certified = [FreeProvider(name, each.speed, each.newcomer) for name, each in known.items() if each.speed]
            why = why_idle(address, self._records(), certified, self.prober.why_not(address))
            again = MEASURED_AGAIN if address in self._suspects else ""
            self._idle[address] = (why + again)[: t.SENTENCE_MAX]
        return self._idle[address]

    def submit_share(self, caller: t.Caller, request: t.ShareSubmission) -> t.Verdict:
        """Take a signed commitment to a share; one that is wrong on its face ends the issue at once."""
        claim = request.claim
        if claim.provider != caller.address:
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "not the caller",
                "submit your own shares",
                field="claim.provider",
            )
        self._find(claim.order_id, claim.leg)
        message = share_sign_bytes(self.chain_id, claim)
        reason = ShareReason.NONE

        def take(now: LocalOrder) -> LocalOrder:
            nonlocal reason
            if late_share(now, request):
                reason = ShareReason.LATE
                return mark_late(now, request)
            after, reason = share_received(
                now, request, lambda: self._verify(caller.pub_key, message, request.signature)
            )
            return after

        self.ledger.change(claim.order_id, claim.leg, take)
        return t.Verdict(reason == ShareReason.NONE, int(reason), reason.name.lower())

    def deliver_share(self, caller: t.Caller, request: t.ShareDelivery) -> t.Verdict:
        """Take what a commitment of the caller hides; what does not hash to it ends the issue at once."""
        key = request.key
        on_chain = self._find(key.order_id, key.leg)
        reason = ShareReason.NONE

        def take(now: LocalOrder) -> LocalOrder:
            nonlocal reason
            terms = on_chain.order.terms
            after, reason = share_delivered(now, terms, self.chain_id, caller.address, request)
            return after

        self.ledger.change(key.order_id, key.leg, take, request.blobs, caller.address)
        return t.Verdict(reason == ShareReason.NONE, int(reason), reason.name.lower())

    def submit_opening(self, caller: t.Caller, request: t.OpeningSubmission) -> t.Verdict:
        """Take the states at a boundary that the caller was asked for."""
        key = request.key
        on_chain = self._find(key.order_id, key.leg)
        verdict = t.Verdict(False, int(ShareReason.NONE), "not wanted (any more)")

        def take(now: LocalOrder) -> LocalOrder:
            nonlocal verdict
            wanted = {task.key: task.indices for task in open_tasks(now, on_chain, self.view.panels, caller.address)}
            if request.index not in wanted.get(key, ()):
                return now
            after = opening_received(now, request)
            if after is None:
                mismatch = ShareReason.OPENING_MISMATCH
                verdict = t.Verdict(False, int(mismatch), "not the size of the job's states")
                return now
            verdict = t.Verdict(True)
            return after

        needs = (request.global_state, request.local_state)
        self.ledger.change(key.order_id, key.leg, take, needs, caller.address)
        return verdict

    # Consumers

    def offer_payload(self, caller: t.Caller, request: t.PayloadOffer) -> t.PayloadWanted:
        """Take note of the files of an order's job, and say which blobs are missing."""
        on_chain = self._find(request.order_id)
        self._check_consumer(caller, on_chain)
        self._check_files(on_chain, request.files)
        self._check_room(caller, on_chain, request.files)
        number, leg = on_chain.order.legs, on_chain.current
        matched = leg is not None and leg.state == LegState.MATCHED

        def take(now: LocalOrder) -> LocalOrder:
            # Until all is here, the consumer may correct itself.
            if matched and now.payload.stage in (PayloadStage.ABSENT, PayloadStage.OFFERED):
                return payload_offered(now, request.files)
            return now

        with self.ledger.lock:
            local = self.ledger.change(request.order_id, number, take)
            if local is not None and local.payload.stage == PayloadStage.OFFERED:
                self.ledger.hold_payload(local)
            self._complete_payload(caller, request.order_id, number)
        missing = (f.blob for f in request.files if not self.blobs.sent(f.blob, caller.address))
        return t.PayloadWanted(tuple(missing))

    def payload_status(self, caller: t.Caller, request: t.PayloadStatusRequest) -> t.PayloadState:
        """Tell whether the payload is here and loads."""
        on_chain = self._find(request.order_id)
        self._check_consumer(caller, on_chain)
        payload = self._complete_payload(caller, request.order_id, on_chain.order.legs).payload
        complete = payload.stage >= PayloadStage.COMPLETE
        return t.PayloadState(complete, payload.stage == PayloadStage.LOADED, payload.text)

    def _check_files(self, on_chain: OrderResponse, files: tuple[t.PayloadFile, ...]) -> None:
        terms = on_chain.order.terms
        blobs = {file.path: file.blob for file in files}
        if blobs.get(JOB_FILE, t.BlobRef(b"", 1)).sha256 != terms.job_id:
            raise ClusterError(
                ClusterErrorKind.BAD_REQUEST,
                "job.json is not the ordered job",
                "send that job",
                field="files",
            )
        size = sum(blob.size for blob in blobs.values())
        if len(blobs) != len(files) or size != payload_quota(on_chain):
            raise ClusterError(
                ClusterErrorKind.BAD_REQUEST,
                f"{size} bytes where the order says {payload_quota(on_chain)}",
                "offer every payload file once",
                field="files",
            )
        if nests(list(blobs)):
            raise ClusterError(
                ClusterErrorKind.BAD_REQUEST,
                "a file has the path of a folder",
                "send that job",
                field="files",
            )

    def _check_room(self, caller: t.Caller, on_chain: OrderResponse, files: tuple[t.PayloadFile, ...]) -> None:
        """Refuse a payload before it is sent where it cannot come to its end."""
        size, most = payload_quota(on_chain), self.blobs.owner_quota
        if size > most:
            raise ClusterError(
                ClusterErrorKind.OVER_QUOTA,
                f"a payload of {size} bytes, and this validator takes {most} of a caller",
                "wait until the order goes to another validator",
                field="files",
            )
        here = sum(self.blobs.status(file.blob, caller.address).held for file in files)
        if size - here > self.blobs.room(caller.address):
            raise ClusterError(
                ClusterErrorKind.OVER_QUOTA,
                "this validator has no room for the payload now",
                "try again when other orders have closed",
                field="files",
            )

    def get_result(self, caller: t.Caller, request: t.ResultRequest) -> t.ResultManifest:
        """Tell the consumer where the encrypted states are that a hand-over round left."""
        on_chain = self.view.orders.get(request.order_id)
        local = self.ledger.store.latest(request.order_id)
        if local is None or on_chain is None:
            raise ClusterError(
                ClusterErrorKind.NOT_FOUND,
                "no such order here",
                "ask its validator",
                field="order_id",
            )
        self._check_consumer(caller, on_chain)
        served = {known.round: known.sealed for known in served_rounds(local, on_chain)}
        result = served.get(request.round)
        if result is None:
            raise ClusterError(
                ClusterErrorKind.WRONG_STATE,
                f"no result of round {request.round}",
                f"served is that of rounds {sorted(served)}" if served else "ask again later",
                field="round",
            )
        self._grants.give(caller.address, (result.blob,))
        last = min(request.first + request.limit, len(result.points))
        leaves = tuple(
            t.ResultLeaf(result.points[i], result.lengths[i], result.hashes[i]) for i in range(request.first, last)
        )
        return t.ResultManifest(
            order_id=local.order_id,
            leg=local.leg,
            round=request.round,
            ciphertext=result.blob,
            count=len(result.points),
            leaves=leaves,
        )

    # Seats

    def get_opening(self, caller: t.Caller, request: t.OpeningRequest) -> t.AuditOpening:
        """Tell a seat of a panel about a round of this validator what replay of one of its places needs."""
        number = request.place_index
        about = self.view.panels.get(RoundKey(request.order_id, request.leg, request.round))
        local = self.ledger.load(request.order_id, request.leg)
        if (
            local is None
            or about is None
            or not any(seat.validator == caller.address and number in seat.places for seat in about.seats)
        ):
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "no seat for this place",
                "wait until you are drawn, and ask for the places of your duty",
                field="place_index",
            )
        opening = audit_opening(local, request.round, about.panel.places[number].place)
        self._grants.give(caller.address, _blobs_of(opening))
        return opening

    # Records

    def _records(self) -> Iterator[tuple[LocalOrder, OrderResponse]]:
        """Yield the legs of this validator whose order is not closed."""
        for on_chain in self.view.orders.values():
            if on_chain.order.state == OrderState.CLOSED:
                continue
            for leg in on_chain.legs:
                if leg.validator == self.me:
                    local = self.ledger.load(leg.order_id, leg.number)
                    if local is not None:
                        yield local, on_chain

    def _find(self, order_id: bytes, leg_number: int = 0) -> OrderResponse:
        """Return what the chain says about an order of which this validator has the leg (0: the current one)."""
        on_chain = self.view.orders.get(order_id)
        if on_chain is None:
            raise ClusterError(
                ClusterErrorKind.NOT_FOUND,
                "no such order with this validator",
                "check the id",
                field="order_id",
            )
        number = leg_number or on_chain.order.legs
        leg = on_chain.leg(number)
        mine = leg is not None and leg.validator == self.me
        if not mine or self.ledger.load(order_id, number) is None:
            raise ClusterError(
                ClusterErrorKind.NOT_FOUND,
                "not a leg of this validator",
                "read the order again",
                field="leg",
            )
        return on_chain

    def _check_consumer(self, caller: t.Caller, on_chain: OrderResponse) -> None:
        if on_chain.order.consumer != caller.address:
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "not your order",
                "use the key that ordered",
                field="order_id",
            )

    def _complete_payload(self, caller: t.Caller, order_id: bytes, leg: int) -> LocalOrder:
        """Record it when all of a payload is here, sent by its consumer."""
        with self.ledger.lock:
            local = self.ledger.load(order_id, leg)
            if local is None:  # _find saw it: it was forgotten in this moment
                raise ClusterError(ClusterErrorKind.NOT_FOUND, "no such order here", "", field="order_id")
            blobs, sender = [file.blob for file in local.payload.files], caller.address
            offered = local.payload.stage == PayloadStage.OFFERED
            if not offered or not all(self.blobs.sent(blob, sender) for blob in blobs):
                return local
            return self.ledger.change(order_id, leg, payload_complete, blobs, sender) or local


def _waits(reason: str, again_ms: int) -> t.JoinReply:
    return t.JoinReply(False, reason, t.JoinLimits(0, again_ms))


def _fitting(tasks: list[t.TrainTask]) -> list[t.TrainTask]:
    """Return the first tasks, at least one, whose lists of files fit half a message: the others come later."""
    kept: list[t.TrainTask] = []
    left = t.MESSAGE_BYTES_MAX // 2
    for task in tasks:
        left -= sum(len(file.path) + _FILE_BYTES for file in task.payload)
        if kept and left < 0:
            break
        kept.append(task)
    return kept


def _blobs_of(opening: t.AuditOpening) -> list[t.BlobRef]:
    blobs = [file.blob for file in opening.payload]
    for state in opening.states:
        blobs += [state.global_state, state.local_state]
    blobs += [update.update.blob for update in opening.updates]
    return blobs + ([opening.local_out.blob] if opening.local_out else [])
