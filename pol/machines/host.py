"""A machine's side of the groups that have a member there: it starts the member, and connects it to the others.

These functions run outside the sandbox, in the worker of a node (:class:`pol.work.cluster.files.Workplace`). A group
calls :func:`prepare` on each machine, then :func:`join`, then :func:`ask` for each command, and :func:`end`. The
group's key comes sealed, and goes on only to the member's process. The machine opens no port but that of
:func:`prepare`, which is closed when the member has met the others.
"""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Final

from host.files import link_whole
from host.sandbox import usable_memory
from pol.machines.door import PORTS_VARIABLE, Address, Door, port_range
from pol.machines.messages import LOST, Failed, Held, Join, Joined, Work, with_paths
from pol.machines.process import MemberProcess
from pol.machines.sealing import Opener
from pol.machines.stream import LinkError, LostMachine
from pol.work.cluster.files import Workplace

MEMBERS_MAX: Final = 64
"""Most members at a machine at a time."""
JOIN_SECONDS: Final = 60.0
"""Longest time (s) until the machines of a group have met."""
IDLE_SECONDS: Final = 3_600.0
"""Time (s) after which a member without a command is ended: its leader must have forgotten it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The address at which a machine waits for the others, and the public key for which the group's key is sealed."""

    address: Address
    public: bytes


@dataclass(frozen=True, slots=True)
class Peer:
    """Another machine of a group."""

    number: int
    address: Address


class _Hosted:
    """A member at this machine."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.opener = Opener()
        self.process: MemberProcess | None = None
        self.job: Path | None = None
        self.used = time.monotonic()
        self.is_over = False
        # Only one command at a time; `end` does not wait for it.
        self.turn = threading.Lock()


_members: dict[tuple[bytes, int], _Hosted] = {}
_lock = threading.Lock()


def prepare(place: Workplace, group: bytes, number: int) -> Prepared:
    """Listen for the other machines of a group. Raises LinkError if that is not possible."""
    now = time.monotonic()
    with _lock:
        idle = [key for key, own in _members.items() if now - own.used > IDLE_SECONDS and not own.turn.locked()]
    for key in idle:
        end(place, *key)
    door = Door(place.address, port_range(os.environ.get(PORTS_VARIABLE, "")))
    own = _Hosted(door)
    with _lock:
        refused = "has too many members" if len(_members) >= MEMBERS_MAX else ""
        refused = "is in this group already" if (group, number) in _members else refused
        if not refused:
            _members[group, number] = own
    if refused:
        door.close()
        raise LinkError(f"the machine {refused}")
    return Prepared(door.address, own.opener.public)


def join(
    place: Workplace,
    group: bytes,
    number: int,
    files: Sequence[tuple[str, Path]],
    command: Join,
    sealed: bytes,
    peers: Sequence[Peer],
    memory: int,
) -> Joined | Failed:
    """Meet the other machines, start the member, and let it join. ``memory`` limits it; 0 means three quarters of all.

    ``files`` are those that it needs of the job, by their names in the job's directory. ``command`` lacks the directory
    and the key, which are given apart. If a machine was not met, the answer names it. Raises LinkError if the group
    ends meanwhile.
    """
    own = _find(group, number)
    with own.turn:
        key = own.opener.open(sealed, group)
        seconds = min(JOIN_SECONDS, command.patience_ms / 1000)
        addresses = {peer.number: peer.address for peer in peers}
        try:
            connections = own.door.meet(number, addresses, key, command.context, seconds)
        except LostMachine as lost:
            return Failed(kind=LOST, field="", reason=lost.reason, step=-1, machine=lost.machine)
        try:
            own.job = _kept(place, group, number, files)
            limit = memory or usable_memory() * 3 // 4
            arguments = (number, place.folder, (own.job, *place.reads), limit, command.engine.threads, connections)
            process = MemberProcess(*arguments)
        finally:
            for connection in connections.values():
                connection.close()
        with _lock:
            own.process = process
            is_over = own.is_over
        if is_over:
            raise LinkError("the group ended")
        full = replace(command, directory=str(own.job), key=key)
        answer: Joined | Failed = process.ask(full, Joined, 1 << 20)
        own.used = time.monotonic()
        return answer


def ask(
    _place: Workplace, group: bytes, number: int, command: Work, files: tuple[Path, ...], limit: int
) -> Held | Failed:
    """Give the member a command with the paths of its files; return its answer of at most ``limit`` bytes."""
    own = _find(group, number)
    with own.turn:
        process = own.process
        if process is None or own.is_over:
            raise LinkError("the group ended")
        full = with_paths(command, tuple(map(str, files)))
        answer: Held | Failed = process.ask(full, Held, limit)
        own.used = time.monotonic()
        return answer


def end(_place: Workplace, group: bytes, number: int) -> None:
    """End the member, or its machine's wait for the others. What it has not answered ends with an error."""
    with _lock:
        own = _members.pop((group, number), None)
        if own is None:
            return
        own.is_over = True
        process = own.process
    own.door.close()
    if process is not None:
        process.kill()
    with own.turn:
        if own.process is not None:
            own.process.kill()
            own.process.close()
        if own.job is not None:
            rmtree(own.job, ignore_errors=True)


def _find(group: bytes, number: int) -> _Hosted:
    with _lock:
        own = _members.get((group, number))
    if own is None:
        raise LinkError("the machine has no member of this group")
    return own


def _kept(place: Workplace, group: bytes, number: int, files: Sequence[tuple[str, Path]]) -> Path:
    """Link files of a job into a folder of this member: a node may forget its copies between two commands."""
    to = place.keep / f"group-{group.hex()}-{number}"
    for name, source in files:
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        link_whole(source, target)
    return to
