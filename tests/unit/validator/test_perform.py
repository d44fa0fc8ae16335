"""Carrying actions out on a real job: what reaches the numerics, and what of it reaches the record."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from domain.proof.reasons import ShareReason
from link import types as t
from link.blobs import BlobStore
from link.handover import open_chunk, public_point
from pol.executor.names import Engine
from pol.job.document import order_terms
from pol.job.load import load_job
from pol.rules.handover import HandoverId
from pol.state.arrays import State
from pol.state.canonical import chunks_of
from pol.work.executor import PoolError
from pol.work.replayer import ExecutorReplayer
from tests.support.sealed import split
from tests.unit.validator.support import CHAIN_ID, ORDER_ID, share_key
from tests.unit.validator.trained import JOB, PART, N, Trained, delivery_of, train
from validator.decide import actions as do
from validator.decide.receive import job_loaded, payload_complete, payload_offered
from validator.decide.records import (
    CheckedSegment,
    LegKey,
    LocalOrder,
    LocalRound,
    Opening,
    SealedResult,
    SlotWork,
    accepted_works,
    new_order,
)
from validator.ledger import Ledger
from validator.store import ValidatorStore
from validator.work import numerics, perform
from validator.work.files import clear, places_in
from validator.work.perform import OWN, Performer
from validator.work.perform import work_of as work_of_action
from validator.work.requests import RoundAggregation

TERMS = replace(order_terms(load_job(JOB).job), rounds=1)
KEY = LegKey(ORDER_ID, 1)
SECRET = bytes(31) + b"\x07"


class InThisProcess:
    """A pool that runs a task where it is asked for."""

    error: Exception | None = None
    width = 1

    def submit(self, function: Any, *arguments: Any, timeout: float) -> "Future[Any]":
        future: Future[Any] = Future()
        if self.error:
            future.set_exception(self.error)
        else:
            future.set_result(function(*arguments))
        return future


@dataclass
class Setting:
    """A leg with one share of the fixture job, and what carries actions out on it."""

    trained: Trained
    ledger: Ledger
    pool: InThisProcess
    performer: Performer

    def ref(self, path: Path) -> t.BlobRef:
        return self.ledger.blobs.add(path.read_bytes())

    def opening(self, index: int, *, of: int | None = None, verified: bool = False) -> Opening:
        first, second = self.trained.paths(index if of is None else of)
        return Opening(index, self.ref(first), self.ref(second), verified)

    def payload(self) -> LocalOrder:
        """Write the record of a leg whose payload is here."""
        files = tuple(
            t.PayloadFile(path, self.ref(JOB / path))
            for path in sorted({file.path for file in load_job(JOB).job.payload})
        )
        local = payload_complete(payload_offered(new_order(ORDER_ID, 1), files))
        self.ledger.store.save(local)
        return local

    def share(self, *openings: Opening, bent: int = -1) -> LocalOrder:
        """Write a record with a share, in which leaf ``bent`` is wrong, and these openings."""
        local = job_loaded(self.payload(), TERMS, TERMS, "")
        first, second = local.payload.initial_global, local.payload.initial_local
        assert first
        assert second
        packet = self.packet(bent)
        work = SlotWork(
            PART.slot,
            1,
            "p0",
            second,
            0,
            None,
            0,
            packet,
            0,
            (),
            openings,
            (),
            (),
            0,
            False,
        )
        other = replace(work, slot=0, openings=())
        works = tuple(sorted((other, work), key=lambda each: each.slot))
        local = replace(local, rounds=(LocalRound(PART.round, first, works, None, (), 0, None),))
        self.ledger.store.save(local)
        return local

    def packet(self, bent: int) -> t.ShareDelivery:
        return delivery_of(self.trained, self.ref(self.trained.sent[0]), self.ref(self.trained.sent[1]), bent)

    def perform(self, local: LocalOrder, action: do.Action) -> LocalOrder:
        assert self.ledger.load(ORDER_ID, 1) == local
        work_of_action(self.performer.table(), action)()
        after = self.ledger.load(ORDER_ID, 1)
        assert after is not None
        return after

    def check(self, local: LocalOrder, segment: int) -> tuple[CheckedSegment, tuple[int, ...]]:
        """Replay a segment; return the outcome, and which openings may be handed on from now on."""
        work = work_of(self.perform(local, do.CheckSegment("check", share_key(PART.slot), segment, "exact")))
        (checked,) = work.checked
        return checked, tuple(held.index for held in work.openings if held.verified)


def work_of(local: LocalOrder) -> SlotWork:
    at = local.at(0, PART.slot, 1)
    assert at is not None
    return at.work


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("share"))


@pytest.fixture
def setting(trained: Trained, tmp_path: Path) -> Iterator[Setting]:
    store, blobs = ValidatorStore(tmp_path / "v.db"), BlobStore(tmp_path / "b", 1 << 24)
    ledger, pool = Ledger(store, blobs, Event()), InThisProcess()
    nobody: Any = None
    performer = Performer(
        CHAIN_ID,
        b"secret",
        nobody,
        ledger,
        blobs,
        tmp_path / "jobs",
        tmp_path,
        ExecutorReplayer({OWN: pool}),  # type: ignore[dict-item]
        Engine("numpy"),
        1,
        lambda: 0,
    )
    yield Setting(trained, ledger, pool, performer)
    store.close()
    blobs.close()


@pytest.mark.parametrize("index", [0, 2, N])
def test_an_honest_place_holds_and_its_opening_may_be_handed_on(setting: Setting, index: int) -> None:
    opened = (setting.opening(index),) if index else ()
    checked, verified = setting.check(setting.share(*opened), index)
    assert (checked.segment, checked.reason) == (index, ShareReason.NONE)
    assert verified == ((index,) if index else ())


def test_a_wrong_place_has_the_replayed_root_as_evidence(setting: Setting) -> None:
    checked, verified = setting.check(setting.share(setting.opening(2), bent=3), 2)
    assert checked.reason == ShareReason.SEGMENT_MISMATCH
    assert checked.replayed_root == setting.trained.boundaries[3].root
    assert verified == (2,)


def test_other_states_than_committed_are_no_opening(setting: Setting) -> None:
    """They are no reason to reject the share, which is delivered; the validator recomputes the states alone."""
    action = do.CheckSegment("check", share_key(PART.slot), 2, "exact")
    work = work_of(setting.perform(setting.share(setting.opening(2, of=1)), action))
    assert (work.checked, work.openings, work.alone) == ((), (), (2,))


def test_states_for_an_audit_are_hashed_before_they_are_handed_on(setting: Setting) -> None:
    action = do.VerifyOpening("verify", share_key(PART.slot), 2)
    right = setting.perform(setting.share(setting.opening(2)), action)
    assert [held.verified for held in work_of(right).openings] == [True]
    wrong = setting.perform(setting.share(setting.opening(2, of=1)), action)
    assert work_of(wrong).openings == ()
    assert wrong.excluded == ("p0",)


def test_states_that_nobody_brought_are_recomputed_from_what_is_here(setting: Setting) -> None:
    action = do.Recompute("recompute", share_key(PART.slot), 3)
    for held in ((), (setting.opening(1, verified=True),)):
        after = setting.perform(setting.share(*held), action)
        found = next(o for o in work_of(after).openings if o.index == 3)
        assert found.verified
        blobs = setting.ledger.blobs
        paths = (blobs.path(found.global_state.sha256), blobs.path(found.local_state.sha256))
        assert [p.read_bytes() for p in paths] == [p.read_bytes() for p in setting.trained.paths(3)]
        assert all(blobs.is_held(ref.sha256) for ref in (found.global_state, found.local_state))


def test_what_training_does_not_lead_to_is_not_handed_on(setting: Setting) -> None:
    after = setting.perform(setting.share(bent=3), do.Recompute("recompute", share_key(PART.slot), 3))
    assert work_of(after).openings == ()
    assert work_of(after).broken == (3,)
    assert after.excluded == ("p0",)


def test_a_round_is_aggregated_and_its_result_sealed_for_its_consumer_only(
    setting: Setting,
) -> None:
    local = setting.perform(setting.share(), do.Aggregate("aggregate", KEY.round(0)))
    current = local.find(0)
    assert current is not None
    assert current.next_global is not None
    blobs = setting.ledger.blobs
    assert blobs.is_held(current.next_global.blob.sha256)
    state = blobs.read(current.next_global.blob.sha256, 0, 1 << 24)
    assert state != (JOB / "global.state").read_bytes()
    result = sealed_by(setting, local)
    assert blobs.is_held(result.blob.sha256)
    data = blobs.read(result.blob.sha256, 0, 1 << 24)
    sealed = split(data, result.leaves)
    handover = HandoverId(CHAIN_ID, ORDER_ID, 1, 0)
    chunks = [open_chunk(handover, i, chunk, SECRET) for i, chunk in enumerate(sealed)]
    left = [work.packet.blobs[1] for work in accepted_works(current) if work.packet]
    assert len(left) == TERMS.slots
    locals_ = [blobs.read(blob.sha256, 0, 1 << 24) for blob in left]
    assert chunks == [chunk for data in (state, *locals_) for chunk in chunks_of(data)]
    assert len(chunks) == TERMS.result_chunks
    # A restart seals it again, and the root that may be on chain already must be the same.
    setting.ledger.store.save(local)
    assert sealed_by(setting, local) == result


def test_several_processes_aggregate_parts_of_a_round(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is the same, and a part that cannot be computed fails the round."""
    local = setting.share()
    whole = setting.perform(local, do.Aggregate("aggregate", KEY.round(0))).find(0)
    setting.ledger.store.save(local)
    setting.pool.width = 3
    monkeypatch.setattr(perform, "PART_BYTES", 1)
    asked = list[int]()
    aggregate = numerics.aggregate_round

    def counted(request: RoundAggregation) -> numerics.WrittenPart | None:
        asked.append(request.parts)
        return aggregate(request)

    monkeypatch.setattr(numerics, "aggregate_round", counted)
    assert setting.perform(local, do.Aggregate("aggregate", KEY.round(0))).find(0) == whole
    assert asked == [3, 3, 3]
    setting.ledger.store.save(local)
    monkeypatch.setattr(numerics, "aggregate_round", lambda asked: aggregate(asked) if asked.part else None)
    failed = setting.perform(local, do.Aggregate("aggregate", KEY.round(0))).find(0)
    assert failed is not None
    assert failed.next_global is None
    assert not list(setting.performer.scratch.glob("made-*"))


