"""Queries to the node when a page is opened, for data that no event has: accounts, transactions, contents of blocks."""

from base64 import b64decode
from binascii import Error as BadBase64
from collections import OrderedDict
from dataclasses import dataclass, fields
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from chain.client.client import BlockHead, ChainClient, TxReceipt
from chain.client.errors import ChainError
from console.comet import Comet
from console.errors import ConsoleError
from domain.errors import Refusal
from domain.ledger.queries import AccountResponse
from domain.market.queries import SimulateMatchRequest, SimulateMatchResponse
from domain.messages import Message, signer_of
from domain.tx import Tx
from wire.reveal import decode_reveal
from wire.tx import decode_tx

SECONDS: Final = 5.0
BLOCK_BYTES: Final = 12 * 2**20
"""Maximum size of an answer with a whole block: a block has at most 4 MiB, and the answer has its bytes in base64."""
BLOCKS_KEPT: Final = 16
ACCOUNTS_KEPT: Final = 64
FIELDS_SHOWN: Final = 24
TEXT_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Sent:
    """A transaction of a block: its hash, its size in bytes, and its decoded form if it is a signed transaction."""

    hash: bytes
    size: int
    tx: Tx | None
    is_reveal: bool

    @property
    def signer(self) -> str:
        """The address that signed the transaction; empty if it has no signer."""
        return signer_of(self.tx.messages[0]) if self.tx and self.tx.messages else ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the transaction's messages; only ``beacon`` if it is a reveal of the beacon."""
        if self.tx is not None:
            return tuple(type(message).__name__.removeprefix("Msg") for message in self.tx.messages)
        return ("beacon",) if self.is_reveal else ()


class ConsoleNode:
    """A thread-safe client of a node, and of its CometBFT if that is known. Answers are cached while they are valid."""

    def __init__(self, address: str, rpc: str = "") -> None:
        """Create a client of the node at ``host:port``, which connects with its first query."""
        self._client = ChainClient(address, SECONDS)
        self._comet = Comet(rpc)
        self._comet_lock = Lock()
        self._lock = Lock()
        self._blocks: OrderedDict[int, tuple[Sent, ...]] = OrderedDict()
        self._accounts: OrderedDict[tuple[str, int], AccountResponse] = OrderedDict()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._comet.close()

    @property
    def knows_comet(self) -> bool:
        """True if CometBFT's address is known, so that the transactions of a block can be queried."""
        return bool(self._comet.url)

    def simulate(self, request: SimulateMatchRequest) -> SimulateMatchResponse:
        """Return the bids that would fit an order submitted now; raise Expected if the node does not answer."""
        return self._client.query(request)

    def account(self, address: str, height: int) -> AccountResponse | None:
        """Return the account of an address at ``height``, the newest block; None if the node does not answer."""
        with self._lock:
            if (address, height) in self._accounts:
                return self._accounts[address, height]
        try:
            account = self._client.account(address)
        except ChainError:
            return None
        with self._lock:
            _keep(self._accounts, (address, height), account, ACCOUNTS_KEPT)
        return account

    def receipt(self, tx_hash: bytes) -> tuple[TxReceipt, Sent] | None:
        """Return the result and the content of the transaction with a hash; None if the node has no such transaction.

        Raise ConsoleError if the node does not answer.
        """
        try:
            answer = self._client.tx_with_bytes(tx_hash)
        except ChainError as error:
            raise ConsoleError(error.reason, "try again in a moment") from None
        return (answer[0], read_sent(answer[1])) if answer else None

    def head(self, height: int) -> BlockHead | None:
        """Return the time and the proposer of a block; None if the node does not answer."""
        try:
            return self._client.block(height)
        except ChainError:
            return None

    def sent_at(self, height: int) -> tuple[Sent, ...] | None:
        """Return the transactions of a block; None if CometBFT is not known or does not answer."""
        with self._comet_lock:
            if height in self._blocks:
                return self._blocks[height]
            path = f"block?height={height}"
            data = self._comet.ask(path, "block", "data", most=BLOCK_BYTES)
            try:
                texts = data.get("txs") or ()
                transactions = tuple(read_sent(b64decode(text, validate=True)) for text in texts)
            except (AttributeError, BadBase64, TypeError, ValueError):
                return None
            _keep(self._blocks, height, transactions, BLOCKS_KEPT)
            return transactions


def _keep(cache: OrderedDict[Any, Any], key: object, value: object, most: int) -> None:
    cache[key] = value
    while len(cache) > most:
        cache.popitem(last=False)


def read_sent(raw: bytes) -> Sent:
    """Decode the bytes of a transaction. If they are no valid transaction, ``tx`` of the result is None."""
    is_reveal = decode_reveal(raw) is not None
    tx = None
    if not is_reveal:
        try:
            tx = decode_tx(raw)
        except Refusal:
            tx = None
    return Sent(hash=sha256(raw).digest(), size=len(raw), tx=tx, is_reveal=is_reveal)


def show_message(message: Message) -> dict[str, Any]:
    """Return the kind and the fields of a message. Values are shortened, because its author is not trusted."""
    rows = []
    for field in fields(message)[:FIELDS_SHOWN]:  # type: ignore[arg-type]
        value = getattr(message, field.name)
        text = value[:TEXT_SHOWN].hex() if isinstance(value, bytes) else str(value)
        rows.append({"name": field.name, "value": text[:TEXT_SHOWN]})
    return {"kind": type(message).__name__, "fields": rows}
