"""Constant folding: torch computes values that depend on no input during the capture, and the job stores them.

Masks, tables of positions and similar values then need no primitives, and cost no time in a step. If a value is large
and primitives can compute it, they do, because a job has little room for constants.
"""

from math import prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from pol.capture.program.emitter import Emitter
from pol.capture.rules.registry import dtype_of
from pol.state.arrays import NUMPY_DTYPES, Array

MOST_ELEMENTS = 2**22
"""Largest number of elements of a value that is computed here."""
MOST_BYTES = 2**17
"""Largest size (bytes) of a constant that primitives could also compute."""
ROOM = 2**19
"""Largest total size (bytes) of all constants that primitives could also compute."""

_WITHOUT_VALUES = "aten.empty", "aten.new_empty"
"""Operations that return uninitialized memory, which has no value."""


class Folding:
    """Values of all nodes that do not depend on an input."""

    def __init__(self) -> None:
        self._values: dict[Node, Any] = {}
        self._room = ROOM

    def __contains__(self, node: Node) -> bool:
        return node in self._values

    def keep(self, node: Node, tensor: torch.Tensor) -> None:
        """Record the value of a tensor that the captured function reads, although the tensor is not one of its
        inputs.
        """
        self._values[node] = tensor.detach()

    def fold(self, node: Node) -> bool:
        """Compute a node if the values of all its operands are known; return whether it was computed."""
        if not all(used in self._values for used in node.all_input_nodes) or not _may_fold(node):
            return False
        args: Any = torch.fx.map_arg(node.args, self._values.__getitem__)
        kwargs: Any = torch.fx.map_arg(node.kwargs, self._values.__getitem__)
        assert callable(node.target)
        with torch.no_grad():
            self._values[node] = node.target(*args, **kwargs)
        return True

    def emit(self, emitter: Emitter, node: Node, is_needed: bool) -> int | None:
        """Return the value of a node as a constant, or None if primitives should compute it.

        ``is_needed`` is true if primitives cannot compute it.
        """
        tensor = self._values[node]
        # A node with several results is written part by part.
        if not isinstance(tensor, torch.Tensor):
            return None
        dtype = dtype_of(tensor.dtype)
        wide = tensor.float() if tensor.is_floating_point() else tensor
        shape = tuple(tensor.shape)
        array = _distinct(wide.cpu().numpy().astype(NUMPY_DTYPES[dtype]))
        if array.size == 1:
            return emitter.full(array.item(), dtype, shape)
        if not is_needed:
            if array.nbytes > min(MOST_BYTES, self._room):
                return None
            self._room -= array.nbytes
        return emitter.broadcast(emitter.constant(array, dtype), shape)


def _may_fold(node: Node) -> bool:
    name = str(node.target)
    if name.startswith(("assay.", *_WITHOUT_VALUES)):
        return False
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return False
    value = node.meta.get("val")
    parts = value if isinstance(value, tuple | list) else [value]
    return all(isinstance(part, torch.Tensor) and prod(part.shape) <= MOST_ELEMENTS for part in parts)


def _distinct(array: Array) -> Array:
    """Reduce each dimension of an array to size 1 if all elements along it repeat bit for bit."""
    for dim, size in enumerate(array.shape):
        if size > 1:
            first = np.ascontiguousarray(array.take([0], axis=dim))
            if np.broadcast_to(first, array.shape).tobytes() == array.tobytes():
                array = first
    return array
