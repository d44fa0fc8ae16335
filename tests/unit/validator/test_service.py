"""What the validator answers on the link, over real records and blobs: who may ask for what, and what junk does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from domain.keys import PanelKey, ShareKey, ShareRef
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import DeliveryManifest, Round, SealedLeaf
from domain.registry.records import Validator
from link import types as t
from link.blobs import BlobStore
from link.calls import encode
from link.errors import ClusterError, ClusterErrorKind
from pol.rules.delivery import delivery_key_hash, largest_delivery
from tests.support.chain_market import digest, make_terms
from tests.unit.validator.support import (
    CHAIN_ID,
    ORDER_ID,
    about,
    chain,
    closed,
    packet_of,
    panel,
    seat,
    segment,
    share_key,
    share_of,
    signed_of,
    view,
    works,
)
from validator.decide.idle import NO_ORDER
from validator.decide.orders import decide_order as decide
from validator.decide.plan import FreeProvider
from validator.decide.quotas import SPARE_BOUNDARIES
from validator.decide.receive import (
    delivery_checked,
    delivery_opened,
    job_loaded,
    opening_verified,
    payload_complete,
    payload_offered,
    sealed,
)
from validator.decide.records import LocalOrder, Opening, PayloadStage, SealedResult, new_order
from validator.decide.retention import needed_blobs
from validator.decide.rounds import aggregated
from validator.decide.second_look import FIRST_SECONDS
from validator.decide.view import ChainView, Member, OwnPanel
from validator.ledger import Ledger
from validator.serve.callers import RIVAL_SECONDS, TAKEN_SECONDS, Grants, Presence
from validator.serve.service import MEASURED_AGAIN, RIVAL, Service
from validator.store import ValidatorStore

CONTENT = {
    "job.json": b"{}",
    "global.state": b"g" * 100,
    "local.state": b"l" * 50,
    "data/0": b"rows" * 20,
}
FILES = tuple(t.PayloadFile(path, t.BlobRef(sha256(data).digest(), len(data))) for path, data in CONTENT.items())
TERMS = make_terms(
    job_id=FILES[0].blob.sha256,
    payload_bytes=sum(len(data) for name, data in CONTENT.items() if not name.startswith("data/")),
    data_bytes=len(CONTENT["data/0"]),
    global_bytes=len(CONTENT["global.state"]),
    local_bytes=len(CONTENT["local.state"]),
    update_bytes=90,
    slots=2,
    round_steps=8,
    segment_steps=2,
)


def caller(address: str) -> t.Caller:
    return t.Caller(address, address.encode())


CAROL, MALLORY, P0, P1, V1, V2 = map(caller, ("carol", "mallory", "p0", "p1", "v1", "v2"))


def validator(operator: str) -> Validator:
    return Validator(operator, "", b"", b"", 1, False, "", b"", 0, 0, 0, 0)


SECRET = digest("key of p0's delivery")


@dataclass
class Setting:
    service: Service
    ledger: Ledger
    wake: Event

    def see(self, **changes: object) -> OrderResponse:
        ordered = {"terms": TERMS, **changes.pop("ordered", {})}  # type: ignore[dict-item]
        panels: dict[PanelKey, OwnPanel] = changes.pop("panels", {})  # type: ignore[assignment]
        now = chain(ordered=ordered, **changes)
        self.service.view = ChainView(
            10,
            {ORDER_ID: now},
            {name: validator(name) for name in ("v0", "v1", "v2")},
            {name: Member(10**9, due=False, newcomer=False) for name in ("p0", "p1")},
            panels,
        )
        return now

    def record(self) -> LocalOrder:
        local = self.ledger.load(ORDER_ID, 1)
        assert local is not None
        return local

    def put(self, who: t.Caller, data: bytes) -> t.BlobRef:
        blob = t.BlobRef(sha256(data).digest(), len(data))
        self.service.put_chunk(who, t.PutChunkRequest(blob, 0, data))
        return blob

    def train(self) -> tuple[t.ShareSubmission, t.ShareDelivery]:
        """Take the order to a planned round; return p0's commitment to the share that it has trained, and the share."""
        local = payload_complete(payload_offered(new_order(ORDER_ID, 1), FILES))
        for data in CONTENT.values():
            self.ledger.blobs.add(data)
        self.ledger.hold_payload(local)
        local = job_loaded(local, TERMS, TERMS, "")
        local, _ = decide(local, view(self.see()))
        self.ledger.store.save(local)
        work = next(w for w in works(local) if w.provider == "p0")
        packet = replace(packet_of(local, work), update=blob_ref(b"u" * 90), local_out=blob_ref(b"o" * 50))
        return replace(signed_of(local, work), signature=b"p0".ljust(64)), packet

    def commit(self) -> t.ShareDelivery:
        """Hand in the commitment as well."""
        signed, packet = self.train()
        assert self.service.submit_share(P0, signed).accepted
        return packet

    def offer(self, packet: t.ShareDelivery, content: bytes = b"ciphertext", **changes: Any) -> t.DeliveryOffer:
        """Send a ciphertext, and return the offer of it."""
        roots = packet.roots
        chunks = 3 if roots.is_whole else 0
        manifest = DeliveryManifest(digest(content), delivery_key_hash(SECRET), roots.segments, chunks, 0)
        made = t.DeliveryOffer(packet.key, manifest, b"p0".ljust(64), self.put(P0, content))
        return replace(made, **changes)

    def deliver(self, packet: t.ShareDelivery) -> None:
        """Let p0 send its ciphertext, and record what is in it."""
        assert self.service.deliver_share(P0, self.offer(packet)).accepted
        for data in (b"u" * 90, b"o" * 50):
            self.ledger.blobs.add(data)
        self.ledger.change(ORDER_ID, 1, lambda now: delivery_opened(now, TERMS, CHAIN_ID, packet, ()), packet.blobs)


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    wake = Event()
    store = ValidatorStore(tmp_path / "validator.db")
    blobs = BlobStore(tmp_path / "blobs", 1 << 20)
    ledger = Ledger(store, blobs, wake)
    service = Service("v0", CHAIN_ID, ledger, lambda key, _message, signature: signature == key.ljust(64), wake)
    made = Setting(service, ledger, wake)
    made.see()
    ledger.begin(ORDER_ID, 1)
    yield made
    store.close()
    blobs.close()


