"""The process that measures the speed of a back end. :mod:`compute_provider.work.bench` starts it.

It imports only what it computes with.
"""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from domain import codec
from host import sandbox
from pol.executor.names import Engine

if TYPE_CHECKING:
    from pol.executor.interface import Backend

# Pieces per call. There are many, as in a probe, because a call has a fixed cost as large as that of a few pieces.
_PIECES = 16
# Number of parts of the measurement: each part gives a speed.
_PARTS = 5


def _main(engine: Engine, seconds: float, parent: int, folder: Path) -> None:
    """Print the back end's name in words, the FLOP/s of each part, and sentences about the sandbox, as JSON.

    If ``seconds`` is 0, print no FLOP/s.
    """
    open_ends = sandbox.enter(parent, folder, engine.memory_bytes, device=engine.device)
    from pol.errors import ExecutionError
    from pol.executor.backend import backend, computing

    try:
        executor, words = backend(engine), computing(engine)
    except ExecutionError as error:
        # The daemon's error shows the last line of this process.
        sys.exit(str(error))
    parts = [_flops(executor, seconds / _PARTS) for _ in range(_PARTS)] if seconds else []
    sys.stdout.write(json.dumps({"backend": words, "flops": parts, "open": open_ends}) + "\n")


def _flops(executor: "Backend", seconds: float) -> int:
    """Compute pieces of a probe for about ``seconds``, and return the FLOP/s."""
    from pol.rules.probe import PIECE_WORK
    from pol.work.probe import work_pieces

    # The first call compiles code and starts threads, so it is not timed.
    work_pieces(b"", range(1), executor)
    pieces = 0
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        work_pieces(b"", range(pieces, pieces + _PIECES), executor)
        pieces += _PIECES
    return int(pieces * PIECE_WORK / passed)


if __name__ == "__main__":
    _main(codec.decode(Engine, sys.argv[1].encode()), float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
