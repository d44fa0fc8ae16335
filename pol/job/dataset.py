"""The data of a job in memory."""

from collections.abc import Mapping
from dataclasses import dataclass

from pol.state.arrays import Array


@dataclass(frozen=True)
class Dataset:
    """The rows of a job in the order of its shards: column name to array, whose first dimension is the row."""

    columns: Mapping[str, Array]
    rows: int