def blob_ref(data: bytes) -> t.BlobRef:
    return t.BlobRef(sha256(data).digest(), len(data))


def refused(kind: ClusterErrorKind) -> "pytest.RaisesExc[ClusterError]":
    return pytest.raises(ClusterError, check=lambda error: error.kind is kind)


def offer(*files: t.PayloadFile, order_id: bytes = ORDER_ID) -> t.PayloadOffer:
    return t.PayloadOffer(order_id, files or FILES)


MATCHED = {"state": LegState.MATCHED}


def test_roles_come_from_the_chain(setting: Setting) -> None:
    roles = {who.address: setting.service.roles(who) for who in (CAROL, MALLORY, P0, V1)}
    assert roles == {
        "carol": {t.Role.CONSUMER},
        "mallory": frozenset(),
        "p0": {t.Role.PROVIDER},
        "v1": {t.Role.WATCHER},
    }
    # Another validator may watch; it is an auditor here once it is drawn.
    setting.see(panels=about(segment(0), validator="v1"))
    assert setting.service.roles(V1) == {t.Role.AUDITOR, t.Role.WATCHER}
    assert setting.service.roles(V2) == {t.Role.WATCHER}


# Payloads


def test_a_payload_is_taken_file_by_file(setting: Setting) -> None:
    setting.see(assigned=MATCHED)
    wanted = setting.service.offer_payload(CAROL, offer())
    assert [blob.sha256 for blob in wanted.missing] == [file.blob.sha256 for file in FILES]
    for data in CONTENT.values():
        status = setting.service.payload_status(CAROL, t.PayloadStatusRequest(ORDER_ID))
        assert not status.complete
        setting.put(CAROL, data)
    setting.wake.clear()
    status = setting.service.payload_status(CAROL, t.PayloadStatusRequest(ORDER_ID))
    assert (status.complete, status.loaded) == (True, False)
    assert setting.wake.is_set()
    # Everything is held: a clean-up takes nothing.
    assert setting.ledger.blobs.collect(1e12) == 0


def test_only_the_consumer_offers_and_asks(setting: Setting) -> None:
    setting.see(assigned=MATCHED)
    for who in (MALLORY, P0, V1):
        with refused(ClusterErrorKind.NOT_ALLOWED):
            setting.service.offer_payload(who, offer())
        with refused(ClusterErrorKind.NOT_ALLOWED):
            setting.service.payload_status(who, t.PayloadStatusRequest(ORDER_ID))
    with refused(ClusterErrorKind.NOT_FOUND):
        setting.service.offer_payload(CAROL, offer(order_id=bytes(32)))


@pytest.mark.parametrize(
    "files",
    [
        FILES[1:],
        FILES[:-1],
        (*FILES, FILES[-1]),
        (replace(FILES[0], blob=FILES[1].blob), *FILES[1:]),
        (*FILES[:-1], replace(FILES[-1], path="global.state/0")),
    ],
    ids=["no job", "less", "twice", "another job", "a file as folder"],
)
def test_an_offer_that_cannot_be_the_job_is_refused(setting: Setting, files: tuple[t.PayloadFile, ...]) -> None:
    setting.see(assigned=MATCHED)
    with refused(ClusterErrorKind.BAD_REQUEST):
        setting.service.offer_payload(CAROL, offer(*files))
    assert setting.record().payload.stage == PayloadStage.ABSENT


