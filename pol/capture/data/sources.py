"""Conversion of arrays, files, and data sets of torch and Hugging Face into the columns of a job.

Rows are converted a few at a time, and large columns are in files, so that data need not fit into memory.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from pol.capture.author.spec import JobSpec, RowsInOrder, WeightedRows
from pol.capture.data.columns import (
    AT_ONCE,
    TARGETS,
    Columns,
    ColumnWriter,
    Progress,
    Scratch,
    array_of,
    check_finite,
    fitting,
    slices,
    target_of,
    too_large,
)
from pol.capture.data.contents import GAPS, no_numbers
from pol.capture.data.files import KNOWN, array_file, columns_of_table, read_file, table_reader
from pol.capture.data.loaders import STREAM, open_loader
from pol.capture.data.readers import class_folders
from pol.capture.data.sampling import sampling_of
from pol.errors import JobError
from pol.job.sampling import Sampling
from pol.names import column_name
from pol.state.arrays import Array
from pol.values import MAX_NAME

_LONGEST = MAX_NAME - len("batch.")
_PAIR = ("x", "y")
_CHANGES_SHOWN = 3
"""Largest number of columns that are reported one by one if their types change in the same way."""


@dataclass(frozen=True)
class JobData:
    """Columns of a job's training data and of its holdout, and the order of the training rows."""

    train: Columns
    holdout: Columns
    sampling: Sampling


def read_data(spec: JobSpec, scratch: Scratch, tell: Progress) -> JobData:
    """Read the data of a job; a JobError names the part or the column that cannot be used."""
    train, order = _opened(spec.train, "train", tell)
    if spec.sampling is not None:
        if isinstance(order, WeightedRows):
            reason = "is given, but the DataLoader of train already draws rows by weight"
            raise JobError("sampling", reason, "leave out sampling, or the sampler of the loader")
        order = spec.sampling
    holdout, _ = _opened(spec.holdout, "holdout", tell)
    _check_classes(train, holdout)
    columns = read_columns(train, "train", scratch, tell)
    sampling, columns = sampling_of(order, columns, tell)
    return JobData(columns, read_columns(holdout, "holdout", scratch, tell), sampling)


def _check_classes(train: object, holdout: object) -> None:
    """Refuse two folders of images with different classes, whose numbers would not agree."""
    folders = [Path(part) for part in (train, holdout) if isinstance(part, str | Path)]
    if len(folders) < 2 or not all(folder.is_dir() for folder in folders):
        return
    names = [class_folders(folder) for folder in folders]
    if names[0] != names[1]:
        first, second = (", ".join(each) or "none" for each in names)
        reason = f"its classes are {second}, but those of train are {first}"
        raise JobError(
            "holdout", reason, "give train and holdout the same class folders, because the folders number the classes"
        )


def _opened(source: object, field: str, tell: Progress) -> tuple[object, WeightedRows | RowsInOrder | None]:
    """Return the rows of a loader and their order; return any other source unchanged, without an order."""
    if not isinstance(source, DataLoader):
        return source, None
    return open_loader(source, field, tell)


def read_columns(source: object, field: str, scratch: Scratch, tell: Progress) -> Columns:
    """Return the columns of ``train`` or ``holdout``, with floats as FP32 and integers in 64 bits.

    ``source`` is a file, a data set with a length, or a mapping from names of columns to arrays, tensors, lists or
    files.

    Raises JobError, which names the column, if a column is not one array of numbers with a row per sample.
    """
    reader = None
    if isinstance(source, str | Path):
        reader = table_reader(Path(source))
        source = read_file(Path(source), field, scratch, tell)
    if isinstance(source, IterableDataset):
        raise JobError(field, *STREAM)
    source = _joined(source, field)
    if isinstance(source, TensorDataset):
        source = _named(source.tensors, field)
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        source = columns_of_table(source, field)
    if isinstance(source, Mapping):
        if any(hasattr(part, "column_names") for part in source.values()):
            raise JobError(field, "has several splits", 'give one split, such as data["train"]')
        columns = _all_converted(source, field, reader, scratch, tell)
    elif hasattr(source, "column_names") and hasattr(source, "with_format"):
        columns = _hugging_face(source, field, scratch, tell)
    elif hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        columns = _items(source, field, scratch, tell)
    else:
        reason = f"is a {type(source).__name__}, which is not a kind of data that a job reads"
        raise JobError(field, reason, f"give columns, a data set with a length, or a file ({KNOWN})")
    for name, column in columns.items():
        where = f"{field}.{name}"
        if not str(name) or not str(name).isprintable():
            reason = "its name is empty or has characters that cannot be printed"
            raise JobError(where, reason, "rename the column")
        if len(column_name(str(name))) > _LONGEST:
            reason = f"its name has more than {_LONGEST} characters in a job"
            raise JobError(where, reason, "give the column a shorter name")
        check_finite(column, where)
    return {str(name): columns[name] for name in sorted(columns, key=str)}


