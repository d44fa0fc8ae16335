"""The starters of a group's members, which also carry its commands: processes here, or hosts on several machines.

A group asks a starter for members, and each member for answers. It does not know where a member runs.
"""

import secrets
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from pol.executor.names import Engine
from pol.job.paths import DATA_FOLDER, DOCUMENT
from pol.machines import host
from pol.machines.messages import Failed, Held, Join, Joined, Work, paths_of, with_paths
from pol.machines.process import MemberProcess
from pol.machines.sealing import seal
from pol.machines.stream import LinkError
from pol.work.executor import PoolError

PREPARE_SECONDS: Final = 30.0
"""Longest time (s) until a machine listens."""
END_SECONDS: Final = 5.0
"""Time (s) in which a machine says that a member has ended. A machine that does not is lost anyway."""
_NO_KEY: Final = bytes(32)


class MachinesLost(Exception):
    """Some machines of a group are gone, and the others have ended their step. ``machines`` are their numbers."""

    def __init__(self, machines: Sequence[int], reason: str) -> None:
        super().__init__(reason)
        self.machines = tuple(machines)


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of each member: the job's files, a folder in which a local member may write, an engine, and memory.

    ``memory`` is a hard limit in bytes. A local member can also read the files and folders ``reads``. ``data`` has the
    machines that read rows of the data.
    """

    directory: Path
    folder: Path
    engine: Engine
    memory: int
    reads: tuple[Path, ...] = ()
    data: tuple[int, ...] = ()

    def files(self, machine: int) -> tuple[tuple[str, Path], ...]:
        """Return the files that a machine needs of the job, by their names there.

        States are not among them: each machine gets its tensors later. Rows are in whole files, which have hashes.
        """
        names = [DOCUMENT]
        if machine in self.data:
            names += sorted(f"{DATA_FOLDER}/{path.name}" for path in (self.directory / DATA_FOLDER).iterdir())
        return tuple((name, self.directory / name) for name in names)


class Link(Protocol):
    """The leader's end of a member, wherever it runs."""

    def ask(self, command: Join | Work, limit: int) -> "Future[Joined | Held | Failed]":
        """Give the member a command. Its answer has at most ``limit`` bytes.

        The future has a LinkError or a PoolError if the member, or its machine, is lost. It has no deadline: after
        :meth:`end`, it ends.
        """
        ...

    def end(self) -> None:
        """End the member; what it has not answered has an error."""
        ...


class Starter(Protocol):
    """A way to start members."""

    @property
    def is_remote(self) -> bool:
        """True if files have to travel to the members. Each of them then gets only the tensors that it needs."""
        ...

    def start(self, machines: Sequence[int], needs: Needs) -> dict[int, Link]:
        """Start a member for each of these machines of a plan, connected to the others.

        Raises MachinesLost if that is not possible.
        """
        ...

    def lose(self, machines: Sequence[int]) -> int:
        """Use these machines of the last start no longer; return how many there are for the next one."""
        ...


class Processes:
    """The starter on this machine: each member is a process, connected to the others by pairs of sockets."""

    is_remote = False

    def __init__(self, machines: int) -> None:
        self._machines = machines

    def start(self, machines: Sequence[int], needs: Needs) -> dict[int, Link]:
        """Start processes; see :class:`Starter`."""
        ends: dict[int, dict[int, socket.socket]] = {machine: {} for machine in machines}
        links: dict[int, Link] = {}
        with ExitStack() as stack:
            for first in machines:
                for second in machines:
                    if first < second:
                        pair = socket.socketpair()
                        ends[first][second], ends[second][first] = pair
                        for end in pair:
                            end.setblocking(False)
                            stack.callback(end.close)
            try:
                for machine, peers in ends.items():
                    reads = (needs.directory, *needs.reads)
                    arguments = (machine, needs.folder, reads, needs.memory, needs.engine.threads, peers)
                    links[machine] = _Local(MemberProcess(*arguments))
            except BaseException:
                for link in links.values():
                    link.end()
                raise
        return links

    def lose(self, machines: Sequence[int]) -> int:
        """Go on with fewer processes; see :class:`Starter`."""
        self._machines -= len(machines)
        return self._machines


