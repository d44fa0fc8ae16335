"""The program that measures a machine: its work is what is counted, and every piece has bits of its own."""

import pytest

from pol.executor.backend import backend
from pol.rules.probe import PIECE_WORK, speed
from pol.work.probe import program, work_pieces

SEED = b"\x01" * 32


def test_a_piece_has_the_work_that_is_counted() -> None:
    assert program().work.flops == PIECE_WORK
    assert speed(30, 2 * 10**9) == 15 * PIECE_WORK
    assert speed(1, 0) == PIECE_WORK * 10**9


def test_pieces_are_the_same_wherever_and_in_whatever_order() -> None:
    numpy = backend("numpy")
    all_of_them = work_pieces(SEED, range(4), numpy)
    assert len(set(all_of_them)) == 4
    assert work_pieces(SEED, (3, 1), numpy) == (all_of_them[3], all_of_them[1])
    assert all_of_them[0].hex() == (
        "55b95a302a95837abecb24d1e1036183de4ba10548b8d6b246551ee79207dfe0"
    )


def test_nothing_of_one_seed_serves_another() -> None:
    numpy = backend("numpy")
    assert not set(work_pieces(SEED, range(3), numpy)) & set(
        work_pieces(bytes(32), range(3), numpy)
    )


def test_torch_has_the_same_bits() -> None:
    pytest.importorskip("torch")
    assert work_pieces(SEED, range(2), backend("torch")) == work_pieces(
        SEED, range(2), backend("numpy")
    )
