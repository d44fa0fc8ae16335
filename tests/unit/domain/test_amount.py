"""Bounds and rounding of money and work."""

from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import amount

WORK = st.one_of(st.integers(0, 10**16), st.integers(0, amount.WORK_MAX))
PRICE = st.one_of(st.integers(0, 100), st.integers(0, amount.MONEY_MAX))


def test_money_fits_a_signed_64_bit_integer() -> None:
    assert amount.money(0) == 0
    assert amount.money(2**63 - 1) == 2**63 - 1
    for outside in (-1, 2**63):
        with pytest.raises(OverflowError, match="not an amount of money"):
            amount.money(outside)


def test_work_fits_an_unsigned_128_bit_integer() -> None:
    assert amount.work(0) == 0
    assert amount.work(2**128 - 1) == 2**128 - 1
    for outside in (-1, 2**128):
        with pytest.raises(OverflowError, match="not an amount of work"):
            amount.work(outside)


@settings(deadline=None)
@given(st.integers(0, 2**130), st.integers(1, 2**70))
def test_ceil_div(numerator: int, denominator: int) -> None:
    assert amount.ceil_div(numerator, denominator) == ceil(Fraction(numerator, denominator))


@settings(deadline=None)
@given(WORK, PRICE)
def test_prices_round_up_when_locked_and_down_when_paid(flops: int, price: int) -> None:
    exact = Fraction(flops * price, 10**15)
    assert amount.price_ceil(flops, price) == ceil(exact)
    assert amount.price_floor(flops, price) == floor(exact)


@settings(deadline=None)
@given(WORK, WORK, PRICE)
def test_parts_never_cost_more_than_was_locked_for_the_whole(one: int, two: int, price: int) -> None:
    paid = amount.price_floor(one, price) + amount.price_floor(two, price)
    assert paid <= amount.price_ceil(one + two, price)


def test_prices_at_the_edge_of_a_pflop() -> None:
    assert (amount.price_floor(10**15 - 1, 1), amount.price_ceil(10**15 - 1, 1)) == (0, 1)
    assert (amount.price_floor(10**15, 1), amount.price_ceil(10**15, 1)) == (1, 1)
    assert (amount.price_floor(10**15 + 1, 1), amount.price_ceil(10**15 + 1, 1)) == (1, 2)
    assert (amount.price_floor(1, 0), amount.price_ceil(0, 5)) == (0, 0)


@settings(deadline=None)
@given(PRICE, st.integers(0, 10_000))
def test_basis_points_round_down(value: int, bps: int) -> None:
    assert amount.bps_floor(value, bps) == floor(Fraction(value * bps, 10_000))
    assert amount.bps_floor(value, 10_000) == value


@given(st.integers(0, amount.MONEY_MAX))
def test_assay_are_written_to_the_last_uassay(value: int) -> None:
    text = amount.in_assay(value).removesuffix("ASSAY")
    assert Fraction(text) * amount.ASSAY == value
    assert not text.endswith(("0", ".")) or "." not in text
