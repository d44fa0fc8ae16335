"""Checks of ports on which a program or its child is about to listen."""

import errno
import socket
import time

from host.addresses import bare

_LOOK_AGAIN_SECONDS = 0.1


def is_free(host: str, port: int) -> bool:
    """Return whether a server could listen at this host and port now.

    OSError if no server can ever listen there, for example because the address belongs to another machine. Connections
    of an earlier server that are still closing do not count.
    """
    host = bare(host)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def wait_until_free(host: str, port: int, seconds: float) -> bool:
    """Wait until a program that is ending frees the port; return False if it is still taken after ``seconds``."""
    ends = time.monotonic() + seconds
    while not is_free(host, port):
        if time.monotonic() >= ends:
            return False
        time.sleep(_LOOK_AGAIN_SECONDS)
    return True
