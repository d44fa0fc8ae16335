"""Moves in and out of an order's escrow: records, the ledger, the order's tally, the list of payments, the event."""

from collections.abc import Iterable
from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger import balances
from chain.state_machine.ledger.tables import BOND_ROWS, BONDED_SHARES, ESCROWS, PAYMENTS, TALLIES
from chain.state_machine.tables import Part
from domain.keys import ShareKey
from domain.ledger.events import PaymentMade
from domain.ledger.moves import BONDS_POT, JOB_BOND, SHARE_BOND, VALIDATOR
from domain.ledger.records import BondKind, BondRow, Payment
from domain.moves import Transfer, Uses
from escrow.deposits import use, withhold

NO_ROUND = -1


def apply_inflow(ctx: Context, order_id: bytes, transfer: Transfer) -> None:
    """Move a deposit or a bond into the order's escrow."""
    held = TALLIES.must(ctx.store, order_id).held
    TALLIES.update(ctx.store, order_id, held=held + transfer.amount)
    balances.apply_transfer(ctx, transfer)


def apply_payments(
    ctx: Context,
    order_id: bytes,
    transfers: Iterable[Transfer],
    round: int = NO_ROUND,
    row: BondRow | None = None,
) -> int:
    """Pay out of the order's escrow and return the sum; amounts of 0 are left out.

    The records that the coins come from (rows of depositors, or the bond ``row``) are changed by the caller.
    """
    tally = TALLIES.must(ctx.store, order_id)
    paid, number = 0, tally.payments
    for transfer in transfers:
        if transfer.amount == 0:
            continue
        balances.apply_transfer(ctx, transfer)
        target = transfer.move.target
        # A bond account is its owner's.
        to = transfer.target if target is BONDS_POT else target.address or transfer.target
        payment = Payment(to=to, kind=transfer.move.name, amount=transfer.amount, round=round)
        PAYMENTS.put_at(ctx.store, payment, order_id, number)
        ctx.emit(
            PaymentMade(
                order=order_id,
                to=payment.to,
                kind=payment.kind,
                amount=payment.amount,
                round=payment.round,
                leg=row.leg if row is not None else 0,
                slot=row.slot if row is not None else 0,
                issue=row.issue if row is not None else 0,
            )
        )
        number += 1
        paid += transfer.amount
    if tally.held < paid:
        raise balances.LedgerBroken(f"order {order_id.hex()} paid more than it held")
    TALLIES.update(ctx.store, order_id, held=tally.held - paid, payments=number)
    return paid


def pay_from_deposits(ctx: Context, order_id: bytes, transfers: Iterable[Transfer], round: int = NO_ROUND) -> int:
    """Pay out of what depositors locked, first in, first out, and return the sum.

    What is withheld is left, but by the moves that use it up.
    """
    moves = list(transfers)
    if not all(transfer.move.from_deposit for transfer in moves):
        raise balances.LedgerBroken("only some moves use up a deposit")
    of_part = sum(transfer.amount for transfer in moves if transfer.move.uses is Uses.WITHHELD)
    escrow = withhold(ESCROWS.must(ctx.store, order_id), -of_part)
    used = use(escrow, sum(transfer.amount for transfer in moves))
    ESCROWS.put(ctx.store, withhold(used, 0))
    return apply_payments(ctx, order_id, moves, round)


def withhold_part(ctx: Context, order_id: bytes, amount: int) -> None:
    """Keep the validator's part of a round that was verified, until the order settles; below 0 it is given back."""
    ESCROWS.put(ctx.store, withhold(ESCROWS.must(ctx.store, order_id), amount))


def pay_part(ctx: Context, order_id: bytes, validator: str) -> None:
    """Pay what was withheld to the validator: its order settles."""
    part = get_withheld(ctx, order_id)
    pay_from_deposits(
        ctx,
        order_id,
        (Transfer(move=VALIDATOR, source=order_id.hex(), target=validator, amount=part),),
    )


def get_withheld(ctx: Context, order_id: bytes) -> int:
    """Return what an order withholds from its validator now."""
    return ESCROWS.must(ctx.store, order_id).withheld


def lock_bond(ctx: Context, order_id: bytes, row: BondRow) -> None:
    """Move a bond from its owner's bond account into the order's escrow, as a row of its own."""
    if row.amount == 0:
        return
    move = JOB_BOND if row.kind is BondKind.JOB else SHARE_BOND
    apply_inflow(
        ctx,
        order_id,
        Transfer(move=move, source=row.owner, target=order_id.hex(), amount=row.amount),
    )
    _put_bond(ctx, order_id, row)


def cut_bond(ctx: Context, order_id: bytes, row: BondRow, transfers: Iterable[Transfer]) -> None:
    """Pay ``transfers`` out of a bond; what they leave stays locked in its row."""
    moves = list(transfers)
    left = row.amount - sum(transfer.amount for transfer in moves)
    if left < 0:
        raise balances.LedgerBroken(f"a bond of {row.amount} cannot pay {row.amount - left}")
    remove_bond(ctx, order_id, row)
    if left:
        _put_bond(ctx, order_id, replace(row, amount=left))
    pay_from_bond(ctx, order_id, row, moves)


def pay_from_bond(ctx: Context, order_id: bytes, row: BondRow, transfers: Iterable[Transfer]) -> None:
    """Pay out of a bond, whose row is changed by the caller."""
    moves = list(transfers)
    if any(transfer.move.uses is not Uses.BOND for transfer in moves):
        raise balances.LedgerBroken("only some moves use up a bond")
    round = row.round if row.kind is BondKind.SHARE else NO_ROUND
    apply_payments(ctx, order_id, moves, round, row)


def remove_bond(ctx: Context, order_id: bytes, row: BondRow) -> None:
    """Remove a bond's row; its coins are moved by the caller."""
    BOND_ROWS.delete(ctx.store, *_row_key(order_id, row))
    if row.kind is BondKind.SHARE:
        BONDED_SHARES.delete(ctx.store, row.owner, *row.share(order_id))


def _put_bond(ctx: Context, order_id: bytes, row: BondRow) -> None:
    BOND_ROWS.put_at(ctx.store, row, *_row_key(order_id, row))
    if row.kind is BondKind.SHARE:
        BONDED_SHARES.mark(ctx.store, row.owner, *row.share(order_id))


def get_job_bond(ctx: Context, order_id: bytes, leg: int) -> BondRow | None:
    """Return the row of a leg's job bond, while any of it is locked."""
    return BOND_ROWS.get(ctx.store, order_id, leg, int(BondKind.JOB), 0, 0, 0)


def get_share_bond(ctx: Context, key: ShareKey) -> BondRow | None:
    """Return the row of a share's bond, while it is locked."""
    order_id, leg, *share = key
    return BOND_ROWS.get(ctx.store, order_id, leg, int(BondKind.SHARE), *share)


def _row_key(order_id: bytes, row: BondRow) -> tuple[Part, ...]:
    return order_id, row.leg, int(row.kind), row.round, row.slot, row.issue
