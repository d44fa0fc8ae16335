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

from compute_provider.interfaces import ProviderError
from host import sandbox
from link.client import ClusterClient
from link.types import CHUNK_BYTES_MAX, PROBE, ProbeRequest

PROBE_BYTES = 8 << 20
# A validator that sends byte by byte must not keep us for ever.
_PROBE_SECONDS = 5.0
_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed of exact work on a back end, and the memory of the machine."""

    backend: str
    flops: int  # FLOP/s
    memory: int  # bytes


def measure_speed(backend: str, seconds: float = 2.0, stop: Event | None = None) -> Speed:
    """Time a fixed program for about ``seconds``; ProviderError if the back end does not work, or at ``stop``."""
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
    flops = int(json.loads(output)["flops"])
    return Speed(backend, flops, sandbox.physical_memory())


def _run(command: list[str], environment: dict[str, str], stop: Event) -> bytes:
    """Return the output of a process; CalledProcessError where it fails, is late, or ``stop`` is set."""
    ends = time.monotonic() + _TIMEOUT
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
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


def measure_bandwidth(client: ClusterClient, size: int = PROBE_BYTES) -> int:
    """Return bytes per second from the validator to here, measured for a few seconds at most."""
    # The handshake does not count.
    client.call(PROBE, ProbeRequest(1))
    start, got = time.perf_counter(), 0
    while got < size and time.perf_counter() - start < _PROBE_SECONDS:
        got += len(client.call(PROBE, ProbeRequest(min(CHUNK_BYTES_MAX, size - got))).data)
    return int(got / max(time.perf_counter() - start, 1e-9))


def _main(backend_name: str, seconds: float, parent: int, folder: Path) -> None:
    """Measure on a back end in the sandbox, and say what came out."""
    sandbox.enter(parent, folder, sandbox.physical_memory())
    from pol.executor.backend import backend
    from pol.work.speed import measured_speed

    flops = measured_speed(backend(backend_name), seconds, time.perf_counter)
    sys.stdout.write(json.dumps({"flops": flops}) + "\n")


if __name__ == "__main__":
    _main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
