"""MsgComplain: the consumer proves that the data that the validator handed over are not the round's states.

The message shows the leaf of one encrypted chunk. Either a chunk cannot have this leaf at all, or the message opens the
chunk. Then the node derives the chunk's key from S_i, decrypts the chunk, and compares it with the leaf that the state
has at this place. A complaint about a right chunk fails, because the message has to prove S_i and all hashes.
"""

from dataclasses import dataclass
from hashlib import sha256

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.legs.ends import void_leg
from chain.state_machine.legs.parts import end_part
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import is_ending
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.tables import ROUNDS, SHARES, WRONG_HANDOVERS
from chain.state_machine.store import Overlay
from domain.errors import ALREADY_EXISTS, BAD_PROOF, NOT_FOUND, NOT_YOURS, WRONG_STATE, Refusal
from domain.hashing import verify_path
from domain.legs.reasons import LegEnd, PartEnd
from domain.legs.records import Leg
from domain.market.records import Order, OrderState
from domain.proof.events import HandoverFoundWrong
from domain.proof.messages import MsgComplain
from domain.proof.records import OpenedChunk, Round
from pol.rules.commitment import chunk_leaf
from pol.rules.handover import (
    ChunkPlace,
    HandoverId,
    chunk_key,
    chunk_layout,
    chunk_statement,
    has_valid_length,
    sealed_leaf,
)


@dataclass(frozen=True, slots=True)
class CheckedComplaint:
    """The records of a proven complaint: the order, its current leg, and the round."""

    order: Order
    leg: Leg
    closed: Round


def check_state(ctx: Context, message: MsgComplain) -> CheckedComplaint:
    """Return the order, the leg and the round of a complaint; refuse it if it proves no fault of the validator."""
    checked = _get_round(ctx, message)
    order, closed = checked.order, checked.closed
    layout = chunk_layout(order.terms, len(closed.shares))
    place = layout.locate(message.chunk)
    if place is None:
        reason = f"{message.chunk} is not a chunk of the round's states"
        raise Refusal(NOT_FOUND, "chunk", reason, f"use 0 to {layout.count - 1}")
    handover = HandoverId(chain_id=ctx.block.chain_id, order_id=order.id, leg=closed.leg, round=closed.round)
    leaf = sealed_leaf(handover, message.chunk, message.leaf)
    if not verify_path(leaf, message.chunk, layout.count, message.path, closed.ciphertext_root):
        reason = "does not lead from the leaf to the round's ciphertext root"
        raise Refusal(BAD_PROOF, "path", reason, "send the path of this chunk in the tree of all leaves")
    if has_valid_length(place, message.leaf.length) and ctx.crypto.is_point(message.leaf.point):
        if message.opened is None:
            reason = "is missing, but the leaf alone proves no fault: its point and its length are possible for a chunk"
            raise Refusal(BAD_PROOF, "opened", reason, "open the chunk: send its ciphertext, S_i and the proof")
        _check_opened(ctx, message, checked, place, handover, leaf, message.opened)
    return checked


def _get_round(ctx: Context, message: MsgComplain) -> CheckedComplaint:
    """Return the records of a complaint.

    Refuse it if it is from another account, too late, or not about a hand-over round.
    """
    order = ORDERS.need(ctx.store, message.order_id)
    if order.consumer != message.consumer:
        raise Refusal(NOT_YOURS, "consumer", "another account placed the order", "complain about an order of your own")
    leg = LEGS.get(ctx.store, order.id, message.leg)
    if leg is None or not leg.part:
        if order.state not in (OrderState.RUNNING, OrderState.PROVEN) or is_ending(ctx, order):
            reason = f"the order is {order.state.name.lower()}"
            raise Refusal(WRONG_STATE, "order_id", reason, "complain while an order is running or proven")
        if message.leg != order.legs:
            reason = f"the current leg is {order.legs}"
            raise Refusal(WRONG_STATE, "leg", reason, "complain about a round of the current leg")
    closed = ROUNDS.get(ctx.store, order.id, message.leg, message.round)
    if closed is None or closed.void or not closed.ciphertext_root:
        reason = "the leg has no closed hand-over round of this number, or the round is void"
        raise Refusal(NOT_FOUND, "round", reason, "name a closed hand-over round of the leg")
    if WRONG_HANDOVERS.has(ctx.store, order.id, message.leg):
        reason = "a complaint about this leg is already proven"
        raise Refusal(ALREADY_EXISTS, "leg", reason, "no further action is needed")
    return CheckedComplaint(order, LEGS.must(ctx.store, order.id, message.leg), closed)


