"""Landlock, the kernel's own limit on the paths that a process may reach. It has the same numbers on every machine."""

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_RULE_PATH_BENEATH: Final = 1
# A flag that asks for the ABI.
_VERSION: Final = 1

_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_FOLDER: Final = 1 << 3
# Remove folders and files; make folders and plain files.
_REMOVE_AND_MAKE: Final = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8
_TRUNCATE: Final = 1 << 14
_DEVICE: Final = 1 << 15
# ABI 1: execute, read and write files, read folders, remove and make of every kind.
_FIRST: Final = (1 << 13) - 1
# Before these ABIs, Landlock cannot forbid a process to empty a file or to send requests (ioctl) to a device.
_ADDED: Final = ((3, _TRUNCATE), (5, _DEVICE))


class Paths:
    """The paths that a process may reach after :meth:`restrict`. A path that does not exist is left out."""

    def __init__(self, libc: ctypes.CDLL) -> None:
        """Begin without any path."""
        self._libc = libc
        self._handled = _FIRST
        for abi, right in _ADDED:
            if landlock_abi() >= abi:
                self._handled |= right
        attributes = struct.pack("=Q", self._handled)
        self._ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)

    def write(self, folder: Path) -> None:
        """Allow reading, writing, making and removing plain files and folders beneath ``folder``."""
        self._allow(folder, _READ_FILE | _READ_FOLDER | _WRITE_FILE | _TRUNCATE | _REMOVE_AND_MAKE)

    def read(self, paths: Iterable[Path]) -> None:
        """Allow reading files, and everything beneath folders."""
        for path in paths:
            self._allow(path, _READ_FILE | _READ_FOLDER if path.is_dir() else _READ_FILE)

    def list(self, folder: Path) -> None:
        """Allow reading the names of files and folders beneath ``folder``."""
        self._allow(folder, _READ_FOLDER)

    def use(self, device: Path) -> None:
        """Allow reading and writing a device, or another file that is there already."""
        self._allow(device, _READ_FILE | _WRITE_FILE | _TRUNCATE)

    def drive(self, device: Path) -> None:
        """Allow reading and writing a device, and sending requests (ioctl) to it."""
        self._allow(device, _READ_FILE | _WRITE_FILE | _TRUNCATE | _DEVICE)

    def restrict(self) -> bool:
        """Forbid all other paths; return False if the kernel has no Landlock or forbids it.

        The process must have given up new rights (PR_SET_NO_NEW_PRIVS).
        """
        if self._ruleset < 0:
            return False
        done: bool = self._libc.syscall(_RESTRICT_SELF, self._ruleset, 0) == 0
        os.close(self._ruleset)
        return done

    def _allow(self, path: Path, rights: int) -> None:
        if self._ruleset < 0:
            return
        with suppress(OSError):
            beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", rights & self._handled, beneath)
            self._libc.syscall(_ADD_RULE, self._ruleset, _RULE_PATH_BENEATH, rule, 0)
            # A rule is about the kernel's object for a file. Files of /proc get a new one if nothing holds the old one.
            if not path.is_relative_to("/proc"):
                os.close(beneath)


def landlock_abi() -> int:
    """Return the version of the kernel's Landlock, or -1 if it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_CREATE_RULESET, None, 0, _VERSION))
