"""Draws are exact, uniform, without replacement, and the same everywhere."""

import json
from collections import Counter
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.hashing import hash_fields, u32
from pol.rules import lots

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "lots" / "draws.json").read_text(encoding="utf-8"))
SEED = sha256(b"seed").digest()


def seeds(count: int) -> list[bytes]:
    return [sha256(b"case %d" % i).digest() for i in range(count)]


def chi_square(counts: list[int]) -> float:
    """Return the chi-square statistic of counts that should be equal."""
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 / expected for count in counts)


@pytest.mark.parametrize("case", VECTORS["seed"])
def test_seed_vectors(case: dict[str, str]) -> None:
    lot_id, beacon = bytes.fromhex(case["id"]), bytes.fromhex(case["beacon"])
    assert lots.seed(case["purpose"], lot_id, beacon).hex() == case["result"]


@pytest.mark.parametrize("case", VECTORS["draw"])
def test_draw_vectors(case: dict[str, int | str | list[int]]) -> None:
    seed, population, count = bytes.fromhex(str(case["seed"])), case["population"], case["count"]
    assert isinstance(population, int)
    assert isinstance(count, int)
    assert list(lots.draw(seed, population, count)) == case["result"]


@pytest.mark.parametrize("case", VECTORS["draw_weighted"])
def test_draw_weighted_vectors(case: dict[str, int | str | list[str] | list[int]]) -> None:
    weights, count = case["weights"], case["count"]
    assert isinstance(weights, list)
    assert isinstance(count, int)
    drawn = lots.draw_weighted(bytes.fromhex(str(case["seed"])), [int(w) for w in weights], count)
    assert list(drawn) == case["result"]


def test_a_seed_binds_purpose_id_and_beacon() -> None:
    a, b = sha256(b"a").digest(), sha256(b"b").digest()
    results = {
        lots.seed("share", b"id", a),
        lots.seed("round", b"id", a),
        lots.seed("share", b"other", a),
        lots.seed("share", b"id", b),
    }
    assert len(results) == 4


def test_a_number_is_the_first_of_the_stream_below_the_bound() -> None:
    """Spelled out for one byte at a time: 5 needs 3 bits, so 5, 6 and 7 are skipped."""
    skipped = 0
    for seed in seeds(200):
        stream = hash_fields("assay/lot/stream", seed, bytes(8))
        numbers = [byte & 7 for byte in stream]
        first = next(number for number in numbers if number < 5)
        skipped += numbers[0] >= 5
        assert lots.draw(seed, 5, 1) == (first,)
    assert skipped > 40  # 3 of 8 in expectation: the rejection did happen


def test_a_number_over_a_byte_border_reads_two_bytes() -> None:
    for seed in seeds(50):
        stream = hash_fields("assay/lot/stream", seed, bytes(8))
        words = [int.from_bytes(stream[i : i + 2], "big") & 511 for i in range(0, 32, 2)]
        assert lots.draw(seed, 257, 1) == (next(word for word in words if word < 257),)


@pytest.mark.parametrize("population", [2, 3, 5, 7, 8, 9, 16, 17])
def test_each_number_is_equally_likely(population: int) -> None:
    """A remainder would prefer small numbers, a wrong mask would never reach the last."""
    counts = Counter(lots.draw(seed, population, 1)[0] for seed in seeds(2_000))
    frequencies = [counts[number] for number in range(population)]
    assert chi_square(frequencies) < 50  # p < 1e-4 for 16 degrees of freedom; the seeds are fixed


def test_each_set_is_equally_likely() -> None:
    counts = Counter(lots.draw(seed, 5, 2) for seed in seeds(3_000))
    assert chi_square([counts[pair] for pair in combinations(range(5), 2)]) < 34
    assert sum(counts.values()) == 3_000


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32), st.integers(0, 300), st.integers(0, 320))
def test_draw_is_a_sorted_set_of_the_population(seed: bytes, population: int, count: int) -> None:
    drawn = lots.draw(seed, population, count)
    assert len(drawn) == min(population, count)
    assert list(drawn) == sorted(set(drawn))
    assert all(0 <= number < population for number in drawn)
    assert drawn == lots.draw(seed, population, count)


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32), st.integers(2, 300), st.data())
def test_a_larger_draw_contains_the_smaller(seed: bytes, population: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, population - 1))
    assert set(lots.draw(seed, population, count)) <= set(lots.draw(seed, population, count + 1))


@pytest.mark.parametrize("count", [5, 6, 7, 1_000])
def test_a_population_not_larger_than_the_count_is_drawn_whole(count: int) -> None:
    assert lots.draw(SEED, 5, count) == (0, 1, 2, 3, 4)


def test_draw_of_a_huge_population_needs_no_list_of_it() -> None:
    drawn = lots.draw(SEED, 2**80, 16)
    assert len(drawn) == 16
    assert drawn[-1] > 2**75


@pytest.mark.parametrize(("population", "count"), [(-1, 1), (1, -1)])
def test_negative_arguments_are_bugs(population: int, count: int) -> None:
    with pytest.raises(ValueError, match="cannot draw"):
        lots.draw(SEED, population, count)
    with pytest.raises(ValueError, match="not be negative"):
        lots.draw_weighted(SEED, [population], count)


