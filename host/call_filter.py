"""A filter of system calls for a process that handles untrusted bytes: only the calls in the table below succeed.

The filter is a program for the kernel (seccomp). It looks at the number of a call, and at one argument of some calls. A
call that is not in the table fails with EPERM, or with ENOSYS if Linux 5.1 or later added it. A C library tries such a
new call first, and after ENOSYS it uses an older call. A process cannot remove a filter. The table has the calls that
Python, NumPy, PyTorch and the native kernels make. ``docs/decisions/sandbox.md`` explains why the filter does not come
from a library.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

CALLS: Final[Mapping[str, tuple[int | None, int | None]]] = MappingProxyType(
    {
        # Name: number on x86-64, number on 64-bit ARM; None if the call does not exist there.
        # Memory.
        "brk": (12, 214),
        "madvise": (28, 233),
        "mbind": (237, 235),
        "mprotect": (10, 226),
        "mremap": (25, 216),
        "munmap": (11, 215),
        # Files. Landlock limits the paths.
        "access": (21, None),
        "close": (3, 57),
        "dup": (32, 23),
        "dup2": (33, None),
        "dup3": (292, 24),
        "faccessat": (269, 48),
        "faccessat2": (439, 439),
        "fadvise64": (221, 223),
        "fdatasync": (75, 83),
        "fstat": (5, 80),
        "fstatfs": (138, 44),
        "fsync": (74, 82),
        "ftruncate": (77, 46),
        "getcwd": (79, 17),
        "getdents64": (217, 61),
        "lseek": (8, 62),
        "lstat": (6, None),
        "mkdir": (83, None),
        "mkdirat": (258, 34),
        "newfstatat": (262, 79),
        "open": (2, None),
        "openat": (257, 56),
        "pipe2": (293, 59),
        "pread64": (17, 67),
        "pwrite64": (18, 68),
        "read": (0, 63),
        "readlink": (89, None),
        "readlinkat": (267, 78),
        "readv": (19, 65),
        "rename": (82, None),
        "renameat": (264, 38),
        "renameat2": (316, 276),
        "rmdir": (84, None),
        "stat": (4, None),
        "statfs": (137, 43),
        "statx": (332, 291),
        "unlink": (87, None),
        "unlinkat": (263, 35),
        "write": (1, 64),
        "writev": (20, 66),
        # Threads of this process.
        "exit": (60, 93),
        "exit_group": (231, 94),
        "futex": (202, 98),
        "getcpu": (309, 168),
        "getegid": (108, 177),
        "geteuid": (107, 175),
        "getgid": (104, 176),
        "getpid": (39, 172),
        "getppid": (110, 173),
        "getrlimit": (97, 163),
        "getrusage": (98, 165),
        "gettid": (186, 178),
        "getuid": (102, 174),
        "membarrier": (324, 283),
        "rseq": (334, 293),
        "sched_get_priority_max": (146, 125),
        "sched_get_priority_min": (147, 126),
        "sched_getaffinity": (204, 123),
        "sched_getparam": (143, 121),
        "sched_getscheduler": (145, 120),
        "sched_yield": (24, 124),
        "set_robust_list": (273, 99),
        "setrlimit": (160, 164),
        "times": (100, 153),
        "wait4": (61, 260),
        # Signals that this process gets.
        "pause": (34, None),
        "restart_syscall": (219, 128),
        "rt_sigaction": (13, 134),
        "rt_sigpending": (127, 136),
        "rt_sigprocmask": (14, 135),
        "rt_sigreturn": (15, 139),
        "sigaltstack": (131, 132),
        # Time and waiting.
        "clock_getres": (229, 114),
        "clock_gettime": (228, 113),
        "clock_nanosleep": (230, 115),
        "gettimeofday": (96, 169),
        "nanosleep": (35, 101),
        "poll": (7, None),
        "ppoll": (271, 73),
        "pselect6": (270, 72),
        "select": (23, None),
        "time": (201, None),
        # The machine.
        "getrandom": (318, 278),
        "sysinfo": (99, 179),
        "uname": (63, 160),
        # Calls with a condition on an argument (``_conditions``).
        "arch_prctl": (158, None),
        "clone": (56, 220),
        "fcntl": (72, 25),
        "ioctl": (16, 29),
        "kill": (62, 129),
        "mmap": (9, 222),
        "prctl": (157, 167),
        "prlimit64": (302, 261),
        "sched_setaffinity": (203, 122),
        "tgkill": (234, 131),
    }
)

DEVICE_CALLS: Final[Mapping[str, tuple[int | None, int | None]]] = MappingProxyType(
    {
        "bind": (49, 200),
        "eventfd2": (290, 19),
        "get_mempolicy": (239, 236),
        "listen": (50, 201),
        "setsockopt": (54, 208),
        "socket": (41, 198),
    }
)
"""Further calls that the driver of an NVIDIA GPU makes, with the same columns. It makes a socket of this machine, but
nothing here can connect to a socket, or accept a connection.
"""


@dataclass(frozen=True, slots=True)
class _Architecture:
    """The kernel's mark of an architecture, its column in ``CALLS``, and the number of its call ``seccomp``."""

    audit: int
    column: int
    seccomp: int


