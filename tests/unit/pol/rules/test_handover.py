"""Every chunk of what a round hands over has one place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.limits import CHUNK_TAG_BYTES, RESULT_CHUNKS_MAX, STATE_CHUNK_BYTES, STATE_HEADER_MAX
from pol.rules.handover import ChunkLayout, ChunkPlace, has_valid_length
from pol.state.layout import CHUNK_SIZE, MAX_HEADER

counts = st.integers(1, 5)


@given(global_chunks=counts, local_chunks=counts, slots=st.integers(0, 5))
def test_chunks_are_numbered_state_by_state(global_chunks: int, local_chunks: int, slots: int) -> None:
    layout = ChunkLayout(global_chunks, local_chunks, slots)
    sizes = [global_chunks, *[local_chunks] * slots]
    places = [ChunkPlace(state, index, size) for state, size in enumerate(sizes) for index in range(size)]
    assert layout.count == len(places)
    assert [layout.locate(number) for number in range(layout.count)] == places
    assert layout.locate(-1) is None
    assert layout.locate(layout.count) is None
    starts = [layout.first_chunk(state) for state in range(len(sizes))]
    assert starts == [number for number, place in enumerate(places) if place.is_header]


def test_numbers_are_as_large_as_a_job_may_have_chunks() -> None:
    layout = ChunkLayout(RESULT_CHUNKS_MAX - 1024, 1, 1024)
    assert layout.count == RESULT_CHUNKS_MAX
    assert layout.locate(RESULT_CHUNKS_MAX - 1) == ChunkPlace(1024, 0, 1)


@pytest.mark.parametrize(("index", "largest"), [(0, MAX_HEADER + 4), (1, CHUNK_SIZE), (7, CHUNK_SIZE)])
def test_a_ciphertext_is_as_long_as_its_chunk_and_a_tag(index: int, largest: int) -> None:
    place = ChunkPlace(0, index, 8)
    assert (STATE_HEADER_MAX, STATE_CHUNK_BYTES) == (MAX_HEADER + 4, CHUNK_SIZE)
    for length, valid in (
        (0, False),
        (CHUNK_TAG_BYTES, False),
        (CHUNK_TAG_BYTES + 1, True),
        (largest + CHUNK_TAG_BYTES, True),
        (largest + CHUNK_TAG_BYTES + 1, False),
    ):
        assert has_valid_length(place, length) is valid
