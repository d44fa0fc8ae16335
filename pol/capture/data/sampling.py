"""The order of rows that a job file asks for, as the job has it: weights become a column of whole numbers."""

import numpy as np
from numpy.typing import NDArray

from pol.capture.author.spec import RowsInOrder, WeightedRows
from pol.capture.data.columns import Columns, Progress, array_of
from pol.errors import JobError
from pol.job.sampling import IN_ORDER, SHUFFLING, WEIGHTED, Sampling
from pol.limits import MAX_INTEGER
from pol.state.arrays import Array

WEIGHTS = "row_weight"
"""Name of the column that is made of weights, if they are no column of whole numbers."""
_BITS = 62
"""Bits of the sum of weights that are made whole numbers."""


def sampling_of(order: WeightedRows | RowsInOrder | None, data: Columns, tell: Progress) -> tuple[Sampling, Columns]:
    """Return the sampling of a job, and its columns with one for the weights; JobError for weights that are none."""
    if order is None:
        return SHUFFLING, data
    if isinstance(order, RowsInOrder):
        return Sampling(IN_ORDER), data
    rows = len(next(iter(data.values()), ()))
    weights = _given(order, data)
    if weights.shape != (rows,):
        reason = f"weights of the shape {list(weights.shape)} for {rows:,} rows"
        raise JobError("sampling", reason, "give one number for each row of train")
    whole = _whole(weights)
    if isinstance(order.weights, str) and weights.dtype == np.int64:
        return Sampling(WEIGHTED, order.weights), data
    name = WEIGHTS
    while name in data:
        name += "_"
    tell(f"train.{name}: the weights by which rows are drawn, {weights.dtype} becomes int64")
    return Sampling(WEIGHTED, name), dict(sorted({**data, name: whole}.items()))


def _given(order: WeightedRows, data: Columns) -> Array:
    if not isinstance(order.weights, str):
        return array_of(order.weights, "sampling")
    if order.weights not in data:
        names = ", ".join(map(repr, data))
        reason = f"train has no column {order.weights!r}"
        raise JobError("sampling", reason, f"it has {names}; or give one number for each row")
    return data[order.weights]


def _whole(weights: Array) -> NDArray[np.int64]:
    """Return weights as whole numbers: the same, or others in their proportion."""
    if weights.dtype.kind not in "iubf":
        raise JobError("sampling", f"weights are {weights.dtype}", "give numbers of 0 or more")
    usable = weights >= 0 if weights.dtype.kind != "f" else (weights >= 0) & np.isfinite(weights)
    if not usable.all():
        row = int(usable.argmin())
        reason = f"the weight of row {row} is {weights[row]}"
        raise JobError("sampling", reason, "give numbers of 0 or more")
    if weights.dtype.kind == "f":
        return _in_proportion(weights.astype(np.float64))
    if int(weights.max()) > MAX_INTEGER or (weights.astype(np.int64).cumsum() < 0).any():
        raise JobError("sampling", "weights add up to 2^63 or more", "give smaller ones")
    _check_some(weights)
    return weights.astype(np.int64)


def _in_proportion(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers in the proportion of these, whose sum has ``_BITS`` bits: they are moved by a power of 2."""
    _check_some(weights)
    # first to numbers up to 1, whose sum is finite
    _, largest = np.frexp(weights.max())
    moved = np.ldexp(weights, -int(largest))
    _, exponent = np.frexp(moved.sum())
    return np.rint(np.ldexp(moved, _BITS - int(exponent))).astype(np.int64)


def _check_some(weights: Array) -> None:
    if not weights.any():
        raise JobError("sampling", "all weights are 0", "give a weight above 0 to some rows")
