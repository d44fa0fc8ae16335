"""A result that its consumer was not served: who gets it, what a seat takes, and for whom the seat keeps it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any, TypeVar, cast

import pytest

from domain.keys import RoundKey
from domain.legs.records import LegState
from domain.proof.queries import NumberedPlace, OrderResponse, PanelDuty, PanelResponse
from domain.proof.records import AnswerKind, Panel, PanelPlace, Ruling
from link import types as t
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.handover import public_point
from pol.rules.handover import ChunkLayout, HandoverId
from pol.rules.states import RESULT, STATES, result_number
from pol.rules.tiers.answers import answer_digests
from pol.state.canonical import chunks_of
from tests.unit.validator.support import CHAIN_ID, CONSUMER, ME, ORDER_ID, OTHER, leg, panel, seat
from tests.unit.validator.test_states import BYTES, FIRST, ROOTS, caller, resumed
from validator.decide import actions as do
from validator.decide.keeping import decide_kept
from validator.decide.records import LocalRound, SealedResult, SeatKey, new_order, seat_key
from validator.decide.retention import served_rounds
from validator.decide.seats import decide_seat
from validator.decide.view import ChainView, Look, OwnPanel, name_finders
from validator.ledger import Ledger
from validator.serve.service import Service
from validator.store import ValidatorStore
from validator.work.results import ResultFinder
from validator.work.sealing import seal_into

R = TypeVar("R")
T = TypeVar("T")
LAYOUT = ChunkLayout(2, 2, 2)
HANDOVER = HandoverId(CHAIN_ID, ORDER_ID, 1, 0)
CHUNKS = [chunk for data in BYTES for chunk in chunks_of(data)]
ROUND = RoundKey(ORDER_ID, 1, 0)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    blobs = BlobStore(tmp_path / "blobs", 1 << 20)
    opened = Ledger(ValidatorStore(tmp_path / "v.db"), blobs, Event())
    yield opened
    opened.store.close()
    blobs.close()


@pytest.fixture
def winner(tmp_path: Path) -> Iterator[BlobStore]:
    blobs = BlobStore(tmp_path / "winner", 1 << 20)
    yield blobs
    blobs.close()


def sealed_in(blobs: BlobStore) -> SealedResult:
    return seal_into(blobs, HANDOVER, CHUNKS, public_point(bytes(31) + b"\x07"), b"secret")


def about_result(root: bytes, **changes: Any) -> Panel:
    """Return an open panel about the result of the first round, with one seat: this validator."""
    place = PanelPlace(place=RESULT, claim=root, ruling=Ruling.OPEN, stage=0, finding=None)
    made = replace(
        panel(), leg=1, places=(place,), stage=1, seed=bytes(32), is_open=True, seats=1, asker=CONSUMER,
        dispute=result_number(leg()),
    )  # fmt: skip
    return replace(made, **changes)


def proven(root: bytes) -> OrderResponse:
    """Return an order whose first leg waits for its settlement, and whose consumer has asked a panel."""
    answer = resumed(first="winner")
    first = replace(answer.legs[0], state=LegState.PROVEN, end_reason=0, settles_at=500, missed=1)
    closed = replace(answer.rounds[0], ciphertext_root=root)
    order = replace(answer.order, legs=1)
    return replace(answer, order=order, legs=(first,), rounds=(closed,), panels=(about_result(root),))


def seat_of(root: bytes) -> tuple[SeatKey, Look, OrderResponse]:
    on_chain = proven(root)
    about = on_chain.panels[0]
    duty = PanelDuty(
        order_id=ORDER_ID, leg=1, round=0, stage=1, seed=bytes(32), places=(NumberedPlace(0, RESULT),),
        commits_end=100, reveals_end=120, commitment=b"", dispute=about.dispute,
    )  # fmt: skip
    subject = PanelResponse(
        terms=on_chain.order.terms, price_limit=1, validator="winner", commit_seconds=60, round=on_chain.rounds[0],
        panel=about, shares=on_chain.shares, accept_rate=1_000, tier="exact", order_key=bytes(33),
    )  # fmt: skip
    key = seat_key(duty)
    finders = {ROUND: ("third", ME)}
    view = ChainView(10, {}, {}, {}, duties={key: duty}, subjects={key: subject}, result_finders=finders)
    return key, Look(view, ME, CHAIN_ID, b"secret"), on_chain


@dataclass
class Source:
    """Another validator, which serves this result."""

    manifest: t.ResultManifest
    ciphertext: bytes

    def whole_result(self, order_id: bytes, round: int, count: int) -> t.ResultManifest:
        assert (order_id, round, count) == (ORDER_ID, 0, LAYOUT.count)
        return self.manifest

    def fetch(self, blob: t.BlobRef, store: BlobStore, progress: Any = None) -> None:
        progress(0, blob.size)
        store.put(blob, 0, self.ciphertext)


def source_of(blobs: BlobStore, sealed: SealedResult) -> Source:
    leaves = tuple(t.ResultLeaf(*pair) for pair in zip(sealed.leaves, sealed.state_leaves, strict=True))
    manifest = t.ResultManifest(
        order_id=ORDER_ID, leg=1, round=0, ciphertext=sealed.blob, count=len(leaves), leaves=leaves
    )
    return Source(manifest, blobs.path(sealed.blob.sha256).read_bytes())


def finder(ledger: Ledger, sources: dict[str, Source]) -> ResultFinder:
    def connect(name: str) -> ClusterClient:
        if name not in sources:
            raise ClusterError(ClusterErrorKind.UNREACHABLE, "no connection")
        return cast(ClusterClient, sources[name])

    def run(seconds: float, function: Callable[[R], T], request: R) -> T:
        return function(request)

    return ResultFinder(ledger=ledger, blobs=ledger.blobs, run=run, connect=connect, clock=lambda: 10)


def begin(ledger: Ledger, root: bytes) -> tuple[SeatKey, do.FindResult]:
    """Begin the record of a seat, and return its action."""
    key, look, _ = seat_of(root)
    record, (find,) = decide_seat(key, None, look)
    assert isinstance(find, do.FindResult)
    assert (find.sources, find.root, find.roots) == (("winner", "third"), root, ROOTS)
    assert record is not None
    ledger.store.save_seat(record)
    return key, replace(find, layout=LAYOUT)


def test_a_seat_fetches_the_result_and_serves_it_to_the_consumer_and_to_other_seats(
    ledger: Ledger, winner: BlobStore
) -> None:
    sealed = sealed_in(winner)
    key, find = begin(ledger, sealed.ciphertext_root)
    good = source_of(winner, sealed)
    assert finder(ledger, {}).find(find) is not None
    assert finder(ledger, {"third": good}).find(find) is None
    record = ledger.store.seat(key)
    assert record is not None
    found = record.places[0].found
    assert found is not None
    assert (found.kind, found.root) == (AnswerKind.FINISHED, sealed.ciphertext_root)
    assert (found.digest,) == answer_digests([bytes(32)], (), [good.ciphertext])
    # A restart finds it again without any source.
    assert finder(ledger, {}).find(find) is None
    _, look, on_chain = seat_of(sealed.ciphertext_root)
    service = Service(ME, CHAIN_ID, ledger, lambda *_: True, Event())
    finders = {ROUND: ("fourth",)}
    view = ChainView(10, {ORDER_ID: on_chain}, {}, {}, kept=frozenset({FIRST}), whole=True, result_finders=finders)
    service.see(view, ())
    request = t.ResultRequest(order_id=ORDER_ID, round=0, first=0, limit=10)
    for name in (CONSUMER, "fourth"):
        assert service.get_result(caller(name), request).ciphertext == sealed.blob
    with pytest.raises(ClusterError):
        service.get_result(caller("stranger"), request)
    # A clean-up keeps it as long as the order is not closed.
    local = ledger.load(ORDER_ID, 1)
    assert local is not None
    _, actions = decide_kept(local, replace(look, chain=view))
    (tidy,) = [action for action in actions if isinstance(action, do.Tidy)]
    assert sealed.blob.sha256 in tidy.needed


def _noise(source: Source) -> Source:
    blob = t.BlobRef(sha256(bytes(len(source.ciphertext))).digest(), len(source.ciphertext))
    return Source(replace(source.manifest, ciphertext=blob), bytes(len(source.ciphertext)))


def _state_leaves(source: Source) -> Source:
    leaves = tuple(replace(leaf, state_leaf=bytes(32)) for leaf in source.manifest.leaves)
    return replace(source, manifest=replace(source.manifest, leaves=leaves))


def _sealed_leaves(source: Source) -> Source:
    first, *others = source.manifest.leaves
    wrong = replace(first, sealed=replace(first.sealed, sha256=bytes(32)))
    return replace(source, manifest=replace(source.manifest, leaves=(wrong, *others)))


@pytest.mark.parametrize(
    "spoil", [_noise, _state_leaves, _sealed_leaves], ids=["noise", "state leaves", "sealed leaves"]
)
def test_a_seat_takes_no_result_that_does_not_fit_the_chain(
    ledger: Ledger, winner: BlobStore, spoil: Callable[[Source], Source]
) -> None:
    sealed = sealed_in(winner)
    key, find = begin(ledger, sealed.ciphertext_root)
    good = source_of(winner, sealed)
    assert finder(ledger, {"winner": spoil(good)}).find(find) is not None
    record = ledger.store.seat(key)
    assert record is not None
    assert record.places[0].found is None
    # Another source is asked after it.
    assert finder(ledger, {"winner": spoil(good), "third": good}).find(find) is None


def test_a_seat_without_the_result_says_that_it_is_unavailable(winner: BlobStore) -> None:
    key, look, _ = seat_of(sealed_in(winner).ciphertext_root)
    record, _ = decide_seat(key, None, look)
    after, _ = decide_seat(key, record, replace(look, chain=replace(look.chain, clock=95)))
    assert after is not None
    assert after.sealed is not None
    assert [answer.kind for answer in after.sealed.answers] == [AnswerKind.UNAVAILABLE]


def test_seats_get_a_result_from_its_validator_and_strangers_do_not(ledger: Ledger) -> None:
    sealed = sealed_in(ledger.blobs)
    on_chain = proven(sealed.ciphertext_root)
    mine = replace(on_chain, legs=(replace(on_chain.legs[0], validator=ME),))
    ran = LocalRound(0, t.StateRef(ROOTS[0], sealed.blob), (), None, (), 0, sealed)
    ledger.store.save(replace(new_order(ORDER_ID, 1), rounds=(ran,)))
    service = Service(ME, CHAIN_ID, ledger, lambda *_: True, Event())
    service.see(ChainView(10, {ORDER_ID: mine}, {}, {}, result_finders={ROUND: ("seat",)}), ())
    request = t.ResultRequest(order_id=ORDER_ID, round=0, first=0, limit=10)
    assert t.Role.AUDITOR in service.roles(caller("seat"))
    assert service.get_result(caller("seat"), request).ciphertext == sealed.blob
    for name in (OTHER, "stranger"):
        with pytest.raises(ClusterError):
            service.get_result(caller(name), request)


def test_a_validator_serves_the_round_that_a_panel_asks_for_though_its_leg_failed_or_has_newer_rounds() -> None:
    sealed = SealedResult(bytes(32), t.BlobRef(bytes(32), 1), (), ())
    ran = LocalRound(0, t.StateRef(ROOTS[0], sealed.blob), (), None, (), 0, sealed)
    local = replace(new_order(ORDER_ID, 1), rounds=(ran, replace(ran, round=1)))
    on_chain = proven(bytes(32))
    newer = replace(on_chain.rounds[0], round=1)
    later = replace(on_chain, rounds=(*on_chain.rounds, newer))
    assert [known.round for known in served_rounds(local, later)] == [0, 1]
    over = replace(later, panels=(replace(later.panels[0], is_settled=True),))
    assert [known.round for known in served_rounds(local, over)] == [1]
    failed = replace(later, legs=(replace(later.legs[0], state=LegState.FAILED),))
    assert [known.round for known in served_rounds(local, failed)] == [0]


def test_seats_that_look_for_a_result_get_no_plain_states() -> None:
    about = about_result(bytes(32))
    seats = (seat(validator="seat"),)
    asked = (OwnPanel(about, seats),)
    assert name_finders(asked, RESULT) == {ROUND: ("seat",)}
    assert name_finders(asked, STATES) == {}
