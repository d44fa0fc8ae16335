"""An auditor against a winner's real service, over the real link, on a real job."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import pytest

from domain.queries import AuditDuty, OrderResponse
from domain.records import (
    Audit,
    AuditAnswer,
    AuditKind,
    Place,
    Round,
    Seat,
    Share,
    ShareClaim,
    ShareRef,
    ShareState,
    Validator,
)
from link import types as t
from link.blobs import BlobStore
from link.client import ClusterClient
from link.server import ClusterServer
from link.tls import make_certificate
from pol.job.document import order_terms
from pol.job.load import load_job
from pol.rules.commitment import audit_digest, check_leaf, update_claim
from tests.support.chain_market import digest
from tests.unit.validator.support import CHAIN_ID, ME, ORDER_ID, chain
from tests.unit.validator.trained import JOB, PART, N, Trained, delivery_of, train
from validator.decide.actions import AnswerAudit, LoadAudited
from validator.decide.audits import agrees, new_audit
from validator.decide.duties import decide
from validator.decide.receive import job_loaded, payload_complete, payload_offered
from validator.decide.records import (
    LocalAudit,
    LocalOrder,
    LocalRound,
    Opening,
    SlotWork,
    new_order,
)
from validator.decide.view import ChainView, Look
from validator.ledger import Ledger
from validator.serve.service import Service
from validator.store import ValidatorStore
from validator.work import numerics
from validator.work.audit import RETRY_SECONDS, Auditor
from validator.work.perform import work_of
from wire.keys import Key

T = TypeVar("T")
TERMS = order_terms(load_job(JOB).job)
AUDITOR = Key(sha256(b"auditor").digest())
PLACES = (
    Place(AuditKind.SEGMENT, PART.slot, 1, 2),
    Place(AuditKind.UPDATE, PART.slot, 1, N),
    Place(AuditKind.AGGREGATION, 0, 0, 0),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("share"))


DUTY = AuditDuty(ORDER_ID, 1, 0, PLACES, 110)


@dataclass(frozen=True)
class Found:
    """An answer for one place, and whether it is what the chain has."""

    answer: AuditAnswer
    agrees: bool


UNAVAILABLE = Found(AuditAnswer(b"", b"", None), agrees=False)


@dataclass
class Setting:
    """A winner with one accepted share, and an auditor with a seat in its round."""

    trained: Trained
    ledger: Ledger
    service: Service
    client: ClusterClient
    auditor: Auditor
    stop: Event
    packet: t.ShareDelivery
    next_root: bytes
    local_in: bytes = TERMS.local_root
    duty: AuditDuty = DUTY

    def ref(self, path: Path) -> t.BlobRef:
        return self.ledger.blobs.add(path.read_bytes())

    def opening(self, index: int, of: int | None = None, verified: bool = True) -> Opening:
        first, second = self.trained.paths(index if of is None else of)
        return Opening(index, self.ref(first), self.ref(second), verified)

    def record(self, *openings: Opening) -> LocalOrder:
        """Write the winner's record with these openings."""
        wanted = {file.path for file in load_job(JOB).job.payload}
        files = tuple(t.PayloadFile(path, self.ref(JOB / path)) for path in sorted(wanted))
        local = payload_complete(payload_offered(new_order(ORDER_ID, 1), files))
        local = job_loaded(local, TERMS, TERMS, "")
        first, second = local.payload.initial_global, local.payload.initial_local
        assert first
        assert second
        work = SlotWork(
            PART.slot, 1, "p0", second, 0, None, 0, self.packet, 0, (), openings, (), (), 0, False,
        )  # fmt: skip
        works = (replace(work, slot=0, openings=()), work)
        local = replace(local, rounds=(LocalRound(0, first, works, None, (), 0, None),))
        self.ledger.store.save(local)
        return local

    def see(self) -> OrderResponse:
        """Show both what the chain says: the share is accepted, and the auditor has a seat."""
        shares = tuple(
            Share(
                ShareClaim(ORDER_ID, 1, 0, slot, 1, "p0", bytes(32)), bytes(64), self.local_in,
                1, 1, ShareState.ACCEPTED, 0, 1, 1, (2,), self.packet.roots,
            )
            for slot in range(TERMS.slots)
        )  # fmt: skip
        seats = (Seat(AUDITOR.address, (), 0, missed=False),)
        now = chain(
            ordered={"terms": TERMS},
            shares=shares,
            rounds=(
                Round(
                    ORDER_ID, 1, 0, TERMS.global_root, self.next_root, b"",
                    (ShareRef(0, 1), ShareRef(1, 1)), 1, 1, 1, 20, verified=False, void=False,
                ),
            ),
            audits=(Audit(ORDER_ID, 1, 0, 1, self.duty.places, seats, 15, agreed=False),),
        )  # fmt: skip
        other = Validator(AUDITOR.address, "", b"", b"", 1, False, "", b"", 0, 0, 0, 0)
        self.service.view = ChainView(10, {ORDER_ID: now}, {AUDITOR.address: other}, {})
        return now

    def answer(self, seconds: float = 20.0, **changes: Any) -> tuple[Found, ...]:
        """Decide and act, as a daemon does, until the answer goes out; the draw ends after so many seconds."""
        now = self.see()
        if changes:
            terms = replace(now.order.terms, **changes)
            now = replace(now, order=replace(now.order, terms=terms))
        table, record = self.auditor.table(), None
        store = self.auditor.ledger.store
        began = time.monotonic()
        while True:
            clock = 100 + min(9, int((time.monotonic() - began) * 10 / seconds))
            seen = ChainView(clock, {}, {}, {}, (self.duty,), {self.duty: now})
            record = store.audit(self.duty)
            after, actions = decide(self.duty, record, Look(seen, AUDITOR.address, CHAIN_ID, b""))
            assert isinstance(after, LocalAudit)
            store.save_audit(after)
            for action in actions:
                if isinstance(action, AnswerAudit):
                    return self.found(after, action, now)
                self.stop.wait(min(0.1, work_of(table, action)() or 0.0))

    def found(
        self, audit: LocalAudit, action: AnswerAudit, now: OrderResponse
    ) -> tuple[Found, ...]:
        answers = action.message.answers
        found = tuple(
            Found(answer, agrees(self.duty, place, answer, now))
            for place, answer in zip(self.duty.places, answers, strict=True)
        )
        assert action.agreed == all(item.agrees for item in found)
        # What becomes of it when the chain has it.
        seen = ChainView(110, {}, {}, {})
        _, (end,) = decide(self.duty, audit, Look(seen, AUDITOR.address, CHAIN_ID, b""))
        work_of(self.auditor.table(), end)()
        return found


