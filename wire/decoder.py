"""Decoding with a memory: a transaction is decoded once on its way from the mempool through a proposal into a block."""

from domain.errors import Refusal
from domain.limits import TX_BYTES_MAX
from domain.tx import Tx
from wire.memory import Memory
from wire.tx import decode_tx

SMALL_BYTES = 2048
"""Up to here a transaction is small: a transfer has 350 bytes."""

ROOM_SMALL = 32 * 1024 * 1024
ROOM_LARGE = 8 * 1024 * 1024
ROOM_REFUSED = 2 * 1024 * 1024
_OVERHEAD = 512


class TxDecoder:
    """``decode_tx`` that remembers what it found; any thread may call.

    Small transactions, large ones and what is refused have rooms of their own, in bytes as they came and with an
    overhead for each. So large ones, and bytes that are no transaction, drive out only their like; and whoever sends
    small ones (19,000 transfers for a half of their room) gains no more than that a node decodes once more.
    """

    def __init__(self) -> None:
        """Start without memories."""
        self._small: Memory[bytes, Tx] = Memory(ROOM_SMALL)
        self._large: Memory[bytes, Tx] = Memory(ROOM_LARGE)
        self._refused: Memory[bytes, Refusal] = Memory(ROOM_REFUSED)
        self.decoded = 0

    def __call__(self, raw: bytes) -> Tx | Refusal:
        """Return the transaction in ``raw``, or why it is none."""
        accepted = self._small if len(raw) <= SMALL_BYTES else self._large
        known = accepted.get(raw) or self._refused.get(raw)
        if known is not None:
            return known
        self.decoded += 1
        try:
            tx = decode_tx(raw)
        except Refusal as refusal:
            # It holds nothing but itself: not the frames that it came through, which hold the transactions around it,
            # neither its own nor those of the refusal that it was made of.
            found = refusal.with_traceback(None)
            found.__context__ = None
            if len(raw) <= TX_BYTES_MAX:
                self._refused.put(raw, found, len(raw) + _OVERHEAD)
            return found
        accepted.put(raw, tx, len(raw) + _OVERHEAD)
        return tx
