"""The process that serves HTTP: ``python -m chain.app.rest.worker SOCKET NODE ORIGINS``.

SOCKET is the descriptor of a listening socket, and ORIGINS are separated by commas.
"""

import socket
import sys
from typing import Final

import uvicorn

from chain.app.rest.connections import RestConnection
from chain.app.rest.gateway import Gateway
from host.daemon import begin_log

CONNECTIONS_MAX: Final = 256
_IDLE_SECONDS: Final = 15
_HEAD_BYTES_MAX: Final = 16 * 1024


def serve(listening: socket.socket, node: str, origins: tuple[str, ...]) -> None:
    """Answer requests on a listening socket until the process ends."""
    config = uvicorn.Config(
        Gateway(node, origins).app,
        http=RestConnection,
        loop="asyncio",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",  # strangers send requests that are not HTTP
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    begin_log()
    descriptor, address, allowed = sys.argv[1:]
    pages = () if allowed == "none" else tuple(origin.strip() for origin in allowed.split(","))
    serve(socket.socket(fileno=int(descriptor)), address, pages)
