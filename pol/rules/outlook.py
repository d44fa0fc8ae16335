"""The expected times of a job on a network, computed before anything is signed.

The times depend on the job's terms, the chain's parameters, and the number and speed of a bid's slots.
"""

from dataclasses import dataclass

from domain.amount import ceil_div
from domain.genesis import AUDIT_RATE, AUDIT_SPEED
from domain.market.records import JobTerms
from domain.params import Params
from domain.readable import Readable
from pol.rules.panels import compute_window, promised_ms
from pol.rules.schedule import (
    progress_seconds,
    round_seconds,
    share_segments,
    trial_work,
)


@dataclass(frozen=True, slots=True)
class Outlook(Readable):
    """The expected times of a job on a network, in seconds, rounded up. The wait for a match is not included.

    - ``steps``: the number of steps that must run one after another.
    - ``providers``: the largest number of providers that can train at the same time, one per slot.
    - ``turns``: the number of groups of slots that train one after another in a round.
    - ``segments``: the number of segments of a share.
    - ``round`` and ``job``: the time of training and aggregating.
    - ``accept``: the longest time from match to acceptance.
    - ``progress``: the longest time that a round may take.
    - ``audit``: the time of an auditor for the places that are always drawn.
    - ``window``: the time from the end of a round to its payment.

    Example::

        outlook = network.quote("my-job").outlook
        print(outlook.round, outlook.window) if outlook else print("no bid fits")
    """

    steps: int
    providers: int
    turns: int
    segments: int
    round: int
    job: int
    accept: int
    progress: int
    audit: int
    window: int


def outlook(terms: JobTerms, params: Params, slot_speed: int, slots: int, audit_ms: int | None = None) -> Outlook:
    """Return the expected times of a job if ``slots`` slots train at once, each at ``slot_speed`` FLOP/s.

    ``audit_ms`` is the chain's audit time for the job (milliseconds). If it is None, it is computed from the least
    speed and rate that an auditor may promise.
    """
    at_once = min(slots, terms.slots)
    round = round_seconds(terms, slot_speed, at_once)
    order_params = params.for_order()
    delivery = order_params.accept_base + ceil_div(terms.delivered_bytes, order_params.accept_rate)
    if audit_ms is None:
        audit_ms = promised_ms(terms, order_params, AUDIT_SPEED, AUDIT_RATE) if order_params.auditors else 0
    return Outlook(
        steps=terms.rounds * terms.round_steps,
        providers=terms.slots,
        turns=ceil_div(terms.slots, at_once),
        segments=share_segments(terms),
        round=round,
        job=terms.rounds * round,
        accept=delivery + ceil_div(trial_work(terms), slot_speed),
        progress=progress_seconds(terms, order_params.progress_base, slot_speed, at_once),
        audit=ceil_div(audit_ms, 1_000),
        window=compute_window(order_params, audit_ms),
    )
