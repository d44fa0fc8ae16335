"""The trial of a job before its order is accepted: its time limit, and the verdict on its times.

A validator that accepts an order must complete it, or it loses the job bond. So the trial checks that the first segment
of a slot, the first step of the other slots, and an aggregation have a result. It also checks that the job does not run
so slowly, compared with its work, that it would miss the deadlines. The times are measured on one core of this machine,
and the speed of that core is measured in the same trial. The speed of providers is measured elsewhere (``Capability``),
so the verdict is only about the job.
"""

from domain.amount import ceil_div
from domain.hashing import hash_fields
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg
from domain.market.records import JobTerms, Order
from pol.rules.panels import verify_seconds
from pol.rules.schedule import progress_seconds, served_terms, share_segments, trial_work
from pol.work.trials import Trial
from validator.decide.assign import OWN_PICKS
from validator.decide.records import LegKey

START_SECONDS = 45
"""Seconds that a trial may take in addition to its work: its process has to start and to measure the machine."""
GROUP_STARTS = 4
"""Number of starts of a trial on several machines: a process that plans the job, the members together, and two more
processes that compute what needs whole states.
"""
LOAD_RATE = 20_000_000
"""Lowest rate (bytes/s) at which a payload may be loaded."""
TRIAL_SLACK = 4
"""Factor by which the time for the trial's work at the bid's speed is multiplied, because this machine may be slower
than the bid.
"""
_MICRO = 1_000_000
_DRAWN = 1
"""Least number of segments that a lot draws in a share of a new provider, which has no share in a verified round
yet.
"""


def trial_slot(secret: bytes, leg: Leg) -> int:
    """Return the slot of a leg that the trial runs: the same after a restart, and secret from the consumer."""
    name = str(LegKey(leg.order_id, leg.number))
    drawn = int.from_bytes(hash_fields("assay/trial-slot", secret, name))
    return leg.first_slot + drawn % leg.slots


def trial_seconds(terms: JobTerms, slot_speed: int, starts: int = 1) -> int:
    """Return the seconds that a trial may take on this machine before the job counts as too slow.

    ``starts`` is the number of processes that start one after another.
    """
    work = ceil_div(TRIAL_SLACK * trial_work(terms), slot_speed)
    return starts * START_SECONDS + ceil_div(terms.delivered_bytes, LOAD_RATE) + work


def overdue() -> Trial:
    """Return the result of a trial that did not end in time: the job is too slow."""
    text = "a trial of the job did not end within its time limit"
    return Trial(decline=LegEnd.DECLINED_TOO_SLOW, text=text)


def died(reason: str) -> Trial:
    """Return the result of a trial whose process died: the job is bad."""
    return Trial(decline=LegEnd.DECLINED_BAD_JOB, text=f"a trial of the job failed: {reason}")


def judged(trial: Trial, order: Order, leg: Leg, clock: int, processes: int) -> Trial:
    """Return ``trial``, with a reason to decline the order if its times are too long for the deadlines.

    ``clock`` is the chain's clock (seconds), and ``processes`` is the number of processes in which this machine
    replays.
    """
    terms = order.terms
    times = trial.times
    if times is None:
        return trial
    segments = share_segments(terms)
    turns = ceil_div(leg.slots, leg.slots_at_once)
    # The time (microseconds) of the job on machines with the slot speed of the bid.
    share = segments * times.segment + times.close
    training = turns * share * times.speed // leg.slot_speed
    outer = times.outer * times.speed // leg.slot_speed
    most = _MICRO * progress_seconds(
        served_terms(terms, leg), order.params.progress_base, leg.slot_speed, leg.slots_at_once
    )
    verify = verify_seconds(order.params, order.audit_ms, order.window)
    remaining = _MICRO * (order.deadline - clock - verify)
    round = training + outer
    if round > most or leg.rounds * round > remaining:
        text = f"a round takes {_seconds(round)} s at the bid's speed, which is too long for the order's deadlines"
        return Trial(terms=terms, times=times, decline=LegEnd.DECLINED_TOO_SLOW, text=text)
    # The time of this machine's own replays.
    places = min(leg.slots * segments, order.params.duty_segments + leg.slots * (_DRAWN + OWN_PICKS))
    replays = ceil_div(places * times.segment + leg.slots * times.close, processes)
    if training + replays + times.outer > most:
        text = f"this machine would need {_seconds(replays)} s per round for its replays, which is too long"
        return Trial(terms=terms, times=times, decline=LegEnd.DECLINED_BY_CHOICE, text=text)
    return trial


def _seconds(microseconds: int) -> int:
    return ceil_div(microseconds, _MICRO)