def test_a_payload_is_complete_with_what_its_consumer_sent(setting: Setting) -> None:
    """Else an offer tells whoever makes it what others have here."""
    setting.see(assigned=MATCHED)
    for data in CONTENT.values():
        setting.ledger.blobs.add(data)
    wanted = setting.service.offer_payload(CAROL, offer())
    assert [blob.sha256 for blob in wanted.missing] == [file.blob.sha256 for file in FILES]
    status = setting.service.payload_status(CAROL, t.PayloadStatusRequest(ORDER_ID))
    assert not status.complete


def test_a_payload_that_cannot_come_to_its_end_is_refused_before_it_is_sent(
    setting: Setting,
) -> None:
    setting.see(assigned=MATCHED)
    blobs = setting.ledger.blobs
    blobs.owner_quota = TERMS.delivered_bytes - 1
    with refused(ClusterErrorKind.OVER_QUOTA):
        setting.service.offer_payload(CAROL, offer())
    assert setting.record().payload.stage == PayloadStage.ABSENT
    blobs.owner_quota = TERMS.delivered_bytes
    setting.service.offer_payload(CAROL, offer())
    data = CONTENT["global.state"]
    setting.service.put_chunk(CAROL, t.PutChunkRequest(FILES[1].blob, 0, data[:60]))
    setting.service.offer_payload(CAROL, offer())  # what is here already needs no room
    blobs.put(t.BlobRef(digest("other"), 99), 0, b"x", "carol")  # of another order of hers
    with refused(ClusterErrorKind.OVER_QUOTA):
        setting.service.offer_payload(CAROL, offer())


def test_what_a_corrected_offer_drops_takes_no_room(setting: Setting) -> None:
    """Else a consumer sends, offer after offer, many times what its order says."""
    setting.see(assigned=MATCHED)
    other = b"swor" * 20
    wrong = replace(FILES[-1], blob=t.BlobRef(sha256(other).digest(), len(other)))
    setting.service.offer_payload(CAROL, offer(*FILES[:-1], wrong))
    setting.put(CAROL, other)
    setting.put(CAROL, CONTENT["local.state"])
    setting.service.offer_payload(CAROL, offer())
    assert setting.ledger.blobs.total("carol") == len(CONTENT["local.state"])


def test_a_consumer_may_correct_an_offer_until_all_is_here(setting: Setting) -> None:
    setting.see(assigned=MATCHED)
    wrong = replace(FILES[-1], blob=replace(FILES[-1].blob, sha256=digest("wrong")))
    setting.service.offer_payload(CAROL, offer(*FILES[:-1], wrong))
    setting.service.offer_payload(CAROL, offer())
    assert setting.record().payload.files == FILES
    for data in CONTENT.values():
        setting.put(CAROL, data)
    setting.service.payload_status(CAROL, t.PayloadStatusRequest(ORDER_ID))
    setting.service.offer_payload(CAROL, offer(*FILES[:-1], wrong))
    assert setting.record().payload.files == FILES


def test_a_payload_is_taken_only_while_the_order_is_matched(setting: Setting) -> None:
    setting.service.offer_payload(CAROL, offer())
    assert setting.record().payload.stage == PayloadStage.ABSENT


def test_bytes_that_nothing_names_are_refused(setting: Setting) -> None:
    setting.see(assigned=MATCHED)
    for who in (CAROL, P0, V1, MALLORY):
        with refused(ClusterErrorKind.NOT_ALLOWED):
            setting.put(who, b"junk")
    setting.service.offer_payload(CAROL, offer())
    with refused(ClusterErrorKind.NOT_ALLOWED):
        setting.put(CAROL, b"junk")
    with refused(ClusterErrorKind.NOT_ALLOWED):
        setting.put(P0, CONTENT["data/0"])


def test_a_provider_sends_nothing_larger_than_a_delivery(setting: Setting) -> None:
    setting.train()
    setting.put(P0, b"x" * 100)
    with refused(ClusterErrorKind.NOT_ALLOWED):
        setting.put(P0, b"x" * (largest_delivery(TERMS, 0) + 1))


def test_a_provider_does_not_send_blob_after_blob_without_saying_what_they_are(
    setting: Setting,
) -> None:
    packet = setting.commit()
    offer = setting.offer(packet)  # one blob of one share
    most = 1 + 2 * SPARE_BOUNDARIES
    for number in range(most - 1):
        setting.put(P0, b"junk %d" % number)
    with refused(ClusterErrorKind.OVER_QUOTA):
        setting.put(P0, b"one more")
    assert setting.service.deliver_share(P0, offer).accepted
    with refused(ClusterErrorKind.OVER_QUOTA):
        setting.put(P0, b"one more")  # nothing is owed any more
    for number in range(most - 1):
        setting.ledger.blobs.delete(sha256(b"junk %d" % number).digest())
    setting.put(P0, b"one more")


