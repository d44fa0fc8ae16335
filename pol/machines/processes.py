"""The processes of this machine's groups as nodes: which segments run there, and how many ended."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pol.machines.form import GroupSpec
from pol.machines.group import Group
from pol.work.cluster.dispatch import NodeReport

ADDRESS: Final = "this machine"
OnNodes = Callable[[tuple[NodeReport, ...]], None]


class ProcessNodes:
    """The processes of the groups that a daemon has on this machine.

    Each group is of one lane. Processes with the same number in their groups are one node, as members of several groups
    on one node of a cluster are.
    """

    def __init__(self, spec: GroupSpec, on_nodes: OnNodes) -> None:
        """All groups have the settings ``spec``. :meth:`look` calls ``on_nodes`` with the nodes if they changed."""
        self.spec, self._on_nodes = spec, on_nodes
        self._lock = threading.Lock()
        self._tasks: Counter[str] = Counter()
        self._ended: list[Counter[str]] = [Counter() for _ in range(spec.machines)]
        self._faults = [""] * spec.machines
        self._told: tuple[NodeReport, ...] = ()

    @contextmanager
    def running(self, lane: str, kind: str, group: Group) -> Iterator[None]:
        """Count what a group computes. A group that loses processes goes on with fewer."""
        task = f"{lane}: {kind}"
        with self._lock:
            self._tasks[task] += 1
        try:
            yield
        finally:
            with self._lock:
                self._tasks[task] -= 1
        with self._lock:
            for number, ended in enumerate(self._ended):
                ended[kind] += number in group.form.used
                self._faults[number] = "" if number < group.spec.machines else group.losses[-1]

    def look(self) -> None:
        """Report the nodes if they, or their tasks, have changed since the last look."""
        with self._lock:
            tasks = tuple(sorted(self._tasks.elements()))
            nodes = tuple(
                NodeReport(
                    name=f"machine {number}",
                    address=ADDRESS,
                    processors=self.spec.engine.threads,
                    memory=self.spec.memory,
                    problem="",
                    tasks=tasks,
                    ended=tuple(sorted((+ended).items())),
                    fault=fault,
                )
                for number, (ended, fault) in enumerate(zip(self._ended, self._faults, strict=True))
            )
        if nodes != self._told:
            self._told = nodes
            self._on_nodes(nodes)
