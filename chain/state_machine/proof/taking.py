"""Shares of a void round that the next leg takes over (docs/decisions/taking-shares-over.md).

If only a provider is at fault, its validator continues with a new leg. The accepted shares of the void round that were
not found wrong become shares of the new leg's first round. So do the rejected shares, which are still to be compared.
Such a share has one record that counts, with the number of the new leg in its key. Its claim, which its provider
signed, still names the old leg. The bond moves with the share. Only the wrong slots are issued again.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_share_bond, merge_bond
from chain.state_machine.ledger.tables import BOND_ROWS
from chain.state_machine.legs.hooks import TakenRound
from chain.state_machine.legs.slots import put_local_root
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.holds import extend_deadline
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.covers import is_in_fund
from chain.state_machine.proof.gas import TAKE_GAS
from chain.state_machine.proof.settlement import advance
from chain.state_machine.proof.shares import add_accepted, change_share, put_share
from chain.state_machine.proof.tables import (
    DELIVERIES,
    LAST_ISSUES,
    PANELS,
    ROUNDS,
    SHARES,
    TAKE_DUE,
    TAKING,
    LastIssue,
)
from chain.state_machine.queue import QueueEntry, schedule
from domain.keys import ShareRef
from domain.ledger.records import BondKind, BondRow
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.events import ShareTaken
from domain.proof.records import Round, Ruling, Share, ShareState
from pol.rules.schedule import round_seconds, served_terms

TAKEN_PER_CALL = 32
"""Most shares that are taken over in one step; the queue takes the rest in later steps."""


def find_taken_round(ctx: Context, leg: Leg) -> TakenRound | None:
    """Return the round of a failed leg whose shares the next leg takes over, if its validator continues.

    This is the first round that is not verified, if a panel found shares of it wrong, and only their providers are at
    fault.
    """
    closed = ROUNDS.get(ctx.store, leg.order_id, leg.number, leg.next_round)
    if closed is None or not closed.void or closed.by_validator:
        return None
    wrong = _get_wrong(ctx, closed)
    return TakenRound(closed.round, wrong) if wrong else None


def _get_wrong(ctx: Context, closed: Round) -> frozenset[ShareRef]:
    """Return the shares of a void round that a panel found wrong."""
    return frozenset(
        ShareRef(place.place.slot, place.place.issue)
        for panel in PANELS.scan(ctx.store, *closed.key)
        if panel.standing is None
        for place in panel.places
        if place.ruling is Ruling.WRONG
    )


def begin_taking(ctx: Context, order: Order, failed: Leg, leg: Leg) -> None:
    """Begin to take over the shares of a failed leg's void round, and give the order back the time that the round took.

    The order then has as much time left as it had when the void round was closed, and the time of one round beside it.
    """
    taken = find_taken_round(ctx, failed)
    if taken is None:
        return
    closed = ROUNDS.must(ctx.store, order.id, failed.number, taken.round)
    seconds = round_seconds(served_terms(order.terms, leg), leg.slot_speed, leg.slots_at_once)
    extend_deadline(ctx, ORDERS.must(ctx.store, order.id), ctx.clock + closed.time_left + seconds)
    TAKING.set(ctx.store, failed.number, order.id, leg.number)
    schedule(ctx, ctx.clock, TAKE_DUE, *closed.key, 0)


def is_awaited(ctx: Context, leg: Leg, slot: int) -> bool:
    """Return whether a slot of the open round may still get a share that the leg takes over."""
    if leg.round != leg.first_round or not TAKING.has(ctx.store, leg.order_id, leg.number):
        return False
    return LAST_ISSUES.get(ctx.store, leg.order_id, leg.number, slot) is None


def on_take(ctx: Context, entry: QueueEntry) -> None:
    """Take over the next shares of a void round: first the accepted ones, then the rejected ones.

    If the new leg has failed meanwhile, return the bonds of the shares that it has not taken over.
    """
    key = entry.round_key
    order = ORDERS.must(ctx.store, key.order_id)
    leg = LEGS.must(ctx.store, order.id, key.leg + 1)
    closed = ROUNDS.must(ctx.store, *key)
    done = entry.number(3)
    if not leg.is_live:
        rows = list(islice(_get_rows(ctx, closed), TAKEN_PER_CALL))
        for row in rows:
            return_bond(ctx, order.id, row)
        _go_on(ctx, order, leg, closed, len(closed.shares), is_over=not rows)
        return
    refs = closed.shares[done : done + TAKEN_PER_CALL]
    if refs:
        _take_accepted(ctx, order, leg, closed, refs)
        _go_on(ctx, order, leg, closed, done + len(refs), is_over=False)
        return
    rejected = list(islice(_get_rejected(ctx, closed), TAKEN_PER_CALL))
    for share in rejected:
        _take(ctx, order, leg, share)
    _go_on(ctx, order, leg, closed, done, is_over=not rejected)


def weigh_take(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of one step: no step takes more than ``TAKEN_PER_CALL`` shares."""
    closed = ROUNDS.must(ctx.store, *entry.round_key)
    left = len(closed.shares) - entry.number(3)
    count = left if left > 0 else sum(1 for _ in islice(_get_rows(ctx, closed), TAKEN_PER_CALL))
    return TAKE_GAS * min(count, TAKEN_PER_CALL)


