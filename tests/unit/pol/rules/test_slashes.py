"""The amount of a slash, the places of a vote that the slash can pay, and the faults that lead to the jail."""

from domain.order_params import OrderParams
from domain.params import local_params
from pol.rules.slashes import choose_places, compute_slash, is_jailed, recent_faults


def params(**changes: int) -> OrderParams:
    return local_params().replace(**changes).for_order()


def test_a_slash_is_a_part_of_the_stake_and_at_most_the_price_of_the_leg() -> None:
    asked = params(slash_bps=100)
    assert compute_slash(asked, 1_000_099, 10**9, 0) == 10_000
    assert compute_slash(asked, 10**9, 4_000, 0) == 4_000
    assert compute_slash(asked, 10**9, 4_000, 3_000) == 1_000
    assert compute_slash(asked, 10**9, 4_000, 5_000) == 0
    assert compute_slash(params(slash_bps=0), 10**9, 4_000, 0) == 0


def test_a_vote_has_the_places_that_the_slash_can_pay() -> None:
    asked = params(answer_fee=10)
    places = ((0, 100), (2, 500), (3, 90))
    assert choose_places(places, asked, 10, 7_000) == (0, 2, 3)
    assert choose_places(places, asked, 10, 6_999) == (0, 2)
    assert choose_places(places, asked, 10, 2_000) == (0, 3)
    assert choose_places(places, asked, 10, 1_099) == (3,)
    assert choose_places(places, asked, 10, 999) == ()
    assert choose_places((), asked, 10, 10**9) == ()


def test_three_recent_faults_lead_to_the_jail_if_four_others_are_left() -> None:
    faults = recent_faults((10, 50), 110, 100)
    assert faults == (50, 110)
    assert not is_jailed(faults, 9)
    assert recent_faults((10, 50), 109, 100) == (10, 50, 109)
    assert is_jailed((10, 50, 109), 4)
    assert not is_jailed((10, 50, 109), 3)
