"""The trial of a job before its order is accepted: how long it may take, and what its times mean.

What a validator accepts it has to see through, or it loses the job bond: so it has to know that the first segment and
an aggregation have a result, and that the job is not slower than its work says by more than the deadlines leave room
for. The times are of one core of this machine, whose own speed was measured with them; what providers can do is
measured elsewhere (``Capability``), so the job alone is judged.
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
"""What a trial may take beside its work: a process starts, and measures the machine."""
LOAD_RATE = 20_000_000
"""Bytes/s at which a payload is loaded at least."""
TRIAL_SLACK = 4
"""How often the trial may take what the accept deadline leaves for it: this machine may be slower than the bid."""
_MICRO = 1_000_000
_ENDS = 2
"""Segments that are replayed of every share whatever is drawn: the first and the last."""


def trial_slot(secret: bytes, leg: Leg) -> int:
    """Return the slot of a leg that is tried: the same after a restart, and nothing that a consumer can know."""
    name = str(LegKey(leg.order_id, leg.number))
    drawn = int.from_bytes(hash_fields("assay/trial-slot", secret, name))
    return leg.first_slot + drawn % leg.slots


def trial_seconds(terms: JobTerms, slot_speed: int) -> int:
    """Return how long a trial may take on this machine before the job is too slow."""
    work = ceil_div(TRIAL_SLACK * trial_work(terms), slot_speed)
    return START_SECONDS + ceil_div(terms.delivered_bytes, LOAD_RATE) + work


def overdue() -> Trial:
    """Return what came of a trial that did not end in time."""
    text = "a trial of the job did not end within its time"
    return Trial(decline=LegEnd.DECLINED_TOO_SLOW, text=text)


def died(reason: str) -> Trial:
    """Return what came of a trial that took its process with it."""
    return Trial(decline=LegEnd.DECLINED_BAD_JOB, text=f"a trial of the job: {reason}")


def judged(trial: Trial, order: Order, leg: Leg, clock: int, processes: int) -> Trial:
    """Return a trial with the reason to decline that its times are, if they are one.

    ``clock`` is the chain's, and ``processes`` are those in which this machine replays.
    """
    terms, times = order.terms, trial.times
    if times is None:
        return trial
    segments, turns = share_segments(terms), ceil_div(leg.slots, leg.slots_at_once)
    # What the job takes on a machine that is as fast as the bid says of a slot.
    training = turns * segments * times.segment * times.speed // leg.slot_speed
    outer = times.outer * times.speed // leg.slot_speed
    most = _MICRO * progress_seconds(
        served_terms(terms, leg), order.params.progress_base, leg.slot_speed, leg.slots_at_once
    )
    verify = verify_seconds(order.params, order.audit_ms, order.window)
    left = _MICRO * (order.deadline - clock - verify)
    round = training + outer
    if round > most or leg.rounds * round > left:
        text = f"a round takes {_shown(round)} s at the bid's speed, which is too long"
        return Trial(terms=terms, times=times, decline=LegEnd.DECLINED_TOO_SLOW, text=text)
    # What this machine has to replay of it, whoever trains.
    places = min(segments, order.params.segments_drawn + _ENDS + OWN_PICKS)
    replays = ceil_div(leg.slots * places * times.segment, processes)
    if training + replays + times.outer > most:
        text = f"this machine would replay {_shown(replays)} s a round, which is too long"
        return Trial(terms=terms, times=times, decline=LegEnd.DECLINED_BY_CHOICE, text=text)
    return trial


def _shown(microseconds: int) -> int:
    return ceil_div(microseconds, _MICRO)
