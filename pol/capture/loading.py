"""A trained state back into the model that it came from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import nn

from pol.capture.model.plain_model import make_numbers_of_jobs, module_with_values, own_tensors, plain_model
from pol.capture.optim.optimizers import AVERAGE, VELOCITY
from pol.errors import JobError, StateError
from pol.names import ModelNames
from pol.state.arrays import Array
from pol.state.tensors import load_safetensors

MODEL_FILE = "model.safetensors"
_Model = TypeVar("_Model", bound=nn.Module)


class HasState(Protocol):
    """What was fetched: it has the state that a job left.

    Example::

        def load_newest(results: list[assay.HasState]) -> None:
            assay.load_result(model, results[-1])
    """

    @property
    def state(self) -> Mapping[str, Array]:
        """Tensors by name."""


def load_result(model: _Model, path: "Path | str | HasState", ema: bool = False) -> _Model:
    """Put a result into the model that its job file makes, and return the model.

    ``path`` is what ``assay order result`` or ``assay job run`` wrote, a folder with a ``model.safetensors``, or what
    was fetched. It has each tensor once, under the first of its names, and buffers that a ``state_dict`` leaves out.
    With ``ema``, weights are the moving averages that the job kept; whatever has none (buffers, what is frozen) is as
    it is without. A model in bfloat16, half or double precision becomes FP32, as it did in the job, so that it has the
    bits of the result.

    Raises JobError when the file cannot be read, or is not of this model.

    Example::

        model = assay.load_result(make_model(), "model.safetensors")
    """
    if not isinstance(path, Path | str):
        fetched: object = getattr(path, "state", None)
        if not isinstance(fetched, Mapping):
            reason = f"a {type(path).__name__} holds no result"
            raise JobError("result", reason, "give load_result(model, path)")
        return _load_state(model, ModelNames(fetched), "the result", ema)
    file = Path(path) / MODEL_FILE if Path(path).is_dir() else Path(path)
    try:
        state = load_safetensors(file)
    except OSError as error:
        reason = f"{file} cannot be read: {error.strerror}"
        raise JobError("result", reason, "give the file that a result was written to") from None
    except StateError as error:
        remedy = "give the file that a result was written to"
        raise JobError("result", f"{file} is no safetensors: {error.reason}", remedy) from None
    return _load_state(model, state, str(file), ema)


def _load_state(model: _Model, state: Mapping[str, Array], file: str, ema: bool) -> _Model:
    if ema:
        averages = {name.removeprefix(AVERAGE): array for name, array in state.items() if name.startswith(AVERAGE)}
        if not averages:
            reason = f"{file} has no averages"
            raise JobError("result", reason, "give ema= to the JobSpec, or leave it out here")
        state = {**state, **averages}
    plain = module_with_values(model)
    _check_same_tensors(own_tensors(plain), state, file)
    make_numbers_of_jobs(plain, lambda text: None)
    load_into(plain, state)
    return model


def _check_same_tensors(own: Mapping[str, torch.Tensor], state: Mapping[str, Array], file: str) -> None:
    remedy = "make the model as the job file does"
    for name, tensor in own.items():
        if name not in state:
            raise JobError("result", f"{file} has no {name}", remedy)
        if state[name].shape != tuple(tensor.shape):
            reason = f"{name} is {list(state[name].shape)} in it, {list(tensor.shape)} in the model"
            raise JobError("result", reason, remedy)
    for name in state:
        if name not in own and not name.startswith((VELOCITY, AVERAGE)):
            raise JobError("result", f"{file} has {name}, which the model has not", remedy)


def load_into(model: nn.Module, state: Mapping[str, Array]) -> None:
    """Put a trained global state into the original model (what optimizers keep in it is left out).

    A tensor that the model holds under two names is in the state once, and buffers that a ``state_dict`` leaves out
    are in it too, so each tensor goes to its place by name.

    Raises KeyError when the model has a tensor that the state lacks.
    """
    with torch.no_grad():
        for name, tensor in own_tensors(plain_model(model)).items():
            if 0 in tensor.stride():
                # one element in many places, to which nothing can be written
                tensor.data = tensor.contiguous()
            tensor.copy_(torch.from_numpy(np.array(state[name])))
