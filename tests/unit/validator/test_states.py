"""States of a verified round: who gets them from the validator that has them, and what another one takes."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any, TypeVar, cast

import numpy as np
import pytest

from domain.legs.messages import MsgDeclineOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.proof.queries import NumberedPlace, OrderResponse, PanelDuty, PanelResponse
from domain.proof.records import AnswerKind, PanelPlace, Ruling, Share, ShareClaim, ShareRoots, ShareState
from link import types as t
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from pol.rules.states import STATES as LEFT
from pol.rules.states import panel_number
from pol.rules.tiers.answers import answer_digests
from pol.state.canonical import encode_state, state_tree
from tests.unit.validator.support import (
    CHAIN_ID,
    CONSUMER,
    ME,
    ORDER_ID,
    OTHER,
    TERMS,
    chain,
    closed,
    leg,
    loaded,
    panel,
)
from validator.decide import actions as do
from validator.decide.duties import decide, duties
from validator.decide.initial import sources_of, verified_roots
from validator.decide.keeping import choose_kept, decide_kept, get_state_bytes
from validator.decide.orders import decide_order
from validator.decide.receive import payload_offered
from validator.decide.records import LegKey, LocalOrder, PayloadStage, SeatKey, SlotLocal, new_order, seat_key
from validator.decide.retention import needed_blobs
from validator.decide.seats import decide_seat
from validator.decide.view import ChainView, Look
from validator.ledger import Ledger
from validator.serve.service import Service
from validator.store import ValidatorStore
from validator.work import numerics
from validator.work.requests import RootedFile
from validator.work.states import TURN_SECONDS, StateFetcher, StatesFinder

STATES = [{"w": np.full(size, 1.5, np.float32)} for size in (4, 5, 6)]
BYTES = [encode_state(state) for state in STATES]
ROOTS = tuple(state_tree(state).root for state in STATES)
BLOBS = tuple(t.BlobRef(sha256(data).digest(), len(data)) for data in BYTES)
REFS = tuple(t.StateRef(root, blob) for root, blob in zip(ROOTS, BLOBS, strict=True))
SIZES = tuple(len(data) for data in BYTES)
R = TypeVar("R")
T = TypeVar("T")
FIRST, SECOND = LegKey(ORDER_ID, 1), LegKey(ORDER_ID, 2)


def accepted(slot: int) -> Share:
    roots = ShareRoots(bytes(32), bytes(32), ROOTS[1 + slot], (), 1)
    claim = ShareClaim(ORDER_ID, 1, 0, slot, 1, "p0", bytes(32))
    return Share(claim, b"", bytes(32), 1, 1, ShareState.ACCEPTED, 0, 0, 0, (), roots)


def resumed(first: str = ME, second: str = OTHER) -> OrderResponse:
    """Return an order whose first leg failed after one verified round, and whose second leg is matched."""
    failed = leg(
        validator=first, state=LegState.FAILED, verified=1, round=1, verified_root=ROOTS[0],
        end_reason=LegEnd.STOPPED_BY_VALIDATOR, progress_deadline=100,
    )  # fmt: skip
    matched = leg(
        number=2, validator=second, first_round=1, rounds=1, round=1, from_leg=1, state=LegState.MATCHED,
        initial_root=ROOTS[0], global_in=ROOTS[0], progress_deadline=0,
    )  # fmt: skip
    terms = replace(TERMS, global_bytes=len(BYTES[0]), local_bytes=len(BYTES[1]))
    answer = chain(ordered={"legs": 2, "next_round": 1, "terms": terms})
    return replace(
        answer,
        legs=(failed, matched),
        rounds=(closed(0, next_root=ROOTS[0], verified=True),),
        shares=(accepted(0), accepted(1)),
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    blobs = BlobStore(tmp_path / "blobs", 1 << 20)
    opened = Ledger(ValidatorStore(tmp_path / "v.db"), blobs, Event())
    yield opened
    opened.store.close()
    blobs.close()


def served(ledger: Ledger, on_chain: OrderResponse) -> Service:
    service = Service(ME, CHAIN_ID, ledger, lambda *_: True, Event())
    service.see(ChainView(10, {ORDER_ID: on_chain}, {}, {}), ())
    return service


def caller(address: str) -> t.Caller:
    return t.Caller(address, address.encode().ljust(33))


def test_the_roots_of_a_verified_round_are_those_of_its_accepted_shares() -> None:
    on_chain = resumed()
    failed, matched = on_chain.legs
    assert verified_roots(on_chain, failed) == ROOTS
    assert verified_roots(on_chain, matched) == ()
    assert sources_of(on_chain, matched) == (ME,)


def test_the_next_validator_and_the_consumer_get_states_and_no_one_else(ledger: Ledger) -> None:
    refs = [t.StateRef(ref.root, ledger.blobs.add(data)) for ref, data in zip(REFS, BYTES, strict=True)]
    record = replace(loaded(), earlier_global=refs[0], locals=(SlotLocal(0, refs[1]),))
    ledger.store.save(record)
    service = served(ledger, resumed())
    request = t.StatesRequest(ORDER_ID, 1)
    for address, role in ((OTHER, t.Role.SUCCESSOR), (CONSUMER, t.Role.CONSUMER)):
        assert role in service.roles(caller(address))
        manifest = service.get_states(caller(address), request)
        # The third state is not here.
        assert (manifest.round, manifest.states) == (0, tuple(refs[:2]))
        blob = refs[0].blob
        assert service.get_chunk(caller(address), t.GetChunkRequest(blob.sha256, 0, blob.size)).data == BYTES[0]
    with pytest.raises(ClusterError) as error:
        service.get_states(caller("mallory"), request)
    assert error.value.kind is ClusterErrorKind.NOT_ALLOWED
    assert t.Role.SUCCESSOR not in service.roles(caller("mallory"))


def test_a_consumer_offers_states_from_which_the_leg_starts_and_no_others(ledger: Ledger) -> None:
    on_chain = resumed(first=OTHER, second=ME)
    ledger.begin(ORDER_ID, 2)
    service = served(ledger, on_chain)
    offer = t.StatesOffer(ORDER_ID, REFS[:1])
    assert service.offer_states(caller(CONSUMER), offer).missing == (REFS[0].blob,)
    status = service.put_chunk(caller(CONSUMER), t.PutChunkRequest(REFS[0].blob, 0, BYTES[0]))
    assert status.complete
    assert service.offer_states(caller(CONSUMER), offer).missing == ()
    known = ledger.load(ORDER_ID, 2)
    assert known is not None
    assert REFS[0].blob.sha256 in needed_blobs(known, on_chain, {}, 10)
    for wrong in (replace(REFS[0], root=bytes(32)), replace(REFS[0], blob=replace(REFS[0].blob, size=10**6))):
        with pytest.raises(ClusterError) as error:
            service.offer_states(caller(CONSUMER), t.StatesOffer(ORDER_ID, (wrong,)))
        assert error.value.kind is ClusterErrorKind.BAD_REQUEST
    with pytest.raises(ClusterError):
        service.offer_states(caller(OTHER), offer)


def test_a_payload_that_is_offered_after_states_does_not_delete_them(ledger: Ledger) -> None:
    ledger.begin(ORDER_ID, 2)
    service = served(ledger, resumed(first=OTHER, second=ME))
    service.offer_states(caller(CONSUMER), t.StatesOffer(ORDER_ID, REFS[:1]))
    service.put_chunk(caller(CONSUMER), t.PutChunkRequest(BLOBS[0], 0, BYTES[0]))

    def offered(now: LocalOrder) -> LocalOrder:
        return payload_offered(now, (t.PayloadFile("job.json", t.BlobRef(bytes(32), 1)),))

    local = ledger.change(ORDER_ID, 2, offered)
    assert local is not None
    ledger.hold_payload(local)
    assert ledger.blobs.status(BLOBS[0]).complete


@dataclass
class Source:
    """Another validator, which has these states."""

    states: tuple[t.StateRef, ...]
    contents: dict[bytes, bytes]
    asked: list[object] = field(default_factory=list)

    def call(self, _: object, request: object) -> t.StatesManifest:
        self.asked.append(request)
        return t.StatesManifest(0, self.states)

    def fetch(self, blob: t.BlobRef, store: BlobStore, progress: Any = None) -> None:
        progress(0, blob.size)
        store.put(blob, 0, self.contents[blob.sha256])


def fetcher(ledger: Ledger, source: Source | None, now: Callable[[], float] = time.monotonic) -> StateFetcher:
    def connect(_: str) -> ClusterClient:
        if source is None:
            raise ClusterError(ClusterErrorKind.UNREACHABLE, "no connection")
        return cast(ClusterClient, source)

    def run(function: Any, request: RootedFile) -> bool:
        return bool(function(request))

    return StateFetcher(ledger, ledger.blobs, run, connect, now)


def fetch(ledger: Ledger, source: Source | None) -> tuple[float | None, LocalOrder]:
    action = do.FetchStates("fetch", SECOND, 1, (OTHER,), frozenset(ROOTS), SIZES)
    pause = fetcher(ledger, source).fetch(action)
    local = ledger.load(ORDER_ID, 2)
    assert local is not None
    return pause, local


def test_states_are_fetched_and_those_with_another_root_are_not_taken(ledger: Ledger) -> None:
    ledger.begin(ORDER_ID, 2)
    contents = {ref.blob.sha256: data for ref, data in zip(REFS, BYTES, strict=True)}
    swapped = t.StateRef(ROOTS[1], REFS[2].blob)
    pause, local = fetch(ledger, Source((REFS[0], swapped), contents))
    assert pause is not None
    assert local.fetched == (REFS[0],)
    pause, local = fetch(ledger, Source(REFS, contents))
    assert pause is None
    assert {state.root for state in local.fetched} == set(ROOTS)
    assert ledger.held_initial_states([resumed(OTHER, ME)], ME).keys() == {ROOTS[0]}


def test_states_that_the_consumer_sent_are_taken_though_no_validator_answers(ledger: Ledger) -> None:
    ledger.begin(ORDER_ID, 2)
    ledger.change(ORDER_ID, 2, lambda now: replace(now, offered=REFS))
    for data in BYTES[:2]:
        ledger.blobs.add(data)
    pause, local = fetch(ledger, None)
    assert pause is not None
    assert {state.root for state in local.fetched} == set(ROOTS[:2])


def test_what_is_no_state_has_no_root(tmp_path: Path) -> None:
    path = tmp_path / "state"
    for data in (b"", b"junk", BYTES[0][:-1]):
        path.write_bytes(data)
        assert not numerics.has_root(RootedFile(path, ROOTS[0]))
    path.write_bytes(BYTES[0])
    assert numerics.has_root(RootedFile(path, ROOTS[0]))


def test_a_validator_that_continues_keeps_the_payload_and_what_it_knows_of_providers(ledger: Ledger) -> None:
    ledger.store.save(replace(loaded(), excluded=("p0",)))
    ledger.begin(ORDER_ID, 2)
    local = ledger.load(ORDER_ID, 2)
    assert local is not None
    assert local.payload.stage is PayloadStage.LOADED
    assert local.excluded == ("p0",)
    assert all(ledger.blobs.is_held(file.blob.sha256) for file in local.payload.files)


def mirrored(on_chain: OrderResponse, *names: str) -> OrderResponse:
    """Return the order with mirrors of its verified round."""
    return replace(on_chain, rounds=(replace(on_chain.rounds[0], mirrors=names),))


def looked(on_chain: OrderResponse, *, whole: bool = True) -> Look:
    view = ChainView(10, {ORDER_ID: on_chain}, {}, {}, whole=whole, kept=frozenset({FIRST}))
    return Look(view, ME, CHAIN_ID, b"secret")


def test_a_mirror_keeps_the_states_of_a_verified_round_and_serves_them_after_the_winner_is_gone(ledger: Ledger) -> None:
    on_chain = mirrored(resumed(first=OTHER, second="third"), ME)
    ledger.begin(ORDER_ID, 1)
    look = looked(on_chain)
    assert FIRST in duties(look)
    _, actions = decide(FIRST, ledger.load(ORDER_ID, 1), look)
    (keep,) = [action for action in actions if isinstance(action, do.KeepStates)]
    assert (keep.sources, keep.roots, keep.source) == ((OTHER,), frozenset(ROOTS), 1)
    contents = {ref.blob.sha256: data for ref, data in zip(REFS, BYTES, strict=True)}
    assert fetcher(ledger, Source(REFS, contents)).keep(replace(keep, sizes=SIZES)) is None
    _, actions = decide(FIRST, ledger.load(ORDER_ID, 1), look)
    assert not [action for action in actions if isinstance(action, do.KeepStates)]
    (tidy,) = [action for action in actions if isinstance(action, do.Tidy)]
    ledger.tidy(tidy.leg, tidy.needed)
    service = served(ledger, on_chain)
    for address, role in (("third", t.Role.SUCCESSOR), (CONSUMER, t.Role.CONSUMER)):
        assert role in service.roles(caller(address))
        assert service.get_states(caller(address), t.StatesRequest(ORDER_ID, 1)).states == REFS
    assert sources_of(on_chain, on_chain.legs[1]) == (OTHER, ME)


def test_a_mirror_fetches_states_from_the_winner_and_a_stranger_does_not(ledger: Ledger) -> None:
    ledger.store.save(replace(loaded(), earlier_global=REFS[0]))
    service = served(ledger, mirrored(resumed(), "mirror"))
    ledger.blobs.add(BYTES[0])
    assert t.Role.MIRROR in service.roles(caller("mirror"))
    assert service.get_states(caller("mirror"), t.StatesRequest(ORDER_ID, 1)).states == REFS[:1]
    with pytest.raises(ClusterError):
        service.get_states(caller("stranger"), t.StatesRequest(ORDER_ID, 1))


def test_a_mirror_keeps_only_the_newest_states_and_nothing_of_a_closed_order(ledger: Ledger) -> None:
    on_chain = mirrored(resumed(first=OTHER), ME)
    older = t.StateRef(bytes(32), BLOBS[1])
    record = replace(new_order(ORDER_ID, 1), fetched=(*REFS, older))
    after, _ = decide_kept(record, looked(on_chain))
    assert after.fetched == REFS
    # If the newest states are lost, the order may go back to the older ones.
    arriving = replace(record, fetched=(REFS[0], older))
    after, actions = decide_kept(arriving, looked(on_chain))
    assert after.fetched == arriving.fetched
    (tidy,) = [action for action in actions if isinstance(action, do.Tidy)]
    assert older.blob.sha256 in tidy.needed
    ended = replace(on_chain, order=replace(on_chain.order, state=OrderState.CLOSED))
    later = replace(on_chain, legs=(on_chain.legs[0], replace(on_chain.legs[1], verified=1)))
    for over in (ended, later):
        assert [type(action) for action in decide_kept(record, looked(over))[1]] == [do.ForgetLeg]


def test_a_mirror_keeps_states_of_validators_that_named_it_within_its_bytes() -> None:
    named = mirrored(resumed(first=OTHER), ME)
    size = get_state_bytes(named.order.terms)
    assert choose_kept([named], OTHER, ME, (), size) == ((FIRST,), 0)
    assert choose_kept([named], OTHER, ME, (), size - 1) == ((), size - 1)
    assert choose_kept([named], "third", ME, (), size) == ((), size)
    assert choose_kept([mirrored(named, "third")], OTHER, ME, (), size) == ((), size)


def test_a_source_with_states_of_a_wrong_size_or_without_end_does_not_block_the_others(ledger: Ledger) -> None:
    ledger.begin(ORDER_ID, 2)
    huge = t.StateRef(ROOTS[0], replace(BLOBS[0], size=1 << 40))
    pause, local = fetch(ledger, Source((huge,), {}))
    assert pause is not None
    assert local.fetched == ()
    clock = iter((0.0, TURN_SECONDS + 1))
    action = do.FetchStates("fetch", SECOND, 1, (OTHER,), frozenset(ROOTS), SIZES)
    contents = {ref.blob.sha256: data for ref, data in zip(REFS, BYTES, strict=True)}
    assert fetcher(ledger, Source(REFS, contents), lambda: next(clock)).fetch(action) is not None


def asked(on_chain: OrderResponse, **changes: Any) -> OrderResponse:
    """Return the order with changes of its second leg."""
    return replace(on_chain, legs=(on_chain.legs[0], replace(on_chain.legs[1], **changes)))


def states_panel() -> tuple[SeatKey, PanelDuty, PanelResponse]:
    """Return a seat in a panel about the states of the first leg, with what the chain has about it."""
    on_chain = resumed(first="winner", second=OTHER)
    number = panel_number(replace(on_chain.legs[1], asked=1))
    place = PanelPlace(place=LEFT, claim=ROOTS[0], ruling=Ruling.OPEN, stage=0, finding=None)
    about = replace(
        panel(), leg=1, places=(place,), stage=1, seed=bytes(32), is_open=True, seats=1, dispute=number, asker=OTHER
    )
    duty = PanelDuty(
        order_id=ORDER_ID, leg=1, round=0, stage=1, seed=bytes(32), places=(NumberedPlace(0, LEFT),),
        commits_end=100, reveals_end=120, commitment=b"", dispute=number,
    )  # fmt: skip
    subject = PanelResponse(
        terms=on_chain.order.terms, price_limit=1, validator="winner", commit_seconds=60, round=on_chain.rounds[0],
        panel=about, shares=on_chain.shares, accept_rate=1_000, tier="exact", order_key=bytes(33),
    )  # fmt: skip
    return seat_key(duty), duty, subject


def seat_look(clock: int) -> Look:
    key, duty, subject = states_panel()
    view = ChainView(clock, {}, {}, {}, duties={key: duty}, subjects={key: subject}, finders={FIRST: ("third", ME)})
    return Look(view, ME, CHAIN_ID, b"secret")


def test_a_seat_fetches_all_states_and_answers_with_a_digest_over_their_bytes(ledger: Ledger) -> None:
    key, _, __ = states_panel()
    record, actions = decide_seat(key, None, seat_look(10))
    (find,) = actions
    assert isinstance(find, do.FindStates)
    assert (find.sources, find.roots) == (("winner", "third"), ROOTS)
    assert record is not None
    ledger.store.save_seat(record)
    contents = {ref.blob.sha256: data for ref, data in zip(REFS, BYTES, strict=True)}

    def run(seconds: float, function: Callable[[R], T], request: R) -> T:
        return function(request)

    find = replace(find, sizes=SIZES)
    lacks = StatesFinder(fetcher(ledger, Source(REFS[:2], contents)), run, lambda: 10)
    assert lacks.find(find) is not None
    finder = StatesFinder(fetcher(ledger, Source(REFS, contents)), run, lambda: 10)
    assert finder.find(find) is None
    seat = ledger.store.seat(key)
    assert seat is not None
    found = seat.places[0].found
    assert found is not None
    assert (found.root, found.digest) == (ROOTS[0], *answer_digests([bytes(32)], (), BYTES))
    # What the seat fetched is kept, and served to the validator of the next leg.
    service = served(ledger, resumed(first="winner", second=OTHER))
    assert service.get_states(caller(OTHER), t.StatesRequest(ORDER_ID, 1)).states == REFS
    after, actions = decide_seat(key, seat, seat_look(20))
    assert after is not None
    assert after.sealed is not None
    assert [answer.kind for answer in after.sealed.answers] == [AnswerKind.FINISHED]


def test_a_seat_without_the_states_says_at_its_end_that_they_are_unavailable() -> None:
    key, _, __ = states_panel()
    record, _actions = decide_seat(key, None, seat_look(10))
    after, _actions = decide_seat(key, record, seat_look(95))
    assert after is not None
    assert after.sealed is not None
    assert [answer.kind for answer in after.sealed.answers] == [AnswerKind.UNAVAILABLE]


def test_a_seat_takes_the_states_that_the_consumer_sends_though_no_validator_serves_them(ledger: Ledger) -> None:
    """The next validator may say that it lacks states which the consumer has sent to it."""
    key, _, __ = states_panel()
    record, (find,) = decide_seat(key, None, seat_look(10))
    assert isinstance(find, do.FindStates)
    assert record is not None
    ledger.store.save_seat(record)
    ledger.begin(ORDER_ID, 1)
    on_chain = asked(resumed(first="winner", second=OTHER), asked=1)
    service = Service(ME, CHAIN_ID, ledger, lambda *_: True, Event())
    view = ChainView(10, {ORDER_ID: on_chain}, {}, {}, finders={FIRST: (ME,)})
    service.see(view, ())
    offer = t.StatesOffer(ORDER_ID, (REFS[0],))
    assert service.offer_states(caller(CONSUMER), offer).missing == (REFS[0].blob,)
    with pytest.raises(ClusterError):
        service.offer_states(caller(OTHER), offer)
    with pytest.raises(ClusterError):
        service.offer_states(caller(CONSUMER), t.StatesOffer(ORDER_ID, (replace(REFS[0], root=bytes(32)),)))
    # A clean-up does not delete what is on its way.
    _, actions = decide(
        FIRST,
        ledger.load(ORDER_ID, 1),
        Look(replace(view, whole=True, kept=frozenset({FIRST})), ME, CHAIN_ID, b"secret"),
    )
    (tidy,) = [action for action in actions if isinstance(action, do.Tidy)]
    ledger.tidy(tidy.leg, tidy.needed)
    service.put_chunk(caller(CONSUMER), t.PutChunkRequest(REFS[0].blob, 0, BYTES[0]))

    def run(seconds: float, function: Callable[[R], T], request: R) -> T:
        return function(request)

    one = replace(find, sizes=SIZES, roots=ROOTS[:1])
    assert StatesFinder(fetcher(ledger, None), run, lambda: 10).find(one) is None
    seat = ledger.store.seat(key)
    assert seat is not None
    assert seat.places[0].found is not None
    view = ChainView(10, {ORDER_ID: on_chain}, {}, {}, finders={FIRST: ("third",)})
    service.see(view, ())
    with pytest.raises(ClusterError):
        service.offer_states(caller(CONSUMER), offer)


def test_a_seat_of_a_panel_about_the_states_may_fetch_them(ledger: Ledger) -> None:
    ledger.store.save(replace(loaded(), earlier_global=REFS[0]))
    ledger.blobs.add(BYTES[0])
    service = Service(ME, CHAIN_ID, ledger, lambda *_: True, Event())
    service.see(ChainView(10, {ORDER_ID: resumed()}, {}, {}, finders={FIRST: ("seat",)}), ())
    assert t.Role.AUDITOR in service.roles(caller("seat"))
    assert service.get_states(caller("seat"), t.StatesRequest(ORDER_ID, 1)).states == REFS[:1]
    with pytest.raises(ClusterError):
        service.get_states(caller("other seat"), t.StatesRequest(ORDER_ID, 1))


def test_a_validator_that_lacks_states_asks_a_panel_waits_and_fetches_from_its_seats() -> None:
    on_chain = resumed(first=OTHER, second=ME)
    on_chain = asked(on_chain, matched_at=10, accept_deadline=100)
    record = new_order(ORDER_ID, 2)

    def decided(answer: OrderResponse, clock: int) -> tuple[list[int], list[do.FetchStates]]:
        view = ChainView(clock, {ORDER_ID: answer}, {}, {}, finders={FIRST: ("third",)})
        _, actions = decide_order(record, Look(view, ME, CHAIN_ID, b"secret").of(answer))
        sent = [action.messages[0] for action in actions if isinstance(action, do.SendTx)]
        reasons = [message.reason for message in sent if isinstance(message, MsgDeclineOrder)]
        return reasons, [action for action in actions if isinstance(action, do.FetchStates)]

    late = 95
    reasons, (fetching,) = decided(on_chain, late)
    assert reasons == [LegEnd.STATE_UNAVAILABLE]
    assert fetching.sources == (OTHER, "third")
    assert decided(asked(on_chain, asked=1), late)[0] == []
    again = asked(on_chain, asked=2, asked_at=90, accept_deadline=180)
    assert decided(again, late)[0] == []
    assert decided(again, 160)[0] == [LegEnd.STATE_UNAVAILABLE]
    final = asked(on_chain, asked=4, asked_at=90, accept_deadline=180)
    assert decided(final, 160)[0] == [LegEnd.DECLINED_BY_CHOICE]
