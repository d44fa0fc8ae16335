"""A stream of bytes to another process, in which every wait has a deadline.

The descriptor is a connected socket that does not block. Only calls that the sandbox allows are used.
"""

import os
import select
import time

from domain.errors import Expected

READ_BYTES_MAX = 1 << 20
"""Largest number of bytes that are read or written at once."""

_POLL_SECONDS_MAX = 3_600.0


class LinkError(Expected):
    """The error of a link to another machine: it has ended, is silent, or sent something else than it should."""


class LinkClosed(LinkError):
    """The error of a link whose other end was closed."""


class LostMachine(LinkError):
    """The error of a link to the machine number ``machine`` of a group."""

    def __init__(self, machine: int, reason: str) -> None:
        super().__init__(reason)
        self.machine = machine


class Stream:
    """One end of a connection. ``name`` describes the other end in errors. The stream owns the descriptor."""

    def __init__(self, descriptor: int, name: str) -> None:
        self.name = name
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the descriptor, so that the stream can be polled."""
        return self._descriptor

    def read(self, size: int, deadline: float) -> bytearray:
        """Return the next ``size`` bytes. ``deadline`` is a time of the monotonic clock.

        The caller has checked that ``size`` is small. Raises LinkError if the other end closes the connection, or if
        the bytes are not there at the deadline.
        """
        data = bytearray(size)
        self.read_into(memoryview(data), deadline)
        return data

    def read_into(self, target: memoryview, deadline: float) -> None:
        """Fill ``target`` with the next bytes, as :meth:`read` does."""
        while target:
            try:
                count = os.readv(self._descriptor, [target[:READ_BYTES_MAX]])
            except BlockingIOError:
                self._wait(select.POLLIN, deadline)
                continue
            except OSError as error:
                raise LinkClosed(f"{self.name} ended the connection ({error.strerror})") from None
            if not count:
                raise LinkClosed(f"{self.name} ended the connection")
            target = target[count:]

    def write(self, data: bytes | bytearray, deadline: float) -> None:
        """Write all bytes. Raises LinkError as :meth:`read` does."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest[:READ_BYTES_MAX]) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
            except OSError as error:
                raise LinkClosed(f"{self.name} ended the connection ({error.strerror})") from None

    def close(self) -> None:
        """Close the connection."""
        os.close(self._descriptor)

    def _wait(self, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._descriptor, event)
        seconds = deadline - time.monotonic()
        if not poll.poll(1000 * max(0.0, min(seconds, _POLL_SECONDS_MAX))) and seconds <= _POLL_SECONDS_MAX:
            raise LinkError(f"{self.name} did not answer before the deadline")
