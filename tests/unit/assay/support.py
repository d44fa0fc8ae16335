"""Running the command line in this process, or in one of its own."""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from assay.cli.main import main


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def refusal(self) -> str:
        """The one sentence of a command that was refused, which shows no stack trace.

        With ``--output json`` it is the field and the reason of the error object.
        """
        assert self.code in (1, 3), self
        assert "Traceback" not in self.err, self
        lines = [line for line in self.err.splitlines() if line.startswith(("error: ", "{"))]
        assert len(lines) == 1, self
        if lines[0].startswith("{"):
            error = json.loads(lines[0])["error"]
            assert error["exit_code"] == self.code, self
            return f"{error['field']}: {error['reason']}"
        return lines[0].removeprefix("error: ")


@contextmanager
def signals_kept() -> Iterator[None]:
    """Give the handlers of Ctrl-C and SIGTERM back to the tests that come after: a daemon takes them for good."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers:
            signal.signal(number, handler)


def assay(*arguments: object, home: object = "", **variables: str) -> Ran:
    """Run ``assay …`` here, with a home and environment variables."""
    out, err = io.StringIO(), io.StringIO()
    variables |= {"ASSAY_HOME": str(home)} if home else {}
    wide = {"COLUMNS": "200", "NO_COLOR": "1"}  # tables do not wrap
    with (
        signals_kept(),
        patch.dict(os.environ, wide | variables),
        patch.object(sys, "argv", ["assay", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


def in_process(*arguments: object, home: object = "", **variables: str) -> Ran:
    """Run ``assay …`` as a process, as a person would."""
    environment = os.environ | variables | ({"ASSAY_HOME": str(home)} if home else {})
    done = subprocess.run(
        [sys.executable, "-m", "assay.cli", *map(str, arguments)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def modules_after(code: str) -> set[str]:
    """Return the modules that a new interpreter has imported after ``code``."""
    tail = "\nimport sys\nprint('MODULES ' + ' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code + tail],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stdout.rpartition("MODULES ")[2].split())


def child_cpu_seconds() -> float:
    """Return the CPU time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
