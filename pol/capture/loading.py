"""Loading of a trained state into the model that it came from."""

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
    """Any object with the final state of a job, such as a fetched result.

    Example::

        def load_newest(results: list[assay.HasState]) -> None:
            assay.load_result(model, results[-1])
    """

    @property
    def state(self) -> Mapping[str, Array]:
        """Tensors by name."""


def load_result(model: _Model, path: "Path | str | HasState", ema: bool = False) -> _Model:
    """Load a result into the model that its job file makes, and return the model.

    ``path`` is a file that ``assay order result`` or ``assay job run`` wrote, a folder with a ``model.safetensors``, or
    a fetched result. The result contains each tensor once, under the first of its names. It also contains the buffers
    that a ``state_dict`` leaves out. If ``ema`` is true, the weights are the moving averages of the job. Tensors
    without an average (buffers, frozen weights) do not depend on ``ema``. A model in bfloat16, half or double precision
    becomes FP32, as in the job, so that the model has exactly the bits of the result.

    Raises JobError if the file cannot be read, or belongs to another model.

    Example::

        model = assay.load_result(make_model(), "model.safetensors")
    """
    if not isinstance(path, Path | str):
        fetched: object = getattr(path, "state", None)
        if not isinstance(fetched, Mapping):
            reason = f"a {type(path).__name__} is not a result"
            raise JobError("result", reason, 'give a path or a fetched result: load_result(model, "model.safetensors")')
        return _load_state(model, ModelNames(fetched), "the result", ema)
    file = Path(path) / MODEL_FILE if Path(path).is_dir() else Path(path)
    try:
        state = load_safetensors(file)
    except OSError as error:
        reason = f"{file} cannot be read: {error.strerror}"
        raise JobError("result", reason, f"give the {MODEL_FILE} of a result, or its folder") from None
    except StateError as error:
        remedy = f"give the {MODEL_FILE} of a result, or its folder"
        raise JobError("result", f"{file} is not a safetensors file: {error.reason}", remedy) from None
    return _load_state(model, state, str(file), ema)


def _load_state(model: _Model, state: Mapping[str, Array], file: str, ema: bool) -> _Model:
    if ema:
        averages = {name.removeprefix(AVERAGE): array for name, array in state.items() if name.startswith(AVERAGE)}
        if not averages:
            reason = f"{file} has no moving averages"
            raise JobError("result", reason, "leave out ema=True here, or train with JobSpec(…, ema=0.999)")
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
            reason = (
                f"{name} has the shape {list(state[name].shape)} in the result and {list(tensor.shape)} in the model"
            )
            raise JobError("result", reason, remedy)
    for name in state:
        if name not in own and not name.startswith((VELOCITY, AVERAGE)):
            raise JobError("result", f"{file} has {name}, which the model lacks", remedy)


def load_into(model: nn.Module, state: Mapping[str, Array]) -> None:
    """Load a trained global state into the original model; tensors of optimizers in the state are left out.

    A tensor with two names in the model is in the state once, and the state has buffers that a ``state_dict`` leaves
    out. So each tensor is copied by its name in the state.

    Raises KeyError if the state lacks a tensor of the model.
    """
    with torch.no_grad():
        for name, tensor in own_tensors(plain_model(model)).items():
            if 0 in tensor.stride():
                # an expanded tensor: many indices share one element, so it cannot be written to
                tensor.data = tensor.contiguous()
            tensor.copy_(torch.from_numpy(np.array(state[name])))
