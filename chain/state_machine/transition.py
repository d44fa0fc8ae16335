"""The processing of a block, from top to bottom: begin, each transaction, end.

A Refusal is a mistake of a transaction's sender: the transaction gets its code, and its changes are dropped. Any other
exception is a bug and stops the block. The steps at the beginning and the end of a block never raise a Refusal. This
module stores nothing: the changes stay in the overlay until the caller commits them.
"""

from dataclasses import dataclass, replace
from hashlib import sha256

from chain.state_machine.context import (
    HEAD,
    NEXT_EVENT,
    NEXT_PARAMS,
    NS,
    PARAMS,
    SCHEDULE,
    BlockInfo,
    Context,
    Head,
    NodeMemory,
    Schedule,
    TxOrigin,
)
from chain.state_machine.due import apply_due
from chain.state_machine.gas import check_gas
from chain.state_machine.gas_price import get_gas_price
from chain.state_machine.genesis import check_genesis
from chain.state_machine.invariants import check_block
from chain.state_machine.lane import Lane
from chain.state_machine.rules import RULEBOOK, Rulebook, Rules
from chain.state_machine.steps import BEGIN, END, PARAMS_CHANGED, POWERS, REVEAL
from chain.state_machine.store import Overlay
from domain.beacon import first_beacon
from domain.block import Block, BlockResult, TxResult, ValidatorUpdate
from domain.bounds import check
from domain.codec import encode
from domain.crypto import Crypto
from domain.errors import Refusal
from domain.events import Event
from domain.genesis import Genesis
from domain.messages import each_message
from domain.node.events import RulesChanged
from domain.node.params import NodeParams
from domain.tx import Tx


def init_chain(
    overlay: Overlay, genesis: Genesis, time_ns: int, rulebook: Rulebook = RULEBOOK
) -> tuple[ValidatorUpdate, ...]:
    """Write the first state and return the validators of the first block; raise Refusal for an invalid genesis."""
    check(genesis)
    rules = rulebook.at_genesis(genesis)
    rules.check_params(genesis.params)
    SCHEDULE.put(overlay, Schedule(genesis.rules))
    PARAMS.set(overlay, genesis.params)
    beacon = first_beacon(genesis.chain_id, sha256(encode(genesis)).digest())
    HEAD.put(
        overlay,
        Head(
            chain_id=genesis.chain_id,
            denom=genesis.denom,
            height=0,
            time_ns=time_ns,
            clock_ns=0,
            last_hash=bytes(32),
            beacon=beacon,
        ),
    )
    NEXT_EVENT.set(overlay, 1)
    parts = [c.genesis(overlay, genesis) for c in rules.components if c.genesis is not None]
    powers = tuple(update for part in parts for update in part)
    check_genesis(powers != (), "validators", "no validator has consensus power: give at least one a larger stake")
    return powers


def apply_block(
    overlay: Overlay,
    block: Block,
    crypto: Crypto,
    memory: NodeMemory | None = None,
    rulebook: Rulebook = RULEBOOK,
) -> BlockResult:
    """Apply a decided block to ``overlay``, by the rules of its height; if they are new, migrate the state first.

    A ``memory`` of earlier blocks saves reads and changes nothing else.
    """
    rules, are_new = rulebook.enter(overlay, block.height)
    lane = Lane(overlay, rules)
    in_lane = [not isinstance(tx, Refusal) and lane.take(tx, lane.find(tx)) for tx in block.txs]
    ctx = advance_clock(overlay, block, crypto, memory or NodeMemory(), rules)
    if are_new:
        ctx.emit(RulesChanged(rules.version))
    results = [result for result in REVEAL(ctx, block) if result is not None]
    begin_block(ctx, rules)
    paid = [pay_tx(ctx, rules, tx, lane, is_in) for tx, is_in in zip(block.txs, in_lane, strict=True)]
    results += [apply_tx(ctx, rules, each) for each in paid]
    updates = end_block(ctx, rules)
    return BlockResult(tuple(results), tuple(ctx.events), updates)


# --- begin ---------------------------------------------------------------------------------------


def advance_clock(overlay: Overlay, block: Block, crypto: Crypto, memory: NodeMemory, rules: Rules) -> Context:
    """Advance the chain clock by the time since the last block, but by at most ``clock_step_max``; return the context.

    So no one misses a deadline because the chain halted. If the header time is before the last header time, the clock
    does not advance.
    """
    head = HEAD.must(overlay)
    params = PARAMS.get(overlay)
    passed = max(0, block.time_ns - head.time_ns)
    clock_ns = head.clock_ns + min(passed, params.of(NodeParams).clock_step_max * NS)
    time_ns = max(block.time_ns, head.time_ns)
    HEAD.put(
        overlay,
        replace(
            head,
            height=block.height,
            time_ns=time_ns,
            clock_ns=clock_ns,
            last_hash=block.hash,
        ),
    )
    info = BlockInfo(
        chain_id=head.chain_id,
        denom=head.denom,
        height=block.height,
        clock=clock_ns // NS,
        params=params,
        previous_hash=head.last_hash,
        previous_beacon=head.beacon,
        time_ns=block.time_ns,
        proposer=block.proposer,
        votes=block.votes,
        misbehaviours=block.misbehaviours,
        gas_price=get_gas_price(overlay),
    )
    return Context(
        store=overlay,
        block=info,
        crypto=crypto,
        rules=rules,
        next_event=NEXT_EVENT.get(overlay),
        memory=memory,
    )


