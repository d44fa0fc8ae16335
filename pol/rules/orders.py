"""What an order must be: one check for the chain, and for a consumer who asks before anything is signed."""

from domain.amount import ceil_div, price_ceil
from domain.errors import (
    BAD_FIELD,
    INSUFFICIENT_DEPOSIT,
    TOO_SLOW_TO_AUDIT,
    UNSUPPORTED,
    Refusal,
)
from domain.limits import EXECUTOR_VERSION, TIERS
from domain.params import OrderParams, Params
from domain.records import Conditions, JobTerms
from pol.rules.schedule import boundary_work, check_terms, segment_work, total_work

HANDOVER_SLACK = 4
"""How often fetching a result may take what it takes at ``accept_rate``."""


def check_job(terms: JobTerms, conditions: Conditions) -> None:
    """Check that chains of this version run such a job; Refusal names the field."""
    check_terms(terms)
    if terms.executor_version != EXECUTOR_VERSION:
        reason = f"{terms.executor_version} is not run here"
        remedy = f"build the job for version {EXECUTOR_VERSION}"
        raise Refusal(UNSUPPORTED, "terms.executor_version", reason, remedy)
    if conditions.tier not in ("", *TIERS):
        reason, remedy = f"{conditions.tier!r} is not run here", f"one of {TIERS}, or empty for any"
        raise Refusal(UNSUPPORTED, "conditions.tier", reason, remedy)


def check_auditable(terms: JobTerms, params: Params) -> None:
    """Check that the slowest auditor can replay any place in time: a segment, or the aggregation of all slots."""
    most = params.for_order().place_work_max
    reason = f"has more than {most} FLOPs, what an auditor can replay"
    if segment_work(terms) > most:
        steps = max(0, most - boundary_work(terms)) // terms.step_work
        remedy = f"at most {steps} steps a segment" if steps else "use a smaller model or batch"
        raise Refusal(TOO_SLOW_TO_AUDIT, "terms.segment_steps", f"a segment {reason}", remedy)
    if terms.outer_work > most:
        raise Refusal(TOO_SLOW_TO_AUDIT, "terms.outer_work", reason, "use fewer slots")


def handover_seconds(terms: JobTerms, params: OrderParams) -> int:
    """Return how long an order waits for its settlement after its last round is verified: the consumer fetches it."""
    fetch = ceil_div(HANDOVER_SLACK * terms.result_bytes, params.accept_rate)
    return max(params.round_window, fetch)


def least_deposit(terms: JobTerms, price_limit: int, params: Params) -> int:
    """Return what an order has to lock (``uassay``): all work at the price limit, and never less than ``order_min``."""
    return max(params.order_min, price_ceil(total_work(terms), price_limit))


def check_order(
    terms: JobTerms,
    conditions: Conditions,
    price_limit: int,
    deposit: int,
    time_to_live: int,
    params: Params,
) -> None:
    """Check an order against the chain's parameters; Refusal names the field and what would do.

    All but the account's coins, and the proof of the order's key.
    """
    check_job(terms, conditions)
    check_auditable(terms, params)
    if time_to_live > params.ttl_max:
        reason = f"{time_to_live} s is longer than an order waits"
        raise Refusal(BAD_FIELD, "time_to_live", reason, f"at most {params.ttl_max} s")
    needed = least_deposit(terms, price_limit, params)
    if deposit < needed:
        reason = f"{deposit} is less than all work at the price limit, or than the smallest order"
        raise Refusal(INSUFFICIENT_DEPOSIT, "deposit", reason, f"deposit at least {needed}")
