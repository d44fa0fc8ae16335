"""A seat against a winner's real service, over the real link, on a real job."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import pytest

from domain.keys import PanelKey, ShareRef
from domain.proof.queries import NumberedPlace, PanelDuty, PanelResponse
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    AuditPlace,
    Round,
    SeatAnswer,
    Share,
    ShareClaim,
    ShareState,
)
from domain.registry.records import Validator
from link import types as t
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.handover import ciphertext_root, public_point
from link.server import ClusterServer
from link.tls import make_certificate
from pol.executor.names import Engine
from pol.job.document import order_terms
from pol.job.load import load_job
from pol.rules.commitment import update_claim
from pol.rules.handover import HandoverId, chunk_layout
from pol.rules.panels import draw_chunk
from pol.rules.tiers.answers import answer_digests
from pol.state.canonical import chunks_of
from pol.work.aggregation import root_of_parts
from pol.work.executor import TaskTimeout
from tests.support.chain_market import digest
from tests.unit.validator.support import CHAIN_ID, ME, ORDER_ID, chain, panel, seat
from tests.unit.validator.trained import JOB, PART, N, Trained, delivery_of, train
from validator.decide.actions import AskOpening, EndSeat, LoadAudited, MirrorPlace, SendAnswer
from validator.decide.duties import decide
from validator.decide.mirrors import STAGE, choose_mirrored, get_bytes, may_mirror
from validator.decide.receive import job_loaded, payload_complete, payload_offered
from validator.decide.records import (
    LocalOrder,
    LocalRound,
    LocalSeat,
    Opening,
    SealedResult,
    SlotWork,
    new_order,
    seat_key,
)
from validator.decide.seats import agrees, new_seat
from validator.decide.view import ChainView, Look, OwnPanel
from validator.ledger import Ledger
from validator.serve.service import Service
from validator.store import ValidatorStore
from validator.work import numerics
from validator.work.checks import exact
from validator.work.mirrors import MirrorKeeper
from validator.work.perform import work_of
from validator.work.requests import RoundAggregation
from validator.work.sealing import seal_into
from validator.work.seats import CALLS_MAX, HELPER_SECONDS, RETRY_SECONDS, Auditor, SeatQueues
from wire.keys import Key

R = TypeVar("R")
T = TypeVar("T")
TERMS = order_terms(load_job(JOB).job)
HANDOVER_SECRET = b"\x09" * 32
ORDER_KEY = public_point(b"\x07" * 32)
AUDITOR = Key(sha256(b"auditor").digest())
LATER = Key(sha256(b"later").digest())
DIGESTED = SeatAnswer(0, AnswerKind.FINISHED, digest("root"), digest("work"), 0)
PLACES = (
    AuditPlace(AuditKind.SEGMENT, PART.slot, 1, 2),
    AuditPlace(AuditKind.UPDATE, PART.slot, 1, N),
    AuditPlace(AuditKind.AGGREGATION, 0, 0, 0),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("share"))


COMMIT_SECONDS, BEGAN = 18, 100
COMMITS_END = BEGAN + COMMIT_SECONDS
SEED = digest("seed of the stage")


def duty_of(*places: AuditPlace) -> PanelDuty:
    numbered = tuple(NumberedPlace(number, place) for number, place in enumerate(places))
    return PanelDuty(ORDER_ID, 1, 0, 1, SEED, numbered, COMMITS_END, COMMITS_END + 12, b"")


DUTY = duty_of(*PLACES)
KEY = seat_key(DUTY)


@dataclass(frozen=True)
class Found:
    """An answer for one place, and whether it is what the chain has."""

    answer: SeatAnswer | None
    agrees: bool

    @property
    def says(self) -> SeatAnswer:
        assert self.answer is not None
        return self.answer

    @property
    def unavailable(self) -> bool:
        return self.says.kind is AnswerKind.UNAVAILABLE


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
    duty: PanelDuty = DUTY
    clock: int = BEGAN
    rate: int = 10**9
    following: Path = Path()
    keeps: bool = False
    mirrors: tuple[str, ...] = ()
    port: int = 0
    certificate: bytes = b""
    sealed: SealedResult | None = None
    subject: PanelResponse = field(init=False)

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
            PART.slot,
            1,
            "p0",
            second,
            0,
            None,
            0,
            self.packet,
            0,
            (),
            openings,
            (),
            (),
            0,
            False,
        )
        works = (replace(work, slot=0, openings=()), work)
        local = replace(local, rounds=(LocalRound(0, first, works, None, (), 0, None),))
        self.ledger.store.save(local)
        return local

    def see(self) -> PanelResponse:
        """Show both what the chain says: the share is accepted, and the auditor has a seat."""
        shares = tuple(
            Share(
                ShareClaim(ORDER_ID, 1, 0, slot, 1, "p0", bytes(32)),
                bytes(64),
                self.local_in,
                1,
                1,
                ShareState.ACCEPTED,
                0,
                1,
                1,
                (2,),
                self.packet.roots,
            )
            for slot in range(TERMS.slots)
        )
        closed = Round(
            ORDER_ID,
            1,
            0,
            TERMS.global_root,
            self.next_root,
            self.sealed.ciphertext_root if self.sealed else b"",
            (ShareRef(0, 1), ShareRef(1, 1)),
            1,
            1,
            1,
            20,
            verified=False,
            void=False,
            mirrors=self.mirrors,
        )
        places = tuple(asked.place for asked in self.duty.places)
        about = panel(*places, seed=SEED, commits_end=COMMITS_END)
        now = chain(ordered={"terms": TERMS}, shares=shares, rounds=(closed,))
        seats = (seat(0, AUDITOR.address, tuple(range(len(places)))),)
        panels = {PanelKey(ORDER_ID, 1, 0, 0): OwnPanel(about, seats)}
        self.service.view = ChainView(10, {ORDER_ID: now}, {}, {}, panels)
        return PanelResponse(TERMS, 1, ME, COMMIT_SECONDS, closed, about, shares, self.rate, "exact", ORDER_KEY)

    def look(self, subject: PanelResponse, *duties: PanelDuty) -> Look:
        other = Validator(AUDITOR.address, "", b"", b"", 1, False, "", b"", 0, 0, 0, 0, audit_rate=10**9)
        known = {seat_key(duty): duty for duty in duties}
        subjects = dict.fromkeys(known, subject)
        seen = ChainView(self.clock, {}, {AUDITOR.address: other}, {}, {}, known, subjects)
        return Look(seen, AUDITOR.address, CHAIN_ID, b"")

    def answer(self, seconds: float = 20.0, patient: bool = False, **changes: Any) -> tuple[Found, ...]:
        """Decide and act, as a daemon does, until the commitment goes out; its time is over after so many seconds.

        If it is patient, only the time counts in which it waits for others, so that a busy machine can recompute.
        """
        subject = self.see()
        subject = replace(subject, terms=replace(subject.terms, **changes))
        table, key = self.auditor.table(), seat_key(self.duty)
        store = self.auditor.ledger.store
        waited = 0.0
        while True:
            self.clock = BEGAN + min(COMMIT_SECONDS - 1, int(waited / seconds * COMMIT_SECONDS))
            before, began = store.seat(key), time.monotonic()
            after, actions = decide(key, before, self.look(subject, self.duty))
            assert isinstance(after, LocalSeat)
            store.save_seat(after)
            if after.sealed is not None:
                assert all(isinstance(action, SendAnswer) for action in actions)
                return self.found(after, subject)
            for action in actions:
                self.stop.wait(min(0.1, work_of(table, action)() or 0.0))
            is_busy = after != before or any(place.served and place.is_open for place in after.places)
            if not (patient and is_busy):
                waited += time.monotonic() - began

    def found(self, after: LocalSeat, subject: PanelResponse) -> tuple[Found, ...]:
        assert after.sealed is not None
        said = {answer.place: answer for answer in after.sealed.answers}
        found = []
        for asked, known in zip(self.duty.places, after.places, strict=True):
            answer = said.get(asked.number)
            same = answer is not None and agrees(asked, answer, known, subject)
            found.append(Found(answer, same))
        assert after.sealed.agreed == all(item.agrees for item in found)
        self.subject = subject
        if self.keeps:
            return tuple(found)
        # What becomes of it when the answers were shown.
        _, (end,) = decide(seat_key(self.duty), after, self.look(subject))
        work_of(self.auditor.table(), end)()
        return tuple(found)


def packet_of(trained: Trained, ledger: Ledger, bent: int = -1) -> t.ShareDelivery:
    update, out = (ledger.blobs.add(path.read_bytes()) for path in trained.sent)
    return delivery_of(trained, update, out, bent=bent)


@pytest.fixture
def setting(trained: Trained, tmp_path: Path) -> Iterator[Setting]:
    stop = Event()
    ledger = Ledger(ValidatorStore(tmp_path / "v.db"), BlobStore(tmp_path / "b", 1 << 24), stop)
    service = Service(ME, CHAIN_ID, ledger, lambda *_: True, Event(), secret=HANDOVER_SECRET)
    certificate = make_certificate(tmp_path / "tls")
    server = ClusterServer("127.0.0.1:0", certificate, service, CHAIN_ID)
    server.start()
    client = ClusterClient(f"127.0.0.1:{server.port}", certificate.der, AUDITOR, CHAIN_ID, 5.0)
    mine = BlobStore(tmp_path / "mine", 1 << 16)
    own = Ledger(ValidatorStore(tmp_path / "mine.db"), mine, Event())
    stopped, made = Event(), list[Setting]()
    auditor = Auditor(
        own,
        mine,
        tmp_path / "jobs",
        tmp_path / "scratch",
        _run,
        Engine("numpy"),
        lambda _: client,
        lambda: made[0].clock,
    )
    opening, update = JOB / "global.state", trained.sent[0]
    updates = (update,) * TERMS.slots
    loaded, place = load_job(JOB), tmp_path / "next"
    following = numerics.aggregate_round(RoundAggregation(0, 1, JOB, opening, updates, Engine("numpy"), place))
    assert following is not None
    leaves = dict(zip(following.names, following.leaves, strict=True))
    root = root_of_parts(loaded.job.document.global_tensors, [leaves])
    packet = packet_of(trained, ledger)
    made.append(Setting(trained, ledger, service, client, auditor, stopped, packet, root))
    made[0].following = tmp_path / "next"
    made[0].port, made[0].certificate = server.port, certificate.der
    yield made[0]
    client.close()
    server.stop(0)
    ledger.store.close()
    ledger.blobs.close()
    own.store.close()
    mine.close()


def _run(seconds: float, function: Callable[[R], T], request: R) -> T:
    """Run in this process what a daemon runs in its pool."""
    # A replay never takes more than the time that is left.
    assert 0 < seconds <= COMMIT_SECONDS
    return function(request)


def test_an_honest_round_is_answered_with_the_roots_of_the_chain(setting: Setting) -> None:
    setting.record(setting.opening(2), setting.opening(N))
    found = setting.answer()
    roots = setting.packet.roots
    assert [item.agrees for item in found] == [True] * 3
    segment, update, aggregation = (item.says for item in found)
    assert segment.root == setting.trained.boundaries[3].root
    assert update.root == update_claim(roots.update_root, roots.local_out, roots.metrics)
    assert aggregation.root == setting.next_root
    sent = [path.read_bytes() for path in setting.trained.sent]
    assert (update.digest,) == answer_digests([SEED], [], sent)
    assert len({item.digest for item in (segment, update, aggregation)}) == 3
    # Nothing is left behind but the job's directory.
    mine = setting.auditor.blobs
    assert mine.total() == 0


def with_handover(setting: Setting) -> tuple[AuditPlace, SealedResult]:
    """Let the winner hand over the round's states, and the auditor have a seat for one of their chunks alone."""
    local = setting.record()
    current = local.rounds[0]
    following = t.StateRef(setting.next_root, setting.ref(setting.following))
    layout = chunk_layout(TERMS, TERMS.slots)
    handover = HandoverId(CHAIN_ID, ORDER_ID, 1, 0)
    packet = setting.packet.local_out
    assert packet is not None
    blobs = setting.ledger.blobs
    states = (following.blob, *[packet] * TERMS.slots)
    chunks = [chunk for state in states for chunk in chunks_of(blobs.path(state.sha256).read_bytes())]
    assert len(chunks) == layout.count
    sealed = seal_into(blobs, handover, chunks, ORDER_KEY, HANDOVER_SECRET)
    works = tuple(replace(work, packet=setting.packet) for work in current.works)
    setting.ledger.store.save(replace(local, rounds=(replace(current, works=works, next_global=following),)))
    setting.sealed = sealed
    place = draw_chunk(digest("places"), layout)
    assert place is not None
    setting.duty = duty_of(place)
    return place, sealed


