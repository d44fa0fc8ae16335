"""Gas: what a transaction weighs, in units of about 5 ns of one core.

Most of it shows in the transaction alone (:func:`gas_of`): bytes, messages, and the items that a message says of
itself. What a message does beyond that to what it finds in the state is said beside its handler (``weight``) and taken
before its effects. What follows from it later is no matter of its gas: it goes into the queue, which has a budget of
its own (:mod:`chain.state_machine.due`). So a block is bounded by adding up what transactions declare, running none.
"""

from chain.state_machine.context import Context
from domain.crypto import WEIGHTS
from domain.errors import BAD_FIELD, OUT_OF_GAS, Refusal
from domain.limits import GAS_MAX
from domain.messages import Message
from domain.node.params import NodeParams
from domain.tx import Tx

# The weights; those of components are in their own gas.py. docs/reference/gas.md shows each with its comment.

# A transaction: decoding, the signature, the account and the fee.
TX_GAS = 30_000
# A byte of a transaction.
BYTE_GAS = 10
# A message.
MESSAGE_GAS = 20_000
# An item that a message declares, such as one more signature; see the messages below.
ITEM_GAS = WEIGHTS["signature"]
# An entry of the queue: a few records, events and their keys in the tree.
DUE_GAS = 30_000
LANE_PERCENT = (35, 20, 10)
"""What each lane of the queue has of ``due_gas``; steps of components have the rest (``Component.due_percent``)."""


def gas_of(tx: Tx) -> int:
    """Return the gas that a transaction needs whatever it finds."""
    return TX_GAS + tx.size * BYTE_GAS + sum(map(message_gas, tx.messages))


def message_gas(message: Message) -> int:
    """Return the gas of one message, whatever it finds."""
    items = message.GAS_EXTRA
    for name, weight in message.GAS_ITEMS.items():
        items += weight * len(getattr(message, name))
    return MESSAGE_GAS + items * ITEM_GAS


def check_gas(tx: Tx) -> int:
    """Check that a transaction declares what it needs at least, and no more than one may have; return what it needs."""
    if not 0 <= tx.gas_limit <= GAS_MAX:
        raise Refusal(BAD_FIELD, "fee.gas_limit", f"{tx.gas_limit} is too much", f"at most {GAS_MAX}")
    gas = gas_of(tx)
    if gas > tx.gas_limit:
        raise out_of_gas("ante", tx.gas_limit, gas)
    return gas


def use_gas(ctx: Context, gas: int, where: str) -> None:
    """Count gas that the state asks for; the transaction fails, and pays, where it declared less."""
    ctx.gas_used += gas
    if ctx.gas_used > ctx.gas_limit:
        raise out_of_gas(where, ctx.gas_limit, ctx.gas_used)


def take_due_gas(ctx: Context, part: str, percent: int, weight: int) -> bool:
    """Take gas from a part's share of the block's ``due_gas``, and return whether there was enough.

    The first taking of a block always has enough, so that nothing waits for ever.
    """
    used = ctx.due_gas.get(part, 0)
    if used and used + weight > ctx.block.params.of(NodeParams).due_gas * percent // 100:
        return False
    ctx.due_gas[part] = used + weight
    return True


def out_of_gas(where: str, wanted: int, used: int) -> Refusal:
    """Return the refusal of a transaction that declared too little, in the words that Cosmos clients know."""
    reason = f"out of gas in location: {where}; gasWanted: {wanted}, gasUsed: {used}: out of gas"
    return Refusal(OUT_OF_GAS, "fee.gas_limit", reason, f"set it to at least {used}")
