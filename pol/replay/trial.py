"""A timed trial of a new job. It runs one segment of a slot, the first step of the other slots, an update, and one
aggregation.

A job that loads can still end in NaN, use a row number that does not exist, or take longer than its work indicates.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TypeVar

from domain.legs.reasons import LegEnd
from domain.market.records import JobTerms
from host import sandbox
from pol.errors import ExecutionError, JobError, Stopped
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import Engine
from pol.executor.segment_backend import segment_backend
from pol.job.cost import memory_size
from pol.job.document import order_terms
from pol.job.load import LoadedJob, load_document, load_job, verify_job
from pol.job.tolerance import thresholds_of
from pol.machines.form import GroupSpec
from pol.machines.parts import plan_of
from pol.replay.distances import SegmentEnd, distances
from pol.rules.tolerance import first_outside
from pol.split.costs import cost_of
from pol.work.executor import PoolError
from pol.work.records import RoundSlot
from pol.work.segments import SlotState, advance, first_state, run_segment, run_steps, slot_state
from pol.work.speed import core_speed
from pol.work.train import aggregate, share_update
from pol.work.trials import Trial, TrialTimes

T = TypeVar("T")

_ENOUGH = 0.1
"""Measured time (seconds) after which a task is not repeated. A shorter task is repeated, because its first run
consists mostly of start-up costs.
"""
_TIMES = 3


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A request to try a payload under the terms of its order.

    One segment of ``slot`` is tried, and the first step of every other slot in ``slots``. ``memory`` is the
    memory of a device in bytes, or 0 for no limit. ``hardware`` says whether the tier of the leg has hardware
    arithmetic.
    """

    directory: Path
    terms: JobTerms
    slot: int
    slots: range
    memory: int
    engine: Engine
    hardware: bool = False


def try_payload(request: TrialRequest) -> Trial:
    """Load a payload with every check; if the payload is the ordered job, time a trial.

    Any failure of an untrusted job becomes a reason to decline. Only a fault of this machine raises an error.
    """

    def run() -> Trial:
        executor = backend(request.engine)
        # This loads torch, which does not count as memory of the job.
        try:
            here, there = _segment_backends(request)
        except ExecutionError as error:
            return Trial(decline=LegEnd.DECLINED_BY_CHOICE, text=f"this machine cannot train the job: {error}")
        with sandbox.memory_bound(request.memory) if request.memory else nullcontext():
            loaded = load_job(request.directory)
            trial = _compared(loaded, request, "the job needs", memory_size(loaded.job.document))
            if trial.terms != request.terms or trial.decline:
                return trial
            times = try_job(loaded, request.slot, request.slots, executor, here)
            outside = _first_rejected(loaded, request.slot, here, there) if here and there else ""
            if outside:
                text = f"the job's thresholds reject an honest machine that sums in another order: {outside} is outside"
                return Trial(terms=trial.terms, decline=LegEnd.DECLINED_BAD_JOB, text=text)
            return Trial(terms=trial.terms, times=times)

    return guarded(run)


def _segment_backends(request: TrialRequest) -> tuple[Backend | None, Backend | None]:
    """Return what trains the segments of a job in hardware arithmetic here, and what does so on another machine.

    Both are None if the segments are trained exactly. Raises ExecutionError if this machine cannot compute so.
    """
    document = load_document(request.directory).document if request.hardware else None
    if document is None or document.tolerance is None:
        return None, None
    # The process of a trial may start no threads.
    engine = replace(request.engine, threads=1)
    return segment_backend(document, engine, True), segment_backend(document, engine, True, other=True)


def _first_rejected(loaded: LoadedJob, slot: int, here: Backend, there: Backend) -> str:
    """Return the first tensor of a slot's first segment that is outside the job's thresholds; empty if none is.

    If honest machines that sum in another order are outside, providers and validators lose bonds for right work.
    """
    document = loaded.job.document
    assert document.tolerance is not None, "only such jobs are tried in hardware arithmetic"
    start = first_state(loaded, slot, slot_state(loaded, loaded.global_state, loaded.local_state))

    def end(states: SlotState, metrics: tuple[int, ...]) -> SegmentEnd:
        return SegmentEnd(states.global_state, states.local_state, dict(zip(document.metrics, metrics, strict=False)))

    reference, other = (end(*run_steps(loaded, RoundSlot(0, slot), 0, start, executor)) for executor in (here, there))
    return first_outside(distances(end(start, ()), reference, other), thresholds_of(document.tolerance)) or ""


