"""Activation checkpointing (``torch.utils.checkpoint``): what runs again for its gradients draws the same again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch.utils import checkpoint

from pol.tracing.dropout import SeededDropout

_NAME = "_checkpoint_without_reentrant_generator"
_RUN = getattr(checkpoint, _NAME)


@contextmanager
def repeatable_checkpoints(draws: SeededDropout) -> Iterator[None]:
    """Let functions that are checkpointed in here draw from the same sites each time."""

    def run(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        # what it is given here runs again; torch itself calls the function the first time
        return _RUN(_again(function, draws, draws.next_site), *arguments, **options)

    with patch.object(checkpoint, _NAME, run):
        yield


def _again(function: Callable[..., Any], draws: SeededDropout, first: int) -> Callable[..., Any]:
    def run(*arguments: Any, **options: Any) -> Any:
        # torch computes gradients outside of the mode
        with draws, draws.again_from(first):
            return function(*arguments, **options)

    return run
