"""Files that are there whole or not at all: what must outlast a power cut, what others read meanwhile, and links."""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from errno import EINVAL
from pathlib import Path
from secrets import token_hex

Bytes = bytes | memoryview
_PIECE_BYTES = 2**20


def write_durably(path: Path, data: Bytes | Iterable[Bytes], mode: int = 0o600) -> None:
    """Write a whole file or none, to last through a power cut; what was there stays until then.

    Of a large one the pieces may be made one by one. Only its owner may read it, unless ``mode`` (less the umask) says
    otherwise.
    """
    write_bytes_durably(path, data, mode)
    # The name has to last, too.
    _sync_names(path.parent)


def write_bytes_durably(path: Path, data: Bytes | Iterable[Bytes], mode: int = 0o600) -> None:
    """Do the same for a file that :func:`move_durably` is to give a name that lasts."""
    _write(path, data, mode, durably=True)


def move_durably(source: Path, target: Path) -> None:
    """Give a plain file, whose bytes are on disk, another name that lasts; OSError where it is anything else.

    Whoever wrote it may still write where it was, and so make a link of it at any moment, but not where it comes.
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


def plain_pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a plain file, a mebibyte at a time; OSError where it is anything else, as a link.

    For what somebody wrote who is not trusted with what this process may read, and who may write on: there are as many
    bytes as the file has now.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise OSError(EINVAL, "is not a plain file", str(path))
    left = status.st_size
    with os.fdopen(handle, "rb") as file:
        while piece := file.read(min(left, _PIECE_BYTES)):
            left -= len(piece)
            yield piece


def write_whole(path: Path, data: bytes | str) -> None:
    """Write a whole file or none, for readers who may look at any moment; a power cut may take it."""
    _write(path, data.encode() if isinstance(data, str) else data, 0o666, durably=False)


def link_whole(source: Path, target: Path) -> None:
    """Let ``target`` be the same file as ``source``, at no moment absent once it was there.

    Where the disk cannot link, it is a copy.
    """
    partial = _partial(target)
    try:
        try:
            os.link(source, partial)
        except OSError:
            shutil.copyfile(source, partial)
        partial.replace(target)
    finally:
        # After a failure; and where both were links to one file already, ``replace`` does nothing.
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
    except BaseException:
        # Half a file on a full disk helps nobody.
        partial.unlink(missing_ok=True)
        raise


def _sync_names(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _partial(path: Path) -> Path:
    """Return a name beside ``path`` that nobody else has a file or a link at, and no other thread writes to."""
    return path.with_name(f"{path.name}.{token_hex(8)}.new")
