"""A validator tries a job before it accepts: real jobs in the real pool, and what their times mean for an order."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from domain.legs.reasons import LegEnd
from domain.limits import BIDS_PER_VALIDATOR_MAX
from domain.market.queries import BidsRequest, BidsResponse
from domain.market.records import Bid, Offer
from link import types as t
from link.blobs import BlobStore
from pol.executor.hardware import Hardware
from pol.executor.hardware_backend import hardware_backend
from pol.executor.interface import Backend
from pol.executor.names import Engine
from pol.job.document import order_terms
from pol.job.load import load_document, load_job
from pol.job.tolerance import Tolerance
from pol.replay import trial as module
from pol.replay.trial import TrialRequest, try_payload
from pol.rules.panels import verify_seconds
from pol.rules.tiers.exact import EXACT
from pol.rules.tolerance import BF16, FP32, LEAST_LARGEST, LEAST_MEAN
from pol.work.executor import PoolClosed
from pol.work.pool import ReplayPool
from pol.work.replayer import ExecutorReplayer
from pol.work.trials import Trial, TrialTimes
from tests.support.four_bytes import registered
from tests.support.tolerant import rewrite, tolerant
from tests.unit.pol.odd_jobs import (
    SLOTS,
    Change,
    beyond_the_table,
    broad,
    halved,
    infinite,
    products,
    write_odd_job,
)
from tests.unit.validator.support import ME, ORDER_ID, leg, order
from tests.unit.validator.support import TERMS as SMALL
from tests.unit.validator.trained import JOB
from validator.decide import actions as do
from validator.decide.receive import job_tried, payload_complete, payload_offered
from validator.decide.records import LegKey, LocalOrder, PayloadStage, new_order
from validator.decide.trial import START_SECONDS, judged, trial_seconds, trial_slot
from validator.ledger import Ledger
from validator.store import ValidatorStore
from validator.work.perform import TRIALS, Performer

KEY = LegKey(ORDER_ID, 1)
FAR = 10**9
"""A deadline that nothing misses."""
TERMS = replace(SMALL, global_bytes=600_000, local_bytes=400_000)
"""Boundaries are a large part of the work of these steps."""
MIB = 1 << 20


@dataclass
class Book:
    """A node that knows one bid."""

    memory: int

    def query(self, request: BidsRequest) -> BidsResponse:
        assert (request.validator, request.limit) == (ME, BIDS_PER_VALIDATOR_MAX)
        offer = Offer(price=1, slot_speed=1, memory=self.memory)
        return BidsResponse((Bid(bytes(32), ME, offer, 1, 1, 1),))


@dataclass
class Trials:
    """What carries a trial out, and a job whose payload is here."""

    folder: Path
    ledger: Ledger
    pool: ReplayPool

    def payload(self, job: Path, **changes: Any) -> do.TryJob:
        """Write the record of a leg at a job whose payload is here, and return what is asked for next."""
        loaded = load_job(job)
        files = tuple(
            t.PayloadFile(path, self.ledger.blobs.add((job / path).read_bytes()))
            for path in sorted({file.path for file in loaded.job.payload})
        )
        local = payload_complete(payload_offered(new_order(ORDER_ID, 1), files))
        self.ledger.store.save(local)
        assigned = leg(slots=SLOTS, **changes.pop("assigned", {}))
        made = replace(order(terms=order_terms(loaded.job), deadline=FAR), **changes)
        return do.TryJob("try", KEY, made, assigned, 600)

    def perform(self, action: do.TryJob, memory: int = 0, clock: int = 0) -> LocalOrder:
        blobs = self.ledger.blobs
        book: Any = Book(memory)
        jobs, pool = self.folder / "jobs", self.pool
        performer = Performer(
            "chain",
            b"secret",
            book,
            self.ledger,
            blobs,
            jobs,
            self.folder / "pool",
            ExecutorReplayer({TRIALS: pool}),
            Engine("numpy"),
            1,
            lambda: clock,
        )
        performer.try_job(action)
        after = self.ledger.load(ORDER_ID, 1)
        assert after is not None
        return after

    def outcome(
        self, step: Change = halved, outer: Change | None = None, memory: int = 0, **changes: Any
    ) -> tuple[PayloadStage, int]:
        """Return what a trial of an odd job leads to."""
        job = self.folder / "odd"
        write_odd_job(job, step, outer, changes.pop("segment_steps", 1))
        ends = changes.pop("ends", 600)
        action = replace(self.payload(job, **changes), ends=ends)
        payload = self.perform(action, memory).payload
        return payload.stage, payload.decline


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[Trials]:
    store, blobs = ValidatorStore(tmp_path / "v.db"), BlobStore(tmp_path / "b", 1 << 28)
    with ReplayPool(1, folder=tmp_path / "pool", memory_bytes=1 << 30, reads=[tmp_path / "jobs"], fresh=True) as pool:
        yield Trials(tmp_path, Ledger(store, blobs, Event()), pool)
    store.close()
    blobs.close()


def declined(reason: LegEnd) -> tuple[PayloadStage, int]:
    return PayloadStage.BAD, reason


# Jobs in hardware arithmetic


@pytest.fixture(scope="module")
def tolerant_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tolerant(JOB, tmp_path_factory.mktemp("tolerant") / "job")


def rewritten(job: Path, to: Path, change: Callable[[Tolerance], Tolerance]) -> Path:
    """Return a copy of a job with another part ``tolerance``."""
    shutil.copytree(job, to)
    document = load_document(to).document
    assert document.tolerance is not None
    rewrite(to, replace(document, tolerance=change(document.tolerance)))
    return to


def tightest(tolerance: Tolerance) -> Tolerance:
    """Return the tightest thresholds that a job may have."""
    rows = tolerance.thresholds
    return replace(tolerance, thresholds=tuple(replace(row, largest=LEAST_LARGEST, mean=LEAST_MEAN) for row in rows))


def in_tier(trials: Trials, job: Path, tier: str, memory: int = 0) -> LocalOrder:
    with registered(replace(EXACT, name="hardware", hardware=True)):
        return trials.perform(trials.payload(job, assigned={"tier": tier}), memory)


def test_a_job_with_thresholds_is_accepted_in_every_tier(trials: Trials, tolerant_job: Path) -> None:
    # Torch takes more memory than the job, but the bid's device is not asked for it.
    for tier in ("exact", "hardware"):
        assert in_tier(trials, tolerant_job, tier, memory=80 * MIB).payload.stage is PayloadStage.LOADED
    assert in_tier(trials, JOB, "hardware").payload.stage is PayloadStage.LOADED


def test_a_precision_that_this_machine_lacks_is_declined(trials: Trials, tolerant_job: Path) -> None:
    job = rewritten(tolerant_job, trials.folder / "tf32", lambda part: replace(part, precision="tf32"))
    payload = in_tier(trials, job, "hardware").payload
    assert (payload.stage, payload.decline) == declined(LegEnd.DECLINED_BY_CHOICE)
    assert in_tier(trials, job, "exact").payload.stage is PayloadStage.LOADED


def test_thresholds_that_reject_another_machine_are_declined(
    tolerant_job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer could otherwise order work for which honest providers and validators lose their bonds."""
    job = rewritten(tolerant_job, tmp_path / "tight", tightest)
    document = load_document(job).document
    asked = TrialRequest(
        job, order_terms(load_document(job)), 0, range(document.slots), 0, Engine("numpy"), hardware=True
    )
    assert try_payload(asked).decline == 0

    def farther(*_: object, other: bool = False, **__: object) -> Backend:
        return hardware_backend(Hardware(BF16 if other else FP32, threads=1))

    monkeypatch.setattr(module, "segment_backend", farther)
    found = try_payload(asked)
    assert found.decline == LegEnd.DECLINED_BAD_JOB
    assert "reject an honest machine that sums in another order: " in found.text
    assert try_payload(replace(asked, hardware=False)).decline == 0


