"""A log of the calls with which CometBFT decides and replays blocks, for tests and for reports of a problem.

A node writes it if the environment variable ``ASSAY_ABCI_LOG`` names a folder. The file has the name of the node's home
and one line per call: the method, the height, and what is needed to check the order of calls. Each line is written with
one system call, so that it outlives a process that is killed.
"""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from cosmpy.protos.tendermint.abci.types_pb2 import Response

from chain.app.abci_server import Method

VARIABLE: Final = "ASSAY_ABCI_LOG"
START: Final = "start"
"""The line that a process writes before it answers the first call."""
CALLS: Final = (
    "info",
    "init_chain",
    "prepare_proposal",
    "process_proposal",
    "extend_vote",
    "verify_vote_extension",
    "finalize_block",
    "commit",
    "offer_snapshot",
    "apply_snapshot_chunk",
)


class AbciLog:
    """An open log of one node."""

    def __init__(self, folder: Path, home: Path) -> None:
        """Append to the file of the home in ``folder``, which is made if it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{home.name}-{sha256(os.fsencode(home.resolve())).hexdigest()[:8]}.log"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._write(START)

    @classmethod
    def of_environment(cls, home: Path) -> "AbciLog | None":
        """Return the log that the environment asks for, or None."""
        folder = os.environ.get(VARIABLE)
        return cls(Path(folder), home) if folder else None

    def logged(self, methods: Mapping[str, Method]) -> dict[str, Method]:
        """Return methods that also write their calls."""
        return {name: self._logged(name, method) if name in CALLS else method for name, method in methods.items()}

    def _logged(self, name: str, method: Method) -> Method:
        def call(request: Any) -> bytes:
            height = getattr(request, "height", 0)
            if name in ("info", "process_proposal"):  # only the answer shows what happened
                answer = method(request)
                response = Response.FromString(answer)
                if name == "info":
                    head = response.info
                    self._write(f"{name} {head.last_block_height} {head.last_block_app_hash.hex()}".rstrip())
                else:
                    self._write(
                        f"{name} {height} {'accepted' if response.process_proposal.status == 1 else 'rejected'}"
                    )
                return answer
            self._write(f"{name} {height}" if height else name)
            answer = method(request)
            if name == "finalize_block":
                self._write(f"finalized {height} {Response.FromString(answer).finalize_block.app_hash.hex()}")
            return answer

        return call

    def _write(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
