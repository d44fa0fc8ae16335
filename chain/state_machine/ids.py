"""Ids of what messages create: from the sender's sequence, never from a counter in the order of transactions."""

from chain.state_machine.context import Context
from domain.hashing import hash_fields, u32, u64


def new_id(ctx: Context, kind: str) -> bytes:
    """Return the id of the order or bid that the current message creates."""
    if ctx.sender is None:
        raise LookupError("ids come from transactions")
    return hash_fields(
        f"assay/{kind}",
        ctx.block.chain_id,
        ctx.sender.address,
        u64(ctx.sender.sequence),
        u32(ctx.message_index),
    )
