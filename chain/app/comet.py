"""The supervisor of CometBFT: one child process, its log, a bounded restart policy, and an orderly end.

If this process dies for any reason, CometBFT dies too (``host.process``). If CometBFT dies, this process notices that
at once and starts CometBFT again, after pauses that grow. The node stops if CometBFT ends too often, or if CometBFT's
log shows that it would end again after each start.
"""

import logging
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from chain.app.comet_log import CometLog, CometTrouble, LogKind
from chain.app.comet_version import VERSION
from domain.errors import Expected
from host.process import start_child, stop_child

log = logging.getLogger(__name__)


class CometError(Expected):
    """CometBFT cannot run."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The rules for starting CometBFT again. After a run of ``healthy_seconds``, earlier failures no longer count."""

    failures_max: int = 5
    first_pause_seconds: float = 0.2
    longest_pause_seconds: float = 5.0
    healthy_seconds: float = 60.0
    grace_seconds: float = 10.0

    def pause_after(self, failures: int) -> float:
        """Return the seconds to wait after ``failures`` failures in a row.

        The wait doubles each time, up to the longest one.
        """
        return min(self.first_pause_seconds * (1 << failures - 1), self.longest_pause_seconds)


def find_binary() -> Path:
    """Return the CometBFT binary of this environment, or else the CometBFT binary on PATH.

    Raises CometError, which names the remedy, if there is no binary, or if the binary on PATH has another version.
    """
    own = Path(sys.prefix) / "bin" / "cometbft"
    if own.is_file():
        return own
    remedy = (
        f"run `make setup` in a checkout, put the binary of CometBFT {VERSION} on PATH "
        f"(go install github.com/cometbft/cometbft/cmd/cometbft@v{VERSION}), or start the node with --solo"
    )
    on_path = shutil.which("cometbft")
    if on_path is None:
        raise CometError("CometBFT is not installed", remedy)
    version = _version(on_path)
    if version != VERSION:
        raise CometError(f"{on_path} is version {version or 'unknown'}, not {VERSION}", remedy)
    return Path(on_path)


def _version(binary: str) -> str:
    """Return the version that a CometBFT binary reports; empty if it does not report one within 10 seconds."""
    try:
        result = subprocess.run([binary, "version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip()[:40]


class CometProcess:
    """A supervised ``cometbft start`` for one home and one socket. :meth:`run` must be called in the main thread."""

    def __init__(
        self,
        home: Path,
        socket_path: Path,
        *,
        log_path: Path,
        binary: Path | None = None,
        policy: RestartPolicy | None = None,
        before_start: Callable[[], None] = lambda: None,
        on_start: Callable[[int], None] = lambda pid: None,
        on_trouble: Callable[[CometTrouble], None] = lambda trouble: None,
    ) -> None:
        """Prepare the command that starts CometBFT.

        ``before_start`` is called before each start, ``on_start`` with the process id after it, and ``on_trouble`` with
        each problem found in the log.
        """
        self._before_start = before_start
        self._on_trouble = on_trouble
        self._command: list[str | Path] = [
            binary or find_binary(),
            "start",
            "--home",
            home,
            "--proxy_app",
            f"unix://{socket_path}",
            "--abci",
            "socket",
        ]
        self._home = home
        self._log_path = log_path
        self._policy = policy or RestartPolicy()
        self._on_start = on_start
        self._stopping = Event()
        self._changed = Event()

    def request_stop(self) -> None:
        """Make :meth:`run` end CometBFT and return; safe in a signal handler and from any thread."""
        self._stopping.set()
        self._changed.set()

    def run(self) -> None:
        """Start CometBFT, and start it again when it ends, until :meth:`request_stop`.

        Raise CometError if CometBFT ends too often.
        """
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            code, trouble = self._run_once()
            if self._stopping.is_set():
                return
            if time.monotonic() - began >= self._policy.healthy_seconds:
                failures = 0
            failures += 1
            if trouble.kind is LogKind.LASTS:
                raise CometError(f"CometBFT cannot run: {trouble.reason}", trouble.remedy)
            if trouble.kind is LogKind.WAITS:
                log.warning("CometBFT waits: %s", trouble)
                failures = 0
                self._stopping.wait(self._policy.first_pause_seconds)
                continue
            log.error("CometBFT ended with code %d (%d in a row): %s", code, failures, trouble)
            if failures > self._policy.failures_max:
                raise CometError(
                    f"CometBFT ended {failures} times in a row, last with code {code}: {trouble.reason}",
                    f"{trouble.remedy + '; ' if trouble.remedy else ''}its log is {self._log_path}",
                )
            self._stopping.wait(self._policy.pause_after(failures))

    def _run_once(self) -> tuple[int, CometTrouble]:
        """Run CometBFT once, until it ends by itself or must stop; return its exit code and the reason of its end."""
        self._changed.clear()
        self._before_start()
        process = start_child(self._command, piped=True)
        output = CometLog(process, self._log_path, self._home, self._on_trouble)
        log.info("CometBFT started as process %d", process.pid)
        self._on_start(process.pid)
        waiter = Thread(target=self._wait_for_end, args=(process,), name="comet-wait", daemon=True)
        waiter.start()
        if not self._stopping.is_set():
            self._changed.wait()
        code = stop_child(process, self._policy.grace_seconds)
        waiter.join()
        return code, output.why()

    def _wait_for_end(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._changed.set()
