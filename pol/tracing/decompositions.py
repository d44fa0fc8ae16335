"""Which operations torch takes apart itself, where its choice is not ours."""

from collections.abc import Callable
from typing import Any

import torch

Table = dict[Any, Callable[..., Any]]
_aten = torch.ops.aten

OURS = (
    # ours add up rows in an order
    _aten.embedding_dense_backward.default,
    _aten.index_add.default,
    _aten.index_copy.default,
    _aten.index_fill.int_Scalar,
    _aten.index_fill.int_Tensor,
)
"""What has a handler that is better than what torch makes of it."""


def adjust(table: Table) -> None:
    """Take out of torch's table of decompositions what has a handler here."""
    for overload in OURS:
        table.pop(overload, None)
