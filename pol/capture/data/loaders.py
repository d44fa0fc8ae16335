"""Conversion of a ``DataLoader``: its data set, its order of rows, and its ``collate_fn``, which is called for each row
alone.
"""

import random
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)

from pol.capture.author.spec import RowsInOrder, WeightedRows
from pol.capture.data.columns import Progress
from pol.errors import JobError

STREAM = (
    "has no length, but a job must read rows by number to order them",
    "give a data set with __len__ and __getitem__, loaded without streaming",
)
"""Reason and remedy for a data set that can only be read from start to end."""
_MOST_TOGETHER = 64
"""Largest number of rows that a ``collate_fn`` is tried with."""
_NO_COLLATE = (
    "convert single rows in the data set, padded to one shape; mix rows or draw random numbers "
    "in the loss, where every step does so anew"
)


def open_loader(loader: "DataLoader[Any]", field: str, tell: Progress) -> tuple[Any, WeightedRows | RowsInOrder | None]:
    """Return the rows of a loader and their order, and report both by ``tell``.

    An order of None means that the rows are shuffled. The order of a holdout has no effect, because each of its rows is
    evaluated once. Raises JobError if a job cannot do what the loader does.
    """
    if isinstance(loader.dataset, IterableDataset):
        raise JobError(field, *STREAM)
    batches: object = loader.batch_sampler
    if batches is None:
        reason = "is a DataLoader with batch_size=None, which does not make batches"
        raise JobError(field, reason, "give its data set, loader.dataset, if its items are rows")
    if type(batches) is not BatchSampler:
        reason = f"its {type(batches).__name__} chooses the batches, but a job makes its own batches, all of one size"
        remedy = "give DataLoader(data, batch_size=16, shuffle=True), whose batches have other rows"
        raise JobError(field, reason, remedy)
    rows, order, words = _sampled(loader, batches.sampler, field)
    if loader.collate_fn is not default_collate:
        rows = _Collated(rows, loader.collate_fn, field, min(batches.batch_size, _MOST_TOGETHER))
        name = getattr(loader.collate_fn, "__name__", type(loader.collate_fn).__name__)
        tell(f"{field}: {name}, the loader's collate_fn, runs on each row alone")
    if field == "train":
        tell(f"{field}: batches of {batches.batch_size} rows as in the DataLoader, {words}")
        if order is None or isinstance(order, RowsInOrder):
            _say_end_of_epoch(len(rows), batches, field, tell)
    return rows, order


def _sampled(
    loader: "DataLoader[Any]", sampler: object, field: str
) -> tuple[Any, WeightedRows | RowsInOrder | None, str]:
    """Return the rows that a sampler draws from, their order, and a description of both."""
    rows: Any = loader.dataset
    shuffled = "shuffled by the job's seed"
    if type(sampler) is SequentialSampler:
        return rows, RowsInOrder(), "in their order, because the loader has no shuffle=True"
    if type(sampler) is SubsetRandomSampler:
        chosen = [int(index) for index in sampler.indices]
        return Subset(rows, chosen), None, f"the {len(chosen):,} of its subset, {shuffled}"
    if type(sampler) is RandomSampler and not sampler.replacement:
        if sampler.num_samples != len(rows):
            shuffled += f"; an epoch has all {len(rows):,} rows once, instead of {sampler.num_samples:,} rows"
        return rows, None, shuffled
    if field != "train":
        reason = f"its {type(sampler).__name__} cannot be used: each row of the holdout is evaluated once"
        raise JobError(field, reason, "give the data set, or a DataLoader without a sampler")
    if type(sampler) is RandomSampler:
        return rows, WeightedRows(np.ones(len(rows), np.int64)), "drawn with replacement"
    if type(sampler) is WeightedRandomSampler:
        return rows, _weights(sampler, len(rows), field), "drawn by the weights of its sampler"
    name = type(sampler).__name__
    if isinstance(sampler, DistributedSampler):
        reason = f"its {name} divides the rows among processes, but all slots of a job share all rows"
        raise JobError(field, reason, "use DataLoader(..., shuffle=True) instead, and set slots=4 in the job")
    reason = f"its {name} cannot be used: a job has only three orders of rows"
    remedy = (
        "give shuffle=True for every row once per epoch, or sampling=assay.WeightedRows(weights) "
        "to draw rows; for one fixed order give train=Subset(data, list(sampler)) and "
        "sampling=assay.RowsInOrder()"
    )
    raise JobError(field, reason, remedy)


