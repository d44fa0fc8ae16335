"""The filter of system calls: the numbers in its table, what its program answers, and calls in the way of 32 bits."""

import ctypes
import errno
import os
import platform
import signal
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.call_filter import CALLS, DEVICE_CALLS, filter_program

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
PID = 1234


def answer(machine: str, number: int, *arguments: int, audit: int | None = None, device: bool = False) -> int:
    """Run the filter as the kernel does: on the number, the architecture and the arguments of a call."""
    filled = [*arguments, *[0] * (6 - len(arguments))]
    audit = ARCHITECTURES[machine][1] if audit is None else audit
    data = struct.pack("<iIQ6Q", number - (1 << 32) if number >> 31 else number, audit, 0, *filled)
    program = filter_program(machine, PID, device=device)
    position = word = 0
    while True:
        code, if_so, if_not, value = program[position]
        position += 1
        if code == 0x06:
            return value
        if code == 0x20:
            (word,) = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            word &= value
        else:
            position += if_so if (word == value if code == 0x15 else word >= value) else if_not


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_numbers_are_those_of_libseccomp(machine: str) -> None:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("this machine has no libseccomp")
    column, audit = ARCHITECTURES[machine]
    resolve = library.seccomp_syscall_resolve_name_arch
    resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    calls = {**CALLS, **DEVICE_CALLS}
    known = {name: resolve(audit, name.encode()) for name in calls}
    # It answers with a negative number for a call that an architecture does not have.
    assert {name: number if number >= 0 else None for name, number in known.items()} == {
        name: row[column] for name, row in calls.items()
    }


CASES = [
    ("read", (), True),
    ("openat", (), True),
    ("clone", (0x3D0F00,), True),
    ("clone", (0x1200011,), False),
    ("clone", (0x3D0F00 | 0x10000000,), False),
    ("fcntl", (0, 1030), True),
    ("fcntl", (0, 8), False),
    ("ioctl", (2, 0x5401), True),
    ("ioctl", (2, 0x5412), False),
    ("ioctl", (2, 0x1_0000_5412), False),
    ("kill", (PID,), True),
    ("kill", (PID + 1,), False),
    ("kill", ((1 << 64) - 1,), False),
    ("mmap", (0, 4096, 3, 0x22), True),
    ("mmap", (0, 4096, 1, 0x02), True),
    ("mmap", (0, 4096, 1, 0x01), True),
    ("mmap", (0, 4096, 3, 0x21), False),
    ("mmap", (0, 4096, 3, 0x23), False),
    ("tgkill", (PID, PID), True),
    ("tgkill", (1, PID), False),
    ("prctl", (15,), True),
    ("prctl", (1,), False),
    ("prctl", (22,), False),
    ("prlimit64", (0,), True),
    ("prlimit64", (PID + 1,), False),
    ("sched_setaffinity", (0,), True),
    ("sched_setaffinity", (1,), False),
]


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(("name", "arguments", "is_allowed"), CASES)
def test_arguments_decide_about_some_calls(
    machine: str, name: str, arguments: tuple[int, ...], is_allowed: bool
) -> None:
    number = CALLS[name][ARCHITECTURES[machine][0]]
    assert number is not None
    assert answer(machine, number, *arguments) == (ALLOW if is_allowed else FAIL | errno.EPERM)


DEVICE_CASES = [
    # Requests of NVIDIA's driver and of its unified memory, as recorded.
    ("ioctl", (2, 0xC020462A), True),
    ("ioctl", (2, 0xC00846D6), True),
    ("ioctl", (2, 0x49), True),
    ("ioctl", (2, 0x30000001), True),
    ("ioctl", (2, 0x5401), True),
    # TIOCSTI, which types into the owner's terminal, and requests of sockets and other devices.
    ("ioctl", (2, 0x5412), False),
    ("ioctl", (2, 0x1_0000_5412), False),
    ("ioctl", (2, 0x8927), False),
    ("ioctl", (2, 0x30000003), False),
    ("fcntl", (0, 4), True),
    ("fcntl", (0, 8), False),
    ("mmap", (0, 4096, 3, 0x21), True),
    ("mmap", (0, 4096, 3, 0x22), True),
    ("eventfd2", (0, 0), True),
    ("socket", (1, 1, 0), True),
    ("socket", (2, 1, 0), False),
    ("socket", (16, 3, 0), False),
    ("clone", (0x1200011,), False),
    ("kill", (PID + 1,), False),
]


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(("name", "arguments", "is_allowed"), DEVICE_CASES)
def test_a_process_that_uses_a_gpu_may_ask_its_driver(
    machine: str, name: str, arguments: tuple[int, ...], is_allowed: bool
) -> None:
    number = {**CALLS, **DEVICE_CALLS}[name][ARCHITECTURES[machine][0]]
    assert number is not None
    assert answer(machine, number, *arguments, device=True) == (ALLOW if is_allowed else FAIL | errno.EPERM)
    if (name, arguments[1:]) in [("ioctl", (0x49,)), ("mmap", (4096, 3, 0x21))] or name in DEVICE_CALLS:
        assert answer(machine, number, *arguments) == FAIL | errno.EPERM


@pytest.mark.parametrize(
    ("machine", "connects"), [("x86_64", (42, 43, 44, 46, 288)), ("aarch64", (202, 203, 206, 211, 242))]
)
def test_a_process_that_uses_a_gpu_reaches_no_socket(machine: str, connects: tuple[int, ...]) -> None:
    """Calls that connect, accept and send, by their numbers."""
    assert {answer(machine, number, 0, 0, device=True) for number in connects} == {FAIL | errno.EPERM}


@pytest.mark.parametrize("machine", ARCHITECTURES)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6))
def test_other_calls_fail(machine: str, number: int, arguments: list[int]) -> None:
    if number in {row[ARCHITECTURES[machine][0]] for row in CALLS.values()}:
        return
    error = errno.ENOSYS if number >= 424 else errno.EPERM
    assert answer(machine, number, *arguments) == FAIL | error
    assert answer(machine, number, *arguments, audit=0x40000003) == KILL


_OLD_CALL = """
import ctypes, mmap, os, sys
from pathlib import Path
from host import sandbox
if problem := [end for end in sandbox.enter(os.getppid(), Path(sys.argv[1]), 1 << 30) if "system call" in end]:
    sys.exit(77)
rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
memory = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, rights)
memory.write(bytes.fromhex("b814000000cd80c3"))  # getpid of 32 bits: mov eax, 20; int 0x80; ret
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is that of x86-64")
def test_a_call_in_the_way_of_32_bits_ends_the_process(tmp_path: os.PathLike[str]) -> None:
    done = subprocess.run([sys.executable, "-c", _OLD_CALL, tmp_path], check=False, timeout=60)
    if done.returncode == 77:
        pytest.skip("this kernel has no filter of system calls")
    # A kernel without such calls ends the process, too.
    assert done.returncode in (-signal.SIGSYS, -signal.SIGSEGV)
