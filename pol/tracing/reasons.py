"""What torch says when a model cannot be traced or computed, in the words of the person who wrote it."""

from collections.abc import Sequence

from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from domain.errors import Expected


class NotInAJob(Expected):
    """What somebody writes that no step can have: why, and what to write instead."""


_CONTROL_FLOW = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)
_VALUES = (
    "what is computed there depends on values of a tensor (an if, a while, .item())",
    "use torch.where or a mask: a step has fixed shapes and no control flow that depends on the values of tensors",
)
_DEVICE = (
    "tensors go to a GPU there, and a job says nothing of devices",
    "leave .cuda() and device= out, or say device=x.device",
)
_MOST = 240
"""Characters of what a library says in several lines."""
_SAID: dict[str, tuple[str, str]] = {
    "derivative for": (
        "torch has no gradient of what is called there",
        "compute it from x.detach(), which needs none, or in another way",
    ),
    ".numpy() is not supported": (
        "NumPy computes there, which the job would not know of",
        "use the function of torch",
    ),
    "NVIDIA driver": _DEVICE,
    "not compiled with CUDA": _DEVICE,
    "support for mps devices": _DEVICE,
    "format string passed to FakeTensor": _VALUES,
    "unhashable type: non-nested SymInt": _VALUES,
    "a leaf Variable that requires grad is being used in an in-place operation": (
        "a weight is changed in place there, and its gradient is asked for",
        "do it under torch.no_grad(), or make another tensor of it, as w = w + 1",
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


def in_words(error: Exception, remedy: str) -> tuple[str, str]:
    """Return reason and remedy for an error of torch; its own words and ``remedy``, where no others are known."""
    if isinstance(error, NotInAJob):
        return error.reason, error.remedy
    if isinstance(error, _CONTROL_FLOW):
        return _VALUES
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
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


def in_a_line(error: BaseException) -> str:
    """Return all that a library says as one line; what is very long is cut."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
