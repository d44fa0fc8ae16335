"""The validator's answers on the link: one method per call. Each reads or changes a record and returns at once."""

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from threading import Event

from domain.keys import PanelKey, RoundKey, ShareKey
from domain.legs.records import LegState
from domain.market.records import ChallengeTerms, OrderState
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, ShareClaim
from link import types as t
from link.errors import ClusterError, ClusterErrorKind
from pol.rules.commitment import share_sign_bytes
from pol.rules.delivery import manifest_sign_bytes, receipt_sign_bytes
from pol.rules.disputes import may_challenge
from pol.rules.handover import HandoverId, chunk_layout
from pol.rules.inclusion import is_asking
from pol.rules.panels import is_place
from pol.rules.tiers.table import challenges_of
from validator.decide.admission import Admission, Backing, read_invitation
from validator.decide.idle import why_idle
from validator.decide.initial import foreign_roots, served_roots
from validator.decide.keeping import is_mirror
from validator.decide.mirrors import STAGE, may_mirror
from validator.decide.pace import doubted
from validator.decide.plan import FreeProvider
from validator.decide.quotas import (
    Allowance,
    delivery_quota,
    offered_deliveries,
    payload_quota,
    provider_quota,
    stander_of,
    stander_quota,
)
from validator.decide.receive import (
    delivery_offered,
    delivery_passed,
    key_shown,
    late_share,
    mark_late,
    opening_received,
    payload_complete,
    payload_offered,
    receipt_signed,
    share_received,
)
from validator.decide.records import (
    JOB_FILE,
    LegKey,
    LocalOrder,
    PayloadStage,
    SlotWork,
    WitnessKey,
    accepted_works,
    nests,
)
from validator.decide.retention import served_rounds
from validator.decide.seats import may_see_end, place_shown, serves_end, serves_later
from validator.decide.second_look import Suspect, second_looks
from validator.decide.tasks import RETRY_MS, audit_opening, end_opening, open_tasks, sign_task, train_tasks
from validator.decide.view import ChainView, OwnPanel, WatchedPlaces
from validator.decide.witness import find_witness
from validator.ledger import Ledger
from validator.serve.callers import WATCHED_MAX, Asking, Grants, Presence, Watched
from validator.serve.prober import Prober
from validator.watch.places import (
    compares_ends,
    get_extents,
    shows_open_result,
)
from validator.work.sealing import open_for_seat

_log = logging.getLogger("assay.validator")
POLL_MS = 300
RIVAL = (
    "another daemon uses this provider's key and is refused as long as this daemon polls; stop one of the two, or"
    " give one of them another key"
)
REFUSED_MS = 10_000
"""Pause before a provider that is not admitted may ask again."""
SLOTS_GRANTED = 64
MEASURED_AGAIN = (
    "; its certified speed is far below that of other providers, or below its own measurement, and is measured again"
    " soon"
)
WATCHED = 2**32 - 1
"""A number that no dispute of a round has. It stands for the places that possible challengers request."""
_FILE_BYTES = 64
"""Bytes of a file's entry in a message, without its path."""


