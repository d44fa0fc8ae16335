"""Preparation of a model for a job: wrappers are removed, and the model's numbers become FP32 in the processor's
memory.
"""

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
"""Wrappers of torch around a module, with the attribute that holds the module."""


def plain_model(model: nn.Module) -> nn.Module:
    """Return the module itself, without wrappers such as ``torch.compile`` and ``nn.DataParallel``."""
    while (name := _WRAPPERS.get(type(model).__name__)) and type(model).__module__.startswith("torch."):
        model = getattr(model, name)
    return model


def prepare_model(model: object, tell: Callable[[str], None]) -> nn.Module:
    """Return the module itself, after converting its tensors in place to the dtypes of jobs.

    Raises JobError if ``model`` is not a module, or has tensors without values.
    """
    if isinstance(model, AveragedModel):
        reason = "is an AveragedModel, but a job computes the moving average itself"
        remedy = "give the model itself, and ema=0.999 (the share of the old average that stays in each step)"
        raise JobError("model", reason, remedy)
    if isinstance(model, torch.jit.ScriptModule):
        reason = "is compiled by torch.jit, which cannot be captured"
        raise JobError("model", reason, "give the torch.nn.Module from which it was compiled")
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
    """Return the parameters and buffers, each once, by the first of its names."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def module_with_values(model: object) -> nn.Module:
    """Return a model without its wrappers; raise JobError if a job cannot use it.

    It must be a module of torch. All its tensors must have values, be dense, and contain real numbers.
    """
    if not isinstance(model, nn.Module):
        reason = f"is a {type(model).__name__}, not a torch.nn.Module"
        raise JobError("model", reason, "give a torch.nn.Module, such as torch.nn.Linear(4, 2)")
    plain = plain_model(model)
    for name, tensor in own_tensors(plain).items():
        if tensor.is_meta or is_lazy(tensor):
            remedy = "create the model on the CPU; if it has lazy layers, call it once with a batch, model(x)"
            raise JobError(f"model.{name}", "has no values yet", remedy)
        if tensor.is_complex() or tensor.is_quantized or tensor.layout != torch.strided:
            reason = f"is {tensor.dtype} ({tensor.layout}), and a job has only dense tensors of real numbers"
            raise JobError(f"model.{name}", reason, "use a dense tensor of real numbers, such as x.to_dense()")
    return plain


def make_numbers_of_jobs(plain: nn.Module, tell: Callable[[str], None]) -> None:
    """Convert floating-point tensors to FP32 and integer tensors to 64 bits, in place.

    Parameters and buffers stay the same Python objects, because optimizers and tied names refer to these objects.
    """
    for wanted, names in (
        (torch.float32, "float32, in which all jobs compute"),
        (torch.int64, "int64, the dtype of all integers in a job"),
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
