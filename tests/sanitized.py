"""``python -m tests.sanitized [--programs N]``: the native kernels with checks of every access and every operation.

They are compiled once more, for each instruction set that this processor has, with the sanitizers for addresses and for
undefined behaviour; the tests of the library and random programs run on them. Ends with what the first finding ends
with, and with 2 where the compiler has no sanitizers.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pol.native import library
from tests import fuzz
from tools.setup import native

PROGRAMS = 500
CHECKS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
)
TESTS = ("tests/unit/pol/native/test_library.py", "tests/unit/pol/executor/test_fusion.py")
_WITHIN = "--within"
_ROOT = Path(__file__).parents[1]


class NoSanitizers(Exception):
    """The compiler makes no programs with checks."""


def run_checked(programs: int) -> int:
    """Build the kernels with checks, and run everything on them; return the exit code."""
    compiler = native.find_compiler()
    if compiler is None:
        raise NoSanitizers("there is no C compiler")
    files = [path for path in native.sources() if path.suffix == ".c"]
    with TemporaryDirectory(prefix="assay-sanitized-") as folder:
        for name, flags in native.instruction_sets().items():
            target = Path(folder) / f"{name}.so"
            told = [*native.FLAGS, *native.LINKED, *flags.all, *flags.products, *CHECKS]
            command = [*compiler, *told, "-o", target, *files, "-lm"]
            if subprocess.run(command, check=False).returncode:
                raise NoSanitizers(f"{compiler[0]} cannot compile with {CHECKS[0]}")
        runtimes = [_runtime(compiler, name) for name in ("libasan.so", "libubsan.so")]
        # what Python itself keeps until its end is no leak of a kernel's
        checks = {"LD_PRELOAD": ":".join(runtimes), "ASAN_OPTIONS": "detect_leaks=0"}
        for name, bit in library.INSTRUCTION_SETS.items():
            if bit & ~library.Library(library.PORTABLE).processor():
                print(f"{name}: this processor has none, so it is left out")
                continue
            print(f"{name}:", flush=True)
            command = [sys.executable, "-m", "tests.sanitized", _WITHIN, folder, str(programs)]
            env = {**os.environ, **checks, library.SWITCH: name}
            if code := subprocess.run(command, cwd=_ROOT, env=env, check=False).returncode:
                return code
    return 0


def _runtime(compiler: Sequence[str | Path], name: str) -> str:
    """Return the path of a library of the compiler's own, which has to be in the process before all others."""
    command = [*compiler, f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        raise NoSanitizers(f"{compiler[0]} has no {name}")
    return found


def _within(folder: Path, programs: int) -> int:
    """Run everything in this process, whose kernels are those in ``folder``."""
    import pytest

    library.FOLDER = folder
    if library.load_library() is None:
        return 2
    # not captured: a finding ends the process, and what it says would be lost
    return pytest.main(["-q", "-s", "-p", "no:cacheprovider", *TESTS]) or fuzz.main(
        ["--programs", str(programs), "--executors", "native"]
    )


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    if arguments[:1] == [_WITHIN]:
        return _within(Path(arguments[1]), int(arguments[2]))
    parser = argparse.ArgumentParser("python -m tests.sanitized", description=__doc__)
    parser.add_argument("--programs", type=int, default=PROGRAMS, help=f"how many ({PROGRAMS})")
    try:
        return run_checked(parser.parse_args(arguments).programs)
    except NoSanitizers as reason:
        print(f"not checked: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