def packet_of(trained: Trained, ledger: Ledger, bent: int = -1) -> t.ShareDelivery:
    update, out = (ledger.blobs.add(path.read_bytes()) for path in trained.sent)
    return delivery_of(trained, update, out, bent=bent)


@pytest.fixture
def setting(trained: Trained, tmp_path: Path) -> Iterator[Setting]:
    stop = Event()
    ledger = Ledger(ValidatorStore(tmp_path / "v.db"), BlobStore(tmp_path / "b", 1 << 24), stop)
    service = Service(ME, CHAIN_ID, ledger, lambda *_: True, Event())
    certificate = make_certificate(tmp_path / "tls")
    server = ClusterServer("127.0.0.1:0", certificate, service, CHAIN_ID)
    server.start()
    client = ClusterClient(f"127.0.0.1:{server.port}", certificate.der, AUDITOR, CHAIN_ID, 5.0)
    mine = BlobStore(tmp_path / "mine", 1 << 16)
    own = Ledger(ValidatorStore(tmp_path / "mine.db"), mine, Event())
    nobody: Any = None
    auditor = Auditor(own, mine, tmp_path / "jobs", _run, "numpy", lambda _: client, nobody)
    stopped = Event()
    opening, update = JOB / "global.state", trained.sent[0]
    encoded = numerics.aggregate_round(JOB, opening, [update] * TERMS.slots, "numpy")
    assert encoded is not None
    packet = packet_of(trained, ledger)
    yield Setting(trained, ledger, service, client, auditor, stopped, packet, encoded.root)
    client.close()
    server.stop(0)
    ledger.store.close()
    ledger.blobs.close()
    own.store.close()
    mine.close()


def _run(function: Callable[..., T], *arguments: object) -> T:
    """Run in this process what a daemon runs in its pool."""
    return function(*arguments)


def test_an_honest_round_is_answered_with_the_roots_of_the_chain(setting: Setting) -> None:
    setting.record(setting.opening(2), setting.opening(N))
    found = setting.answer()
    roots = setting.packet.roots
    assert [item.agrees for item in found] == [True] * 3
    segment, update, aggregation = (item.answer for item in found)
    assert segment.leaf is not None
    assert segment.leaf.index == 3
    assert check_leaf(roots.trace_root, N, segment.leaf)
    assert segment.root == segment.leaf.boundary_root == setting.trained.boundaries[3].root
    assert (update.root, update.leaf) == (update_claim(roots.update_root, roots.local_out), None)
    assert (aggregation.root, aggregation.leaf) == (setting.next_root, None)
    inner = setting.trained.segment(2).inner_roots
    assert segment.digest == audit_digest(AUDITOR.address, ORDER_ID, 1, 0, 0, inner)
    assert len({item.answer.digest for item in found}) == 3
    # Nothing is left behind but the job's directory.
    mine = setting.auditor.blobs
    assert mine.total() == 0


def test_a_second_audit_fetches_the_payload_no_more(setting: Setting) -> None:
    local = setting.record(setting.opening(2), setting.opening(N))
    setting.answer()
    shard = next(file for file in local.payload.files if file.path.startswith("data/"))
    setting.ledger.blobs.delete(shard.blob.sha256)
    assert all(item.agrees for item in setting.answer())


