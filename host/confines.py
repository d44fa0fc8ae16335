"""What this process may use of its machine: processors by affinity, CPU time and memory by cgroups, threads by setting.

A figure that was measured says little without that: a container with half a processor, or a service that was pinned to
two of sixteen, is as slow as its limits and not as its machine.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
_THREADS: Final = "OMP_NUM_THREADS"
_NO_LIMIT: Final = 1 << 60
"""Version 1 writes about 2^63 where there is no limit of memory."""


@dataclass(frozen=True, slots=True)
class Confines:
    """``processors`` of the machine, those that are ``allowed``, and the CPU time in processors (None: no limit).

    ``threads`` is what the environment says, 0 where nothing. ``memory`` are bytes of the limit, or of the machine.
    """

    processors: int
    allowed: int
    cpu_time: float | None
    threads: int
    memory: int
    is_memory_limited: bool

    def __str__(self) -> str:
        """Say what limits there are; nothing where there are none."""
        said = []
        if self.allowed < self.processors:
            said.append(f"{self.allowed} of {self.processors} processors by affinity")
        if self.cpu_time is not None and self.cpu_time < self.allowed:
            said.append(f"CPU time of {self.cpu_time:.3g} processors by cgroup")
        if 0 < self.threads < self.allowed:
            said.append(f"{self.threads} thread{'s' if self.threads > 1 else ''} by {_THREADS}")
        if self.is_memory_limited:
            said.append(f"{self.memory / 2**30:.3g} GiB of memory by cgroup")
        return ", ".join(said)


def read_confines(groups: Path = _GROUPS, own: Path = _OWN) -> Confines:
    """Return the limits of this process; what cannot be read is none."""
    processors = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else processors
    times = [time for folder in _folders(groups, own, "cpu") if (time := _cpu_time(folder))]
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [size for folder in _folders(groups, own, "memory") if (size := _memory(folder))]
    memory = min((machine, *limits))
    said = os.environ.get(_THREADS, "")
    return Confines(
        processors=processors,
        allowed=allowed,
        cpu_time=min(times, default=None),
        threads=int(said) if said.isdecimal() else 0,
        memory=memory,
        is_memory_limited=memory < machine,
    )


def _folders(groups: Path, own: Path, controller: str) -> Iterator[Path]:
    """Yield the folder of this process's group and those above it, of both versions of cgroups."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, names, path = line.split(":", 2)
        root = groups / controller if controller in names.split(",") else groups
        if names and controller not in names.split(","):
            continue
        folder = root / path.strip("/")
        # In a container the path is that of outside, and its own group is at the root.
        while folder != root:
            yield folder
            folder = folder.parent
        yield root


def _cpu_time(folder: Path) -> float | None:
    """Return the CPU time of a group in processors, None where it has no limit."""
    found = _words(folder / "cpu.max")
    if not found:
        found = _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    if len(found) != 2 or not all(word.isdecimal() for word in found) or not int(found[1]):
        return None
    return int(found[0]) / int(found[1])


def _memory(folder: Path) -> int | None:
    """Return the limit of memory of a group in bytes, None where it has none."""
    found = _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes")
    if len(found) != 1 or not found[0].isdecimal() or int(found[0]) >= _NO_LIMIT:
        return None
    return int(found[0])


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
