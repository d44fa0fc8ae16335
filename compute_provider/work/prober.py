"""The computation of a validator's probe. Its process loads the back end before the validator measures any time."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import IO

from compute_provider.interfaces import ProviderError
from domain import codec
from domain.limits import PROBE_PIECES_MAX
from host import sandbox
from host.foreign_json import read_json
from pol.executor.names import Engine

START_SECONDS = 180.0
"""Longest time (s) for the start of the process: a back end may take long to load."""
TASK_SECONDS = 60.0
"""Longest time (s) for a task. A longer time is of no use, because validators do not wait longer."""
_LOOK_SECONDS = 0.1
_LINE_BYTES_MAX = 1 << 20

ProbeTask = Callable[[bytes, int], tuple[bytes, ...]]
"""A function that takes a seed and a number of pieces, and returns the pieces' digests; ProviderError on failure."""


@contextmanager
def probing(engine: Engine, stop: Event) -> Iterator[ProbeTask]:
    """Start the process that computes a probe, yield the function that gives it tasks, and end the process afterwards.

    The calling thread must live as long as the process: the kernel kills the process with that thread.
    """
    command = [
        sys.executable,
        "-P",
        "-m",
        "compute_provider.work.probe_process",
        codec.encode(engine).decode(),
        str(os.getpid()),
    ]
    with (
        TemporaryDirectory(prefix="assay-probe-") as folder,
        subprocess.Popen(
            [*command, folder],
            env=sandbox.environment(Path(folder), engine.threads or None, engine.device),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as child,
    ):
        assert child.stdin
        assert child.stdout
        ask = child.stdin
        answers = child.stdout

        def work(seed: bytes, pieces: int) -> tuple[bytes, ...]:
            try:
                ask.write(json.dumps({"seed": seed.hex(), "pieces": pieces}).encode() + b"\n")
                ask.flush()
            except OSError:
                raise _ended_error() from None
            digests = _line(answers, TASK_SECONDS, stop)
            return tuple(bytes.fromhex(digest) for digest in digests)

        try:
            _line(answers, START_SECONDS, stop)
            yield work
        finally:
            child.kill()


def _line(answers: IO[bytes], seconds: float, stop: Event) -> list[str]:
    """Return the digests in the next line of the process.

    ProviderError if no line comes within ``seconds`` or before ``stop``.
    """
    ends = time.monotonic() + seconds
    data = b""
    while not data.endswith(b"\n"):
        if stop.is_set() or time.monotonic() >= ends:
            raise ProviderError("the probe took too long on this machine", "trying again")
        if select.select([answers], [], [], _LOOK_SECONDS)[0]:
            part = os.read(answers.fileno(), 1 << 16)
            if not part:
                raise _ended_error()
            data += part
            if len(data) > _LINE_BYTES_MAX:
                raise ProviderError(
                    "the process that computes the probe sent an answer that is too long", "trying again"
                )
    digests: list[str] = read_json(data, PROBE_PIECES_MAX)
    return digests


def _ended_error() -> ProviderError:
    return ProviderError("the process that computes the probe ended", "run assay provider bench to see why")
