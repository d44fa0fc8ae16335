"""Witnesses of deliveries: what a witness does, and what the validator does whose provider asked for them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import pytest

from domain.hashing import verify_path
from domain.proof.messages import MsgCommitTraces, MsgWitness
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import DeliveryManifest, ReceiptAsk, ShareState, ShownDelivery
from link import types as t
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from pol.rules.delivery import delivery_layout, piece_leaf
from pol.rules.inclusion import HELD_ISSUES_FROM, witnessed_piece
from tests.support.chain_market import digest
from tests.support.delivered import content_of, send
from tests.unit.validator.support import CHAIN_ID, ME, ORDER_ID, TERMS, chain, loaded, share_of, signed_of, view, works
from tests.unit.validator.test_inclusion import put
from validator.decide import actions as do
from validator.decide.duties import decide, duties
from validator.decide.orders import decide_order
from validator.decide.receive import delivery_checked, delivery_passed
from validator.decide.records import LocalOrder, LocalWitness, SlotWork, WitnessKey
from validator.decide.rounds import OPEN_SECONDS
from validator.decide.view import ChainView, Look, WitnessedDelivery
from validator.ledger import Ledger
from validator.observer import find_witnessed
from validator.serve.service import Service
from validator.store import ValidatorStore
from validator.work.witness import RETRY_SECONDS, Witness

PLANNED = decide_order(loaded(), view(chain()))[0]
WORK = next(works(PLANNED))
CLAIM = signed_of(PLANNED, WORK).claim
KEY = CLAIM.key
SENT = send(CLAIM, content_of(TERMS, 0, WORK.slot))
WITNESSES = ("v2", "v3", "v4")
ASK = ReceiptAsk(
    KEY.order_id, KEY.leg, KEY.round, KEY.slot, KEY.issue, SENT.manifest, digest("seed"), 100, WITNESSES, ("v3",)
)
PROVIDER = t.Caller(CLAIM.provider, b"pub")


def offered(blob: t.BlobRef, manifest: DeliveryManifest = SENT.manifest) -> t.DeliveryOffer:
    return t.DeliveryOffer(KEY, manifest, bytes(64), blob)


@dataclass
class Wired:
    """A witness ``v2`` without a network: ``refuses`` is what the share's validator answers."""

    ledger: Ledger
    service: Service
    worker: Witness
    sent: list[object]
    refuses: bool = False

    def see(self, clock: int = 10, ask: ReceiptAsk = ASK) -> Look:
        on_chain = chain(shares=(share_of(signed_of(PLANNED, WORK)),), asks=(ask,))
        known = find_witnessed(on_chain, WitnessKey(KEY), clock)
        witnessed = {WitnessKey(KEY): known} if known is not None else {}
        self.service.view = ChainView(clock, {}, {}, {}, witnessed=witnessed)
        return Look(self.service.view, "v2", CHAIN_ID, b"", witnesses=self.ledger.store.witnesses())

    def decide(self, look: Look) -> tuple[do.Action, ...]:
        """Decide about the only duty that is no upkeep, and keep its record."""
        (duty,) = [duty for duty in duties(look) if isinstance(duty, WitnessKey)]
        after, actions = decide(duty, self.ledger.get(duty), look)
        if after is not None:
            self.ledger.put(duty, None, after)
        return actions

    def upload(self, data: bytes) -> t.BlobRef:
        return self.ledger.blobs.add(data, PROVIDER.address)


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    store, blobs = ValidatorStore(tmp_path / "validator.db"), BlobStore(tmp_path / "blobs", 1 << 24)
    ledger = Ledger(store, blobs, Event())
    service = Service("v2", CHAIN_ID, ledger, lambda *_: True, Event())
    made: Wired

    class Client:
        def put_blob(self, path: Path) -> None:
            made.sent.append(path.read_bytes())

        def call(self, _: object, request: object) -> t.ReceiptReply:
            if made.refuses:
                raise ClusterError(ClusterErrorKind.UNREACHABLE, "is away")
            made.sent.append(request)
            return t.ReceiptReply(accepted=True)

    def connect(operator: str) -> ClusterClient:
        assert operator == ME
        return Client()  # type: ignore[return-value]

    made = Wired(ledger, service, Witness("v2", ledger, blobs, connect), [])
    yield made
    store.close()
    blobs.close()


