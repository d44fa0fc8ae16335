"""Activation checkpointing (``torch.utils.checkpoint``): a part that runs again draws the same random numbers.

A checkpointed part runs again when the backward pass needs it. The nodes of the second run are marked, so that they are
not merged with nodes of the forward pass. The values of the forward pass can then be freed before the second run. The
body of a repeat is an exception: its nodes are merged, and no values are freed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import Any
from unittest.mock import patch

from torch.utils import checkpoint

from pol.capture.draws.dropout import SeededDropout
from pol.capture.graph.reruns import marked_as
from pol.capture.loops.repeats import Within
from pol.capture.reports.origin import CallSites

_NAME = "_checkpoint_without_reentrant_generator"
_RUN = getattr(checkpoint, _NAME)


@contextmanager
def repeatable_checkpoints(draws: SeededDropout) -> Iterator[None]:
    """Make each checkpointed function within this context draw from the same sites every time that it runs.

    Reentrant checkpoints, which do not support ``autograd.grad``, become non-reentrant ones.
    """
    reruns = count(1)

    def run(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        # torch calls the function itself in the forward pass, and ``again`` when the part runs again.
        again = _again(function, draws, draws.sites.next, reruns)
        return _RUN(again, *arguments, **options)

    with (
        patch.object(checkpoint, _NAME, run),
        patch.object(checkpoint, "CheckpointFunction", _NotReentrant),
    ):
        yield


class _NotReentrant:
    """A non-reentrant replacement for torch's ``CheckpointFunction``."""

    @staticmethod
    def apply(function: Callable[..., Any], preserve: bool, *arguments: Any) -> Any:
        return checkpoint.checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=preserve)


def _again(function: Callable[..., Any], draws: SeededDropout, first: int, reruns: Iterator[int]) -> Callable[..., Any]:
    within = Within.now()

    def run(*arguments: Any, **options: Any) -> Any:
        # In a turn of a repeat, the values that the backward pass reads are stacked. So the nodes of a rerun are not
        # marked, and are merged with the nodes of the forward pass.
        marked = nullcontext() if within.is_any else marked_as(next(reruns))
        # torch computes gradients after it has left these modes, so they are entered again.
        with CallSites(), draws, within.again(), draws.sites.again_from(first), marked:
            return function(*arguments, **options)

    return run
