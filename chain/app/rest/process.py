"""The node's end of the gateway: it opens the socket and starts the process that serves it.

The gateway is a process of its own, because the conversion to JSON needs Python's interpreter lock, which blocks need.
"""

import socket
import sys
from pathlib import Path

from host.addresses import HostPort, bare
from host.process import start_child, stop_child

_BACKLOG = 128


class RestProcess:
    """A running gateway. Connections wait in the socket until the process is up."""

    def __init__(self, address: HostPort, node: HostPort, origins: str, log_path: Path | None = None) -> None:
        """Listen on ``address`` (port 0: any free one) for the node at ``node``; OSError if that is not possible.

        Main thread only.
        """
        host = bare(address.host)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # The protocol is named, because asyncio otherwise leaves Nagle's algorithm on, which adds 40 ms to each answer.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, address.port))
            listening.listen(_BACKLOG)
            self.address = str(HostPort(host, listening.getsockname()[1]).reached)
            descriptor = listening.fileno()
            command = [sys.executable, "-m", "chain.app.rest", str(descriptor), str(node.reached), origins]
            self._child = start_child(command, pass_fds=[descriptor], log_path=log_path)
        finally:
            listening.close()  # the process has its own descriptor

    def close(self) -> None:
        """End the process."""
        stop_child(self._child)
