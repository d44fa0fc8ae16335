"""Conversion of a job file's order of rows into the order of the job: weights become a column of integers."""

import numpy as np
from numpy.typing import NDArray

from pol.capture.author.spec import RowsInOrder, WeightedRows
from pol.capture.data.columns import Columns, Progress, array_of
from pol.errors import JobError
from pol.job.sampling import IN_ORDER, SHUFFLING, WEIGHTED, Sampling
from pol.limits import MAX_INTEGER
from pol.state.arrays import Array

WEIGHTS = "row_weight"
"""Name of the column of weights, if the weights are not already a column of integers."""
_BITS = 62
"""Number of bits of the sum of weights after their conversion to integers."""


def sampling_of(order: WeightedRows | RowsInOrder | None, data: Columns, tell: Progress) -> tuple[Sampling, Columns]:
    """Return the sampling of a job, and its columns.

    If rows are drawn by weight, one of the columns has the weights. Raises JobError for invalid weights.
    """
    if order is None:
        return SHUFFLING, data
    if isinstance(order, RowsInOrder):
        return Sampling(IN_ORDER), data
    rows = len(next(iter(data.values()), ()))
    weights = _given(order, data)
    if weights.shape != (rows,):
        reason = f"the weights have the shape {list(weights.shape)}, but there are {rows:,} rows"
        raise JobError("sampling", reason, "give one number per row of train")
    whole = _whole(weights)
    if isinstance(order.weights, str) and weights.dtype == np.int64:
        return Sampling(WEIGHTED, order.weights), data
    name = WEIGHTS
    while name in data:
        name += "_"
    tell(f"train.{name}: the weights of the rows, {weights.dtype} becomes int64")
    return Sampling(WEIGHTED, name), dict(sorted({**data, name: whole}.items()))


def _given(order: WeightedRows, data: Columns) -> Array:
    if not isinstance(order.weights, str):
        return array_of(order.weights, "sampling")
    if order.weights not in data:
        names = ", ".join(map(repr, data))
        reason = f"train has no column {order.weights!r}"
        raise JobError("sampling", reason, f"give one of {names}, or one number per row")
    return data[order.weights]


def _whole(weights: Array) -> NDArray[np.int64]:
    """Return weights as integers: unchanged if they are integers, else in the same proportion."""
    if weights.dtype.kind not in "iubf":
        raise JobError("sampling", f"the weights are {weights.dtype}", "give numbers of 0 or more")
    usable = weights >= 0 if weights.dtype.kind != "f" else (weights >= 0) & np.isfinite(weights)
    if not usable.all():
        row = int(usable.argmin())
        reason = f"the weight of row {row} is {weights[row]}"
        raise JobError("sampling", reason, "give numbers of 0 or more")
    if weights.dtype.kind == "f":
        return _in_proportion(weights.astype(np.float64))
    if int(weights.max()) > MAX_INTEGER or (weights.astype(np.int64).cumsum() < 0).any():
        raise JobError("sampling", "the weights add up to 2^63 or more", "give smaller weights")
    _check_some(weights)
    return weights.astype(np.int64)


def _in_proportion(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return integers in the proportion of ``weights``, scaled by a power of 2 so that their sum has ``_BITS`` bits."""
    _check_some(weights)
    # first scale to at most 1, so that the sum is finite
    _, largest = np.frexp(weights.max())
    scaled = np.ldexp(weights, -int(largest))
    _, exponent = np.frexp(scaled.sum())
    return np.rint(np.ldexp(scaled, _BITS - int(exponent))).astype(np.int64)


def _check_some(weights: Array) -> None:
    if not weights.any():
        raise JobError("sampling", "all weights are 0", "give at least one row a weight above 0")
