"""The model as a job takes it: what people wrap around it is taken off, and its numbers are FP32 on the processor."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim.swa_utils import AveragedModel

from pol.errors import JobError

_WRAPPERS = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
}
"""Kinds of torch that run a module in another way, with the name of the module."""


def plain_model(model: nn.Module) -> nn.Module:
    """Return the module itself, without ``torch.compile`` and ``nn.DataParallel`` around it."""
    while (name := _WRAPPERS.get(type(model).__name__)) and type(model).__module__.startswith(
        "torch."
    ):
        model = getattr(model, name)
    return model


def prepare_model(model: object, tell: Callable[[str], None]) -> nn.Module:
    """Return the module itself, whose numbers were made FP32 in place where they were others.

    Parameters stay the same objects, because an optimizer knows them by that.

    Raises JobError when there is no module, or one without values.
    """
    if isinstance(model, AveragedModel):
        reason = "is an AveragedModel, and a job keeps the moving average itself"
        raise JobError("model", reason, "give the model, and ema=0.999 (the share that stays)")
    if isinstance(model, torch.jit.ScriptModule):
        reason = "is compiled by torch.jit, which cannot be traced"
        raise JobError("model", reason, "give the module from which it was made")
    if not isinstance(model, nn.Module):
        reason = f"is a {type(model).__name__}"
        raise JobError("model", reason, "give a torch.nn.Module")
    plain = plain_model(model)
    tensors = [*plain.named_parameters(), *plain.named_buffers()]
    for name, tensor in tensors:
        if tensor.is_meta or is_lazy(tensor):
            remedy = "make the model with values; a lazy layer gets them from a batch, model(x)"
            raise JobError(f"model.{name}", "has no values yet", remedy)
        if tensor.is_complex() or tensor.is_quantized or tensor.is_sparse:
            reason = f"is {tensor.dtype} ({tensor.layout})"
            raise JobError(f"model.{name}", reason, "use plain real numbers")
    devices = sorted({t.device.type for _, t in tensors if t.device.type != "cpu"})
    if devices:
        tell(f"the model is moved from {devices[0]} to the processor's memory")
        plain.cpu()
    others = sorted(
        {_plain_name(t) for _, t in tensors if t.is_floating_point() and t.dtype != torch.float32}
    )
    if others:
        tell(f"the model's {', '.join(others)} become float32, which all jobs compute in")
        plain.float()
    return plain


def _plain_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
