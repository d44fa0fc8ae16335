"""Files that other libraries read: tables as text, tensors of ``torch.save``, folders of images.

Code in a file never runs: only the tensors in a file of ``torch.save`` are read, and pickles are refused.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pol.capture.data.columns import Columns, ColumnWriter, Progress, Scratch
from pol.capture.reports.reasons import first_line
from pol.errors import JobError
from pol.limits import LIMITS
from pol.state.arrays import Array

TABLES = (".csv", ".tsv", ".json", ".jsonl")
SAVED = (".pt", ".pth")
_INDEX = "Unnamed: 0"
"""Name that pandas gives to the unnamed column that ``to_csv`` writes for the index."""
_IMAGES = frozenset((".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"))
"""Endings of image files, as in torchvision's ``ImageFolder``."""
_SAVE = 'write only tensors: torch.save({"x": x, "y": y}, path)'


def package(name: str, needs: str, field: str, remedy: str, extra: str = "data") -> Any:
    """Return a library that reads files; if it is missing, raise a JobError that says what to install."""
    try:
        return import_module(name)
    except ImportError:
        whole = name.partition(".")[0]
        reason = f"reading {needs} needs the package {whole}"
        raise JobError(field, reason, f"install assay[{extra}], or {remedy}") from None


# --- tables --------------------------------------------------------------------------------------


def read_table(path: Path, field: str, tell: Progress) -> Any:
    """Return a text file as a pandas table; JobError if its first line does not name the columns."""
    pandas = package("pandas", path.name, field, "write the columns with np.savez")
    _check_size(path, field)
    if path.suffix in (".json", ".jsonl"):
        return _json(pandas, path)
    # without low_memory, pandas chooses one type for a whole column
    separator = "\t" if path.suffix == ".tsv" else ","
    table = pandas.read_csv(path, sep=separator, low_memory=False)
    names = [str(name) for name in table.columns]
    if names and all(map(_is_number, names)):
        remedy = f'give pandas.read_csv("{path.name}", header=None, names=["a", "b", …])'
        raise JobError(field, f"the first line of {path.name} has numbers instead of names", remedy)
    if len(names) == 1 and (other := next((each for each in ";\t|" if each in names[0]), "")):
        remedy = f'give pandas.read_csv("{path.name}", sep={other!r})'
        raise JobError(field, f"{path.name} separates its columns by {other!r}", remedy)
    if names[:1] == [_INDEX]:
        tell(f"{field}: the index column that to_csv wrote into {path.name} is left out")
        table = table.iloc[:, 1:]
    return table


def _json(pandas: Any, path: Path) -> Any:
    """Return the table of a file with one object per line, one list of objects, or one object of lists."""
    if path.suffix == ".jsonl":
        return pandas.read_json(path, lines=True, dtype=False)
    try:
        return pandas.read_json(path, dtype=False)
    except ValueError as error:
        if "Trailing data" not in str(error):
            raise
        return pandas.read_json(path, lines=True, dtype=False)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_size(path: Path, field: str) -> None:
    if (size := path.stat().st_size) > LIMITS.data_size:
        reason = f"{path.name} has {size:,} bytes, but a job has at most {LIMITS.data_size:,} bytes of data"
        raise JobError(field, reason, "give a file with fewer rows")


# --- torch.save ----------------------------------------------------------------------------------


def read_saved(path: Path, field: str) -> Any:
    """Return the tensors that ``torch.save`` wrote, by name.

    A single unnamed tensor gets the name x, and two get x and y.
    """
    content = _loaded(path, field)
    if isinstance(content, torch.Tensor):
        return {"x": content}
    if isinstance(content, tuple | list) and 1 <= len(content) <= 2:
        content = dict(zip("xy", content, strict=False))
    if not isinstance(content, Mapping):
        raise JobError(field, f"{path.name} holds a {type(content).__name__}", _SAVE)
    for name, tensor in content.items():
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            kind = type(tensor).__name__
            if isinstance(tensor, torch.Tensor):
                kind = "tensor that is not dense"
            raise JobError(f"{field}.{name}", f"is a {kind}, not a tensor of numbers", _SAVE)
    return content


