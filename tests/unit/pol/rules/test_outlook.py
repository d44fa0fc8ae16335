"""What a network makes of a job, as an example, and where it is the chain's own answer."""

from dataclasses import replace

import pytest

from domain.errors import Refusal
from domain.params import Params, local_params
from pol.rules.orders import check_auditable
from pol.rules.outlook import outlook
from pol.rules.schedule import round_work
from tests.unit.pol.rules.test_schedule import TERMS

# A share has 924 FLOPs, an aggregation 1,000.
PARAMS = replace(
    Params(), accept_base=7, accept_rate=1, progress_base=11, reference_speed=10, round_window=800
)


def test_a_job_as_an_example() -> None:
    """Three of four slots at once are two turns; twice 924 and 1,000 FLOPs are 285 s at 10 FLOP/s."""
    found = outlook(TERMS, PARAMS, 10, 3)
    assert (found.steps, found.segments) == (180, 12)
    assert (found.providers, found.turns) == (4, 2)
    assert (found.round, found.job) == (285, 3 * 285)
    assert found.accept == 7 + 2 + 216  # 2 bytes, and twice a segment of 77 and an aggregation
    assert found.progress == 11 + 3 * 285
    assert (found.audit, found.audit_max) == (100, 100)


def test_more_slots_than_the_job_has_are_of_no_use() -> None:
    assert outlook(TERMS, PARAMS, 10, 100) == outlook(TERMS, PARAMS, 10, 4)
    assert outlook(TERMS, PARAMS, 10, 4).turns == 1


@pytest.mark.parametrize("more", [0, 1])
def test_what_is_too_much_for_an_auditor_is_what_the_chain_refuses(more: int) -> None:
    terms = replace(TERMS, outer_work=1_000 + more * 10)
    found = outlook(terms, PARAMS, 10, 1)
    assert (found.audit > found.audit_max) == bool(more)
    if more:
        with pytest.raises(Refusal):
            check_auditable(terms, PARAMS)
    else:
        check_auditable(terms, PARAMS)


def test_one_slot_at_once_takes_the_whole_work() -> None:
    params = local_params()
    assert outlook(TERMS, params, 1, 1).round == round_work(TERMS)
