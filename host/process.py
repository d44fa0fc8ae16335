"""Child processes that cannot outlive their parent, no matter how the parent ends.

A child is started through this file. The child asks the kernel for SIGKILL at its parent's death (PR_SET_PDEATHSIG),
checks that the parent is still there, and becomes the command. The kernel watches the *thread* that started the child.
So only the main thread starts children: a child of another thread would die when that thread ends.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_EXIT_ORPHAN = 71  # EX_OSERR
_EXIT_NOT_FOUND = 127


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends; end at once if ``parent`` is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the kernel was asked
        sys.exit(_EXIT_ORPHAN)


def start_child(
    command: Sequence[str | Path],
    *,
    log_path: Path | None = None,
    piped: bool = False,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start ``command`` as a child in a session of its own.

    The child's output is appended to ``log_path``. Without a ``log_path``, the output goes into the pipe ``stdout`` of
    the child if ``piped``, and otherwise to the output of the parent.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("only the main thread may start child processes")
    wrapped = [sys.executable, "-I", "-S", __file__, str(os.getpid()), *map(str, command)]
    if log_path is None:
        out_fd = subprocess.PIPE if piped else None
        return _popen(wrapped, out_fd, environment, directory, pass_fds)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as out:
        return _popen(wrapped, out.fileno(), environment, directory, pass_fds)


def stop_child(process: subprocess.Popen[bytes], grace_seconds: float = 10.0) -> int:
    """Ask a child to end, kill it after ``grace_seconds``, and return its exit code (negative: a signal)."""
    if process.poll() is None:
        process.terminate()
        try:
            return process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def _popen(
    command: list[str],
    out: int | None,
    environment: Mapping[str, str] | None,
    directory: Path | None,
    pass_fds: Sequence[int],
) -> subprocess.Popen[bytes]:
    # In a session of its own, Ctrl-C does not reach the child: the parent gets it and ends its children in order.
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT if out is not None else None,
        env=environment,
        cwd=directory,
        pass_fds=pass_fds,
        start_new_session=True,
    )


def _become(parent: int, command: list[str]) -> None:
    """Make this process die with ``parent``, and replace it by ``command``."""
    die_with_parent(parent)
    try:
        os.execvp(command[0], command)  # noqa: S606 - becoming the command is what this is for
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)
        sys.exit(_EXIT_NOT_FOUND)


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