def test_a_provider_does_not_announce_more_bytes_than_it_owes(setting: Setting) -> None:
    setting.train()
    owed = largest_delivery(TERMS, 0) + SPARE_BOUNDARIES * 150
    size = owed // 8
    for number in range(8):
        blob = t.BlobRef(digest(number), size)
        for _ in range(2):  # the answer got lost: the same again
            setting.service.put_chunk(P0, t.PutChunkRequest(blob, 0, b"x"))
    with refused(ClusterErrorKind.OVER_QUOTA):
        setting.put(P0, b"y" * 50)


def test_nobody_claims_what_is_not_here(setting: Setting) -> None:
    """What is claimed does not count any more among the blobs that nothing names."""
    packet = setting.commit()
    begun = t.BlobRef(digest("begun"), 90)
    setting.service.put_chunk(P0, t.PutChunkRequest(begun, 0, b"x"))
    with refused(ClusterErrorKind.WRONG_STATE):
        setting.service.deliver_share(P0, setting.offer(packet, ciphertext=begun))
    assert not setting.ledger.blobs.is_held(begun.sha256)
    of_another = setting.ledger.blobs.add(b"v" * 90)
    with refused(ClusterErrorKind.WRONG_STATE):
        setting.service.deliver_share(P0, setting.offer(packet, ciphertext=of_another))


def test_only_who_sends_a_blob_is_told_how_much_is_here(setting: Setting) -> None:
    """A data set may be known, and who has it here is nobody's business."""
    setting.train()
    update = setting.put(P0, b"u" * 90)
    payload = FILES[-1].blob
    for who in (MALLORY, P1, V1):
        for blob in (payload, update):
            if who is P1:  # it has a share of this order, and may send what can be a state
                assert setting.service.stat_blob(who, t.StatBlobRequest(blob)).held == 0
                assert setting.service.put_chunk(who, t.PutChunkRequest(blob, 0, b"x")).held == 1
            else:
                with refused(ClusterErrorKind.NOT_ALLOWED):
                    setting.service.stat_blob(who, t.StatBlobRequest(blob))
    assert setting.service.stat_blob(P0, t.StatBlobRequest(update)).complete
    assert setting.service.stat_blob(P0, t.StatBlobRequest(payload)).held == 0
    with refused(ClusterErrorKind.NOT_ALLOWED):
        setting.service.stat_blob(CAROL, t.StatBlobRequest(update))


# Providers


def test_what_a_task_lists_is_never_too_much_for_a_message(setting: Setting) -> None:
    """A consumer chooses the files of its payload, and a provider that cannot poll can never answer."""
    setting.train()
    local = setting.record()
    files = tuple(t.PayloadFile(f"{number:0128}", FILES[0].blob) for number in range(t.PAYLOAD_FILES_MAX))
    (current,) = local.rounds
    tasks = [replace(current.works[0], slot=slot, provider="p0") for slot in range(30)]
    local = replace(
        local,
        payload=replace(local.payload, files=files),
        rounds=(replace(current, works=tuple(tasks)),),
    )
    setting.ledger.store.save(local)
    reply = setting.service.poll(P0, t.PollRequest("1", ()))
    assert 1 <= len(reply.train) < 30
    assert reply.train[0].key.slot == 0
    sent = encode(reply)
    assert len(sent) < t.MESSAGE_BYTES_MAX


def test_a_payload_of_many_files_drives_out_no_grants_of_others(setting: Setting) -> None:
    setting.train()
    local = setting.record()
    state = local.rounds[0].global_in.blob
    setting.service._grants = Grants(most=10)
    setting.service.poll(P0, t.PollRequest("1", ()))
    files = tuple(t.PayloadFile(f"{n}", t.BlobRef(digest(n), 1)) for n in range(100))
    local = replace(local, payload=replace(local.payload, files=files))
    setting.ledger.store.save(local)
    setting.service.poll(P1, t.PollRequest("1", ()))
    setting.service.may_read(P0, state.sha256)
    setting.service.may_read(P1, files[-1].blob.sha256)


def test_more_boundaries_than_a_task_holds_are_asked_for_bit_by_bit(setting: Setting) -> None:
    """Of a share that has to be replayed whole; a provider whose poll fails could bring none of them."""
    packet = setting.commit()
    setting.deliver(packet)
    local = setting.record()
    (current,) = local.rounds
    work = next(w for w in current.works if w.packet)
    many = replace(packet, boundaries=packet.boundaries[:1] * (t.INDICES_MAX + 50))
    suspects = (ShareRef(work.slot, work.issue),)
    works_ = tuple(replace(w, packet=many) if w is work else w for w in current.works)
    changed = replace(current, suspects=suspects, works=works_)
    setting.ledger.store.save(replace(local, rounds=(changed,)))
    assert work.signed
    setting.see(shares=(share_of(work.signed),))
    reply = setting.service.poll(P0, t.PollRequest("1", ()))
    (task,) = reply.open
    assert task.indices == tuple(range(1, t.INDICES_MAX + 1))
    encode(reply)  # within the bounds of the link