def _go_on(ctx: Context, order: Order, leg: Leg, closed: Round, done: int, *, is_over: bool) -> None:
    """Schedule the next step; after the last one, the round of the new leg no longer waits."""
    if not is_over:
        schedule(ctx, ctx.clock, TAKE_DUE, *closed.key, done)
        return
    TAKING.delete(ctx.store, order.id, leg.number)
    advance(ctx, order)


def _get_rows(ctx: Context, closed: Round) -> Iterator[BondRow]:
    """Yield the bonds of shares that are still locked under the void round, without those of wrong shares."""
    rows = BOND_ROWS.iterate(ctx.store, closed.order_id, closed.leg, int(BondKind.SHARE), closed.round)
    return (row for row in rows if not is_in_fund(ctx, closed.order_id, row))


def _get_rejected(ctx: Context, closed: Round) -> Iterator[Share]:
    for row in _get_rows(ctx, closed):
        share = SHARES.must(ctx.store, *row.share(closed.order_id))
        if share.state is ShareState.REJECTED:
            yield share


def _take_accepted(ctx: Context, order: Order, leg: Leg, closed: Round, refs: tuple[ShareRef, ...]) -> None:
    """Take over those of some accepted shares that are not wrong. A slot whose share is not taken over is issued again.

    The issue numbers of a slot go on, and a new issue is checked at the segments that were drawn for earlier ones.
    """
    wrong = _get_wrong(ctx, closed)
    taken: list[Share] = []
    for ref in refs:
        share = SHARES.must(ctx.store, *closed.key.share(ref.slot, ref.issue))
        # The bond has returned if the validator could not continue at first.
        is_covered = not share.bond or get_share_bond(ctx, share.key) is not None
        if ref not in wrong and is_covered:
            taken.append(_take(ctx, order, leg, share))
        issue = LastIssue(
            order_id=order.id,
            leg=leg.number,
            slot=ref.slot,
            round=closed.round,
            issue=ref.issue,
            drawn=share.drawn,
        )
        LAST_ISSUES.put(ctx.store, issue)
    for share in taken:
        if share.roots is not None and share.roots.is_whole:
            put_local_root(ctx, leg, share.claim.slot, share.roots.local_out)
    add_accepted(ctx, order, leg, taken)


def _take(ctx: Context, order: Order, leg: Leg, share: Share) -> Share:
    """Give a share with its bond and its delivery the number of a new leg, and return it. The old record only says that
    the share was taken over.
    """
    before = share.key
    change_share(ctx, before, state=ShareState.TAKEN)
    taken = replace(share, taken_by=leg.number)
    put_share(ctx, taken)
    bond = get_share_bond(ctx, before)
    if bond is not None:
        merge_bond(ctx, order.id, bond, replace(bond, leg=leg.number))
    delivery = DELIVERIES.get(ctx.store, *before)
    if delivery is not None:
        DELIVERIES.delete(ctx.store, *before)
        DELIVERIES.put(ctx.store, replace(delivery, leg=leg.number))
    ctx.emit(ShareTaken(taken.key, share.claim.provider, from_leg=before.leg))
    return taken