def hand_over(setting: Setting, sealed: SealedResult) -> None:
    """Put what was encrypted on chain and into the winner's record."""
    setting.sealed = sealed
    local = setting.ledger.load(ORDER_ID, 1)
    assert local is not None
    setting.ledger.store.save(local.put(replace(local.rounds[0], sealed=sealed)))


def test_a_chunk_is_encrypted_again_without_the_job(setting: Setting) -> None:
    place, sealed = with_handover(setting)
    hand_over(setting, sealed)
    (found,) = setting.answer()
    assert found.agrees
    assert found.says.root == sealed.ciphertext_root
    layout = chunk_layout(TERMS, TERMS.slots)
    where = layout.locate(place.chunk)
    assert where is not None
    assert not where.is_header
    # Neither the payload nor a state was fetched.
    assert setting.auditor.blobs.total() == 0


def test_noise_under_a_right_point_is_a_difference_from_the_chain(setting: Setting) -> None:
    place, sealed = with_handover(setting)
    leaves = list(sealed.leaves)
    leaves[place.chunk] = replace(leaves[place.chunk], sha256=digest("noise"))
    root = ciphertext_root(HandoverId(CHAIN_ID, ORDER_ID, 1, 0), leaves)
    hand_over(setting, replace(sealed, leaves=tuple(leaves), ciphertext_root=root))
    (found,) = setting.answer()
    assert found.says.kind is AnswerKind.FINISHED
    assert not found.agrees


