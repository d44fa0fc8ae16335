"""Machines of a group that are all this one: their members meet over TCP at its own address."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

from pol.executor.names import Engine
from pol.local.groups import Machines
from pol.machines.door import PORTS_VARIABLE
from pol.machines.form import GroupSpec, spec_here
from pol.machines.starters import Hosts, Starter
from pol.work.cluster.files import Workplace

PORTS = "21000-29000"
"""Ports of machines in tests: many tests may run at a time."""


class Here:
    """A place on this machine (:class:`pol.machines.starters.Place`). Its members may write only into ``folder``."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.kept = Path(mkdtemp(prefix="assay-here-"))
        self.workplace = Workplace(folder=folder, reads=(), keep=self.kept, address="127.0.0.1")
        self._threads = ThreadPoolExecutor(4, f"place {name}")

    def submit(self, function: Callable[..., Any], *args: Any, timeout: float | None = None) -> "Future[Any]":
        """Run a function in a thread."""
        del timeout
        return self._threads.submit(function, self.workplace, *args)

    def close(self) -> None:
        """Forget what was kept here."""
        self._threads.shutdown()
        rmtree(self.kept, ignore_errors=True)


@contextmanager
def start_over_tcp(machines: Machines, engine: Engine, folder: Path) -> Iterator[tuple[GroupSpec, Starter]]:
    """Yield how a group starts whose members are processes here and meet over TCP."""
    spec = spec_here(machines, engine)
    with ExitStack() as stack:
        places = [Here(f"place{number}", folder) for number in range(spec.machines)]
        for place in places:
            stack.callback(place.close)
        with patch.dict("os.environ", {PORTS_VARIABLE: PORTS}):
            yield spec, Hosts(lambda: places)
