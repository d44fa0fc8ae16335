"""The process at the other end of a :class:`pol.work.pool.ReplayPool`: runs one task after another.

It enters the sandbox before its first task. It dies with its parent, whatever kills that: the kernel is asked to
(Linux), and the end of the pipe is noticed even while a task runs. Tasks come from our own parent, as pickles.
"""

import logging
import os
import pickle
import queue
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from host import sandbox

_log = logging.getLogger("assay.pool")


def _read(connection: "Connection[Any, Any]", tasks: "queue.SimpleQueue[bytes]") -> None:
    """Pass tasks on; the end of the pipe is the end of the parent."""
    while True:
        try:
            tasks.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def _run(data: bytes) -> tuple[bool, Any]:
    """Run a task and return whether it succeeded, with its result or its error."""
    try:
        function, args = pickle.loads(data)  # noqa: S301  (from our own parent)
        return True, function(*args)
    except Exception as error:  # noqa: BLE001  (whatever it is, it belongs to the task)
        return False, error


def _pack(done: bool, value: Any) -> bytes:
    try:
        data = pickle.dumps((done, value))
        pickle.loads(data)  # noqa: S301  (an error that cannot be read must not reach the parent)
    except Exception as error:  # noqa: BLE001
        return pickle.dumps((False, RuntimeError(f"{value!r} cannot travel: {error}")))
    return data


def main(descriptor: int, parent: int, folder: Path, memory_bytes: int) -> None:
    """Serve tasks from the socket ``descriptor`` until the parent closes it, writing nowhere but in ``folder``."""
    for open_end in sandbox.enter(parent, folder, memory_bytes):
        _log.warning("sandbox: %s", open_end)
    # Ctrl-C is the parent's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection: Connection[Any, Any] = Connection(descriptor)
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(connection, tasks), daemon=True).start()
    sandbox.forbid_processes()
    while True:
        connection.send_bytes(_pack(*_run(tasks.get())))
