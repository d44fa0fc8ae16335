"""The entries of a machine in a step, in order: it sends and receives, takes part in exchanges, and runs blocks.

A *block* is a list of nodes that the back end runs as one program. A piece of a node is a node on pieces of operands,
so blocks have whole nodes and pieces alike, except pieces with an exchange. A block holds all that it reads and all
that it returns until it ends. So a block ends as soon as it has made or used up :data:`BLOCK_BYTES`, and what a machine
holds stays close to the values that it still needs. A view takes no memory inside a block, but as a result of a block
it would be copied. So a view waits for the block that reads it first.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pol.executor.fusion import VIEWS
from pol.job.program import Program
from pol.split.plan import WHOLE, Part, Plan, Run, Send

BLOCK_BYTES: Final = 1 << 26
"""Bytes of values that a block makes, or reads for the last time, before the next block begins."""
Entry = Send | Run | list[Run]
"""A message, a node that no back end computes by itself, or the nodes of a block."""


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
        self._plan, self._program, self._machine = plan, plan.program, machine
        roots = _shown(plan.program)
        self._own: list[Send | Run] = []
        last: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for action in plan.actions:
            if machine not in ((action.source, action.target) if isinstance(action, Send) else action.machines):
                continue
            for number, part in self._reads(action):
                root = roots[number]
                last[root] = len(self._own)
                division = part.division if root == number else None
                size = plan.type_of(root, part if division else WHOLE).size
                sizes[root] = max(size, sizes.get(root, 0))
            self._own.append(action)
        ends = {plan.program.outputs[name] for name, at in plan.ends_at.items() if at == machine}
        self._used_up: list[int] = [0] * len(self._own)
        for number in last.keys() - {roots[end] for end in ends}:
            self._used_up[last[number]] += sizes[number]
        # The views that no block has yet, in order, and the parts of values that the block makes.
        self._waiting: dict[int, list[Run]] = {}
        self._made: dict[int, set[Part]] = {}
        self._block: list[Run] = []
        self._spent = 0

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in order."""
        for action, used_up in zip(self._own, self._used_up, strict=True):
            if isinstance(action, Run) and (action.cut is None or action.cut.is_compiled):
                number, part = action.makes(self._program, self._machine)
                if self._program.nodes[action.offset].op in VIEWS:
                    self._waiting.setdefault(number, []).append(action)
                    continue
                yield from self._add(action)
                self._spent += used_up + self._plan.type_of(number, part).size
                if self._spent >= BLOCK_BYTES:
                    yield from self._take_block()
            else:
                yield from self._add_views(self._reads(action))
                yield from self._take_block()
                yield action
        yield from self._add_views([(number, WHOLE) for number in self._waiting])
        yield from self._take_block()

    def _reads(self, action: Send | Run) -> Sequence[tuple[int, Part]]:
        if isinstance(action, Run):
            return action.reads(self._program, self._machine)
        return ((action.value, action.part),) if action.source == self._machine else ()

    def _add(self, run: Run) -> Iterator[Entry]:
        """Add a node to the block, or to the next one if it needs another part of what this block makes."""
        reads = self._reads(run)
        yield from self._add_views(reads)
        if any(arg in self._made and part not in self._made[arg] for arg, part in reads):
            yield from self._take_block()
        number, part = run.makes(self._program, self._machine)
        self._made.setdefault(number, set()).add(part)
        self._block.append(run)

    def _add_views(self, reads: Iterable[tuple[int, Part]]) -> Iterator[Entry]:
        """Add the waiting views among some values, and the views of which they are views, to the block."""
        for number, _ in reads:
            for run in self._waiting.pop(number, ()):
                yield from self._add(run)

    def _take_block(self) -> Iterator[Entry]:
        if self._block:
            yield sorted(self._block, key=lambda run: (run.offset, run.first))
        self._block, self._spent = [], 0
        self._made.clear()
