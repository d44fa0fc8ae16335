"""A remote signer as a process of its own: the one of CometBFT (``cmd/priv_val_server``), built from its module."""

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from threading import Thread
from typing import Self

from chain.app.comet_files import NodeKeys, write_keys
from chain.app.comet_version import VERSION
from tools.setup.cometbft import cache_path, place

MODULE = f"github.com/cometbft/cometbft/cmd/priv_val_server@v{VERSION}"
BUILD_SECONDS = 600


def find_signer() -> Path | None:
    """Return the signer's program, which is built at the first call; None without Go."""
    cached = cache_path().with_name(f"priv_val_server-v{VERSION}-{platform.machine()}")
    if cached.is_file():
        return cached
    if shutil.which("go") is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        env = {**os.environ, "CGO_ENABLED": "0", "GOBIN": scratch, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
        subprocess.run(["go", "install", MODULE], env=env, check=True, timeout=BUILD_SECONDS)
        place(Path(scratch) / "priv_val_server", cached)
    return cached


class Signer:
    """The signer with the keys in ``folder``, while the block runs. It connects to ``address`` again and again, as the
    signers that operators use do; this one alone gives up after a second.
    """

    def __init__(self, program: Path, folder: Path, chain_id: str, address: str) -> None:
        keys, state = folder / "config/priv_validator_key.json", folder / "data/priv_validator_state.json"
        self._command = (program, "-addr", address, "-chain-id", chain_id, "-priv-key", keys, "-priv-state", state)
        self._is_over = False

    def __enter__(self) -> Self:
        self._process = self._start()
        self._thread = Thread(target=self._connect, name="signer", daemon=True)
        self._thread.start()
        return self

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, stdout=subprocess.PIPE)

    def _connect(self) -> None:
        while True:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                if b"Max retries exceeded" in line:
                    break
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            if self._is_over:
                return
            self._process = self._start()

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        while self._thread.is_alive():
            self._process.kill()
            self._thread.join(0.2)


def make_signer_keys(folder: Path) -> NodeKeys:
    """Make the keys of a signer, in the files that CometBFT would have."""
    return write_keys(folder)