def _all_converted(
    source: Mapping[Any, Any], field: str, reader: str | None, scratch: Scratch, tell: Progress
) -> Columns:
    """Return all columns in dtypes that jobs support.

    A JobError describes the first unusable column and names the other unusable ones.
    """
    columns, errors = {}, []
    changes: dict[str, list[object]] = {}
    for name in source:
        try:
            columns[name], column_changes = _converted(source[name], f"{field}.{name}", scratch)
        except JobError as error:
            errors.append(error)
            continue
        for change in column_changes:
            changes.setdefault(change, []).append(name)
    for change, changed in changes.items():
        _say_change(field, changed, change, tell)
    if not errors:
        return columns
    first, *others = errors
    reason = first.reason
    if others:
        names = ", ".join(error.field.removeprefix(f"{field}.") for error in others)
        reason = f"{reason}; other columns that cannot be used: {names}"
    remedy = first.remedy
    if reader and "table[" in remedy:
        remedy = f"read the file in the job file, table = {reader}, and give train=table; {remedy}"
    raise JobError(first.field, reason, remedy)


def _say_change(field: str, names: Sequence[object], change: str, tell: Progress) -> None:
    """Report a change of type: one line per changed column, or a single line if there are many."""
    if len(names) > _CHANGES_SHOWN:
        tell(f"{field}: {change} in {len(names)} columns, {names[0]} to {names[-1]}")
        return
    for name in names:
        tell(f"{field}.{name}: {change}")


def _joined(source: object, field: str) -> object:
    """Return a tuple of arrays as named columns, and a table of another library as a pandas table.

    Return any other source unchanged. Raises JobError for sources that cannot be read, such as a list of paths.
    """
    if isinstance(source, list | tuple) and source and isinstance(source[0], str | Path):
        reason = "is a list of paths"
        remedy = "give one file, or join them: pandas.concat([pandas.read_csv(path) for path in paths])"
        raise JobError(field, reason, remedy)
    if hasattr(source, "DESCR") and hasattr(source, "data") and hasattr(source, "target"):
        reason = "is a data set object of scikit-learn"
        raise JobError(field, reason, 'give its arrays: {"x": data.data, "y": data.target}')
    if isinstance(source, tuple) and all(getattr(part, "ndim", 0) for part in source):
        return _named(source, field)
    if hasattr(source, "to_pandas") and not hasattr(source, "with_format"):
        return source.to_pandas()
    return source


def _named(parts: Sequence[Any], field: str) -> dict[str, Any]:
    """Return the unnamed parts of an item under the names x and y."""
    if len(parts) > len(_PAIR):
        reason = f"has items of {len(parts)} parts without names"
        raise JobError(field, reason, 'give dictionaries, such as {"x": x, "y": y, "w": w}')
    return dict(zip(_PAIR, parts, strict=False))


def _converted(value: object, where: str, scratch: Scratch) -> tuple[Array, list[str]]:
    """Return one column in a dtype that jobs support, and a description of each change of its type.

    An array that already has such a dtype is returned unchanged.
    """
    changes = []
    if isinstance(value, str | Path):
        value = array_file(Path(value), where)
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.dtype == torch.bfloat16:
            changes.append("bfloat16 becomes float32")
            value = value.float()
    has_dtype = hasattr(value, "dtype")
    array = array_of(value, where)
    target = target_of(array, where, 1)
    if array.dtype == target and array.flags.c_contiguous:
        return array, changes
    if has_dtype and array.dtype != target:
        changes.append(f"{array.dtype} becomes {target}")
    column = scratch.array(target, array.shape)
    # a number too large for FP32 becomes infinity, which check_finite reports
    with np.errstate(over="ignore"):
        for rows in slices(len(array), array[:1].nbytes):
            column[rows] = fitting(array[rows], where)
    return column, changes


