"""What the worker gives up before it touches anything from outside.

On Linux; elsewhere only the limits.

A job holds no code, yet its bytes come from a stranger. So the process that parses and runs it dies
with its parent, has no network, writes to one folder only, and has bounds on memory, files and
processes. What the kernel does not permit is reported and left out, never guessed.
"""

import ctypes
import os
import resource
import signal
import struct
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
# Landlock has the same numbers on every architecture.
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_RULE_PATH_BENEATH = 1
# ABI 1: execute, write file, (not: read file, read dir), remove and make of every kind.
_WRITES = 0b1_1111_1111_0011
_TRUNCATE, _TRUNCATE_ABI = 1 << 14, 3  # before, a file that may be read may also be emptied
_LANDLOCK_VERSION = 1  # flag: ask for the ABI


def enter(parent: int, folder: Path, memory_bytes: int, address_space: bool) -> list[str]:
    """Give up what is not needed; return what could not be given up.

    Call it before any thread is started. ``address_space``: bound the whole address space, not only
    the heap (torch reserves far more than it uses).
    """
    open_ends: list[str] = []
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory_bytes, memory_bytes))
    kind = resource.RLIMIT_AS if address_space else resource.RLIMIT_DATA
    resource.setrlimit(kind, (memory_bytes, memory_bytes))
    if sys.platform != "linux":
        return ["no network and file isolation on this system"]
    libc = ctypes.CDLL(None, use_errno=True)
    # With users of its own first: what root may do outside, a worker of root may not.
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        if libc.unshare(_CLONE_NEWNET) == 0:
            open_ends.append("the kernel does not permit users of its own: it keeps root's powers")
        else:
            open_ends.append("the kernel does not permit a network of its own")
    # After the change of namespace, which would clear it.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was told
        sys.exit(1)
    if not _write_only_to(libc, folder):
        open_ends.append("the kernel has no Landlock: files are not read-only")
    return open_ends


def forbid_processes() -> None:
    """Forbid new processes and threads, once the numeric library has started its own."""
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def landlock_abi() -> int:
    """Return the version of the kernel's Landlock, -1 where it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION))


def _write_only_to(libc: ctypes.CDLL, folder: Path) -> bool:
    closed = _WRITES | (_TRUNCATE if landlock_abi() >= _TRUNCATE_ABI else 0)
    attributes = struct.pack("=Q", closed)
    ruleset = libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    beneath = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        rule = struct.pack("=Qi", closed, beneath)
        return bool(
            libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0) == 0
            and libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            and libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
        )
    finally:
        os.close(beneath)
        os.close(ruleset)