def test_a_witness_takes_a_delivery_states_it_and_passes_it_on(wired: Wired) -> None:
    look = wired.see()
    assert wired.decide(look) == ()
    assert t.Role.ASKER in wired.service.roles(PROVIDER)
    blob = wired.upload(SENT.file)
    assert wired.service.deliver_share(PROVIDER, offered(blob)).accepted
    (check,) = wired.decide(wired.see())
    assert isinstance(check, do.CheckWitnessed)
    wired.worker.table()[do.CheckWitnessed](check)
    signed, passed = wired.decide(wired.see())
    assert isinstance(signed, do.SendTx)
    (message,) = signed.messages
    assert isinstance(message, MsgWitness)
    layout = delivery_layout(TERMS, SENT.manifest)
    number = witnessed_piece(ASK, "v2", layout)
    leaf = piece_leaf(KEY, number, message.size, message.digest)
    assert verify_path(leaf, number, layout.count, message.path, SENT.manifest.root)
    assert signed.by == ASK.until
    assert isinstance(passed, do.PassDelivery)
    wired.refuses = True
    assert wired.worker.table()[do.PassDelivery](passed) == RETRY_SECONDS
    wired.refuses = False
    assert wired.worker.table()[do.PassDelivery](passed) is None
    assert wired.sent[-1] == offered(blob)
    assert wired.sent[-2] == SENT.file
    done = replace(ASK, signed=("v3", "v2"))
    assert wired.decide(wired.see(ask=done)) == ()


def test_a_witness_takes_the_delivery_of_a_share_whose_issue_another_provider_has(wired: Wired) -> None:
    held = replace(share_of(signed_of(PLANNED, WORK)), state=ShareState.REJECTED, held_as=HELD_ISSUES_FROM)
    other = share_of(signed_of(PLANNED, WORK))
    other = replace(other, claim=replace(other.claim, provider="accomplice"))
    asks = (ASK, replace(ASK, issue=HELD_ISSUES_FROM))
    on_chain = chain(shares=(other, held), asks=asks)
    witnessed = {key: find_witnessed(on_chain, key, 10) for key in (WitnessKey(ask.share) for ask in asks)}
    assert {key.share.issue: found.claim.provider for key, found in witnessed.items() if found} == {
        KEY.issue: "accomplice",
        HELD_ISSUES_FROM: PROVIDER.address,
    }
    wired.service.view = ChainView(10, {}, {}, {}, witnessed={key: found for key, found in witnessed.items() if found})
    blob = wired.upload(SENT.file)
    assert wired.service.deliver_share(PROVIDER, offered(blob)).accepted
    duty = WitnessKey(held.key)
    assert wired.ledger.get(WitnessKey(KEY)) is None
    record = wired.ledger.get(duty)
    assert isinstance(record, LocalWitness)
    known = witnessed[duty]
    assert known is not None
    wired.worker.table()[do.CheckWitnessed](do.CheckWitnessed("check", duty, known))
    record = wired.ledger.get(duty)
    assert isinstance(record, LocalWitness)
    assert record.proof is not None
    assert record.proof.issue == HELD_ISSUES_FROM


def test_a_witness_forgets_a_delivery_whose_time_is_over(wired: Wired) -> None:
    wired.see()
    blob = wired.upload(SENT.file)
    wired.service.deliver_share(PROVIDER, offered(blob))
    (end,) = wired.decide(wired.see(clock=ASK.until))
    assert isinstance(end, do.EndWitness)
    assert wired.ledger.blobs.is_held(blob.sha256)
    wired.worker.table()[do.EndWitness](end)
    assert not wired.ledger.blobs.is_held(blob.sha256)
    assert wired.ledger.store.witnesses() == ()


