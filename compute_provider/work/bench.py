"""What this machine can do: speed of exact work, memory, and the way to a validator.

The numbers come from a process of its own, in the sandbox that training has, so that the daemon never loads a
numeric library and a machine that says how fast it is can also train.
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
from typing import TYPE_CHECKING, Any

from compute_provider.interfaces import ProviderError
from host import sandbox
from host.confines import read_confines
from link.client import ClusterClient
from link.types import BANDWIDTH, CHUNK_BYTES_MAX, BandwidthRequest
from pol.executor.names import NATIVE

if TYPE_CHECKING:
    from pol.executor.interface import Backend

_WAY_BYTES = 8 << 20
# A validator that sends byte by byte must not keep us for ever.
_WAY_SECONDS = 5.0
_TIMEOUT = 120.0
# As of a probe, of many: what is drawn for all of them takes as long as a few.
_PIECES = 16
_PARTS = 5


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed of exact work on a back end, what computes there in words, and the memory of the machine."""

    backend: str
    flops: int  # FLOP/s, of the middle part of the time
    memory: int  # bytes
    # FLOP/s of the slowest and the quickest part: far apart on a machine that has other things to do.
    slowest: int = 0
    quickest: int = 0
    # What the process was confined to, in words; empty where it had the whole machine.
    limits: str = ""

    @property
    def computing(self) -> str:
        """What computes, and within which limits."""
        return within(self.backend, self.limits)


_WITHIN = " within "


def within(computing: str, limits: str) -> str:
    """Return what computes, in words, with the limits that it was measured within."""
    return computing + (_WITHIN + limits if limits else "")


def limits_of(computing: str) -> str:
    """Return the limits that :func:`within` has added."""
    return computing.partition(_WITHIN)[2]


def limits_here() -> str:
    """Return what this process is confined to, in words."""
    return str(read_confines())


def measure_speed(backend: str, seconds: float = 2.0, stop: Event | None = None) -> Speed:
    """Time a fixed program for about ``seconds``; ProviderError if the back end does not work, or at ``stop``."""
    told = _ask(backend, seconds, stop)
    parts = sorted(told["flops"])
    middle = parts[len(parts) // 2]
    return Speed(
        backend=told["backend"],
        flops=middle,
        memory=sandbox.usable_memory(),
        slowest=parts[0],
        quickest=parts[-1],
        limits=limits_here(),
    )


def what_computes(backend: str, stop: Event | None = None) -> str:
    """Say what computes here, and within which limits; ProviderError as above."""
    found: str = backend if backend != NATIVE else _ask(backend, 0, stop)["backend"]
    return within(found, limits_here())


def _ask(backend: str, seconds: float, stop: Event | None) -> dict[str, Any]:
    """Return what a process of its own tells: ``backend`` in words, and ``flops`` of each part of its seconds."""
    parent = str(os.getpid())
    command = [sys.executable, "-m", "compute_provider.work.bench", backend, str(seconds), parent]
    try:
        with TemporaryDirectory(prefix="assay-bench-") as folder:
            environment = sandbox.environment(Path(folder))
            output = _run([*command, folder], environment, stop or Event())
    except subprocess.CalledProcessError as error:
        detail = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ProviderError(
            f"the back end {backend} does not work here: {' '.join(detail) or 'no answer'}",
            "install assay[train] for torch, or use numpy",
        ) from None
    told: dict[str, Any] = json.loads(output)
    return told


def _run(command: list[str], environment: dict[str, str], stop: Event) -> bytes:
    """Return the output of a process; CalledProcessError where it fails, is late, or ``stop`` is set."""
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
    """Return bytes per second from the validator to here, measured for a few seconds at most."""
    # The handshake does not count.
    client.call(BANDWIDTH, BandwidthRequest(1))
    start, got = time.perf_counter(), 0
    while got < size and time.perf_counter() - start < _WAY_SECONDS:
        got += len(client.call(BANDWIDTH, BandwidthRequest(min(CHUNK_BYTES_MAX, size - got))).data)
    return int(got / max(time.perf_counter() - start, 1e-9))


def _main(backend_name: str, seconds: float, parent: int, folder: Path) -> None:
    """Say what computes and, with seconds for it, run what a validator's probe asks for, and count."""
    sandbox.enter(parent, folder, sandbox.usable_memory())
    from pol.errors import ExecutionError
    from pol.executor.backend import backend, computing

    try:
        engine, words = backend(backend_name), computing(backend_name)
    except ExecutionError as error:
        # the last line of a process is what is shown of it
        sys.exit(str(error))
    parts = [_flops(engine, seconds / _PARTS) for _ in range(_PARTS)] if seconds else []
    told = {"backend": words, "flops": parts}
    sys.stdout.write(json.dumps(told) + "\n")


def _flops(engine: "Backend", seconds: float) -> int:
    """Return FLOP/s of about so many seconds."""
    from pol.rules.probe import PIECE_WORK
    from pol.work.probe import work_pieces

    # Compiles, and starts threads.
    work_pieces(b"", range(1), engine)
    pieces, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        work_pieces(b"", range(pieces, pieces + _PIECES), engine)
        pieces += _PIECES
    return int(pieces * PIECE_WORK / passed)


if __name__ == "__main__":
    _main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
