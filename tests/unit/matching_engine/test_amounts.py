"""The sorted list in blocks against a plain sorted list."""

from array import array
from bisect import bisect_left
from random import Random

from matching_engine.amounts import Amounts
from tests.support.small_book import small_bounds


def test_it_counts_as_a_sorted_list_does() -> None:
    with small_bounds():
        for number in range(100):
            random = Random(number)
            plain = sorted(random.randint(0, 9) for _ in range(random.randint(0, 30)))
            amounts = Amounts(random.sample(plain, len(plain)))
            for _ in range(60):
                if plain and random.random() < 0.5:
                    amount = random.choice(plain)
                    plain.remove(amount)
                    amounts.remove(amount)
                else:
                    amount = random.randint(-1, 10)
                    plain = sorted([*plain, amount])
                    amounts.add(amount)
                asked = random.randint(-3, 12)
                assert amounts.below(asked) == bisect_left(plain, asked)
                assert bool(amounts) == bool(plain)


def test_a_block_stays_short_whatever_comes() -> None:
    amounts = Amounts()
    for number in range(10_000):
        amounts.add(number % 7)
    assert max(map(len, amounts._blocks)) < 2_048
    assert amounts.below(3) == 4_287


def test_amounts_of_more_than_64_bits_lie_beside_others() -> None:
    edge = 1 << 63
    marks = [-edge - 1, -edge, -edge + 1, -1, 0, 1, edge - 1, edge, 1 << 512]
    with small_bounds():
        for number in range(100):
            random = Random(number)
            plain = sorted(random.choices(marks, k=random.randint(0, 20)))
            amounts = Amounts(plain)
            for _ in range(40):
                if plain and random.random() < 0.5:
                    amount = plain.pop(random.randrange(len(plain)))
                    amounts.remove(amount)
                else:
                    amount = random.choice(marks)
                    plain = sorted([*plain, amount])
                    amounts.add(amount)
                for asked in marks:
                    assert amounts.below(asked) == bisect_left(plain, asked)


def test_amounts_of_64_bits_take_8_bytes() -> None:
    amounts = Amounts([-(1 << 63), (1 << 63) - 1])
    amounts.add(0)
    (block,) = amounts._blocks
    assert isinstance(block, array)
    assert block.itemsize == 8
