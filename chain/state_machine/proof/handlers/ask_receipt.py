"""MsgAskReceipt and MsgWitness: a receipt of witnesses, because a validator signs none for a delivery.

The request includes the share like MsgIncludeShare, if it is not on chain. Each witness shows the hash of the piece
that was drawn for it, so that a witness that has nothing cannot state that the delivery arrived.
"""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.ledger.order_money import get_share_bond
from chain.state_machine.market.holds import check_hold
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.deliveries import check_manifest, is_showable
from chain.state_machine.proof.gas import VALIDATOR_GAS
from chain.state_machine.proof.handlers.include_share import (
    CheckedInclusion,
    CheckedTask,
    check_fields,
    check_inclusion,
    check_task,
    find_member_duty,
    include,
    key_of,
)
from chain.state_machine.proof.shares import find_share
from chain.state_machine.proof.tables import DELIVERIES, RECEIPT_ASKS, ROUNDS, SHARES, WITNESS_DUTIES
from chain.state_machine.proof.witnesses import HOLD_REASON, ask_witnesses, list_strangers, take_witness
from chain.state_machine.staking.tables import count_bonded
from chain.state_machine.store import Overlay
from domain.amount import in_assay
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    BAD_PROOF,
    DEADLINE_PASSED,
    INSUFFICIENT_BOND,
    NOT_YET,
    NOT_YOURS,
    WRONG_STATE,
    Refusal,
)
from domain.hashing import verify_path
from domain.keys import RoundKey, ShareKey
from domain.proof.messages import MsgAskReceipt, MsgWitness
from domain.proof.records import ReceiptAsk, Share
from pol.rules.delivery import delivery_layout, piece_leaf
from pol.rules.inclusion import count_witnesses, witnessed_piece


@dataclass(frozen=True, slots=True)
class CheckedAsk:
    """The records of a checked request: those of the task, and the share, or its inclusion if it is not on chain."""

    task: CheckedTask
    share: Share | CheckedInclusion


def check_ask(ctx: Context, message: MsgAskReceipt) -> CheckedAsk:
    """Return the records of a request.

    Refuse it if the delivery has a receipt, if the provider has asked before, if no stranger could be a witness, or if
    the share's bond cannot pay the witnesses.
    """
    key = key_of(message)
    known = find_share(ctx.store, key, message.provider)
    if known is not None:
        _check_share(ctx, known, message)
    task = check_task(ctx, message)
    order, leg = task.order, task.leg
    check_manifest(order, message.manifest)
    if message.manifest.every != message.every:
        reason = f"delivers every {message.manifest.every}-th boundary, but the task says {message.every}"
        raise Refusal(BAD_FIELD, "manifest", reason, "deliver the boundaries that the task names")
    share = check_inclusion(ctx, task) if known is None else known
    if isinstance(share, CheckedInclusion):
        bond = share.bond
    else:
        row = get_share_bond(ctx, share.key)
        bond = row.amount if row is not None else 0
    most = count_witnesses(order.params.auditors) * order.params.answer_fee
    if bond < most:
        reason = f"the witnesses cost up to {in_assay(most)}, but the bond of the share is {in_assay(bond)}"
        raise Refusal(INSUFFICIENT_BOND, "provider", reason, "ask only for shares that are worth more")
    if not order.params.auditors or not list_strangers(ctx, order, leg, key):
        raise Refusal(WRONG_STATE, "order_id", "no validator could be a witness", "no further action is possible")
    round_key = RoundKey(key.order_id, key.leg, key.round)
    if ROUNDS.has(ctx.store, *round_key):
        check_hold(ctx, round_key, HOLD_REASON)
    return CheckedAsk(task=task, share=share)


def _check_share(ctx: Context, share: Share, message: MsgAskReceipt) -> None:
    """Refuse a request for a share on chain that is another one, or that has or needs no receipt."""
    if RECEIPT_ASKS.get(ctx.store, *share.key) is not None:
        raise Refusal(ALREADY_EXISTS, "issue", "has witnesses", "send the ciphertext to the witnesses")
    if DELIVERIES.get(ctx.store, *share.key) is not None:
        raise Refusal(ALREADY_EXISTS, "issue", "has a posted receipt", "show the key of the delivery")
    if share.claim.commitment != message.commitment:
        reason = "has another commitment on chain"
        raise Refusal(NOT_YOURS, "issue", reason, "ask only for receipts of your own shares")
    if not is_showable(share):
        reason = f"is {share.state.name.lower()}" + (", and its key is shown" if share.is_received else "")
        raise Refusal(WRONG_STATE, "issue", reason, "ask for shares that are committed, included or unanswered")


