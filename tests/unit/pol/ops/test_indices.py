"""Indices that machines hold: patterns and lists give the same pieces, and patterns need no memory."""

import itertools
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from pol.ops.create import CREATE
from pol.ops.indices import Indices, Listed, Residues, join
from pol.ops.order import ORDER
from pol.ops.splits import Axis, Way
from pol.split.exchanges import Share, Task, compute_piece
from pol.values import TensorType
from tests.support.splits import site_of


def patterns() -> Iterator[tuple[int, int, int, int]]:
    """Sizes of dimensions, machines, neighbours that stay together, and equal parts."""
    for blocks, machines, inner, outer in itertools.product((1, 2, 3, 5, 8), (1, 2, 3, 4), (1, 2, 3), (1, 2, 4)):
        if blocks >= machines:
            yield blocks * inner * outer, machines, inner, outer


def naive(size: int, machine: int, machines: int, inner: int, outer: int) -> list[int]:
    """The indices, each decided by itself."""
    return [index for index in range(size) if index % (size // outer) // inner % machines == machine]


@pytest.mark.parametrize(("size", "machines", "inner", "outer"), list(patterns()))
def test_a_pattern_is_the_list_of_its_indices(size: int, machines: int, inner: int, outer: int) -> None:
    value = np.arange(2 * size * 3).reshape(2, size, 3)
    all_patterns = [Residues(size, machine, machines, inner, outer) for machine in range(machines)]
    for machine, own in enumerate(all_patterns):
        expected = naive(size, machine, machines, inner, outer)
        assert own.array().tolist() == expected
        assert len(own) == len(expected)
        listed = Listed(np.array(expected))
        assert own.take(value, 1).tolist() == value[:, expected].tolist() == listed.take(value, 1).tolist()
        everywhere = np.arange(size).reshape(1, -1)
        places = [[expected.index(index) if index in expected else -1 for index in range(size)]]
        assert own.find(everywhere).tolist() == places == listed.find(everywhere).tolist()
    for indices in (all_patterns, [Listed(own.array()) for own in all_patterns]):
        assert join([own.take(value, 1) for own in indices], 1, indices, size).tolist() == value.tolist()


@pytest.mark.parametrize("axis", [Axis(0), Axis(0, unit=2), Axis(0, outer=3), Axis(0, unit=2, outer=3)])
@pytest.mark.parametrize("outer", [1, 2])
def test_rows_are_found_along_an_axis(axis: Axis, outer: int) -> None:
    way = Way(rows=24, operands=(axis,), result=None)
    for machine in range(2):
        own = Residues(24, machine, 2, inner=2, outer=outer)
        assert own.along(axis, way).array().tolist() == Listed(own.array()).along(axis, way).array().tolist()


def test_indices_of_a_machine_without_blocks() -> None:
    own = Listed(np.array([], np.int64))
    assert own.find(np.arange(3)).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("inner", [1, 4096])
def test_adding_to_a_few_of_many_rows_needs_memory_for_the_piece_only(inner: int) -> None:
    """As the gradient of a loss over many words: few summands, and a row for each word of each place."""
    rows = 2**22
    index, values = np.array([5, rows - 1, 5]), np.array([1, 2, 4], np.float32)
    site = site_of("add_rows", [index, values], {"rows": rows})
    row = next(row for row in ORDER if row.name == "add_rows")
    split = next(split for split in row.splits if split.local is not None)
    (way,) = split.ways(site.operands, site.attrs, site.result)
    task = Task("add_rows", site, split, way, inner, machines=4)
    tracemalloc.start()
    own = task.rows
    held = tracemalloc.get_traced_memory()[0]
    piece = compute_piece(task, Share(own[3], (index, values)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert piece.shape == (rows // 4,)
    assert held < 100_000
    assert peak < 1.5 * piece.nbytes
    expected = np.zeros(rows, np.float32)
    np.add.at(expected, index, values)
    assert (piece == own[3].take(expected, 0)).all()


def test_counting_takes_the_indices() -> None:
    row = next(row for row in CREATE if row.name == "iota")
    (split,) = row.splits
    site = site_of("iota", [], {"size": 12})
    assert split.local is not None
    own: Indices = Residues(12, 1, 2, inner=3)
    assert split.local(site, Axis(0), own)().tolist() == [3, 4, 5, 9, 10, 11]
    assert site.result == TensorType("i64", (12,))
