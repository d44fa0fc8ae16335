"""What of a graph is computed again for the backward pass, as its nodes say."""

from contextlib import AbstractContextManager

from torch.fx import Node
from torch.fx import traceback as fx_traceback

_MARK = "rerun"


def marked_as(rerun: int) -> AbstractContextManager[object]:
    """Mark the nodes that are made meanwhile as those of a rerun, counted from 1."""
    marked: AbstractContextManager[object] = fx_traceback.annotate({_MARK: rerun})
    return marked


def rerun_of(node: Node) -> int:
    """Return which rerun of a checkpointed part a node is of, counted from 1; 0 for all other nodes."""
    found: int = node.meta.get("custom", {}).get(_MARK, 0)
    return found
