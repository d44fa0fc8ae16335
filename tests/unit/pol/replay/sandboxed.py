"""Tasks that try what a worker of the pool may not do; each returns what came of it."""

import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


def attempt(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as error:
        return type(error).__name__
    return "done"


def call(port: int) -> str:
    """Connect to a server of this machine."""
    return attempt(lambda: socket.create_connection(("127.0.0.1", port), 5).close())


def write(path: Path) -> str:
    return attempt(lambda: path.write_text("x"))


def read(path: Path) -> str:
    return path.read_text()


def spawn() -> str:
    """Make as many processes as there may be, at most ten."""
    children = []
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                os._exit(0)
            children.append(child)
    except OSError as error:
        return type(error).__name__
    finally:
        for child in children:
            os.waitpid(child, 0)
    return "done"


def hold(size: int) -> int:
    return len(bytearray(size))


def environment() -> dict[str, str]:
    return dict(os.environ)


@dataclass
class Mutable:
    """A record whose class lets anybody set attributes."""


class Colour(Enum):
    RED = 1


def colour() -> Colour:
    return Colour.RED


class Named:
    """Stands in a pickle for an attribute of something, as members of enumerations did before Python 3.11.4."""

    def __init__(self, owner: object, name: str) -> None:
        self._parts = owner, name

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, str]]:
        return getattr, self._parts


class Bomb:
    """Looks like a result, and names a function for its reader to call."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch bomb",)


def bomb() -> Bomb:
    return Bomb()


def say(part: bytes) -> None:
    """Write to the pool's pipe (the worker's first argument), past whoever should, and fall silent."""
    os.write(int(sys.argv[1]), part)
    signal.pause()


def add_with_torch() -> list[float]:
    import torch

    return [float(x) for x in torch.ones(3) + torch.ones(3)]
