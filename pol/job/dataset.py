"""The data of a job in memory."""

from collections.abc import Mapping
from dataclasses import dataclass

from pol.state.arrays import Array


@dataclass(frozen=True)
class Dataset:
    """The rows of a job in the order of its shards.

    Args:
        columns: name to array, whose first dimension is the row.
        rows: number of rows.
    """

    columns: Mapping[str, Array]
    rows: int
