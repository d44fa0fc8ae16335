"""Who runs in a folder is who holds its lock, and nobody who only got the number."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from host.lock import held, holder_of

HOLDS = (
    "import signal, sys; from pathlib import Path; from host.lock import held\n"
    "with held(Path(sys.argv[1]), ValueError): print(flush=True); signal.pause()"
)


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the file."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, path], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_one_process_holds_a_file_until_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as other:
        assert holder_of(path) == other.pid
        with pytest.raises(ValueError, match=str(other.pid)), held(path, ValueError):
            pass
        assert holder_of(path) == other.pid, "it is left as it was"
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert path.read_text() == str(other.pid)
        assert holder_of(path) == 0
    with held(path, ValueError):
        assert holder_of(path) == os.getpid()
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "no number", str(os.getppid())])
def test_a_file_that_nobody_holds_names_nobody(tmp_path: Path, text: str) -> None:
    """As after a restart of the machine: the number is somebody else's now."""
    path = tmp_path / "lock"
    assert holder_of(path) == 0
    path.write_text(text)
    assert holder_of(path) == 0


def test_a_file_that_is_none_names_nobody(tmp_path: Path) -> None:
    assert holder_of(tmp_path) == 0
