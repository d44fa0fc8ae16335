"""A worker that a job has taken over: it tries what its owner must not suffer, and says which attempts succeeded.

``python -m … KEYRING DAEMON PORT PARENT FOLDER MEMORY READ…``. It trains first, so all libraries are loaded.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from compute_provider.work import worker

if TYPE_CHECKING:
    from compute_provider.work.worker import Produced, Task
    from pol.work.segments import SlotState

_LIBC = ctypes.CDLL(None, use_errno=True)
_REFUSED = {errno.EPERM, errno.EACCES, errno.ENOSYS}
# x86-64 and 64-bit ARM; the same number from 424 on.
_NUMBERS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "rt_sigqueueinfo": (129, 138),
    "tkill": (200, 130),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    "personality": (135, 92),
    "seccomp": (317, 277),
    "pidfd_send_signal": (424, 424),
    "io_uring_setup": (425, 425),
    "clone3": (435, 435),
    "pidfd_open": (434, 434),
}


def _call(name: str, *arguments: int | None) -> Callable[[], object]:
    number = _NUMBERS[name][platform.machine() == "aarch64"]

    def call() -> None:
        if _LIBC.syscall(number, *arguments) < 0:
            raise OSError(ctypes.get_errno(), name)

    return call


def _prctl(*arguments: int) -> None:
    if _LIBC.prctl(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "prctl")


def attempts(keyring: Path, daemon: int, port: int, own: Path) -> dict[str, Callable[[], object]]:
    """Return the attempts of a worker with the folder ``own``: each raises OSError if it is refused."""
    home = keyring.parent.parent
    return {
        "read the keyring": keyring.read_bytes,
        "read it another way": Path(f"/proc/self/root{keyring}").read_bytes,
        "list the owner's home": lambda: list(home.iterdir()),
        "read a blob of another order": (home / "provider" / "blobs" / "other").read_bytes,
        "read the daemon's environment": Path(f"/proc/{daemon}/environ").read_bytes,
        "read the daemon's memory": Path(f"/proc/{daemon}/mem").read_bytes,
        "read the users of the machine": Path("/etc/passwd").read_bytes,
        "link the keyring": lambda: os.link(keyring, own / "keyring"),
        "make a link to the keyring": lambda: (own / "link").symlink_to(keyring),
        "take the keyring": lambda: keyring.rename(own / "keyring"),
        "delete the keyring": keyring.unlink,
        "show the keyring to others": lambda: keyring.chmod(0o666),
        "empty the keyring": lambda: os.truncate(keyring, 0),
        "write into the owner's home": lambda: (home / "new").write_text("x"),
        "write a program into a folder of PATH": lambda: Path("/usr/local/bin/assay-test").write_text("x"),
        "change a module": lambda: Path(worker.__file__).open("ab").close(),
        "write into the job": lambda: (keyring.parent / "job.json").write_text("x"),
        "open a socket": lambda: socket.create_connection(("127.0.0.1", port), 5),
        "open a local socket": lambda: socket.socket(socket.AF_UNIX),
        "ask the kernel": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        "open a pair of sockets": socket.socketpair,
        "signal the daemon": lambda: os.kill(daemon, 0),
        "stop the daemon": lambda: os.kill(daemon, signal.SIGSTOP),
        "signal everyone": lambda: os.kill(-1, 0),
        "signal its group": lambda: os.killpg(0, 0),
        "signal a thread": _call("tkill", daemon, 0),
        "queue a signal": _call("rt_sigqueueinfo", daemon, 0, None),
        "open the daemon's process": _call("pidfd_open", daemon, 0),
        "signal by descriptor": _call("pidfd_send_signal", 0, 0, None, 0),
        "have the kernel signal the daemon": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, daemon),
        "trace the daemon": _call("ptrace", 16, daemon, None, None),
        "read another process": _call("process_vm_readv", daemon, None, 0, None, 0, 0),
        "limit the daemon": lambda: _prlimit(daemon),
        "bind the daemon to a processor": lambda: os.sched_setaffinity(daemon, {0}),
        "fork": _fork,
        "start a shell": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
        "become a shell": lambda: os.execv("/bin/sh", ["/bin/sh"]),
        "run its own file": lambda: _run_own(own),
        "clone a process": _call("clone3", None, 0),
        "type into the terminal": lambda: fcntl.ioctl(2, termios.TIOCSTI, b"x"),
        "outlive the daemon": lambda: _prctl(1, 0, 0, 0, 0),
        "show its memory": lambda: _prctl(4, 1, 0, 0, 0),
        "a new namespace": _call("unshare", 0x1000_0000),
        "another namespace": _call("setns", 0, 0),
        "mount": _call("mount", None, None, None, 0, None),
        "the kernel's keys": _call("keyctl", 0, -3, 0, 0, 0),
        "a program in the kernel": _call("bpf", 0, None, 0),
        "counters of the kernel": _call("perf_event_open", None, 0, -1, -1, 0),
        "faults": _call("userfaultfd", 0),
        "a file in memory": _call("memfd_create", None, 0),
        "shared memory": _call("shmget", 0, 4096, 0o1600),
        "memory past its limit": lambda: mmap.mmap(-1, 4096),
        "messages": _call("mq_open", None, 0, 0, None),
        "a ring of calls": _call("io_uring_setup", 1, None),
        "a personality": _call("personality", 0xFFFFFFFF),
        "another filter": _call("seccomp", 1, 0, None),
    }


def _prlimit(pid: int) -> None:
    import resource

    resource.prlimit(pid, resource.RLIMIT_NOFILE, (16, 16))


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _run_own(own: Path) -> None:
    program = own / "program"
    shutil.copyfile(worker.__file__, program)
    os.execv(program, [str(program)])


def outcomes(tries: dict[str, Callable[[], object]]) -> dict[str, str]:
    """Return what came of each attempt: "refused", or what else happened."""
    results = {}
    for name, attempt in tries.items():
        try:
            attempt()
        except OSError as error:
            results[name] = "refused" if error.errno in _REFUSED else f"{error!r}"
        except BaseException as error:  # noqa: BLE001 - the test shows it
            results[name] = repr(error)
        else:
            results[name] = "done"
    return results


def _attack(task: "Task", index: int, start: "SlotState") -> "Produced":
    made = worker.honest(task, index, start)
    keyring, daemon, port = sys.argv[1:4]
    tries = attempts(Path(keyring), int(daemon), int(port), task.folder)
    task.out.write(json.dumps({"stopped": json.dumps(outcomes(tries))}) + "\n")
    task.out.flush()
    return made


if __name__ == "__main__":
    worker.main(sys.argv[4:], _attack)