def _items(source: Any, field: str, scratch: Scratch, tell: Progress) -> Columns:
    """Read each item of a map-style data set once."""
    rows = ColumnWriter(len(source), field, scratch, tell)
    for number in range(len(source)):
        try:
            item = source[number]
        except JobError:
            raise
        # the consumer's own code
        except Exception as error:
            reason = f"item {number} cannot be read: {type(error).__name__}: {error}"
            raise JobError(field, reason, "correct the data set's __getitem__") from error
        parts = item if isinstance(item, Mapping) else _named(_parts(item), field)
        rows.put(number, {name: _one_row(part, f"{field}.{name}") for name, part in parts.items()})
    tell(f"{field}: {len(source):,} items, each read once (random transforms are drawn only once)")
    return rows.columns


def _parts(item: object) -> Sequence[Any]:
    return item if isinstance(item, tuple | list) else (item,)


def _one_row(part: object, where: str) -> Array:
    if hasattr(part, "getbands"):
        remedy = "give the data set transform=torchvision.transforms.ToTensor()"
        raise JobError(where, "is an image, not an array of numbers", remedy)
    if isinstance(part, torch.Tensor):
        part = part.detach().cpu()
        part = part.float() if part.dtype == torch.bfloat16 else part
    return array_of(part, where)[np.newaxis]


def _hugging_face(source: Any, field: str, scratch: Scratch, tell: Progress) -> Columns:
    """Read a ``datasets.Dataset`` by its own methods. Many rows are read at a time, unless the user has set a
    transform.
    """
    if not hasattr(source, "__len__"):
        raise JobError(field, *STREAM)
    form = source.format
    # the data set has a transform, or a choice of types
    if form["format_kwargs"]:
        return _items(source, field, scratch, tell)
    shown = None if form["output_all_columns"] else form["columns"]
    plain = source.with_format("numpy", columns=shown)
    dtypes = {name: _leaf_dtype(feature) for name, feature in source.features.items()}
    rows = ColumnWriter(len(source), field, scratch, tell)
    for first in range(0, len(source), AT_ONCE):
        # a number too large for FP32 becomes infinity, which check_finite reports
        with np.errstate(over="ignore"):
            part = plain[first : first + AT_ONCE]
        for name, array in part.items():
            where = f"{field}.{name}"
            if array_of(array, where).dtype.kind not in TARGETS:
                raise _of_data_set(np.asarray(array), where, name)
            # the library converts to signed integers, so a number that is too large is now negative
            if dtypes[name] == "uint64" and array.size and array.min() < 0:
                raise too_large(where)
            if not first and dtypes[name] not in ("", str(array.dtype)):
                tell(f"{where}: {dtypes[name]} becomes {array.dtype}")
        rows.put(first, part)
    return rows.columns


def _of_data_set(array: Array, where: str, name: str) -> JobError:
    """Return the error for a column without numbers, with remedies for Hugging Face data sets."""
    error = no_numbers(array, where)
    remedy = f'convert it to numbers by data.map(…), or leave it out: data.remove_columns("{name}")'
    if array.dtype == object and "shape" in error.reason:
        remedy = (
            'pad and cut the rows, tokenizer(…, padding="max_length", truncation=True, max_length=128), '
            f'or leave it out: data.remove_columns("{name}")'
        )
    return JobError(where, error.reason, error.remedy if error.remedy == GAPS else remedy)


def _leaf_dtype(feature: Any) -> str:
    """Return the type of the numbers in a column or in its lists; "" if there are no numbers."""
    while hasattr(feature, "feature"):
        feature = feature.feature
    dtype = str(getattr(feature, "dtype", ""))
    return dtype if re.fullmatch(r"(u?int|float)\d+", dtype) else ""
