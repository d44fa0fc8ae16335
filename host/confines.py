"""The limits of this process on its machine: processor affinity, CPU time and memory of cgroups, and thread settings.

A measured speed can only be judged together with these limits. A container that may use half a processor is slow even
on a fast machine, and so is a service that may use only two of sixteen processors.
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
"""Smallest memory limit (bytes) that counts as no limit, because version 1 of cgroups writes about 2^63 for "no
limit".
"""


@dataclass(frozen=True, slots=True)
class Confines:
    """The limits of this process.

    ``processors`` is the number of the machine's processors, and ``allowed`` the number that this process may use.
    ``cpu_time`` is the limit of CPU time in processors (None: no limit). ``threads`` is the number of threads that
    the environment sets (OMP_NUM_THREADS), or 0. ``memory`` is the limit in bytes, or the machine's memory.
    """

    processors: int
    allowed: int
    cpu_time: float | None
    threads: int
    memory: int
    is_memory_limited: bool

    def __str__(self) -> str:
        """Return the limits as text; an empty text if there are none."""
        limits = []
        if self.allowed < self.processors:
            limits.append(f"{self.allowed} of {self.processors} processors by affinity")
        if self.cpu_time is not None and self.cpu_time < self.allowed:
            limits.append(f"CPU time of {self.cpu_time:.3g} processors by cgroup")
        if 0 < self.threads < self.allowed:
            limits.append(f"{self.threads} thread{'s' if self.threads > 1 else ''} by {_THREADS}")
        if self.is_memory_limited:
            limits.append(f"{self.memory / 2**30:.3g} GiB of memory by cgroup")
        return ", ".join(limits)


def read_confines(groups: Path = _GROUPS, own: Path = _OWN) -> Confines:
    """Return the limits of this process; a limit that cannot be read counts as none."""
    processors = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else processors
    times = [time for folder in _folders(groups, own, "cpu") if (time := _cpu_time(folder))]
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [size for folder in _folders(groups, own, "memory") if (size := _memory(folder))]
    memory = min((machine, *limits))
    setting = os.environ.get(_THREADS, "")
    return Confines(
        processors=processors,
        allowed=allowed,
        cpu_time=min(times, default=None),
        threads=int(setting) if setting.isdecimal() else 0,
        memory=memory,
        is_memory_limited=memory < machine,
    )


def _folders(groups: Path, own: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's cgroup and of its parents, for both versions of cgroups."""
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
        # In a container, the path is that of the group outside the container, and the container's own group is at the
        # root.
        while folder != root:
            yield folder
            folder = folder.parent
        yield root


def _cpu_time(folder: Path) -> float | None:
    """Return the CPU time that a cgroup may use, in processors, or None if it has no limit."""
    words = _words(folder / "cpu.max")
    if not words:
        words = _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    if len(words) != 2 or not all(word.isdecimal() for word in words) or not int(words[1]):
        return None
    return int(words[0]) / int(words[1])


def _memory(folder: Path) -> int | None:
    """Return the memory limit of a group in bytes, or None if it has no limit."""
    words = _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes")
    if len(words) != 1 or not words[0].isdecimal() or int(words[0]) >= _NO_LIMIT:
        return None
    return int(words[0])


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
