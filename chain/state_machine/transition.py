"""The story of a block, to be read from top to bottom: begin, each transaction, end.

A Refusal is somebody's mistake: the transaction gets its code, and its changes are dropped. Anything else that is
raised is a bug and stops the block. What happens at the beginning and the end of a block cannot refuse. Nothing here
is stored: the changes stay in the overlay until the caller commits them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from chain.state_machine.ante import apply_ante
from chain.state_machine.context import (
    HEAD,
    NEXT_EVENT,
    NS,
    PARAMS,
    BlockInfo,
    Context,
    Head,
    Sender,
)
from chain.state_machine.due import apply_due, apply_lots
from chain.state_machine.handler import Handler
from chain.state_machine.invariants import check_conservation
from chain.state_machine.ledger import handlers as ledger
from chain.state_machine.ledger.genesis import write_ledger
from chain.state_machine.market import handlers as market
from chain.state_machine.market.auction import apply_auction
from chain.state_machine.market.book import LivingBook
from chain.state_machine.proof import handlers as proof
from chain.state_machine.registry import handlers as registry
from chain.state_machine.registry.genesis import write_registry
from chain.state_machine.registry.members import take_updates
from chain.state_machine.store import Overlay
from domain.block import Block, BlockResult, TxResult, ValidatorUpdate
from domain.bounds import check
from domain.errors import Refusal
from domain.events import Event
from domain.genesis import Genesis
from domain.hashing import hash_fields
from domain.messages import signer_of
from domain.tx import Tx, VerifySignature

HANDLERS: Mapping[type, Handler[Any, Any]] = MappingProxyType(
    {
        handler.message: handler
        for component in (ledger, registry, market, proof)
        for handler in component.HANDLERS
    }
)


def init_chain(overlay: Overlay, genesis: Genesis, time_ns: int) -> tuple[ValidatorUpdate, ...]:
    """Write the first state and return the validators of the first block.

    Raises Refusal for a genesis that does not hold.
    """
    check(genesis)
    PARAMS.put(overlay, genesis.params)
    # Nobody can have chosen this, and the first auction needs a seed.
    seed = hash_fields("assay/genesis", genesis.chain_id)
    HEAD.put(overlay, Head(genesis.chain_id, genesis.denom, 0, time_ns, 0, seed))
    NEXT_EVENT.set(overlay, 1)
    write_ledger(overlay, genesis)
    return write_registry(overlay, genesis)


def apply_block(
    overlay: Overlay, block: Block, verify: VerifySignature, book: LivingBook | None = None
) -> BlockResult:
    """Apply a decided block to ``overlay``. A ``book`` that lives saves reading all bids, and changes nothing else."""
    ctx = begin_block(overlay, block, verify)
    results = [apply_tx(ctx, tx) for tx in block.txs]
    updates = end_block(ctx, book or LivingBook())
    return BlockResult(tuple(results), tuple(ctx.events), updates)


# --- begin ---------------------------------------------------------------------------------------


def begin_block(overlay: Overlay, block: Block, verify: VerifySignature) -> Context:
    """Advance the chain clock, let the lots see the block, and do what is due."""
    ctx = advance_clock(overlay, block, verify)
    apply_lots(ctx, block)
    apply_due(ctx)
    return ctx


def advance_clock(overlay: Overlay, block: Block, verify: VerifySignature) -> Context:
    """Advance the chain clock by the time since the last block, but never by more than its largest step.

    So a chain that stood still fails nobody. A header time behind the last one counts as no time at all.
    """
    head, params = HEAD.must(overlay), PARAMS.must(overlay)
    passed = max(0, block.time_ns - head.time_ns)
    clock_ns = head.clock_ns + min(passed, params.clock_step_max * NS)
    time_ns = max(block.time_ns, head.time_ns)
    # The hash becomes the seed of the next block's auction; this block's auction has the one before.
    HEAD.put(overlay, Head(head.chain_id, head.denom, block.height, time_ns, clock_ns, block.hash))
    info = BlockInfo(
        chain_id=head.chain_id,
        denom=head.denom,
        height=block.height,
        clock=clock_ns // NS,
        params=params,
        previous_hash=head.last_hash,
    )
    return Context(overlay, info, verify, NEXT_EVENT.get(overlay))


# --- each transaction ----------------------------------------------------------------------------


def apply_tx(ctx: Context, tx: Tx | Refusal) -> TxResult:
    """Apply a transaction: the ante first, then all messages or none."""
    if isinstance(tx, Refusal):  # it could not be decoded
        return refused(tx, 0, 0, ())
    block_store, block_events = ctx.store, ctx.events
    ctx.events = []
    try:
        sender = apply_ante(ctx, tx, min_gas_price_millionths=0)
        paid_events = ctx.events
        gas, first_event = sender.gas, ctx.next_event
        ctx.store, ctx.events, ctx.responses = Overlay(block_store), [], []
        try:
            apply_messages(ctx, tx, sender)
        except Refusal as refusal:  # fee and sequence stay charged
            ctx.next_event = first_event
            return refused(refusal, tx.gas_limit, gas, tuple(paid_events))
        ctx.store.merge_into_parent()
        events = (*paid_events, *ctx.events)
        return TxResult(0, "", "", tx.gas_limit, gas, events, tuple(ctx.responses))
    except Refusal as refusal:  # the ante: nothing was written
        return refused(refusal, tx.gas_limit, 0, ())
    finally:
        ctx.store, ctx.events, ctx.message_index = block_store, block_events, -1


def apply_messages(ctx: Context, tx: Tx, sender: Sender) -> None:
    """Apply the messages in order: check without state, check against state, apply."""
    ctx.sender = sender
    for index, message in enumerate(tx.messages):
        ctx.message_index = index
        handler = HANDLERS[type(message)]
        handler.check_stateless(message, tx.is_bounded)
        found = handler.check_state(ctx, message)
        ctx.note("message", ("action", message.URL), ("sender", signer_of(message)))
        handler.apply(ctx, message, found)


def refused(
    refusal: Refusal, gas_wanted: int, gas_used: int, events: tuple[Event, ...]
) -> TxResult:
    """Return the result of a transaction that was refused; ``events`` are those of what it paid."""
    code = refusal.code
    return TxResult(code.number, code.space, str(refusal), gas_wanted, gas_used, events)


# --- end -----------------------------------------------------------------------------------------


def end_block(ctx: Context, book: LivingBook) -> tuple[ValidatorUpdate, ...]:
    """Run the auction, count the coins, and return the changes of consensus power."""
    apply_auction(ctx, book)
    updates = take_updates(ctx)
    ctx.write_event_number()
    check_conservation(ctx.store)
    return updates
