"""The native kernels, built from ``pol/native`` with the C compiler that is there, and kept in the user's cache.

Without a compiler the one inside PyPI's ``ziglang`` is fetched, used and thrown away. Without either, NumPy computes.
"""

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.setup.cometbft import place
from tools.setup.steps import BIN, ROOT, Command, Stop, digest, run, say

SOURCES = ROOT / "pol" / "native"
BUILT = SOURCES / "built"
LOCK = Path(__file__).parent / "requirements-native.lock"

# Contraction would fuse a product and a sum into one rounding; what else is off keeps no bit, only time.
FLAGS = (
    "-O3", "-std=c11", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden",
    "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno",
)  # fmt: skip
# As single features, for compilers name x86-64-v3 in different ways.
_AVX2 = ("-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mlzcnt", "-mmovbe")
MACHINES = {"x86_64": {"portable": (), "avx2": _AVX2}}
"""The instruction sets of a machine, with what the compiler has to be told."""


def sources() -> list[Path]:
    """Return all that the kernels are made of."""
    return [*sorted(SOURCES.glob("*.h")), *sorted(SOURCES.glob("*.c"))]


def instruction_sets() -> dict[str, tuple[str, ...]]:
    """Return the instruction sets to build for."""
    return MACHINES.get(platform.machine(), {"portable": ()})


def are_built() -> bool:
    """Whether every library is there."""
    return all((BUILT / f"{name}.so").is_file() for name in instruction_sets())


def key() -> str:
    """Return what the libraries depend on."""
    flags = [f"{name} {' '.join(more)}" for name, more in instruction_sets().items()]
    return digest(
        [platform.machine(), *FLAGS, *flags, *[path.name for path in sources()], *sources()]
    )


def install(uv: Path) -> None:
    """Put the libraries beside their sources: from the cache, or built; say so where neither is possible."""
    cache = cache_path()
    try:
        if not all((cache / f"{name}.so").is_file() for name in instruction_sets()):
            build(uv, cache)
        for name in instruction_sets():
            place(cache / f"{name}.so", BUILT / f"{name}.so")
    except Stop as reason:
        say(f"no native kernels, so NumPy computes, some times slower: {reason}", last=True)


def cache_path() -> Path:
    """Where other checkouts of this user find the libraries."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "assay" / f"native-{key()[:16]}-{platform.machine()}"


def build(uv: Path, target: Path) -> None:
    """Compile each library with the compiler that is there, else with one that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="assay-native-") as scratch:
        out = Path(scratch)
        compiler = find_compiler() or fetch_compiler(uv, out / "zig")
        env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(out), "ZIG_LOCAL_CACHE_DIR": str(out)}
        files = [path for path in sources() if path.suffix == ".c"]
        for name, more in instruction_sets().items():
            library = out / f"{name}.so"
            command: Command = [*compiler, *FLAGS, *more, "-o", library, *files, "-lm"]
            run(command, f"compiling native kernels for {name}", env)
            place(library, target / f"{name}.so")


def find_compiler() -> list[str | Path] | None:
    """Return the command of a C compiler that makes programs, or None."""
    named = os.environ.get("CC")
    for candidate in (named, "cc", "gcc", "clang"):
        path = shutil.which(candidate) if candidate else None
        if path and compiles([path]):
            return [path]
    return None


def compiles(compiler: Command) -> bool:
    """Whether a compiler can make a library with headers of its system."""
    with tempfile.TemporaryDirectory(prefix="assay-cc-") as folder:
        source = Path(folder) / "probe.c"
        source.write_text("#include <math.h>\n#include <stdint.h>\nint probe(void) { return 1; }\n")
        command = [*compiler, "-shared", "-fPIC", "-o", Path(folder) / "probe.so", source, "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0 and (Path(folder) / "probe.so").is_file()


def fetch_compiler(uv: Path, target: Path) -> list[str | Path]:
    """Return the command of the C compiler inside ``ziglang``, from the lock, in a folder that does not stay."""
    install_: Command = [
        uv,
        "pip",
        "install",
        "--python",
        BIN / "python",
        "--target",
        target,
        "--no-deps",
    ]
    run([*install_, "--require-hashes", "-r", LOCK], "fetching a C compiler")
    # it would else compile for this very processor
    return [target / "ziglang" / "zig", "cc", "-mcpu=baseline"]