_ARCHITECTURES: Final[Mapping[str, _Architecture]] = MappingProxyType(
    {"x86_64": _Architecture(0xC000003E, 0, 317), "aarch64": _Architecture(0xC00000B7, 1, 277)}
)

_NEW_CALLS: Final = 424
"""Number of the first system call that Linux 5.1 added. This call and all later ones have the same numbers on all
architectures.
"""


@dataclass(frozen=True, slots=True)
class _Condition:
    """The values that an argument may have after ``mask`` was applied to its lower 32 bits.

    ``others`` has further masks, each with its values; one of all masks must fit. If an argument has a condition, the
    kernel ignores its upper bits, so the condition need not test them.
    """

    argument: int
    values: Sequence[int]
    mask: int = 0xFFFF_FFFF
    others: Sequence[tuple[int, Sequence[int]]] = ()


_DEVICE_REQUESTS: Final = (
    # The driver's requests have the type 'F'. Those of its unified memory have numbers of one byte, and two others.
    (0x0000_FF00, (0x4600,)),
    (0xFFFF_FF00, (0,)),
    (0xFFFF_FFFF, (0x3000_0001, 0x3000_0002)),
)


def _conditions(pid: int, *, device: bool) -> Mapping[str, _Condition]:
    """Return the conditions on arguments of calls of the process ``pid``, which may use a ``device``."""
    usual = _usual_conditions(pid)
    if not device:
        return usual
    fcntl, ioctl, mmap = usual["fcntl"], usual["ioctl"], usual["mmap"]
    return {
        **usual,
        # F_SETFL: the driver sets flags of its own descriptors.
        "fcntl": replace(fcntl, values=(*fcntl.values, 4)),
        "ioctl": replace(ioctl, others=_DEVICE_REQUESTS),
        # The driver reserves addresses as shared memory.
        "mmap": replace(mmap, values=(*mmap.values, 0x21)),
        # AF_UNIX.
        "socket": _Condition(0, (1,)),
    }


