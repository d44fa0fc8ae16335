"""A member's process, and the end of the stream to it that gives it commands."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Final

from host import sandbox
from pol.machines.messages import Failed, receive, send
from pol.machines.stream import LinkError, Stream

_SEND_SECONDS: Final = 10.0
MALLOC: Final = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20), "MALLOC_ARENA_MAX": "2"}
"""Settings of the GNU C library, so that the memory of an array returns to the system when the array is freed. The heap
would keep gaps between arrays, which count against the limit.
"""


@cache
def _starter() -> ThreadPoolExecutor:
    """Return a thread that lives as long as this process: a child ends with the thread that started it."""
    return ThreadPoolExecutor(1, "members")


class MemberProcess:
    """A member's process. Any thread may start it."""

    def __init__(
        self,
        number: int,
        folder: Path,
        reads: Sequence[Path],
        memory: int,
        threads: int,
        peers: Mapping[int, socket.socket],
    ) -> None:
        """Start machine ``number``, which may write only into ``folder``. ``peers`` are its connections to the others.

        ``memory`` is its limit in bytes.
        """
        own, theirs = socket.socketpair()
        for end in (own, theirs):
            end.setblocking(False)
        others = ",".join(f"{other}={peer.fileno()}" for other, peer in sorted(peers.items()))
        arguments = (theirs.fileno(), os.getpid(), folder, memory, number, others, *reads)
        try:
            self._process = (
                _starter()
                .submit(
                    subprocess.Popen,
                    [sys.executable, "-P", "-m", "pol.machines", *map(str, arguments)],
                    pass_fds=[theirs.fileno(), *(peer.fileno() for peer in peers.values())],
                    stdin=subprocess.DEVNULL,
                    env=sandbox.environment(folder, threads or None) | MALLOC,
                )
                .result()
            )
        except BaseException:
            own.close()
            raise
        finally:
            theirs.close()
        self._stream = Stream(own.detach(), f"machine {number}")

    def ask(self, command: object, kind: type[Any], limit: int, deadline: float = inf) -> Any:
        """Send a command, and return the answer: a record of this class, or Failed. It has at most ``limit`` bytes.

        Raises LinkError if the process ends, or sends anything else, or is silent until the deadline.
        """
        # If it cannot read the command, it may have said why it ended.
        with suppress(LinkError):
            send(self._stream, command, time.monotonic() + _SEND_SECONDS)
        return receive(self._stream, (kind, Failed), limit, deadline)

    def kill(self) -> None:
        """Kill the process, and wait for its end. This ends any wait for an answer."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the stream. No thread may wait for an answer."""
        self._stream.close()