def _check_opened(
    ctx: Context,
    message: MsgComplain,
    checked: CheckedComplaint,
    place: ChunkPlace,
    handover: HandoverId,
    leaf: bytes,
    opened: OpenedChunk,
) -> None:
    """Refuse an opened chunk that does not belong to the leaf, is wrongly opened, or is right for its place."""
    root = _get_state_root(ctx, checked.closed, place)
    if not verify_path(opened.state_leaf, place.index, place.count, opened.path, root):
        reason = "does not lead from state_leaf to the root of the state"
        raise Refusal(BAD_PROOF, "opened.path", reason, "send the path of this chunk in the tree of the state")
    given = len(opened.ciphertext), sha256(opened.ciphertext).digest()
    if given != (message.leaf.length, message.leaf.sha256):
        reason = "does not have the leaf's length and hash"
        raise Refusal(BAD_PROOF, "opened.ciphertext", reason, "send the bytes that the validator served")
    statement = chunk_statement(handover, message.chunk, leaf)
    points = checked.order.order_key, message.leaf.point, opened.shared
    if not ctx.crypto.chunk_proof(*points, statement, opened.proof):
        reason = "does not prove that shared is the leaf's point times the secret of the order's key"
        raise Refusal(BAD_PROOF, "opened.proof", reason, "make it with the order's secret, for this chunk")
    chunk = ctx.crypto.decrypt(chunk_key(handover, message.chunk, opened.shared), opened.ciphertext)
    if chunk is not None and chunk_leaf(chunk) == opened.state_leaf:
        reason = "decrypts to the chunk that the state has at this place"
        raise Refusal(BAD_PROOF, "opened.ciphertext", reason, "use the chunk, because it is right")


def _get_state_root(ctx: Context, closed: Round, place: ChunkPlace) -> bytes:
    """Return the root of the state to which a chunk belongs: the round's next global state, or the local state of a
    slot.
    """
    if place.state == 0:
        return closed.next_root
    share = SHARES.must(ctx.store, *closed.share_keys[place.state - 1])
    if share.roots is None:
        raise LookupError("an accepted share has no roots")
    return share.roots.local_out


def apply(ctx: Context, message: MsgComplain, checked: CheckedComplaint) -> None:
    """Fail the leg as its validator's fault.

    The job bond pays the consumer once the leg's closed rounds are decided. If the leg has already failed and only its
    withheld part is left, that part returns to the deposit.
    """
    WRONG_HANDOVERS.mark(ctx.store, checked.order.id, checked.leg.number)
    ctx.emit(HandoverFoundWrong(checked.closed.key, message.chunk))
    if checked.leg.part:
        end_part(ctx, checked.leg, PartEnd.COMPLAINT)
        return
    void_leg(ctx, checked.order, checked.leg, LegEnd.WRONG_HANDOVER)


def find_duty(store: Overlay, message: MsgComplain) -> Duty | None:
    """Return the right to complain until the order settles.

    Return None if the message does not name a round of the signer's order.
    """
    order = ORDERS.get(store, message.order_id)
    closed = ROUNDS.get(store, message.order_id, message.leg, message.round)
    if order is None or closed is None or order.consumer != message.consumer:
        return None
    if not closed.ciphertext_root or closed.void:
        return None
    leg = LEGS.must(store, order.id, message.leg)
    if leg.part:
        return Duty(leg.part_until)
    if message.leg != order.legs or order.state not in (OrderState.RUNNING, OrderState.PROVEN):
        return None
    return Duty(leg.settles_at or order.deadline)


HANDLER = Handler(
    message=MsgComplain,
    check_state=check_state,
    apply=apply,
    duty=find_duty,
)
