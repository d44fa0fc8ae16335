"""Handlers of challenges: MsgChallenge and MsgOpenChallenge (protocol, "Disputes")."""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.disputes.disputes import end_dispute, get_live, hold_reason
from chain.state_machine.disputes.tables import DISPUTES, EXPIRY_DUE, LAST_DISPUTES, LIVE_DISPUTES
from chain.state_machine.disputes.waivers import check_challenger
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.ledger.gas import BOND_GAS
from chain.state_machine.ledger.order_money import lock_bond
from chain.state_machine.ledger.tables import get_bond_account
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.holds import HELD_SECONDS_MAX, check_hold, hold
from chain.state_machine.market.orders import check_before, is_ending
from chain.state_machine.market.tables import ORDER_AUDITORS, ORDERS
from chain.state_machine.proof.gas import READ_GAS
from chain.state_machine.proof.panels import is_decided, is_drawn, is_found_wrong, open_dispute_panel
from chain.state_machine.proof.places import has_place
from chain.state_machine.proof.room import weigh_ask
from chain.state_machine.proof.tables import ROUNDS
from chain.state_machine.queue import cancel, schedule
from chain.state_machine.store import Overlay
from domain.amount import in_assay
from domain.disputes.events import ChallengeCommitted, ChallengeJoined, ChallengeOpened
from domain.disputes.messages import MsgChallenge, MsgOpenChallenge
from domain.disputes.params import DisputesParams
from domain.disputes.records import Dispute, DisputeState
from domain.errors import (
    BAD_FIELD,
    BAD_PROOF,
    INSUFFICIENT_BOND,
    LIMIT_REACHED,
    NOT_FOUND,
    NOT_YOURS,
    WRONG_STATE,
    Refusal,
)
from domain.keys import RoundKey
from domain.ledger.records import CHALLENGE_SLOT, BondKind, BondRow
from domain.legs.records import Leg
from domain.limits import DISPUTES_MAX
from domain.market.records import Order
from domain.proof.records import AuditKind, Round
from pol.rules.disputes import STAGES_PAID, challenge_commitment, least_bond, needed_bond
from pol.rules.panels import audit_price
from pol.rules.tiers.table import tier_of


@dataclass(frozen=True, slots=True)
class CheckedRound:
    """The records of a closed round that can be challenged."""

    order: Order
    leg: Leg
    closed: Round


def _get_round(ctx: Context, key: RoundKey) -> CheckedRound:
    """Return the records of a round; refuse it if it is not closed, is decided, or has no auditors."""
    order = ORDERS.need(ctx.store, key.order_id)
    closed = ROUNDS.get(ctx.store, *key)
    if closed is None or closed.void or closed.verified or is_ending(ctx, order):
        reason = "is not a closed round that can still become void"
        raise Refusal(NOT_FOUND, "round", reason, "challenge a closed round before its window ends")
    if not order.params.auditors:
        raise Refusal(WRONG_STATE, "order_id", "the order has no auditors", "challenge rounds of other orders")
    return CheckedRound(order, LEGS.must(ctx.store, key.order_id, key.leg), closed)


# --- MsgChallenge: the commitment ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckedChallenge:
    """The records of a checked challenge, with the part of its bond (uassay) that is burnt if the challenge is not
    opened.
    """

    order: Order
    closed: Round
    least: int
    open_before: int


