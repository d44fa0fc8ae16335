"""The life of a dispute, from its opening to its end, and its money."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from chain.state_machine.context import Context
from chain.state_machine.disputes.tables import DISPUTES, LIVE_DISPUTES, LIVE_STANDS
from chain.state_machine.ledger.gas import BOND_GAS
from chain.state_machine.ledger.order_money import cut_bond, get_challenge_bond
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.holds import release
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.hooks import Finder
from chain.state_machine.proof.tables import DELIVERIES, PANELS
from chain.state_machine.queue import QueueEntry
from chain.state_machine.tables import number_of
from domain.disputes.events import ChallengerRewarded, DisputeEnded
from domain.disputes.records import Dispute, DisputeState
from domain.keys import PanelKey, RoundKey, ShareRef
from domain.legs.moves import BURN, COMPENSATION
from domain.moves import Transfer
from domain.proof.records import AnswerKind, Finding, Panel, Ruling
from pol.rules.tiers.table import tier_of
from pol.rules.tiers.tier import Tier

_ENDS: Mapping[Ruling, DisputeState] = MappingProxyType(
    {
        Ruling.RIGHT: DisputeState.FAILED,
        Ruling.WRONG: DisputeState.UPHELD,
        Ruling.UNDECIDED: DisputeState.UNDECIDED,
    }
)
"""End of a challenge, by the ruling about its place."""


def get_live(ctx: Context, key: RoundKey) -> Iterator[Dispute]:
    """Yield the disputes about a round that have not ended, by number."""
    for _, __, ___, number in list(LIVE_DISPUTES.keys(ctx.store, *key)):
        yield DISPUTES.must(ctx.store, *key.panel(number_of(number)))


def hold_reason(number: int) -> str:
    """Return the reason for which a dispute holds its round."""
    return f"challenge {number}"


def end_dispute(ctx: Context, dispute: Dispute, state: DisputeState, fee: int = 0, burnt: int = 0) -> None:
    """End a dispute: pay ``fee`` of its bond to the leg's validator, burn ``burnt`` of it, and return the rest.

    The amounts are in uassay. They are smaller if less of the bond is left.
    """
    key = dispute.key
    row = get_challenge_bond(ctx, key)
    if row is not None:
        fee = min(fee, row.amount)
        burnt = min(burnt, row.amount - fee)
        leg = LEGS.must(ctx.store, key.order_id, key.leg)
        source = key.order_id.hex()
        moves = (
            Transfer(move=COMPENSATION, source=source, target=leg.validator, amount=fee),
            Transfer(move=BURN, source=source, target="", amount=burnt),
        )
        cut_bond(ctx, key.order_id, row, moves)
        rest = get_challenge_bond(ctx, key)
        if rest is not None:
            return_bond(ctx, key.order_id, rest)
    else:
        burnt = 0
    DISPUTES.update(ctx.store, *key, state=state, burnt=burnt)
    LIVE_DISPUTES.delete(ctx.store, *key)
    LIVE_STANDS.delete(ctx.store, *key)
    ctx.emit(DisputeEnded(dispute=key, challenger=dispute.challenger, state=int(state), burnt=burnt))
    if dispute.share is None:
        release(ctx, dispute.round_key, hold_reason(dispute.number))


# --- the hooks of the proof ----------------------------------------------------------------------


def on_ruled(ctx: Context, panel: Panel) -> None:
    """End the dispute that a panel has decided, and the disputes that joined it.

    If the chain's root is right, the challenger loses the rest of its bond: the leg's validator gets an answer fee, and
    the remainder is burnt. Otherwise the bond returns to the challenger.
    """
    dispute = DISPUTES.must(ctx.store, *panel.key)
    if dispute.share is not None:
        _end_stand(ctx, dispute, dispute.share, {place.ruling for place in panel.places})
        return
    state = _ENDS[panel.places[0].ruling]
    failed = state is DisputeState.FAILED
    order = ORDERS.must(ctx.store, panel.order_id)
    end_dispute(ctx, dispute, state, order.params.answer_fee if failed else 0, dispute.bond if failed else 0)
    for number in dispute.joined:
        joined = DISPUTES.must(ctx.store, *dispute.round_key.panel(number))
        end_dispute(ctx, joined, state, burnt=joined.least if failed else 0)


def _end_stand(ctx: Context, dispute: Dispute, share: ShareRef, rulings: set[Ruling]) -> None:
    """End a stand. If the share or its delivery is wrong, its provider loses the bond: the validator gets an answer
    fee.
    """
    delivery = DELIVERIES.get(ctx.store, *dispute.round_key.share(share.slot, share.issue))
    if Ruling.WRONG in rulings or (delivery is not None and delivery.is_wrong):
        fee = ORDERS.must(ctx.store, dispute.order_id).params.answer_fee
        end_dispute(ctx, dispute, DisputeState.FAILED, fee, dispute.bond)
    else:
        right = rulings == {Ruling.RIGHT}
        end_dispute(ctx, dispute, DisputeState.UPHELD if right else DisputeState.UNDECIDED)


def on_voided(ctx: Context, key: RoundKey) -> None:
    """Drop the disputes about a round that became void, and return their bonds."""
    for dispute in get_live(ctx, key):
        end_dispute(ctx, dispute, DisputeState.DROPPED)


def weigh_voided(ctx: Context, key: RoundKey) -> int:
    """Return the gas of dropping the disputes about a round."""
    return 2 * BOND_GAS * sum(1 for _ in LIVE_DISPUTES.keys(ctx.store, *key))


def find_finder(ctx: Context, key: PanelKey) -> Finder | None:
    """Return the challenger that gets the reward for a place that the panel of its dispute found wrong.

    It is the challenger that first committed to the answer that the panel found. There is no reward for a place that
    was not served, or that the round's own panel had decided.
    """
    dispute = _find_right(ctx, key)
    if dispute is None:
        return None
    return Finder(dispute.challenger, ORDERS.must(ctx.store, dispute.order_id).params.challenge_reward_bps)


def on_rewarded(ctx: Context, key: PanelKey, amount: int) -> None:
    """Record the reward that the finder of a wrong place got."""
    dispute = _find_right(ctx, key)
    if dispute is not None:
        DISPUTES.update(ctx.store, *dispute.key, reward=amount)
        ctx.emit(ChallengerRewarded(dispute.key, dispute.challenger, amount))


def _find_right(ctx: Context, key: PanelKey) -> Dispute | None:
    if key.dispute == 0:
        return None
    origin = DISPUTES.must(ctx.store, *key)
    found = PANELS.must(ctx.store, *key).places[0].finding
    if origin.again or found is None or found.kind is AnswerKind.UNAVAILABLE:
        return None
    numbers = sorted((origin.number, *origin.joined))
    disputes = (DISPUTES.must(ctx.store, *origin.round_key.panel(number)) for number in numbers)
    tier = tier_of(LEGS.must(ctx.store, key.order_id, key.leg))
    return next((d for d in disputes if d.claim is not None and _is_right(tier, d.claim, found)), None)


def _is_right(tier: Tier, claim: Finding, found: Finding) -> bool:
    """Return whether a challenger's claim is the answer that the panel found, by the rules of the leg's tier."""
    if claim.kind is not found.kind:
        return False
    return tier.agree(found.root, claim.root) if found.kind is AnswerKind.FINISHED else claim.step == found.step


# --- a challenge that was not opened -------------------------------------------------------------


def on_expiry(ctx: Context, entry: QueueEntry) -> None:
    """End a challenge that was not opened in time, and burn the least part of its bond."""
    dispute = DISPUTES.must(ctx.store, *entry.panel_key)
    if dispute.state is DisputeState.COMMITTED:
        end_dispute(ctx, dispute, DisputeState.EXPIRED, burnt=dispute.least)


def weigh_expiry(_: Context, __: QueueEntry) -> int:
    """Return the gas of ending a challenge that was not opened."""
    return 2 * BOND_GAS
