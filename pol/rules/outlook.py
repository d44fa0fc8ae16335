"""What a network makes of a job, before anybody signs: how long it takes, how many can train it, who could check it.

Everything follows from the terms, the chain's parameters, and a bid's slot speed and slots.
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
    """What to expect of a job on a network; times are in seconds, rounded up, without waiting for a match.

    ``steps`` are those that have to be taken one after another; more than ``providers`` at once are of no use, and a
    round takes ``turns`` of those that there are. ``round`` and ``job`` are the time of training and aggregating,
    ``accept`` the longest from match to acceptance, ``progress`` the longest that a round may take. An auditor takes
    ``audit`` for the places that are always drawn, and a round is paid ``window`` after it was closed.

    Example::

        found = network.quote("my-job").outlook
        print(found.round, found.window) if found else print("no bid fits")
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
    """Return what to expect where ``slots`` slots train at once, each at ``slot_speed`` FLOP/s.

    ``audit_ms`` is the audit time that a chain has for it (milliseconds); else auditors promise what they do at least.
    """
    at_once = min(slots, terms.slots)
    round = round_seconds(terms, slot_speed, at_once)
    kept = params.for_order()
    delivery = kept.accept_base + ceil_div(terms.delivered_bytes, kept.accept_rate)
    if audit_ms is None:
        audit_ms = promised_ms(terms, kept, AUDIT_SPEED, AUDIT_RATE) if kept.auditors else 0
    return Outlook(
        steps=terms.rounds * terms.round_steps,
        providers=terms.slots,
        turns=ceil_div(terms.slots, at_once),
        segments=share_segments(terms),
        round=round,
        job=terms.rounds * round,
        accept=delivery + ceil_div(trial_work(terms), slot_speed),
        progress=progress_seconds(terms, kept.progress_base, slot_speed, at_once),
        audit=ceil_div(audit_ms, 1_000),
        window=compute_window(kept, audit_ms),
    )
