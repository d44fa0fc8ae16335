"""The native kernels, built from ``pol/native`` with the C compiler that is there, and kept in the user's cache.

Without a compiler the one inside PyPI's ``ziglang`` is fetched, used and thrown away. Without either, NumPy computes.
"""

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.setup.cometbft import place
from tools.setup.steps import BIN, ROOT, Command, Stop, digest, run, run_all, say

SOURCES = ROOT / "pol" / "native"
BUILT = SOURCES / "built"
LEFT_OUT = ".left-out"
"""Ends the name of a file that says: the compiler does not know this instruction set."""
LOCK = Path(__file__).parent / "requirements-native.lock"

# Contraction would fuse a product and a sum into one rounding; what else is off keeps no bit, only time.
FLAGS = (
    "-O3",
    "-std=c11",
    "-fPIC",
    "-pthread",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-trapping-math",
    "-fno-math-errno",
)
LINKED = ("-shared", "-pthread")
PORTABLE = "portable"
PRODUCTS = ("narrow_product.c", "wide_product.c", "windows.c")
"""The files that have loops of their own for instruction sets."""


@dataclass(frozen=True, slots=True)
class Flags:
    """What the compiler has to be told of an instruction set: for all files, and more for products."""

    all: tuple[str, ...] = ()
    products: tuple[str, ...] = ()

    def of(self, source: Path) -> tuple[str, ...]:
        """Return those of one file."""
        return self.all + self.products if source.name in PRODUCTS else self.all


# As single features, for compilers name x86-64-v3 in different ways.
_AVX2 = ("-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mlzcnt", "-mmovbe")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl")
MACHINES = {
    "x86_64": {
        PORTABLE: Flags(),
        "avx2": Flags(_AVX2),
        "avxvnni": Flags(_AVX2, ("-mavxvnni",)),
        "avx512vnni": Flags(_AVX512, ("-mavx512vnni",)),
    },
    "aarch64": {PORTABLE: Flags(), "dotprod": Flags((), ("-march=armv8.2-a+dotprod",))},
}
"""The instruction sets of a machine. Files with the same flags are compiled once, for all that want them."""


def sources() -> list[Path]:
    """Return all that the kernels are made of."""
    return [*sorted(SOURCES.glob("*.h")), *sorted(SOURCES.glob("*.c"))]


def instruction_sets() -> dict[str, Flags]:
    """Return the instruction sets to build for."""
    return MACHINES.get(platform.machine(), {PORTABLE: Flags()})


def are_built() -> bool:
    """Whether every library is there, or was left out."""
    return are_in(BUILT)


def are_in(folder: Path) -> bool:
    """Whether a build is complete."""
    return all(
        (folder / f"{name}.so").is_file() or (folder / f"{name}{LEFT_OUT}").is_file() for name in instruction_sets()
    )


def key() -> str:
    """Return what the libraries depend on."""
    flags = [f"{name} {' '.join(flags.all)}: {' '.join(flags.products)}" for name, flags in instruction_sets().items()]
    return digest([platform.machine(), *FLAGS, *flags, *[path.name for path in sources()], *sources()])


def install(uv: Path) -> None:
    """Put the libraries beside their sources: from the cache, or built; say so where neither is possible."""
    cache = cache_path()
    try:
        if not are_in(cache):
            build(uv, cache)
        for name in instruction_sets():
            for suffix in (".so", LEFT_OUT):
                (BUILT / f"{name}{suffix}").unlink(missing_ok=True)
                if (cache / f"{name}{suffix}").is_file():
                    place(cache / f"{name}{suffix}", BUILT / f"{name}{suffix}")
    except Stop as reason:
        say(f"no native kernels, so NumPy computes, some times slower: {reason}", last=True)


