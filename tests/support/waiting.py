"""Waiting for a condition with a deadline: never for an amount of time."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_PAUSE_SECONDS = 0.02
"""Between two looks: most of them ask a node, whose time it is as well."""


def wait_until(condition: Callable[[], T], what: str, deadline_seconds: float = 30.0) -> T:
    """Return the first true result of ``condition``; AssertionError names ``what`` never came."""
    end = time.monotonic() + deadline_seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, f"waited {deadline_seconds} s for {what}"
        time.sleep(_PAUSE_SECONDS)


def is_running(pid: int) -> bool:
    """Tell whether a process lives; one that ended and was not collected does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
