"""The money of a failed leg: the consumer's loss, its compensation from bonds and stake, and the withheld part."""

from collections.abc import Iterable
from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import (
    cut_bond,
    get_job_bond,
    get_withheld,
    withhold_part,
)
from chain.state_machine.ledger.tables import BOND_ROWS, TALLIES
from chain.state_machine.legs.hooks import AT_STAKE, COVERED, TAKEN_ROUND
from chain.state_machine.legs.parts import await_part
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.orders import return_some
from chain.state_machine.staking.cuts import cut_stake, get_payable
from domain.ledger.records import BondKind, BondRow
from domain.legs.events import PartReturned
from domain.legs.moves import BURN, COMPENSATION, STAKE_COMPENSATION
from domain.legs.records import Leg
from domain.market.records import Order
from domain.moves import Transfer


def cut_job_bond(ctx: Context, leg: Leg, *moves: Transfer) -> None:
    """Pay ``moves`` from the job bond of a leg; do nothing if the leg has no job bond.

    The bond may have paid the seats of a panel about states, so it can be smaller than the moves. It then pays as much
    of them as it has, in their order.
    """
    row = get_job_bond(ctx, leg.order_id, leg.number)
    # A leg has no job bond if the order's parameters set neither a job bond nor a payload fee.
    if row is None:
        return
    left = row.amount
    paid = []
    for move in moves:
        part = min(move.amount, left)
        left -= part
        paid.append(replace(move, amount=part))
    cut_bond(ctx, leg.order_id, row, paid)


def compensate(ctx: Context, order: Order, leg: Leg, cut: int) -> None:
    """Cut ``cut`` from the job bond: pay the consumer's loss (its fee and payments for the leg), and burn the rest.

    The rest is burnt so that no party earns from a job that cannot be finished.
    """
    lost = _get_loss(ctx, order)
    # The bond may have paid for rejected shares that were right, so it can be smaller than the cut.
    row = get_job_bond(ctx, leg.order_id, leg.number)
    cut = min(cut, row.amount if row else 0)
    source = order.id.hex()
    paid = min(cut, lost)
    _make_good(ctx, order.id, paid)
    cut_job_bond(
        ctx,
        leg,
        Transfer(move=COMPENSATION, source=source, target=order.consumer, amount=paid),
        Transfer(move=BURN, source=source, target="", amount=cut - paid),
    )


def cut_for_consumer(ctx: Context, order: Order, leg: Leg, rows: Iterable[BondRow | None], reward: Transfer) -> int:
    """Cut all of these bonds: pay the consumer's loss from the leg out of them, then a reward, and burn what remains.

    Return the part of the reward (uassay) that the bonds could pay. What right shares of void rounds may need of the
    job bond stays locked.
    """
    source = order.id.hex()
    loss = _get_loss(ctx, order)
    rewarded = 0
    for row in rows:
        if row is not None:
            kept = sum(COVERED(ctx, leg, False)) if row.kind is BondKind.JOB else 0
            free = max(0, row.amount - kept)
            paid = min(free, loss)
            loss -= paid
            part = min(free - paid, reward.amount - rewarded)
            rewarded += part
            moves = (
                Transfer(move=COMPENSATION, source=source, target=order.consumer, amount=paid),
                replace(reward, amount=part),
                Transfer(move=BURN, source=source, target="", amount=free - paid - part),
            )
            cut_bond(ctx, order.id, row, moves)
            _make_good(ctx, order.id, paid)
    return rewarded


def reserve_loss(ctx: Context, order: Order, most: int) -> int:
    """Return the part of the consumer's loss, at most ``most`` (uassay), that bonds may make good later.

    It counts as compensated from now on, so that no loss is compensated twice.
    """
    loss = min(most, _get_loss(ctx, order))
    _make_good(ctx, order.id, loss)
    return loss


