"""What every daemon begins with: a log in its home, and SIGTERM as an ordinary call."""

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
    """Formats a record as one line of JSON; a traceback is a field of it."""

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
    """How a line of a log is written."""

    TEXT = "text"
    JSON = "json"


class TextLines(logging.Formatter):
    """Formats a record as one line for people: time (UTC), level, part, message; a traceback follows."""

    def __init__(self) -> None:
        """Take the fields."""
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return the time to the millisecond."""
        when = datetime.fromtimestamp(record.created, UTC)
        return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


_FORMATTERS: dict[LogFormat, type[logging.Formatter]] = {
    LogFormat.TEXT: TextLines,
    LogFormat.JSON: JsonLines,
}


_begun: list[logging.Handler] = []


def begin_log(level: str = "info", form: LogFormat = LogFormat.TEXT, path: Path | None = None) -> None:
    """Send the process's log from ``level`` on to stderr, or to ``path``, of which old files are kept up to a bound.

    It takes the place of what was begun before.
    """
    while _begun:
        before = _begun.pop()
        logging.getLogger().removeHandler(before)
        before.close()
    handler = _Terminal() if path is None else bounded_file(path)
    _add(handler, level, _FORMATTERS[form]())
    _begun.append(handler)


def log_to_file(path: Path) -> None:
    """Send the process's log to ``path`` as JSON, whatever else is logged where; old files are kept up to a bound."""
    _add(bounded_file(path), "info", JsonLines())


def bounded_file(path: Path) -> logging.Handler:
    """Return what writes lines to ``path``; when it is full, it becomes ``path.1`` and so on, up to a bound."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return _BoundedFile(path, maxBytes=_FILE_BYTES_MAX, backupCount=_FILES_KEPT)


class _BoundedFile(RotatingFileHandler):
    """Says once on stderr that it cannot be written, where others would print a trace for each line."""

    _failed = False

    def close(self) -> None:
        """Let go of the file, also of lines that a full disk did not take."""
        # What is left in the buffer is tried once more, and fails once more.
        with suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Go on without the line: a full disk stops the log, and what must not go on says so by itself."""
        if not self._failed:
            self._failed = True
            sys.stderr.write(f"{self.baseFilename} cannot be written: {sys.exc_info()[1]}\n")


class _Terminal(logging.StreamHandler[TextIO]):
    """Goes on without a line that stderr does not take, as on a full disk: a trace would not fit, either."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say nothing, for which there is no place, unless it is a bug."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def _add(handler: logging.Handler, level: str, formatter: logging.Formatter) -> None:
    handler.setFormatter(formatter)
    handler.setLevel(level.upper())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(min(root.level, handler.level))


_YOUNG_MAX = 50_000
"""Objects made before a look for circles: what a block's transactions make lives shorter than it takes to fill this."""


def calm_collector() -> None:
    """Let the collector of circles leave what was loaded at the start alone, and look at the rest less often.

    A node makes records without circles; looking for them anyway took a fifth of the time of CheckTx.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def on_stop_signal(call: Callable[[], None]) -> None:
    """Call ``call`` once for each SIGTERM or SIGINT, in a thread of its own. Main thread only, once per process.

    A Python signal handler may run while its thread holds a lock that it needs itself, so the handlers do nothing. The
    interpreter writes the signal's number into a pipe, and a thread that reads the pipe makes the call.
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
