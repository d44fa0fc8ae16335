"""The tier ``sampled``: the arithmetic of its chance, of its bonds and of its wait."""

from hypothesis import given
from hypothesis import strategies as st

from domain.amount import BPS
from domain.limits import SHARE_BOND_MAX
from domain.market.records import ChallengeTerms
from domain.order_params import OrderParams
from domain.params import Params
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.sampled import MARGIN, SAMPLED, least_rate
from pol.rules.tiers.table import longest_wait
from tests.support.chain_market import PRICE, make_terms

COINS = st.integers(0, 10**15)


@given(price=COINS, bond=COINS, least=st.integers(400, BPS))
def test_a_bad_round_that_hopes_for_no_panel_loses_on_average(price: int, bond: int, least: int) -> None:
    """Without a panel it gains at most its price; with one it loses the price and the bond."""
    rate = least_rate(price, bond, least)
    assert least <= rate <= BPS
    assert (BPS - rate) * price <= rate * bond
    assert rate == BPS or rate * (bond + price) >= MARGIN * price


@given(price=st.integers(1, 10**15), bond=COINS, least=st.integers(400, BPS))
def test_no_lower_chance_would_do(price: int, bond: int, least: int) -> None:
    rate = least_rate(price, bond, least)
    assert rate == least or (rate - 1) * (bond + price) < MARGIN * price


def test_a_round_whose_bond_is_used_up_is_always_drawn() -> None:
    assert least_rate(10**6, 0, 400) == BPS
    assert least_rate(0, 0, 400) == BPS


@given(bond=st.integers(0, 10**9), least=st.integers(400, BPS), earned=st.integers(0, BPS))
def test_a_wrong_share_risks_as_much_as_in_exact(bond: int, least: int, earned: int) -> None:
    """A provider that is found loses what the share earns, at most its price, and its bond."""
    rules = order_params(audit_rate_min=least)
    rate = SAMPLED.rate(make_terms(), PRICE, bond, rules)
    multiple = SAMPLED.least_multiple(make_terms(), PRICE, bond, rules)
    assert 1 <= multiple <= SHARE_BOND_MAX
    assert rate * (earned + multiple * BPS) >= BPS * (earned + BPS)


def order_params(**changes: int) -> OrderParams:
    return Params().replace(**changes).for_order()


def test_rounds_wait_at_least_a_day_for_anyone_and_longer_if_the_order_says_so() -> None:
    asked = ChallengeTerms(addresses=("someone",), wait=100)
    open_terms = SAMPLED.challenges(asked, order_params())
    assert open_terms == ChallengeTerms(anyone=True, addresses=("someone",), wait=86_400)
    assert SAMPLED.challenges(ChallengeTerms(wait=100_000), order_params()).wait == 100_000
    assert EXACT.challenges(asked, order_params()) == asked


def test_the_deadline_of_an_order_leaves_room_for_its_slowest_tier() -> None:
    params, asked = order_params(challenge_wait_min=50), ChallengeTerms(wait=7)
    assert longest_wait(("exact",), asked, params) == 7
    assert longest_wait(("exact", "sampled"), asked, params) == longest_wait((), asked, params) == 50
