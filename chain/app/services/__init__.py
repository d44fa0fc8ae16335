"""Query and transaction services of a node, behind gRPC and behind the ABCI query alike."""

from collections.abc import Callable

from chain.app.interfaces import QueryPort
from chain.app.services.table import build_table


def route(app: QueryPort) -> Callable[[str, bytes], bytes | None]:
    """Return the services for the ABCI query: path and request bytes -> response bytes, or None for
    a path that is not known. Nothing can be sent this way: wallets broadcast over CometBFT's RPC.
    """
    table = build_table(app, None)

    def answer(path: str, data: bytes) -> bytes | None:
        handler = table.get(path)
        return None if handler is None else handler(data)

    return answer
