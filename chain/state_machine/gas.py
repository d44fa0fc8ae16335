"""Gas: a fixed price list, so that the gas of a transaction is known before it runs and is the same on every node."""

from domain.messages import Message
from domain.tx import Tx

# Decoding, the signature, account and fee.
TX_GAS = 30_000
BYTE_GAS = 10
MESSAGE_GAS = 20_000
# A share (one more signature), a rejection, an answer, an accepted share; what a message says of itself.
ITEM_GAS = 10_000


def gas_of(tx: Tx) -> int:
    """Return the gas that a transaction uses."""
    return TX_GAS + tx.size * BYTE_GAS + sum(map(message_gas, tx.messages))


def message_gas(message: Message) -> int:
    """Return the gas of one message."""
    items = message.GAS_EXTRA
    for name, weight in message.GAS_ITEMS.items():
        items += weight * len(getattr(message, name))
    return MESSAGE_GAS + items * ITEM_GAS
