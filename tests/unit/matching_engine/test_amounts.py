"""The sorted list in blocks against a plain sorted list."""

from bisect import bisect_left
from random import Random

import pytest

from matching_engine.amounts import Amounts
from tests.support.small_book import small_bounds


@pytest.mark.parametrize("unit", [1, 1 << 60, 1 << 512])
def test_it_counts_as_a_sorted_list_does(unit: int) -> None:
    """With amounts that fit 63 bits, with some that do not, and with hardly any that do."""
    with small_bounds():
        for number in range(100):
            random = Random(number)
            plain = sorted(random.randint(0, 9) * unit for _ in range(random.randint(0, 30)))
            amounts = Amounts(random.sample(plain, len(plain)))
            for _ in range(60):
                if plain and random.random() < 0.5:
                    amount = random.choice(plain)
                    plain.remove(amount)
                    amounts.remove(amount)
                else:
                    amount = random.randint(-10, 10) * unit
                    plain = sorted([*plain, amount])
                    amounts.add(amount)
                asked = random.randint(-12, 12) * unit + random.randint(-1, 1)
                assert amounts.below(asked) == bisect_left(plain, asked)
                assert bool(amounts) == bool(plain)


def test_a_block_stays_short_whatever_comes() -> None:
    amounts = Amounts()
    for number in range(10_000):
        amounts.add(number % 7)
    assert max(map(len, amounts._blocks)) < 2_048
    assert amounts.below(3) == 4_287
