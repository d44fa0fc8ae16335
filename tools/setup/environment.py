"""The environment of a checkout: packages, protobuf modules, the project, native kernels, CometBFT."""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chain.app.comet_version import VERSION
from tools.setup import bytecode, cometbft, native, protos
from tools.setup.steps import BIN, ROOT, VENV, Command, Stop, digest, run, say, step

HERE = Path(__file__).parent
FULL_LOCK = HERE / "requirements.lock"
NODE_LOCK = HERE / "requirements-node.lock"
FREE_GB = {FULL_LOCK: 12, NODE_LOCK: 2}
FREE_GB_WHEN_TORCH_IS_THERE = 2
PYTHON = BIN / "python"
UV = BIN / "uv"


def main() -> None:
    """Bring the environment up to date; if that fails, exit with one sentence about the reason."""
    parser = argparse.ArgumentParser(prog="python -m tools.setup", description=__doc__)
    parser.add_argument("--node", action="store_true", help="install only what a node needs: no torch, no tests")
    lock = NODE_LOCK if parser.parse_args().node else FULL_LOCK
    os.environ.setdefault("UV_SYSTEM_CERTS", "true")  # as in pip and Go; a company's proxy needs it
    try:
        with only_one_at_a_time():
            set_up(lock)
    except Stop as reason:
        sys.exit(f"assay setup: {reason}")
    except KeyboardInterrupt:
        sys.exit("assay setup: interrupted; run it again to continue.")


def set_up(lock: Path) -> None:
    """Run all steps in order; skip a step whose inputs have not changed."""
    packages = digest([lock])
    step("virtual environment", str(ROOT), is_venv, lambda: make_venv(lock))
    step("packages", packages, PYTHON.is_file, lambda: install_packages(lock))
    sources = protos.sources()
    if sources:
        key = digest([packages, HERE / "protos.py", *map(str, sources), *sources])
        step("protobuf modules", key, protos.are_there, protos.generate)
    project = digest([packages, str(ROOT), ROOT / "pyproject.toml"])
    step("project", project, (BIN / "assay").is_file, install_project)
    programs = bytecode.PROGRAMS + (bytecode.CAPTURE if lock == FULL_LOCK else ())
    done = project + "".join(programs)
    step("modules of packages", done, is_venv, lambda: bytecode.compile_packages(programs))
    step("modules", digest([done, *bytecode.sources()]), is_venv, bytecode.compile_project)
    step("native kernels", native.key(), native.are_built, lambda: native.install(UV))
    step("cometbft", VERSION, cometbft.is_installed, lambda: cometbft.install(UV))


@contextmanager
def only_one_at_a_time() -> Iterator[None]:
    """Hold the lock of this checkout; wait if another set-up holds it."""
    descriptor = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of this checkout", last=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_venv() -> bool:
    """Return whether `.venv` has Python and uv."""
    return PYTHON.is_file() and UV.is_file()


def make_venv(lock: Path) -> None:
    """Create a new `.venv` with the locked uv, which installs everything else."""
    check_disk(lock)
    if subprocess.run([sys.executable, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode:
        name = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        raise Stop(
            f"this Python cannot make virtual environments: install its venv module (on Debian "
            f"and Ubuntu the package {name}) and run it again."
        )
    run([sys.executable, "-m", "venv", "--clear", VENV], "making .venv")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(locked("uv", lock))
        requirements.flush()
        pip: Command = [PYTHON, "-m", "pip", "install", "--no-deps", "--only-binary", ":all:"]
        run([*pip, "--require-hashes", "-r", requirements.name], "installing uv")


def check_disk(lock: Path) -> None:
    """Raise Stop if the disk has too little space, because the set-up would fail half-way."""
    has_torch = any(VENV.glob("lib/python*/site-packages/torch"))
    needed = FREE_GB_WHEN_TORCH_IS_THERE if has_torch else FREE_GB[lock]
    free = shutil.disk_usage(ROOT).free // 10**9
    if free < needed:
        raise Stop(
            f"the disk of {ROOT} has {free} GB free and {needed} GB are needed: free some space and run it again."
        )


def locked(name: str, lock: Path) -> str:
    """Return the lines of the lock about the package ``name``: its version and its hashes."""
    lines = re.search(rf"^{re.escape(name)}==.*(?:\n[ ]+--hash=.*)+", lock.read_text(), re.M)
    if lines is None:
        raise Stop(f"{lock.name} does not name {name}: run `make lock`.")
    return lines.group() + "\n"


def install_packages(lock: Path) -> None:
    """Install exactly the packages in the lock, from wheels only, so that no compiler is needed."""
    check_disk(lock)
    sync: Command = [
        UV,
        "pip",
        "sync",
        "--python",
        PYTHON,
        "--require-hashes",
        "--only-binary",
        ":all:",
    ]
    run([*sync, lock], "installing the locked packages")


def install_project() -> None:
    """Install the checkout itself as an editable package, with the locked build backend."""
    install: Command = [
        UV,
        "pip",
        "install",
        "--python",
        PYTHON,
        "--no-deps",
        "--no-build-isolation",
    ]
    # `compat` records the checkout's path instead of a list of the packages that the checkout has now.
    editable: Command = ["--config-setting", "editable_mode=compat", "--editable", ROOT]
    run([*install, "--reinstall-package", "assay", *editable], "installing the project")