def weigh_ask_receipt(ctx: Context, _: MsgAskReceipt, __: CheckedAsk) -> int:
    """Return the gas of finding the strangers and the parties, and of asking for audit room.

    All validators are read several times for it.
    """
    return 7 * VALIDATOR_GAS * count_bonded(ctx.store)


def apply_ask(ctx: Context, message: MsgAskReceipt, checked: CheckedAsk) -> None:
    """Include the share if it is not on chain, and open the lot that draws the witnesses."""
    task, share = checked.task, checked.share
    if isinstance(share, CheckedInclusion):
        share = include(ctx, share, message.signature)
    ask_witnesses(ctx, task.order, task.leg, share, message.manifest)


def find_ask_duty(store: Overlay, message: MsgAskReceipt) -> Duty | None:
    """Return the provider's right to ask for witnesses, or None if it has asked, or its share needs no receipt."""
    share = find_share(store, key_of(message), message.provider)
    if share is not None:
        has_receipt = RECEIPT_ASKS.has(store, *share.key) or DELIVERIES.has(store, *share.key)
        if has_receipt or not is_showable(share):
            return None
    return find_member_duty(store, message)


# MsgWitness


def _witnessed(message: MsgWitness) -> ShareKey:
    return ShareKey(
        order_id=message.order_id, leg=message.leg, round=message.round, slot=message.slot, issue=message.issue
    )


def check_witness(ctx: Context, message: MsgWitness) -> ReceiptAsk:
    """Return the request that a witness answers; refuse one who was not drawn, or who does not show its piece."""
    key = _witnessed(message)
    ask = RECEIPT_ASKS.need(ctx.store, *key)
    if not ask.until:
        raise Refusal(NOT_YET, "issue", "has no witnesses yet", "wait for the draw")
    if message.validator not in ask.witnesses:
        raise Refusal(NOT_YOURS, "validator", "is not a witness of this delivery", "sign only as a drawn witness")
    if message.validator in ask.signed:
        raise Refusal(ALREADY_EXISTS, "validator", "has signed", "no further action is needed")
    if ctx.clock >= ask.until:
        reason = f"passed at {ask.until} (now {ctx.clock})"
        raise Refusal(DEADLINE_PASSED, "issue", reason, "no further action is possible")
    if get_share_bond(ctx, key) is None:
        raise Refusal(WRONG_STATE, "issue", "the bond of the share has returned", "no further action is possible")
    order = ORDERS.must(ctx.store, key.order_id)
    layout = delivery_layout(order.terms, ask.manifest)
    number = witnessed_piece(ask, message.validator, layout)
    leaf = piece_leaf(SHARES.must(ctx.store, *key).claim.key, number, message.size, message.digest)
    if not verify_path(leaf, number, layout.count, message.path, ask.manifest.root):
        reason = f"does not lead from piece {number} to the root of the delivery"
        raise Refusal(BAD_PROOF, "path", reason, f"send size, hash and path of piece {number}")
    return ask


def apply_witness(ctx: Context, message: MsgWitness, checked: ReceiptAsk) -> None:
    """Record and pay the witness."""
    take_witness(ctx, checked, message.validator)


def find_witness_duty(store: Overlay, message: MsgWitness) -> Duty | None:
    """Return the duty of a drawn witness, or None."""
    key = _witnessed(message)
    if not WITNESS_DUTIES.has(store, message.validator, *key):
        return None
    return Duty(RECEIPT_ASKS.must(store, *key).until)


HANDLERS = (
    Handler(
        message=MsgAskReceipt,
        check_state=check_ask,
        apply=apply_ask,
        check_fields=check_fields,
        weight=weigh_ask_receipt,
        duty=find_ask_duty,
    ),
    Handler(message=MsgWitness, check_state=check_witness, apply=apply_witness, duty=find_witness_duty),
)
