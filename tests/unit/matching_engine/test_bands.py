"""Sets of slots: what they say passes is what each bid says, but for those in doubt."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from matching_engine.bands import BAND, STRIPES, Bands, Doubts, SharedValues, Slots, Stripes, slots_of
from tests.support.small_book import small_bounds

Test = Callable[[Any, Any], bool]


@pytest.fixture
def small() -> Iterator[None]:
    with small_bounds():
        yield


def amounts(random: Random) -> int:
    return random.choice((random.randint(-3, 30), 7, 7, 7, 1 << 512))


def at_least(value: int, want: int) -> bool:
    return value >= want


def groups(random: Random) -> tuple[int, int]:
    return random.randint(1, 6), random.randint(0, 12)


def least_for(value: tuple[int, int], want: int) -> bool:
    return value[1] >= want // value[0]


KINDS: list[tuple[Any, Any, Test]] = [
    (Bands, amounts, at_least),
    (Stripes, groups, least_for),
    (
        lambda pairs, _: SharedValues(pairs, lambda want: [value for value in range(40) if value % want]),
        lambda random: random.randint(0, 9),
        lambda value, want: value % want != 0,
    ),
    (
        lambda pairs, _: Doubts(pairs),
        lambda random: random.randint(0, 9),
        lambda value, want: value != want,
    ),
]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("make", "draw", "passes"), KINDS)
def test_only_bids_in_doubt_may_differ_from_what_they_say(make: Any, draw: Any, passes: Test) -> None:
    for number in range(150):
        random = Random(number)
        values = {slot: draw(random) for slot in range(random.randint(0, 20))}
        found: Slots = make([(value, slot) for slot, value in values.items()], values.__getitem__)
        for _ in range(60):
            slot = random.randint(0, 30)
            if slot in values:
                found.toggle(values.pop(slot), slot, there=False)
            else:
                values[slot] = draw(random)
                found.toggle(values[slot], slot, there=True)
            if random.random() < 0.1:
                kept = sum(1 << slot for slot in values if random.random() < 0.7)
                values = {slot: values[slot] for slot in slots_of(kept)}
                found = found.part(kept, values.__getitem__)
            want = random.randint(1, 15)
            asked = (lambda group, want=want: want // group) if make is Stripes else want
            passing, doubt = found.passing(asked)
            assert not doubt & ~passing
            for slot, value in values.items():
                sure = not doubt >> slot & 1
                assert not sure or bool(passing >> slot & 1) == passes(value, want)
                assert passing >> slot & 1 or not passes(value, want)
            assert passing >> 31 == 0


def make_bands(values: dict[int, int]) -> Bands:
    return Bands([(value, slot) for slot, value in values.items()], values.__getitem__)


def test_an_amount_that_many_have_leaves_no_doubt() -> None:
    """A thousand bids have 80; some attacker's have a little less, and come after the bands were cut."""
    values = {slot: 40 + 40 * (slot % 2) for slot in range(2_000)}
    bands = make_bands(values)
    for slot in range(2_000, 4_000):
        values[slot] = 79 - slot % 30
        bands.toggle(values[slot], slot, there=True)
    passing, doubt = bands.passing(80)
    assert passing.bit_count() == 1_000
    assert doubt == 0


def test_a_band_with_different_amounts_stays_small() -> None:
    values = dict(enumerate(range(0, 100_000, 100)))
    bands = make_bands(values)
    for slot in range(1_000, 8_000):
        values[slot] = 50_000 + slot  # all into one band
        bands.toggle(values[slot], slot, there=True)
    for want in range(49_000, 60_000, 77):
        passing, doubt = bands.passing(want)
        assert doubt.bit_count() <= 2 * BAND
        exact = {slot for slot, value in values.items() if value >= want}
        assert exact <= {*slots_of(passing)} <= exact | {*slots_of(doubt)}


def test_as_many_groups_as_bids_are_a_few_stripes() -> None:
    values = {slot: (slot + 1, slot % 9) for slot in range(500)}
    stripes = Stripes([(value, slot) for slot, value in values.items()], values.__getitem__)
    for slot in range(500, 1_024):
        values[slot] = slot + 1, slot % 9
        stripes.toggle(values[slot], slot, there=True)
    assert len(stripes._groups) <= STRIPES
    asked: list[int] = []

    def least(group: int) -> int:
        asked.append(group)
        return 4

    stripes.passing(least)
    assert len(asked) <= STRIPES
