"""Known answers of the generator, and what is made of it."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from pol.ops import philox
from tests.unit.pol.executor.ops import SEED, both

VECTORS = Path(__file__).parents[3] / "vectors" / "philox" / "kat_vectors"


@pytest.mark.parametrize("line", VECTORS.read_text().splitlines())
def test_known_answers(line: str) -> None:
    numbers = [int(word, 16) for word in line.split()]
    counter = tuple(np.array([word], np.uint64) for word in numbers[:4])
    output = philox.philox(counter, numbers[4] | numbers[5] << 32)
    assert [int(word[0]) for word in output] == numbers[6:]


def test_counter_layout() -> None:
    step = 0x0123456789ABCDEF
    counter = tuple(np.array([word], np.uint64) for word in (2, 5, 0x89ABCDEF, 0x01234567))
    expected = [int(word[0]) for word in philox.philox(counter, 99)]
    assert philox.words(99, 5, step, 12)[8:].tolist() == expected


def test_stream_is_a_prefix_of_itself() -> None:
    long = philox.words(1, 2, 3, 1000)
    assert np.array_equal(philox.words(1, 2, 3, 997), long[:997])
    for other in ((2, 2, 3), (1, 3, 3), (1, 2, 4), (1, 2, 3 + 2**32), (1 + 2**32, 2, 3)):
        assert not np.array_equal(philox.words(*other, 1000), long)


def test_uniform_is_24_bits() -> None:
    words, values = philox.words(1, 2, 3, 4096), philox.uniform(1, 2, 3, 4096)
    assert values.dtype == np.float32
    assert np.array_equal(values.astype(np.float64) * 2**24, (words >> 8).astype(np.float64))
    assert 0.0 <= values.min() < 0.01
    assert 0.99 < values.max() < 1.0
    assert abs(values.mean() - 0.5) < 0.02


def test_draws_are_pairs_of_words() -> None:
    words, draws = philox.words(1, 2, 3, 10), philox.draws(1, 2, 3, 5)
    assert draws.tolist() == [int(words[2 * i]) + (int(words[2 * i + 1]) << 32) for i in range(5)]


def test_permutation_is_the_stable_argsort_of_draws() -> None:
    order = philox.permutation(1, 4, 1000)
    draws = philox.draws(1, philox.SITE_ORDER, 4, 1000).tolist()
    assert order.tolist() == sorted(range(1000), key=lambda index: draws[index])
    assert not np.array_equal(order, philox.permutation(1, 5, 1000))


def test_equal_draws_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    ties = np.arange(1000, dtype=np.uint64) % 3
    monkeypatch.setattr(philox, "draws", lambda *arguments: ties)
    assert philox.permutation(1, 4, 1000).tolist() == sorted(range(1000), key=lambda i: int(i % 3))


def test_seed_out_of_range() -> None:
    with pytest.raises(ValueError, match="seed"):
        philox.words(2**64, 0, 0, 1)


@pytest.mark.parametrize("step", [0, 1, 2**32 - 1, 2**32, 2**62 + 5, -1])
def test_uniform_primitive(step: int) -> None:
    found = both("uniform", np.array(step, np.int64), shape=[3, 5], site=11)
    assert np.array_equal(found.reshape(-1), philox.uniform(SEED, 11, step, 15))


def test_a_long_stream_is_made_in_parts() -> None:
    count = 4 * (2 * philox._PART + 3)
    whole = philox.words(5, 6, 7, count)
    index = np.arange(count // 4, dtype=np.uint64)
    fixed = (np.full(len(index), word, np.uint64) for word in (6, 7, 0))
    lanes = philox.philox((index, *fixed), 5)
    assert np.array_equal(whole.reshape(-1, 4), np.stack(lanes, 1))
    tracemalloc.start()
    try:
        philox.permutation(1, 2, 400_000)
        assert tracemalloc.get_traced_memory()[1] < 32 * 400_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("total", [1, 7, 2**32 - 1, 2**32, 2**32 + 5, 2**62 + 12_345, 2**63 - 1])
def test_places_are_the_upper_half_of_the_product_of_draw_and_total(total: int) -> None:
    drawn = philox.draws(5, philox.SITE_ROWS, 3, philox.PART_POSITIONS).tolist()
    assert philox.drawn_places(5, 3, total).tolist() == [draw * total >> 64 for draw in drawn]