def check_challenge(ctx: Context, message: MsgChallenge) -> CheckedChallenge:
    """Return the round and the least bond; refuse a challenge that is too late, or whose bond is too small."""
    key = RoundKey(message.order_id, message.leg, message.round)
    found = _get_round(ctx, key)
    check_before(ctx, "time to challenge the round", found.closed.challenges_end)
    check_challenger(ctx, found.order, found.leg, message.challenger, "challenger")
    states = [dispute.state for dispute in get_live(ctx, key)]
    live = len(states)
    if live >= DISPUTES_MAX:
        reason = f"already has {live} challenges that have not ended"
        raise Refusal(LIMIT_REACHED, "round", reason, "challenge it when one of them has ended")
    least = least_bond(ctx.block.params.of(DisputesParams).challenge_min, live)
    if message.bond < least:
        reason = f"is {in_assay(message.bond)}, which is too little, because the round has {live} other challenges"
        raise Refusal(INSUFFICIENT_BOND, "bond", reason, f"send at least {in_assay(least)}")
    free = get_bond_account(ctx.store, message.challenger).free
    if free < message.bond:
        reason = f"is {in_assay(message.bond)}, but the bond account has {in_assay(free)}"
        raise Refusal(INSUFFICIENT_BOND, "bond", reason, "deposit more first (assay tx deposit-bond)")
    opened = states.count(DisputeState.OPEN)
    return CheckedChallenge(order=found.order, closed=found.closed, least=least, open_before=opened)


def apply_challenge(ctx: Context, message: MsgChallenge, checked: CheckedChallenge) -> None:
    """Lock the bond, and wait for the opening."""
    closed = checked.closed
    number = LAST_DISPUTES.get(ctx.store, *closed.key) + 1
    LAST_DISPUTES.set(ctx.store, number, *closed.key)
    opens_until = min(ctx.clock + checked.order.params.stage_base, closed.challenges_end)
    dispute = Dispute(
        order_id=message.order_id,
        leg=message.leg,
        round=message.round,
        number=number,
        challenger=message.challenger,
        commitment=message.commitment,
        bond=message.bond,
        least=checked.least,
        opens_until=opens_until,
        open_before=checked.open_before,
        state=DisputeState.COMMITTED,
    )
    DISPUTES.put(ctx.store, dispute)
    LIVE_DISPUTES.mark(ctx.store, *dispute.key)
    row = BondRow(
        kind=BondKind.CHALLENGE,
        owner=message.challenger,
        leg=message.leg,
        round=message.round,
        slot=CHALLENGE_SLOT,
        issue=number,
        amount=message.bond,
    )
    lock_bond(ctx, message.order_id, row)
    schedule(ctx, opens_until, EXPIRY_DUE, *dispute.key)
    ctx.emit(
        ChallengeCommitted(
            dispute=dispute.key,
            challenger=dispute.challenger,
            commitment=dispute.commitment,
            bond=dispute.bond,
            least=dispute.least,
            opens_until=dispute.opens_until,
            open_before=dispute.open_before,
        )
    )


# --- MsgOpenChallenge: the place and the claim ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckedOpening:
    """The records of a checked opening.

    ``joins`` is the number of an open dispute about the same place, or 0. ``bond`` is the bond (uassay) that the place
    needs. If ``again`` is true, the round's own panel has decided the place.
    """

    found: CheckedRound
    dispute: Dispute
    joins: int
    bond: int
    again: bool


def check_open(ctx: Context, message: MsgOpenChallenge) -> CheckedOpening:
    """Return the dispute; refuse an opening that is too late, does not fit its commitment, or names no place."""
    key = RoundKey(message.order_id, message.leg, message.round)
    dispute = DISPUTES.need(ctx.store, *key.panel(message.number))
    if dispute.challenger != message.challenger:
        raise Refusal(NOT_YOURS, "challenger", "another account committed to it", "open a challenge of your own")
    if dispute.state is not DisputeState.COMMITTED:
        reason = f"the challenge is {dispute.state.name.lower()}"
        raise Refusal(WRONG_STATE, "number", reason, "no further action is needed")
    check_before(ctx, "end of the time to open the challenge", dispute.opens_until)
    found = _get_round(ctx, key)
    commitment = challenge_commitment(
        ctx.block.chain_id, key, message.place, message.claim, message.salt, message.challenger
    )
    if commitment != dispute.commitment:
        reason = "does not give the commitment when it is hashed with the claim and the salt"
        raise Refusal(BAD_PROOF, "place", reason, "send the values that you committed to")
    if not has_place(ctx, found.order, found.closed, message.place):
        raise Refusal(NOT_FOUND, "place", "is not a place of the round", "challenge a place of an accepted share")
    if not tier_of(found.leg).may_answer(message.place.kind, message.claim.kind):
        reason = f"is {message.claim.kind.name.lower()}, which the tier {found.leg.tier} does not have for this place"
        raise Refusal(BAD_FIELD, "claim.kind", reason, "recompute the place by the rules of the leg's tier")
    check_hold(ctx, key, hold_reason(dispute.number))
    same = (live.number for live in get_live(ctx, key) if live.place == message.place and not live.joins)
    again = is_decided(ctx, key, message.place)
    bond = _needed(ctx, found, dispute, message, again)
    return CheckedOpening(found=found, dispute=dispute, joins=next(same, 0), bond=bond, again=again)


