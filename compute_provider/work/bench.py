"""Measurements of this machine: the speed of exact work, the memory, and the bandwidth from a validator.

The speed is measured in a separate process, in the same sandbox as training. So the daemon never loads a numerical
library, and a machine on which the measurement works can also train.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from compute_provider.interfaces import ProviderError
from domain import codec
from host import sandbox
from host.confines import read_confines
from link.client import ClusterClient
from link.types import BANDWIDTH, CHUNK_BYTES_MAX, BandwidthRequest
from pol.executor.names import NATIVE, Engine

_WAY_BYTES = 8 << 20
# Longest time for a measurement of the bandwidth: a validator may send very slowly.
_WAY_SECONDS = 5.0
_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of exact work with a back end, and the memory of the machine.

    ``backend`` is the back end's name in words.
    """

    backend: str
    flops: int  # FLOP/s: the median of the parts
    memory: int  # bytes
    # FLOP/s of the slowest and the quickest part; they differ widely if other programs use the machine.
    slowest: int = 0
    quickest: int = 0
    # The limits of the process, in words; empty if it had the whole machine.
    limits: str = ""
    # A sentence for each part of the sandbox that this machine does not offer.
    open_ends: tuple[str, ...] = ()

    @property
    def computing(self) -> str:
        """The back end and the limits of the process, in words."""
        return within(self.backend, self.limits)


_WITHIN = " within "


def within(computing: str, limits: str) -> str:
    """Return the back end's name in words, followed by the limits of the measured process in words."""
    return computing + (_WITHIN + limits if limits else "")


def limits_of(computing: str) -> str:
    """Return the limits that :func:`within` added to the back end's name."""
    return computing.partition(_WITHIN)[2]


def limits_here() -> str:
    """Return the limits of this process (processors, memory, threads), in words."""
    return str(read_confines())


def measure_speed(engine: Engine, seconds: float = 2.0, stop: Event | None = None) -> Speed:
    """Time a fixed program for about ``seconds``; ProviderError if the back end does not work or ``stop`` is set."""
    answer = _ask(engine, seconds, stop)
    parts = sorted(answer["flops"])
    return Speed(
        backend=answer["backend"],
        flops=parts[len(parts) // 2],
        memory=engine.memory or sandbox.usable_memory(),
        slowest=parts[0],
        quickest=parts[-1],
        limits=limits_here(),
        open_ends=tuple(answer["open"]),
    )


def what_computes(engine: Engine, stop: Event | None = None) -> str:
    """Return the back end's name with the limits of this process, in words.

    ProviderError as in :func:`measure_speed`.
    """
    words: str = engine.code if engine.name != NATIVE else _ask(engine, 0, stop)["backend"]
    return within(words, limits_here())


def _ask(engine: Engine, seconds: float, stop: Event | None) -> dict[str, Any]:
    """Measure in a separate process.

    Return ``backend`` (its name in words), ``flops`` (FLOP/s of each part), and ``open`` (sentences about the sandbox).
    """
    parent = str(os.getpid())
    command = [
        sys.executable,
        "-P",
        "-m",
        "compute_provider.work.speed_process",
        codec.encode(engine).decode(),
        str(seconds),
        parent,
    ]
    try:
        with TemporaryDirectory(prefix="assay-bench-") as folder:
            environment = sandbox.environment(Path(folder), engine.threads or None, engine.device)
            output = _run([*command, folder], environment, stop or Event())
    except subprocess.CalledProcessError as error:
        detail = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ProviderError(
            f"the back end {engine.name} does not work on this machine: {' '.join(detail) or 'no answer'}",
            "for torch, install assay[train]; or use --backend numpy",
        ) from None
    answer: dict[str, Any] = json.loads(output)
    return answer


def _run(command: list[str], environment: dict[str, str], stop: Event) -> bytes:
    """Return the output of a process; CalledProcessError if it fails, takes too long, or ``stop`` is set."""
    ends = time.monotonic() + _TIMEOUT
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        while True:
            try:
                output, errors = child.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                if stop.is_set() or time.monotonic() >= ends:
                    child.kill()
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command, output, errors)
    return output


def measure_bandwidth(client: ClusterClient, size: int = _WAY_BYTES) -> int:
    """Return the download rate (bytes/s) from the validator to this machine, measured for a few seconds at most."""
    # The first call is not timed, because it includes the handshake.
    client.call(BANDWIDTH, BandwidthRequest(1))
    start = time.perf_counter()
    got = 0
    while got < size and time.perf_counter() - start < _WAY_SECONDS:
        got += len(client.call(BANDWIDTH, BandwidthRequest(min(CHUNK_BYTES_MAX, size - got))).data)
    return int(got / max(time.perf_counter() - start, 1e-9))
