"""The money of a leg that fails: what the consumer lost, what the job bond makes good, what was withheld."""

from collections.abc import Iterable

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import (
    cut_bond,
    get_job_bond,
    get_withheld,
    withhold_part,
)
from chain.state_machine.ledger.tables import BOND_ROWS, TALLIES
from chain.state_machine.legs.fees import compute_round_cost, compute_work_cost
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.orders import return_some
from chain.state_machine.registry.members import cut_stake
from chain.state_machine.registry.tables import VALIDATORS
from domain.ledger.records import BondKind, BondRow
from domain.legs.events import PartReturned
from domain.legs.moves import BURN, COMPENSATION, STAKE_COMPENSATION
from domain.legs.records import Leg
from domain.market.records import Order
from domain.moves import Transfer


def cut_job_bond(ctx: Context, leg: Leg, *moves: Transfer) -> None:
    """Pay ``moves`` out of the job bond of a leg."""
    row = get_job_bond(ctx, leg.order_id, leg.number)
    # Without basis points and a fee there is no bond.
    if row is not None:
        cut_bond(ctx, leg.order_id, row, moves)


def compensate(ctx: Context, order: Order, leg: Leg, cut: int) -> None:
    """Cut the job bond: to the consumer what the leg has cost it, its fee and what it paid; the rest is burnt.

    So a job that nobody can finish earns nothing.
    """
    lost = _get_loss(ctx, order, leg)
    # Right shares that were rejected may have been paid out of it before.
    row = get_job_bond(ctx, leg.order_id, leg.number)
    cut = min(cut, row.amount if row else 0)
    source, paid = order.id.hex(), min(cut, lost)
    _make_good(ctx, order.id, paid)
    cut_job_bond(
        ctx,
        leg,
        Transfer(move=COMPENSATION, source=source, target=order.consumer, amount=paid),
        Transfer(move=BURN, source=source, target="", amount=cut - paid),
    )


def cut_for_consumer(ctx: Context, order: Order, leg: Leg, rows: Iterable[BondRow | None]) -> None:
    """Cut all that is left of bonds: to the consumer what the leg has cost it, the rest is burnt."""
    source, loss = order.id.hex(), _get_loss(ctx, order, leg)
    for row in rows:
        if row is not None:
            paid = min(row.amount, loss)
            loss -= paid
            moves = (
                Transfer(move=COMPENSATION, source=source, target=order.consumer, amount=paid),
                Transfer(move=BURN, source=source, target="", amount=row.amount - paid),
            )
            cut_bond(ctx, order.id, row, moves)
            _make_good(ctx, order.id, paid)


def clear_leg(ctx: Context, order: Order, leg: Leg) -> bool:
    """Return what a leg left behind before the order opens again: what was withheld, and bonds.

    A bounded number of bonds each time. False if some are left: then it has to be called again.
    """
    lose_part(ctx, order, leg)
    bond = get_job_bond(ctx, order.id, leg.number)
    if bond is not None:
        return_bond(ctx, order.id, bond)
    rows = BOND_ROWS.iterate(ctx.store, order.id, leg.number, int(BondKind.SHARE))
    return return_some(ctx, order.id, rows)


def lose_part(ctx: Context, order: Order, leg: Leg) -> None:
    """Give what is withheld back to the deposit, because the leg has failed, whoever was at fault.

    What rejected shares that were right took of it before, the validator makes good from job bond and stake. Else it
    could pay itself out of what it is going to lose: reject what its own people did right, and then stop.
    """
    part, taken = get_withheld(ctx, order.id), TALLIES.must(ctx.store, order.id).righted
    if not part and not taken:
        return
    withhold_part(ctx, order.id, -part)
    TALLIES.update(ctx.store, order.id, righted=0)
    row = get_job_bond(ctx, order.id, leg.number)
    of_bond = min(taken, row.amount if row else 0)
    if row is not None:
        move = Transfer(move=COMPENSATION, source=order.id.hex(), target=order.consumer, amount=of_bond)
        cut_bond(ctx, order.id, row, (move,))
    of_stake = min(taken - of_bond, VALIDATORS.must(ctx.store, leg.validator).stake)
    cut_stake(ctx, leg.validator, of_stake, STAKE_COMPENSATION, order.consumer)
    ctx.emit(
        PartReturned(
            order=order.id,
            leg=leg.number,
            amount=part,
            made_good=of_bond + of_stake,
            from_stake=of_stake,
        )
    )


def _get_loss(ctx: Context, order: Order, leg: Leg) -> int:
    """Return what the consumer has lost and nobody made good: the fee of ordering, and what it paid in the leg."""
    tally = TALLIES.must(ctx.store, order.id)
    verified = LEGS.must(ctx.store, leg.order_id, leg.number).verified
    # What is withheld returns to the deposit, what right shares took of it is made good apart: neither is lost.
    part = get_withheld(ctx, order.id) + tally.righted
    cost = compute_round_cost(order, leg)
    without_panel = tally.unaudited * (cost - compute_work_cost(order, leg))
    paid = verified * cost - without_panel - part
    return tally.fee + max(0, paid - tally.made_good)


def _make_good(ctx: Context, order_id: bytes, amount: int) -> None:
    """Count what the consumer was given for its loss, so that nothing is made good twice."""
    tally = TALLIES.must(ctx.store, order_id)
    of_fee = min(amount, tally.fee)
    made_good = tally.made_good + amount - of_fee
    TALLIES.update(ctx.store, order_id, fee=tally.fee - of_fee, made_good=made_good)
