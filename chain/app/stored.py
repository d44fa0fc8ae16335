"""How the node's own records (outside the Merkle tree) are written: block heads, transactions, events, undo.

Transactions and events are written by hand, not by :mod:`domain.codec`: a block of thousands of them is encoded
between two blocks, and this takes a fifth of the time.
"""

import json
from collections.abc import Iterable, Iterator
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


def encode_undo(entries: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """Write what database keys held before a commit (None: nothing)."""
    parts: list[bytes] = []
    for key, value in entries:
        parts += (len(key).to_bytes(4, "big"), key)
        parts += (b"\x00",) if value is None else (b"\x01", len(value).to_bytes(4, "big"), value)
    return b"".join(parts)


def decode_undo(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Read what :func:`encode_undo` wrote."""
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        piece = data[at : at + size]
        if len(piece) != size:
            raise ValueError("the undo record is cut off")
        at += size
        return piece

    while at < len(data):
        key = take(int.from_bytes(take(4), "big"))
        there = take(1) == b"\x01"
        yield key, take(int.from_bytes(take(4), "big")) if there else None
