"""``python -m tests.sanitized [--programs N]``: the native kernels with checks of every access and every operation.

They are compiled once more, for each instruction set that this processor has or that is emulated (``tests/emulated``),
with the sanitizers for addresses and for undefined behaviour; the tests of the library and random programs run on them.
Ends with what the first finding ends with, and with 2 where the compiler has no sanitizers.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from pol.native import library
from tests import fuzz
from tests.emulated.build import WIDTHS, build, emulated
from tools.setup import native
from tools.setup.steps import Command

PROGRAMS = 500
CHECKS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
)
TESTS = (
    "tests/unit/pol/native/test_library.py",
    "tests/unit/pol/executor/test_fusion.py",
    "tests/unit/pol/executor/test_windows.py",
)
_WITHIN = "--within"
_ROOT = Path(__file__).parents[1]


class NoSanitizers(Exception):
    """The compiler makes no programs with checks."""


def run_checked(programs: int) -> int:
    """Build the kernels with checks, and run everything on them; return the exit code."""
    found = native.find_compiler()
    if found is None:
        raise NoSanitizers("there is no C compiler")
    with TemporaryDirectory(prefix="assay-sanitized-") as scratch:
        try:
            folders = _build([*found, *CHECKS], Path(scratch))
        except subprocess.CalledProcessError:
            raise NoSanitizers(f"{found[0]} cannot compile with {CHECKS[0]}") from None
        runtimes = [_runtime(found, name) for name in ("libasan.so", "libubsan.so")]
        # what Python itself keeps until its end is no leak of a kernel's
        checks = {"LD_PRELOAD": ":".join(runtimes), "ASAN_OPTIONS": "detect_leaks=0"}
        for folder in folders:
            print(f"{folder.name}:", flush=True)
            command: Command = [sys.executable, "-m", "tests.sanitized", _WITHIN, folder]
            env = {**os.environ, **checks}
            done = subprocess.run([*command, str(programs)], cwd=_ROOT, env=env, check=False)
            if done.returncode:
                return done.returncode
    return 0


def _build(compiler: Command, scratch: Path) -> list[Path]:
    """Build what this processor has, and what it can emulate: a folder for each, with the portable library besides."""
    has = library.Library(library.PORTABLE).processor()
    sets = native.instruction_sets()
    usable = {name: of for name, of in sets.items() if not library.INSTRUCTION_SETS[name] & ~has}
    build(compiler, usable, scratch)
    folders = [_folder(scratch, name, name) for name in usable]
    if "avx2" in usable:
        build(compiler, emulated(), scratch)
        folders += [_folder(scratch, name, f"{name}, emulated") for name in WIDTHS]
    return folders


def _folder(scratch: Path, name: str, title: str) -> Path:
    folder = scratch / title
    folder.mkdir()
    for file in {f"{name}.so", f"{library.PORTABLE}.so"}:
        shutil.copy(scratch / file, folder)
    return folder


def _runtime(compiler: Sequence[str | Path], name: str) -> str:
    """Return the path of a library of the compiler's own, which has to be in the process before all others."""
    command = [*compiler, f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        raise NoSanitizers(f"{compiler[0]} has no {name}")
    return found


def _within(folder: Path, programs: int) -> int:
    """Run everything in this process, whose kernels are the best in ``folder``, whatever the processor has."""
    import pytest

    library.FOLDER = folder
    has = sum(library.INSTRUCTION_SETS[file.stem] for file in folder.glob("*.so"))
    with patch.object(library.Library, "processor", lambda _: has):
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
