"""ABCI queries: each gRPC method by its path, and the paths of :mod:`chain.app.services.app_paths`."""

import logging
from typing import Any, Protocol

from cosmpy.protos.tendermint.abci.types_pb2 import ResponseQuery

from chain.app.application import INTERNAL, Application
from chain.app.services.app_paths import STORE_PATH, answer_path
from chain.app.services.method import Answered
from domain.errors import NOT_FOUND, UNKNOWN_REQUEST, Refusal

log = logging.getLogger(__name__)


class CallMethod(Protocol):
    """The function that calls a gRPC method by its path; it raises a Refusal."""

    def __call__(self, path: str, data: bytes, height: int) -> Answered:
        """Return the response to the request bytes, from the state at ``height``."""


class AbciQueries:
    """The answers to ABCI queries; a failed query gets a code, never an exception.

    Transactions cannot be sent this way, because wallets broadcast over CometBFT's RPC.
    """

    def __init__(self, app: Application, call: CallMethod) -> None:
        """Use ``call`` to answer the queries whose path names a gRPC method."""
        self._app = app
        self._call = call

    def __call__(self, path: str, data: bytes, height: int, prove: bool) -> Any:
        """Return the answer to a query as a ``ResponseQuery``."""
        try:
            answer = answer_path(self._app, path, data, height, prove)
            if answer is not None:
                return answer
            answered = self._call(path, data, height)
            # CosmJS reads height 0 as "no height"; before block 1 the answers are those of genesis.
            return ResponseQuery(value=answered.data, height=max(answered.height, 1))
        except Refusal as refusal:
            text = str(refusal)
            if refusal.code == UNKNOWN_REQUEST and refusal.field == "path":
                text = f"{text}, or {STORE_PATH}"
            # CosmJS recognizes an absent key by these words.
            if refusal.code == NOT_FOUND:
                text = f"rpc error: code = NotFound desc = {text}"
            return self._refused(refusal.code.space, refusal.code.number, text)
        except Exception:
            log.exception("bug in query %s", path)
            return self._refused(*INTERNAL, "internal error; the node's log has the details")

    def _refused(self, space: str, code: int, text: str) -> Any:
        height = max(self._app.head.block.height, 1)
        return ResponseQuery(codespace=space, code=code, log=text, height=height)
