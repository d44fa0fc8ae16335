"""Ports that a program is about to listen on, or to let a child listen on."""

import errno
import socket
import time

from host.addresses import bare

_LOOK_AGAIN_SECONDS = 0.1


def is_free(host: str, port: int) -> bool:
    """Tell whether a server could listen there now; OSError where none ever could, whoever else does.

    Connections of an earlier server that fade out do not count.
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
    """Wait for a program that is ending to let go of the port; False where it is taken after ``seconds`` still."""
    ends = time.monotonic() + seconds
    while not is_free(host, port):
        if time.monotonic() >= ends:
            return False
        time.sleep(_LOOK_AGAIN_SECONDS)
    return True
