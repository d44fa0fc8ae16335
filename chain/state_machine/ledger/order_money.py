"""Moves into and out of an order's escrow.

Each move changes the records, the ledger and the order's tally. A payment is also added to the order's list of
payments, and emits an event.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from chain.state_machine.context import Context
from chain.state_machine.ledger import balances
from chain.state_machine.ledger.tables import BOND_ROWS, BONDED_SHARES, ESCROWS, PAYMENTS, TALLIES
from chain.state_machine.tables import Part
from domain.keys import PanelKey, ShareKey
from domain.ledger.events import PaymentMade
from domain.ledger.moves import BONDS_POT, CHALLENGE_BOND, JOB_BOND, SHARE_BOND, VALIDATOR
from domain.ledger.records import APPEAL_SLOT, CHALLENGE_SLOT, RESULT_SLOT, BondKind, BondRow, Payment
from domain.moves import Move, Transfer, Uses
from escrow.deposits import use, withhold

NO_ROUND = -1
_BOND_MOVES: Mapping[BondKind, Move] = MappingProxyType(
    {
        BondKind.JOB: JOB_BOND,
        BondKind.SHARE: SHARE_BOND,
        BondKind.CHALLENGE: CHALLENGE_BOND,
        BondKind.APPEAL: CHALLENGE_BOND,
        BondKind.RESULT: CHALLENGE_BOND,
    }
)


def apply_inflow(ctx: Context, order_id: bytes, transfer: Transfer) -> None:
    """Move a deposit or a bond into an order's escrow, and add its amount to the coins that the order's tally counts as
    held.
    """
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
    """Make payments from the order's escrow and return their sum; skip amounts of 0.

    The caller changes the records from which the coins are taken: the rows of depositors, or the bond ``row``.
    """
    tally = TALLIES.must(ctx.store, order_id)
    paid = 0
    number = tally.payments
    for transfer in transfers:
        if transfer.amount == 0:
            continue
        balances.apply_transfer(ctx, transfer)
        target = transfer.move.target
        # The receiver of coins that move into a bond account is the owner of that account.
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
        raise balances.LedgerBroken(f"order {order_id.hex()} would pay {paid}, but its escrow has {tally.held}")
    TALLIES.update(ctx.store, order_id, held=tally.held - paid, payments=number)
    return paid


def pay_from_deposits(ctx: Context, order_id: bytes, transfers: Iterable[Transfer], round: int = NO_ROUND) -> int:
    """Make payments from the deposits, first in, first out, and return their sum.

    Only a move that uses the withheld part (``Uses.WITHHELD``) may take coins from the withheld part.
    """
    moves = list(transfers)
    if not all(transfer.move.from_deposit for transfer in moves):
        raise balances.LedgerBroken("a move that does not use deposits cannot be paid from them")
    from_withheld = sum(transfer.amount for transfer in moves if transfer.move.uses is Uses.WITHHELD)
    escrow = withhold(ESCROWS.must(ctx.store, order_id), -from_withheld)
    used = use(escrow, sum(transfer.amount for transfer in moves))
    # This call withholds 0 more. It only checks that the rest of the deposits covers the withheld part.
    ESCROWS.put(ctx.store, withhold(used, 0))
    return apply_payments(ctx, order_id, moves, round)


def withhold_part(ctx: Context, order_id: bytes, amount: int) -> None:
    """Withhold ``amount`` more of the deposits for the validator until the order settles.

    A negative ``amount`` releases a part of the withheld amount.
    """
    ESCROWS.put(ctx.store, withhold(ESCROWS.must(ctx.store, order_id), amount))


def pay_part(ctx: Context, order_id: bytes, validator: str) -> None:
    """Pay all of the withheld part to the validator, because its order settles."""
    part = get_withheld(ctx, order_id)
    pay_from_deposits(
        ctx,
        order_id,
        (Transfer(move=VALIDATOR, source=order_id.hex(), target=validator, amount=part),),
    )


def get_withheld(ctx: Context, order_id: bytes) -> int:
    """Return the amount (uassay) that an order withholds from the validator of its current leg now."""
    return ESCROWS.must(ctx.store, order_id).withheld - TALLIES.must(ctx.store, order_id).parts_waiting


def lock_bond(ctx: Context, order_id: bytes, row: BondRow) -> None:
    """Move a bond from its owner's bond account into an order's escrow, and store a row for it."""
    if row.amount == 0:
        return
    apply_inflow(
        ctx,
        order_id,
        Transfer(move=_BOND_MOVES[row.kind], source=row.owner, target=order_id.hex(), amount=row.amount),
    )
    _put_bond(ctx, order_id, row)


def merge_bond(ctx: Context, order_id: bytes, row: BondRow, into: BondRow) -> None:
    """Move the amount of a bond's row to the row ``into``, which has the sum of both; no coins move."""
    remove_bond(ctx, order_id, row)
    _put_bond(ctx, order_id, into)


