"""What a network makes of a job, as an example, and where it is the chain's own answer."""

from domain.amount import ceil_div
from domain.genesis import AUDIT_RATE, AUDIT_SPEED
from domain.params import Params, local_params
from pol.rules.outlook import outlook
from pol.rules.panels import compute_window, promised_ms
from pol.rules.schedule import round_work
from tests.unit.pol.rules.test_schedule import TERMS

# A share has 924 FLOPs, an aggregation 1,000.
PARAMS = Params().replace(accept_base=7, accept_rate=1, progress_base=11, round_window=800)


def test_a_job_as_an_example() -> None:
    """Three of four slots at once are two turns; twice 924 and 1,000 FLOPs are 285 s at 10 FLOP/s."""
    found = outlook(TERMS, PARAMS, 10, 3)
    assert (found.steps, found.segments) == (180, 12)
    assert (found.providers, found.turns) == (4, 2)
    assert (found.round, found.job) == (285, 3 * 285)
    assert found.accept == 7 + 2 + 219  # 2 bytes; twice a segment of 77 and an aggregation; a step of each slot
    assert found.progress == 11 + 3 * 285
    assert found.window == 800


def test_more_slots_than_the_job_has_are_of_no_use() -> None:
    assert outlook(TERMS, PARAMS, 10, 100) == outlook(TERMS, PARAMS, 10, 4)
    assert outlook(TERMS, PARAMS, 10, 4).turns == 1


def test_audits_are_what_the_chain_makes_of_promises() -> None:
    """The least promise of a genesis, unless the chain's own audit time is known."""
    params = PARAMS.replace(round_window=1)
    kept = params.for_order()
    found = outlook(TERMS, params, 10, 1)
    audit_ms = promised_ms(TERMS, kept, AUDIT_SPEED, AUDIT_RATE)
    assert (found.audit, found.window) == (
        ceil_div(audit_ms, 1_000),
        compute_window(kept, audit_ms),
    )
    slow = outlook(TERMS, params, 10, 1, 7_001)
    assert (slow.audit, slow.window) == (8, 141)
    nobody = outlook(TERMS, params.replace(auditors=0), 10, 1)
    assert (nobody.audit, nobody.window) == (0, 1)


def test_one_slot_at_once_takes_the_whole_work() -> None:
    params = local_params()
    assert outlook(TERMS, params, 1, 1).round == round_work(TERMS)