def test_weighted_draw_follows_the_weights_exactly() -> None:
    """Each ticket of 0..9 belongs to one index: compared over draws with the ticket itself."""
    owners = [0, 1, 1, 1, 3, 3, 3, 3, 3, 3]  # weights 1, 3, 0, 6
    for seed in seeds(300):
        (ticket,) = lots.draw(seed, 10, 1)
        assert lots.draw_weighted(seed, [1, 3, 0, 6], 1) == (owners[ticket],)


def test_weighted_draw_of_two_has_the_probabilities_of_drawing_one_after_the_other() -> None:
    counts = Counter(lots.draw_weighted(seed, [1, 2, 3], 2) for seed in seeds(6_000))
    # P{0,1} = 1/6 x 2/5 + 2/6 x 1/4 = 3/20; P{0,2} = 1/6 x 3/5 + 3/6 x 1/3 = 4/15; the rest 7/12
    expected = {(0, 1): 900, (0, 2): 1_600, (1, 2): 3_500}
    assert counts.keys() == expected.keys()
    for pair, count in expected.items():
        assert abs(counts[pair] - count) < 140  # 3.5 standard deviations; the seeds are fixed


@settings(deadline=None)
@given(
    st.binary(min_size=32, max_size=32),
    st.lists(st.integers(0, 2**70), max_size=8),
    st.integers(0, 9),
)
def test_weighted_draw_takes_those_with_weight_only(seed: bytes, weights: list[int], count: int) -> None:
    drawn = lots.draw_weighted(seed, weights, count)
    with_weight = [index for index, weight in enumerate(weights) if weight]
    assert list(drawn) == sorted(set(drawn))
    assert len(drawn) == min(count, len(with_weight))
    assert set(drawn) <= set(with_weight)


def test_duty_is_drawn_and_the_update() -> None:
    assert lots.duty_segments(8, (3, 5)) == (3, 5, 8)
    assert lots.duty_segments(8, (7, 0)) == (0, 7, 8)
    assert lots.duty_segments(1, ()) == (1,)
    assert lots.duty_segments(2, (2,)) == (2,)


def test_what_was_drawn_behind_the_end_of_a_share_falls_away() -> None:
    """The lot is drawn before anybody knows that the job stops; where it does is always a duty."""
    assert lots.duty_segments(4, (1, 5, 7)) == (1, 4)
    assert lots.duty_segments(1, (3,)) == (1,)
    assert lots.duty_segments(0, (0, 3)) == (0,)


def rounds(slots: int, segments: int, expected: int, count: int = 2_000) -> list[list[tuple[int, ...]]]:
    """Return what the lots of many rounds draw, each share by a lot of its own."""
    return [
        [
            lots.draw_duty_segments(hash_fields("share", u32(number), u32(slot)), slots, segments, expected)
            for slot in range(slots)
        ]
        for number in range(count)
    ]


@pytest.mark.parametrize(("slots", "segments"), [(1, 64), (4, 16), (16, 4), (64, 1)])
def test_a_round_has_as_much_duty_however_it_is_divided_into_shares(slots: int, segments: int) -> None:
    counts = Counter[int]()
    for shares in rounds(slots, segments, 3):
        counts.update(slot * segments + segment for slot, own in enumerate(shares) for segment in own)
    # Two tickets that fall on one segment count once: 3 of 64 do in about one round of 21.
    assert 2.85 < counts.total() / 2_000 < 3.05
    assert set(counts) == set(range(64))
    assert max(counts.values()) < 2 * min(counts.values())


def test_a_small_round_is_replayed_whole() -> None:
    assert rounds(2, 3, 6, 1) == [[(0, 1, 2), (0, 1, 2)]]
    assert rounds(2, 3, 7, 1) == [[(0, 1, 2), (0, 1, 2)]]
    assert any(len(own) < 3 for shares in rounds(2, 3, 5, 4) for own in shares)


def test_a_share_may_have_no_draw_unless_its_provider_is_new() -> None:
    old = [lots.draw_duty_segments(seed, 64, 10, 2) for seed in seeds(300)]
    new = [lots.draw_duty_segments(seed, 64, 10, 2, at_least=1) for seed in seeds(300)]
    assert sum(not own for own in old) > 280
    assert all(len(own) >= 1 for own in new)
    # The tickets are the same, and any segment can be the one that a new provider's share has at least.
    assert all(first == second for first, second in zip(old, new, strict=True) if first)
    assert {segment for own in new for segment in own} == set(range(10))


@pytest.mark.parametrize("counts", [(-1, 1, 1, 0), (1, -1, 1, 0), (1, 1, -1, 0), (1, 9, 1, -1)])
def test_duty_of_negative_counts_is_a_bug(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="negative"):
        lots.draw_duty_segments(SEED, *counts)


@pytest.mark.parametrize(("segments", "drawn"), [(-1, ()), (4, (-1,))])
def test_duty_outside_a_share_is_a_bug(segments: int, drawn: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"segment"):
        lots.duty_segments(segments, drawn)
