"""What is kept and for how long: records, blobs, job directories, grants."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from link.blobs import BlobStore
from link.errors import ClusterError, ClusterErrorKind
from link.types import BlobRef, Machine, PayloadFile
from tests.support.chain_market import digest
from tests.unit.validator.support import (
    CHAIN_ID,
    ME,
    ORDER_ID,
    about,
    chain,
    closed,
    loaded,
    packet_of,
    segment,
    share_key,
    state,
    view,
    works,
)
from validator.decide.actions import Recompute
from validator.decide.orders import decide_leg
from validator.decide.orders import decide_order as decide
from validator.decide.receive import opening_verified, segment_checked
from validator.decide.records import (
    CheckedSegment,
    LocalOrder,
    Opening,
    PastFailures,
    SlotWork,
    VerdictRow,
    WorkAt,
    nests,
    new_order,
)
from validator.decide.retention import fold, needed_blobs
from validator.decide.rounds import aggregated, not_aggregated
from validator.decide.view import ChainView, Look, Panels
from validator.ledger import Ledger
from validator.serve.callers import GRANT_SECONDS, LIVE_SECONDS, Grants, Presence
from validator.store import CACHED, StoreError, ValidatorStore
from validator.work.files import is_materialised, job_directory, materialise, sweep


def two_rounds() -> LocalOrder:
    """Return a record with a closed round, in which somebody failed once, and the next one open."""
    local, _ = decide(loaded(), view(chain()))
    (current,) = local.rounds
    held = tuple(replace(w, packet=packet_of(local, w)) for w in current.works)
    failed = replace(held[0], issue=0, packet=None, verdict=10_100)
    opening = Opening(2, state("opened").blob, state("opened local", 50).blob, verified=True)
    held = (failed, replace(held[0], openings=(opening,)), *held[1:])
    local = replace(local, rounds=(replace(current, works=held),))
    local = aggregated(local, 0, state("next"))
    now = chain(assigned={"round": 1})
    return planned(local, now)


def planned(local: LocalOrder, now: OrderResponse) -> LocalOrder:
    """Return the record with the open round given out."""
    after, _ = decide(local, view(now))
    return after


RUNNING = chain(assigned={"round": 1}, rounds=(closed(),))
VERIFIED = replace(RUNNING, rounds=(closed(verified=True),))
VOID = chain(assigned={"round": 1, "void": 1}, rounds=(closed(void=True),))


def test_a_round_leaves_the_record_when_nobody_can_ask_any_more() -> None:
    local = two_rounds()
    assert [r.round for r in local.rounds] == [0, 1]
    open_stage = about(segment(0))
    for kept in ((RUNNING, {}, 100), (VERIFIED, {}, 19), (VERIFIED, open_stage, 100)):
        assert fold(local, *kept) == local
    for over in (VERIFIED, VOID):
        after = fold(local, over, about(segment(0), is_open=False), 20)
        assert [r.round for r in after.rounds] == [1]
        assert after.failures == (PastFailures("p0", 1),)
    alone = replace(local, rounds=local.rounds[:1])
    assert fold(alone, VERIFIED, {}, 20) == alone  # the last one has the state to go on from


def test_the_states_of_a_void_round_wait_for_the_vote_on_a_slash() -> None:
    """Without them, the others could not see that the round was right; the order may be closed meanwhile."""
    local = two_rounds()
    dropping = replace(VOID, legs=chain(assigned={"round": 2, "void": 1}).legs)
    assert fold(local, dropping, about(segment(0), is_open=False, is_settled=True), 100) == local
    waiting = about(segment(0), is_open=False, for_slash=True)
    assert fold(local, VOID, waiting, 100) == local
    kinds = names(local)
    over = replace(VOID, order=replace(VOID.order, state=OrderState.CLOSED))
    assert needed_blobs(local, over, waiting, 100) >= kinds["payload"] | kinds["round"]
    ended = about(segment(0), is_open=False, for_slash=True, is_settled=True)
    assert needed_blobs(local, over, ended, 100) == frozenset()
    assert [r.round for r in fold(local, VOID, ended, 100).rounds] == [1]


def look(on_chain: OrderResponse, panels: Panels, clock: int = 100) -> Look:
    seen = ChainView(clock=clock, orders={ORDER_ID: on_chain}, validators={}, providers={}, panels=panels)
    return Look(seen, ME, CHAIN_ID, b"secret")


def test_a_closed_order_serves_the_vote_before_its_record_ends() -> None:
    local = two_rounds()
    over = replace(VOID, order=replace(VOID.order, state=OrderState.CLOSED))
    open_vote = about(segment(1), for_slash=True)
    after, actions = decide_leg(local, look(over, open_vote))
    assert after.closed_at == 0
    assert [action.index for action in actions if isinstance(action, Recompute)] == [1]
    assert after.rounds[0].audit_by
    later, _ = decide_leg(local, look(over, {}))
    assert later.closed_at


def test_who_failed_in_a_forgotten_round_still_stands_behind() -> None:
    local = fold(two_rounds(), VERIFIED, {}, 20)
    last = replace(local.rounds[-1], works=(), next_global=state("n2"))
    local = replace(local, rounds=(last,))
    terms = replace(RUNNING.order.terms, rounds=3)
    now = chain(ordered={"terms": terms}, assigned={"round": 2}, rounds=(closed(verified=True),))
    assert {w.provider for w in planned(local, now).rounds[-1].works} == {"p1"}


def names(local: LocalOrder) -> dict[str, set[bytes]]:
    packets = [work.packet for work in works(local) if work.packet]
    return {
        "payload": {file.blob.sha256 for file in local.payload.files},
        "round": {packet.blobs[0].sha256 for packet in packets} | {digest("opened")},
        "locals": {item.state.blob.sha256 for item in local.locals},
        "next": {digest("next")},
    }


def test_blobs_are_needed_as_long_as_somebody_may_ask() -> None:
    local = two_rounds()
    kinds = names(local)
    everything = set().union(*kinds.values())
    assert needed_blobs(local, RUNNING, {}, 100) >= everything
    later = needed_blobs(fold(local, VERIFIED, {}, 100), VERIFIED, {}, 100)
    assert later >= kinds["payload"] | kinds["locals"] | kinds["next"]
    assert later.isdisjoint(kinds["round"])
    failed = replace(RUNNING, legs=chain(assigned={"state": LegState.FAILED}).legs)
    # Its panel may go on.
    assert needed_blobs(local, failed, {}, 100) >= kinds["payload"] | kinds["round"]
    assert needed_blobs(local, replace(failed, rounds=()), {}, 100) == frozenset()
    over = replace(RUNNING, order=replace(RUNNING.order, state=OrderState.CLOSED))
    assert needed_blobs(local, over, {}, 100) == frozenset()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    store = ValidatorStore(tmp_path / "validator.db")
    blobs = BlobStore(tmp_path / "blobs", 1 << 20)
    yield Ledger(store, blobs, Event())
    store.close()
    blobs.close()


def test_a_record_names_only_blobs_that_are_here_and_held(ledger: Ledger) -> None:
    ledger.begin(ORDER_ID, 1)
    missing = BlobRef(digest("missing"), 3)
    with pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.WRONG_STATE):
        ledger.change(ORDER_ID, 1, lambda _: loaded(), [missing])
    assert ledger.load(ORDER_ID, 1) == new_order(ORDER_ID, 1)
    blob = ledger.blobs.add(b"abc")
    ledger.change(ORDER_ID, 1, lambda _: loaded(), [blob])
    assert ledger.load(ORDER_ID, 1) == loaded()
    assert ledger.blobs.is_held(blob.sha256)
    assert ledger.change(ORDER_ID, 2, lambda now: now) is None


def test_tidying_releases_what_the_record_does_not_need(ledger: Ledger) -> None:
    ledger.store.save(loaded())
    blob = ledger.blobs.add(b"abc")
    ledger.blobs.hold(blob.sha256, str(loaded().key))
    ledger.blobs.hold(loaded().payload.files[0].blob.sha256, str(loaded().key))
    ledger.tidy(loaded().key, needed_blobs(loaded(), chain(), {}, 10))
    assert not ledger.blobs.has(blob.sha256)
    assert ledger.blobs.is_held(loaded().payload.files[0].blob.sha256)
    shared = ledger.blobs.add(b"shared")
    for holder in (str(loaded().key), "somebody else"):
        ledger.blobs.hold(shared.sha256, holder)
    ledger.forget(loaded().key)
    assert ledger.blobs.has(shared.sha256)
    assert ledger.load(ORDER_ID, 1) is None


# The database


def test_records_survive_the_process(tmp_path: Path) -> None:
    first = ValidatorStore(tmp_path / "v.db")
    first.save(two_rounds())
    row = VerdictRow(ORDER_ID, 1, 0, 0, 1, "p0", 4, 4, 0, -1)
    first.save_verdicts([row])
    first.save_verdicts([replace(row, reason=1)])
    first.save_answered(ORDER_ID, 1, 0, True)
    first.close()
    second = ValidatorStore(tmp_path / "v.db")
    assert second.load(ORDER_ID, 1) == two_rounds()
    assert second.verdicts(ORDER_ID) == [replace(row, reason=1)]
    assert second.answered() == [(ORDER_ID, 1, 0, True)]
    second.forget(ORDER_ID, 1)
    assert second.load(ORDER_ID, 1) is None
    assert second.all_orders() == []
    assert second.verdicts() == [replace(row, reason=1)]  # history
    second.close()


def with_leaves(number: int) -> LocalOrder:
    """Return a record with a round in which each share has so many leaves more than usual."""
    local = two_rounds()
    current = local.rounds[0]
    works = tuple(
        replace(work, packet=replace(work.packet, boundaries=work.packet.boundaries[:1] * number))
        if work.packet
        else work
        for work in current.works
    )
    return local.put(replace(current, works=works))


CHANGES: tuple[Callable[[LocalOrder], LocalOrder], ...] = (
    lambda now: segment_checked(now, share_key(), CheckedSegment(3, 0, bytes(32))),
    lambda now: opening_verified(now, share_key(), 2, holds=False),
    lambda now: place_of(now).put(replace(work_at(now), verdict=7, settled=True)),
    lambda now: not_aggregated(now, 0),
    lambda now: replace(now, excluded=("p9",)),
)


def work_at(local: LocalOrder) -> SlotWork:
    return place_of(local).work


def place_of(local: LocalOrder) -> WorkAt:
    at = local.at(0, 0, 1)
    assert at is not None
    return at


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_writes_what_changed_however_many_leaves_there_are(
    tmp_path: Path, change: Callable[[LocalOrder], LocalOrder]
) -> None:
    written: list[int] = []
    for number in (10, 5_000):
        store = ValidatorStore(tmp_path / f"{number}.db")
        before = with_leaves(number)
        store.save(before)
        statements: list[str] = []
        store._records._database.set_trace_callback(statements.append)
        after = change(before)
        assert after != before
        store.save(after)
        # What is traced has the values in it, bytes as twice as many digits.
        written.append(sum(map(len, statements)))
        store.close()
        again = ValidatorStore(tmp_path / f"{number}.db")
        assert again.load(ORDER_ID, 1) == after
        again.close()
    assert 0 < written[0] == written[1] < 3_000


def test_more_records_than_are_cached_are_all_there(tmp_path: Path) -> None:
    store = ValidatorStore(tmp_path / "v.db")
    for leg in range(1, CACHED + 10):
        store.save(new_order(ORDER_ID, leg))
    for leg in range(1, CACHED + 10):
        assert store.load(ORDER_ID, leg) == new_order(ORDER_ID, leg)
    assert store.legs(ORDER_ID)[0] == CACHED + 9
    assert store.latest(ORDER_ID) == new_order(ORDER_ID, CACHED + 9)
    store.close()


@pytest.mark.parametrize("junk", [b"", b"{}", b"[1", b"\xff", b"[" * 10])
@pytest.mark.parametrize("table", ["orders", "works", "packets", "openings"])
def test_a_record_that_cannot_be_read_is_set_aside_and_no_other(
    tmp_path: Path, table: str, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Who asks for all records would get none."""
    first = ValidatorStore(tmp_path / "v.db")
    first.save(two_rounds())
    first.save(replace(two_rounds(), leg=2))
    first.close()
    with sqlite3.connect(tmp_path / "v.db") as database:
        database.execute(f"UPDATE {table} SET record = ? WHERE k1 = 2", (junk,))
    second = ValidatorStore(tmp_path / "v.db")
    second.set_aside_damaged()
    assert second.all_orders() == [(ORDER_ID, 1)]
    assert second.load(ORDER_ID, 1) == two_rounds()
    assert second.load(ORDER_ID, 2) is None
    assert f"lost the record of leg 2 of order {ORDER_ID.hex()}" in caplog.text
    second.close()
    with sqlite3.connect(tmp_path / "v.db") as database:
        assert (junk,) in database.execute("SELECT record FROM damaged").fetchall()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    path.write_bytes(b"junk" * 1_000)
    with pytest.raises(StoreError, match=f"{path} cannot be used .*restore it from a backup"):
        ValidatorStore(path)


