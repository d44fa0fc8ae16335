"""The way into CometBFT's mempool: ``broadcast_tx_sync`` over JSON-RPC on this machine."""

import base64
import logging
from hashlib import sha256
from threading import local
from typing import Any, Final

import requests

from chain.app.interfaces import UNREACHABLE
from domain.block import BroadcastResult
from domain.errors import MEMPOOL_FULL, TX_IN_CACHE, TX_TOO_LARGE, Code

log = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 5.0  # below that of a client, which is to see our answer

# What CometBFT says, and the code that the Cosmos SDK gives it.
_WORDS: Final = (
    ("tx already exists in cache", TX_IN_CACHE),
    ("mempool is full", MEMPOOL_FULL),
    ("tx too large", TX_TOO_LARGE),
    ("request body too large", TX_TOO_LARGE),
)


class CometBroadcaster:
    """Hands transactions to the CometBFT at ``rpc_url``; any thread may call."""

    def __init__(self, rpc_url: str, timeout: float = TIMEOUT_SECONDS) -> None:
        """Make no call yet."""
        self._url = rpc_url
        self._timeout = timeout
        self._threads = local()  # a session is not made for several threads

    def broadcast_sync(self, raw: bytes) -> BroadcastResult:
        """Return what CheckTx said, or why CometBFT did not ask it."""
        tx_hash = sha256(raw).digest()
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "broadcast_tx_sync",
            "params": {"tx": base64.b64encode(raw).decode()},
        }
        try:
            answer = self._session().post(self._url, json=call, timeout=self._timeout).json()
            return _read(tx_hash, answer)
        except (requests.RequestException, ValueError, LookupError, TypeError) as error:
            log.warning("broadcast failed: %s", error)
            return _not_taken(tx_hash, UNREACHABLE, "CometBFT does not answer: try again")

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._threads, "session", None)
        if session is None:
            session = self._threads.session = requests.Session()
            session.trust_env = False  # it is on this machine: no proxy
        return session


def _read(tx_hash: bytes, answer: Any) -> BroadcastResult:
    if not isinstance(answer, dict):
        raise TypeError("not a JSON-RPC answer")
    error = answer.get("error")
    if error:
        text = f"{error['message']}: {error.get('data', '')}"
        for words, code in _WORDS:
            if words in text.lower():
                return _not_taken(tx_hash, code, text)
        return _not_taken(tx_hash, UNREACHABLE, text)
    result = answer["result"]
    return BroadcastResult(
        tx_hash, int(result["code"]), str(result.get("codespace", "")), str(result.get("log", ""))
    )


def _not_taken(tx_hash: bytes, code: Code, text: str) -> BroadcastResult:
    return BroadcastResult(tx_hash, code.number, code.space, text)
