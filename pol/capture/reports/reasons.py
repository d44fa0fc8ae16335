"""Texts for torch's errors about a model that cannot be captured or computed, in the words of the person who wrote the
model.
"""

import re
from collections.abc import Sequence

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from domain.errors import Expected


class NotInAJob(Expected):
    """The error that is raised if the consumer's code does something that a step cannot contain. It has the reason and
    a remedy.
    """


CONTROL_FLOW = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)
"""Errors that torch raises if it needs the value of a tensor during the capture."""
VALUES = (
    "the computation there depends on values of a tensor (an if, a while, .item())",
    "use torch.where or a mask: a step has fixed shapes and no control flow that depends on the values of tensors",
)
"""Reason and remedy if a number depends on the values of a tensor."""
_DEVICE = (
    "the code moves tensors to a GPU there, but a job does not choose devices",
    "leave out .cuda() and device=, or write device=x.device",
)
_OBJECT = re.compile(r" ?<[^<>]* at 0x[0-9a-f]+>")
"""Pattern for the default text of a Python object, which contains its address; errors omit this text."""
_MOST = 240
"""Largest number of characters that an error quotes from a library's message if that message has several lines."""
_SAID: dict[str, tuple[str, str]] = {
    "derivative for": (
        "torch has no gradient of the function that is called there",
        "call it with x.detach(), which needs no gradient, or use another function",
    ),
    ".numpy() is not supported": (
        "the code calls NumPy there, but a job contains only operations of torch",
        "use torch's function, or leave the call out if its result is only logged",
    ),
    "NVIDIA driver": _DEVICE,
    "not compiled with CUDA": _DEVICE,
    "support for mps devices": _DEVICE,
    "format string passed to FakeTensor": VALUES,
    "unhashable type: non-nested SymInt": VALUES,
    "a leaf Variable that requires grad is being used in an in-place operation": (
        "a weight that has a gradient is changed in place there",
        "change it under torch.no_grad(), or make a new tensor, as in w = w + 1",
    ),
    "has been modified by an inplace operation": (
        "a tensor that a gradient needs is changed in place after it",
        "make a new tensor, as in h = h + 1, or change a copy, as in h = h.clone() and then h += 1",
    ),
    "does not require grad and does not have a grad_fn": (
        "a gradient is computed there of a value that does not depend on any trained weight",
        "leave out .detach(), torch.no_grad() and argmax before that value",
    ),
    "HigherOrderOperator": (
        "an operation that takes functions, such as torch's scan or cond, is called there",
        "use assay.repeat for a loop and torch.where for a choice",
    ),
}
"""Reason and remedy for each message of torch, by a part of the message."""


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
"""Public functions of torch, by the internal operations that they call."""
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
"""Prefixes of operations that share one public function."""
_PARTS = ("linalg_", "fft_", "special_")


def called(operation: object) -> str:
    """Return the public name of an operation of torch: ``torch.scatter`` for ``aten.scatter.value_reduce``."""
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
    """Return the reason and the remedy for an error of torch.

    For an unknown error, they are its first line and ``remedy``.
    """
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
    """Return texts as a list in a sentence: the first ``most`` of them, and the number of the others."""
    shown = ", ".join(texts[:most])
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"


def first_line(error: BaseException) -> str:
    """Return the first line of a library's message; the class of the error if the message is empty."""
    line = _OBJECT.sub("", str(error).strip().split("\n")[0])
    return line.rstrip(".: ") or type(error).__name__


def in_a_line(error: BaseException) -> str:
    """Return a library's whole message as one line, cut if it is very long."""
    text = _OBJECT.sub("", " ".join(str(error).split())).rstrip(".: ") or type(error).__name__
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
