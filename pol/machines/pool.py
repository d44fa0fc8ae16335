"""Groups that stay together from one segment to the next, for a daemon that has many segments to run.

A group serves one segment at a time, of any share. If it already stands at the states where a segment begins, it goes
on at once; otherwise it opens their files. Between segments it may go to a request with an earlier deadline.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, Final, Protocol

from pol.errors import StateError
from pol.machines.form import GroupSpec, SlotForm, checked
from pol.machines.group import Group, GroupLost
from pol.machines.parts import job_form, write_own_state
from pol.machines.starters import Processes, Starter
from pol.work.executor import PoolClosed, TaskTimeout, WorkerDied

IDLE_SECONDS: Final = 120.0
"""Longest time (s) that a group waits for the next segment. Its members hold the states meanwhile."""
_LOOK_SECONDS: Final = 0.2
FORM_SECONDS: Final = 120.0
"""Longest time (s) in which a process reads a job and plans it, or writes a state."""
Ask = Callable[..., Any]
"""A function that lets a process in the sandbox call another one with some arguments, and with a ``timeout``."""
Roots = tuple[bytes, bytes]
Running = Callable[[str, Group], AbstractContextManager[None]]
"""A function that returns a context in which a group computes something of this kind."""


class Lease(Protocol):
    """The machines of one group."""

    @property
    def spec(self) -> GroupSpec:
        """The settings of the group."""
        ...

    @property
    def starter(self) -> Starter:
        """The starter of its members."""
        ...

    @property
    def is_renewable(self) -> bool:
        """True if a new lease in place of this one would have all its machines."""
        ...

    @property
    def running(self) -> Running:
        """Returns the context in which the group computes, and in which an owner can see that."""
        ...

    def end(self) -> None:
        """Give the machines back. The members have ended."""
        ...


def run_unseen(kind: str, group: Group) -> AbstractContextManager[None]:
    """Return a context in which no one sees what a group computes."""
    del kind, group
    return nullcontext()


class Hosting(Protocol):
    """The machines of an owner, which form groups of equal size."""

    @property
    def groups(self) -> int:
        """Number of groups that the machines can form now."""
        ...

    def lease(self) -> Lease | None:
        """Return the machines of another group; None if there are too few left."""
        ...


class OneGroup:
    """The hosting on this machine: one group of processes."""

    groups = 1

    def __init__(self, spec: GroupSpec, running: Running = run_unseen) -> None:
        self._spec, self._running = spec, running
        self._is_leased = False

    def lease(self) -> Lease | None:
        """Return the only lease, unless it has not ended; see :class:`Hosting`."""
        if self._is_leased:
            return None
        self._is_leased = True
        return _LeaseHere(spec=self._spec, starter=Processes(self._spec.machines), running=self._running, end=self._end)

    def _end(self) -> None:
        self._is_leased = False


@dataclass(frozen=True, slots=True)
class _LeaseHere:
    spec: GroupSpec
    starter: Starter
    running: Running
    end: Callable[[], None]
    is_renewable: bool = True


@dataclass(eq=False)
class _Kept:
    """A group between two segments, or in one."""

    job: Path
    group: Group
    lease: Lease
    since: float

    @property
    def is_short(self) -> bool:
        """True if the group has lost machines."""
        return self.group.spec.machines < self.lease.spec.machines


class GroupPool:
    """The groups of a daemon. Its methods may be called by many threads at once."""

    def __init__(self, hosting: Hosting, ask: Ask, folder: Path, scratch: Path, reads: Sequence[Path] = ()) -> None:
        """Form groups on the machines of ``hosting``. They write into ``folder``.

        ``ask`` lets processes read jobs, which may write only into ``scratch``. Members on this machine can read only
        these folders, their job, and the files and folders ``reads``.
        """
        self.hosting, self.ask, self._folder, self.scratch = hosting, ask, folder, scratch
        self._reads = (scratch, *reads)
        self._changed = threading.Condition()
        self._idle: list[_Kept] = []
        self._busy: list[_Kept] = []
        self._stops: list[Event] = []
        self._waiting: list[tuple[float, int]] = []
        self._numbers = count()
        self._is_closed = False
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def group(self, job: Path, kind: str, stands: Callable[[Roots], bool], ends: float, stop: Event) -> Iterator[Group]:
        """Yield a group for a job, if possible one that stands at states with roots for which ``stands`` is true.

        ``kind`` is the kind of the task, for the owner of the machines.

        The request with the earliest deadline ``ends`` (on the monotonic clock) gets a group first. Raises TaskTimeout
        if it has not ended by then, and PoolClosed if ``stop`` is set or the pool is closed. Raises WorkerDied if the
        machines cannot form a group, or none is left. After any error in the ``with`` block the group ends.
        """
        with self._changed:
            self._stops.append(stop)
        try:
            kept = self._take(job, stands, ends, stop)
            try:
                with kept.lease.running(kind, kept.group):
                    yield kept.group
            except BaseException as error:
                self._end(kept)
                if isinstance(error, GroupLost):
                    raise WorkerDied(str(error)) from None
                raise
            self._give_back(kept)
        finally:
            with self._changed:
                self._stops.remove(stop)

    def open_slot(self, group: Group, job: Path, slot: int, global_path: Path) -> None:
        """Let a group that stands at the first states of a job go on from those of a slot: its local state may be its
        own.

        Raises JobError or StateError if the job has no such states.
        """
        if not group.form.has_own_states:
            return
        with TemporaryDirectory(dir=self.scratch) as name:
            own = Path(name) / "own.local"
            root = self.ask(write_own_state, job, slot, own, timeout=FORM_SECONDS)
            if root and group.open(global_path, own)[1] != root:
                raise StateError("local state", "is not that of the slot")

    def tend(self, seconds: float = IDLE_SECONDS) -> None:
        """End the groups that have waited for a segment longer than ``seconds``."""
        now = time.monotonic()
        with self._changed:
            late = [kept for kept in self._idle if now - kept.since > seconds]
            self._idle = [kept for kept in self._idle if kept not in late]
        for kept in late:
            self._end(kept)

    def processes(self) -> list[int]:
        """Return the numbers of the members' processes, on their machines."""
        with self._changed:
            return [process for kept in (*self._idle, *self._busy) for process in kept.group.members.pids.values()]

    def close(self) -> None:
        """End all groups. Requests that have not ended fail with PoolClosed."""
        with self._changed:
            self._is_closed = True
            for stop in self._stops:
                stop.set()
        self.tend(-1.0)

    def _take(self, job: Path, stands: Callable[[Roots], bool], ends: float, stop: Event) -> _Kept:
        turn = ends, next(self._numbers)
        check = partial(self._check, ends, stop)
        with self._changed:
            self._waiting.append(turn)
        try:
            while True:
                with self._changed:
                    check()
                    is_first = turn == min(self._waiting)
                    kept = self._best(job, stands) if is_first else None
                    lease = self.hosting.lease() if is_first and kept is None else None
                    other = self._idle.pop() if is_first and kept is None and lease is None and self._idle else None
                    if kept is None and lease is None and other is None:
                        self._changed.wait(_LOOK_SECONDS)
                        continue
                if kept is not None:
                    kept.group.check = check
                    return kept
                if lease is not None:
                    return self._start(job, lease, check)
                if other is not None:
                    # It stands in another job, and its machines are needed here.
                    self._end(other)
        finally:
            with self._changed:
                self._waiting.remove(turn)
                self._changed.notify_all()

    def _check(self, ends: float, stop: Event) -> None:
        if self._is_closed or stop.is_set():
            raise PoolClosed("the work of the group was stopped")
        if time.monotonic() >= ends:
            raise TaskTimeout("the deadline passed before the group had a result")

    def _form(self, job: Path, spec: GroupSpec) -> SlotForm:
        return checked(self.ask(job_form, job, spec, timeout=FORM_SECONDS))

    def _best(self, job: Path, stands: Callable[[Roots], bool]) -> _Kept | None:
        """Take an idle group of this job out, if there is one."""
        found = [kept for kept in self._idle if kept.job == job]
        if not found:
            return None
        best = next((kept for kept in found if kept.group.roots and stands(kept.group.roots)), found[0])
        self._idle.remove(best)
        self._busy.append(best)
        return best

    def _start(self, job: Path, lease: Lease, check: Callable[[], None]) -> _Kept:
        try:
            group = Group(
                job,
                lambda spec: self._form(job, spec),
                self._folder / f"group-{next(self._numbers)}",
                lease.spec,
                lease.starter,
                self._reads,
                check,
            )
        except BaseException as error:
            lease.end()
            if isinstance(error, GroupLost):
                raise WorkerDied(str(error)) from None
            raise
        kept = _Kept(job=job, group=group, lease=lease, since=time.monotonic())
        with self._changed:
            self._busy.append(kept)
        return kept

    def _give_back(self, kept: _Kept) -> None:
        kept.since = time.monotonic()
        is_spent = kept.group.is_over or (kept.is_short and kept.lease.is_renewable)
        with self._changed:
            if not self._is_closed and not is_spent:
                self._busy.remove(kept)
                self._idle.append(kept)
                self._changed.notify_all()
                return
        self._end(kept)

    def _end(self, kept: _Kept) -> None:
        kept.group.close()
        shutil.rmtree(kept.group.folder, ignore_errors=True)
        kept.lease.end()
        with self._changed:
            if kept in self._busy:
                self._busy.remove(kept)
            self._changed.notify_all()
