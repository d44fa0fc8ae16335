"""The check of an order. The chain applies it, and a consumer applies it before it signs anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from domain.amount import BPS, ceil_div, price_ceil
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
from pol.rules.replicas import check_replicas
from pol.rules.schedule import check_terms, total_work
from pol.rules.tiers.table import check_names, highest_floor

TOO_SLOW_FIELD = "terms.segment_steps"
"""The field that a refusal names if the order's window would be too long."""

HANDOVER_SLACK = 4
"""Longest time for fetching a result, as a multiple of the time that it takes at ``accept_rate``."""


def check_job(terms: JobTerms, conditions: Conditions) -> None:
    """Check that chains of this version can run a job with these terms and conditions. Refusal names the field."""
    check_terms(terms)
    if terms.executor_version != EXECUTOR_VERSION:
        reason = f"this chain does not run executor version {terms.executor_version}"
        remedy = f"build the job for version {EXECUTOR_VERSION}"
        raise Refusal(UNSUPPORTED, "terms.executor_version", reason, remedy)
    check_names(conditions.tiers, "conditions.tiers")


@dataclass(frozen=True, slots=True)
class Auditable:
    """The audit time of an order in milliseconds, its window in seconds, and the operators that may audit it."""

    audit_ms: int
    window: int
    auditors: tuple[str, ...] = ()


def check_auditable(terms: JobTerms, params: Params, validators: Sequence[Promised], winners: int = 1) -> Auditable:
    """Check that auditors can audit the order in time, and return its audit time and window.

    ``validators`` are the validators of the set, with the speeds that they promise as auditors. ``winners`` is the
    number of validators that will serve the order, and so cannot audit it. Raise Refusal if the
    window would be too long, or if too few validators could audit the order. This function runs in blocks, so it must
    not spend time on the search for a remedy. Clients search for the remedy (:func:`name_largest_segment`).
    """
    order_params = params.for_order()
    audit_ms = compute_audit_ms(terms, order_params, validators)
    window = compute_window(order_params, audit_ms)
    if not order_params.auditors:
        return Auditable(audit_ms, window)
    if window > order_params.window_max:
        reason = f"auditors need a window of {window} s, but the longest is {order_params.window_max} s"
        remedy = "use fewer steps per segment; `assay quote` names the largest number"
        raise Refusal(TOO_SLOW_TO_AUDIT, TOO_SLOW_FIELD, reason, remedy)
    eligible = [each for each in validators if is_eligible(terms, order_params, audit_ms, each.speed, each.rate)]
    # The validators that win the order cannot audit it.
    needed = order_params.auditors + winners
    if len(eligible) < needed:
        reason = f"{len(eligible)} of the validators could audit the order, but {needed} are needed"
        raise Refusal(TOO_SLOW_TO_AUDIT, "terms", reason, "wait until the chain has more validators")
    return Auditable(audit_ms, window, tuple(each.operator for each in eligible))


def name_largest_segment(refusal: Refusal, terms: JobTerms, params: Params, validators: Sequence[Promised]) -> Refusal:
    """Replace the remedy of a refusal whose reason is a too long window: name the largest possible number of steps per
    segment. Return any other refusal unchanged.

    Only clients call this function, because it computes the audit time about 30 times.
    """
    if (refusal.code, refusal.field) != (TOO_SLOW_TO_AUDIT, TOO_SLOW_FIELD):
        return refusal
    steps = largest_segment(terms, params.for_order(), validators)
    remedy = "use a smaller model or batch, fewer slots, or less data"
    if steps:
        remedy = f"use at most {steps} steps per segment"
    return Refusal(refusal.code, refusal.field, refusal.reason, remedy)


def handover_seconds(terms: JobTerms, params: OrderParams, window: int) -> int:
    """Return the time (seconds) between the verification of the last round and settlement, in which the consumer
    fetches the result.
    """
    fetch = ceil_div(HANDOVER_SLACK * terms.result_bytes, params.accept_rate)
    return max(window, fetch)


def is_blamed_enough(blaming: Sequence[str], stakes: Mapping[str, int], params: OrderParams) -> bool:
    """Return whether enough validators have declined the order and blamed its job, so that the order closes.

    ``blaming`` are these validators. ``stakes`` are the stakes of the validators in the set. At least ``max_attempts``
    validators must blame the job. Together they must hold at least ``decline_stake_bps`` of the stake. A few validators
    with little stake therefore cannot close the orders of a consumer.
    """
    stake = sum(stakes.get(validator, 0) for validator in blaming)
    enough = stake * BPS >= params.decline_stake_bps * sum(stakes.values())
    return len(blaming) >= params.max_attempts and enough


def least_deposit(terms: JobTerms, price_limit: int, params: Params, tiers: Sequence[str] = ()) -> int:
    """Return the least deposit that an order needs (``uassay``). It is at least ``order_min``.

    The deposit must pay for all work at the price limit, and for the least audit fee of each round in the most
    expensive of ``tiers``. If ``tiers`` is empty, those count in which a bid may serve an order that names none.
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
    replicas: int = 0,
) -> Auditable:
    """Check an order against the chain's parameters and auditors; Refusal names the field and an accepted value.

    The coins of the account and the proof of the order's key are not checked here.
    """
    check_job(terms, conditions)
    check_replicas(conditions.tiers, replicas, terms, params.for_order())
    _check_states(terms, params.of(MarketParams).state_max)
    auditable = check_auditable(terms, params, validators, max(1, replicas))
    ttl_max = params.of(MarketParams).ttl_max
    if time_to_live > ttl_max:
        reason = f"{time_to_live} s is longer than an order may wait for a match"
        raise Refusal(BAD_FIELD, "time_to_live", reason, f"use at most {ttl_max} s")
    needed = least_deposit(terms, price_limit, params, conditions.tiers)
    if deposit < needed:
        reason = f"{deposit} does not cover all work and audits at the price limit, or is less than order_min"
        raise Refusal(INSUFFICIENT_DEPOSIT, "deposit", reason, f"deposit at least {needed}")
    return auditable


def _check_states(terms: JobTerms, state_max: int) -> None:
    for field, size in (("global_bytes", terms.global_bytes), ("local_bytes", terms.local_bytes)):
        if size > state_max:
            reason = f"a state of {size} bytes is larger than this chain allows"
            raise Refusal(
                BAD_FIELD, f"terms.{field}", reason, f"use a model whose states have at most {state_max} bytes"
            )
