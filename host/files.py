"""Files that must not be lost, half written or read by others: keys, and what work was done."""

import os
from pathlib import Path


def write_durably(path: Path, data: bytes) -> None:
    """Write a whole file or none, for its owner only, to last through a power cut."""
    partial = path.with_name(path.name + ".new")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)  # half a file on a full disk helps nobody
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name has to last, too
    finally:
        os.close(folder)
