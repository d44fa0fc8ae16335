"""The one table of everything that can be asked: gRPC path -> handler. gRPC and the ABCI query read
it.
"""

from chain.app.interfaces import UNREACHABLE, Broadcaster, QueryPort
from chain.app.services import accounts, assay, node, transactions
from chain.app.services.call import Handler
from domain.errors import Refusal


def build_table(app: QueryPort, broadcaster: Broadcaster | None) -> dict[str, Handler]:
    """Return all handlers. Without a broadcaster there is no way to send (the ABCI query)."""
    table = {
        **accounts.handlers(app),
        **transactions.handlers(app, broadcaster),
        **node.handlers(app),
        **assay.handlers(app),
    }
    return {path: _once_started(app, handler) for path, handler in table.items()}


def _once_started(app: QueryPort, handler: Handler) -> Handler:
    """Return ``handler`` for a node that has a state; one that waits for consensus has none."""

    def handle(data: bytes) -> bytes:
        if not app.chain_id:
            raise Refusal(
                UNREACHABLE, "state", "there is none yet: the node waits for CometBFT", "try again"
            )
        return handler(data)

    return handle
