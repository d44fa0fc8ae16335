"""The program that measures a machine: its work is what is counted, and every piece has bits of its own."""

import pytest

from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.ops.primitive import FLOPS_PER_CALL
from pol.rules.probe import PIECE_WORK, speed
from pol.work.probe import program, work_pieces

SEED = b"\x01" * 32


def test_a_piece_has_the_work_that_is_counted() -> None:
    assert program().work.flops == PIECE_WORK
    assert speed(30, 2 * 10**9) == 15 * PIECE_WORK
    assert speed(1, 0) == PIECE_WORK * 10**9


def test_a_piece_is_small_steps_beside_large_products() -> None:
    """A promise made of large products alone is not kept with small jobs where calls take long."""
    step = program()
    calls = FLOPS_PER_CALL * step.work.calls
    assert PIECE_WORK // 5 < calls < PIECE_WORK // 2
    assert step.work.products > PIECE_WORK // 5


def test_pieces_are_the_same_wherever_and_in_whatever_order() -> None:
    numpy = backend(Engine("numpy"))
    all_of_them = work_pieces(SEED, range(4), numpy)
    assert len(set(all_of_them)) == 4
    assert work_pieces(SEED, (3, 1), numpy) == (all_of_them[3], all_of_them[1])
    assert all_of_them[0].hex() == ("37539e31c763622a9f29a454d6ad7d87a528168c2fbbcb71694be76fbe5fa2e5")


def test_nothing_of_one_seed_serves_another() -> None:
    numpy = backend(Engine("numpy"))
    assert not set(work_pieces(SEED, range(3), numpy)) & set(work_pieces(bytes(32), range(3), numpy))


def test_torch_has_the_same_bits() -> None:
    pytest.importorskip("torch")
    torch, numpy = (work_pieces(SEED, range(2), backend(Engine(name))) for name in ("torch", "numpy"))
    assert torch == numpy