def test_a_witness_does_not_state_that_something_else_arrived(wired: Wired) -> None:
    wired.see()
    blob = wired.upload(SENT.file[:-1] + b"?")
    assert wired.service.deliver_share(PROVIDER, offered(blob)).accepted
    (check,) = wired.decide(wired.see())
    wired.worker.table()[do.CheckWitnessed](check)
    assert wired.decide(wired.see()) == ()  # it waits for another one
    assert wired.service.deliver_share(PROVIDER, offered(wired.upload(SENT.file))).accepted
    (check,) = wired.decide(wired.see())
    wired.worker.table()[do.CheckWitnessed](check)
    assert len(wired.decide(wired.see())) == 2


def test_a_witness_takes_a_delivery_only_from_its_provider_and_with_its_manifest(wired: Wired) -> None:
    wired.see()
    blob = wired.upload(SENT.file)
    with pytest.raises(ClusterError):
        wired.service.deliver_share(t.Caller("p9", b""), offered(blob))
    other = replace(SENT.manifest, root=bytes(32))
    assert not wired.service.deliver_share(PROVIDER, offered(blob, other)).accepted
    missing = t.BlobRef(bytes(32), 1)
    with pytest.raises(ClusterError):
        wired.service.deliver_share(PROVIDER, offered(missing))
    wired.service.may_put(PROVIDER, blob)
    with pytest.raises(ClusterError):
        wired.service.may_put(t.Caller("p9", b""), blob)


def test_a_request_is_known_as_long_as_it_is_open() -> None:
    on_chain = chain(shares=(share_of(signed_of(PLANNED, WORK)),), asks=(ASK,))
    found = find_witnessed(on_chain, WitnessKey(KEY), 99)
    assert found == WitnessedDelivery(ASK, CLAIM, TERMS, ME)
    assert find_witnessed(on_chain, WitnessKey(KEY), 100) is None
    assert find_witnessed(None, WitnessKey(KEY), 10) is None
    assert find_witnessed(replace(on_chain, asks=()), WitnessKey(KEY), 10) is None


# --- the validator of the share ---


def handed_in(**changes: object) -> LocalOrder:
    """Return the record of a leg with a commitment that is on chain."""
    work = WORK
    return put(PLANNED, replace(work, signed=signed_of(PLANNED, work), **changes))  # type: ignore[arg-type]


def on_chain(**changes: object) -> OrderResponse:
    share = share_of(signed_of(PLANNED, WORK), is_drawn=False)
    return chain(shares=(replace(share, **changes.pop("share", {})),), **changes)  # type: ignore[arg-type]


def mine(local: LocalOrder) -> SlotWork:
    """Return the work of the share that is on chain."""
    return next(work for work in works(local) if work.slot == WORK.slot)


def decided(local: LocalOrder, known: OrderResponse, clock: int) -> SlotWork:
    return mine(decide_order(local, view(known, clock))[0])


def posted(show_by: int, key: bytes = b"") -> ShownDelivery:
    roots = SENT.roots if key else None
    return ShownDelivery(KEY.order_id, KEY.leg, KEY.round, KEY.slot, KEY.issue, SENT.manifest, show_by, key, roots)


def test_a_share_is_not_called_unanswered_before_the_deadline_of_its_task() -> None:
    """Until then, its provider can ask for witnesses, and this validator would owe two shares."""
    local = handed_in()
    by = mine(local).answer_by
    local = decide_order(local, view(on_chain(), 11))[0]
    assert by > 11 + OPEN_SECONDS
    assert not decided(local, on_chain(), by - 1).verdict
    assert decided(local, on_chain(), by).verdict == ShareReason.NO_ANSWER


def test_a_share_is_not_called_unanswered_while_witnesses_wait_for_it() -> None:
    local = decide_order(handed_in(), view(on_chain(), 11))[0]
    by = mine(local).answer_by
    asked = replace(ASK, until=by + 10)
    assert not decided(local, on_chain(asks=(replace(ASK, until=0),)), by + 10).verdict
    assert not decided(local, on_chain(asks=(asked,)), by + 9).verdict
    assert decided(local, on_chain(asks=(asked,)), by + 10).verdict == ShareReason.NO_ANSWER
    # The witnesses have stated that it arrived, so the provider has some time to show the key.
    received = on_chain(asks=(asked,), deliveries=(posted(by + 30),))
    assert not decided(local, received, by + 29).verdict
    assert decided(local, received, by + 30).verdict == ShareReason.NO_ANSWER


