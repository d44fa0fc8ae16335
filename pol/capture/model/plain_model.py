"""The model as a job takes it: what people wrap around it is taken off, and its numbers are FP32 on the processor."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim.swa_utils import AveragedModel

from pol.capture.constants.sparse import make_buffers_dense
from pol.errors import JobError

_WRAPPERS = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
}
"""Kinds of torch that run a module in another way, with the name of the module."""


def plain_model(model: nn.Module) -> nn.Module:
    """Return the module itself, without ``torch.compile`` and ``nn.DataParallel`` around it."""
    while (name := _WRAPPERS.get(type(model).__name__)) and type(model).__module__.startswith("torch."):
        model = getattr(model, name)
    return model


def prepare_model(model: object, tell: Callable[[str], None]) -> nn.Module:
    """Return the module itself, whose numbers were made those of a job in place where they were others.

    Raises JobError when there is no module, or one without values.
    """
    if isinstance(model, AveragedModel):
        reason = "is an AveragedModel, and a job keeps the moving average itself"
        raise JobError("model", reason, "give the model, and ema=0.999 (the share that stays)")
    if isinstance(model, torch.jit.ScriptModule):
        reason = "is compiled by torch.jit, which cannot be captured"
        raise JobError("model", reason, "give the module from which it was made")
    if isinstance(model, nn.Module):
        make_buffers_dense(plain_model(model), tell)
    plain = module_with_values(model)
    devices = sorted({t.device.type for t in own_tensors(plain).values()} - {"cpu"})
    if devices:
        tell(f"the model is moved from {devices[0]} to the processor's memory")
        plain.cpu()
    make_numbers_of_jobs(plain, tell)
    return plain


def own_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and buffers, each once, under the first of its names."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def module_with_values(model: object) -> nn.Module:
    """Return the module itself; JobError when there is none, or one whose tensors no job can have."""
    if not isinstance(model, nn.Module):
        reason = f"is a {type(model).__name__}"
        raise JobError("model", reason, "give a torch.nn.Module")
    plain = plain_model(model)
    for name, tensor in own_tensors(plain).items():
        if tensor.is_meta or is_lazy(tensor):
            remedy = "make the model with values; a lazy layer gets them from a batch, model(x)"
            raise JobError(f"model.{name}", "has no values yet", remedy)
        if tensor.is_complex() or tensor.is_quantized or tensor.layout != torch.strided:
            reason = f"is {tensor.dtype} ({tensor.layout})"
            raise JobError(f"model.{name}", reason, "use plain real numbers, as x.to_dense() has")
    return plain


def make_numbers_of_jobs(plain: nn.Module, tell: Callable[[str], None]) -> None:
    """Make other floating types FP32 and other integers 64 bits wide, in place.

    Parameters and buffers stay the same objects, because optimizers and tied names know them by that.
    """
    for wanted, names in (
        (torch.float32, "float32, which all jobs compute in"),
        (torch.int64, "int64, which a job's integers are"),
    ):
        others = [
            tensor
            for tensor in own_tensors(plain).values()
            if tensor.dtype not in (wanted, torch.bool) and tensor.is_floating_point() == wanted.is_floating_point
        ]
        if others:
            kinds = ", ".join(sorted({_plain_name(tensor) for tensor in others}))
            tell(f"the model's {kinds} become {names}")
        for tensor in others:
            tensor.data = tensor.data.to(wanted)
            if tensor.grad is not None:
                tensor.grad = tensor.grad.to(wanted)


def _plain_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
