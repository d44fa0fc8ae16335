"""What an order must be: one check for the chain, and for a consumer who asks before anything is signed."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.amount import ceil_div, price_ceil
from domain.errors import (
    BAD_FIELD,
    INSUFFICIENT_DEPOSIT,
    TOO_SLOW_TO_AUDIT,
    UNSUPPORTED,
    Refusal,
)
from domain.limits import EXECUTOR_VERSION
from domain.market.params import MarketParams
from domain.market.records import Conditions, JobTerms
from domain.order_params import OrderParams
from domain.params import Params
from pol.rules.panels import (
    Promised,
    compute_audit_ms,
    compute_window,
    is_eligible,
    largest_segment,
)
from pol.rules.schedule import check_terms, total_work
from pol.rules.tiers.table import check_names, highest_floor

LEAST_ELIGIBLE = 2
"""Validators who could audit an order, at least: whoever wins it is none of them."""

HANDOVER_SLACK = 4
"""How often fetching a result may take what it takes at ``accept_rate``."""


def check_job(terms: JobTerms, conditions: Conditions) -> None:
    """Check that chains of this version run such a job; Refusal names the field."""
    check_terms(terms)
    if terms.executor_version != EXECUTOR_VERSION:
        reason = f"{terms.executor_version} is not run here"
        remedy = f"build the job for version {EXECUTOR_VERSION}"
        raise Refusal(UNSUPPORTED, "terms.executor_version", reason, remedy)
    check_names(conditions.tiers, "conditions.tiers")


@dataclass(frozen=True, slots=True)
class Auditable:
    """How long an audit of an order takes those who may sit (milliseconds), and its window (seconds)."""

    audit_ms: int
    window: int


def check_auditable(terms: JobTerms, params: Params, validators: Sequence[Promised]) -> Auditable:
    """Check that auditors can keep up, and return their time and the window that follows from it.

    ``validators`` are those of the set, with what they promise as auditors.
    """
    kept = params.for_order()
    audit_ms = compute_audit_ms(terms, kept, validators)
    window = compute_window(kept, audit_ms)
    if not kept.auditors:
        return Auditable(audit_ms, window)
    if window > kept.window_max:
        reason = f"auditors need a window of {window} s, and the longest is {kept.window_max} s"
        steps = largest_segment(terms, kept, validators)
        remedy = (
            f"at most {steps} steps a segment" if steps else "use a smaller model or batch, fewer slots, or less data"
        )
        raise Refusal(TOO_SLOW_TO_AUDIT, "terms.segment_steps", reason, remedy)
    able = sum(is_eligible(terms, kept, audit_ms, found.speed, found.rate) for found in validators)
    if able < LEAST_ELIGIBLE:
        reason = f"{able} of the validators could audit it, and {LEAST_ELIGIBLE} have to"
        raise Refusal(TOO_SLOW_TO_AUDIT, "terms", reason, "wait until the chain has more validators")
    return Auditable(audit_ms, window)


def handover_seconds(terms: JobTerms, params: OrderParams, window: int) -> int:
    """Return how long an order waits for its settlement after its last round is verified: the consumer fetches it."""
    fetch = ceil_div(HANDOVER_SLACK * terms.result_bytes, params.accept_rate)
    return max(window, fetch)


def least_deposit(terms: JobTerms, price_limit: int, params: Params, tiers: Sequence[str] = ()) -> int:
    """Return what an order has to lock (``uassay``), and never less than ``order_min``.

    All work at the price limit, and beside it the least audit fee of each round, in the dearest of the ``tiers`` that
    the order allows (none named: of all).
    """
    audits = terms.rounds * highest_floor(tiers, terms, price_limit, params.for_order())
    work = price_ceil(total_work(terms), price_limit)
    return max(params.of(MarketParams).order_min, work + audits)


def check_order(
    terms: JobTerms,
    conditions: Conditions,
    price_limit: int,
    deposit: int,
    time_to_live: int,
    params: Params,
    validators: Sequence[Promised],
) -> Auditable:
    """Check an order against the chain's parameters and auditors; Refusal names the field and what would do.

    All but the account's coins, and the proof of the order's key.
    """
    check_job(terms, conditions)
    auditable = check_auditable(terms, params, validators)
    ttl_max = params.of(MarketParams).ttl_max
    if time_to_live > ttl_max:
        reason = f"{time_to_live} s is longer than an order waits"
        raise Refusal(BAD_FIELD, "time_to_live", reason, f"at most {ttl_max} s")
    needed = least_deposit(terms, price_limit, params, conditions.tiers)
    if deposit < needed:
        reason = f"{deposit} is less than all work and audits at the price limit, or than the smallest order"
        raise Refusal(INSUFFICIENT_DEPOSIT, "deposit", reason, f"deposit at least {needed}")
    return auditable
