"""How the node's own records (outside the Merkle tree) are written: block heads, transactions, events.

Transactions and events are written by hand, not by :mod:`domain.codec`: a block of thousands of them is encoded
between two blocks, and this takes a fifth of the time.
"""

import json
from dataclasses import dataclass

from chain.app.interfaces import CommittedBlock, StoredTx
from domain.block import TxResult
from domain.events import Event
from domain.queries import LoggedEvent


@dataclass(frozen=True, slots=True)
class ChainHead:
    """Where a store stands; all of it is written in the same batch as the state it describes."""

    chain_id: str
    block: CommittedBlock
    next_event: int


NO_HEAD = ChainHead("", CommittedBlock(0, 0, b"", b"", b""), 1)
"""Of a store that has no block yet."""


def encode_tx(tx: StoredTx) -> bytes:
    """Write a transaction with its result; its time is that of its block and its hash is its key."""
    result = tx.result
    record = (
        tx.height,
        tx.index,
        tx.raw.hex(),
        result.code,
        result.codespace,
        result.log,
        result.gas_wanted,
        result.gas_used,
        [(event.type, event.attributes, event.number) for event in result.events],
        [(name, value.hex()) for name, value in result.responses],
    )
    return json.dumps(record, separators=(",", ":")).encode()


def decode_tx_height(data: bytes) -> int:
    """Return the height of an encoded transaction."""
    height: int = json.loads(data)[0]
    return height


def decode_tx(tx_hash: bytes, data: bytes, time_ns: int) -> StoredTx:
    """Read what :func:`encode_tx` wrote; hash and time come from the transaction's key and block."""
    height, index, raw, code, space, log, wanted, used, events, responses = json.loads(data)
    result = TxResult(
        code,
        space,
        log,
        wanted,
        used,
        tuple(
            Event(kind, tuple((name, value) for name, value in attributes), number)
            for kind, attributes, number in events
        ),
        tuple((name, bytes.fromhex(value)) for name, value in responses),
    )
    return StoredTx(tx_hash, height, index, time_ns, bytes.fromhex(raw), result)


def encode_event(event: Event, height: int) -> bytes:
    """Write a numbered event; its number is its key."""
    return json.dumps((height, event.type, event.attributes), separators=(",", ":")).encode()


def decode_event(number: int, data: bytes) -> LoggedEvent:
    """Read what :func:`encode_event` wrote."""
    height, kind, attributes = json.loads(data)
    return LoggedEvent(number, height, kind, tuple((name, value) for name, value in attributes))
