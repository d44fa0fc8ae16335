"""Functions of torch that a step replaces by others, or refuses with a remedy."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from pol.capture.constants.known import known_value, plainly
from pol.capture.reports.reasons import NotInAJob

NARROW = (torch.bfloat16, torch.float16)
"""Floating types that a job computes in FP32."""
_EMBEDDING, _TO, _TYPE = functional.embedding, Tensor.to, Tensor.type
_NUMPY, _ARRAY, _SPLIT = Tensor.numpy, Tensor.__array__, torch.tensor_split


def _backward(*_arguments: Any, **_options: Any) -> None:
    reason = "the code calls backward() there, but a step itself computes the gradient of the returned loss"
    raise NotInAJob(reason, "return the loss; for gradients within it use torch.autograd.grad")


def _packed(*_arguments: Any, **_options: Any) -> None:
    reason = "the shape of a packed sequence depends on the lengths, but a step has fixed shapes"
    remedy = "give the layer the padded rows, and use each row's last state, out[rows, lengths - 1]"
    raise NotInAJob(reason, remedy)


def _complex(*_arguments: Any, **_options: Any) -> None:
    remedy = "rotate each pair (a, b) by cos and sin: (a * cos - b * sin, a * sin + b * cos)"
    raise NotInAJob("a step has no complex numbers", remedy)


def _fractional(*_arguments: Any, **_options: Any) -> None:
    reason = "FractionalMaxPool draws its windows at random, and a step has no operation for that"
    raise NotInAJob(reason, "use AdaptiveMaxPool with the same output_size, or MaxPool")


def _of_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that converts the value of a tensor to NumPy, if the value is known while a job is built."""

    def with_value(x: Tensor, *arguments: Any, **options: Any) -> Any:
        value = known_value(x)
        if value is None:
            return function(x, *arguments, **options)
        with plainly():
            return function(value, *arguments, **options)

    return with_value


def _tensor_split(x: Tensor, sections: Any, dim: int = 0) -> Any:
    """Split a tensor; pass known indices as a list, because torch would read the memory of an index tensor."""
    places = known_value(sections) if isinstance(sections, Tensor) else None
    if isinstance(sections, Tensor) and places is not None:
        with plainly():
            sections = places.tolist()
    return _SPLIT(x, sections, dim)


def _with_data(x: Tensor, value: Tensor) -> None:
    """Carry out ``x.data = value`` as a copy, because the capture does not record an assignment to ``data``."""
    if value.shape != x.shape:
        reason = f"the code assigns .data of the shape {list(value.shape)} there, but the tensor has {list(x.shape)}"
        raise NotInAJob(reason, f"assign a tensor of the shape {list(x.shape)}")
    with torch.no_grad():
        x.copy_(value)


def _embedding(
    x: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Compute an embedding with dense gradients, whose numbers equal those of sparse gradients; apply ``max_norm`` by a
    mask.
    """
    del sparse
    if max_norm is not None:
        with torch.no_grad():
            used = torch.zeros(weight.shape[0]).index_fill(0, x.reshape(-1), 1.0)
            norms = torch.linalg.vector_norm(weight, norm_type, dim=1)
            factor = torch.where((used > 0) & (norms > max_norm), max_norm / (norms + 1e-7), 1.0)
            weight.mul_(factor.unsqueeze(1))
    return _EMBEDDING(x, weight, padding_idx, None, 2.0, scale_grad_by_freq)


def _is_narrow(part: object) -> bool:
    return isinstance(part, torch.dtype) and part in NARROW


def _wide(x: Tensor, *_arguments: Any, **_options: Any) -> Tensor:
    return x.float()


def _wide_to(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def cast(x: Tensor, *arguments: Any, **options: Any) -> Tensor:
        values = [torch.float32 if _is_narrow(part) else part for part in arguments]
        named = {key: torch.float32 if _is_narrow(part) else part for key, part in options.items()}
        return function(x, *values, **named)

    return cast


CASTS: dict[Any, Callable[..., Tensor]] = {
    Tensor.bfloat16: _wide,
    Tensor.half: _wide,
    _TO: _wide_to(_TO),
    _TYPE: _wide_to(_TYPE),
}
HABITS: dict[Any, Callable[..., Any]] = {
    **CASTS,
    Tensor.backward: _backward,
    Tensor.data.__set__: _with_data,  # type: ignore[attr-defined]
    functional.embedding: _embedding,
    functional.fractional_max_pool2d: _fractional,
    functional.fractional_max_pool2d_with_indices: _fractional,
    functional.fractional_max_pool3d: _fractional,
    functional.fractional_max_pool3d_with_indices: _fractional,
    Tensor.numpy: _of_value(_NUMPY),
    Tensor.__array__: _of_value(_ARRAY),
    torch.tensor_split: _tensor_split,
    Tensor.tensor_split: _tensor_split,
    torch._pack_padded_sequence: _packed,
    torch.view_as_complex: _complex,
    torch.polar: _complex,
}
"""Replacements for functions of torch, by function."""


def narrowed_by(function: Any, arguments: Sequence[Any]) -> set[torch.dtype]:
    """Return the types narrower than FP32 that a call casts to."""
    if function is Tensor.bfloat16:
        return {torch.bfloat16}
    if function is Tensor.half:
        return {torch.float16}
    return set(filter(_is_narrow, arguments)) if function in CASTS else set()


class Trying(TorchFunctionMode):
    """A mode that replaces the functions of ``HABITS``; ``narrow`` collects the narrow types that were cast to."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow: set[torch.dtype] = set()

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call one function, or its replacement."""
        options = kwargs or {}
        self.narrow |= narrowed_by(function, (*args, *options.values()))
        return HABITS.get(function, function)(*args, **options)


def _scaled(scaler: torch.amp.GradScaler, outputs: Any) -> Any:
    if not scaler.is_enabled():
        return outputs
    reason = "a GradScaler scales the loss there, but gradients in FP32 do not need it"
    raise NotInAJob(reason, "leave the GradScaler out")


_LOOP = "use assay.repeat, or a Python for loop, which is unrolled"
_OF_FUNCTIONS = {
    "scan": _LOOP,
    "associative_scan": _LOOP,
    "while_loop": f"{_LOOP}; keep results of earlier turns by torch.where",
    "map_impl": f"compute all at once, or {_LOOP}",
    "cond": "compute both branches, and choose by torch.where",
    "flex_attention": "use scaled_dot_product_attention, which takes any mask and any bias as attn_mask",
}
"""Remedies for torch operations that have functions as arguments, by operation."""
_CALL = HigherOrderOperator.__call__


def _of_functions(operation: HigherOrderOperator, /, *arguments: Any, **options: Any) -> Any:
    name: str = operation.name()  # type: ignore[no-untyped-call]
    if name not in _OF_FUNCTIONS:
        return _CALL(operation, *arguments, **options)  # type: ignore[no-untyped-call]
    reason = f"torch's {name.removesuffix('_impl')} is called there, but a step has no operation that takes functions"
    raise NotInAJob(reason, _OF_FUNCTIONS[name])


@contextmanager
def refusing() -> Iterator[None]:
    """Refuse, within this context, the scaling of a loss for half precision, and operations that have functions as
    arguments.
    """
    with (
        patch.object(torch.amp.GradScaler, "scale", _scaled),
        patch.object(HigherOrderOperator, "__call__", _of_functions),
    ):
        yield
