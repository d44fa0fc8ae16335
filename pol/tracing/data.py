"""Data as people have it, as the columns of a job: arrays, files, data sets of torch and of Hugging Face.

Rows are converted a few at a time, and large columns lie in files, so that data need not fit into memory.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from pol.errors import JobError
from pol.names import column_name
from pol.state.arrays import Array
from pol.tracing.columns import (
    AT_ONCE,
    TARGETS,
    Columns,
    Progress,
    Rows,
    Scratch,
    array_of,
    check_finite,
    fitting,
    slices,
    target_of,
    too_large,
)
from pol.tracing.files import KNOWN, array_file, read_file
from pol.values import MAX_NAME

_LONGEST = MAX_NAME - len("batch.")
_PAIR = ("x", "y")
_STREAM = (
    "has no length, and a job takes rows in an order of its own",
    "give one with __len__ and __getitem__, loaded without streaming",
)
"""Why a data set that is only read from its start to its end is none, and what to give."""


def read_columns(source: object, field: str, scratch: Scratch, tell: Progress) -> Columns:
    """Return the columns of ``train`` or ``holdout``: floats as FP32, integers in 64 bits.

    ``source`` is column name to array, tensor, list or file; a file; or a data set with a length.

    Raises JobError, which names the column, when something is not one array of numbers with a row per sample.
    """
    if isinstance(source, str | Path):
        source = read_file(Path(source), field, scratch, tell)
    if isinstance(source, DataLoader):
        reason = "is a DataLoader, and a job makes its batches itself, in the order of its seed"
        raise JobError(field, reason, "give the data set, loader.dataset")
    if isinstance(source, IterableDataset):
        raise JobError(field, *_STREAM)
    if isinstance(source, TensorDataset):
        source = _named(source.tensors, field)
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        # a table of pandas
        table: Any = source
        source = {name: table[name].to_numpy() for name in table.columns}
    if isinstance(source, Mapping):
        if any(hasattr(part, "column_names") for part in source.values()):
            raise JobError(field, "has several splits", 'give one of them, such as data["train"]')
        columns = {
            name: _converted(source[name], f"{field}.{name}", scratch, tell) for name in source
        }
    elif hasattr(source, "column_names") and hasattr(source, "with_format"):
        columns = _hugging_face(source, field, scratch, tell)
    elif hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        columns = _items(source, field, scratch, tell)
    else:
        reason = f"is a {type(source).__name__}"
        raise JobError(
            field, reason, f"give columns, a data set with a length, or a file ({KNOWN})"
        )
    for name, column in columns.items():
        where = f"{field}.{name}"
        if not str(name) or not str(name).isprintable():
            reason = "its name is empty or has characters that cannot be printed"
            raise JobError(where, reason, "rename the column")
        if len(column_name(str(name))) > _LONGEST:
            reason = f"its name takes more than {_LONGEST} characters in a job"
            raise JobError(where, reason, "give the column a shorter name")
        check_finite(column, where)
    return {str(name): columns[name] for name in sorted(columns, key=str)}


def _named(parts: Sequence[Any], field: str) -> dict[str, Any]:
    """Return the parts of an item by the names that a job gives them: x and y."""
    if len(parts) > len(_PAIR):
        reason = f"has items of {len(parts)} parts without names"
        raise JobError(field, reason, "return a dictionary, name to tensor")
    return dict(zip(_PAIR, parts, strict=False))


def _converted(value: object, where: str, scratch: Scratch, tell: Progress) -> Array:
    """Return one column in a dtype of jobs; it is the very array where it has one already."""
    if isinstance(value, str | Path):
        value = array_file(Path(value), where)
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.dtype == torch.bfloat16:
            tell(f"{where}: bfloat16 becomes float32")
            value = value.float()
    given = hasattr(value, "dtype")
    array = array_of(value, where)
    target = target_of(array, where, 1)
    if array.dtype == target and array.flags.c_contiguous:
        return array
    if given and array.dtype != target:
        tell(f"{where}: {array.dtype} becomes {target}")
    found = scratch.array(target, array.shape)
    # what is too large for FP32 becomes infinity, and is found as such
    with np.errstate(over="ignore"):
        for rows in slices(len(array), array[:1].nbytes):
            found[rows] = fitting(array[rows], where)
    return found


def _items(source: Any, field: str, scratch: Scratch, tell: Progress) -> Columns:
    """Read each item of a map-style data set once."""
    rows = Rows(len(source), field, scratch, tell)
    for number in range(len(source)):
        try:
            item = source[number]
        # the consumer's own code
        except Exception as error:
            reason = f"item {number} cannot be read: {type(error).__name__}: {error}"
            raise JobError(field, reason, "check the data set") from error
        parts = item if isinstance(item, Mapping) else _named(_parts(item), field)
        rows.put(number, {name: _one_row(part, f"{field}.{name}") for name, part in parts.items()})
    tell(f"{field}: {len(source):,} items, each read once, with what its transforms drew then")
    return rows.columns


def _parts(item: object) -> Sequence[Any]:
    return item if isinstance(item, tuple | list) else (item,)


def _one_row(part: object, where: str) -> Array:
    if hasattr(part, "getbands"):
        remedy = "give the data set transform=torchvision.transforms.ToTensor()"
        raise JobError(where, "is an image and not yet numbers", remedy)
    if isinstance(part, torch.Tensor):
        part = part.detach().cpu()
        part = part.float() if part.dtype == torch.bfloat16 else part
    return array_of(part, where)[np.newaxis]


def _hugging_face(source: Any, field: str, scratch: Scratch, tell: Progress) -> Columns:
    """Read a ``datasets.Dataset`` by its own methods, many rows at a time where it has no transform of its user."""
    if not hasattr(source, "__len__"):
        raise JobError(field, *_STREAM)
    form = source.format
    # a transform, or types that it is to have
    if form["format_kwargs"]:
        return _items(source, field, scratch, tell)
    shown = None if form["output_all_columns"] else form["columns"]
    plain = source.with_format("numpy", columns=shown)
    dtypes = {name: _leaf_dtype(feature) for name, feature in source.features.items()}
    rows = Rows(len(source), field, scratch, tell)
    for first in range(0, len(source), AT_ONCE):
        # what is too large for FP32 becomes infinity, and is found as such
        with np.errstate(over="ignore"):
            part = plain[first : first + AT_ONCE]
        for name, array in part.items():
            where = f"{field}.{name}"
            if np.asarray(array).dtype.kind not in TARGETS:
                reason = "is text, or has rows of different lengths"
                remedy = f'pad and truncate rows, or leave it out: data.remove_columns("{name}")'
                raise JobError(where, reason, remedy)
            # it has made 64 bits with a sign of them
            if dtypes[name] == "uint64" and array.size and array.min() < 0:
                raise too_large(where)
            if not first and dtypes[name] not in ("", str(array.dtype)):
                tell(f"{where}: {dtypes[name]} becomes {array.dtype}")
        rows.put(first, part)
    return rows.columns


def _leaf_dtype(feature: Any) -> str:
    """Return the type of the numbers in a column, or in its lists; nothing where it has none."""
    while hasattr(feature, "feature"):
        feature = feature.feature
    dtype = str(getattr(feature, "dtype", ""))
    return dtype if re.fullmatch(r"(u?int|float)\d+", dtype) else ""