def cache_path() -> Path:
    """Where other checkouts of this user find the libraries."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "assay" / f"native-{key()[:16]}-{platform.machine()}"


def build(uv: Path, target: Path) -> None:
    """Compile the libraries with the compiler that is there, else with one that is thrown away.

    All that the machine may have, not only this processor: a home directory may serve several.
    """
    with tempfile.TemporaryDirectory(prefix="assay-native-") as scratch:
        out = Path(scratch)
        compiler, sets = find_compiler(), instruction_sets()
        if compiler is None:
            compiler, sets = fetch_compiler(uv, out / "zig"), for_zig(sets)
            say("there is no C compiler: ziglang from PyPI makes the native kernels", last=True)
        env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(out), "ZIG_LOCAL_CACHE_DIR": str(out)}
        known: dict[str, Flags] = {}
        for name, flags in sets.items():
            what = f"compiling native kernels for {name}"
            try:
                run_all(compiling(compiler, {name: flags}, out, products=True), what, env)
                known[name] = flags
            except Stop:
                if name == PORTABLE:
                    raise
                say(f"no native kernels for {name}, which {compiler[0]} does not know", last=True)
                (out / f"{name}{LEFT_OUT}").touch()
                place(out / f"{name}{LEFT_OUT}", target / f"{name}{LEFT_OUT}")
        what = "compiling native kernels"
        run_all(compiling(compiler, known, out, products=False), what, env)
        run_all(linking(compiler, known, out), what, env)
        for name in known:
            place(out / f"{name}.so", target / f"{name}.so")


def compiling(compiler: Command, sets: Mapping[str, Flags], out: Path, *, products: bool) -> list[Command]:
    """Return what compiles the files of products for some instruction sets, or all others."""
    return [
        [*compiler, *FLAGS, *flags, "-c", "-o", compiled, source]
        for compiled, (source, flags) in _objects(sets, out).items()
        if (source.name in PRODUCTS) == products
    ]


def linking(compiler: Command, sets: Mapping[str, Flags], out: Path) -> list[Command]:
    """Return what makes the library of each instruction set, once its files are compiled."""
    return [
        [*compiler, *LINKED, "-o", out / f"{name}.so", *_objects({name: flags}, out), "-lm"]
        for name, flags in sets.items()
    ]


def _objects(sets: Mapping[str, Flags], out: Path) -> dict[Path, tuple[Path, tuple[str, ...]]]:
    """Return source and flags of each object: one for all that tell the compiler the same."""
    found = {}
    for source in sources():
        if source.suffix == ".c":
            for flags in sets.values():
                told = flags.of(source)
                found[out / f"{source.stem}-{digest(told)[:16]}.o"] = source, told
    return found


def find_compiler() -> list[str | Path] | None:
    """Return the command of a C compiler that makes programs, or None."""
    named = os.environ.get("CC")
    for candidate in (named, "cc", "gcc", "clang"):
        path = shutil.which(candidate) if candidate else None
        if path and compiles([path]):
            return [path]
    return None


def compiles(compiler: Command, env: Mapping[str, str] | None = None) -> bool:
    """Whether a compiler can make a library with headers of its system."""
    with tempfile.TemporaryDirectory(prefix="assay-cc-") as folder:
        source = Path(folder) / "probe.c"
        source.write_text("#include <math.h>\n#include <stdint.h>\nint probe(void) { return 1; }\n")
        command = [*compiler, "-shared", "-fPIC", "-o", Path(folder) / "probe.so", source, "-lm"]
        try:
            done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0 and (Path(folder) / "probe.so").is_file()


def fetch_compiler(uv: Path, target: Path, machine: str = platform.machine()) -> list[str | Path]:
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
    # it would else compile for this very processor; refuse wide vectors, or take their instructions apart
    features = "+evex512+fast_dpwssd" if machine == "x86_64" else ""
    return [target / "ziglang" / "zig", "cc", f"-mcpu=baseline{features}"]


def for_zig(sets: Mapping[str, Flags]) -> dict[str, Flags]:
    """Return what that compiler has to be told, which has names of its own for processors."""
    said = {"-march=armv8.2-a+dotprod": "-mcpu=generic+dotprod"}
    return {
        name: Flags(flags.all, tuple(said.get(flag, flag) for flag in flags.products)) for name, flags in sets.items()
    }
