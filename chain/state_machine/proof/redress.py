"""Payments of a validator for a right share: from the withheld part, then from its job bond, then from its stake."""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import cut_bond, get_job_bond, get_withheld, pay_from_deposits
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.staking.cuts import cut_stake, get_payable
from domain.legs.moves import BURN, COMPENSATION, STAKE_COMPENSATION
from domain.legs.records import Leg
from domain.moves import Transfer
from domain.proof.moves import STAKE_BURN, WITHHELD_BURN, WITHHELD_COMPENSATION
from domain.proof.records import Share
from escrow.settle import take_from


@dataclass(frozen=True, slots=True)
class Redress:
    """The amounts (uassay) that a validator pays for a right share that it rejected, or that became void by its fault.

    ``paid`` goes to the provider, and ``burnt`` is burnt. ``paid_from_stake`` and ``burnt_from_stake`` are the parts of
    these two amounts that come from the validator's stake.
    """

    paid: int = 0
    burnt: int = 0
    paid_from_stake: int = 0
    burnt_from_stake: int = 0


def pay_redress(ctx: Context, leg: Leg, share: Share, owed: tuple[int, int]) -> Redress:
    """Let the validator of a leg pay for a right share, and return the amounts.

    ``owed`` are the amounts (uassay) that the provider gets and that are burnt. The validator pays from the withheld
    part first, then from the job bond, then from its stake. An earlier leg has no withheld part of its own any longer.
    """
    order_id = leg.order_id
    provider = share.claim.provider
    source = order_id.hex()
    is_current = leg.number == ORDERS.must(ctx.store, order_id).legs
    withheld = get_withheld(ctx, order_id) if is_current else 0
    (withheld_paid, withheld_burnt), owed = take_from(withheld, owed)
    moves = (
        Transfer(move=WITHHELD_COMPENSATION, source=source, target=provider, amount=withheld_paid),
        Transfer(move=WITHHELD_BURN, source=source, target="", amount=withheld_burnt),
    )
    pay_from_deposits(ctx, order_id, moves, share.claim.round)
    right_shares_paid = TALLIES.must(ctx.store, order_id).right_shares_paid
    TALLIES.update(ctx.store, order_id, right_shares_paid=right_shares_paid + withheld_paid + withheld_burnt)
    row = get_job_bond(ctx, order_id, leg.number)
    (bond_paid, bond_burnt), owed = take_from(row.amount if row else 0, owed)
    if row is not None:
        moves = (
            Transfer(move=COMPENSATION, source=source, target=provider, amount=bond_paid),
            Transfer(move=BURN, source=source, target="", amount=bond_burnt),
        )
        cut_bond(ctx, order_id, row, moves)
    since = leg.matched_at
    (stake_paid, stake_burnt), _ = take_from(get_payable(ctx.store, leg.validator, sum(owed), since), owed)
    cut_stake(ctx, leg.validator, stake_paid, since, STAKE_COMPENSATION, provider)
    cut_stake(ctx, leg.validator, stake_burnt, since, STAKE_BURN)
    return Redress(
        paid=withheld_paid + bond_paid + stake_paid,
        burnt=withheld_burnt + bond_burnt + stake_burnt,
        paid_from_stake=stake_paid,
        burnt_from_stake=stake_burnt,
    )
