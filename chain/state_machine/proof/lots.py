"""Lots: hashes of later blocks are collected for each commitment until they make a seed (protocol section 1.5).

A lot waits for the first two blocks behind its commitment that two different validators proposed who are no party. In
a smaller set it waits for as many such validators as there are; where every validator is a party, for the next block
of anybody. After ``lot_wait`` the blocks that there are must do. The parties are frozen when the lot is opened.
"""

from collections.abc import Iterable
from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import ESCROWS
from chain.state_machine.proof.tables import LOTS, Lot, Subject, lot_key
from chain.state_machine.queue import Due, cancel, schedule
from chain.state_machine.registry.members import is_active
from chain.state_machine.registry.tables import CLUSTERS, VALIDATORS, get_operator
from domain.block import Block
from domain.records import Assignment, Order

PROPOSERS = 2


def get_parties(ctx: Context, order: Order, assignment: Assignment) -> tuple[str, ...]:
    """Return the operators who are a party to an assignment.

    The operator itself, providers of its cluster, the consumer, and whoever deposited.
    """
    parties = {assignment.validator, order.consumer}
    escrow = ESCROWS.must(ctx.store, order.id)
    parties.update(row.address for row in escrow.depositors)
    return tuple(
        validator.operator
        for validator in VALIDATORS.scan(ctx.store)
        if validator.operator in parties
        or CLUSTERS.has(ctx.store, assignment.validator, validator.operator)
    )


def open_lot(ctx: Context, subject: Subject, parties: Iterable[str], lot_wait: int) -> None:
    """Begin to collect hashes for a commitment of this block; a lot that is open already stays."""
    if LOTS.has(ctx.store, *lot_key(subject)):
        return
    frozen = tuple(sorted(set(parties)))
    # Only those with power ever propose a block.
    able = [v for v in VALIDATORS.scan(ctx.store) if v.operator not in frozen and is_active(v)]
    deadline = ctx.clock + lot_wait
    wanted = min(PROPOSERS, len(able))
    LOTS.put(ctx.store, Lot(subject, frozen, ctx.height, deadline, wanted, (), (), ()))
    schedule(ctx, deadline, Due.LOT, *lot_key(subject))


def close_lot(ctx: Context, lot: Lot) -> None:
    """Remove a lot that is drawn or not needed any more."""
    LOTS.delete(ctx.store, *lot_key(lot.subject))
    cancel(ctx, lot.deadline, Due.LOT, *lot_key(lot.subject))


def drop_lot(ctx: Context, subject: Subject) -> None:
    """Remove the lot of a subject, if it is open."""
    lot = LOTS.get(ctx.store, *lot_key(subject))
    if lot is not None:
        close_lot(ctx, lot)


def observe_block(ctx: Context, block: Block) -> list[Lot]:
    """Add the block to every open lot, and return the lots that have all that they waited for."""
    operator = get_operator(ctx.store, block.proposer)
    complete: list[Lot] = []
    for lot in LOTS.scan(ctx.store):
        seen = _with_block(lot, block, operator)
        if seen is not lot:
            LOTS.put(ctx.store, seen)
        if _is_complete(seen):
            complete.append(seen)
    return complete


def get_hashes(lot: Lot) -> tuple[bytes, ...]:
    """Return the hashes that make the lot's seed; empty where no block came after the commitment."""
    return lot.hashes or lot.any_hashes


def _with_block(lot: Lot, block: Block, operator: str) -> Lot:
    if len(lot.any_hashes) < PROPOSERS:
        lot = replace(lot, any_hashes=(*lot.any_hashes, block.hash))
    known = operator != "" and operator not in lot.parties
    if known and block.proposer not in lot.proposers and len(lot.hashes) < PROPOSERS:
        lot = replace(
            lot, proposers=(*lot.proposers, block.proposer), hashes=(*lot.hashes, block.hash)
        )
    return lot


def _is_complete(lot: Lot) -> bool:
    return len(lot.hashes) >= lot.wanted if lot.wanted else len(lot.any_hashes) >= 1
