"""What a page asks the node when it is opened: accounts, transactions, and what is in a block. No event tells it."""

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
"""Of an answer with a whole block, whose bytes are texts there: a block has 4 MiB at most."""
BLOCKS_KEPT: Final = 16
ACCOUNTS_KEPT: Final = 64
FIELDS_SHOWN: Final = 24
TEXT_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Sent:
    """A transaction of a block: its hash, its bytes, and what they say, where they are a transaction that is signed."""

    hash: bytes
    size: int
    tx: Tx | None
    is_reveal: bool

    @property
    def signer(self) -> str:
        """Who signed it; empty where it has no signer."""
        return signer_of(self.tx.messages[0]) if self.tx and self.tx.messages else ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its messages."""
        if self.tx is not None:
            return tuple(type(message).__name__.removeprefix("Msg") for message in self.tx.messages)
        return ("beacon",) if self.is_reveal else ()


class ConsoleNode:
    """A node, and its CometBFT where that is known; any thread may ask. An answer is kept as long as it holds."""

    def __init__(self, address: str, rpc: str = "") -> None:
        """Connect to ``host:port`` with the first question."""
        self._client = ChainClient(address, SECONDS)
        self._comet, self._comet_lock, self._lock = Comet(rpc), Lock(), Lock()
        self._blocks: OrderedDict[int, tuple[Sent, ...]] = OrderedDict()
        self._accounts: OrderedDict[tuple[str, int], AccountResponse] = OrderedDict()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._comet.close()

    @property
    def knows_comet(self) -> bool:
        """Whether transactions of blocks can be asked for."""
        return bool(self._comet.url)

    def simulate(self, request: SimulateMatchRequest) -> SimulateMatchResponse:
        """Return what an order would meet now; an Expected where the node does not answer."""
        return self._client.query(request)

    def account(self, address: str, height: int) -> AccountResponse | None:
        """Return the account of an address as it is at the height of now; None where nothing is known of it."""
        with self._lock:
            if (address, height) in self._accounts:
                return self._accounts[address, height]
        try:
            found = self._client.account(address)
        except ChainError:
            return None
        with self._lock:
            _keep(self._accounts, (address, height), found, ACCOUNTS_KEPT)
        return found

    def receipt(self, tx_hash: bytes) -> tuple[TxReceipt, Sent] | None:
        """Return what became of a transaction, None where the node has none with that hash; ConsoleError."""
        try:
            found = self._client.tx_with_bytes(tx_hash)
        except ChainError as error:
            raise ConsoleError(error.reason, "try again in a moment") from None
        return (found[0], read_sent(found[1])) if found else None

    def head(self, height: int) -> BlockHead | None:
        """Return when a block was made, and by whom; None where the node does not tell."""
        try:
            return self._client.block(height)
        except ChainError:
            return None

    def sent_at(self, height: int) -> tuple[Sent, ...] | None:
        """Return the transactions of a block; None where no CometBFT tells them."""
        with self._comet_lock:
            if height in self._blocks:
                return self._blocks[height]
            path = f"block?height={height}"
            data = self._comet.ask(path, "block", "data", most=BLOCK_BYTES)
            try:
                texts = data.get("txs") or ()
                found = tuple(read_sent(b64decode(text, validate=True)) for text in texts)
            except (AttributeError, BadBase64, TypeError, ValueError):
                return None
            _keep(self._blocks, height, found, BLOCKS_KEPT)
            return found


def _keep(kept: OrderedDict[Any, Any], key: object, value: object, most: int) -> None:
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)


def read_sent(raw: bytes) -> Sent:
    """Return what the bytes of a transaction say; those that fail may be anything."""
    is_reveal = decode_reveal(raw) is not None
    tx = None
    if not is_reveal:
        try:
            tx = decode_tx(raw)
        except Refusal:
            tx = None
    return Sent(hash=sha256(raw).digest(), size=len(raw), tx=tx, is_reveal=is_reveal)


def show_message(message: Message) -> dict[str, Any]:
    """Return a message by its fields, each cut: they are what a stranger wrote."""
    found = []
    for field in fields(message)[:FIELDS_SHOWN]:  # type: ignore[arg-type]
        value = getattr(message, field.name)
        text = value[:TEXT_SHOWN].hex() if isinstance(value, bytes) else str(value)
        found.append({"name": field.name, "value": text[:TEXT_SHOWN]})
    return {"kind": type(message).__name__, "fields": found}