def _needed(ctx: Context, found: CheckedRound, dispute: Dispute, message: MsgOpenChallenge, again: bool) -> int:
    """Return the bond (uassay) that a challenge needs for its place."""
    order, leg = found.order, found.leg
    cost = tier_of(leg).cost(order.terms, message.place.kind, audit_price(order.params, leg.price))
    seats = STAGES_PAID * order.params.auditors
    if again:
        seats = max(seats, len(ORDER_AUDITORS.must(ctx.store, order.id).operators))
    return needed_bond(cost, order.params.answer_fee, seats, dispute.open_before, dispute.least)


def apply_open(ctx: Context, message: MsgOpenChallenge, checked: CheckedOpening) -> None:
    """Let a panel recompute the place, and hold the round until then.

    A challenge whose bond is too small counts as one that was not opened. If the round's own panel is recomputing the
    place now, or if a panel has found it wrong already, the challenge ends at once, without a loss.
    """
    dispute = checked.dispute
    key = dispute.round_key
    cancel(ctx, dispute.opens_until, EXPIRY_DUE, *dispute.key)
    dispute = DISPUTES.update(
        ctx.store,
        *dispute.key,
        state=DisputeState.OPEN,
        place=message.place,
        claim=message.claim,
        again=checked.again,
        joins=checked.joins,
    )
    ctx.emit(
        ChallengeOpened(
            dispute=dispute.key,
            place=message.place,
            claim=message.claim,
            again=checked.again,
            joins=checked.joins,
        )
    )
    if dispute.bond < checked.bond:
        end_dispute(ctx, dispute, DisputeState.EXPIRED, burnt=dispute.least)
    elif is_found_wrong(ctx, key, message.place):
        end_dispute(ctx, dispute, DisputeState.DROPPED)
    elif checked.joins:
        origin = DISPUTES.must(ctx.store, *key.panel(checked.joins))
        DISPUTES.update(ctx.store, *origin.key, joined=(*origin.joined, dispute.number))
        ctx.emit(ChallengeJoined(origin.key, dispute.number))
    elif is_drawn(ctx, key, message.place) and not checked.again:
        end_dispute(ctx, dispute, DisputeState.DROPPED)
    else:
        hold(ctx, key, hold_reason(dispute.number), ctx.clock + HELD_SECONDS_MAX)
        open_dispute_panel(ctx, checked.found.order, checked.found.closed, dispute.number, message.place)


def weigh_open(ctx: Context, message: MsgOpenChallenge, checked: CheckedOpening) -> int:
    """Return the gas of finding the place and opening its panel."""
    closed = checked.found.closed
    shares = len(closed.shares) if closed.stopped is not None or message.place.kind is not AuditKind.AGGREGATION else 0
    return READ_GAS * shares + 2 * BOND_GAS + weigh_ask(ctx)


def find_open_duty(store: Overlay, message: MsgOpenChallenge) -> Duty | None:
    """Return the duty to open a challenge, or None if the signer has no challenge of this number to open."""
    dispute = DISPUTES.get(store, message.order_id, message.leg, message.round, message.number)
    if dispute is None or dispute.challenger != message.challenger or dispute.state is not DisputeState.COMMITTED:
        return None
    return Duty(dispute.opens_until)


HANDLERS = (
    Handler(MsgChallenge, check_challenge, apply_challenge),
    Handler(MsgOpenChallenge, check_open, apply_open, weight=weigh_open, duty=find_open_duty),
)