# Real jobs


def test_a_job_that_fits_is_accepted(trials: Trials) -> None:
    assert trials.outcome() == (PayloadStage.LOADED, 0)


def test_a_job_that_goes_to_infinity_at_once_is_declined(trials: Trials) -> None:
    """A job that goes to NaN earned its consumer the bonds."""
    assert trials.outcome(infinite) == declined(LegEnd.DECLINED_NOT_FINITE)


def test_an_aggregation_that_is_not_finite_is_declined(trials: Trials) -> None:
    assert trials.outcome(outer=infinite) == declined(LegEnd.DECLINED_NOT_FINITE)


def test_a_step_that_takes_rows_that_are_not_there_is_declined(trials: Trials) -> None:
    assert trials.outcome(beyond_the_table) == declined(LegEnd.DECLINED_NOT_FINITE)


def test_a_job_that_needs_more_memory_than_the_bid_offers_is_declined(trials: Trials) -> None:
    big, bad = broad(1 << 24), declined(LegEnd.DECLINED_BAD_JOB)
    assert trials.outcome(big, memory=100 * MIB) == bad
    local = trials.ledger.load(ORDER_ID, 1)
    assert local is not None
    assert "the bid has" in local.payload.text
    assert trials.outcome(big, memory=900 * MIB) == (PayloadStage.LOADED, 0)


