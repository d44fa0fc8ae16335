"""Datasets of arrays in memory, as one shard without a header would be."""

from collections.abc import Mapping

import numpy as np

from pol.job.dataset import Column, Dataset
from pol.state.arrays import Array, dtype_name, raw_bytes
from pol.values import TensorSpec


def dataset(columns: Mapping[str, Array]) -> Dataset:
    """Return the rows of these columns as a dataset."""
    whole = np.frombuffer(b"".join(map(raw_bytes, columns.values())), np.uint8)
    made, start = [], 0
    for name, array in columns.items():
        spec = TensorSpec(name, dtype_name(array, name), array.shape[1:])
        made.append(Column(spec, whole, [start], canonical=True))
        start += array.nbytes
    return Dataset(made, [len(array)])


def all_rows(data: Dataset) -> dict[str, Array]:
    """Return the whole columns."""
    return data.take(np.arange(data.rows))
