"""The native kernels, built from ``pol/native`` with the machine's C compiler, and kept in the user's cache.

Without a C compiler the set-up fetches the one in PyPI's ``ziglang``, and deletes it afterwards. If that fails too,
NumPy computes.
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
"""Suffix of an empty file that records that the compiler does not support an instruction set."""
LOCK = Path(__file__).parent / "requirements-native.lock"

# Contraction would compute a product and a sum with one rounding, which changes bits. The other switches save time.
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
"""The source files with loops for single instruction sets."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The compiler's flags for an instruction set: for all source files, and additional ones for ``PRODUCTS``."""

    all: tuple[str, ...] = ()
    products: tuple[str, ...] = ()

    def of(self, source: Path) -> tuple[str, ...]:
        """Return the flags for a source file."""
        return self.all + self.products if source.name in PRODUCTS else self.all


# Single features, because compilers have different names for x86-64-v3.
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
"""The instruction sets by machine. A file is compiled once for all instruction sets with the same flags."""


def sources() -> list[Path]:
    """Return the source files of the kernels."""
    return [*sorted(SOURCES.glob("*.h")), *sorted(SOURCES.glob("*.c"))]


def instruction_sets() -> dict[str, Flags]:
    """Return the flags of each instruction set for which the libraries are built on this machine."""
    return MACHINES.get(platform.machine(), {PORTABLE: Flags()})


def are_built() -> bool:
    """Return whether the checkout has each library, or a record that it was left out."""
    return are_in(BUILT)


def are_in(folder: Path) -> bool:
    """Return whether a folder has each library, or a record that it was left out."""
    return all(
        (folder / f"{name}.so").is_file() or (folder / f"{name}{LEFT_OUT}").is_file() for name in instruction_sets()
    )


def key() -> str:
    """Return a hash of everything that the libraries depend on."""
    flags = [f"{name} {' '.join(flags.all)}: {' '.join(flags.products)}" for name, flags in instruction_sets().items()]
    return digest([platform.machine(), *FLAGS, *flags, *[path.name for path in sources()], *sources()])


def install(uv: Path) -> None:
    """Copy the libraries from the cache into the checkout; build them first if the cache does not have them.

    Print a message if they cannot be built.
    """
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
        say(f"no native kernels, so NumPy computes, which is several times slower: {reason}", last=True)


def cache_path() -> Path:
    """Return the folder in the user's cache for the libraries, which all checkouts share."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "assay" / f"native-{key()[:16]}-{platform.machine()}"


def build(uv: Path, target: Path) -> None:
    """Compile the libraries into ``target`` with the machine's compiler, or with a fetched one that is deleted again.

    Compile for all instruction sets, not only this processor's, because several machines may share a home directory.
    """
    with tempfile.TemporaryDirectory(prefix="assay-native-") as scratch:
        out = Path(scratch)
        compiler = find_compiler()
        sets = instruction_sets()
        if compiler is None:
            compiler = fetch_compiler(uv, out / "zig")
            sets = for_zig(sets)
            say("this machine has no C compiler: ziglang from PyPI compiles the native kernels", last=True)
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
                say(f"no native kernels for {name}, which {compiler[0]} does not support", last=True)
                (out / f"{name}{LEFT_OUT}").touch()
                place(out / f"{name}{LEFT_OUT}", target / f"{name}{LEFT_OUT}")
        what = "compiling native kernels"
        run_all(compiling(compiler, known, out, products=False), what, env)
        run_all(linking(compiler, known, out), what, env)
        for name in known:
            place(out / f"{name}.so", target / f"{name}.so")


def compiling(compiler: Command, sets: Mapping[str, Flags], out: Path, *, products: bool) -> list[Command]:
    """Return the commands that compile the files in ``PRODUCTS`` if ``products`` is true, else all other files."""
    return [
        [*compiler, *FLAGS, *flags, "-c", "-o", compiled, source]
        for compiled, (source, flags) in _objects(sets, out).items()
        if (source.name in PRODUCTS) == products
    ]


def linking(compiler: Command, sets: Mapping[str, Flags], out: Path) -> list[Command]:
    """Return the commands that link the library of each instruction set from its compiled files."""
    return [
        [*compiler, *LINKED, "-o", out / f"{name}.so", *_objects({name: flags}, out), "-lm"]
        for name, flags in sets.items()
    ]


def _objects(sets: Mapping[str, Flags], out: Path) -> dict[Path, tuple[Path, tuple[str, ...]]]:
    """Return the source file and the flags of each object file.

    Instruction sets with the same flags for a source file share its object file.
    """
    objects = {}
    for source in sources():
        if source.suffix == ".c":
            for flags in sets.values():
                options = flags.of(source)
                objects[out / f"{source.stem}-{digest(options)[:16]}.o"] = source, options
    return objects


def find_compiler() -> list[str | Path] | None:
    """Return the command of a working C compiler, or None if there is none."""
    named = os.environ.get("CC")
    for candidate in (named, "cc", "gcc", "clang"):
        path = shutil.which(candidate) if candidate else None
        if path and compiles([path]):
            return [path]
    return None


def compiles(compiler: Command, env: Mapping[str, str] | None = None) -> bool:
    """Return whether a compiler can build a small library with the system's headers."""
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
    """Install the locked ``ziglang`` into the folder ``target``, and return the command of its C compiler."""
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
    # By default zig compiles for this processor only. These features are named so that it accepts AVX-512 code.
    features = "+evex512+fast_dpwssd" if machine == "x86_64" else ""
    return [target / "ziglang" / "zig", "cc", f"-mcpu=baseline{features}"]


def for_zig(sets: Mapping[str, Flags]) -> dict[str, Flags]:
    """Return the instruction sets with the flags in the form that zig accepts.

    Zig has its own names for processors.
    """
    names = {"-march=armv8.2-a+dotprod": "-mcpu=generic+dotprod"}
    return {
        name: Flags(flags.all, tuple(names.get(flag, flag) for flag in flags.products)) for name, flags in sets.items()
    }