def _weights(sampler: WeightedRandomSampler, rows: int, field: str) -> WeightedRows:
    if not sampler.replacement:
        reason = "its WeightedRandomSampler draws no row twice, but a job draws with replacement"
        remedy = "give replacement=True, which may draw a row several times"
        raise JobError(field, reason, remedy)
    if len(sampler.weights) != rows:
        reason = f"its WeightedRandomSampler has {len(sampler.weights):,} weights for {rows:,} rows"
        raise JobError(field, reason, "give one weight per row, 0 for rows that must not be drawn")
    return WeightedRows(sampler.weights)


def _say_end_of_epoch(rows: int, batches: "BatchSampler", field: str, tell: Progress) -> None:
    rest = rows % batches.batch_size
    if not rest:
        return
    of_loader = f"leaves out {rest} rows" if batches.drop_last else f"ends with a batch of {rest}"
    tell(f"{field}: an epoch of the loader {of_loader}; a job fills that batch from the next epoch")


class _Collated:
    """A data set whose rows are passed to a ``collate_fn`` one at a time."""

    def __init__(self, rows: Any, collate: Callable[[list[Any]], Any], field: str, together: int) -> None:
        """Check that ``collate`` returns the same values for a row in a batch as for the row alone; JobError if not.

        The check uses a batch of the first 2 rows, and one of the first ``together`` rows.
        """
        self._rows = rows
        self._collate = collate
        self._field = field
        for count in sorted({2, together}):
            if 1 < count <= len(rows):
                self._check([rows[index] for index in range(count)])

    def _check(self, items: list[Any]) -> None:
        alone = [self._parts(self._collate([deepcopy(item)]), 1) for item in items]
        drawn = _generators()
        all_of_them = self._parts(self._collate(items), len(items))
        if _generators() != drawn:
            reason = "its collate_fn draws random numbers, but each row is read only once"
            raise JobError(self._field, reason, _NO_COLLATE)
        if not all(_are_equal(part, index, all_of_them) for index, part in enumerate(alone)):
            count = "two" if len(items) == 2 else f"{len(items)}"
            reason = f"its collate_fn changes a row if {count} rows are in a batch"
            raise JobError(self._field, f"{reason}, such as by padding, mixing or drawing", _NO_COLLATE)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Any:
        batch = self._parts(self._collate([self._rows[index]]), 1)
        parts = {name: part[0] for name, part in batch.items()}
        return tuple(parts.values()) if 0 in parts else parts

    def _parts(self, batch: Any, rows: int) -> dict[Any, Any]:
        """Return the parts of a batch by name or number; JobError if a part does not have ``rows`` rows."""
        if isinstance(batch, Mapping):
            parts = dict(batch)
        else:
            parts = dict(enumerate(batch if isinstance(batch, tuple | list) else (batch,)))
        for name, part in parts.items():
            if not hasattr(part, "__len__") or getattr(part, "ndim", 1) < 1 or len(part) != rows:
                what = f"part {name}" if isinstance(name, int) else name
                reason = f"its collate_fn returns for one row a {type(part).__name__} as {what}"
                raise JobError(self._field, f"{reason}, not an array with one row", _NO_COLLATE)
        return parts


def _generators() -> tuple[object, ...]:
    """Return the states of the global random generators of Python, NumPy and torch."""
    name, keys, *others = np.random.get_state(legacy=True)  # noqa: NPY002 - the person's own
    return (
        random.getstate(),
        name,
        np.asarray(keys).tobytes(),
        *others,
        torch.get_rng_state().tolist(),
    )


def _are_equal(alone: Mapping[Any, Any], index: int, both: Mapping[Any, Any]) -> bool:
    """Return whether the row of the batch ``alone``, which has only one, equals row ``index`` of the batch ``both``."""
    return alone.keys() == both.keys() and all(_same(alone[name][0], both[name][index]) for name in alone)


def _same(first: object, second: object) -> bool:
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        both_nan = first.isnan() & second.isnan() if first.shape == second.shape else None
        return both_nan is not None and bool(((first == second) | both_nan).all())
    return np.array_equal(np.asarray(first), np.asarray(second))