class Service:
    """The implementation of :class:`link.types.Handlers` with the records. It runs on the threads of the server."""

    def __init__(
        self,
        me: str,
        chain_id: str,
        ledger: Ledger,
        verify: Callable[[bytes, bytes, bytes], bool],
        wake: Event,
        pub_key: bytes = b"",
        secret: bytes = b"",
        sign: Callable[[bytes], bytes] = lambda document: bytes(64),
    ) -> None:
        """Serve from ``ledger``; set ``wake`` when something arrives that the loop should handle.

        ``pub_key`` is the validator's public key, which checks invitations. ``secret`` is the secret from which the
        scalars of hand-overs are derived. ``sign`` signs tasks and receipts with the validator's key.
        """
        self._sign = sign
        self._pub_key = pub_key
        self._secret = secret
        self._invited: set[str] = set()
        self.me = me
        self.chain_id = chain_id
        self.ledger = ledger
        self.blobs = ledger.blobs
        self.view = ChainView(clock=0, orders={}, validators={}, providers={})
        self.admission = Admission()
        self.doubted: frozenset[str] = frozenset()
        self.presence = Presence()
        self.asking = Asking()
        self.bonding = Asking(most=WATCHED_MAX)
        self.prober = Prober()
        self._suspects: dict[str, Suspect] = {}
        self._warned: set[str] = set()
        self._idle: dict[str, str] = {}
        self._verify = verify
        self._wake = wake
        self._grants = Grants()
        self._watched = Watched()

    def see(self, view: ChainView, asked: Collection[str]) -> None:
        """Answer from ``view`` from now on, and choose the providers to measure.

        The chain was queried for the applications of the providers ``asked``.
        """
        if view.clock != self.view.clock:
            self._idle = {}
        watched = {key.panel(WATCHED): WatchedPlaces(places) for key, places in self._watched.places().items()}
        self.view = replace(view, panels={**view.panels, **watched})
        self.asking.drop(name for name in asked if name not in view.applicants)
        due = {name for name, member in view.providers.items() if member.due}
        self._invited &= view.applicants
        allowed = {name for name in view.applicants if not self._admission_problem(name)}
        self.doubted = frozenset(
            name
            for local, on_chain in self._records()
            for name in doubted(local, on_chain.order.terms, view.providers, view.clock)
        )
        self._suspects, again = second_looks(self._suspects, view.providers, self.presence.speeds(), view.clock)
        self.doubted |= again
        self.prober.want(due | allowed | self.doubted)

    # Callers

    def roles(self, caller: t.Caller) -> frozenset[t.Role]:
        """Return the roles that the caller has for this validator."""
        view = self.view
        address = caller.address
        roles = set()
        if address in view.providers:
            roles.add(t.Role.PROVIDER)
        if address in view.applicants:
            roles.add(t.Role.APPLICANT)
        panels = (*view.panels.values(), *view.earlier.values())
        if any(seat.validator == address for about in panels for seat in about.seats):
            roles.add(t.Role.AUDITOR)
        if any(address in names for names in (*view.finders.values(), *view.result_finders.values())):
            roles.add(t.Role.AUDITOR)
        if self._may_watch_some(address):
            roles.add(t.Role.WATCHER)
        if any(on_chain.order.consumer == address for on_chain in view.orders.values()):
            roles.add(t.Role.CONSUMER)
        if any(stander_of(subject) == address for subject in view.subjects.values()):
            roles.add(t.Role.STANDER)
        if any(self._continues(on_chain, address) for on_chain in view.orders.values()):
            roles.add(t.Role.SUCCESSOR)
        if any(address in closed.mirrors for on_chain in view.orders.values() for closed in on_chain.rounds):
            roles.add(t.Role.MIRROR)
        if any(about.claim.provider == address for about in view.witnessed.values()):
            roles.add(t.Role.ASKER)
        if any(address in ask.witnesses for on_chain in view.orders.values() for ask in on_chain.asks):
            roles.add(t.Role.WITNESS)
        return frozenset(roles)

    def workers(self) -> tuple[FreeProvider, ...]:
        """Return the providers that poll and have a certified speed, sorted by address."""
        known = self.view.providers
        return tuple(
            FreeProvider(
                address=address,
                speed=known[address].speed,
                newcomer=known[address].newcomer,
                backing=self.admission.backing_of(address),
                cautious=self.presence.is_cautious(address),
                slots=self.presence.slots(address),
                attested_bond=known[address].attested_bond,
            )
            for address in self.presence.live()
            if address in known and known[address].speed
        )

    # Blobs

    def stat_blob(self, caller: t.Caller, request: t.StatBlobRequest) -> t.BlobStatus:
        """Return how much of the caller's own upload has arrived. Uploads of others are not shown."""
        self._allowance(caller, request.blob)
        return self.blobs.status(request.blob, caller.address)

    def put_chunk(self, caller: t.Caller, request: t.PutChunkRequest) -> t.BlobStatus:
        """Store a chunk of a blob that the caller uploads, and return how much of the blob has arrived."""
        self.may_put(caller, request.blob)
        return self.blobs.put(request.blob, request.offset, request.data, caller.address)

    def get_chunk(self, caller: t.Caller, request: t.GetChunkRequest) -> t.Chunk:
        """Return a chunk of a blob, with the size of the blob."""
        self.may_read(caller, request.sha256)
        data = self.blobs.read(request.sha256, request.offset, request.length)
        return t.Chunk(data, self.blobs.size(request.sha256))

    def may_put(self, caller: t.Caller, blob: t.BlobRef) -> None:
        """Check that the caller may upload the blob; ClusterError if not.

        A consumer may upload the files of a payload that it offered. A provider may upload the blobs of its shares and
        openings.
        """
        allowed = self._allowance(caller, blob)
        if allowed is None:
            return
        blobs, size = self.blobs.unclaimed(caller.address, besides=blob)
        if blobs >= allowed.blobs or size + blob.size > allowed.size:
            raise ClusterError(
                ClusterErrorKind.OVER_QUOTA,
                "too many of your uploaded blobs are not yet named by a share or an opening",
                "submit the share or the opening that names them first",
                field="blob",
            )

    def _allowance(self, caller: t.Caller, blob: t.BlobRef) -> Allowance | None:
        """Return the caller's allowance for blobs that no record names yet.

        Return None if the caller has offered a payload or a delivery with ``blob``. ClusterError NOT_ALLOWED if the
        caller has no reason to upload this blob.
        """
        allowed = Allowance()
        for local, on_chain in self._records():
            mine = on_chain.order.consumer == caller.address
            expected = [*(file.blob for file in local.payload.files), *(state.blob for state in local.offered)]
            if (mine and blob in expected) or blob in offered_deliveries(local, caller.address):
                return None
            for ask in on_chain.asks:
                if caller.address in ask.witnesses and is_asking(ask, self.view.clock):
                    allowed += delivery_quota(on_chain.order.terms, ask)
            allowed += provider_quota(local, on_chain, self.view.panels, caller.address)
        if self._is_sought(caller, blob):
            return None
        for about in self.view.witnessed.values():
            if about.claim.provider == caller.address:
                allowed += delivery_quota(about.terms, about.ask)
        for subject in self.view.subjects.values():
            if stander_of(subject) == caller.address:
                allowed += stander_quota(subject)
        if blob.size > allowed.largest:
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "this blob is neither in a payload that you offered nor part of a share that you were given",
                "offer the payload first, or poll for a task",
                field="blob",
            )
        return allowed

    def may_read(self, caller: t.Caller, digest: bytes) -> None:
        """Check that the caller may read a blob, because a task, an opening or a result named it; ClusterError if not.

        If a provider was given a share of an order, it may read the order's payload without a grant. The consumer
        chooses the number of files, and grants for all of them could displace the grants of other callers.
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
            "you are not, or no longer, allowed to read this blob",
            "request the task, the opening or the result that names it first",
            field="sha256",
        )

    # Providers

    def join(self, caller: t.Caller, request: t.JoinRequest) -> t.JoinReply:
        """Accept a provider of this cluster. Any other provider gets the reason why it must wait."""
        address = caller.address
        if address in self.view.providers or address in self.view.applicants:
            self._claim(address, request.session)
        if address in self.view.providers:
            if self.presence.join(address, request.machine):
                self._wake.set()
            return t.JoinReply(True, "", t.JoinLimits(SLOTS_GRANTED, POLL_MS))
        backing = self._read_invitation(request.invitation) if request.invitation else None
        if backing is not None:
            self._invited.add(address)
            self.ledger.keep_backing(address, backing)
        if problem := self._admission_problem(address):
            return _waits(problem, REFUSED_MS)
        if failures := self.prober.failing(address):
            return _waits(f"the probe failed: {failures.reason}", POLL_MS * 10)
        if not self.asking.hear(address):
            return _waits("too many providers ask to join now", REFUSED_MS)
        if address not in self.view.applicants:
            self._wake.set()
            return _waits("the validator has not yet read your application from the chain", POLL_MS)
        self.presence.join(address, request.machine)
        reason = self.prober.why_not(address)
        if not reason:
            return replace(_waits("being measured", POLL_MS), probe=True)
        measured = any(result.provider == address for result in self.prober.measured())
        return _waits("measured; the admission is on its way" if measured else reason, POLL_MS)

    def _admission_problem(self, address: str) -> str:
        return self.admission.problem(address, invited=address in self._invited)

    def _read_invitation(self, invitation: bytes) -> Backing | None:
        """Return the backing of this validator's invitation; None if it is not valid."""
        verify = partial(self._verify, self._pub_key)
        return read_invitation(invitation, self.chain_id, self.me, self.view.clock, verify)

    def probe(self, caller: t.Caller, request: t.ProbeRequest) -> t.ProbeTask:
        """Take an answer to a probe and return the next task; end the probe if the caller has a share to train."""
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
        """Return everything that a provider has to do now."""
        self._claim(caller.address, request.session)
        self.presence.poll(caller.address)
        self.presence.speak(caller.address, request.speed)
        self.presence.note_caution(caller.address, cautious=request.cautious)
        self.presence.note_slots(caller.address, max(1, request.slots))
        clock = self.view.clock
        train: list[t.TrainTask] = []
        opening: list[t.OpenTask] = []
        for local, on_chain in self._records():
            train += train_tasks(local, on_chain, caller.address, clock)
            opening += open_tasks(local, on_chain, self.view.panels, caller.address)
        fitting = _fitting(train)[: t.TASKS_MAX]
        train = [sign_task(task, caller.address, self.chain_id, self._sign) for task in fitting]
        opening = opening[: t.TASKS_MAX]
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
        """Make ``session`` the served process of a provider.

        ClusterError TAKEN while another process with the provider's key is served.
        """
        if self.presence.claim(address, session):
            return
        if address not in self._warned:
            self._warned.add(address)
            _log.warning("two daemons use the key of provider %s: only the first daemon is served", address)
        raise ClusterError(
            ClusterErrorKind.TAKEN,
            "another daemon with this provider's key has joined this validator and is polling it",
            "stop one of the two daemons (after a restart, wait a few seconds)",
        )

    def _why_idle(self, address: str) -> str:
        """Return why a provider has nothing to train, cut to the longest sentence that the link allows.

        The answer is cached for each second of the chain, because idle providers ask several times a second.
        """
        if address not in self._idle:
            known = self.view.providers
            certified = [FreeProvider(name, each.speed, each.newcomer) for name, each in known.items() if each.speed]
            why = why_idle(address, self._records(), certified, self.prober.why_not(address))
            again = MEASURED_AGAIN if address in self._suspects else ""
            self._idle[address] = (why + again)[: t.SENTENCE_MAX]
        return self._idle[address]

    def submit_share(self, caller: t.Caller, request: t.ShareSubmission) -> t.Verdict:
        """Take a signed commitment to a share. One with a wrong signature is refused."""
        claim = request.claim
        if claim.provider != caller.address:
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "the share's provider is not the caller",
                "submit only your own shares",
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

    def deliver_share(self, caller: t.Caller, request: t.DeliveryOffer) -> t.ReceiptReply:
        """Take an encrypted delivery.

        Sign the receipt if the commitment is on chain, and the ciphertext is complete. The delivery may also come from
        a witness, or this validator may be one for another validator's share.
        """
        key = request.key
        witnessed = find_witness(self.view.witnessed, key, caller.address)
        if witnessed is not None:
            return self._take_as_witness(witnessed, caller, request)
        on_chain = self._find(key.order_id, key.leg)
        ask = on_chain.ask(key)
        reason = ShareReason.NONE

        def holds(claim: ShareClaim) -> bool:
            document = manifest_sign_bytes(self.chain_id, claim, request.manifest)
            return self._verify(caller.pub_key, document, request.signature)

        def take(now: LocalOrder) -> LocalOrder:
            nonlocal reason
            if ask is not None and ask.manifest == request.manifest and caller.address in ask.witnesses:
                after, reason = delivery_passed(now, request)
            else:
                after, reason = delivery_offered(now, caller.address, request, holds)
            return after

        self.ledger.change(key.order_id, key.leg, take, (request.ciphertext,), caller.address)
        receipt = None if reason else self._receipt(key)
        return t.ReceiptReply(
            accepted=reason == ShareReason.NONE, reason=int(reason), text=reason.name.lower(), receipt=receipt
        )

    def _take_as_witness(self, key: WitnessKey, caller: t.Caller, request: t.DeliveryOffer) -> t.ReceiptReply:
        """Take the delivery of another validator's share, whose provider asked for witnesses."""
        if self.view.witnessed[key].ask.manifest != request.manifest:
            reason = ShareReason.MALFORMED
            return t.ReceiptReply(accepted=False, reason=int(reason), text=reason.name.lower())
        self.ledger.offer_witness(key, request, caller.address)
        return t.ReceiptReply(accepted=True)

    def _receipt(self, key: ShareKey) -> t.DeliveryReceipt | None:
        """Sign a receipt for a complete ciphertext, if the share needs one now; the record has the time of it first."""
        signed = False

        def sign(now: LocalOrder) -> LocalOrder:
            nonlocal signed
            after = receipt_signed(now, key, self.view.clock)
            signed = after is not None
            return now if after is None else after

        local = self.ledger.change(key.order_id, key.leg, sign)
        at = local.share(key) if local is not None and signed else None
        return None if at is None else self._sign_receipt(at.work, shown=False)

    def show_key(self, caller: t.Caller, request: t.ShownKey) -> t.ReceiptReply:
        """Take the key of a delivery and the roots of its commitment, and sign that they are here."""
        key = request.key
        on_chain = self._find(key.order_id, key.leg)
        reason = ShareReason.NONE

        def take(now: LocalOrder) -> LocalOrder:
            nonlocal reason
            after, reason = key_shown(now, on_chain.order.terms, self.chain_id, caller.address, request)
            return after

        local = self.ledger.change(key.order_id, key.leg, take)
        at = local.share(key) if local is not None else None
        if at is None:
            reason = ShareReason.MALFORMED
        receipt = self._sign_receipt(at.work, shown=True) if at is not None and not reason else None
        return t.ReceiptReply(
            accepted=reason == ShareReason.NONE, reason=int(reason), text=reason.name.lower(), receipt=receipt
        )

    def _sign_receipt(self, work: SlotWork, *, shown: bool) -> t.DeliveryReceipt | None:
        """Return the receipt for a ciphertext or, if ``shown``, for its key as well."""
        if work.signed is None or work.offer is None:
            return None
        document = receipt_sign_bytes(
            self.chain_id, work.signed.claim, work.offer.manifest, work.receipt_at, shown=shown
        )
        return t.DeliveryReceipt(work.receipt_at, shown, self._sign(document))

    def submit_opening(self, caller: t.Caller, request: t.OpeningSubmission) -> t.Verdict:
        """Take the states at a boundary that this validator has requested from the caller."""
        key = request.key
        on_chain = self._find(key.order_id, key.leg)
        verdict = t.Verdict(False, int(ShareReason.NONE), "the states are not, or no longer, needed")

        def take(now: LocalOrder) -> LocalOrder:
            nonlocal verdict
            wanted = {task.key: task.indices for task in open_tasks(now, on_chain, self.view.panels, caller.address)}
            if request.index not in wanted.get(key, ()):
                return now
            after = opening_received(now, request)
            if after is None:
                mismatch = ShareReason.OPENING_MISMATCH
                verdict = t.Verdict(False, int(mismatch), "the states do not have the size of the job's states")
                return now
            verdict = t.Verdict(True)
            return after

        needs = (request.global_state, request.local_state)
        self.ledger.change(key.order_id, key.leg, take, needs, caller.address)
        return verdict

    # Consumers

    def offer_payload(self, caller: t.Caller, request: t.PayloadOffer) -> t.PayloadWanted:
        """Record the files of an order's payload, and return the blobs that are missing."""
        on_chain = self._find(request.order_id)
        self._check_consumer(caller, on_chain)
        self._check_files(on_chain, request.files)
        self._check_room(caller, on_chain, request.files)
        number = on_chain.order.legs
        leg = on_chain.current
        matched = leg is not None and leg.state == LegState.MATCHED

        def take(now: LocalOrder) -> LocalOrder:
            # The consumer may change its offer until all files have arrived.
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
        """Return whether the payload has arrived and whether its job loads."""
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
                "job.json is not the job that was ordered",
                "offer the files of the ordered job",
                field="files",
            )
        size = sum(blob.size for blob in blobs.values())
        if len(blobs) != len(files) or size != payload_quota(on_chain):
            raise ClusterError(
                ClusterErrorKind.BAD_REQUEST,
                f"the files have {size} bytes, or one is listed twice; the order's payload has"
                f" {payload_quota(on_chain)} bytes",
                "offer each file of the payload exactly once",
                field="files",
            )
        if nests(list(blobs)):
            raise ClusterError(
                ClusterErrorKind.BAD_REQUEST,
                "a path is a file and a folder at the same time",
                "offer the files of the ordered job",
                field="files",
            )

    def _check_room(self, caller: t.Caller, on_chain: OrderResponse, files: tuple[t.PayloadFile, ...]) -> None:
        """Refuse a payload that does not fit, before it is sent: raise ClusterError OVER_QUOTA."""
        size = payload_quota(on_chain)
        most = self.blobs.owner_quota
        if size > most:
            raise ClusterError(
                ClusterErrorKind.OVER_QUOTA,
                f"the payload has {size} bytes, and this validator accepts at most {most} bytes per caller",
                "wait until the order goes to another validator",
                field="files",
            )
        here = sum(self.blobs.status(file.blob, caller.address).held for file in files)
        if size - here > self.blobs.room(caller.address):
            raise ClusterError(
                ClusterErrorKind.OVER_QUOTA,
                "this validator does not have enough disk space for the payload now",
                "try again later, when other orders have closed",
                field="files",
            )

    def get_result(self, caller: t.Caller, request: t.ResultRequest) -> t.ResultManifest:
        """Return the manifest of a hand-over round's encrypted state.

        The order's consumer gets it. If the consumer says that it was not served, seats of a panel get it, too, and
        then serve it to the consumer and to each other.
        """
        on_chain = self.view.orders.get(request.order_id)
        legs = on_chain.legs if on_chain is not None else ()
        own = [leg.number for leg in legs if leg.validator == self.me]
        number = max(own, default=on_chain.order.legs if on_chain is not None else 0)
        local = self.ledger.load(request.order_id, number)
        if local is None or on_chain is None:
            raise ClusterError(
                ClusterErrorKind.NOT_FOUND,
                "this validator has no such order",
                "ask the validator that serves the order (assay order show)",
                field="order_id",
            )
        key = RoundKey(request.order_id, number, request.round)
        if caller.address not in self.view.result_finders.get(key, ()):
            self._check_consumer(caller, on_chain)
        served = {known.round: known.sealed for known in served_rounds(local, on_chain)}
        served |= {found.round: found.sealed for found in local.results}
        result = served.get(request.round)
        if result is None:
            raise ClusterError(
                ClusterErrorKind.WRONG_STATE,
                f"this validator does not serve the result of round {request.round} now",
                f"the results of these rounds are here: {sorted(served)}"
                if served
                else "ask again when the round is verified, or take it early (assay order result --early)",
                field="round",
            )
        self._grants.give(caller.address, (result.blob,))
        last = min(request.first + request.limit, len(result.leaves))
        leaves = tuple(t.ResultLeaf(result.leaves[i], result.state_leaves[i]) for i in range(request.first, last))
        return t.ResultManifest(
            order_id=local.order_id,
            leg=local.leg,
            round=request.round,
            ciphertext=result.blob,
            count=len(result.leaves),
            leaves=leaves,
        )

    # States of earlier legs

    def _continues(self, on_chain: OrderResponse, address: str) -> bool:
        """Return whether a validator won a leg that starts from the states of an earlier leg."""
        leg = on_chain.current
        return leg is not None and leg.validator == address and leg.from_leg > 0 and leg.is_live

    def get_states(self, caller: t.Caller, request: t.StatesRequest) -> t.StatesManifest:
        """Return the states on this machine from the end of a leg's last verified round, or of the round to which the
        order went back.
        """
        on_chain = self.view.orders.get(request.order_id)
        leg = on_chain.leg(request.leg) if on_chain is not None else None
        if on_chain is None or leg is None:
            raise ClusterError(
                ClusterErrorKind.NOT_FOUND,
                "this validator has no such leg",
                "ask the validators of the order's earlier legs (assay order show)",
                field="leg",
            )
        address = caller.address
        may_ask = on_chain.order.consumer == address or self._continues(on_chain, address)
        may_ask = may_ask or address in self.view.finders.get(LegKey(request.order_id, request.leg), ())
        if not may_ask and not is_mirror(on_chain, leg, address):
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "you are neither the order's consumer, nor the validator of its current leg, nor a mirror of the round,"
                " nor a seat that needs these states",
                "use the key that placed the order",
                field="order_id",
            )
        states = self.ledger.find_states(request.order_id, on_chain.order.legs, served_roots(on_chain, leg))
        self._grants.give(caller.address, [state.blob for state in states])
        return t.StatesManifest(round=max(leg.next_round - 1, 0), states=states)

    def offer_states(self, caller: t.Caller, request: t.StatesOffer) -> t.PayloadWanted:
        """Record the states that the consumer offers for a matched leg, and return the blobs that are missing.

        A seat of a panel about these states takes them, too. It keeps them in its record of the leg that left them.
        """
        on_chain = self.view.orders.get(request.order_id)
        leg = on_chain.current if on_chain is not None else None
        finds = leg is not None and self.me in self.view.finders.get(LegKey(request.order_id, leg.from_leg), ())
        if on_chain is None or not finds:
            on_chain = self._find(request.order_id)
        self._check_consumer(caller, on_chain)
        terms = on_chain.order.terms
        roots = foreign_roots(on_chain, leg) if leg is not None and leg.is_live else frozenset()
        for state in request.states:
            if state.root not in roots or state.blob.size not in (terms.global_bytes, terms.local_bytes):
                raise ClusterError(
                    ClusterErrorKind.BAD_REQUEST,
                    "an offered state is not one from which the leg starts: its root or its size differs",
                    "offer the states of the order's last verified round",
                    field="states",
                )

        def take(now: LocalOrder) -> LocalOrder:
            return replace(now, offered=request.states)

        number = leg.from_leg if leg is not None and finds else on_chain.order.legs
        with self.ledger.lock:
            local = self.ledger.change(request.order_id, number, take)
            for state in request.states if local is not None else ():
                self.blobs.hold(state.blob.sha256, f"{request.order_id.hex()}/{number}")
        self._wake.set()
        missing = (s.blob for s in request.states if not self.blobs.sent(s.blob, caller.address))
        return t.PayloadWanted(tuple(dict.fromkeys(missing)))

    # Seats

    def get_opening(self, caller: t.Caller, request: t.OpeningRequest) -> t.AuditOpening:
        """Return the opening that a seat of a panel needs to recompute one of its places in this validator's round."""
        number = request.place_index
        key = RoundKey(request.order_id, request.leg, request.round).panel(request.dispute)
        if request.end:
            return self._end_opening(caller, key, number)
        if key in self.view.earlier:
            return self._later_opening(caller, key, number)
        about = self.view.panels.get(key)
        local = self.ledger.load(request.order_id, request.leg)
        if (
            local is None
            or not isinstance(about, OwnPanel)
            or not (
                any(seat.validator == caller.address and number in seat.places for seat in about.seats)
                or self._mirrors(caller.address, key, about, number)
            )
        ):
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "you have no seat for this place",
                "ask only for the places of your own seats, once they are drawn",
                field="place_index",
            )
        place = about.panel.places[number].place
        if place.kind is AuditKind.HANDOVER:
            return self._chunk_opening(local, request.round, place.chunk)
        opening = audit_opening(local, request.round, place)
        self._grants.give(caller.address, _blobs_of(opening))
        return opening

    def _end_opening(self, caller: t.Caller, key: PanelKey, number: int) -> t.AuditOpening:
        """Return the states at the end of a segment to a seat that can no longer change its commitment to its own.

        They are those of the provider, in this validator's round, or those that this validator computed itself for a
        seat of an earlier stage.
        """
        clock = self.view.clock
        about = self.view.earlier.get(key) or self.view.panels.get(key)
        opening = None
        if isinstance(about, OwnPanel) and key in self.view.earlier:
            own = (self.ledger.store.seat(seat) for seat in self.ledger.store.seats() if seat.panel == key)
            ends = (serves_end(seat, about, caller.address, number, clock) for seat in own if seat is not None)
            opening = next((end for end in ends if end is not None), None)
        elif isinstance(about, OwnPanel) and may_see_end(about, caller.address, number, clock):
            local = self.ledger.load(key.order_id, key.leg)
            place = about.panel.places[number].place
            if local is not None and place.kind is AuditKind.SEGMENT:
                opening = end_opening(local, key.round, place)
        if opening is None:
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "you have no seat for this place in the open stage, or its seats may still commit",
                "ask for end states once the time to commit is over",
                field="end",
            )
        self._grants.give(caller.address, _blobs_of(opening))
        return opening

    def _mirrors(self, address: str, key: PanelKey, about: OwnPanel, number: int) -> bool:
        """Return whether a mirror of the round may have the data of a place now.

        It may not while it has a seat in the panel that has not revealed its answers. It never gets data with the
        result of a place of other seats that a panel recomputes or may still draw.
        """
        on_chain = self.view.orders.get(key.order_id)
        closed = on_chain.round(key.leg, key.round) if on_chain is not None else None
        if closed is None or address not in closed.mirrors or number not in about.panel.undecided:
            return False
        if any(seat.validator == address and not seat.revealed for seat in about.seats):
            return False
        if not may_mirror(about.panel, number, about.panel.undecided):
            return False
        others = (o.panel for at, o in self.view.panels.items() if at != key and isinstance(o, OwnPanel))
        return not shows_open_result(others, key.round_key, about.panel.places[number].place)

    def _later_opening(self, caller: t.Caller, key: PanelKey, number: int) -> t.AuditOpening:
        """Return to a seat of a later stage an opening that this validator got for its own seat, or as a mirror.

        A seat whose duty is open serves nothing: it has not revealed its answers yet. A mirror that has a seat itself
        waits until that seat has revealed.
        """
        about = self.view.earlier[key]
        sits = any(duty.panel == key for duty in self.view.duties)
        for own in self.ledger.store.seats():
            seat = self.ledger.store.seat(own)
            if own.panel != key or own in self.view.duties or seat is None:
                continue
            if own.stage == STAGE and sits:
                continue
            opening = serves_later(seat, about, caller.address, number)
            if opening is not None:
                self._grants.give(caller.address, _blobs_of(opening))
                return opening
        raise ClusterError(
            ClusterErrorKind.NOT_ALLOWED,
            "you have no seat of a later stage for this place, or this validator does not have its opening",
            "ask the validator of the round",
            field="place_index",
        )

    def _chunk_opening(self, local: LocalOrder, round: int, chunk: int) -> t.AuditOpening:
        """Return the opening of an encrypted chunk of a hand-over round."""
        current = local.find(round)
        on_chain = self.view.orders.get(local.order_id)
        if current is None or on_chain is None:
            return t.not_ready(RETRY_MS)
        handover = HandoverId(chain_id=self.chain_id, order_id=local.order_id, leg=local.leg, round=round)
        layout = chunk_layout(on_chain.order.terms, len(accepted_works(current)))
        opened = open_for_seat(self.blobs, handover, current, layout, chunk, self._secret)
        if opened is None:
            return t.not_ready(RETRY_MS)
        return replace(t.not_ready(0), ready=True, chunk=opened)

    def show_place(self, caller: t.Caller, request: t.ShownPlace) -> t.Verdict:
        """Take the opening of a place from the provider that stands for the share, for this validator's own seat."""
        panel = RoundKey(request.order_id, request.leg, request.round).panel(request.dispute)
        for key, subject in self.view.subjects.items():
            if key.panel != panel or stander_of(subject) != caller.address or self.ledger.store.seat(key) is None:
                continue
            for blob in _blobs_of(request.opening):
                if self.blobs.sent(blob, caller.address):
                    self.ledger.hold_for(key, (blob,))
                if not self.blobs.sent(blob, caller.address):
                    return t.Verdict(False, text="a blob that the opening names has not been uploaded")
            shown = partial(place_shown, number=request.place_index, opening=request.opening)
            self.ledger.change_seat(key, shown)
            return t.Verdict(True)
        return t.Verdict(False, text="this validator has no seat for this place, or has not seen it yet")

    def get_place(self, caller: t.Caller, request: t.PlaceRequest) -> t.AuditOpening:
        """Return the opening of a place to a party that may challenge the round: its consumer, or another validator.

        Refuse the opening as long as it would show a seat the result of a place that this seat has to recompute.
        """
        key = RoundKey(request.order_id, request.leg, request.round)
        on_chain = self._find(request.order_id, request.leg)
        local = self.ledger.load(request.order_id, request.leg)
        closed = on_chain.round(request.leg, request.round)
        if local is None or closed is None or closed.void or closed.verified:
            raise ClusterError(
                ClusterErrorKind.WRONG_STATE,
                "the round is not closed, or it is already verified or void",
                "ask for places of a closed round before its window ends",
                field="round",
            )
        if not self._may_watch(on_chain, caller.address):
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "only accounts that may challenge the order's rounds may fetch places of them",
                "use the key of the consumer, of a validator, or of an account that the order names",
                field="order_id",
            )
        if not is_place(request.place, get_extents(on_chain, closed), closed.stopped):
            raise ClusterError(
                ClusterErrorKind.NOT_FOUND,
                "the round has no such place",
                "ask for a place of an accepted share",
                field="place",
            )
        leg = on_chain.leg(request.leg)
        compares = leg is not None and compares_ends(leg, request.place)
        panels = (about.panel for about in self.view.panels.values() if isinstance(about, OwnPanel))
        if shows_open_result(panels, key, request.place, with_end=compares):
            raise ClusterError(
                ClusterErrorKind.BUSY,
                "these data contain the result of a place that a panel recomputes or may still draw",
                "ask again when the panel is over",
                field="place",
            )
        if not self._watched.ask(caller.address, key, request.place):
            raise ClusterError(ClusterErrorKind.BUSY, "too many others request places now", "ask again a little later")
        self._wake.set()
        opening = audit_opening(local, request.round, request.place, with_end=compares)
        self._grants.give(caller.address, _blobs_of(opening))
        return opening

    def _may_watch_some(self, address: str) -> bool:
        """Return whether an account may fetch places of some order here.

        If an order lets anyone challenge, the next look at the chain reads whether the account has a bond.
        """
        if address in self.view.validators:
            return address != self.me
        orders = self.view.orders.values()
        named = any(address in on_chain.order.challenges.addresses for on_chain in orders)
        if named or address in self.view.bonded:
            return True
        if any(_challenges(on_chain).anyone for on_chain in orders):
            self.bonding.hear(address)
        return False

    def _may_watch(self, on_chain: OrderResponse, address: str) -> bool:
        """Return whether an account may fetch places of an order: it may challenge its rounds, and can pay for it."""
        terms = _challenges(on_chain)
        if terms.anyone and address in self.view.bonded:
            return True
        is_operator = address in self.view.validators
        parties = {on_chain.order.consumer, *(row.address for row in on_chain.escrow.depositors)}
        return may_challenge(replace(terms, anyone=False), parties, address, is_operator=is_operator)

    # Records

    def _is_sought(self, caller: t.Caller, blob: t.BlobRef) -> bool:
        """Return whether the caller is a consumer that offers a state which this validator looks for as a seat."""
        for key, names in self.view.finders.items():
            on_chain = self.view.orders.get(key.order_id)
            local = self.ledger.load(key.order_id, key.leg) if self.me in names else None
            mine = on_chain is not None and on_chain.order.consumer == caller.address
            if mine and local is not None and blob in [state.blob for state in local.offered]:
                return True
        return False

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
        """Return an order from the chain; ClusterError NOT_FOUND if this validator does not have its leg.

        ``leg_number`` 0 is the current leg.
        """
        on_chain = self.view.orders.get(order_id)
        if on_chain is None:
            raise ClusterError(
                ClusterErrorKind.NOT_FOUND,
                "this validator has no such order",
                "use the id of an order that this validator serves (assay order list)",
                field="order_id",
            )
        number = leg_number or on_chain.order.legs
        leg = on_chain.leg(number)
        mine = leg is not None and leg.validator == self.me
        if not mine or self.ledger.load(order_id, number) is None:
            raise ClusterError(
                ClusterErrorKind.NOT_FOUND,
                "the leg is not one of this validator's legs",
                "read the order from the chain again: another validator may serve it now",
                field="leg",
            )
        return on_chain

    def _check_consumer(self, caller: t.Caller, on_chain: OrderResponse) -> None:
        if on_chain.order.consumer != caller.address:
            raise ClusterError(
                ClusterErrorKind.NOT_ALLOWED,
                "this is another consumer's order",
                "use the key that placed the order",
                field="order_id",
            )

    def _complete_payload(self, caller: t.Caller, order_id: bytes, leg: int) -> LocalOrder:
        """Record that a payload is complete, if its consumer has sent all files; return the record of the leg."""
        with self.ledger.lock:
            local = self.ledger.load(order_id, leg)
            if local is None:  # deleted since _find
                raise ClusterError(ClusterErrorKind.NOT_FOUND, "this validator has no such order", "", field="order_id")
            blobs = [file.blob for file in local.payload.files]
            sender = caller.address
            offered = local.payload.stage == PayloadStage.OFFERED
            if not offered or not all(self.blobs.sent(blob, sender) for blob in blobs):
                return local
            return self.ledger.change(order_id, leg, payload_complete, blobs, sender) or local


def _waits(reason: str, again_ms: int) -> t.JoinReply:
    return t.JoinReply(False, reason, t.JoinLimits(0, again_ms))


def _fitting(tasks: list[t.TrainTask]) -> list[t.TrainTask]:
    """Return as many of the first tasks as have lists of files that fit in half a message, but at least one. The others
    are sent later.
    """
    first: list[t.TrainTask] = []
    bytes_left = t.MESSAGE_BYTES_MAX // 2
    for task in tasks:
        bytes_left -= sum(len(file.path) + _FILE_BYTES for file in task.payload)
        if first and bytes_left < 0:
            break
        first.append(task)
    return first


def _challenges(on_chain: OrderResponse) -> ChallengeTerms:
    """Return the rules about challenges of an order's current leg, or those that the order asked for."""
    leg = on_chain.current
    return on_chain.order.challenges if leg is None else challenges_of(on_chain.order, leg)


def _blobs_of(opening: t.AuditOpening) -> list[t.BlobRef]:
    blobs = [file.blob for file in opening.payload]
    for state in opening.states:
        blobs += [state.global_state, state.local_state]
    blobs += [update.update.blob for update in opening.updates]
    return blobs + ([opening.local_out.blob] if opening.local_out else [])
