"""Starts worker processes, reads what they say, and ends them.

Workers are started from the daemon's main thread: the kernel kills them when that thread dies.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread, current_thread
from typing import Any

from compute_provider.work.worker import WorkOrder
from domain import codec
from domain.records import ShareKey
from host import sandbox

_log = logging.getLogger("assay.provider")
_LINE_BYTES_MAX = 1 << 20

Listen = Callable[[ShareKey, dict[str, Any]], None]


class Trainer:
    """One worker for each share that is trained."""

    def __init__(self, listen: Listen, log_path: Path) -> None:
        """``listen`` gets every message of a worker, on the thread that reads it.

        A worker that ends without a word counts as having said ``failed``.
        """
        self._listen = listen
        self._log_path = log_path
        self._running: dict[ShareKey, tuple[subprocess.Popen[bytes], Thread]] = {}

    def start(self, key: ShareKey, order: WorkOrder, program: Sequence[str]) -> None:
        """Start ``program`` (a module and its arguments) as worker, unless this order is being worked on."""
        if key in self._running and self._running[key][1].is_alive():
            return
        with self._log_path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *program, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=sandbox.environment(Path(order.folder)),
                start_new_session=True,
            )
        reader = Thread(target=self._read, args=(key, order, process), daemon=True)
        self._running[key] = (process, reader)
        reader.start()

    def stop(self, key: ShareKey) -> None:
        """Kill the workers of a share; nothing is heard of them when this returns."""
        if key in self._running:
            process, reader = self._running.pop(key)
            process.kill()
            reader.join()

    def close(self) -> None:
        """Kill all workers."""
        for key in list(self._running):
            self.stop(key)

    def pids(self) -> list[int]:
        """Return the process ids of workers that run."""
        return [p.pid for p, _ in list(self._running.values()) if p.poll() is None]

    def _read(self, key: ShareKey, order: WorkOrder, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        said_all, problem = False, ""
        try:
            with process.stdin as pipe:
                pipe.write(codec.encode(order) + b"\n")
        except OSError:
            # It died at once; what it says below is all there is.
            pass
        with process.stdout as lines:
            while line := lines.readline(_LINE_BYTES_MAX):
                try:
                    message = json.loads(line)
                    ended = bool({"done", "stopped", "failed"} & message.keys())
                except (ValueError, AttributeError, RecursionError):
                    _log.warning("a worker said something odd: %r", line[:200])
                    continue
                try:
                    self._listen(key, message)
                except Exception as error:  # noqa: BLE001 - nobody else hears of it on this thread
                    _log.exception("what a worker said is lost")
                    problem = f"what the worker said cannot be kept: {error}"
                    process.kill()
                    break
                said_all = said_all or ended
        code = process.wait()
        stopped = (process, current_thread()) not in self._running.values()
        if not said_all and not stopped:
            text = problem or f"the worker ended ({_reason(code)}); see {self._log_path}"
            self._listen(key, {"failed": text, "again": True})


def _reason(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
