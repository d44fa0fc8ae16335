"""The inflation and the coins of a block against the formula of the Cosmos SDK with fractions, which never rounds."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from chain.state_machine.mint.minting import compute_inflation, compute_minted
from domain.amount import MONEY_MAX
from domain.mint.params import MintParams
from domain.mint.records import YEAR
from domain.staking.records import ONE

RATES = st.integers(0, ONE)
STEPS = st.integers(0, 86_400)


@st.composite
def bounds(draw: st.DrawFn) -> MintParams:
    least, most = sorted((draw(RATES), draw(RATES)))
    return MintParams(
        inflation_rate_change=draw(RATES),
        inflation_max=most,
        inflation_min=least,
        goal_bonded=draw(st.integers(ONE // 100, ONE)),
    )


@given(params=bounds(), inflation=RATES, supply=st.integers(1, MONEY_MAX), part=RATES, seconds=STEPS)
def test_the_inflation_is_that_of_the_formula(
    params: MintParams, inflation: int, supply: int, part: int, seconds: int
) -> None:
    bonded = supply * part // ONE
    found = compute_inflation(inflation, params, bonded=bonded, supply=supply, seconds=seconds)
    ratio = Fraction(bonded, supply) / Fraction(params.goal_bonded, ONE)
    change = (1 - ratio) * Fraction(params.inflation_rate_change, ONE) * Fraction(seconds, YEAR)
    low, high = Fraction(params.inflation_min, ONE), Fraction(params.inflation_max, ONE)
    exact = max(low, min(high, Fraction(inflation, ONE) + change))
    assert 0 <= exact - Fraction(found, ONE) < Fraction(1, ONE)
    assert params.inflation_min <= found <= params.inflation_max


@given(inflation=RATES, supply=st.integers(0, MONEY_MAX), seconds=STEPS)
def test_the_coins_are_those_of_the_rate_and_never_more(inflation: int, supply: int, seconds: int) -> None:
    found = compute_minted(inflation * supply, seconds)
    exact = Fraction(inflation, ONE) * supply * Fraction(seconds, YEAR)
    assert 0 <= exact - found < 1


@given(inflation=RATES, supply=st.integers(0, MONEY_MAX), parts=st.lists(st.integers(0, 60), max_size=20))
def test_many_short_steps_mint_no_more_than_a_long_one(inflation: int, supply: int, parts: list[int]) -> None:
    steps = sum(compute_minted(inflation * supply, seconds) for seconds in parts)
    whole = compute_minted(inflation * supply, sum(parts))
    assert steps <= whole <= steps + len(parts)
