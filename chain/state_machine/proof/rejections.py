"""Comparison of rejected shares with the accepted ones, before their round is verified (protocol section 4.5).

A rejection needs no evidence, so it proves nothing. The bond of a rejected share stays locked until a panel has
recomputed the round. Then the bond returns to the provider. No panel has recomputed the rejected share itself, so a
difference from the accepted share proves nothing either. The chain also computes the commitment to the accepted roots
under the rejected provider's name. If this commitment and the provider's own commitment are to the same share, by the
rules of the leg's tier, the rejected share was right. If the validator rejected it as a mismatch, the validator pays,
because an honest validator never makes this mistake. If the validator rejected it because the provider was silent, no
one can know which of them was silent, and no one pays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import (
    cut_bond,
    get_job_bond,
    get_withheld,
    pay_from_deposits,
)
from chain.state_machine.ledger.tables import BOND_ROWS, TALLIES
from chain.state_machine.market.book import return_bond
from chain.state_machine.proof.shares import change_share, count_share, make_commitment
from chain.state_machine.proof.tables import SHARES
from chain.state_machine.registry.members import cut_stake
from chain.state_machine.registry.tables import VALIDATORS
from domain.ledger.records import BondKind, BondRow
from domain.legs.moves import BURN, COMPENSATION, STAKE_COMPENSATION
from domain.legs.records import Leg
from domain.market.records import Order
from domain.moves import Transfer
from domain.proof.events import ShareCompared
from domain.proof.moves import STAKE_BURN, WITHHELD_BURN, WITHHELD_COMPENSATION
from domain.proof.reasons import SILENCES, ShareReason
from domain.proof.records import Round, Share, ShareState
from escrow.settle import compute_redress, take_from
from pol.rules.tiers.table import tier_of

REJECTED_PER_CALL = 64
"""Most rejected shares compared in one step; the queue compares the rest before their round is verified."""


def compare_rejected(ctx: Context, order: Order, leg: Leg, closed: Round) -> int:
    """Compare the next rejected shares of a round with the accepted ones, and return the number of shares compared."""
    rejected = list(islice(_get_rejected(ctx, closed), REJECTED_PER_CALL))
    for share, bond in rejected:
        _compare(ctx, order, leg, closed, share, bond)
    return len(rejected)


def count_rejected(ctx: Context, closed: Round) -> int:
    """Return the number of rejected shares that the next call of :func:`compare_rejected` compares."""
    return sum(1 for _ in islice(_get_rejected(ctx, closed), REJECTED_PER_CALL))


def _get_rejected(ctx: Context, closed: Round) -> Iterator[tuple[Share, BondRow]]:
    """Yield a round's rejected shares that were not compared yet, each with its locked bond, by slot and issue."""
    key = closed.key
    parts = (key.order_id, key.leg, int(BondKind.SHARE), key.round)
    for row in BOND_ROWS.iterate(ctx.store, *parts):
        share = SHARES.must(ctx.store, *row.share(key.order_id))
        if share.state is ShareState.REJECTED:
            yield share, row


def _compare(
    ctx: Context,
    order: Order,
    leg: Leg,
    closed: Round,
    share: Share,
    bond: BondRow,
) -> None:
    claim = share.claim
    accepted = SHARES.must(ctx.store, *closed.share_keys[claim.slot - leg.first_slot])
    if accepted.roots is None:
        raise LookupError("an accepted share has no roots")
    right = make_commitment(ctx, order, claim.key, claim.provider, closed.global_in, share.local_in, accepted.roots)
    is_right = tier_of(leg).is_same_share(claim.commitment, right)
    return_bond(ctx, order.id, bond)
    redress = Redress()
    change_share(ctx, claim.key, state=ShareState.RIGHT if is_right else ShareState.WRONG)
    if is_right:
        count_share(ctx, claim.provider, rejected=-1)
        # A provider whose later share in this slot was accepted is paid for that share, so it has lost nothing.
        lost = accepted.claim.provider != claim.provider
        if lost and ShareReason(share.reason) not in SILENCES:
            redress = _redress(ctx, leg, share, accepted.work)
    ctx.emit(
        ShareCompared(
            claim.key,
            claim.provider,
            right=is_right,
            paid=redress.paid,
            burnt=redress.burnt,
            paid_from_stake=redress.paid_from_stake,
            burnt_from_stake=redress.burnt_from_stake,
        )
    )


@dataclass(frozen=True, slots=True)
class Redress:
    """The amounts (uassay) that a validator pays for a right share that it rejected.

    ``paid`` goes to the provider, and ``burnt`` is burnt. ``paid_from_stake`` and ``burnt_from_stake`` are the parts of
    these two amounts that come from the validator's stake.
    """

    paid: int = 0
    burnt: int = 0
    paid_from_stake: int = 0
    burnt_from_stake: int = 0


def _redress(ctx: Context, leg: Leg, share: Share, work: int) -> Redress:
    """Let the validator pay for a right share that it rejected, and return the amounts; ``work`` is in FLOPs.

    The validator pays from the withheld part first, then from the job bond, then from its stake.
    """
    order_id = leg.order_id
    provider = share.claim.provider
    source = order_id.hex()
    owed = compute_redress(work, leg.price)
    (withheld_paid, withheld_burnt), owed = take_from(get_withheld(ctx, order_id), owed)
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
    stake = VALIDATORS.must(ctx.store, leg.validator).stake
    (stake_paid, stake_burnt), _ = take_from(stake, owed)
    cut_stake(ctx, leg.validator, stake_paid, STAKE_COMPENSATION, provider)
    cut_stake(ctx, leg.validator, stake_burnt, STAKE_BURN)
    return Redress(
        paid=withheld_paid + bond_paid + stake_paid,
        burnt=withheld_burnt + bond_burnt + stake_burnt,
        paid_from_stake=stake_paid,
        burnt_from_stake=stake_burnt,
    )
