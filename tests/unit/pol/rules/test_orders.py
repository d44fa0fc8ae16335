"""The remedies of an order that auditors could not keep up with, which clients compute."""

import pytest

from domain.errors import BAD_FIELD, TOO_SLOW_TO_AUDIT, Refusal
from domain.market.records import Conditions, JobTerms
from domain.params import Params, local_params
from pol.rules.orders import check_auditable, check_order, name_largest_segment
from pol.rules.panels import Promised
from pol.rules.schedule import check_terms
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


GIB = 2**30
HEADER = 2**20 + 4


def large(**sizes: int) -> JobTerms:
    """Terms with these sizes, whose work and fetching are small enough for an audit."""
    return make_terms(step_work=1, segment_steps=1, round_steps=1, **sizes)


def checked(terms: JobTerms, params: Params) -> object:
    fast = [Promised(name, 10**14, 10**14, 10**14) for name in ("v0", "v1", "v2", "v3")]
    return check_order(terms, Conditions(), 1, 10**18, 1, params, fast)


@pytest.mark.parametrize("name", ["global_bytes", "local_bytes"])
def test_the_chain_bounds_the_size_of_a_state(name: str) -> None:
    """By a parameter: 64 GiB of tensors, and the header."""
    for most, params in (
        (64 * GIB + HEADER, Params().replace(order_min=0)),
        (1_000, Params().replace(order_min=0, state_max=1_000)),
    ):
        sizes = {"global_bytes": 900, "local_bytes": 900, "update_bytes": 100}
        checked(large(**{**sizes, name: most}), params)
        with pytest.raises(Refusal) as caught:
            checked(large(**{**sizes, name: most + 1}), params)
        assert (caught.value.code, caught.value.field) == (BAD_FIELD, f"terms.{name}")
        assert f"at most {most} bytes" in caught.value.remedy


def test_the_states_of_all_slots_at_the_bound_have_a_result() -> None:
    """A leaf per chunk of 64 KiB, for 1,024 slots."""
    chunks = 64 * GIB // 65_536 + 1
    check_terms(make_terms(slots=1_024, global_chunks=chunks, local_chunks=chunks))