def saved_array(path: Path, where: str) -> torch.Tensor:
    """Return the tensor that ``torch.save`` wrote to a file; JobError if the file holds anything else."""
    content = _loaded(path, where)
    if not isinstance(content, torch.Tensor):
        reason = f"{path.name} holds a {type(content).__name__}, but a column is one tensor"
        raise JobError(where, reason, f'give the file for all columns: train="{path.name}"')
    return content


def _loaded(path: Path, field: str) -> Any:
    _check_size(path, field)
    # files of the older format cannot be mapped
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    try:
        with warnings.catch_warnings(action="ignore"):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive)
    except Exception as error:
        reason = f"{path.name} holds more than tensors, and Assay never runs code in a file"
        if "Unsupported" not in str(error) and "weights_only" not in str(error):
            message = first_line(error).partition(". ")[0]
            reason = f"{path.name} cannot be read and may be damaged or cut off: {message}"
        raise JobError(field, reason, _SAVE) from error


# --- images --------------------------------------------------------------------------------------


def class_folders(folder: Path) -> list[str]:
    """Return the sorted names of the folders in a folder. They are the names of the classes, which are numbered in this
    order.
    """
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())


def read_images(folder: Path, field: str, scratch: Scratch, tell: Progress) -> Columns:
    """Return the images in a folder of class folders, as torchvision's ``ImageFolder`` with ``ToTensor`` does.

    ``x`` has the shape [3, height, width] with numbers from 0 to 1, ``y`` is the number of the class.
    """
    classes = class_folders(folder)
    if (folder / "dataset_info.json").is_file():
        remedy = f'give datasets.load_from_disk("{folder.name}")'
        raise JobError(field, f"{folder} was written by save_to_disk of Hugging Face", remedy)
    if not classes:
        reason = f"{folder} does not contain a folder for each class"
        raise JobError(field, reason, f"give a file, or put images into such folders: {folder.name}/cat/1.png")
    images = [(path, y) for y, name in enumerate(classes) for path in _in_folder(folder / name)]
    if empty := [name for y, name in enumerate(classes) if all(y != of for _, of in images)]:
        reason = f"{folder} has no images for the classes {', '.join(empty)}"
        raise JobError(field, reason, "remove these folders, in train and in holdout")
    library = package("PIL.Image", "images", field, "give arrays", extra="models")
    rows = ColumnWriter(len(images), field, scratch, tell)
    first: Array | None = None
    for number, (path, y) in enumerate(images):
        pixels = _pixels(library, path, field)
        first = pixels if first is None else first
        if pixels.shape != first.shape:
            sizes = [f"{shape[2]} x {shape[1]}" for shape in (pixels.shape, first.shape)]
            reason = f"{path.relative_to(folder)} has {sizes[0]} pixels, but the first image has {sizes[1]}"
            remedy = (
                f'resize all images: torchvision.datasets.ImageFolder("{folder.name}", '
                "transform=Compose([Resize((64, 64)), ToTensor()]))"
            )
            raise JobError(field, reason, remedy)
        rows.put(number, {"x": pixels[np.newaxis], "y": np.array([y])})
    numbered = ", ".join(f"{name} {y}" for y, name in enumerate(classes))
    tell(f"{field}: {len(images):,} images, x from 0 to 1; classes: {numbered}")
    return rows.columns


def _in_folder(folder: Path) -> Iterator[Path]:
    """Yield the images of a class, in the order of ``ImageFolder``."""
    for root, _, names in sorted(os.walk(folder, followlinks=True)):
        for name in sorted(names):
            if Path(name).suffix.lower() in _IMAGES:
                yield Path(root) / name


def _pixels(library: Any, path: Path, field: str) -> Array:
    try:
        with library.open(path) as image:
            pixels = np.asarray(image.convert("RGB"), np.float32)
    except Exception as error:
        reason = f"{path} cannot be read as an image: {first_line(error)}"
        remedy = "remove the file, or copy it again"
        raise JobError(field, reason, remedy) from error
    return pixels.transpose(2, 0, 1) / np.float32(255)
