"""The parts that all set-up steps share: errors, stamps, progress output and child processes."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
BIN = VENV / "bin"
STAMPS = VENV / "assay-setup"

Command = Sequence[str | Path]

NETWORK_SIGNS = (
    "dns error",
    "name resolution",
    "name or service not known",
    "no such host",
    "failed to fetch",
    "error sending request",
    "failed to establish a new connection",
    "proxyerror",
    "network is unreachable",
    "connection refused",
    "connection reset",
    "i/o timeout",
    "timed out",
)
CERTIFICATE_SIGNS = ("invalid peer certificate", "certificate_verify_failed", "x509:")
DISK_SIGNS = ("no space left on device",)


class Stop(Exception):
    """An error for a set-up that cannot continue. Its message has the reason and the remedy."""


def digest(parts: Iterable[Path | str]) -> str:
    """Return one SHA-256 of strings and of the contents of files. It is the key of a stamp."""
    total = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode()
        total.update(hashlib.sha256(data).digest())
    return total.hexdigest()


def step(name: str, key: str, done: Callable[[], bool], action: Callable[[], None]) -> None:
    """Run `action` and print its duration. Skip it if its stamp has this `key` and `done()` is true."""
    stamp = STAMPS / name.replace(" ", "-")
    if stamp.is_file() and stamp.read_text() == key and done():
        return
    start = time.monotonic()
    stamp.unlink(missing_ok=True)
    action()
    STAMPS.mkdir(parents=True, exist_ok=True)
    stamp.write_text(key)
    say(f"{name}: {time.monotonic() - start:.1f} s", last=True)


def run(command: Command, what: str, env: Mapping[str, str] | None = None) -> None:
    """Run a child process with its output in a log file; raise Stop with one sentence if it fails."""
    run_all([command], what, env)


def run_all(commands: Sequence[Command], what: str, env: Mapping[str, str] | None = None) -> None:
    """Run child processes as :func:`run` does, as many at once as there are processors."""
    log = ROOT / ".assay-setup.log"
    start = time.monotonic()
    waiting = list(reversed(commands))
    children: list[subprocess.Popen[bytes]] = []
    failed = False
    with log.open("wb") as output:
        try:
            while not failed and (waiting or children):
                while waiting and len(children) < (os.cpu_count() or 1):
                    command = waiting.pop()
                    child = subprocess.Popen(command, cwd=ROOT, env=env, stdout=output, stderr=output)
                    children.append(child)
                time.sleep(0.02)
                say(f"{what}: {time.monotonic() - start:.0f} s ...")
                failed = any(child.poll() for child in children)
                children = [child for child in children if child.returncode is None]
        finally:
            for child in children:
                child.terminate()
                child.wait()
    text = log.read_text(errors="replace")
    if failed:
        raise Stop(explain(what, text, log))
    log.unlink()


def explain(what: str, output: str, log: Path) -> str:
    """Return a sentence about a child's failure, with a remedy if the child's output shows the cause."""
    lower = output.lower()
    if any(sign in lower for sign in DISK_SIGNS):
        return f"{what} failed because the disk is full: free some space and run it again."
    if any(sign in lower for sign in CERTIFICATE_SIGNS):
        return (
            f"{what} failed because this machine does not trust the network's certificate: install "
            f"the package ca-certificates, or set SSL_CERT_FILE to your own certificates, and run it again."
        )
    if any(sign in lower for sign in NETWORK_SIGNS):
        return (
            f"{what} failed because the network was not reachable: check the connection "
            f"(or the proxy settings) and run it again; the details are in {log.name}."
        )
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1].rstrip(".") if lines else "it printed nothing"
    return f"{what} failed ({last}): see {log.name} for the whole output."


def say(text: str, *, last: bool = False) -> None:
    """Print a line; on a terminal, the next line overwrites it unless it is the ``last`` one."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="\n" if last else "", flush=True)
    elif last:
        print(text, flush=True)
