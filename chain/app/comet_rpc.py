"""JSON-RPC calls to the CometBFT on this machine: they send transactions and read CometBFT's state."""

import base64
import logging
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from threading import local
from typing import Any, Final

import requests

from chain.app.comet_files import parse_time
from chain.app.interfaces import UNREACHABLE
from domain.block import BroadcastResult
from domain.errors import MEMPOOL_FULL, TX_IN_CACHE, TX_TOO_LARGE, Code

log = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 5.0  # Shorter than the timeout of a client, so that the client gets an answer from the node.

# Error texts of CometBFT, and their codes in the Cosmos SDK.
_WORDS: Final = (
    ("tx already exists in cache", TX_IN_CACHE),
    ("mempool is full", MEMPOOL_FULL),
    ("tx too large", TX_TOO_LARGE),
    ("request body too large", TX_TOO_LARGE),
)


LOOK_SECONDS: Final = 2.0
"""Longest wait for CometBFT's answer about itself."""
_PAGE: Final = 100
_PREVOTE: Final = 4
_PRECOMMIT: Final = 6
"""Numbers of the steps, here and in ``_PREVOTE``, from which on CometBFT waits for votes of this kind in a round."""


@dataclass(frozen=True, slots=True)
class CometStanding:
    """A report of CometBFT about itself; ``node_id`` is its p2p identity, and times are Unix nanoseconds.

    ``peers`` are the monikers that the connected peers chose for themselves.
    """

    node_id: str
    height: int
    time_ns: int
    catching_up: bool
    peers: tuple[str, ...]
    waiting_txs: int
    waiting_bytes: int


@dataclass(frozen=True, slots=True)
class Votes:
    """The votes for the next block, in the round and of the kind (prevote or precommit) that CometBFT waits for.

    ``power`` is the fraction of the total power that has voted, and ``absent`` are the consensus addresses (20 bytes)
    of the validators that have not. While ``power`` is two thirds or less, no block is made.
    """

    power: Fraction
    absent: tuple[bytes, ...]


class CometView:
    """A reader of the state of the CometBFT at ``rpc_url``; any thread may call."""

    def __init__(self, rpc_url: str, timeout: float = LOOK_SECONDS) -> None:
        """Store the address; the first call connects to it."""
        self._url = rpc_url
        self._timeout = timeout

    def standing(self) -> CometStanding | None:
        """Return CometBFT's report about itself, or None if it does not answer."""
        try:
            status = self._ask("status")
            net = self._ask("net_info")
            pool = self._ask("num_unconfirmed_txs")
            sync = status["sync_info"]
            return CometStanding(
                node_id=str(status["node_info"]["id"]),
                height=int(sync["latest_block_height"]),
                time_ns=parse_time(sync["latest_block_time"]),
                catching_up=bool(sync["catching_up"]),
                peers=tuple(sorted(str(peer["node_info"]["moniker"]) for peer in net["peers"])),
                waiting_txs=int(pool["n_txs"]),
                waiting_bytes=int(pool["total_bytes"]),
            )
        except (requests.RequestException, ValueError, LookupError, TypeError):
            return None

    def node_id(self) -> str:
        """Return the p2p identity of the CometBFT at ``rpc_url``; an empty text if it does not answer."""
        try:
            return str(self._ask("status")["node_info"]["id"])
        except (requests.RequestException, ValueError, LookupError, TypeError):
            return ""

    def consensus_key(self) -> bytes:
        """Return the public key with which CometBFT, or its remote signer, signs; empty if it does not answer."""
        try:
            return base64.b64decode(self._ask("status")["validator_info"]["pub_key"]["value"])
        except (requests.RequestException, ValueError, LookupError, TypeError):
            return b""

    def votes(self) -> Votes | None:
        """Return the votes for the next block, or None if CometBFT does not answer or there are none yet."""
        try:
            state = self._ask("consensus_state")["round_state"]
            _, round, step = map(int, state["height/round/step"].split("/"))
            kind = "precommits" if step >= _PRECOMMIT else "prevotes"
            # A round that has just begun has no votes yet; the round before it ended with its precommits.
            if step < _PREVOTE and round:
                round, kind = round - 1, "precommits"
            votes = {each["round"]: each for each in state["height_vote_set"]}
            power, voted = _read_votes(votes[round][f"{kind}_bit_array"])
            absent = [address for address, has in zip(self._voters(len(voted)), voted, strict=True) if has != "x"]
            return Votes(power, tuple(absent))
        except (requests.RequestException, ValueError, LookupError, TypeError, ZeroDivisionError):
            return None

    def precommit(self, height: int, address: bytes) -> tuple[int, bytes] | None:
        """Return the round and the signature of a validator's vote in the commit of a block.

        The result is None if there is no such vote.
        """
        try:
            commit = self._ask(f"commit?height={height}")["signed_header"]["commit"]
            for vote in commit["signatures"]:
                if bytes.fromhex(vote["validator_address"]) == address and vote["signature"]:
                    return int(commit["round"]), base64.b64decode(vote["signature"])
            return None
        except (requests.RequestException, ValueError, LookupError, TypeError):
            return None

    def _voters(self, count: int) -> list[bytes]:
        """Return the consensus addresses of the ``count`` validators that may vote, in the order of the votes."""
        voters: list[bytes] = []
        while len(voters) < count:
            page = len(voters) // _PAGE + 1
            listed = self._ask(f"validators?page={page}&per_page={_PAGE}")["validators"]
            voters += [bytes.fromhex(each["address"]) for each in listed]
            if len(listed) < _PAGE:
                break
        return voters

    def _ask(self, method: str) -> Any:
        with requests.Session() as session:
            session.trust_env = False  # CometBFT is on this machine, so no proxy is used
            return session.get(f"{self._url}/{method}", timeout=self._timeout).json()["result"]


