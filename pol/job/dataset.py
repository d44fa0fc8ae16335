"""The data of a job in memory, and the order in which training reads it.

Position p of the job's stream is row perm(seed, p div N)[p mod N] of the data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pol.job.document import Job
from pol.ops.philox import permutation
from pol.state.arrays import Array


@dataclass(frozen=True)
class Dataset:
    """The rows of a job in the order of its shards: column name to array, whose first dimension is the row."""

    columns: Mapping[str, Array]
    rows: int


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, rows: int) -> NDArray[np.int64]:
    return permutation(seed, epoch, rows)


def sample_rows(seed: int, rows: int, position: int, count: int) -> NDArray[np.int64]:
    """Return the row numbers of ``count`` positions of the stream from ``position`` on (it may cross epochs)."""
    parts = []
    while count:
        epoch, offset = divmod(position, rows)
        part = _order(seed, epoch, rows)[offset : offset + count]
        parts.append(part)
        position += len(part)
        count -= len(part)
    return np.concatenate(parts)


def batch_at(dataset: Dataset, job: Job, sample_position: int) -> dict[str, Array]:
    """Return the batch that starts at a position of the job's sample stream (round x samples_per_round + offset in it).

    It is ``batch.<column>`` to array of ``batch`` rows, ready to be an input of the step.
    """
    rows = sample_rows(job.document.seed, dataset.rows, sample_position, job.document.batch)
    return {f"batch.{name}": column[rows] for name, column in dataset.columns.items()}