def test_tasks_go_to_whom_they_were_given_and_so_do_their_blobs(setting: Setting) -> None:
    setting.train()
    reply = setting.service.poll(P0, t.PollRequest("1", ()))
    (task,) = reply.train
    assert (task.key.order_id, task.key.round, task.payload) == (ORDER_ID, 0, FILES)
    for blob in (task.global_in.blob, task.local_in.blob, *(file.blob for file in task.payload)):
        request = t.GetChunkRequest(blob.sha256, 0, 10)
        assert setting.service.get_chunk(P0, request).size == blob.size
        for who in (caller("p2"), CAROL, V1):
            with refused(ClusterErrorKind.NOT_ALLOWED):
                setting.service.get_chunk(who, request)
    update = setting.put(P0, b"not in any payload")
    with refused(ClusterErrorKind.NOT_ALLOWED):
        setting.service.get_chunk(P0, t.GetChunkRequest(update.sha256, 0, 10))
    assert setting.service.poll(caller("p2"), t.PollRequest("1", ())).train == ()


def test_a_right_share_is_taken_once(setting: Setting) -> None:
    signed, packet = setting.train()
    setting.wake.clear()
    assert setting.service.submit_share(P0, signed).accepted
    assert setting.wake.is_set()
    assert setting.service.submit_share(P0, signed).accepted  # the answer got lost: the same again
    other = replace(signed, signature=b"p0".ljust(63) + b"!")
    assert setting.service.submit_share(P0, other).reason == ShareReason.SLOT_TAKEN
    # Until what it hides is here, too, the task stands.
    assert len(setting.service.poll(P0, t.PollRequest("1", ())).train) == 1
    offer = setting.offer(packet)
    assert setting.service.deliver_share(P0, offer).accepted
    # It asks for its receipt again and again, and looks first whether the ciphertext is still here.
    assert setting.service.stat_blob(P0, t.StatBlobRequest(offer.ciphertext)).complete
    assert setting.service.deliver_share(P0, offer).accepted
    changed = setting.offer(packet, b"something else")
    assert setting.service.deliver_share(P0, changed).reason == ShareReason.SLOT_TAKEN
    setting.ledger.blobs.delete(changed.ciphertext.sha256)
    setting.deliver(packet)
    assert setting.service.poll(P0, t.PollRequest("1", ())).train == ()
    assert setting.ledger.blobs.collect(1e12) == 0  # all is held


def test_nobody_submits_for_another(setting: Setting) -> None:
    signed, packet = setting.train()
    with refused(ClusterErrorKind.NOT_ALLOWED):
        setting.service.submit_share(P1, signed)
    stolen = replace(signed, claim=replace(signed.claim, provider="p1"))
    assert setting.service.submit_share(P1, stolen).reason == ShareReason.MALFORMED
    assert setting.service.deliver_share(P0, setting.offer(packet)).reason == ShareReason.MALFORMED
    assert not any(work.verdict for work in works(setting.record()))


def test_a_share_without_its_blobs_is_not_taken(setting: Setting) -> None:
    packet = setting.commit()
    offer = setting.offer(packet)
    for blob in (t.BlobRef(digest("no"), 90), replace(offer.ciphertext, size=9)):
        with refused(ClusterErrorKind.WRONG_STATE):
            setting.service.deliver_share(P0, replace(offer, ciphertext=blob))
    assert not any(work.packet for work in works(setting.record()))


def test_a_commitment_with_a_wrong_signature_is_refused_and_ends_nothing(setting: Setting) -> None:
    signed, _ = setting.train()
    forged = replace(signed, signature=b"p1".ljust(64))
    assert setting.service.submit_share(P0, forged).reason == ShareReason.BAD_SIGNATURE
    (work,) = [work for work in works(setting.record()) if work.provider == "p0"]
    assert (work.verdict, work.signed) == (ShareReason.NONE, None)
    assert setting.service.submit_share(P0, signed).accepted


def test_a_delivery_that_its_provider_did_not_sign_is_not_taken(setting: Setting) -> None:
    packet = setting.commit()
    forged = setting.offer(packet, signature=b"p1".ljust(64))
    assert setting.service.deliver_share(P0, forged).reason == ShareReason.BAD_SIGNATURE
    assert not any(work.offer for work in works(setting.record()))


def receipted(setting: Setting) -> t.ShareDelivery:
    """Let p0 get the receipt for its ciphertext."""
    packet = setting.commit()
    offer = setting.offer(packet)
    assert setting.service.deliver_share(P0, offer).receipt is None  # nothing is on chain, and nothing is checked
    key = packet.key
    setting.ledger.change(ORDER_ID, 1, lambda now: delivery_checked(now, key, holds=True))
    assert setting.service.deliver_share(P0, offer).receipt is None
    signed = next(w.signed for w in works(setting.record()) if w.signed)
    local, _ = decide(setting.record(), view(setting.see(shares=(share_of(signed),)), 10))
    setting.ledger.store.save(local)
    receipt = setting.service.deliver_share(P0, offer).receipt
    assert receipt == t.DeliveryReceipt(10, False, bytes(64))
    return packet