def test_a_chunk_without_its_scalar_is_unavailable(setting: Setting) -> None:
    place, sealed = with_handover(setting)
    leaves = list(sealed.leaves)
    leaves[place.chunk] = replace(leaves[place.chunk], point=public_point(b"\x05" * 32))
    root = ciphertext_root(HandoverId(CHAIN_ID, ORDER_ID, 1, 0), leaves)
    hand_over(setting, replace(sealed, leaves=tuple(leaves), ciphertext_root=root))
    (found,) = setting.answer()
    assert found.unavailable


def test_a_chunk_that_was_not_encrypted_is_unavailable(setting: Setting) -> None:
    """The winner has no record of it, so it asks the seat to come again until the time is over."""
    _, sealed = with_handover(setting)
    setting.sealed = sealed
    (found,) = setting.answer(1.5)
    assert found.unavailable


@dataclass
class Later:
    """A seat of the second stage, for which the winner has nothing, and the seat of the first stage as a server."""

    setting: Setting
    helper: Service
    auditor: Auditor
    connected: dict[str, ClusterClient]
    duty: PanelDuty

    def answer(self, clocks: Iterable[int]) -> LocalSeat:
        """Decide and act at these times on the chain's clock."""
        subject = self.setting.subject
        about = self.helper.view.earlier[KEY.panel]
        key, store = seat_key(self.duty), self.auditor.ledger.store
        for self.setting.clock in clocks:
            look = self.setting.look(subject, self.duty)
            look = replace(look, me=LATER.address, chain=replace(look.chain, earlier={KEY.panel: about}))
            for _ in range(4):
                after, actions = decide(key, store.seat(key), look)
                assert isinstance(after, LocalSeat)
                store.save_seat(after)
                for action in actions:
                    if not isinstance(action, SendAnswer):
                        work_of(self.auditor.table(), action)()
        seat = store.seat(key)
        assert seat is not None
        return seat