def guarded(run: Callable[[], Trial]) -> Trial:
    """Return the result of a trial. Any failure of an untrusted job becomes a reason to decline."""
    try:
        return run()
    except JobError as error:
        return Trial(decline=LegEnd.DECLINED_BAD_JOB, text=str(error))
    except Stopped as error:
        return Trial(decline=LegEnd.DECLINED_NOT_FINITE, text=f"a trial of the job: {error}")
    except MemoryError:
        text = "a trial of the job needs more memory than is available"
        return Trial(decline=LegEnd.DECLINED_BAD_JOB, text=text)
    except PoolError:
        raise
    except Exception as error:  # noqa: BLE001  (a failing job must not be tried again and again)
        text = f"a trial of the job failed: {error!r}"
        return Trial(decline=LegEnd.DECLINED_BAD_JOB, text=text)


def _compared(loaded: LoadedJob, request: TrialRequest, what: str, needed: int) -> Trial:
    """Return the terms of a job, and a reason to decline it if a device of the bid has too little memory."""
    terms = order_terms(loaded.job)
    if terms == request.terms and request.memory and needed > request.memory:
        text = f"{what} {needed} bytes of memory, but a device of the bid has {request.memory}"
        return Trial(terms=terms, decline=LegEnd.DECLINED_BAD_JOB, text=text)
    return Trial(terms=terms)


# --- parts of a trial on several machines (:mod:`pol.replay.trial_together`) --------------------------


def check_payload(request: TrialRequest, spec: GroupSpec) -> Trial:
    """Check a payload in every way, and compare it with the order; no step of it is run, and no state is loaded.

    A device of the bid needs the memory of the machine that needs most.
    """

    def run() -> Trial:
        loaded = verify_job(request.directory)
        cost = cost_of(plan_of(loaded.job.document, spec))
        return _compared(loaded, request, "each machine needs", max(machine.memory for machine in cost.machines))

    return guarded(run)


def measure_core(engine: Engine) -> int:
    """Return the speed of one core in FLOP/s."""
    return core_speed(backend(engine))


def try_job(
    loaded: LoadedJob, slot: int, slots: range, backend: Backend, segments: Backend | None = None
) -> TrialTimes:
    """Return the times of a trial: the first segment of ``slot`` in round 0, its update, and an aggregation.

    Steps are computed by ``segments``, if it is given, and all else by ``backend``. The aggregation uses the update of
    that segment in place of every slot's update. The first step of every other slot in ``slots`` is also run, but not
    timed. Raises Stopped if the segment, a step, the update or the aggregation has no result.
    """
    speed = core_speed(backend)
    start = slot_state(loaded, loaded.global_state, loaded.local_state)

    def hash_state(_step: int, _loss: float, state: SlotState) -> None:
        # A panel member hashes the state after every step.
        _ = state.root

    def segment() -> SlotState:
        return run_segment(loaded, RoundSlot(0, slot), 0, start, segments or backend, hash_state)[0]

    end, segment_time = shortest(segment)
    for other in slots:
        if other != slot:
            _try_step(loaded, other, start, segments or backend)
    return replace(_try_ends(loaded, end, backend), segment=segment_time, speed=speed)


def _try_ends(loaded: LoadedJob, end: SlotState, backend: Backend) -> TrialTimes:
    """Return the times of the update of a slot that ends with the states ``end``, and of an aggregation."""
    document = loaded.job.document
    result, close_time = shortest(partial(share_update, loaded, loaded.global_state, end, backend))
    update = result.update
    del end, result

    def outer() -> None:
        aggregate(loaded, loaded.global_state, repeat(update, document.slots), backend)

    return TrialTimes(segment=0, outer=shortest(outer)[1], speed=0, close=close_time if document.close else 0)


def _try_step(loaded: LoadedJob, slot: int, start: SlotState, backend: Backend) -> None:
    """Run the first step of a slot that is not timed. Without this, no one would notice a job that stops at once in
    such slots.
    """
    try:
        advance(loaded, first_state(loaded, slot, start), 0, slot, backend)
    except Stopped as error:
        raise error.within(f"slot {slot}") from None


def shortest(task: Callable[[], T], clock: Callable[[], float] = time.process_time) -> tuple[T, int]:
    """Run a task a few times. Return its result, and its shortest time in microseconds.

    ``clock`` returns the processor time of what computes, in seconds.
    """
    times: list[float] = []
    while len(times) < _TIMES and sum(times) < _ENOUGH:
        start = clock()
        result = task()
        times.append(clock() - start)
    return result, max(1, int(min(times) * 1e6))