def _read_votes(bits: str) -> tuple[Fraction, str]:
    """Read a text like ``BA{4:xx__} 20/40 = 0.50``.

    Return the fraction of the power that has voted, and the marks of the validators, one character each.
    """
    marks, _, power = bits.partition("} ")
    voted, _, total = power.partition(" =")[0].partition("/")
    return Fraction(int(voted), int(total)), marks.partition(":")[2]


class CometBroadcaster:
    """A sender of transactions to the CometBFT at ``rpc_url``; any thread may call."""

    def __init__(self, rpc_url: str, timeout: float = TIMEOUT_SECONDS) -> None:
        """Store the address; the first call connects to it."""
        self._url = rpc_url
        self._timeout = timeout
        self._threads = local()  # a session must not be shared by threads

    def broadcast_sync(self, raw: bytes) -> BroadcastResult:
        """Send a transaction to CometBFT; return the result of CheckTx, or the reason why CheckTx was not called."""
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
            return _rejected(tx_hash, UNREACHABLE, "CometBFT does not answer: try again in a few seconds")

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._threads, "session", None)
        if session is None:
            session = self._threads.session = requests.Session()
            session.trust_env = False  # CometBFT is on this machine, so no proxy is used
        return session


def _read(tx_hash: bytes, answer: Any) -> BroadcastResult:
    if not isinstance(answer, dict):
        raise TypeError("is not a JSON-RPC answer")
    error = answer.get("error")
    if error:
        text = f"{error['message']}: {error.get('data', '')}"
        for words, code in _WORDS:
            if words in text.lower():
                return _rejected(tx_hash, code, text)
        return _rejected(tx_hash, UNREACHABLE, text)
    result = answer["result"]
    return BroadcastResult(
        hash=tx_hash,
        code=int(result["code"]),
        codespace=str(result.get("codespace", "")),
        log=str(result.get("log", "")),
    )


def _rejected(tx_hash: bytes, code: Code, text: str) -> BroadcastResult:
    return BroadcastResult(hash=tx_hash, code=code.number, codespace=code.space, log=text)
