"""Files that other libraries read: tables as text, tensors of ``torch.save``, folders of images.

Nothing in a file is ever run: of what ``torch.save`` wrote only tensors are read, and pickles are refused.
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
"""What pandas calls the column without a name that its ``to_csv`` writes for the index."""
_IMAGES = frozenset((".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"))
"""Endings of images, those of torchvision's ``ImageFolder``."""
_SAVE = 'write tensors: torch.save({"x": x, "y": y}, path)'


def package(name: str, needs: str, field: str, remedy: str, extra: str = "data") -> Any:
    """Return a library that reads something; JobError, with what to install, where it is not there."""
    try:
        return import_module(name)
    except ImportError:
        whole = name.partition(".")[0]
        reason = f"reading {needs} needs the package {whole}"
        raise JobError(field, reason, f"install assay[{extra}], or {remedy}") from None


# --- tables --------------------------------------------------------------------------------------


def read_table(path: Path, field: str, tell: Progress) -> Any:
    """Return the table of a text file as pandas reads it; JobError where its first line names no columns."""
    pandas = package("pandas", path.name, field, "write the columns with np.savez")
    _check_size(path, field)
    if path.suffix in (".json", ".jsonl"):
        return _json(pandas, path)
    # types are those of whole columns
    separator = "\t" if path.suffix == ".tsv" else ","
    table = pandas.read_csv(path, sep=separator, low_memory=False)
    names = [str(name) for name in table.columns]
    if names and all(map(_is_number, names)):
        remedy = f'give pandas.read_csv("{path.name}", header=None, names=["a", "b", …])'
        raise JobError(field, f"the first line of {path.name} has numbers, and no names", remedy)
    if len(names) == 1 and (other := next((each for each in ";\t|" if each in names[0]), "")):
        remedy = f'give pandas.read_csv("{path.name}", sep={other!r})'
        raise JobError(field, f"{path.name} separates its columns by {other!r}", remedy)
    if names[:1] == [_INDEX]:
        tell(f"{field}: the index that to_csv wrote into {path.name} is left out")
        table = table.iloc[:, 1:]
    return table


def _json(pandas: Any, path: Path) -> Any:
    """Return the table of a file that has one object per line, or one list of objects, or one object of lists."""
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
        reason = f"{path.name} has {size:,} bytes, and a job has {LIMITS.data_size:,} of data at most"
        raise JobError(field, reason, "take a part of it")


# --- torch.save ----------------------------------------------------------------------------------


def read_saved(path: Path, field: str) -> Any:
    """Return the tensors that ``torch.save`` wrote, by name; a tensor or a pair of them is x, or x and y."""
    found = _loaded(path, field)
    if isinstance(found, torch.Tensor):
        return {"x": found}
    if isinstance(found, tuple | list) and 1 <= len(found) <= 2:
        found = dict(zip("xy", found, strict=False))
    if not isinstance(found, Mapping):
        raise JobError(field, f"{path.name} holds a {type(found).__name__}", _SAVE)
    for name, tensor in found.items():
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            kind = type(tensor).__name__
            if isinstance(tensor, torch.Tensor):
                kind = "tensor that is not dense"
            raise JobError(f"{field}.{name}", f"is no tensor of numbers, it is a {kind}", _SAVE)
    return found


def saved_array(path: Path, where: str) -> torch.Tensor:
    """Return the one tensor that ``torch.save`` wrote to a file; JobError where there is another thing."""
    found = _loaded(path, where)
    if not isinstance(found, torch.Tensor):
        reason = f"{path.name} holds a {type(found).__name__}, and a column is one tensor"
        raise JobError(where, reason, f'give the file as a whole, train="{path.name}"')
    return found


def _loaded(path: Path, field: str) -> Any:
    _check_size(path, field)
    # a file of the older form cannot be mapped
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    try:
        with warnings.catch_warnings(action="ignore"):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive)
    except Exception as error:
        reason = f"{path.name} holds more than tensors, and code in a file is never run"
        if "Unsupported" not in str(error) and "weights_only" not in str(error):
            said = first_line(error).partition(". ")[0]
            reason = f"{path.name} cannot be read, it may be damaged or cut off: {said}"
        raise JobError(field, reason, _SAVE) from error


# --- images --------------------------------------------------------------------------------------


def class_folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder: those are the classes, numbered in this order."""
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())


def read_images(folder: Path, field: str, scratch: Scratch, tell: Progress) -> Columns:
    """Return the images in a folder of class folders, as torchvision's ``ImageFolder`` with ``ToTensor`` has them.

    ``x`` has the shape [3, height, width] with numbers from 0 to 1, ``y`` is the number of the class.
    """
    classes = class_folders(folder)
    if (folder / "dataset_info.json").is_file():
        remedy = f'give datasets.load_from_disk("{folder.name}")'
        raise JobError(field, f"{folder} is what save_to_disk of Hugging Face wrote", remedy)
    if not classes:
        reason = f"{folder} has no folders in it, one for each class"
        raise JobError(field, reason, f"give a file, or folders as {folder.name}/cat/1.png")
    images = [(path, y) for y, name in enumerate(classes) for path in _in_folder(folder / name)]
    if empty := [name for y, name in enumerate(classes) if all(y != of for _, of in images)]:
        reason = f"{folder} has no images in {', '.join(empty)}"
        raise JobError(field, reason, "take such folders away, in train and holdout alike")
    library = package("PIL.Image", "images", field, "give arrays", extra="models")
    rows = ColumnWriter(len(images), field, scratch, tell)
    first: Array | None = None
    for number, (path, y) in enumerate(images):
        pixels = _pixels(library, path, field)
        first = pixels if first is None else first
        if pixels.shape != first.shape:
            sizes = [f"{shape[2]} x {shape[1]}" for shape in (pixels.shape, first.shape)]
            reason = f"{path.relative_to(folder)} has {sizes[0]} pixels, the first image {sizes[1]}"
            remedy = (
                f'give them one size: torchvision.datasets.ImageFolder("{folder.name}", '
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
        remedy = "take it away, or copy it again from where it was whole"
        raise JobError(field, reason, remedy) from error
    return pixels.transpose(2, 0, 1) / np.float32(255)
