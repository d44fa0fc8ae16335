"""Gas: the work of a transaction, in units of about 5 ns of one core.

Most of the gas depends on the transaction alone (:func:`gas_of`): its bytes, messages, and the items that a message
declares. If a message needs more gas because of the state, its handler computes the additional gas (``weight``). This
gas is taken before the message is applied. A message pays no gas for the later work that it causes: such work goes into
the queue, which has its own budget (:mod:`chain.state_machine.due`). So the sum of the declared gas limits bounds the
work of a block.
"""

from chain.state_machine.context import Context
from domain.crypto import WEIGHTS
from domain.errors import BAD_FIELD, OUT_OF_GAS, Refusal
from domain.messages import Message, inner_of
from domain.node.params import NodeParams, tx_gas_max
from domain.tx import Tx

# The weights. Those of a component are in its own gas.py. docs/reference/gas.md shows each with its comment.

# A transaction: decoding, the signature, the account and the fee.
TX_GAS = 30_000
# A byte of a transaction, and a character of its text if it is signed as amino JSON.
BYTE_GAS = 10
# A signer after the first: its signature and its account.
SIGNER_GAS = 20_000
# A granter of the fee: its fee grant and its account.
GRANTER_GAS = 20_000
# A message.
MESSAGE_GAS = 20_000
# An item of a message that needs additional gas, such as one more signature. The table of messages below shows the
# items.
ITEM_GAS = WEIGHTS["signature"]
# An entry of the queue. It covers a few records and events, and the tree's nodes of their keys.
DUE_GAS = 30_000
DUTIES_PERCENT = 40
"""Percent of ``block_gas`` that is reserved for duties: half of it for seats, half for legs."""
OPEN_PERCENT = 100 - DUTIES_PERCENT
LANE_PERCENT = (35, 20, 10)
"""Percent of ``due_gas`` for each lane of the queue. The rest of ``due_gas`` is for the steps of components
(``Component.due_percent``).
"""


def gas_of(tx: Tx) -> int:
    """Return the gas that a transaction needs at least, whatever the state is."""
    gas = TX_GAS + (tx.size + len(tx.amino)) * BYTE_GAS + sum(map(message_gas, tx.messages))
    if tx.fee_granter:
        gas += GRANTER_GAS
    signers = tx.signers
    if len(signers) > 1:
        gas += SIGNER_GAS * (len(signers) - 1)
    for signer in signers:
        if signer.parts:
            gas += ITEM_GAS * (len(signer.parts) - 1)
    return gas


def message_gas(message: Message) -> int:
    """Return the gas that a message needs at least, whatever the state is."""
    items = message.GAS_EXTRA
    for name, weight in message.GAS_ITEMS.items():
        items += weight * len(getattr(message, name))
    return MESSAGE_GAS + items * ITEM_GAS + sum(map(message_gas, inner_of(message)))


def check_gas(tx: Tx, params: NodeParams) -> int:
    """Return the gas that a transaction needs at least.

    Refuse the transaction if its gas limit is lower than this gas, or above a tenth of a block's gas.
    """
    most = tx_gas_max(params)
    if not 0 <= tx.gas_limit <= most:
        raise Refusal(BAD_FIELD, "fee.gas_limit", f"{tx.gas_limit} is too much", f"set it to at most {most}")
    gas = gas_of(tx)
    if gas > tx.gas_limit:
        raise out_of_gas("ante", tx.gas_limit, gas)
    return gas


def use_gas(ctx: Context, gas: int, where: str) -> None:
    """Add gas that depends on the state to the transaction's gas.

    Refuse the transaction if its gas then exceeds its gas limit; the fee stays paid.
    """
    ctx.gas_used += gas
    if ctx.gas_used > ctx.gas_limit:
        raise out_of_gas(where, ctx.gas_limit, ctx.gas_used)


def take_due_gas(ctx: Context, part: str, percent: int, weight: int) -> bool:
    """Take the gas ``weight`` from the share of ``part`` in the block's ``due_gas``; return whether there was enough.

    The first call in a block always succeeds, so that no work waits forever.
    """
    used = ctx.due_gas.get(part, 0)
    if used and used + weight > ctx.block.params.of(NodeParams).due_gas * percent // 100:
        return False
    ctx.due_gas[part] = used + weight
    return True


def out_of_gas(where: str, wanted: int, used: int) -> Refusal:
    """Return the refusal of a transaction whose gas limit is too low, in the words that Cosmos clients expect."""
    reason = f"out of gas in location: {where}; gasWanted: {wanted}, gasUsed: {used}: out of gas"
    return Refusal(OUT_OF_GAS, "fee.gas_limit", reason, f"set it to at least {used}")