def test_a_receipt_is_signed_once_the_ciphertext_and_the_commitment_are_there(setting: Setting) -> None:
    packet = receipted(setting)
    reply = setting.service.show_key(P0, t.ShownKey(packet.key, SECRET, packet.roots))
    assert reply.receipt == t.DeliveryReceipt(10, True, bytes(64))
    (work,) = [work for work in works(setting.record()) if work.provider == "p0"]
    assert (work.secret, work.roots) == (SECRET, packet.roots)
    assert setting.service.poll(P0, t.PollRequest("1", ())).train == ()


def test_a_wrong_key_is_no_key_and_ends_nothing(setting: Setting) -> None:
    packet = receipted(setting)
    roots = packet.roots
    for who, secret, shown in (
        (P0, bytes(32), roots),
        (P0, SECRET, replace(roots, trace_root=bytes(32))),
        (P0, SECRET, replace(roots, segments=1)),
        (P1, SECRET, roots),
    ):
        reply = setting.service.show_key(who, t.ShownKey(packet.key, secret, shown))
        assert (reply.accepted, reply.receipt) == (False, None)
    assert not any(work.verdict or work.secret for work in works(setting.record()))


def test_a_late_share_is_told_so_and_stays_known_as_late(setting: Setting) -> None:
    packet, _ = setting.train()
    local, _ = decide(setting.record(), view(setting.see(), 1_000))
    setting.ledger.store.save(local)
    setting.put(P0, b"more")  # it may still send
    assert setting.service.submit_share(P0, packet).reason == ShareReason.LATE
    assert {w.verdict for w in works(setting.record()) if w.provider == "p0" and w.issue == 1} == {ShareReason.LATE}


def committed(setting: Setting) -> ShareKey:
    packet = setting.commit()
    setting.deliver(packet)
    signed = next(w.signed for w in works(setting.record()) if w.signed)
    setting.see(shares=(share_of(signed, drawn=(2,)),))
    return packet.key


def test_openings_are_taken_only_where_they_were_asked_for(setting: Setting) -> None:
    key = committed(setting)
    (task,) = setting.service.poll(P0, t.PollRequest("1", ())).open
    assert {2, 3, 4} <= set(task.indices)
    assert 0 not in task.indices
    assert setting.service.poll(P1, t.PollRequest("1", ())).open == ()
    states = (setting.put(P0, b"G" * 100), setting.put(P0, b"L" * 50))
    wanted = t.OpeningSubmission(key, 2, *states)
    assert not setting.service.submit_opening(P1, wanted).accepted
    assert not setting.service.submit_opening(P0, replace(wanted, index=0)).accepted
    assert not setting.service.submit_opening(P0, replace(wanted, key=replace(key, issue=9))).accepted
    short = replace(wanted, global_state=setting.put(P0, b"G" * 99))
    assert setting.service.submit_opening(P0, short).reason == ShareReason.OPENING_MISMATCH
    with refused(ClusterErrorKind.WRONG_STATE):
        setting.service.submit_opening(P0, replace(wanted, global_state=t.BlobRef(digest("no"), 100)))
    assert setting.service.submit_opening(P0, wanted).accepted
    (task,) = setting.service.poll(P0, t.PollRequest("1", ())).open
    assert 2 not in task.indices


def test_who_is_there_gets_work_at_its_certified_speed(setting: Setting) -> None:
    joining = t.JoinRequest("1", t.Machine("cpu", 1), ())
    for who in (P0, MALLORY):
        setting.service.join(who, joining)
    members = {"p0": Member(77, due=False, newcomer=True)}
    setting.service.view = replace(setting.service.view, providers=members)
    assert setting.service.workers() == (FreeProvider("p0", 77, newcomer=True),)
    setting.service.poll(P0, t.PollRequest("1", (), slots=3))
    assert setting.service.workers() == (FreeProvider("p0", 77, newcomer=True, slots=3),)
    members = {"p0": Member(0, due=True, newcomer=True)}
    setting.service.view = replace(setting.service.view, providers=members)
    assert setting.service.workers() == ()  # not before it is measured
    setting.wake.clear()
    setting.service.join(P0, joining)
    assert not setting.wake.is_set()  # nothing new: no reason to look at the chain


# Two daemons with one key, and providers without work


