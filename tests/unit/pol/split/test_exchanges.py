"""Partial sums of products as they are sent: planes of bytes."""

import numpy as np
import pytest

from pol.split.exchanges import _add_planes, _planes


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 6, 7])
def test_integers_in_planes_come_back(width: int) -> None:
    most = 2 ** (8 * width - 1) - 1
    edges = [0, 1, -1, 127, -128, 2**31, -(2**31), 2**32 - 1, most, -most - 1]
    numbers = np.array([edge for edge in edges if -most - 1 <= edge <= most], np.int64).reshape(1, -1)
    planes = _planes(numbers, width)
    assert sum(plane.nbytes for plane in planes) == width * numbers.size
    totals = numbers.copy()
    _add_planes(totals, planes)
    assert np.array_equal(totals, 2 * numbers)
