"""The worker process of a :class:`pol.work.pool.ReplayPool`. It runs one task after another.

It enters the sandbox before its first task. The worker ends when its parent ends: on Linux the kernel kills it, and on
every system a thread detects the end of the pipe, even while a task runs. Tasks are pickles from the parent, which is
trusted.
"""

import logging
import os
import pickle
import queue
import signal
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from host import sandbox
from host.devices.device import CPU
from pol.work.answers import pack_answer

_log = logging.getLogger("assay.pool")


def _read(connection: "Connection[Any, Any]", tasks: "queue.SimpleQueue[bytes]") -> None:
    """Put received tasks into the queue. If the pipe ends, the parent has ended; then end this process."""
    while True:
        try:
            tasks.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def _run(data: bytes) -> tuple[bool, Any]:
    """Run a task. Return True and its result, or False and its error."""
    try:
        function, args = pickle.loads(data)  # noqa: S301  (from the trusted parent)
        return True, function(*args)
    except Exception as error:  # noqa: BLE001  (every error is the result of the task)
        return False, error


def main(
    descriptor: int, parent: int, folder: Path, memory_bytes: int, device: str = CPU, reads: Sequence[Path] = ()
) -> None:
    """Run tasks from the socket ``descriptor`` until the parent closes it. They may compute on ``device``.

    Tasks may write only into ``folder``, and read only there and in ``reads``.
    """
    for open_end in sandbox.enter(parent, folder, memory_bytes, reads, device):
        _log.warning("sandbox: %s", open_end)
    # The parent handles Ctrl-C, so a worker ignores it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection: Connection[Any, Any] = Connection(descriptor)
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(connection, tasks), daemon=True).start()
    if device == CPU:
        # The driver of a GPU starts threads later, which count as processes.
        sandbox.forbid_processes()
    while True:
        connection.send_bytes(pack_answer(*_run(tasks.get())))