@pytest.fixture
def later(setting: Setting, tmp_path: Path) -> Iterator[Later]:
    """The first seat was served and revealed; one that sits later was drawn for the same places."""
    setting.record(setting.opening(2), setting.opening(N))
    setting.keeps = True
    setting.answer()
    helper = Service(AUDITOR.address, CHAIN_ID, setting.auditor.ledger, lambda *_: True, Event())
    certificate = make_certificate(tmp_path / "tls2")
    server = ClusterServer("127.0.0.1:0", certificate, helper, CHAIN_ID)
    server.start()
    link = ClusterClient(f"127.0.0.1:{server.port}", certificate.der, LATER, CHAIN_ID, 5.0)
    other = ClusterClient(f"127.0.0.1:{setting.port}", setting.certificate, LATER, CHAIN_ID, 5.0)
    connected = {AUDITOR.address: link, ME: other}
    mine = BlobStore(tmp_path / "later", 1 << 24)
    own = Ledger(ValidatorStore(tmp_path / "later.db"), mine, Event())
    auditor = Auditor(
        own,
        mine,
        tmp_path / "later-jobs",
        tmp_path / "scratch",
        _run,
        Engine("numpy"),
        connected.__getitem__,
        lambda: setting.clock,
    )
    places = tuple(range(len(PLACES)))
    shown = replace(seat(0, AUDITOR.address, places), revealed=True, answers=(DIGESTED,))
    seats = (shown, replace(seat(1, LATER.address, places), stage=2))
    helper.view = ChainView(20, {}, {}, {}, earlier={KEY.panel: OwnPanel(panel(*PLACES, seed=SEED, stage=2), seats)})
    yield Later(setting, helper, auditor, connected, replace(DUTY, stage=2))
    link.close()
    other.close()
    server.stop(0)
    own.store.close()
    mine.close()


