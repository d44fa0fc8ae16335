"""Programs on an NVIDIA GPU as CUDA graphs. A graph starts all kernels of a run in one call.

A step of a small model has thousands of kernels, and starting them one by one takes longer than computing them. A
program runs as usual at first, which compiles its kernels. The second run is recorded as a graph, and must give the
bits of a usual run. Later runs copy their inputs to the graph's own memory, start the graph, and copy its outputs.

Nothing may wait for the device while a graph is recorded. So row numbers are only noted there, and looked at after the
run (:class:`pol.executor.row_guard.RowGuard`). If one does not exist, the program runs as usual once more, and that run
raises the error.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor

from pol.executor.loop import Loop
from pol.executor.row_guard import RowGuard

log = logging.getLogger(__name__)

CALLS_MAX = 20_000
"""Largest number of nodes and chains, with all turns of repeats, that become a graph."""


class Finish(Protocol):
    """The end of a run: the function that brings outputs into canonical form, and says which of them are finite."""

    def __call__(self, outputs: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the canonical tensors by name, and for each FP32 tensor whether it is finite."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run: the canonical outputs, and the names of those that are not finite."""

    outputs: Mapping[str, Tensor]
    not_finite: Sequence[str]


@dataclass(frozen=True)
class _Graph:
    """A recorded run. The tensors are the graph's own memory, which the next run overwrites."""

    graph: Any
    inputs: Sequence[Tensor]
    outputs: Mapping[str, Tensor]
    finite: Sequence[str]
    signs: Tensor
    """Whether each of ``finite`` is finite, and whether all row numbers exist."""

    def run(self, inputs: Sequence[Tensor]) -> Outcome | None:
        """Return the result for these inputs, or None if a row number does not exist."""
        for own, given in zip(self.inputs, inputs, strict=True):
            own.copy_(given)
        self.graph.replay()
        outputs = {name: value.clone() for name, value in self.outputs.items()}
        *are_finite, has_rows = self.signs.tolist()
        if not has_rows:
            return None
        return Outcome(outputs, [name for name, sign in zip(self.finite, are_finite, strict=True) if not sign])


class Graphs:
    """The graphs of a back end's programs. A program that cannot be recorded, or gives other bits, runs as usual."""

    def __init__(self, device: torch.device, guard: RowGuard, finish: Finish) -> None:
        self._device, self._guard, self._finish = device, guard, finish
        self._pool: Any = None
        self._graphs: WeakKeyDictionary[Loop, _Graph | None] = WeakKeyDictionary()
        self._ran: WeakSet[Loop] = WeakSet()

    @property
    def count(self) -> int:
        """The number of programs that have a graph."""
        return sum(graph is not None for graph in self._graphs.values())

    def run(self, loop: Loop, inputs: Sequence[Tensor]) -> Outcome:
        """Return the result of a program. Raises OutOfRange as the program does."""
        if loop.calls > CALLS_MAX:
            return self._usual(loop, inputs)
        if loop not in self._graphs:
            usual = self._usual(loop, inputs)
            if loop in self._ran:
                self._graphs[loop] = self._recorded(loop, inputs, usual)
            self._ran.add(loop)
            return usual
        graph = self._graphs[loop]
        found = graph.run(inputs) if graph is not None else None
        return found or self._usual(loop, inputs)

    def _usual(self, loop: Loop, inputs: Sequence[Tensor]) -> Outcome:
        outputs, finite = self._finish(loop.values(inputs))
        signs = torch.stack(tuple(finite.values())).tolist() if finite else []
        return Outcome(outputs, [name for name, sign in zip(finite, signs, strict=True) if not sign])

    def _recorded(self, loop: Loop, inputs: Sequence[Tensor], usual: Outcome) -> _Graph | None:
        """Return the graph of a program, or None if it cannot be recorded, or gives other bits than ``usual``."""
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(self._device)
        # A graph keeps the memory of a whole run.
        if torch.cuda.max_memory_allocated(self._device) > free:
            log.info("a program runs without a graph on %s: %d bytes are free", self._device, free)
            return None
        try:
            graph = self._record(loop, inputs)
            found = graph.run(inputs)
        except RuntimeError as error:
            detail = (str(error).splitlines() or [type(error).__name__])[0]
            log.warning("a program runs without a graph on %s: %s", self._device, detail)
            return None
        if found is None or not _same(found, usual):
            log.error("a graph computes wrong results on %s and is not used", self._device)
            return None
        return graph

    def _record(self, loop: Loop, inputs: Sequence[Tensor]) -> _Graph:
        own = [value.clone() for value in inputs]
        graph = torch.cuda.CUDAGraph()
        if self._pool is None:
            # Graphs of one back end never run at the same time, so they share the memory of their values.
            self._pool = torch.cuda.graph_pool_handle()
        torch.cuda.synchronize(self._device)
        with (
            self._guard.noting() as noted,
            torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"),
        ):
            outputs, finite = self._finish(loop.values(own))
            has_rows = torch.stack(noted).all() if noted else torch.ones((), dtype=torch.bool, device=self._device)
            signs = torch.stack([*finite.values(), has_rows])
        return _Graph(graph=graph, inputs=own, outputs=outputs, finite=tuple(finite), signs=signs)


def _same(one: Outcome, other: Outcome) -> bool:
    """Return whether two results have the same bits; all NaN count as equal."""
    if set(one.outputs) != set(other.outputs) or one.not_finite != other.not_finite:
        return False
    return all(_equal(value, other.outputs[name]) for name, value in one.outputs.items())


def _equal(one: Tensor, other: Tensor) -> bool:
    if one.dtype == torch.float32:
        is_nan = torch.isnan(one)
        if not torch.equal(is_nan, torch.isnan(other)):
            return False
        one, other = (value.masked_fill(is_nan, 0.0).view(torch.int32) for value in (one, other))
    return torch.equal(one, other)
