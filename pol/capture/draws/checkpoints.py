"""Activation checkpointing (``torch.utils.checkpoint``): what runs again for its gradients draws the same again.

It runs where the backward pass asks for it, and its nodes are marked, so that they are not merged with those of the
forward pass: what these made is let go in between. In the body of a repeat they are merged, and nothing is let go.
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
    """Let functions that are checkpointed in here draw from the same sites each time.

    The reentrant kind, which knows no ``autograd.grad``, becomes the other one.
    """
    reruns = count(1)

    def run(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        # what it is given here runs again; torch itself calls the function the first time
        again = _again(function, draws, draws.sites.next, reruns)
        return _RUN(again, *arguments, **options)

    with (
        patch.object(checkpoint, _NAME, run),
        patch.object(checkpoint, "CheckpointFunction", _NotReentrant),
    ):
        yield


class _NotReentrant:
    """Stands for torch's ``CheckpointFunction``."""

    @staticmethod
    def apply(function: Callable[..., Any], preserve: bool, *arguments: Any) -> Any:
        return checkpoint.checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=preserve)


def _again(function: Callable[..., Any], draws: SeededDropout, first: int, reruns: Iterator[int]) -> Callable[..., Any]:
    within = Within.now()

    def run(*arguments: Any, **options: Any) -> Any:
        # a turn keeps what its backward pass reads, so there it is one with the forward pass
        marked = nullcontext() if within.is_any else marked_as(next(reruns))
        # torch computes gradients outside of the modes
        with CallSites(), draws, within.again(), draws.sites.again_from(first), marked:
            return function(*arguments, **options)

    return run
