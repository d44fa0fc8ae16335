"""What torch says when a model cannot be traced or computed, in the words of the person who wrote it."""

import re
from collections.abc import Sequence

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from domain.errors import Expected


class NotInAJob(Expected):
    """What somebody writes that no step can have: why, and what to write instead."""


CONTROL_FLOW = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)
"""What torch raises where it would need the value of a tensor."""
VALUES = (
    "what is computed there depends on values of a tensor (an if, a while, .item())",
    "use torch.where or a mask: a step has fixed shapes and no control flow that depends on the values of tensors",
)
"""Why a number that depends on values is not there, and what to write."""
_DEVICE = (
    "tensors go to a GPU there, and a job says nothing of devices",
    "leave .cuda() and device= out, or say device=x.device",
)
_OBJECT = re.compile(r" ?<[^<>]* at 0x[0-9a-f]+>")
"""An object of Python as it prints itself, which says nothing to a person."""
_MOST = 240
"""Characters of what a library says in several lines."""
_SAID: dict[str, tuple[str, str]] = {
    "derivative for": (
        "torch has no gradient of what is called there",
        "compute it from x.detach(), which needs none, or in another way",
    ),
    ".numpy() is not supported": (
        "NumPy computes there, which the job would not know of",
        "use the function of torch, or leave it out if it is only logged",
    ),
    "NVIDIA driver": _DEVICE,
    "not compiled with CUDA": _DEVICE,
    "support for mps devices": _DEVICE,
    "format string passed to FakeTensor": VALUES,
    "unhashable type: non-nested SymInt": VALUES,
    "a leaf Variable that requires grad is being used in an in-place operation": (
        "a weight is changed in place there, and its gradient is asked for",
        "do it under torch.no_grad(), or make another tensor of it, as w = w + 1",
    ),
    "has been modified by an inplace operation": (
        "a tensor that a gradient needs is changed in place after it",
        "make another tensor of it, as h = h + 1, or change a copy, as h = h.clone() and then h += 1",
    ),
    "does not require grad and does not have a grad_fn": (
        "a gradient is asked for there of what depends on no weight that is trained",
        "leave .detach(), torch.no_grad() and argmax out of what is differentiated",
    ),
    "HigherOrderOperator": (
        "an operation that takes functions is called there, as torch's scan or cond is",
        "use assay.repeat for a loop and torch.where for a choice",
    ),
}
"""Part of what torch says, to what it means here and what to write instead."""


_PRIVATE = {
    "_local_scalar_dense": "Tensor.item",
    "_unique2": "torch.unique",
    "unique_dim": "torch.unique",
    "unique_consecutive": "torch.unique_consecutive",
    "unique_dim_consecutive": "torch.unique_consecutive",
    "_fft_r2c": "torch.fft.rfft",
    "_fft_c2c": "torch.fft.fft",
    "_fft_c2r": "torch.fft.irfft",
    "index": "x[index]",
    "index_put": "x[index] = value",
    "_index_put_impl": "x[index] = value",
    "_thnn_fused_lstm_cell": "torch.nn.LSTMCell",
    "_thnn_fused_gru_cell": "torch.nn.GRUCell",
    "_scaled_dot_product_attention_math": "torch.nn.functional.scaled_dot_product_attention",
    "_embedding_bag": "torch.nn.functional.embedding_bag",
    "sym_size": "Tensor.size",
    "sym_numel": "Tensor.numel",
    "sym_stride": "Tensor.stride",
}
"""Operations of torch that have other names where people call them."""
_AROUND = re.compile(r"^_+(?=[a-z])|(_with_indices|_legit|_forward|_ex|_helper|_copy|_impl|_)$")
_FUNCTIONALS = {
    "upsample_": "interpolate",
    "grid_sampler": "grid_sample",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "native_batch_norm": "batch_norm",
    "scaled_dot_product": "scaled_dot_product_attention",
    "fractional_max_pool": "fractional_max_pool2d",
}
"""How names begin of functions that have several operations."""
_PARTS = ("linalg_", "fft_", "special_")


def called(operation: object) -> str:
    """Return what people call an operation of torch, as ``torch.scatter`` for ``aten.scatter.value_reduce``."""
    namespace, _, rest = str(operation).partition(".")
    if not rest:
        namespace, rest = "", namespace
    name = rest.split(".")[0]
    if name in _PRIVATE:
        return _PRIVATE[name]
    if "_backward" in name:
        return f"the gradient of {called(f'{namespace}.' + name.partition('_backward')[0])}"
    while (shorter := _AROUND.sub("", name)) != name:
        name = shorter
    if name in _PRIVATE:
        return _PRIVATE[name]
    for begin, function in _FUNCTIONALS.items():
        if name.startswith(begin):
            return f"torch.nn.functional.{function}"
    for part in _PARTS:
        if name.startswith(part):
            return f"torch.{part[:-1]}.{name.removeprefix(part)}"
    for place, prefix in (
        (torch, "torch"),
        (torch.nn.functional, "torch.nn.functional"),
        (torch.Tensor, "Tensor"),
    ):
        if hasattr(place, name):
            return f"{prefix}.{name}"
    return name if namespace in ("aten", "prims", "prim", "") else f"{namespace}.{name}"


def in_words(error: Exception, remedy: str) -> tuple[str, str]:
    """Return reason and remedy for an error of torch; its own words and ``remedy``, where no others are known."""
    if isinstance(error, NotInAJob):
        return error.reason, error.remedy
    if isinstance(error, CONTROL_FLOW):
        return VALUES
    text = str(error)
    for part, words in _SAID.items():
        if part in text:
            return words
    return first_line(error), remedy


def listed(texts: Sequence[str], most: int = 3) -> str:
    """Return some texts as a list in a sentence: the first ones, and how many more there are."""
    shown = ", ".join(texts[:most])
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"


def first_line(error: BaseException) -> str:
    """Return the first line of what a library says; its kind, where that is nothing."""
    line = _OBJECT.sub("", str(error).strip().split("\n")[0])
    return line.rstrip(".: ") or type(error).__name__


def in_a_line(error: BaseException) -> str:
    """Return all that a library says as one line; what is very long is cut."""
    text = _OBJECT.sub("", " ".join(str(error).split())).rstrip(".: ") or type(error).__name__
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