def test_a_share_whose_ciphertext_no_witness_passes_on_gives_its_slot_free() -> None:
    local = decide_order(handed_in(), view(on_chain(), 11))[0]
    shown = on_chain(share={"is_received": True}, deliveries=(posted(50, SENT.key),))
    assert not decided(local, shown, 50 + OPEN_SECONDS - 1).verdict
    assert decided(local, shown, 50 + OPEN_SECONDS).verdict == ShareReason.SEGMENT_MISMATCH
    with_it = put(local, replace(mine(local), offer=offered(t.BlobRef(bytes(32), 1))))
    assert decided(with_it, shown, 50 + OPEN_SECONDS).secret == SENT.key


def test_what_a_witness_passes_on_replaces_a_delivery_that_is_not_complete() -> None:
    local = handed_in()
    bogus = replace(offered(t.BlobRef(bytes(32), 1)), manifest=replace(SENT.manifest, root=bytes(32)))
    right = offered(t.BlobRef(digest("right"), 9))
    for before in (None, bogus, offered(t.BlobRef(bytes(32), 1))):
        known = put(local, replace(mine(local), offer=before))
        after, reason = delivery_passed(known, right)
        assert (mine(after).offer, reason) == (right, ShareReason.NONE)
    whole = put(local, replace(mine(local), offer=right, offer_holds=True))
    assert delivery_passed(whole, offered(t.BlobRef(bytes(32), 1))) == (whole, ShareReason.NONE)
    ended = put(local, replace(mine(local), verdict=ShareReason.NO_ANSWER))
    assert delivery_passed(ended, right) == (ended, ShareReason.LATE)
    assert delivery_passed(PLANNED, right) == (PLANNED, ShareReason.MALFORMED)


def test_a_delivery_that_is_not_its_manifest_s_ends_nothing() -> None:
    """Otherwise a provider sends noise, lets the slot go on, and asks witnesses for the right one."""
    local = handed_in(offer=offered(t.BlobRef(bytes(32), 1)))
    after = mine(delivery_checked(local, KEY, holds=False))
    assert (after.offer, after.verdict) == (None, ShareReason.NONE)
    assert mine(delivery_checked(local, KEY, holds=True)).offer_holds


def test_an_included_share_with_witnesses_is_committed() -> None:
    reason = {"state": ShareState.REJECTED, "reason": int(ShareReason.INCLUDED)}
    _, actions = decide_order(PLANNED, view(on_chain(share=reason, asks=(ASK,))))
    messages = [m for action in actions if isinstance(action, do.SendTx) for m in action.messages]
    assert any(isinstance(message, MsgCommitTraces) and message.shares for message in messages)


def test_the_service_takes_a_delivery_of_a_witness_and_of_no_one_else(wired: Wired) -> None:
    ledger = wired.ledger
    service = Service(ME, CHAIN_ID, ledger, lambda *_: False, Event())
    service.view = ChainView(10, {ORDER_ID: on_chain(asks=(ASK,))}, {}, {})
    ledger.store.save(handed_in())
    blob = ledger.blobs.add(SENT.file, "v2")
    witness = t.Caller("v2", b"")
    assert t.Role.WITNESS in service.roles(witness)
    service.may_put(witness, blob)
    assert not service.deliver_share(t.Caller("v5", b""), offered(blob)).accepted
    assert not service.deliver_share(witness, offered(blob, replace(SENT.manifest, root=bytes(32)))).accepted
    assert service.deliver_share(witness, offered(blob)).accepted
    local = ledger.load(ORDER_ID, 1)
    assert local is not None
    assert mine(local).offer == offered(blob)


def test_a_record_of_a_witness_is_not_stored(wired: Wired) -> None:
    wired.ledger.put(WitnessKey(KEY), None, LocalWitness())
    assert wired.ledger.store.witnesses() == (WitnessKey(KEY),)
    wired.ledger.end_witness(WitnessKey(KEY))
    assert wired.ledger.get(WitnessKey(KEY)) is None
    wired.ledger.change_witness(WitnessKey(KEY), lambda now: replace(now, passed=True))
    assert wired.ledger.get(WitnessKey(KEY)) is None
