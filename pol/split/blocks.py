"""The entries of a machine in a step, in order: it sends and receives, computes pieces, and runs blocks of whole nodes.

A *block* is a list of whole nodes that the back end runs as one program. It holds all that it reads and all that it
returns until it ends. So a block ends as soon as it has made or used up :data:`BLOCK_BYTES`, and what a machine holds
stays close to the values that it still needs. A view takes no memory inside a block, but as a result of a block it
would be copied. So a view waits for the block that reads it first.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pol.executor.fusion import VIEWS
from pol.job.program import Program
from pol.split.plan import Plan, Run, Send

BLOCK_BYTES: Final = 1 << 26
"""Bytes of values that a block makes, or reads for the last time, before the next block begins."""
Entry = Send | Run | list[int]
"""A message, a node of which the machine has a piece, or the offsets of the whole nodes of a block."""


def entries_of(plan: Plan, machine: int) -> list[Entry]:
    """Return what a machine of a plan does in a step, in order."""
    return list(_Blocks(plan, machine).entries())


def _shown(program: Program) -> list[int]:
    """Return for each value the number of the value whose elements it shows: itself if it is not a view."""
    shown = list(range(len(program.types)))
    for number, node in enumerate(program.nodes, program.first_node):
        if node.op in VIEWS and node.args:
            shown[number] = shown[node.args[0]]
    return shown


class _Blocks:
    def __init__(self, plan: Plan, machine: int) -> None:
        self._program, self._machine = plan.program, machine
        self._roots = _shown(plan.program)
        self._own: list[Send | Run] = []
        last: dict[int, int] = {}
        for action in plan.actions:
            if machine not in ((action.source, action.target) if isinstance(action, Send) else action.machines):
                continue
            last.update((self._roots[number], len(self._own)) for number in self._reads(action))
            self._own.append(action)
        ends = {plan.program.outputs[name] for name, at in plan.ends_at.items() if at == machine}
        self._used_up: list[int] = [0] * len(self._own)
        for number in last.keys() - {self._roots[end] for end in ends}:
            self._used_up[last[number]] += plan.program.types[number].size
        # The views that no block has yet, in order.
        self._waiting: dict[int, None] = {}
        self._block: list[int] = []
        self._spent = 0

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in order."""
        for action, used_up in zip(self._own, self._used_up, strict=True):
            if isinstance(action, Run) and action.cut is None:
                number = self._program.first_node + action.offset
                if self._program.nodes[action.offset].op in VIEWS:
                    self._waiting[number] = None
                    continue
                self._add_views(self._reads(action))
                self._block.append(action.offset)
                self._spent += used_up + self._program.types[number].size
                if self._spent >= BLOCK_BYTES:
                    yield from self._take_block()
            else:
                self._add_views(self._reads(action))
                yield from self._take_block()
                yield action
        self._add_views(list(self._waiting))
        yield from self._take_block()

    def _reads(self, action: Send | Run) -> Sequence[int]:
        if isinstance(action, Run):
            return self._program.nodes[action.offset].args
        return (action.value,) if action.source == self._machine else ()

    def _add_views(self, numbers: Iterable[int]) -> None:
        """Add the waiting views among some values, and the views of which they are views, to the block."""
        for number in numbers:
            if number in self._waiting:
                offset = number - self._program.first_node
                del self._waiting[number]
                self._add_views(self._program.nodes[offset].args)
                self._block.append(offset)

    def _take_block(self) -> Iterator[list[int]]:
        if self._block:
            yield sorted(self._block)
        self._block, self._spent = [], 0
