"""The way into CometBFT on this machine, over JSON-RPC: into its mempool, and to what it says of itself."""

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

TIMEOUT_SECONDS: Final = 5.0  # below that of a client, which is to see our answer

# What CometBFT says, and the code that the Cosmos SDK gives it.
_WORDS: Final = (
    ("tx already exists in cache", TX_IN_CACHE),
    ("mempool is full", MEMPOOL_FULL),
    ("tx too large", TX_TOO_LARGE),
    ("request body too large", TX_TOO_LARGE),
)


LOOK_SECONDS: Final = 2.0
"""How long an answer about itself is waited for."""
_PAGE: Final = 100
_PREVOTE: Final = 4
_PRECOMMIT: Final = 6
"""Steps of a round from which on CometBFT waits for votes of these kinds."""


@dataclass(frozen=True, slots=True)
class CometStanding:
    """What CometBFT says of itself; ``node_id`` is its p2p identity, and times are Unix nanoseconds.

    ``peers`` are the monikers of those that it is connected with, as they call themselves.
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
    """Whose votes are there for the block that is being made: of the round and the kind that are waited for.

    ``power`` is their part of the whole, and ``absent`` are consensus addresses (20 bytes) of the others. Where power
    stays at two thirds or less, there is no block.
    """

    power: Fraction
    absent: tuple[bytes, ...]


class CometView:
    """Reads what the CometBFT at ``rpc_url`` says of itself; any thread may call."""

    def __init__(self, rpc_url: str, timeout: float = LOOK_SECONDS) -> None:
        """Make no call yet."""
        self._url, self._timeout = rpc_url, timeout

    def standing(self) -> CometStanding | None:
        """Return where it stands, None where it does not answer."""
        try:
            status, net = self._ask("status"), self._ask("net_info")
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
        """Return the p2p identity of the node that answers there, nothing where none does."""
        try:
            return str(self._ask("status")["node_info"]["id"])
        except (requests.RequestException, ValueError, LookupError, TypeError):
            return ""

    def votes(self) -> Votes | None:
        """Return whose votes are there, None where it does not answer or there are none yet."""
        try:
            said = self._ask("consensus_state")["round_state"]
            _, round, step = map(int, said["height/round/step"].split("/"))
            kind = "precommits" if step >= _PRECOMMIT else "prevotes"
            # A round that has just begun has no votes yet, and the one before it ended with them.
            if step < _PREVOTE and round:
                round, kind = round - 1, "precommits"
            votes = {each["round"]: each for each in said["height_vote_set"]}
            power, voted = _read_votes(votes[round][f"{kind}_bit_array"])
            absent = [address for address, has in zip(self._voters(len(voted)), voted, strict=True) if has != "x"]
            return Votes(power, tuple(absent))
        except (requests.RequestException, ValueError, LookupError, TypeError, ZeroDivisionError):
            return None

    def precommit(self, height: int, address: bytes) -> tuple[int, bytes] | None:
        """Return round and signature of a validator's vote in the commit of a block; None where there is none."""
        try:
            commit = self._ask(f"commit?height={height}")["signed_header"]["commit"]
            for vote in commit["signatures"]:
                if bytes.fromhex(vote["validator_address"]) == address and vote["signature"]:
                    return int(commit["round"]), base64.b64decode(vote["signature"])
            return None
        except (requests.RequestException, ValueError, LookupError, TypeError):
            return None

    def _voters(self, count: int) -> list[bytes]:
        """Return the consensus addresses of those who vote, in the order of their votes."""
        found: list[bytes] = []
        while len(found) < count:
            page = len(found) // _PAGE + 1
            listed = self._ask(f"validators?page={page}&per_page={_PAGE}")["validators"]
            found += [bytes.fromhex(each["address"]) for each in listed]
            if len(listed) < _PAGE:
                break
        return found

    def _ask(self, method: str) -> Any:
        with requests.Session() as session:
            session.trust_env = False  # it is on this machine: no proxy
            return session.get(f"{self._url}/{method}", timeout=self._timeout).json()["result"]


def _read_votes(bits: str) -> tuple[Fraction, str]:
    """Read ``BA{4:xx__} 20/40 = 0.50``: the part of the power, and a mark for each validator."""
    marks, _, power = bits.partition("} ")
    voted, _, total = power.partition(" =")[0].partition("/")
    return Fraction(int(voted), int(total)), marks.partition(":")[2]


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
        hash=tx_hash,
        code=int(result["code"]),
        codespace=str(result.get("codespace", "")),
        log=str(result.get("log", "")),
    )


def _not_taken(tx_hash: bytes, code: Code, text: str) -> BroadcastResult:
    return BroadcastResult(hash=tx_hash, code=code.number, codespace=code.space, log=text)