def test_a_job_that_needs_more_memory_than_a_process_has_is_declined(trials: Trials) -> None:
    """Where the bid says nothing about memory."""
    assert trials.outcome(broad(1 << 28)) == declined(LegEnd.DECLINED_BAD_JOB)


def test_a_segment_that_does_not_end_in_time_is_declined(trials: Trials) -> None:
    """A bomb of time: hours of honest work in one segment. Its process is gone with it, and the next trial has one."""
    slow = declined(LegEnd.DECLINED_TOO_SLOW)
    assert trials.outcome(products(100), segment_steps=10**6, ends=3) == slow
    assert trials.outcome() == (PayloadStage.LOADED, 0)


def test_a_job_that_cannot_meet_the_orders_deadline_is_declined(trials: Trials) -> None:
    """At a million FLOP/s, any job takes as long as its work says, or longer."""
    slots = {"slot_speed": 10**6}
    work = 2 * 60
    tight = trials.outcome(assigned=slots, deadline=work // 4)
    assert tight == declined(LegEnd.DECLINED_TOO_SLOW)


def test_a_job_that_does_not_load_or_is_another_is_declined(trials: Trials) -> None:
    write_odd_job(trials.folder / "odd")
    action = trials.payload(trials.folder / "odd")
    other = replace(action.order, terms=replace(action.order.terms, rounds=3))
    payload = trials.perform(replace(action, order=other)).payload
    assert payload.decline == LegEnd.DECLINED_WORK_MISMATCH
    action = trials.payload(trials.folder / "odd")
    local = trials.ledger.load(ORDER_ID, 1)
    assert local is not None
    files = tuple(file for file in local.payload.files if file.path != "global.state")
    trials.ledger.store.save(replace(local, payload=replace(local.payload, files=files)))
    payload = trials.perform(action).payload
    assert payload.decline == LegEnd.DECLINED_BAD_JOB
    assert "global.state" in payload.text


def test_what_a_trial_found_outlives_the_daemon_and_is_not_tried_again(trials: Trials) -> None:
    write_odd_job(trials.folder / "odd", infinite)
    action = trials.payload(trials.folder / "odd")
    first = trials.perform(action)
    assert first.payload.decline == LegEnd.DECLINED_NOT_FINITE
    trials.pool.close()  # any further trial is an error
    trials.ledger.store.close()
    trials.ledger.store = ValidatorStore(trials.folder / "v.db")
    assert trials.perform(action) == first


def test_a_trial_that_was_cut_short_is_begun_again(trials: Trials) -> None:
    write_odd_job(trials.folder / "odd")
    action = trials.payload(trials.folder / "odd")
    trials.pool.close()
    with pytest.raises(PoolClosed):
        trials.perform(action)
    trials.pool = ReplayPool(1, folder=trials.folder / "pool", reads=[trials.folder / "jobs"], fresh=True)
    with trials.pool:
        assert trials.perform(action).payload.stage is PayloadStage.LOADED


def test_a_trial_that_would_begin_too_late_is_not_begun(trials: Trials) -> None:
    write_odd_job(trials.folder / "odd")
    action = trials.payload(trials.folder / "odd")
    assert trials.perform(action, clock=600).payload.stage is PayloadStage.COMPLETE


# What the times mean. The job of these orders: 2 rounds of 2 slots, 4 segments of 19 MFLOPs each, 4 MFLOPs to end one.

HONEST = TrialTimes(19_000, 4_000, 10**9)
"""Of a machine that does a GFLOP/s, and of a job that is as fast there as its work says: a round takes 80 ms."""


def verdict(times: TrialTimes, processes: int = 1, clock: int = 0, **changes: Any) -> int:
    params = replace(order().params, progress_base=changes.pop("base", 0))
    assigned = leg(**{"slot_speed": 10**6, **changes.pop("assigned", {})})
    made = order(**{"terms": TERMS, "params": params, "deadline": FAR, **changes})
    return judged(Trial(TERMS, times), made, assigned, clock, processes).decline


def slower(factor: float) -> TrialTimes:
    return replace(HONEST, segment=int(19_000 * factor), outer=int(4_000 * factor))


def test_a_job_may_take_thrice_its_work_and_the_base_and_no_more() -> None:
    """A slot does a MFLOP/s: a round is expected in 80 s, and has to be closed in 240."""
    assert verdict(HONEST, 99) == 0
    assert verdict(slower(2.9), 99) == 0
    assert verdict(slower(3.1), 99) == LegEnd.DECLINED_TOO_SLOW
    assert verdict(slower(3.1), 99, base=30) == 0
    # Two turns, where the bid has one slot at a time, are expected to take twice as long.
    assert verdict(slower(2.9), 99, assigned={"slots_at_once": 1}) == 0


def test_operations_that_cost_a_thousand_times_their_work_are_too_slow() -> None:
    """The aggregation alone is enough."""
    lie = replace(HONEST, outer=4_000 * 1_000)
    assert verdict(lie, 99) == LegEnd.DECLINED_TOO_SLOW


def test_the_speed_of_this_machine_says_nothing_about_the_job() -> None:
    """Ten times slower than it does otherwise is a slow machine, as long as it can still check what comes."""
    slow = TrialTimes(190_000, 40_000, 10**8)
    assert verdict(slow) == 0
    assert verdict(replace(slow, speed=10**9), 99) == LegEnd.DECLINED_TOO_SLOW


def test_a_machine_that_is_too_slow_to_check_the_job_declines_at_its_own_cost() -> None:
    """Each share's four segments are replayed here: 2 x 4 x 30 s of a core beside 80 s of training in 240 s."""
    slow = TrialTimes(30_000_000, 0, 19 * 10**9 // 30_000)
    assert verdict(slow, 1) == LegEnd.DECLINED_BY_CHOICE
    assert verdict(slow, 2) == 0


def test_a_job_has_to_fit_the_orders_deadline() -> None:
    """Two rounds of 80 s, and the wait for the last one's verification."""
    need = 160 + verify_seconds(order().params, order().audit_ms, order().window)
    assert verdict(HONEST, 99, deadline=need + 5, clock=5) == 0
    assert verdict(HONEST, 99, deadline=need + 4, clock=5) == LegEnd.DECLINED_TOO_SLOW
    assert verdict(slower(2), 99, deadline=need + 5, clock=5) == LegEnd.DECLINED_TOO_SLOW


def test_every_slot_may_be_tried_and_a_restart_tries_the_same() -> None:
    for first in (0, 4):
        served = leg(first_slot=first, slots=3)
        drawn = [trial_slot(bytes([secret]), served) for secret in range(40)]
        assert set(drawn) == set(served.served_slots)
        assert drawn == [trial_slot(bytes([secret]), served) for secret in range(40)]
        numbers = {trial_slot(b"s", replace(served, number=n)) for n in range(40)}
        assert numbers == set(served.served_slots)


def test_a_trial_has_time_for_its_work_four_times_and_for_loading() -> None:
    """46 MFLOPs are twice a segment and an aggregation, 18 MFLOPs the first steps of two slots."""
    assert trial_seconds(TERMS, 10**6) == START_SECONDS + 1 + 4 * 64
    assert trial_seconds(TERMS, 10**6, 4) == 4 * START_SECONDS + 1 + 4 * 64
    heavy = replace(TERMS, data_bytes=10**9)
    assert trial_seconds(heavy, 10**6) == START_SECONDS + 51 + 4 * 64


def test_what_was_found_first_stays() -> None:
    local = payload_complete(payload_offered(new_order(ORDER_ID, 1), ()))
    bad = Trial(decline=LegEnd.DECLINED_TOO_SLOW, text="slow")
    first = job_tried(local, TERMS, bad)
    assert (first.payload.stage, first.payload.text) == (PayloadStage.BAD, "slow")
    assert job_tried(first, TERMS, Trial(TERMS, HONEST)) == first
