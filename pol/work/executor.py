"""The interface of executors, which run tasks elsewhere and never in the caller's process; and their errors.

A task is a function that can be imported by its name, with plain values, bytes and paths. An executor on other machines
carries the files of these paths there by their hashes.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar

from domain.errors import Expected

T = TypeVar("T")
LOCAL: Final = "local"
"""The value of ``--executor`` for processes on this machine."""
_SCHEME: Final = "ray://"


class PoolError(Expected):
    """The error of a task that has no result because of the executor or its worker."""


class PoolFull(PoolError):
    """The error of a task that was refused because the queue is full.

    The caller may try again after another task has ended.
    """


class TaskTimeout(PoolError):
    """The error of a task whose deadline passed. Its worker was killed and will be replaced."""


class WorkerDied(PoolError):
    """The error of a task whose worker died. The worker will be replaced."""


class OutOfMemory(PoolError):
    """The error of a task that needed more memory than a worker may use. Its worker will be replaced."""


class NoSpace(PoolError):
    """The error of a task that could not write a file, because its machine has no space for it."""


class PoolClosed(PoolError):
    """The error of a task that had not ended when the executor was closed, or that was submitted later."""


Ended = Callable[[float, BaseException | None], None]
"""A function that is called with a finished task's duration in seconds, and with its error or None."""


class Executor(Protocol):
    """A place that runs tasks, such as the pool of sandboxed processes, or a cluster of such pools."""

    def submit(self, function: Callable[..., T], *args: Any, timeout: float | None = None) -> "Future[T]":
        """Queue ``function(*args)`` as a task and return its future.

        The task with the earliest deadline begins first. A task that has not ended after ``timeout`` seconds fails
        with TaskTimeout. A path among the arguments names a file or folder that the task reads, or a file that does not
        exist yet and that the task writes. Raises PoolFull if the queue is full, and PoolClosed if the executor is
        closed. Every other error of the task is the future's.
        """
        ...

    @property
    def width(self) -> int:
        """Number of tasks that can run at the same time; at least 1."""
        ...

    @property
    def running(self) -> int:
        """Number of tasks that are running."""
        ...

    @property
    def waiting(self) -> int:
        """Number of tasks that wait for a worker."""
        ...

    def close(self) -> None:
        """End all workers. Every task that has not ended fails with :class:`PoolClosed`."""
        ...


def address_of(executor: str) -> str:
    """Return the address (host:port) of the cluster that a value of ``--executor`` names; empty for this machine.

    Raises ValueError if the value has another form.
    """
    if executor == LOCAL:
        return ""
    host, colon, port = executor.removeprefix(_SCHEME).rpartition(":")
    if not executor.startswith(_SCHEME) or not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{executor!r} is not an executor; write local, or ray://HOST:PORT with the port of the head")
    return f"{host}:{port}"
