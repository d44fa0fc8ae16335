"""Working out the pieces of a validator's probe, in a process of its own that is warm before the clock runs."""

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
from host import sandbox

START_SECONDS = 180.0
"""A back end may take long to come up."""
TASK_SECONDS = 60.0
"""More than any validator waits for."""
_LOOK_SECONDS = 0.1

ProbeTask = Callable[[bytes, int], tuple[bytes, ...]]
"""Works out so many pieces of a seed, and returns a digest of each; ProviderError where the process fails."""


@contextmanager
def probing(backend: str, stop: Event) -> Iterator[ProbeTask]:
    """Start the process, and end it after; whoever calls this stays as long as it lives."""
    command = [sys.executable, "-m", "compute_provider.work.prober", backend, str(os.getpid())]
    with (
        TemporaryDirectory(prefix="assay-probe-") as folder,
        subprocess.Popen(
            [*command, folder],
            env=sandbox.environment(Path(folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as child,
    ):
        assert child.stdin
        assert child.stdout
        ask, answers = child.stdin, child.stdout

        def work(seed: bytes, pieces: int) -> tuple[bytes, ...]:
            try:
                ask.write(json.dumps({"seed": seed.hex(), "pieces": pieces}).encode() + b"\n")
                ask.flush()
            except OSError:
                raise _gone() from None
            said = _line(answers, TASK_SECONDS, stop)
            return tuple(bytes.fromhex(digest) for digest in said)

        try:
            _line(answers, START_SECONDS, stop)
            yield work
        finally:
            child.kill()


def _line(answers: IO[bytes], seconds: float, stop: Event) -> list[str]:
    """Return the next line of the process; ProviderError at ``stop``, or where there is none in time."""
    ends, data = time.monotonic() + seconds, b""
    while not data.endswith(b"\n"):
        if stop.is_set() or time.monotonic() >= ends:
            raise ProviderError("the probe took too long here", "trying again")
        if select.select([answers], [], [], _LOOK_SECONDS)[0]:
            part = os.read(answers.fileno(), 1 << 16)
            if not part:
                raise _gone()
            data += part
    found: list[str] = json.loads(data)
    return found


def _gone() -> ProviderError:
    return ProviderError("the process of the probe ended", "try assay provider bench")


def _main(backend_name: str, parent: int, folder: Path) -> None:
    sandbox.enter(parent, folder, sandbox.usable_memory())
    from pol.executor.backend import backend
    from pol.work.probe import work_pieces

    engine = backend(backend_name)
    # Compiles, and starts threads.
    work_pieces(b"", range(1), engine)
    _say([])
    for line in sys.stdin:
        order = json.loads(line)
        digests = work_pieces(bytes.fromhex(order["seed"]), range(order["pieces"]), engine)
        _say([digest.hex() for digest in digests])


def _say(digests: list[str]) -> None:
    sys.stdout.write(json.dumps(digests) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
