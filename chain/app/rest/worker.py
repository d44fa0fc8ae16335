"""The process that serves HTTP: ``python -m chain.app.rest.worker SOCKET NODE ORIGINS``.

SOCKET is the descriptor of a listening socket, and ORIGINS are separated by commas.
"""

import socket
import sys

import uvicorn

from chain.app.rest.connections import make_config
from chain.app.rest.gateway import Gateway
from host.daemon import begin_log


def serve(listening: socket.socket, node: str, origins: tuple[str, ...]) -> None:
    """Answer requests on a listening socket until the process ends."""
    config = make_config(Gateway(node, origins).app)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    begin_log()
    descriptor, address, allowed = sys.argv[1:]
    pages = () if allowed == "none" else tuple(origin.strip() for origin in allowed.split(","))
    serve(socket.socket(fileno=int(descriptor)), address, pages)