def _usual_conditions(pid: int) -> Mapping[str, _Condition]:
    return {
        # Requests for the registers of AMX: number of a feature, or of all.
        "arch_prctl": _Condition(0, (0x1021, 0x1022, 0x1023)),
        # CLONE_THREAD without any new namespace: a thread, never a process.
        "clone": _Condition(0, (0x0001_0000,), 0x7E02_0000 | 0x0001_0000),
        # Copies of descriptors, and their flags; not the owner of signals (F_SETOWN), which may be another process.
        "fcntl": _Condition(1, (0, 1, 2, 3, 1030)),
        # TCGETS, TIOCGWINSZ, FIONREAD, FIONCLEX, FIOCLEX; not TIOCSTI, which types into the owner's terminal.
        "ioctl": _Condition(1, (0x5401, 0x5413, 0x541B, 0x5450, 0x5451)),
        "kill": _Condition(0, (pid,)),
        # A file or private memory (MAP_ANONYMOUS); not memory that could be shared, which the limit does not count.
        "mmap": _Condition(3, (0, 0x01, 0x20), 0x21),
        # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA; not PR_SET_PDEATHSIG, with which the process could outlive its parent.
        "prctl": _Condition(0, (15, 16, 0x5356_4D41)),
        # 0 is the calling process or thread; the limits and processors of other programs of this user must not change.
        "prlimit64": _Condition(0, (0,)),
        "sched_setaffinity": _Condition(0, (0,)),
        "tgkill": _Condition(0, (pid,)),
    }


# Codes of instructions: load a word of the call's data; jump if equal, or at least; and; return.
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _FAIL, _KILL_PROCESS = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
# Offsets in the call's data: its number, its architecture, and the lower half of its first argument of eight bytes.
_NUMBER, _AUDIT, _ARGUMENTS = 0, 4, 16
_SET_MODE_FILTER = 1
# Without this flag, kernels before 5.16 also make all memory accesses of the process slower.
_SPEC_ALLOW = 4


def is_known(machine: str) -> bool:
    """Return whether there is a filter for this kind of processor."""
    return machine in _ARCHITECTURES and sys.byteorder == "little"


def filter_program(machine: str, pid: int, *, device: bool = False) -> list[tuple[int, int, int, int]]:
    """Return the filter of the process ``pid`` as a list of instructions. With a ``device``, it may use a GPU.

    An instruction is a code, two jump distances, and a number.
    """
    architecture = _ARCHITECTURES[machine]
    conditions = _conditions(pid, device=device)
    calls = {**CALLS, **DEVICE_CALLS} if device else CALLS
    numbers = {name: row[architecture.column] for name, row in calls.items()}
    program = [
        (_LOAD, 0, 0, _AUDIT),
        # A call made in the way of another architecture would have other numbers.
        (_EQUAL, 1, 0, architecture.audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for name, number in numbers.items():
        if number is not None:
            answer = list(_checked(conditions[name])) if name in conditions else [(_RETURN, 0, 0, _ALLOW)]
            program += [(_EQUAL, 0, len(answer), number), *answer]
    return [
        *program,
        (_AT_LEAST, 0, 1, _NEW_CALLS),
        (_RETURN, 0, 0, _FAIL | errno.ENOSYS),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
    ]


def _checked(condition: _Condition) -> Iterator[tuple[int, int, int, int]]:
    for mask, values in ((condition.mask, condition.values), *condition.others):
        yield _LOAD, 0, 0, _ARGUMENTS + 8 * condition.argument
        yield _AND, 0, 0, mask
        for value in values:
            yield _EQUAL, 0, 1, value
            yield _RETURN, 0, 0, _ALLOW
    yield _RETURN, 0, 0, _FAIL | errno.EPERM


def install(libc: ctypes.CDLL, *, device: bool = False) -> str:
    """Filter the calls of this thread and of all threads that it starts. With a ``device``, they may use a GPU.

    Before that, the process must have given up new rights (PR_SET_NO_NEW_PRIVS). Return a phrase that says why the
    filter is not possible; the phrase is empty if the filter was installed.
    """
    machine = platform.machine()
    if not is_known(machine):
        return f"there is no filter of system calls for the processor {machine}: the process can make any system call"
    program = filter_program(machine, os.getpid(), device=device)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    whole = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    call = _ARCHITECTURES[machine].seccomp
    if libc.syscall(call, _SET_MODE_FILTER, _SPEC_ALLOW, whole) != 0:
        return "the kernel has no filter of system calls (seccomp): the process can make any system call"
    return ""
