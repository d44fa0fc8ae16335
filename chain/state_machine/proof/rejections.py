"""Comparison of rejected shares with the accepted ones, before their round is verified (protocol section 4.5).

A rejection needs no evidence, so it proves nothing. The bond of a rejected share stays locked until a panel has
recomputed the round. The chain then computes the commitment to the accepted roots under the rejected provider's name.
If this commitment and the provider's own commitment are to the same share, by the rules of the leg's tier, the rejected
share was right, and its bond returns. If the validator rejected it as a mismatch, the validator pays, because an honest
validator never makes this mistake. If the validator rejected it because the provider was silent, no one can know which
of them was silent, and no one pays. But if the validator's receipt and the key of the delivery were shown, the share
counts as rejected as a mismatch. If a share that was rejected as a mismatch differs from the accepted one, its
provider has to stand for it (:mod:`chain.state_machine.proof.stands`). In all other cases the bond returns.
"""

from collections.abc import Iterator
from itertools import islice

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import BOND_ROWS
from chain.state_machine.market.book import return_bond
from chain.state_machine.proof.deliveries import get_witness_pay
from chain.state_machine.proof.redress import Redress, pay_redress
from chain.state_machine.proof.shares import change_share, count_share, make_commitment
from chain.state_machine.proof.stands import forfeit_or_wait
from chain.state_machine.proof.tables import SHARES
from domain.ledger.records import BondKind, BondRow
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.events import ShareCompared
from domain.proof.records import Round, Share, ShareState
from escrow.settle import compute_redress
from pol.rules.stands import is_mismatch
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
    redress = Redress()
    change_share(ctx, share.key, state=ShareState.RIGHT if is_right else ShareState.WRONG)
    if is_right:
        return_bond(ctx, order.id, bond)
        count_share(ctx, claim.provider, rejected=-1)
        # A provider whose later share in this slot was accepted is paid for that share, so it has lost nothing.
        lost = accepted.claim.provider != claim.provider
        if lost and is_mismatch(share):
            value, burnt = compute_redress(accepted.work, leg.price)
            redress = pay_redress(ctx, leg, share, (value + get_witness_pay(ctx, share), burnt))
    else:
        forfeit_or_wait(ctx, order, closed, share, bond)
    ctx.emit(
        ShareCompared(
            share.key,
            claim.provider,
            right=is_right,
            paid=redress.paid,
            burnt=redress.burnt,
            paid_from_stake=redress.paid_from_stake,
            burnt_from_stake=redress.burnt_from_stake,
        )
    )
