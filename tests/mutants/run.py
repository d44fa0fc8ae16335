"""Applying mutants one by one in a copy of the tree, and asking the tests that should notice."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
TIMEOUT = 300
"""Seconds for the tests of one mutant; who needs more has hung, which is noticed too."""
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "*.egg-info"
)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class Unusable(Exception):
    """Nothing can be said: a mutant does not fit its file, or its tests do not hold without it."""


def mutated(mutant: Mutant, text: str) -> str:
    """Return the text of the mutant's file with the mutant in it."""
    found = text.count(mutant.old)
    if found != 1:
        times = "no longer found" if not found else f"found {found} times"
        raise Unusable(
            f"{mutant.name}: its text is {times} in {mutant.file}; make the mutant again in tests/mutants/table"
        )
    return text.replace(mutant.old, mutant.new)


def run_mutants(mutants: Sequence[Mutant], tell: Callable[[str], None]) -> Iterator[tuple[Mutant, str | None]]:
    """Yield each mutant with the first test that noticed it, or None; ``tell`` hears how it goes."""
    for mutant in mutants:
        mutated(mutant, _read(ROOT, mutant))
    with _copied_tree() as tree:
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        tell("tests without a mutant")
        if failed := _first_failure(tree, tests, TIMEOUT * (1 + len(mutants) // 20)):
            raise Unusable(f"{failed} fails without a mutant; mend it first")
        for mutant in mutants:
            tell(mutant.name)
            with _applied(tree, mutant):
                yield mutant, _first_failure(tree, mutant.tests)


def _read(tree: Path, mutant: Mutant) -> str:
    path = tree / mutant.file
    if not path.is_file():
        raise Unusable(f"{mutant.name}: there is no {mutant.file}; correct tests/mutants/table")
    return path.read_text(encoding="utf-8")


@contextmanager
def _copied_tree() -> Iterator[Path]:
    with TemporaryDirectory(prefix="assay-mutants-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        yield tree


@contextmanager
def _applied(tree: Path, mutant: Mutant) -> Iterator[None]:
    path = tree / mutant.file
    before, times = path.read_bytes(), path.stat()
    path.write_text(mutated(mutant, before.decode()), encoding="utf-8")
    # Compiled files are valid for a time in whole seconds and a size, which a mutant may share.
    os.utime(path, (times.st_atime, times.st_mtime + 60))
    try:
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, (times.st_atime, times.st_mtime))


def _first_failure(tree: Path, tests: Sequence[str], seconds: int = TIMEOUT) -> str | None:
    """Return the id of the first of the tests that fails in a tree, or None where all hold."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "--tb=no", "-p", "no:xdist"]
    command += ["-p", "no:cacheprovider", *tests]
    # What a mutant compiles to must not stay behind.
    environment = {**os.environ, "PYTHONPATH": str(tree), "NO_COLOR": "1", "COLUMNS": "1000"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {seconds} s"
    if done.returncode == 0:
        return None
    failed = _FAILED.search(done.stdout)
    if failed is None:
        raise Unusable(f"pytest could not run {' '.join(tests)}: {done.stdout}{done.stderr}")
    return failed[1]
