"""Places in an arena: none is given twice, and what is given back is used again."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pol.native.arena import LINE, Arena

SIZES = st.integers(0, 20_000)


@given(st.lists(st.tuples(st.booleans(), SIZES), max_size=60))
def test_places_do_not_touch(steps: list[tuple[bool, int]]) -> None:
    arena = Arena()
    held: list[tuple[int, int]] = []
    for is_taken, size in steps:
        if is_taken or not held:
            place = arena.take(size)
            assert place[0] % LINE == 0
            assert place[1] >= max(size, 1)
            held.append(place)
        else:
            arena.give_back(*held.pop(size % len(held)))
        spans = sorted((offset, offset + size) for offset, size in held)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert not spans or spans[-1][1] <= arena.size


def test_what_is_given_back_is_one_piece_again() -> None:
    arena = Arena()
    places = [arena.take(1_000) for _ in range(8)]
    whole = arena.size
    for place in (*places[::2], *places[1::2]):
        arena.give_back(*place)
    assert arena.take(whole - 5 * LINE)[0] == 0
    assert arena.size == whole