def test_a_seat_that_the_winner_does_not_serve_gets_everything_from_an_earlier_seat(later: Later) -> None:
    """A winner that serves its friends alone used to make all others abstain."""
    seat_now = later.answer([BEGAN])
    assert not any(place.accepted for place in seat_now.places)
    seat_now = later.answer([BEGAN + COMMIT_SECONDS // 2])
    assert [place.helper for place in seat_now.places] == [AUDITOR.address] * 3
    found = [place.found for place in seat_now.places]
    assert [result.root for result in found if result] == [
        later.setting.trained.boundaries[3].root,
        update_claim(*_update_of(later.setting.packet)),
        later.setting.next_root,
    ]
    assert seat_now.sealed is not None
    assert seat_now.sealed.agreed


def test_an_earlier_seat_that_has_not_revealed_serves_nothing(later: Later) -> None:
    """Until then its duty is open, and its answers are its own."""
    later.helper.view = replace(later.helper.view, duties={KEY: DUTY})
    seat_now = later.answer([BEGAN, BEGAN + COMMIT_SECONDS // 2])
    assert not any(place.accepted for place in seat_now.places)


def test_an_earlier_seat_serves_nobody_but_later_seats(later: Later) -> None:
    key = KEY.panel
    request = t.OpeningRequest(key.order_id, key.leg, key.round, 0)
    assert later.connected[AUDITOR.address].call(t.GET_OPENING, request).ready
    about = later.helper.view.earlier[key]
    for seats in (
        (about.seats[0], replace(about.seats[1], stage=1)),
        (about.seats[0], replace(about.seats[1], places=(1, 2))),
    ):
        later.helper.view = replace(later.helper.view, earlier={key: OwnPanel(about.panel, seats)})
        with pytest.raises(ClusterError) as caught:
            later.connected[AUDITOR.address].call(t.GET_OPENING, request)
        assert caught.value.kind is ClusterErrorKind.NOT_ALLOWED


@dataclass
class Mirrored:
    """A round with a mirror that has a real service; the seat asks the winner, the mirror, or a helper before it."""

    setting: Setting
    subject: PanelResponse
    keeper: MirrorKeeper
    mirror: Service
    connected: dict[str, ClusterClient]
    duty: PanelDuty = field(default_factory=lambda: replace(DUTY, stage=STAGE))

    def turn(self, **changes: Any) -> tuple[Any, ...]:
        """Let the mirror decide and act once; return its actions."""
        ledger, key = self.keeper.ledger, seat_key(self.duty)
        look = self.setting.look(self.subject, self.duty)
        chain = replace(look.chain, duties={}, mirrored={key: self.duty}, **changes)
        after, actions = decide(key, ledger.store.seat(key), replace(look, me=LATER.address, chain=chain))
        if isinstance(after, LocalSeat):
            ledger.store.save_seat(after)
        for action in actions:
            if isinstance(action, MirrorPlace):
                self.keeper.mirror(action)
        return actions

    def answer(self, clocks: Iterable[int], *helpers: str) -> LocalSeat:
        """Let the seat decide and act at these times; ``helpers`` are the round's mirrors, in this order."""
        subject = replace(self.subject, round=replace(self.subject.round, mirrors=helpers or (LATER.address,)))
        auditor, store = self.setting.auditor, self.setting.auditor.ledger.store
        for self.setting.clock in clocks:
            for _ in range(4):
                after, actions = decide(KEY, store.seat(KEY), self.setting.look(subject, DUTY))
                assert isinstance(after, LocalSeat)
                store.save_seat(after)
                for action in actions:
                    if not isinstance(action, SendAnswer):
                        work_of(auditor.table(), action)()
        seat_now = store.seat(KEY)
        assert seat_now is not None
        return seat_now


HALF = BEGAN + COMMIT_SECONDS // 2


@pytest.fixture
def mirrored(setting: Setting, tmp_path: Path) -> Iterator[Mirrored]:
    """The winner named LATER as a mirror, and LATER has looked once."""
    setting.record(setting.opening(2), setting.opening(N))
    setting.mirrors = (LATER.address,)
    subject = setting.see()
    blobs = BlobStore(tmp_path / "mirror", 1 << 24)
    ledger = Ledger(ValidatorStore(tmp_path / "mirror.db"), blobs, Event())
    winner = ClusterClient(f"127.0.0.1:{setting.port}", setting.certificate, LATER, CHAIN_ID, 5.0)
    mirror = Service(LATER.address, CHAIN_ID, ledger, lambda *_: True, Event())
    certificate = make_certificate(tmp_path / "tls3")
    server = ClusterServer("127.0.0.1:0", certificate, mirror, CHAIN_ID)
    server.start()
    link = ClusterClient(f"127.0.0.1:{server.port}", certificate.der, AUDITOR, CHAIN_ID, 5.0)
    connected = {ME: setting.client, LATER.address: link}
    setting.auditor = replace(setting.auditor, connect=connected.__getitem__)
    seats = (seat(0, AUDITOR.address, tuple(range(len(PLACES)))),)
    mirror.view = ChainView(20, {}, {}, {}, earlier={KEY.panel: OwnPanel(subject.panel, seats)})
    made = Mirrored(setting, subject, MirrorKeeper(ledger, blobs, lambda _: winner), mirror, connected)
    made.turn()
    yield made
    link.close()
    winner.close()
    server.stop(0)
    ledger.store.close()
    blobs.close()


def test_a_seat_gets_everything_from_a_mirror_when_the_winner_is_gone(mirrored: Mirrored) -> None:
    """A winner that stopped after the draw used to make every seat abstain."""
    mirrored.setting.service.view = ChainView(20, {}, {}, {})  # the winner answers nothing any longer
    seat_now = mirrored.answer([BEGAN])
    assert not any(place.accepted for place in seat_now.places)
    seat_now = mirrored.answer([HALF])
    assert [place.helper for place in seat_now.places] == [LATER.address] * 3
    assert seat_now.sealed is not None
    assert seat_now.sealed.agreed


def test_a_mirror_serves_nobody_but_seats_and_keeps_nothing_when_the_panel_is_over(mirrored: Mirrored) -> None:
    key = KEY.panel
    request = t.OpeningRequest(key.order_id, key.leg, key.round, 0)
    link = mirrored.connected[LATER.address]
    assert link.call(t.GET_OPENING, request).ready
    about = mirrored.mirror.view.earlier[key]
    mirrored.mirror.view = replace(
        mirrored.mirror.view, earlier={key: OwnPanel(about.panel, (seat(0, AUDITOR.address, (1,)),))}
    )
    with pytest.raises(ClusterError) as caught:
        link.call(t.GET_OPENING, request)
    assert caught.value.kind is ClusterErrorKind.NOT_ALLOWED
    look = mirrored.setting.look(mirrored.subject)
    record = mirrored.keeper.ledger.store.seat(seat_key(mirrored.duty))
    assert decide(seat_key(mirrored.duty), record, look)[1] == (
        EndSeat(f"{seat_key(mirrored.duty)}/end", seat_key(mirrored.duty)),
    )


def test_a_mirror_that_has_a_seat_asks_for_nothing_and_is_given_nothing(mirrored: Mirrored) -> None:
    """Otherwise it would serve data before it has revealed its answers, or be told the result of its own places."""
    key = seat_key(mirrored.duty)
    mirrored.keeper.ledger.store.forget_seat(key)
    look = mirrored.setting.look(mirrored.subject, mirrored.duty)
    chain = replace(look.chain, duties={KEY: DUTY}, mirrored={key: mirrored.duty})
    assert decide(key, None, replace(look, me=LATER.address, chain=chain))[1] == ()
    about = mirrored.setting.service.view.panels[KEY.panel]
    assert isinstance(about, OwnPanel)
    request = t.OpeningRequest(KEY.order_id, KEY.leg, KEY.round, 0)
    winner = mirrored.keeper.connect(ME)
    assert winner.call(t.GET_OPENING, request).ready
    panels = {KEY.panel: OwnPanel(about.panel, (seat(0, LATER.address, (1,)),))}
    mirrored.setting.service.view = replace(mirrored.setting.service.view, panels=panels)
    with pytest.raises(ClusterError):
        winner.call(t.GET_OPENING, request)


def test_a_mirror_that_sends_rubbish_or_is_slow_is_passed_over(mirrored: Mirrored) -> None:
    """A winner names its friends as mirrors: they cost the seat a moment, and the next mirror serves it."""
    mirrored.setting.service.view = ChainView(20, {}, {}, {})
    asked: list[str] = []
    mirrored.connected["rubbish"] = _Hostile(mirrored.connected[LATER.address], asked, rubbish=True)  # type: ignore[assignment]
    mirrored.connected["slow"] = _Hostile(mirrored.connected[LATER.address], asked, rubbish=False)  # type: ignore[assignment]
    seat_now = mirrored.answer([HALF], "rubbish", "slow", LATER.address)
    assert seat_now.sealed is not None
    assert seat_now.sealed.agreed
    assert set(asked) == {"rubbish", "slow"}
    # The slow one was asked for one blob, and then no more.
    assert asked.count("slow") == 1


class _Hostile:
    """A mirror that shows right openings, and then other bytes, or a byte at a time until its deadline."""

    def __init__(self, real: ClusterClient, asked: list[str], *, rubbish: bool) -> None:
        self._real, self._asked, self._rubbish = real, asked, rubbish

    def call(self, *request: Any) -> Any:
        if not self._rubbish:
            raise ClusterError(ClusterErrorKind.NOT_ALLOWED, "nothing here", "")
        return self._real.call(*request)

    def fetch(self, blob: t.BlobRef, store: BlobStore, progress: Any, owner: str, timeout: float) -> None:
        assert timeout == HELPER_SECONDS
        if self._rubbish:
            self._asked.append("rubbish")
            store.put(blob, 0, bytes(blob.size), owner)
            return
        self._asked.append("slow")
        raise ClusterError(ClusterErrorKind.TIMED_OUT, "no answer within 2 s", "")


def test_a_mirror_that_sends_a_byte_at_a_time_ends_at_its_deadline(mirrored: Mirrored) -> None:
    now = [0.0]
    mirrored.setting.auditor = replace(mirrored.setting.auditor, now=lambda: now[0])
    mirrored.setting.service.view = ChainView(20, {}, {}, {})
    real, fetched = mirrored.connected[LATER.address], list[str]()

    class Dripping:
        def call(self, *request: Any) -> Any:
            raise ClusterError(ClusterErrorKind.NOT_ALLOWED, "nothing here", "")

        def fetch(self, blob: t.BlobRef, store: BlobStore, progress: Any, owner: str, timeout: float) -> None:
            fetched.append(owner)
            for done in range(blob.size):
                progress(done, blob.size)
                now[0] += 1.0

    mirrored.connected["slow"] = Dripping()  # type: ignore[assignment]
    before = now[0]
    seat_now = mirrored.answer([HALF], "slow", LATER.address)
    assert real is mirrored.connected[LATER.address]
    assert seat_now.sealed is not None
    assert seat_now.sealed.agreed
    assert (now[0] - before) / len(fetched) <= COMMIT_SECONDS


def test_what_mirrors_keep_is_bounded(mirrored: Mirrored) -> None:
    terms = mirrored.subject.terms
    size = get_bytes(terms, PLACES)
    other = replace(mirrored.duty, round=1)
    found = [(mirrored.duty, terms), (other, terms)]
    assert choose_mirrored(found, (), size - 1) == {}
    assert list(choose_mirrored(found, {seat_key(other)}, size)) == [seat_key(other)]
    assert len(choose_mirrored(found, (), 2 * size)) == 2


def test_other_seats_results_are_not_mirrored(mirrored: Mirrored) -> None:
    """The state behind a drawn segment is the next segment's opening."""
    about = panel(PLACES[0], replace(PLACES[0], segment=3))
    assert may_mirror(about, 1, (0, 1))
    places = (about.places[0], replace(about.places[1], group=1))
    about = replace(about, places=places)
    assert not may_mirror(about, 1, (0, 1))
    assert may_mirror(about, 0, (0, 1))
    assert may_mirror(about, 1, (1,))


def _update_of(packet: t.ShareDelivery) -> tuple[bytes, bytes, tuple[int, ...]]:
    return packet.roots.update_root, packet.roots.local_out, packet.roots.metrics


def test_what_fails_once_is_no_news(setting: Setting, caplog: pytest.LogCaptureFixture) -> None:
    """The winner sees the block that drew the seat a moment later than the auditor."""
    caplog.set_level("INFO", "assay.validator.seats")
    setting.see()
    ask = AskOpening("ask:1", KEY, 0, len(PLACES), ME)
    act = work_of(setting.auditor.table(), ask)
    act()
    assert not caplog.messages
    act()
    assert caplog.messages == [
        "ask:1: place_index: you have no seat for this place; ask only for the places of your own seats, once they "
        "are drawn; trying again"
    ]
    setting.auditor.end(EndSeat("end:1", KEY))
    act()
    assert len(caplog.messages) == 1


def test_a_winner_that_fails_otherwise_each_time_does_not_hide_from_the_log(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "assay.validator.seats")
    setting.see()
    numbers = count()

    def fails(_winner: str) -> ClusterClient:
        raise ClusterError(ClusterErrorKind.NOT_FOUND, f"no, {next(numbers)}")

    auditor = replace(setting.auditor, connect=fails)
    act = work_of(auditor.table(), AskOpening("ask:1", KEY, 0, len(PLACES), ME))
    for _ in range(3):
        act()
    assert [text.partition(";")[0] for text in caplog.messages] == ["ask:1: no, 1", "ask:1: no, 2"]


def test_a_second_seat_fetches_the_payload_no_more(setting: Setting) -> None:
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
    assert segment.says.root == setting.trained.boundaries[3].root


def test_a_share_that_was_trained_from_another_opening_is_caught(setting: Setting) -> None:
    """Its leaves and its own states agree with each other: what they start from is the chain's to say."""
    first = AuditPlace(AuditKind.SEGMENT, PART.slot, 1, 0)
    setting.duty = duty_of(first, *PLACES[1:])
    setting.record(setting.opening(2), setting.opening(N))
    assert setting.answer()[0].agrees
    setting.local_in = digest("what the chain says that it starts from")
    assert setting.answer()[0].unavailable


def test_states_that_do_not_hash_to_the_leaf_are_unavailable(setting: Setting) -> None:
    setting.record(setting.opening(2, of=1), setting.opening(N, of=1))
    segment, update, aggregation = setting.answer()
    assert (segment.unavailable, update.unavailable) == (True, True)
    assert aggregation.agrees


def test_what_is_never_ready_is_unavailable_when_the_time_is_over(setting: Setting) -> None:
    setting.record(setting.opening(2, verified=False))
    began = time.monotonic()
    segment, update, aggregation = setting.answer(3.0, patient=True)
    assert (segment.unavailable, update.unavailable) == (True, True)
    assert aggregation.agrees
    assert time.monotonic() - began < 30


def test_another_job_is_unavailable(setting: Setting) -> None:
    setting.record(setting.opening(2), setting.opening(N))
    for changed in ({"job_id": bytes(32)}, {"payload_bytes": 7}, {"data_root": bytes(32)}):
        assert all(found.unavailable for found in setting.answer(5.0, **changed))


def test_larger_states_than_the_jobs_are_not_fetched(setting: Setting) -> None:
    """They would fill the auditor's store, which has room for the job's and little more."""
    big = setting.ledger.blobs.add(bytes(1 << 17))
    setting.record(replace(setting.opening(2), global_state=big), setting.opening(N))
    began = time.monotonic()
    segment, update, _ = setting.answer()
    assert segment.unavailable
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


def test_what_is_fetched_for_a_seat_that_is_over_is_not_held(setting: Setting) -> None:
    setting.record(setting.opening(2), setting.opening(N))
    subject, own = setting.see(), setting.auditor.ledger
    own.store.save_seat(new_seat(DUTY, BEGAN))
    seen = setting.look(subject, DUTY)
    _, (ask, *_) = decide(KEY, own.store.seat(KEY), seen)
    table = setting.auditor.table()
    work_of(table, ask)()
    after, actions = decide(KEY, own.store.seat(KEY), seen)
    assert isinstance(after, LocalSeat)
    own.store.save_seat(after)
    load = next(action for action in actions if isinstance(action, LoadAudited))
    own.end_seat(KEY)
    assert work_of(table, load)() == RETRY_SECONDS
    work_of(table, ask)()
    assert setting.auditor.blobs.total() == 0
    assert own.store.seats() == ()


def test_a_winner_that_keeps_a_blob_back_is_unavailable_by_its_name(setting: Setting) -> None:
    opening = setting.opening(2)
    setting.record(opening, setting.opening(N))
    setting.ledger.blobs.delete(opening.local_state.sha256)
    segment, update, aggregation = setting.answer(4.0)
    assert segment.unavailable
    assert segment.says.root == opening.local_state.sha256
    assert update.agrees
    assert aggregation.agrees


def test_a_winner_that_sends_other_bytes_is_unavailable(setting: Setting) -> None:
    """They do not hash to the blob's name, so they never count as served, to whomever they were sent."""
    opening = setting.opening(2)
    setting.record(opening, setting.opening(N))
    path = setting.ledger.blobs.path(opening.local_state.sha256)
    data = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(bytes(len(data)))
    segment, update, _ = setting.answer(4.0)
    assert segment.unavailable
    assert update.agrees


def test_a_replay_that_would_be_too_long_is_ended_and_the_rest_is_answered(
    setting: Setting,
) -> None:
    """What was served and is not finished is left out: that is silence, and says nothing about the winner."""
    setting.record(setting.opening(2), setting.opening(N))

    def run(seconds: float, function: Callable[[R], T], request: R) -> T:
        if function is exact.recompute_segment:
            raise TaskTimeout(f"the deadline passed after {seconds} s")
        return _run(seconds, function, request)

    setting.auditor = replace(setting.auditor, run=run)
    segment, update, aggregation = setting.answer(4.0)
    assert segment.answer is None
    assert update.agrees
    assert aggregation.agrees


def test_one_slow_winner_leaves_room_for_the_rounds_of_others() -> None:
    turns, held = SeatQueues(), ExitStack()
    with held:
        assert all(held.enter_context(turns.of("slow")) for _ in range(CALLS_MAX))
        with turns.of("slow") as free:
            assert not free
        with turns.of("other") as free:
            assert free
    with turns.of("slow") as free:
        assert free