# Job directories


def test_a_job_directory_is_made_once_and_swept_when_unused(tmp_path: Path, ledger: Ledger) -> None:
    jobs = tmp_path / "jobs"
    files = tuple(PayloadFile(path, ledger.blobs.add(path.encode())) for path in ("job.json", "data/0", "data/1"))
    assert not is_materialised(files, jobs)
    made: list[Path] = []
    threads = [Thread(target=lambda: made.append(materialise(files, ledger.blobs, jobs))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [job_directory(files, jobs)] * 8
    names = sorted(p.relative_to(made[0]).as_posix() for p in made[0].rglob("*") if p.is_file())
    assert names == [".complete", "data/0", "data/1", "job.json"]
    assert (made[0] / "data/1").read_bytes() == b"data/1"
    old = time.time() - 100
    os.utime(made[0] / ".complete", (old, old))
    materialise(files, ledger.blobs, jobs)
    sweep(jobs, 50)
    assert is_materialised(files, jobs)  # it is in use
    os.utime(made[0] / ".complete", (old, old))
    sweep(jobs, 50)
    assert list(jobs.iterdir()) == []
    sweep(tmp_path / "nowhere", 50)


def test_nesting_paths() -> None:
    assert nests(["a", "a/b"])
    assert nests(["a/b/c", "a/b"])
    assert not nests(["a", "b/a", "ab"])


# Memory


def test_grants_end_and_are_bounded() -> None:
    now = [0.0]
    grants = Grants(2, lambda: now[0])
    a, b, c = (BlobRef(digest(name), 1) for name in "abc")
    grants.give("p", [a, b])
    assert grants.holds("p", a.sha256)
    assert not grants.holds("q", a.sha256)
    grants.give("p", [a])
    grants.give("q", [c])
    assert [grants.holds("p", blob.sha256) for blob in (a, b)] == [True, False]
    now[0] = GRANT_SECONDS
    assert not grants.holds("p", a.sha256)


def test_presence_ends_and_is_forgotten() -> None:
    now = [0.0]
    presence = Presence(lambda: now[0])
    machine = Machine("cpu", 1)
    assert presence.join("p", machine)
    assert not presence.join("p", machine)
    presence.poll("q")
    assert presence.live() == ["p", "q"]
    now[0] = LIVE_SECONDS + 1
    presence.poll("q")
    assert presence.live() == ["q"]
    presence.keep(["q"])
    assert presence.machines() == {}
