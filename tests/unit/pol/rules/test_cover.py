"""Rounds ahead that bonds and cover pay."""

from dataclasses import replace

from domain.amount import price_ceil
from escrow.settle import compute_income
from pol.rules.cover import count_covered, count_paid, is_covered
from pol.rules.schedule import share_work
from tests.unit.compute_provider.support import order

FOUND = order().order
LEG = replace(order().legs[0], rounds=9)
ROUND = LEG.slots * price_ceil(share_work(FOUND.terms), LEG.price)


def test_a_provider_bears_the_risk_of_one_round() -> None:
    assert is_covered(FOUND, LEG, 1, 0, 0)
    assert not is_covered(FOUND, LEG, 1, 0, 1)
    assert count_covered(FOUND, LEG, 1, 0) == 0


def test_the_cover_pays_the_rounds_ahead_and_the_one_that_is_trained() -> None:
    leg = replace(LEG, job_bond=3 * ROUND)
    assert is_covered(FOUND, leg, 1, 10_000, 2)
    assert not is_covered(FOUND, leg, 1, 1_000, 2)
    counts = [count_covered(FOUND, leg, 1, cover) for cover in (0, 1_000, 5_000, 10_000)]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] >= 2


def test_half_of_a_large_share_bond_pays_as_well() -> None:
    assert count_covered(FOUND, LEG, 64, 0) >= count_covered(FOUND, LEG, 1, 0)


def test_a_quote_counts_what_a_whole_job_bond_pays() -> None:
    params = FOUND.params
    pay = LEG.slots * compute_income(
        share_work(FOUND.terms),
        LEG.price,
        protocol_bps=params.protocol_bps,
        audit_bps=params.audit_bps,
        providers_bps=8_000,
    )
    terms = replace(FOUND.terms, rounds=30, slots=LEG.slots)
    assert [count_paid(terms, params, bond, LEG.price, 8_000) for bond in (0, pay, 2 * pay, 3 * pay - 1)] == [
        0,
        0,
        1,
        1,
    ]
    assert count_paid(terms, params, 10**6 * pay, LEG.price, 8_000) == min(params.rounds_ahead, 29)
