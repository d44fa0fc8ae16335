"""Files that are either complete or absent: durable files, files that others read while they are written, and links."""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from errno import EINVAL
from io import BufferedReader
from pathlib import Path
from secrets import token_hex

from host.disks import named

Bytes = bytes | memoryview
_PIECE_BYTES = 2**20


def write_durably(path: Path, data: Bytes | Iterable[Bytes], mode: int = 0o600) -> None:
    """Write a whole file or none; a written file survives a power cut. An old file of this name stays until the new one
    is complete.

    ``data`` may produce the pieces of a large file one by one. Only the owner may read the file, unless ``mode`` (less
    the umask) allows more.
    """
    write_bytes_durably(path, data, mode)
    # The name must survive a power cut too.
    _sync_names(path.parent)


def write_bytes_durably(path: Path, data: Bytes | Iterable[Bytes], mode: int = 0o600) -> None:
    """Write a whole file or none.

    The bytes of the file survive a power cut, but its name does so only after :func:`move_durably`.
    """
    _write(path, data, mode, durably=True)


def move_durably(source: Path, target: Path) -> None:
    """Move a plain file so that its new name survives a power cut; OSError if it is not plain. The caller has already
    synced its bytes to disk.

    The writer of the file is not trusted: at any moment, the writer may put a link in place of the file, but only under
    the old name. So the file is first moved to a name that the writer cannot change, and is checked afterwards.
    """
    partial = _partial(target)
    source.rename(partial)
    mode = partial.lstat().st_mode
    if not stat.S_ISREG(mode):
        if not stat.S_ISDIR(mode):
            partial.unlink()
        raise OSError(EINVAL, "is not a plain file", str(source))
    try:
        partial.replace(target)
    except OSError:
        partial.unlink()
        raise
    _sync_names(target.parent)


def open_plain(path: Path) -> BufferedReader:
    """Open a plain file; OSError if it is anything else, for example a link.

    It is for files whose writer is not trusted: a link could lead to a file that only this process may read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(EINVAL, "is not a plain file", str(path))
    return os.fdopen(handle, "rb")


def plain_pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a plain file, a mebibyte at a time; see :func:`open_plain`.

    The writer may still be writing, so only as many bytes are read as the file has at the start.
    """
    with open_plain(path) as file:
        remaining = os.fstat(file.fileno()).st_size
        while piece := file.read(min(remaining, _PIECE_BYTES)):
            remaining -= len(piece)
            yield piece


def write_whole(path: Path, data: Bytes | Iterable[Bytes] | str) -> None:
    """Write a whole file or none, so that readers never see a part of the file. A power cut may lose the file."""
    _write(path, data.encode() if isinstance(data, str) else data, 0o666, durably=False)


def link_whole(source: Path, target: Path) -> None:
    """Make ``target`` a hard link to the file ``source``; an existing ``target`` is replaced without a gap.

    If the disk cannot link, ``target`` is a copy.
    """
    partial = _partial(target)
    try:
        try:
            os.link(source, partial)
        except OSError:
            shutil.copyfile(source, partial)
        partial.replace(target)
    finally:
        # The partial file is left after a failure. It is also left if both names were links to one file already,
        # because ``replace`` then does nothing.
        partial.unlink(missing_ok=True)


def _write(path: Path, data: Bytes | Iterable[Bytes], mode: int, *, durably: bool) -> None:
    partial = _partial(path)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([data] if isinstance(data, Bytes) else data)
            file.flush()
            if durably:
                os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise named(error, path) from None
    except BaseException:
        # Half a file on a full disk would only waste room.
        partial.unlink(missing_ok=True)
        raise


def _sync_names(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _partial(path: Path) -> Path:
    """Return an unused name next to ``path``, which no other thread or program writes to."""
    return path.with_name(f"{path.name}.{token_hex(8)}.new")