def sealed_by(setting: Setting, local: LocalOrder) -> SealedResult:
    """Seal the first round of a record, and return what was sealed."""
    after = setting.perform(local, do.Seal("seal", KEY.round(0), public_point(SECRET)))
    (current,) = after.rounds
    assert current.sealed is not None
    return current.sealed


@pytest.mark.parametrize("target", ["other", "bent", "secret"])
def test_what_another_task_puts_where_a_state_was_written_is_no_state(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Workers share a folder: one that a stranger's job has taken over may write there, and make links."""
    local, write = setting.share(), numerics.write_state
    (setting.performer.scratch / "secret").write_bytes(b"of the validator")

    def spoilt(to: Path, state: State) -> bytes:
        digest = write(to, state)
        data = to.read_bytes()
        to.unlink()
        if target == "bent":
            to.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        elif target == "other":
            to.write_bytes(b"another state")
        else:
            to.symlink_to(setting.performer.scratch / target)
        return digest

    monkeypatch.setattr(numerics, "write_state", spoilt)
    with pytest.raises((PoolError, OSError)):
        setting.perform(local, do.Aggregate("aggregate", KEY.round(0)))
    assert setting.ledger.load(ORDER_ID, 1) == local
    assert not list(setting.performer.scratch.glob("made-*"))


def test_what_a_killed_daemon_left_of_states_goes(tmp_path: Path) -> None:
    with places_in(tmp_path, 2) as (first, second):
        first.write_bytes(b"state")
        second.write_bytes(b"half a st")
        clear(tmp_path)
        assert not list(tmp_path.iterdir())
        second.write_bytes(b"state")
    assert not list(tmp_path.iterdir())


def test_folders_and_links_in_the_place_of_states_go_too(tmp_path: Path) -> None:
    """Else whoever can write there could keep a daemon from starting."""
    scratch, kept = tmp_path / "scratch", tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    with places_in(scratch, 3) as (first, second, third):
        (first / "folder").mkdir(parents=True)
        (first / "folder" / "file").touch()
        second.symlink_to(kept)
        clear(scratch)
        assert not list(scratch.iterdir())
        (third / "folder").mkdir(parents=True)
        second.symlink_to("nowhere")
    assert not list(scratch.iterdir())
    assert (kept / "file").exists()


@pytest.mark.parametrize(
    "action",
    [
        do.CheckSegment("check", share_key(PART.slot), 0, "exact"),
        do.Recompute("recompute", share_key(PART.slot), 3),
        do.Aggregate("aggregate", KEY.round(0)),
    ],
    ids=lambda action: action.key,
)
def test_a_pool_without_a_result_leaves_the_record_as_it_is(setting: Setting, action: do.Action) -> None:
    """It is asked for again; a verdict it is not."""
    local = setting.share()
    setting.pool.error = PoolError("The worker died.")
    with pytest.raises(PoolError):
        setting.perform(local, action)
    assert setting.ledger.load(ORDER_ID, 1) == local