def clear_leg(ctx: Context, order: Order, leg: Leg, *, continues: bool) -> bool:
    """Return the withheld part and the bonds of a leg before the order opens again.

    Bonds of shares that can still be lost stay locked. If the validator continues, so do those of shares that its next
    leg takes over. Each call returns a limited number of bonds. The result is False if some bonds are left; the caller
    then calls this function again later.
    """
    keep_part(ctx, order, leg)
    rows = BOND_ROWS.iterate(ctx.store, order.id, leg.number, int(BondKind.SHARE))
    taken = [found for found in TAKEN_ROUND(ctx, leg) if found is not None] if continues else []
    left = (row for row in rows if not any(found.has(row) for found in taken))
    if not return_some(ctx, order.id, (row for row in left if not any(AT_STAKE(ctx, order.id, row)))):
        return False
    # The job bond comes last: what of it stays locked depends on whether the validator continues now.
    bond = get_job_bond(ctx, order.id, leg.number)
    if bond is not None:
        return_bond(ctx, order.id, bond, sum(COVERED(ctx, leg, continues)))
    return True


def keep_part(ctx: Context, order: Order, leg: Leg) -> None:
    """Let the withheld part of a failed leg wait, because the rounds that it is for are verified.

    If the part was already returned, because the validator handed over wrong states, nothing is left to wait.
    """
    part = get_withheld(ctx, order.id)
    _replace_right_shares(ctx, order, leg, returned=0)
    if part:
        await_part(ctx, order, leg, part)


def lose_part(ctx: Context, order: Order, leg: Leg) -> None:
    """Return the withheld part of a leg that handed over wrong states to the deposit."""
    _replace_right_shares(ctx, order, leg, returned=get_withheld(ctx, order.id))


def _replace_right_shares(ctx: Context, order: Order, leg: Leg, returned: int) -> None:
    """Let the validator of a failed leg replace the amount that its withheld part has paid for right shares. Return
    ``returned`` of the part to the deposit.

    The withheld part may have paid for right shares that the validator had rejected. The validator replaces that amount
    from its job bond and stake. Otherwise it could reject right shares of its own providers and then stop. These
    providers would then be paid from the withheld part, which the validator may lose anyway.
    """
    owed = TALLIES.must(ctx.store, order.id).right_shares_paid
    if not returned and not owed:
        return
    withhold_part(ctx, order.id, -returned)
    TALLIES.update(ctx.store, order.id, right_shares_paid=0)
    row = get_job_bond(ctx, order.id, leg.number)
    from_bond = min(owed, row.amount if row else 0)
    if row is not None:
        move = Transfer(move=COMPENSATION, source=order.id.hex(), target=order.consumer, amount=from_bond)
        cut_bond(ctx, order.id, row, (move,))
    since = leg.matched_at
    from_stake = get_payable(ctx.store, leg.validator, owed - from_bond, since)
    cut_stake(ctx, leg.validator, from_stake, since, STAKE_COMPENSATION, order.consumer)
    ctx.emit(
        PartReturned(
            order=order.id,
            leg=leg.number,
            amount=returned,
            compensated=from_bond + from_stake,
            from_stake=from_stake,
        )
    )


def _get_loss(ctx: Context, order: Order) -> int:
    """Return the part of the consumer's loss that is not compensated yet (uassay).

    The loss is the fee of ordering and the payments for the rounds of the leg.
    """
    tally = TALLIES.must(ctx.store, order.id)
    # These two amounts are not a loss: the withheld part returns to the deposit, and the validator replaces what it
    # paid for right shares.
    part = get_withheld(ctx, order.id) + tally.right_shares_paid
    return tally.fee + max(0, tally.paid - part - tally.compensated)


def _make_good(ctx: Context, order_id: bytes, amount: int) -> None:
    """Record that the consumer got ``amount`` as compensation, so that no loss is compensated twice."""
    tally = TALLIES.must(ctx.store, order_id)
    of_fee = min(amount, tally.fee)
    compensated = tally.compensated + amount - of_fee
    TALLIES.update(ctx.store, order_id, fee=tally.fee - of_fee, compensated=compensated)
