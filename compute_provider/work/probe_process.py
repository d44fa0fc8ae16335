"""The process that computes the pieces of a validator's probe. :mod:`compute_provider.work.prober` starts it.

It imports only what it computes with.
"""

import json
import sys
from pathlib import Path

from domain import codec
from host import sandbox
from pol.executor.names import Engine


def _main(engine: Engine, parent: int, folder: Path) -> None:
    sandbox.enter(parent, folder, engine.memory_bytes, device=engine.device)
    from pol.executor.backend import backend
    from pol.work.probe import work_pieces

    executor = backend(engine)
    # A first call compiles code and starts threads; the empty answer reports that the process is ready.
    work_pieces(b"", range(1), executor)
    _print([])
    for line in sys.stdin:
        order = json.loads(line)
        digests = work_pieces(bytes.fromhex(order["seed"]), range(order["pieces"]), executor)
        _print([digest.hex() for digest in digests])


def _print(digests: list[str]) -> None:
    sys.stdout.write(json.dumps(digests) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(codec.decode(Engine, sys.argv[1].encode()), int(sys.argv[2]), Path(sys.argv[3]))
