"""ABCI queries: each gRPC method by its path, and provable reads of the state under ``/store/assay/key``."""

import logging
from collections.abc import Callable
from typing import Any

from cosmpy.protos.tendermint.abci.types_pb2 import ResponseQuery
from cosmpy.protos.tendermint.crypto.proof_pb2 import ProofOp, ProofOps

from chain.app.application import INTERNAL, Application
from chain.app.smt import PROOF_TYPE, prove
from domain.errors import INVALID_REQUEST, NOT_FOUND, UNKNOWN_REQUEST, Refusal

log = logging.getLogger(__name__)

STORE_PATH = "/store/assay/key"

Route = Callable[[str, bytes], bytes | None]
"""(gRPC method path, request bytes) -> response bytes; None for an unknown path. Raises Refusal."""


class AbciQueries:
    """The answers to ABCI queries at the newest height; a failed query gets a code, never an exception."""

    def __init__(self, app: Application, route: Route) -> None:
        """Use ``route`` to answer the queries whose path names a gRPC method."""
        self._app = app
        self._route = route

    def __call__(self, path: str, data: bytes, height: int, prove: bool) -> Any:
        """Return the answer to a query as a ``ResponseQuery``."""
        try:
            self._check_height(height)
            answer = self._answer(path, data, prove)
            self._check_height(height)  # a block may have been committed meanwhile
            return answer
        except Refusal as refusal:
            text = str(refusal)
            # CosmJS recognizes an absent key by these words.
            if refusal.code == NOT_FOUND:
                text = f"rpc error: code = NotFound desc = {text}"
            return self._refused(refusal.code.space, refusal.code.number, text)
        except Exception:
            log.exception("bug in query %s", path)
            return self._refused(*INTERNAL, "internal error; the node's log has the details")

    def _check_height(self, height: int) -> None:
        newest = self._app.head.block.height
        if height not in (0, newest):
            raise Refusal(
                INVALID_REQUEST, "height", f"{height} is not available", f"use 0 or the newest height, {newest}"
            )

    def _answer(self, path: str, data: bytes, prove: bool) -> Any:
        newest = self._app.head.block.height
        if path == STORE_PATH:
            return self._state_key(data, prove)
        if prove:
            raise Refusal(INVALID_REQUEST, "prove", f"is not possible for {path}", f"use the path {STORE_PATH}")
        value = self._route(path, data)
        if value is None:
            raise Refusal(
                UNKNOWN_REQUEST, "path", f"{path} is unknown", f"use the path of a gRPC method, or {STORE_PATH}"
            )
        # CosmJS reads height 0 as "no height"; before block 1 the answers are those of genesis.
        return ResponseQuery(value=value, height=max(newest, 1))

    def _state_key(self, key: bytes, with_proof: bool) -> Any:
        """Return the answer with the value of a state key, and its proof if ``with_proof``.

        The proof leads to the app hash in the header of the next height.
        """
        snapshot = self._app.committed()
        height = snapshot.head.block.height
        if not key or not height:
            raise Refusal(
                INVALID_REQUEST,
                "data",
                "is empty, or there is no block yet",
                "send the key of a state record after block 1",
            )
        answer = ResponseQuery(key=key, value=snapshot.get(key) or b"", height=height)
        if with_proof:
            proof = prove(snapshot.node, snapshot.get, key).SerializeToString()
            op = ProofOp(type=PROOF_TYPE, key=key, data=proof)
            answer.proof_ops.CopyFrom(ProofOps(ops=[op]))
        return answer

    def _refused(self, space: str, code: int, text: str) -> Any:
        height = max(self._app.head.block.height, 1)
        return ResponseQuery(codespace=space, code=code, log=text, height=height)
