"""Weights of a Hugging Face model, from the safetensors file (or its parts) that ``save_pretrained`` writes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from host.foreign_json import read_json
from pol.capture.reports.reasons import first_line
from pol.errors import JobError

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
_INDEX_TOKENS = 2**20
"""Largest number of brackets, commas and colons of an index; it has two per tensor."""
_REMEDY = f"save the model with model.save_pretrained(folder), which writes {WEIGHTS}"


def load_saved(model: nn.Module, given: Path | None, folder: Path, tell: Callable[[str], None]) -> None:
    """Load saved weights into a model. The weights come from ``given``. If ``given`` is None, they come from
    ``folder``, if it has weights.

    ``given`` is a file, an index of parts, or a folder. A file contains tied weights only once, and its names may lack
    the prefix of the whole model. Raises JobError if a tensor of the model is missing.
    """
    place = folder if given is None else given
    file = _in_folder(place) if place.is_dir() else given
    if file is None:
        if given is not None:
            raise JobError("weights", f"{given} holds no weights", f"give a {WEIGHTS} or its folder")
        return
    tell(f"weights of {file}")
    tensors = _read_parts(file) if file.suffix == ".json" else _read(file)
    _put(model, tensors, file.name, tell)


def _in_folder(folder: Path) -> Path | None:
    """Return the path of the weights in a folder; None if it has no weights.

    Raises JobError if the folder has weights only in a format that is not read.
    """
    for name in (WEIGHTS, INDEX):
        if (folder / name).is_file():
            return folder / name
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix in _PICKLED and path.stem.startswith(("pytorch_model", "tf_model", "flax_model")):
            raise _pickled(path)
    return None


def _pickled(path: Path) -> JobError:
    reason = f"{path} is not a safetensors file, and reading it could run code"
    return JobError("weights", reason, _REMEDY)


def _read(path: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    if path.suffix in _PICKLED:
        raise _pickled(path)
    try:
        return load_file(str(path))
    # the library has an error class of its own, which is not an OSError
    except Exception as error:
        reason = f"{path} holds no weights: {first_line(error)}"
        raise JobError("weights", reason, f"give a {WEIGHTS}, or copy it again") from error


def _read_parts(index: Path) -> dict[str, torch.Tensor]:
    remedy = f"give the {INDEX} that save_pretrained writes"
    try:
        written: Any = read_json(index.read_bytes(), _INDEX_TOKENS)
    except OSError as error:
        raise JobError("weights", f"{index} cannot be read: {error.strerror}", remedy) from error
    except ValueError as error:
        raise JobError("weights", f"{index} is not JSON: {error}", remedy) from error
    names = written.get("weight_map") if isinstance(written, dict) else None
    parts = sorted({str(part) for part in names.values()}) if isinstance(names, dict) else []
    if not parts or any(Path(part).name != part for part in parts):
        raise JobError("weights", f"{index} does not list files of its own folder", remedy)
    return {name: value for part in parts for name, value in _read(index.parent / part).items()}


def _put(model: nn.Module, given: Mapping[str, torch.Tensor], file: str, tell: Callable[[str], None]) -> None:
    prefix = getattr(model, "base_model_prefix", "")
    own = model.state_dict(keep_vars=True)
    if prefix and not any(name in own for name in given):
        given = {f"{prefix}.{name}": tensor for name, tensor in given.items()}
    for name, tensor in given.items():
        if name in own and tensor.shape != own[name].shape:
            reason = f"{name} has the shape {list(tensor.shape)} in {file} and {list(own[name].shape)} in the model"
            raise JobError("weights", reason, "give the weights that belong to this configuration")
    known = {name: tensor for name, tensor in given.items() if name in own}
    written = {id(own[name]) for name in known}
    for name, tensor in own.items():
        if id(tensor) not in written:
            raise JobError("weights", f"{file} lacks {name}", "give the weights of the whole model")
    if others := [name for name in given if name not in known]:
        tell(f"{len(others):,} tensors of {file} are not in the model, such as {others[0]}")
    model.load_state_dict(known, strict=False)
