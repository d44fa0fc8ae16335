"""The node's log: one JSON object per line, so that a person can read it and a program can filter it."""

import json
import logging
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

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


def log_to_file(path: Path, level: int = logging.INFO) -> None:
    """Send the process's log to ``path``; old files are kept up to a bound."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = RotatingFileHandler(path, maxBytes=_FILE_BYTES_MAX, backupCount=_FILES_KEPT)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
