"""Conversion of a model's sparse constants to dense tensors, with a note about each; a job has only dense tensors.

If all tensors of an operation are constants (as in a transpose), torch computes the operation on the sparse tensors
themselves.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from pol.capture.constants.known import known_value, plainly
from pol.capture.reports.notes import note
from pol.capture.reports.origin import is_consumers
from pol.capture.reports.reasons import NotInAJob

_FRAMES = 30
"""Number of frames whose variables are searched for the name of a tensor."""


def is_sparse(value: object) -> bool:
    """Return whether a value is a tensor with a sparse layout."""
    # a tensor that replaces another tensor during a capture has its own type
    if not isinstance(value, Tensor) or type(value) not in (Tensor, nn.Parameter):
        return False
    with torch._C.DisableTorchFunction():
        return bool(value.layout != torch.strided)


def make_buffers_dense(model: nn.Module, tell: Callable[[str], None]) -> None:
    """Replace a model's sparse buffers by dense ones."""
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if is_sparse(buffer):
                assert buffer is not None
                module._buffers[name] = buffer.to_dense()
                full = f"{prefix}.{name}".lstrip(".")
                tell(_note_on(f"the buffer {full}", buffer))


def _note_on(name: str, tensor: Tensor) -> str:
    shape = "×".join(str(size) for size in tensor.shape)
    return f"{name} is sparse; the job has it as a dense tensor, {shape}"


def _entries(*_arguments: Any, **_options: Any) -> Tensor:
    reason = "the code reads the entries of a sparse tensor there, but a job has only dense tensors"
    raise NotInAJob(reason, "keep the indices and the values in two separate variables next to the tensor")


def _of_entries(indices: Any, values: Any, size: Sequence[int] | None = None, **options: Any) -> Tensor:
    """Return the dense tensor with these values at these indices; values at the same index are added."""
    del options
    places = torch.as_tensor(indices)
    if size is None:
        reason = "the code makes a sparse tensor there whose size depends on its indices"
        raise NotInAJob(reason, "give the size: torch.sparse_coo_tensor(indices, values, (n, n))")
    numbers = torch.as_tensor(values)
    whole = numbers.new_zeros(tuple(size))
    return whole.index_put(tuple(places.unbind(0)), numbers, accumulate=True)


def _compressed(*_arguments: Any, **_options: Any) -> Tensor:
    reason = "the code makes a compressed sparse tensor there from values that a step computes"
    raise NotInAJob(reason, "use torch.sparse_coo_tensor(indices, values, size), which becomes a dense tensor")


def _itself(x: Tensor, *_arguments: Any, **_options: Any) -> Tensor:
    return x


_DENSE: dict[Any, Callable[..., Any]] = {
    torch.sparse.mm: torch.mm,
    torch.hspmm: torch.mm,
    torch.smm: torch.mm,
    torch.sparse.addmm: torch.addmm,
    torch.sparse.sum: torch.sum,
    torch.sparse_coo_tensor: _of_entries,
    torch.sparse_csr_tensor: _compressed,
    torch.sparse_csc_tensor: _compressed,
    Tensor.coalesce: _itself,
    Tensor.to_dense: _itself,
    Tensor.to_sparse: _itself,
    Tensor.to_sparse_coo: _itself,
    Tensor.to_sparse_csr: _itself,
    Tensor.to_sparse_csc: _itself,
    Tensor.indices: _entries,
    Tensor._indices: _entries,
    Tensor.values: _entries,
    Tensor._values: _entries,
    Tensor._nnz: _entries,
}
"""Replacements for functions of sparse tensors, by function; they do the same with dense tensors."""


def _by_itself(value: Any) -> Any:
    """Return a copy of a dense tensor, and any other value unchanged.

    Without the copy, the tensor could be a view of a sparse tensor, which the capture cannot read.
    """
    return value if not isinstance(value, Tensor) or is_sparse(value) else value.clone()


def _holds_sparse(given: Any) -> bool:
    """Return whether arguments contain a sparse tensor; this check runs for every captured function, so it is fast."""
    if isinstance(given, list | tuple):
        return any(_holds_sparse(part) for part in given)
    if isinstance(given, dict):
        return any(_holds_sparse(part) for part in given.values())
    return is_sparse(given)


class Dense(TorchFunctionMode):
    """A mode that makes sparse constants dense for each operation that also has a tensor that is not a constant."""

    def __init__(self) -> None:
        super().__init__()
        self._dense: Any = WeakTensorKeyDictionary()

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call one function with dense tensors."""
        options = kwargs or {}
        if function not in _DENSE and not (_holds_sparse(args) or _holds_sparse(options)):
            return function(*args, **options)
        alone = self._computed(function, args, options)
        if alone is not None:
            return alone
        given, named = tree_map(self._as_dense, (tuple(args), options))
        return _DENSE.get(function, function)(*given, **named)

    def _computed(self, function: Callable[..., Any], args: Any, options: Any) -> Any:
        """Compute a function if all its tensors are constants; return None if a tensor is not constant."""
        values = {}
        for leaf in tree_leaves((args, options)):
            if isinstance(leaf, Tensor):
                value = leaf if is_sparse(leaf) else known_value(leaf)
                if value is None:
                    return None
                values[id(leaf)] = value
        name = getattr(function, "__name__", "")
        if name.endswith("_") and not name.endswith("__"):
            reason = "the code changes a sparse tensor in place there, and a step would not keep the change"
            raise NotInAJob(reason, "make a changed copy of it outside of the model and the loss")
        given, named = tree_map(lambda leaf: values[id(leaf)] if isinstance(leaf, Tensor) else leaf, (args, options))
        with plainly(), torch._C.DisableTorchFunction():
            return tree_map(_by_itself, function(*given, **named))

    def _as_dense(self, value: Any) -> Any:
        if not is_sparse(value):
            return value
        if value not in self._dense:
            with plainly(), torch._C.DisableTorchFunction():
                self._dense[value] = value.detach().to_dense()
            note(_note_on(_name_of(value) or "a tensor", value))
        return self._dense[value]


def _name_of(tensor: Tensor) -> str:
    """Return the name of a tensor in the consumer's code; "" if no variable or attribute holds it."""
    for frame in islice(_frames(sys._getframe(1)), _FRAMES):
        if not is_consumers(frame.f_code.co_filename):
            continue
        for names in (frame.f_locals, frame.f_globals):
            for name, value in list(names.items()):
                if value is tensor:
                    return name
        owner = frame.f_locals.get("self")
        for name, value in list(getattr(owner, "__dict__", {}).items()):
            if value is tensor:
                return f"self.{name}"
    return ""


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