class Clock:
    """A steady clock that tests set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(setting: Setting) -> Clock:
    made = Clock()
    setting.service.presence = Presence(made)
    return made


def poll(setting: Setting, session: bytes, who: t.Caller = P0) -> t.PollReply:
    setting.service._idle.clear()  # as when the chain's clock goes on
    return setting.service.poll(who, t.PollRequest("1", (), session))


def test_one_of_two_daemons_with_a_key_is_served_and_both_are_told(
    setting: Setting, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    first = t.JoinRequest("1", t.Machine("cpu", 1), (), b"first")
    second = replace(first, session=b"second")
    assert setting.service.join(P0, first).accepted
    for _ in range(9):
        clock.now += TAKEN_SECONDS / 2
        assert poll(setting, b"first").warning == (RIVAL if caplog.records else "")
        with refused(ClusterErrorKind.TAKEN):
            setting.service.join(P0, second)
        with refused(ClusterErrorKind.TAKEN):
            poll(setting, b"second")
    (said,) = caplog.records
    assert "two daemons use the key of provider p0" in said.getMessage()
    assert setting.service.join(P1, second).accepted, "another key is another provider"
    clock.now += RIVAL_SECONDS
    assert poll(setting, b"first").warning == "", "the other one was ended"


def test_a_daemon_that_was_killed_makes_way_soon(setting: Setting, clock: Clock) -> None:
    """And one that only slept does not take its place back."""
    poll(setting, b"killed")
    clock.now += TAKEN_SECONDS
    assert poll(setting, b"started anew").warning == ""
    clock.now += 0.3
    with refused(ClusterErrorKind.TAKEN):
        poll(setting, b"killed")


def test_strangers_hold_no_place_of_a_provider(setting: Setting, clock: Clock) -> None:
    joining = t.JoinRequest("1", t.Machine("cpu", 1), (), b"stranger")
    for number in range(3):
        assert not setting.service.join(caller(f"stranger{number}"), joining).accepted
    assert setting.service.presence._sessions == {}


def test_a_provider_hears_why_it_has_no_work(setting: Setting, clock: Clock) -> None:
    setting.service.prober.want({"p0"})
    unmeasured = {"p0": Member(0, due=True, newcomer=True)}
    setting.service.view = replace(setting.service.view, providers=unmeasured)
    assert "not certified yet" in poll(setting, b"").idle
    setting.see(assigned={"state": LegState.MATCHED})
    assert "begins when the validator has its files" in poll(setting, b"").idle
    setting.train()
    assert poll(setting, b"").idle == "", "it has work"
    local = setting.record()
    (current,) = local.rounds

    def reason(*providers: str, **changes: object) -> str:
        given = zip(current.works, providers, strict=True)
        works_ = tuple(replace(work, provider=name, **changes) for work, name in given)  # type: ignore[arg-type]
        setting.ledger.store.save(replace(local, rounds=(replace(current, works=works_),)))
        return poll(setting, b"").idle

    speeds = {
        "p0": Member(TERMS.step_work, False, False),
        "p1": Member(10**3 * TERMS.step_work, False, False),
    }
    setting.service.view = replace(setting.service.view, providers=speeds)
    assert "faster providers have the 2 slots of round 0 of order" in reason("p1", "p1")
    assert ": a share takes about" in reason("p1", "p1")
    assert "its share in round 0" in reason("p0", "p1", verdict=ShareReason.LATE)
    others = tuple(replace(work, provider="p1") for work in current.works)
    out = replace(local, excluded=("p0",), rounds=(replace(current, works=others),))
    setting.ledger.store.save(out)
    assert "continues without this provider" in poll(setting, b"").idle
    assert len(poll(setting, b"").idle) <= t.SENTENCE_MAX
    setting.see(ordered={"state": OrderState.CLOSED})
    assert poll(setting, b"").idle == NO_ORDER


def test_a_speed_that_is_far_off_is_measured_again_and_not_without_end(setting: Setting) -> None:
    service, members = (
        setting.service,
        {
            name: Member(speed, due=False, newcomer=False, measured_at=100)
            for name, speed in (("p0", 10), ("p1", 100), ("p2", 90), ("p3", 110))
        },
    )

    def doubted_at(clock: int, **speeds: Member) -> set[str]:
        service.see(replace(service.view, clock=clock, providers={**members, **speeds}), ())
        return set(service.doubted)

    assert doubted_at(100 + FIRST_SECONDS - 1) == set()
    assert doubted_at(100 + FIRST_SECONDS) == {"p0"}
    assert MEASURED_AGAIN in service._why_idle("p0")
    # Again far off: it is a slow machine, and the pause doubles.
    again = Member(11, due=False, newcomer=False, measured_at=300)
    assert doubted_at(300 + 2 * FIRST_SECONDS - 1, p0=again) == set()
    assert doubted_at(300 + 2 * FIRST_SECONDS, p0=again) == {"p0"}
    # What it measures itself is a hint, too.
    service.presence.speak("p2", 10**6)
    assert doubted_at(300 + FIRST_SECONDS, p0=again) == {"p2"}
    fine = Member(80, due=False, newcomer=False, measured_at=900)
    assert doubted_at(10**6, p0=fine, p2=replace(fine, speed=10**6)) == set()
    assert service._suspects == {}


# Auditors and the result


def closed_round(setting: Setting) -> None:
    committed(setting)
    local = setting.record()
    (current,) = local.rounds
    states = (setting.put(P0, b"G" * 100), setting.put(P0, b"L" * 50))
    opened = tuple(replace(w, openings=(Opening(2, *states, verified=False),)) for w in current.works)
    local = replace(local, rounds=(replace(current, works=opened),))
    blob = setting.ledger.blobs.add(b"n" * 100)
    setting.ledger.store.save(aggregated(local, 0, t.StateRef(digest("next"), blob)))
    seats = (seat(0, "v1", (0, 1)), seat(1, "v2", (1,)))
    seen = OwnPanel(panel(segment(0), segment(2), seats=2), seats)
    setting.see(rounds=(closed(),), panels={PanelKey(ORDER_ID, 1, 0, 0): seen})


def request(place_index: int = 0, round: int = 0, leg: int = 1) -> t.OpeningRequest:
    return t.OpeningRequest(ORDER_ID, leg, round, place_index)


def test_only_who_has_a_seat_gets_openings(setting: Setting) -> None:
    closed_round(setting)
    opening = setting.service.get_opening(V1, request())
    assert opening.ready
    assert [leaf.index for leaf in opening.leaves] == [1]
    digest_ = opening.states[0].global_state.sha256
    assert setting.service.get_chunk(V1, t.GetChunkRequest(digest_, 0, 1)).size == 100
    # A seat of the second stage is for what the first one left open.
    for who in (V2, P0, CAROL):
        with refused(ClusterErrorKind.NOT_ALLOWED):
            setting.service.get_opening(who, request())
    for elsewhere in (request(round=1), request(2), request(leg=2)):
        with refused(ClusterErrorKind.NOT_ALLOWED):
            setting.service.get_opening(V1, elsewhere)


def test_states_that_nobody_has_checked_reach_no_seat(setting: Setting) -> None:
    closed_round(setting)
    assert not setting.service.get_opening(V1, request(1)).ready
    local = opening_verified(setting.record(), share_key(), 2, holds=True)
    setting.ledger.store.save(local)
    assert setting.service.get_opening(V1, request(1)).ready


def test_a_result_is_for_its_consumer_also_after_closing(setting: Setting) -> None:
    ask = t.ResultRequest(ORDER_ID, 0, 0, 2)
    closed_round(setting)
    with refused(ClusterErrorKind.WRONG_STATE):
        setting.service.get_result(CAROL, ask)
    blob = setting.ledger.blobs.add(b"sealed")
    leaves = tuple(SealedLeaf(bytes(33), 1 + i, digest(i)) for i in range(3))
    result = SealedResult(digest("c"), blob, leaves, (bytes(32),) * 3)
    setting.ledger.change(ORDER_ID, 1, lambda now: sealed(now, 0, result), [blob])
    # Sealed is not closed: until its root is on chain, nobody could tell what it is.
    setting.see()
    with refused(ClusterErrorKind.WRONG_STATE):
        setting.service.get_result(CAROL, ask)
    # Closed is not verified: until then its consumer could have it and its deposit.
    setting.see(rounds=(closed(),))
    with refused(ClusterErrorKind.WRONG_STATE):
        setting.service.get_result(CAROL, ask)
    setting.see(rounds=(closed(),), assigned={"taken_end": 1})
    assert setting.service.get_result(CAROL, ask).round == 0
    setting.see(rounds=(closed(verified=True),))
    assert setting.service.get_result(CAROL, ask).round == 0
    with refused(ClusterErrorKind.WRONG_STATE):
        setting.service.get_result(CAROL, replace(ask, round=1))
    done = setting.see(ordered={"state": OrderState.CLOSED}, assigned={"state": LegState.DONE})
    local = setting.record()
    setting.ledger.tidy(local.key, needed_blobs(local, done, {}, 10_000))
    for who in (MALLORY, P0, V1):
        with refused(ClusterErrorKind.NOT_ALLOWED):
            setting.service.get_result(who, ask)
    manifest = setting.service.get_result(CAROL, ask)
    assert (manifest.count, [leaf.sealed.length for leaf in manifest.leaves]) == (3, [1, 2])
    rest = setting.service.get_result(CAROL, replace(ask, first=2))
    assert [leaf.sealed.length for leaf in rest.leaves] == [3]
    assert setting.service.get_chunk(CAROL, t.GetChunkRequest(blob.sha256, 0, 9)).data == b"sealed"
    # Nothing else is kept, and nobody gets work on it.
    assert not any(setting.ledger.blobs.has(file.blob.sha256) for file in FILES)
    assert setting.service.poll(P0, t.PollRequest("1", ())) == t.PollReply((), (), 300, idle=NO_ORDER)
    setting.ledger.forget(setting.record().key)
    assert not setting.ledger.blobs.has(blob.sha256)


def test_the_holder_is_the_leg() -> None:
    assert str(new_order(ORDER_ID, 2).key) == f"{ORDER_ID.hex()}/2"
    assert isinstance(closed(), Round)
