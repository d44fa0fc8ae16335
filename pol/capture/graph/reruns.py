"""Marks on the nodes of a graph that are computed again for the backward pass."""

from contextlib import AbstractContextManager

from torch.fx import Node
from torch.fx import traceback as fx_traceback

_MARK = "rerun"


def marked_as(rerun: int) -> AbstractContextManager[object]:
    """Mark the nodes that are created within this context as part of the rerun with the number ``rerun``, from 1."""
    marking: AbstractContextManager[object] = fx_traceback.annotate({_MARK: rerun})
    return marking


def rerun_of(node: Node) -> int:
    """Return the number, from 1, of the rerun of a checkpointed part to which a node belongs, or 0."""
    rerun: int = node.meta.get("custom", {}).get(_MARK, 0)
    return rerun