class _Local:
    """A member in a process of this machine, and a thread that waits for its answers."""

    def __init__(self, process: MemberProcess) -> None:
        self._process = process
        self._thread = ThreadPoolExecutor(1, "member")

    def ask(self, command: Join | Work, limit: int) -> "Future[Joined | Held | Failed]":
        """Give the member a command; see :class:`Link`."""
        return self._thread.submit(self._process.ask, command, Joined if isinstance(command, Join) else Held, limit)

    def end(self) -> None:
        """End the process; see :class:`Link`."""
        self._process.kill()
        self._thread.shutdown()
        self._process.close()


class Place(Protocol):
    """A machine that hosts members: it runs the functions of :mod:`pol.machines.host`."""

    @property
    def name(self) -> str:
        """The name of the machine in errors."""
        ...

    def submit(self, function: Callable[..., Any], *args: Any, timeout: float | None = None) -> "Future[Any]":
        """Run ``function(workplace, *args)`` there, with paths as :class:`pol.work.executor.Executor` carries them."""
        ...


class Hosts:
    """The starter on several machines: each hosts one member, and they meet over TCP."""

    is_remote = True

    def __init__(self, places: Callable[[], Sequence[Place]]) -> None:
        """``places`` returns the machines that can be used now, the best first."""
        self._places = places
        self._used: dict[int, Place] = {}
        self.lost: set[str] = set()
        """The names of the machines that are used no longer."""

    def start(self, machines: Sequence[int], needs: Needs) -> dict[int, Link]:
        """Start a member on each of as many machines; see :class:`Starter`."""
        found = self._left()
        self._used = dict(zip(machines, found, strict=False))
        if len(self._used) < len(machines):
            raise MachinesLost(machines[len(self._used) :], f"only {len(found)} machines are left")
        group = secrets.token_bytes(16)
        asked = {
            machine: place.submit(host.prepare, group, machine, timeout=PREPARE_SECONDS)
            for machine, place in self._used.items()
        }
        prepared: dict[int, host.Prepared] = {}
        problems: dict[int, str] = {}
        for machine, future in asked.items():
            try:
                prepared[machine] = future.result()
            except (LinkError, PoolError, OSError) as error:
                problems[machine] = f"{self._used[machine].name}: {error}"
        links: dict[int, Link] = {}
        for machine, own in prepared.items():
            peers = [host.Peer(number, other.address) for number, other in prepared.items() if number != machine]
            links[machine] = _Hosted(self._used[machine], group, machine, own.public, peers, needs)
        if problems:
            for link in links.values():
                link.end()
            raise MachinesLost(sorted(problems), "; ".join(problems.values()))
        return links

    def lose(self, machines: Sequence[int]) -> int:
        """Go on without these machines, and with others if there are some; see :class:`Starter`."""
        self.lost.update(self._used[machine].name for machine in machines if machine in self._used)
        return len(self._left())

    def _left(self) -> list[Place]:
        return [place for place in self._places() if place.name not in self.lost]


class _Hosted:
    """A member on another machine."""

    def __init__(
        self, place: Place, group: bytes, number: int, public: bytes, peers: Sequence[host.Peer], needs: Needs
    ) -> None:
        self._place, self._group, self._number = place, group, number
        self._public, self._peers, self._needs = public, tuple(peers), needs

    def ask(self, command: Join | Work, limit: int) -> "Future[Joined | Held | Failed]":
        """Give the member a command; see :class:`Link`."""
        if isinstance(command, Join):
            try:
                sealed = seal(command.key, self._public, self._group)
            except LinkError as error:
                return _failed(error)
            bare = replace(command, directory=".", key=_NO_KEY)
            arguments = (self._needs.files(self._number), bare, sealed, self._peers, self._needs.memory)
            return self._submit(host.join, *arguments)
        files = tuple(map(Path, paths_of(command)))
        return self._submit(host.ask, with_paths(command, ["."] * len(files)), files, limit)

    def end(self) -> None:
        """End the member; see :class:`Link`."""
        wait([self._submit(host.end, timeout=END_SECONDS)], END_SECONDS)

    def _submit(self, function: Callable[..., Any], *args: Any, timeout: float | None = None) -> "Future[Any]":
        try:
            return self._place.submit(function, self._group, self._number, *args, timeout=timeout)
        except PoolError as error:
            return _failed(error)


def _failed(error: Exception) -> "Future[Any]":
    failed: Future[Any] = Future()
    failed.set_exception(error)
    return failed
