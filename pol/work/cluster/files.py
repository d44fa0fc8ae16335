"""The files of a task on other machines: it is packed with places instead of paths, and files travel by their hashes.

A path that exists is read by the task: a file, or a folder with all its files. A path that does not exist is a file
that the task writes.
"""

import errno
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from pol.work.answers import pack_answer
from pol.work.executor import NoSpace

PIECE_BYTES = 64 << 20
"""Most bytes of a file that are sent at a time."""
_READ_BYTES = 1 << 20
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_HASH_DIGITS = 64


@dataclass(frozen=True, slots=True)
class FileRef:
    """The content of a file."""

    sha256: bytes
    size: int


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A file that a task reads."""

    file: FileRef

    @property
    def files(self) -> tuple[FileRef, ...]:
        """The contents that the place needs."""
        return (self.file,)


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """A folder that a task reads: the relative name and the content of each of its files, sorted by name."""

    entries: tuple[tuple[str, FileRef], ...]

    @property
    def files(self) -> tuple[FileRef, ...]:
        """The contents that the place needs."""
        return tuple(file for _, file in self.entries)

    @property
    def digest(self) -> str:
        """A name that only folders of the same content have."""
        lines = [f"{name}\0{file.sha256.hex()}\0{file.size}\n" for name, file in self.entries]
        return sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """A file that a task writes."""

    @property
    def files(self) -> tuple[FileRef, ...]:
        """The contents that the place needs: none."""
        return ()


Place = FilePlace | FolderPlace | OutputPlace


@dataclass(frozen=True, slots=True)
class PackedTask:
    """A function and its arguments as bytes, and a place for each path among the arguments.

    ``paths`` are the places' paths on the machine that packed the task.
    """

    data: bytes
    places: tuple[Place, ...]
    paths: tuple[str, ...]
    sources: tuple[tuple[FileRef, str], ...] = field(repr=False)
    """The path, on that machine, of each content that the places need."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """The place of tasks that run in a node's worker itself (:class:`pol.work.cluster.node.LaneSpec`).

    Sandboxed processes may write only into ``folder``, and read only there and in ``reads``. They cannot reach
    ``keep``, where a task may keep links to files. ``address`` is the node's address.
    """

    folder: Path
    reads: tuple[Path, ...]
    keep: Path
    address: str


class _Packer(pickle.Pickler):
    """A pickler that writes the number of a place instead of a path."""

    def __init__(self, to: BytesIO) -> None:
        super().__init__(to)
        self.paths: list[Path] = []

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, Path):
            return None
        if value not in self.paths:
            self.paths.append(value)
        return self.paths.index(value)


class _Unpacker(pickle.Unpickler):
    def __init__(self, data: bytes, paths: Sequence[str]) -> None:
        super().__init__(BytesIO(data))
        self._paths = paths

    def persistent_load(self, number: Any) -> Path:
        return Path(self._paths[number])


def pack(function: Callable[..., Any], args: Sequence[Any]) -> PackedTask:
    """Pack a task. Raises OSError if a file that it reads cannot be read."""
    data = BytesIO()
    packer = _Packer(data)
    packer.dump((function, tuple(args)))
    places: list[Place] = []
    sources: dict[FileRef, str] = {}
    for path in packer.paths:
        if path.is_dir():
            entries = tuple((name, _known(file, sources)) for name, file in _files_in(path))
            places.append(FolderPlace(entries))
        elif path.exists():
            places.append(FilePlace(_known(path, sources)))
        else:
            places.append(OutputPlace())
    return PackedTask(
        data=data.getvalue(),
        places=tuple(places),
        paths=tuple(map(str, packer.paths)),
        sources=tuple(sources.items()),
    )


def run_packed(data: bytes, paths: Sequence[str], *first: Workplace) -> bytes:
    """Run a packed task whose places are at ``paths`` on this machine. Return the bytes of the answer.

    ``first`` are the arguments before those of the task. Raises NoSpace if the disk is full: another machine may have
    more space.
    """
    try:
        function, args = _Unpacker(data, paths).load()
        return pack_answer(True, function(*first, *args))
    except MemoryError:
        raise
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise NoSpace(os.strerror(error.errno)) from None
        return pack_answer(False, error)
    except Exception as error:  # noqa: BLE001  (every error is the result of the task)
        return pack_answer(False, error)


def _files_in(folder: Path) -> list[tuple[str, Path]]:
    found = (Path(where) / name for where, _, names in os.walk(folder) for name in names)
    return sorted((str(path.relative_to(folder)), path) for path in found)


def _known(path: Path, sources: dict[FileRef, str]) -> FileRef:
    status = path.stat()
    file = FileRef(_digest(str(path), status.st_size, status.st_mtime_ns, status.st_ino), status.st_size)
    sources.setdefault(file, str(path))
    return file


@lru_cache(maxsize=4096)
def _digest(path: str, _size: int, _changed: int, _inode: int) -> bytes:
    """Return the SHA-256 of a file. A blob has it as its name; the node checks the bytes anyway."""
    name = Path(path).name
    if len(name) == _HASH_DIGITS and set(name) <= set("0123456789abcdef"):
        return bytes.fromhex(name)
    return file_digest(Path(path))


def file_digest(path: Path) -> bytes:
    """Return the SHA-256 of a file."""
    digest = sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.digest()
