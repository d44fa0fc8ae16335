"""The one table of everything that can be asked: gRPC path -> handler. gRPC and the ABCI query read
it.
"""

from chain.app.ports import Broadcaster, QueryPort
from chain.app.services import accounts, assay, node, transactions
from chain.app.services.call import Handler


def build_table(app: QueryPort, broadcaster: Broadcaster | None) -> dict[str, Handler]:
    """Return all handlers. Without a broadcaster there is no way to send (the ABCI query)."""
    return {
        **accounts.handlers(app),
        **transactions.handlers(app, broadcaster),
        **node.handlers(app),
        **assay.handlers(app),
    }
