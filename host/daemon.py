"""The start of every daemon: a log in its home, and a callback for SIGTERM."""

import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Thread
from typing import TextIO

_FILE_BYTES_MAX = 20_000_000
_FILES_KEPT = 3


class JsonLines(logging.Formatter):
    """A formatter that writes a record as one line of JSON; a traceback is one of its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "part": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


class LogFormat(StrEnum):
    """The format of a log's lines."""

    TEXT = "text"
    JSON = "json"


class TextLines(logging.Formatter):
    """A formatter that writes a record as one line for people: time (UTC), level, part, message; then a traceback."""

    def __init__(self) -> None:
        """Set the fields of a line."""
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return the time to the millisecond."""
        when = datetime.fromtimestamp(record.created, UTC)
        return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


_FORMATTERS: dict[LogFormat, type[logging.Formatter]] = {
    LogFormat.TEXT: TextLines,
    LogFormat.JSON: JsonLines,
}


_log_handlers: list[logging.Handler] = []


def begin_log(level: str = "info", form: LogFormat = LogFormat.TEXT, path: Path | None = None) -> None:
    """Send the process's log to stderr, or to the file ``path``, which is rotated; lines below ``level`` are left out.

    This log replaces the log of an earlier call. A bounded number of old files is kept.
    """
    while _log_handlers:
        before = _log_handlers.pop()
        logging.getLogger().removeHandler(before)
        before.close()
    handler = _Terminal() if path is None else bounded_file(path)
    _add(handler, level, _FORMATTERS[form]())
    _log_handlers.append(handler)


def log_to_file(path: Path) -> None:
    """Send the process's log also to ``path`` as JSON; a bounded number of old files is kept."""
    _add(bounded_file(path), "info", JsonLines())


def bounded_file(path: Path) -> logging.Handler:
    """Return a handler that writes lines to ``path``. A full file becomes ``path.1`` and so on, up to a bound."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return _BoundedFile(path, maxBytes=_FILE_BYTES_MAX, backupCount=_FILES_KEPT)


class _BoundedFile(RotatingFileHandler):
    """A log file that reports once on stderr that it cannot be written, instead of a traceback per line."""

    _failed = False

    def close(self) -> None:
        """Close the file, even if a full disk did not take all lines."""
        # Closing tries the rest of the buffer once more, and fails again.
        with suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Drop the line, and report the first failure on stderr.

        A full disk stops only the log. Parts of the program that need the disk report the problem themselves.
        """
        if not self._failed:
            self._failed = True
            sys.stderr.write(f"{self.baseFilename} cannot be written: {sys.exc_info()[1]}\n")


class _Terminal(logging.StreamHandler[TextIO]):
    """A log on stderr that drops lines if they cannot be written, for example because the disk is full."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Drop the line silently, unless the error is a bug."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def _add(handler: logging.Handler, level: str, formatter: logging.Formatter) -> None:
    handler.setFormatter(formatter)
    handler.setLevel(level.upper())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(min(root.level, handler.level))


_YOUNG_MAX = 500_000
"""Number of new objects that starts a search for cycles. A block of a few thousand transactions keeps fewer objects
until it is committed. With 50,000, the search took a tenth of the time of such a block.
"""


def calm_collector() -> None:
    """Make the garbage collector ignore the objects loaded at the start, and search for cycles in the rest less often.

    A node's records have no cycles. With Python's default settings, the search took a fifth of the time of CheckTx.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def on_stop_signal(call: Callable[[], None]) -> None:
    """Call ``call`` once per SIGTERM or SIGINT, in a thread of its own. Only for the main thread, once per process.

    A Python signal handler may run while its thread holds a lock that the handler also needs, so the handlers do
    nothing. The interpreter writes the signal's number into a pipe, and a thread that reads the pipe makes the call.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _SIGNALS:
        signal.signal(number, lambda *_: None)
    Thread(target=_forward, args=(reader, call), name="stop-signals", daemon=True).start()


def _forward(reader: int, call: Callable[[], None]) -> None:
    while data := os.read(reader, 1):
        if data[0] in _SIGNALS:
            call()
