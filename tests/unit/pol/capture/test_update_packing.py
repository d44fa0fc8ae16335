"""Small numbers in words of 64 bits come back as they were, and take no more words than they need."""

import pytest
import torch

from pol.capture.codecs.packing import pack, unpack, word_count
from pol.capture.graph.capture import capture_program
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import BACKENDS, Engine

SIZES = [(64, 12), (64, 2), (256, 8), (256, 4), (1, 12), (5, 12), (6, 12), (63, 1), (64, 1), (65, 1), (9, 7), (7, 16)]


def _numbers(count: int, bits: int) -> torch.Tensor:
    """Return rows of zeros, of the largest number, of one of each kind, and of random numbers."""
    most = 2**bits - 1
    drawn = torch.randint(0, most + 1, (3, count), generator=torch.Generator().manual_seed(count * bits))
    mixed = torch.arange(count) % 2 * most
    return torch.cat([torch.zeros(1, count).long(), torch.full((1, count), most), mixed.reshape(1, -1), drawn])


@pytest.mark.parametrize(("count", "bits", "words"), [(64, 12, 12), (64, 2, 2), (256, 8, 32), (256, 4, 16), (65, 1, 2)])
def test_no_bit_is_wasted_where_the_numbers_fill_the_words(count: int, bits: int, words: int) -> None:
    assert word_count(count, bits) == words


@pytest.mark.parametrize(("count", "bits"), SIZES)
def test_numbers_come_back(count: int, bits: int) -> None:
    numbers = _numbers(count, bits)
    words = pack(numbers, bits)
    assert words.shape == (len(numbers), word_count(count, bits))
    assert torch.equal(unpack(words, count, bits), numbers)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(("count", "bits"), [(64, 12), (64, 2), (9, 7), (65, 1)])
def test_a_job_packs_as_torch_does(name: str, count: int, bits: int) -> None:
    numbers = _numbers(count, bits)
    packing = capture_program(lambda given: {"words": pack(given["numbers"], bits)}, {"numbers": numbers})
    words = run(packing, {"numbers": numbers.numpy()}, 0, backend(Engine(name)))["words"]
    assert torch.equal(torch.from_numpy(words), pack(numbers, bits))
    taking = capture_program(
        lambda given: {"numbers": unpack(given["words"], count, bits)}, {"words": pack(numbers, bits)}
    )
    assert torch.equal(torch.from_numpy(run(taking, {"words": words}, 0, backend(Engine(name)))["numbers"]), numbers)
