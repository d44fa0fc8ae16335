"""The restrictions that a process accepts before it handles a stranger's bytes.

A job contains no code, but its bytes come from a stranger. So the process that parses and runs it dies with its parent
and has no network. It can write only to one folder (and the null device), and has limits on memory, files and
processes. A restriction that the kernel does not permit is reported and left out. On systems other than Linux only the
limits apply.
"""

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from host.confines import read_confines
from host.process import die_with_parent

_FILES_MAX = 256
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
# Landlock has the same numbers on every architecture.
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_RULE_PATH_BENEATH = 1
# The rights of ABI 1 to execute, to write files, and to remove and make files of every kind; not those to read.
_WRITES = 0b1_1111_1111_0011
_WRITE_FILE = 1 << 1
# Before ABI 3, a process can also empty a file that it may only read.
_TRUNCATE = 1 << 14
_TRUNCATE_ABI = 3
# A flag that asks for the ABI.
_LANDLOCK_VERSION = 1
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_KEPT = ("PATH", "LANG", "ASSAY_NATIVE", *_THREADS)


def usable_memory() -> int:
    """Return the bytes of memory that this process may use: the machine's, or the limit of its cgroup."""
    return read_confines().memory


def environment(folder: Path, threads: int | None = None) -> dict[str, str]:
    """Return the environment for a process that will enter the sandbox.

    It contains no secrets and no settings of other programs. The process can import what this process can import, and
    keeps temporary files in ``folder``. Its numeric library has ``threads`` threads, or as many as the owner has set.
    """
    variables = {name: os.environ[name] for name in _KEPT if name in os.environ}
    if threads is not None:
        variables |= {name: str(threads) for name in _THREADS}
    importable = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    return variables | {"PYTHONPATH": importable, "TMPDIR": str(folder)}


def enter(parent: int, folder: Path, memory_bytes: int) -> Sequence[str]:
    """Give up all rights except writing beneath ``folder`` and using ``memory_bytes`` of memory.

    Return a phrase for each restriction that is not possible. Call it before any thread is started.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES_MAX, _FILES_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory_bytes, memory_bytes))
    # The limit is on written memory, because torch reserves far more address space than it uses.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    if sys.platform != "linux":
        die_with_parent(parent)
        return ["no network and file isolation on this system"]
    missing = []
    libc = ctypes.CDLL(None, use_errno=True)
    # A user namespace is tried first: in it, a worker of root has no rights of root outside.
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        if libc.unshare(_CLONE_NEWNET) == 0:
            missing.append("the kernel does not permit a user namespace: the process keeps root's powers")
        else:
            missing.append("the kernel does not permit a network namespace: the process can use the network")
    # This comes after the change of namespace, which would cancel it.
    die_with_parent(parent)
    if not _write_only_to(libc, folder):
        missing.append("the kernel has no Landlock: the process can write to other files")
    return missing


@contextmanager
def memory_bound(size: int) -> Iterator[None]:
    """Allow this process at most ``size`` more bytes of memory inside the block; beyond it MemoryError is raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _held_memory() + size
    # A lower limit that the process already has stays.
    bounds = [bound for bound in (most, soft) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _held_memory() -> int:
    """Return the bytes that count against this process's memory limit; 0 if the system does not report them."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else ()
    sizes = (line.split()[1] for line in lines if line.startswith("VmData:"))
    return 1024 * int(next(sizes, "0"))


def forbid_processes() -> None:
    """Forbid new processes and threads, after the numeric library has started its own. The kernel exempts root."""
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def landlock_abi() -> int:
    """Return the version of the kernel's Landlock, or -1 if it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION))


def _write_only_to(libc: ctypes.CDLL, folder: Path) -> bool:
    restricted = _WRITES | (_TRUNCATE if landlock_abi() >= _TRUNCATE_ABI else 0)
    attributes = struct.pack("=Q", restricted)
    ruleset = libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    # Libraries open the null device when they are imported.
    allowed = {Path(os.devnull): restricted & (_WRITE_FILE | _TRUNCATE), folder: restricted}
    try:
        return bool(
            all(_allow(libc, ruleset, path, rights) for path, rights in allowed.items())
            and libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            and libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
        )
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> bool:
    """Allow ``rights`` for a file, or for everything beneath a folder; return whether that worked."""
    beneath = os.open(path, os.O_PATH)
    try:
        rule = struct.pack("=Qi", rights, beneath)
        return bool(libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0) == 0)
    finally:
        os.close(beneath)