def begin_block(ctx: Context, rules: Rules) -> None:
    """Run the components' first steps, and the due entries."""
    BEGIN(ctx)
    apply_due(ctx, rules)


# --- each transaction ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PaidTx:
    """A transaction whose fee is paid and whose sequence is used, with its sender and the events of the payment."""

    tx: Tx
    origin: TxOrigin
    events: tuple[Event, ...]


def pay_tx(ctx: Context, rules: Rules, tx: Tx | Refusal, lane: Lane, in_lane: bool) -> PaidTx | TxResult:
    """Run the ante of a transaction; return its result if it is refused.

    The gas price depends on whether the transaction is in the lane of the block. All transactions of a block pay before
    any message of the block is applied. Otherwise, a transaction could move the coins with which later transactions
    have to pay, and the later transactions would take room in the block without a payment.
    """
    if isinstance(tx, Refusal):  # the transaction could not be decoded
        return refused(tx, 0, 0, ())
    try:
        for message in each_message(tx.messages):
            rules.get_handler(message)
    except Refusal as refusal:  # the result on nodes without the newer rules, which cannot decode it
        return refused(refusal, 0, 0, ())
    block_events = ctx.events
    ctx.events = []
    try:
        check_stateless(rules, tx)
        origin = rules.ante(ctx, tx, price_millionths=lane.price(in_lane))
        ctx.open_gas += 0 if in_lane else tx.gas_limit
        return PaidTx(tx, origin, tuple(ctx.events))
    except Refusal as refusal:  # refused by a stateless check or the ante: nothing was written
        return refused(refusal, tx.gas_limit, 0, ())
    finally:
        ctx.events = block_events


def apply_tx(ctx: Context, rules: Rules, paid: PaidTx | TxResult) -> TxResult:
    """Apply all messages of a transaction or none of them.

    If the transaction did not pay, return its result unchanged.
    """
    if isinstance(paid, TxResult):
        return paid
    tx = paid.tx
    block_store, block_events = ctx.store, ctx.events
    first_event = ctx.next_event
    ctx.gas_limit, ctx.gas_used = tx.gas_limit, paid.origin.gas
    ctx.store, ctx.events, ctx.responses = Overlay(block_store), [], []
    try:
        apply_messages(ctx, rules, tx, paid.origin)
        ctx.store.merge_into_parent()
        return TxResult(
            code=0,
            codespace="",
            log="",
            gas_wanted=tx.gas_limit,
            gas_used=ctx.gas_used,
            events=(*paid.events, *ctx.events),
            responses=tuple(ctx.responses),
        )
    except Refusal as refusal:  # the fee stays paid and the sequence stays used
        ctx.next_event = first_event
        return refused(refusal, tx.gas_limit, ctx.gas_used, paid.events)
    finally:
        ctx.store, ctx.events, ctx.message_index = block_store, block_events, -1


def check_stateless(rules: Rules, tx: Tx) -> None:
    """Refuse a transaction if a stateless check of a message fails.

    Such a transaction pays no fee, like a transaction that cannot be decoded.
    """
    for message in each_message(tx.messages):
        rules.check_message(message, tx.is_bounded)


def check_proposed(tx: Tx, rules: Rules, params: NodeParams) -> None:
    """Refuse a transaction that must not be in a proposal, whatever the state is.

    CheckTx refuses such a transaction too. So an honest proposer never includes it, and an honest validator never votes
    for a proposal that has it.
    """
    check_gas(tx, params)
    check_stateless(rules, tx)


def apply_messages(ctx: Context, rules: Rules, tx: Tx, sender: TxOrigin) -> None:
    """Apply the messages in order: check each against the state, then apply it."""
    ctx.sender = sender
    for index, message in enumerate(tx.messages):
        ctx.message_index = index
        rules.apply_message(ctx, message)


def refused(refusal: Refusal, gas_wanted: int, gas_used: int, events: tuple[Event, ...]) -> TxResult:
    """Return the result of a refused transaction; ``events`` are the events of its fee."""
    code = refusal.code
    return TxResult(
        code=code.number,
        codespace=code.space,
        log=str(refusal),
        gas_wanted=gas_wanted,
        gas_used=gas_used,
        events=events,
    )


# --- end -----------------------------------------------------------------------------------------


def end_block(ctx: Context, rules: Rules) -> tuple[ValidatorUpdate, ...]:
    """Run the entries that the transactions made due and the components' last steps, and check the invariants.

    Return the changes of consensus power.
    """
    apply_due(ctx, rules)
    END(ctx)
    updates = tuple(update for part in POWERS(ctx) for update in part)
    change_params(ctx)
    ctx.write_event_number()
    check_block(ctx.store, rules)
    return updates


def change_params(ctx: Context) -> None:
    """Store the parameters of the next block, if they are others. This is last, so that no step sees two sets."""
    params = NEXT_PARAMS.find(ctx.store)
    if params is not None:
        NEXT_PARAMS.clear(ctx.store)
        PARAMS.set(ctx.store, params)
        PARAMS_CHANGED(ctx, ctx.block.params, params)
