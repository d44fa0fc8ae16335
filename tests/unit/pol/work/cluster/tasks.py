"""Tasks of the tests of clusters: they read files, write files, and say what is around them."""

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from domain.errors import Expected
from pol.work.cluster.files import Workplace


@dataclass(frozen=True, slots=True)
class Copy:
    source: Path
    folder: Path
    to: tuple[Path, ...]


def copy(asked: Copy) -> tuple[str, bytes]:
    """Write the source to each target; return the names in the folder, and a hash of the source."""
    data = asked.source.read_bytes()
    for number, target in enumerate(asked.to):
        target.write_bytes(data * (number + 1))
    names = sorted(str(path.relative_to(asked.folder)) for path in asked.folder.rglob("*") if path.is_file())
    return ",".join(names), sha256(data).digest()


def fail(reason: str) -> None:
    raise Expected(reason, "try another one")


def link(at: Path, to: str) -> None:
    """Put a link to another file where a result should be."""
    at.symlink_to(to)


def fill(number: int) -> None:
    """Fail as the operating system does on a full disk."""
    raise OSError(number, os.strerror(number))


def exists(at: Path) -> bool:
    return at.exists()


def secrets() -> tuple[str, ...]:
    return tuple(sorted(name for name in os.environ if "RAY" in name or "TOKEN" in name))


def parent() -> int:
    return os.getppid()


def reads(path: str) -> bytes:
    return Path(path).read_bytes()


def inside(place: Workplace, source: Path, to: Path) -> tuple[int, str]:
    """Copy a file to where sandboxed processes may write, and keep another copy."""
    assert to.parent == place.folder
    for target in (to, place.keep / "kept"):
        target.write_bytes(source.read_bytes())
    return os.getpid(), place.address