def test_a_wrong_place_is_answered_with_another_root(setting: Setting) -> None:
    setting.packet = packet_of(setting.trained, setting.ledger, bent=3)
    setting.next_root = digest("not the aggregate")
    setting.record(setting.opening(2), setting.opening(N))
    segment, update, aggregation = setting.answer()
    assert (segment.agrees, update.agrees, aggregation.agrees) == (False, True, False)
    assert segment.answer.root == setting.trained.boundaries[3].root
    assert segment.answer.leaf is not None
    assert segment.answer.leaf.boundary_root == digest("bent")


def test_a_share_that_was_trained_from_another_opening_is_caught(setting: Setting) -> None:
    """Its leaves and its own states agree with each other: what they start from is the chain's to say."""
    first = Place(AuditKind.SEGMENT, PART.slot, 1, 0)
    setting.duty = replace(DUTY, places=(first, *PLACES[1:]))
    setting.record(setting.opening(2), setting.opening(N))
    assert setting.answer()[0].agrees
    setting.local_in = digest("what the chain says that it starts from")
    assert setting.answer()[0] == UNAVAILABLE


def test_states_that_do_not_hash_to_the_leaf_are_unavailable(setting: Setting) -> None:
    setting.record(setting.opening(2, of=1), setting.opening(N, of=1))
    segment, update, aggregation = setting.answer()
    assert (segment, update) == (UNAVAILABLE, UNAVAILABLE)
    assert aggregation.agrees


def test_what_is_never_ready_is_unavailable_when_the_time_is_over(setting: Setting) -> None:
    setting.record(setting.opening(2, verified=False))
    began = time.monotonic()
    segment, update, aggregation = setting.answer(1.0)
    assert (segment, update) == (UNAVAILABLE, UNAVAILABLE)
    assert aggregation.agrees
    assert time.monotonic() - began < 5


def test_another_job_is_unavailable(setting: Setting) -> None:
    setting.record(setting.opening(2), setting.opening(N))
    for changed in ({"job_id": bytes(32)}, {"payload_bytes": 7}, {"data_root": bytes(32)}):
        assert setting.answer(5.0, **changed) == (UNAVAILABLE,) * 3


def test_larger_states_than_the_jobs_are_not_fetched(setting: Setting) -> None:
    """They would fill the auditor's store, which has room for the job's and little more."""
    big = setting.ledger.blobs.add(bytes(1 << 17))
    setting.record(replace(setting.opening(2), global_state=big), setting.opening(N))
    began = time.monotonic()
    segment, update, _ = setting.answer()
    assert segment == UNAVAILABLE
    assert update.agrees
    assert time.monotonic() - began < 10  # known at once, not when the time is over


def test_a_winner_that_lacks_the_data_is_asked_until_it_has_them(setting: Setting) -> None:
    """It may be restarting: a broken link says nothing about the data."""
    opening = setting.opening(2)
    setting.record(opening, setting.opening(N))
    data = setting.ledger.blobs.read(opening.global_state.sha256, 0, 1 << 20)
    setting.ledger.blobs.delete(opening.global_state.sha256)
    asked: list[str] = []

    def connect(winner: str) -> ClusterClient:
        asked.append(winner)
        if len(asked) == 12:  # it comes back
            setting.ledger.blobs.add(data)
        return setting.client

    setting.auditor = replace(setting.auditor, connect=connect)
    assert all(item.agrees for item in setting.answer())
    assert len(asked) > 12


def test_a_winner_that_moves_is_asked_at_its_new_place(setting: Setting, tmp_path: Path) -> None:
    """Its endpoint or certificate changed on chain in the middle of the audit."""
    setting.record(setting.opening(2), setting.opening(N))
    certificate = make_certificate(tmp_path / "old").der
    old = ClusterClient("127.0.0.1:1", certificate, AUDITOR, CHAIN_ID, 5.0)
    old.close()
    clients = iter([old])
    setting.auditor = replace(setting.auditor, connect=lambda _: next(clients, setting.client))
    assert all(item.agrees for item in setting.answer())


def test_what_is_fetched_for_an_audit_that_is_over_is_not_held(setting: Setting) -> None:
    setting.record(setting.opening(2), setting.opening(N))
    now, own = setting.see(), setting.auditor.ledger
    own.store.save_audit(new_audit(DUTY, 100))
    seen = ChainView(100, {}, {}, {}, (DUTY,), {DUTY: now})
    _, (ask, *_) = decide(DUTY, own.store.audit(DUTY), Look(seen, AUDITOR.address, CHAIN_ID, b""))
    table = setting.auditor.table()
    work_of(table, ask)()
    after, actions = decide(DUTY, own.store.audit(DUTY), Look(seen, AUDITOR.address, CHAIN_ID, b""))
    assert isinstance(after, LocalAudit)
    own.store.save_audit(after)
    load = next(action for action in actions if isinstance(action, LoadAudited))
    own.end_audit(DUTY)
    assert work_of(table, load)() == RETRY_SECONDS
    work_of(table, ask)()
    assert setting.auditor.blobs.total() == 0
    assert own.store.audits() == ()
