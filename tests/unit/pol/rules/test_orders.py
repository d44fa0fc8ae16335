"""The remedies of an order that auditors could not keep up with, which clients compute."""

import pytest

from domain.errors import BAD_FIELD, TOO_SLOW_TO_AUDIT, Refusal
from domain.market.records import JobTerms
from domain.params import local_params
from pol.rules.orders import check_auditable, name_largest_segment
from pol.rules.panels import Promised
from tests.support.chain_market import make_terms

VALIDATORS = [Promised(name, 10**10, 10**10, 10**9) for name in ("v0", "v1", "v2", "v3")]


@pytest.mark.parametrize(
    ("terms", "remedy"),
    [
        # A window of 600 s leaves 30 s for an audit.
        (make_terms(step_work=10**11), "use at most 1 steps per segment"),
        (make_terms(round_steps=3_000, segment_steps=1_500, step_work=10**9), "use at most 149 steps per segment"),
        (make_terms(step_work=10**12), "use a smaller model or batch, fewer slots, or less data"),
        (make_terms(data_bytes=31 * 10**9), "use a smaller model or batch, fewer slots, or less data"),
        (make_terms(outer_work=301 * 10**9), "use a smaller model or batch, fewer slots, or less data"),
    ],
)
def test_a_client_names_the_largest_segment(terms: JobTerms, remedy: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_auditable(terms, local_params(), VALIDATORS)
    refusal = name_largest_segment(caught.value, terms, local_params(), VALIDATORS)
    assert (refusal.code, refusal.reason, refusal.remedy) == (TOO_SLOW_TO_AUDIT, caught.value.reason, remedy)


def test_other_refusals_keep_their_remedy() -> None:
    refusal = Refusal(BAD_FIELD, "time_to_live", "too long", "use less")
    assert name_largest_segment(refusal, make_terms(), local_params(), VALIDATORS) is refusal