def cut_bond(ctx: Context, order_id: bytes, row: BondRow, transfers: Iterable[Transfer]) -> None:
    """Pay ``transfers`` from a bond; the rest of the bond stays locked in its row."""
    moves = list(transfers)
    rest = row.amount - sum(transfer.amount for transfer in moves)
    if rest < 0:
        raise balances.LedgerBroken(f"a bond of {row.amount} cannot pay {row.amount - rest}")
    remove_bond(ctx, order_id, row)
    if rest:
        _put_bond(ctx, order_id, replace(row, amount=rest))
    pay_from_bond(ctx, order_id, row, moves)


def pay_from_bond(ctx: Context, order_id: bytes, row: BondRow, transfers: Iterable[Transfer]) -> None:
    """Pay ``transfers`` from the coins of a bond; the caller changes or removes the bond's row."""
    moves = list(transfers)
    if any(transfer.move.uses is not Uses.BOND for transfer in moves):
        raise balances.LedgerBroken("a move that does not use bonds cannot be paid from one")
    round = NO_ROUND if row.kind is BondKind.JOB else row.round
    apply_payments(ctx, order_id, moves, round, row)


def remove_bond(ctx: Context, order_id: bytes, row: BondRow) -> None:
    """Remove a bond's row; the caller moves the coins."""
    BOND_ROWS.delete(ctx.store, *_row_key(order_id, row))
    if row.kind is BondKind.SHARE:
        BONDED_SHARES.delete(ctx.store, row.owner, *row.share(order_id))


def _put_bond(ctx: Context, order_id: bytes, row: BondRow) -> None:
    BOND_ROWS.put_at(ctx.store, row, *_row_key(order_id, row))
    if row.kind is BondKind.SHARE:
        BONDED_SHARES.mark(ctx.store, row.owner, *row.share(order_id))


def get_bond(ctx: Context, order_id: bytes, row: BondRow) -> BondRow | None:
    """Return a bond's row as it is now; None if no part of the bond is locked any longer."""
    return BOND_ROWS.get(ctx.store, *_row_key(order_id, row))


def get_job_bond(ctx: Context, order_id: bytes, leg: int) -> BondRow | None:
    """Return the row of a leg's job bond; None if no part of it is locked."""
    return BOND_ROWS.get(ctx.store, order_id, leg, int(BondKind.JOB), 0, 0, 0)


def get_share_bond(ctx: Context, key: ShareKey) -> BondRow | None:
    """Return the row of a share's bond; None if it is not locked."""
    order_id, leg, *share = key
    return BOND_ROWS.get(ctx.store, order_id, leg, int(BondKind.SHARE), *share)


def get_challenge_bond(ctx: Context, key: PanelKey) -> BondRow | None:
    """Return the row of a challenge's bond; None if it is not locked."""
    return BOND_ROWS.get(
        ctx.store, key.order_id, key.leg, int(BondKind.CHALLENGE), key.round, CHALLENGE_SLOT, key.dispute
    )


def get_appeal_bond(ctx: Context, key: PanelKey) -> BondRow | None:
    """Return the row of the bond of an appeal against the ruling of a panel; None if it is not locked."""
    return BOND_ROWS.get(
        ctx.store, key.order_id, key.leg, int(BondKind.APPEAL), key.round, APPEAL_SLOT, key.dispute + 1
    )


def get_result_bond(ctx: Context, key: PanelKey) -> BondRow | None:
    """Return the row of the bond of a consumer that asked a panel about a result; None if it is not locked."""
    return BOND_ROWS.get(ctx.store, key.order_id, key.leg, int(BondKind.RESULT), key.round, RESULT_SLOT, key.dispute)


def _row_key(order_id: bytes, row: BondRow) -> tuple[Part, ...]:
    return order_id, row.leg, int(row.kind), row.round, row.slot, row.issue
