"""Verification and payment of closed rounds, in their order (protocol sections 5.3 and 7).

A round is verified when the one before it is, its window is over and its audit agrees with the chain. It is paid in
the same moment, and nothing else is ever paid; so nothing that can still be void has been paid.
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_share_bond, pay_from_deposits
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.orders import clear_attempt, end_order, open_order
from chain.state_machine.market.tables import ASSIGNMENTS, ORDERS
from chain.state_machine.proof.rounds import (
    get_auditors,
    get_next_round,
    is_verifiable,
    stop_audits,
)
from chain.state_machine.proof.tables import AUDITS, ROUNDS, SHARES
from chain.state_machine.queue import Due, Entry, schedule
from chain.state_machine.registry.tables import VALIDATORS
from domain.events import RoundVerified
from domain.reasons import CloseReason
from domain.records import Assignment, AssignmentState, Order, OrderState, Round, Share
from escrow.moves import Move, Transfer
from escrow.settle import Earnings, settle_round

SHARES_PER_CALL = 256
"""Shares after which one event verifies no further round; the queue carries the rest to the next block."""


def advance(ctx: Context, order_id: bytes) -> None:
    """Verify and pay every round that is ready, then end the order or the attempt if nothing else is open."""
    order = ORDERS.must(ctx.store, order_id)
    tally = TALLIES.must(ctx.store, order_id)
    if order.state not in (OrderState.RUNNING, OrderState.PROVEN) or tally.ending:
        return
    assignment = ASSIGNMENTS.must(ctx.store, order_id, order.attempt)
    left = SHARES_PER_CALL
    closed = get_next_round(ctx, order)
    while closed is not None and is_verifiable(ctx, closed):
        if left <= 0:
            schedule(ctx, ctx.clock, Due.WINDOW, order_id, order.attempt, closed.round)
            return
        verify_round(ctx, order, assignment, closed)
        left -= len(closed.shares)
        closed = get_next_round(ctx, order)
    _end_if_decided(ctx, order_id, assignment, closed)


def on_window(ctx: Context, entry: Entry) -> None:
    """Go on with an attempt whose round's window is over."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    if order.attempt == entry.number(1):
        advance(ctx, order.id)


def has_ready_round(ctx: Context, order: Order) -> bool:
    """Tell whether a round can be verified now, because one call does not verify any number of them."""
    closed = get_next_round(ctx, order)
    return closed is not None and is_verifiable(ctx, closed)


def verify_round(ctx: Context, order: Order, assignment: Assignment, closed: Round) -> None:
    """Mark a round as verified, pay it, and return the bonds of its shares."""
    ROUNDS.update(ctx.store, *closed.key, verified=True)
    verified = TALLIES.must(ctx.store, order.id).verified
    TALLIES.update(ctx.store, order.id, verified=verified + 1)
    work = ORDERS.must(ctx.store, order.id).work_verified
    ORDERS.update(ctx.store, order.id, work_verified=work + closed.work)
    shares = [SHARES.must(ctx.store, *key) for key in closed.share_keys]
    audit = AUDITS.get(ctx.store, *closed.key)
    earnings = compute_earnings(order, assignment, closed, shares, get_auditors(audit))
    ctx.emit(RoundVerified(closed.key, earnings.total))
    moves = _transfers(order.id, assignment.validator, earnings)
    pay_from_deposits(ctx, order.id, moves, closed.round)
    for share in shares:
        bond = get_share_bond(ctx, share.claim.key)
        if bond is not None:
            return_bond(ctx, order.id, bond)


def compute_earnings(
    order: Order,
    assignment: Assignment,
    closed: Round,
    shares: list[Share],
    auditors: tuple[str, ...],
) -> Earnings:
    """Return who earns what for a round."""
    return settle_round(
        closed.work,
        assignment.price,
        protocol_bps=order.params.protocol_bps,
        audit_bps=order.params.audit_bps,
        providers_bps=assignment.providers_bps,
        shares=[(share.claim.provider, share.work) for share in shares],
        auditors=auditors,
    )


def _transfers(order_id: bytes, validator: str, earnings: Earnings) -> list[Transfer]:
    source = order_id.hex()
    return [
        *(Transfer(Move.PROVIDER, source, name, amount) for name, amount in earnings.providers),
        Transfer(Move.VALIDATOR, source, validator, earnings.validator),
        *(Transfer(Move.AUDITOR, source, name, amount) for name, amount in earnings.auditors),
        Transfer(Move.PROTOCOL, source, "", earnings.protocol),
    ]


def _end_if_decided(
    ctx: Context, order_id: bytes, assignment: Assignment, pending: Round | None
) -> None:
    """End the order when all rounds are verified, or the failed attempt when no round can be any more."""
    order = ORDERS.must(ctx.store, order_id)
    verified = TALLIES.must(ctx.store, order_id).verified
    if order.state is OrderState.PROVEN and verified == order.terms.rounds:
        settled = VALIDATORS.must(ctx.store, assignment.validator).orders_settled
        VALIDATORS.update(ctx.store, assignment.validator, orders_settled=settled + 1)
        end_order(ctx, order, CloseReason.SETTLED)
    elif assignment.state is AssignmentState.FAILED and (pending is None or pending.void):
        stop_audits(ctx, assignment, verified)
        reopen_or_end(ctx, order, assignment, verified)


def reopen_or_end(ctx: Context, order: Order, assignment: Assignment, verified: int) -> None:
    """Open an order again after a failed attempt that verified nothing, or end it.

    A declined or unaccepted match did not start the work, and always opens again while there is time.
    """
    started = order.state is not OrderState.MATCHED
    if order.failures >= order.params.max_attempts and verified == 0:
        end_order(ctx, order, CloseReason.UNSERVED)
    elif started and (verified or not order.rematch):
        end_order(ctx, order, CloseReason.FAILED)
    elif ctx.clock >= order.deadline:
        end_order(ctx, order, CloseReason.FAILED if started else CloseReason.DEADLINE)
    elif clear_attempt(ctx, order, assignment):
        open_order(ctx, order)
    else:
        # The call that is scheduled comes back here.
        schedule(ctx, ctx.clock, Due.WINDOW, order.id, assignment.attempt, assignment.round)
