"""MsgReceipt, MsgShowKey and MsgShowChunk: what the parties of an encrypted delivery show to the chain.

Usually none of these messages is needed, because both parties act over the link. If the provider does not show the key
there, the validator posts its receipt. If the validator says that it never got the delivery, the provider shows the key
with the validator's signed receipt. If the delivery is not what the commitment promises, the validator shows one piece
of it.
"""

from dataclasses import dataclass, replace
from hashlib import sha256

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.ledger.tables import ACCOUNTS
from chain.state_machine.legs.checks import check_open_round, find_round_duty, get_assigned
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.deliveries import (
    charge_fee,
    check_manifest,
    get_show_end,
    is_showable,
    make_delivery,
    post_receipt,
)
from chain.state_machine.proof.left import find_left_round, get_stand_end
from chain.state_machine.proof.replicas import note_rejected, publish
from chain.state_machine.proof.shares import change_share, make_commitment, reject_share
from chain.state_machine.proof.tables import DELIVERIES, ROUNDS, SHARES
from chain.state_machine.registry.tables import PROVIDERS
from chain.state_machine.store import Overlay
from domain.errors import ALREADY_EXISTS, BAD_FIELD, BAD_PROOF, NOT_FOUND, NOT_YOURS, WRONG_STATE, Refusal
from domain.hashing import verify_path
from domain.keys import ShareKey
from domain.legs.records import Leg, LegState
from domain.market.records import Order
from domain.proof.events import DeliveryFoundWrong, DeliveryKeyShown
from domain.proof.messages import MsgReceipt, MsgShowChunk, MsgShowKey
from domain.proof.reasons import UNANSWERED, ShareReason
from domain.proof.records import Round, Share, ShareState, ShownDelivery, ShownPiece
from pol.rules.delivery import (
    DeliveryLayout,
    Piece,
    delivery_key_hash,
    delivery_layout,
    hash_of_piece,
    manifest_sign_bytes,
    piece_key,
    piece_leaf,
    receipt_sign_bytes,
    wanted_hash,
)
from pol.rules.stands import is_left_open
from pol.rules.stops import check_roots


@dataclass(frozen=True, slots=True)
class CheckedDelivery:
    """The records of a checked message: the order, the leg, the share, and its delivery if the chain knows one."""

    order: Order
    leg: Leg
    share: Share
    delivery: ShownDelivery | None


def _key_of(message: MsgReceipt | MsgShowKey | MsgShowChunk) -> ShareKey:
    return ShareKey(
        order_id=message.order_id, leg=message.leg, round=message.round, slot=message.slot, issue=message.issue
    )


# MsgReceipt


def check_receipt(ctx: Context, message: MsgReceipt) -> CheckedDelivery:
    """Return the records of a receipt; refuse one for a share that is not open, or that the provider did not sign."""
    order, leg = get_assigned(ctx, message.order_id, message.leg, message.validator, LegState.RUNNING)
    check_open_round(leg, message.round)
    share = SHARES.need(ctx.store, *_key_of(message))
    if share.state is not ShareState.COMMITTED:
        reason = f"is {share.state.name.lower()}"
        raise Refusal(WRONG_STATE, "issue", reason, "post receipts only for committed shares")
    delivery = DELIVERIES.get(ctx.store, *share.key)
    if delivery is not None:
        reason = "has a posted receipt, or its key is shown"
        raise Refusal(ALREADY_EXISTS, "issue", reason, "no further action is needed")
    check_manifest(order, message.manifest)
    document = manifest_sign_bytes(ctx.block.chain_id, share.claim, message.manifest)
    if not ctx.crypto.signature(PROVIDERS.must(ctx.store, share.claim.provider).pub_key, document, message.signature):
        reason = "is not the provider's signature of the manifest"
        raise Refusal(BAD_PROOF, "signature", reason, "send the signature that came with the delivery")
    return CheckedDelivery(order=order, leg=leg, share=share, delivery=None)


def apply_receipt(ctx: Context, message: MsgReceipt, checked: CheckedDelivery) -> None:
    """Store the receipt, and the time until which the provider must show the key."""
    post_receipt(ctx, checked.order, checked.share.key, message.manifest)


def find_receipt_duty(store: Overlay, message: MsgReceipt) -> Duty | None:
    """Return the validator's duty to make progress, or None if the share is not in an open round of the signer."""
    share = SHARES.get(store, *_key_of(message))
    if share is None or share.state is not ShareState.COMMITTED:
        return None
    return find_round_duty(store, message.order_id, message.leg, message.round, message.validator)


# MsgShowKey


def check_key(ctx: Context, message: MsgShowKey) -> CheckedDelivery:
    """Return the records of a shown key; refuse a key that is late, or that no receipt of the validator belongs to."""
    share = SHARES.need(ctx.store, *_key_of(message))
    if share.claim.provider != message.provider:
        raise Refusal(NOT_YOURS, "provider", "another provider committed to the share", "show keys of your own shares")
    order = ORDERS.must(ctx.store, message.order_id)
    leg = LEGS.must(ctx.store, message.order_id, message.leg)
    delivery = DELIVERIES.get(ctx.store, *share.key)
    _check_showable(ctx, order, share, delivery)
    manifest, roots = message.manifest, message.roots
    check_manifest(order, manifest)
    problem = check_roots(order.terms, roots)
    if problem:
        raise Refusal(BAD_FIELD, "roots", problem, "send the roots that the commitment hides")
    if (roots.segments, roots.is_whole) != (manifest.segments, manifest.update_chunks > 0):
        raise Refusal(BAD_FIELD, "roots", "do not fit the manifest", "send the roots and the manifest of one share")
    if delivery_key_hash(message.key) != manifest.key_hash:
        raise Refusal(BAD_PROOF, "key", "does not have the manifest's hash", "show the key of this delivery")
    _check_commitment(ctx, order, leg, share, message)
    _check_signed(ctx, order, leg, share, message, delivery)
    return CheckedDelivery(order=order, leg=leg, share=share, delivery=delivery)


def _check_showable(ctx: Context, order: Order, share: Share, delivery: ShownDelivery | None) -> None:
    """Refuse a key of a share that no longer needs one."""
    if share.is_received:
        raise Refusal(ALREADY_EXISTS, "issue", "is received already", "no further action is needed")
    if delivery is not None and delivery.is_wrong:
        raise Refusal(WRONG_STATE, "issue", "has a wrong delivery", "no further action is possible")
    if not is_showable(share):
        reason = f"is {share.state.name.lower()}"
        raise Refusal(WRONG_STATE, "issue", reason, "show keys of shares that are committed or rejected as unanswered")
    ends = _find_show_end(ctx.store, order, share, delivery)
    if ends is not None and ctx.clock >= ends:
        reason = (
            "is in a round that is void, verified, or in the second half of its window, or the time to stand is over"
        )
        raise Refusal(WRONG_STATE, "issue", reason, "show the key earlier")


def _find_show_end(store: Overlay, order: Order, share: Share, delivery: ShownDelivery | None) -> int | None:
    """Return the time until which the key of a share can be shown; None if its round is open.

    If the leg left the round open, the key can be shown as long as the provider may stand for the share.
    """
    left = find_left_round(store, share.key.round_key)
    if left is not None:
        return get_stand_end(order, left) if left.by_validator else 0
    closed = _get_closed(store, share)
    return get_show_end(order, closed, delivery) if closed is not None else None


def _get_closed(store: Overlay, share: Share) -> Round | None:
    """Return the closed round of a rejected share that will be compared, or None."""
    key = share.key
    return ROUNDS.get(store, key.order_id, key.leg, key.round)


def _check_commitment(ctx: Context, order: Order, leg: Leg, share: Share, message: MsgShowKey) -> None:
    claim = share.claim
    closed = _get_closed(ctx.store, share)
    global_in = closed.global_in if closed is not None else leg.global_in
    commitment = make_commitment(ctx, order, claim.key, claim.provider, global_in, share.local_in, message.roots)
    if commitment != claim.commitment:
        raise Refusal(BAD_PROOF, "roots", "do not hash to the share's commitment", "send the roots that it hides")


def _check_signed(
    ctx: Context, order: Order, leg: Leg, share: Share, message: MsgShowKey, delivery: ShownDelivery | None
) -> None:
    """Refuse a key without a receipt of the validator, or one that comes after the time to show it."""
    ends = 0
    if delivery is not None and delivery.manifest == message.manifest:
        ends = delivery.show_by
    if message.signature:
        document = receipt_sign_bytes(
            ctx.block.chain_id, share.claim, message.manifest, message.signed_at, shown=message.was_shown
        )
        if not ctx.crypto.signature(ACCOUNTS.must(ctx.store, leg.validator).pub_key, document, message.signature):
            reason = "is not the validator's receipt for this share and manifest"
            raise Refusal(BAD_PROOF, "signature", reason, "send the receipt that the validator signed")
        if message.was_shown:
            return
        ends = max(ends, message.signed_at + order.params.show_wait)
    elif not ends:
        reason = "is empty, and the validator has posted no receipt for this manifest"
        raise Refusal(BAD_PROOF, "signature", reason, "send the receipt that the validator signed")
    if ctx.clock >= ends:
        reason = f"comes too late: the key had to be shown before {ends} on the chain clock"
        raise Refusal(WRONG_STATE, "key", reason, "show the key within show_wait after the receipt")


def apply_key(ctx: Context, message: MsgShowKey, checked: CheckedDelivery) -> None:
    """Store the key and the roots. From now on, the share counts as received."""
    claim, key = checked.share.claim, checked.share.key
    show_by = checked.delivery.show_by if checked.delivery is not None else 0
    manifest, roots = message.manifest, message.roots
    shown = replace(make_delivery(key, manifest, show_by), key=message.key, roots=roots)
    DELIVERIES.put(ctx.store, shown)
    publish(ctx, ORDERS.must(ctx.store, key.order_id), key.round)
    change_share(ctx, key, is_received=True)
    ctx.emit(
        DeliveryKeyShown(
            share=key,
            provider=claim.provider,
            root=manifest.root,
            key_hash=manifest.key_hash,
            every=manifest.every,
            key=message.key,
            trace_root=roots.trace_root,
            update_root=roots.update_root,
            local_out=roots.local_out,
            metrics=roots.metrics,
            segments=roots.segments,
            steps=roots.steps,
            update_chunks=manifest.update_chunks,
        )
    )


def find_key_duty(store: Overlay, message: MsgShowKey) -> Duty | None:
    """Return the provider's right to show its key, or None if the share is not the signer's or needs no key."""
    share = SHARES.get(store, *_key_of(message))
    if share is None or share.claim.provider != message.provider or not is_showable(share):
        return None
    closed = _get_closed(store, share)
    if closed is not None:
        return Duty(closed.window_ends)
    delivery = DELIVERIES.get(store, *share.key)
    ends = _find_show_end(store, ORDERS.must(store, message.order_id), share, delivery)
    if ends is not None:
        return Duty(ends) if ends else None
    if delivery is not None and delivery.show_by:
        return Duty(delivery.show_by)
    return Duty(LEGS.must(store, message.order_id, message.leg).progress_deadline)


# MsgShowChunk


def check_chunk(ctx: Context, message: MsgShowChunk) -> CheckedDelivery:
    """Return the records of a wrong piece; refuse a piece that is right, or that does not belong to the delivery."""
    key = _key_of(message)
    share = SHARES.need(ctx.store, *key)
    leg = LEGS.must(ctx.store, message.order_id, message.leg)
    if leg.validator != message.validator:
        raise Refusal(NOT_YOURS, "validator", "another validator serves this leg", "use an order that you won")
    delivery = DELIVERIES.get(ctx.store, *key)
    if delivery is None or not delivery.key or delivery.is_wrong:
        reason = "has no delivery with a shown key that was not shown to be wrong"
        raise Refusal(NOT_FOUND, "issue", reason, "show pieces of deliveries whose key is on chain")
    if not _is_disputable(ctx.store, share):
        reason = f"is {share.state.name.lower()}"
        raise Refusal(WRONG_STATE, "issue", reason, "show pieces before the round of the share is verified")
    order = ORDERS.must(ctx.store, message.order_id)
    _check_wrong(ctx, order, share, delivery, message)
    return CheckedDelivery(order=order, leg=leg, share=share, delivery=delivery)


def _is_disputable(store: Overlay, share: Share) -> bool:
    """Return whether a wrong delivery changes anything for a share.

    In a void round, the provider of a share that was rejected as silent can still stand for it. So can the provider of
    a share that its leg left open.
    """
    if share.state is ShareState.COMMITTED or is_left_open(share):
        return True
    if share.state is not ShareState.REJECTED or ShareReason(share.reason) not in UNANSWERED:
        return False
    closed = _get_closed(store, share)
    return closed is None or not closed.verified or share.stand > 0


def _check_wrong(ctx: Context, order: Order, share: Share, delivery: ShownDelivery, message: MsgShowChunk) -> None:
    """Refuse a piece that is what the commitment promises, as far as its parent shows."""
    layout = delivery_layout(order.terms, delivery.manifest)
    piece, content = _decrypt(ctx, share, delivery, layout, message.piece, "piece")
    shown = hash_of_piece(piece, content) if content is not None else None
    if content is None or shown is None:
        return
    parent: Piece | None = None
    above: bytes | None = b""
    if piece.parent >= 0:
        if message.parent is None or message.parent.number != piece.parent:
            reason = f"has to be piece {piece.parent}, which has the hash of piece {message.piece.number}"
            raise Refusal(BAD_PROOF, "parent", reason, f"send piece {piece.parent} with its path")
        parent, above = _decrypt(ctx, share, delivery, layout, message.parent, "parent")
    if delivery.roots is None:
        raise LookupError("a delivery has a key and no roots")
    wanted = wanted_hash(piece, delivery.roots, parent, above) if above is not None else None
    if wanted == shown:
        reason = "decrypts to what the commitment promises"
        raise Refusal(BAD_PROOF, "piece", reason, "use the delivery, or show another piece of it")


def _decrypt(
    ctx: Context, share: Share, delivery: ShownDelivery, layout: DeliveryLayout, shown: ShownPiece, field: str
) -> tuple[Piece, bytes | None]:
    """Return a piece with its content, or with None if it does not decrypt; refuse one of another delivery."""
    piece = layout.locate(shown.number)
    if piece is None:
        reason = f"{shown.number} is not a piece of the delivery"
        raise Refusal(NOT_FOUND, f"{field}.number", reason, f"use 0 to {layout.count - 1}")
    leaf = piece_leaf(share.claim.key, shown.number, len(shown.ciphertext), sha256(shown.ciphertext).digest())
    if not verify_path(leaf, shown.number, layout.count, shown.path, delivery.manifest.root):
        reason = "does not lead from the piece to the root of the delivery"
        raise Refusal(BAD_PROOF, f"{field}.path", reason, "send the path of this piece in the tree of all pieces")
    return piece, ctx.crypto.decrypt(piece_key(delivery.key, shown.number), shown.ciphertext)


def apply_chunk(ctx: Context, message: MsgShowChunk, checked: CheckedDelivery) -> None:
    """Record that the delivery is wrong: the share is unanswered for good, and its provider pays the answer fee."""
    share = checked.share
    key = share.key
    DELIVERIES.update(ctx.store, *key, is_wrong=True)
    changed = change_share(ctx, key, is_received=False)
    ctx.emit(DeliveryFoundWrong(key, share.claim.provider, message.piece.number))
    if share.state is ShareState.COMMITTED:
        reject_share(ctx, changed, ShareReason.NO_ANSWER, 0)
        note_rejected(ctx, checked.order, checked.leg)
    charge_fee(ctx, checked.order, share)


def find_chunk_duty(store: Overlay, message: MsgShowChunk) -> Duty | None:
    """Return the validator's right to show a wrong piece, or None if the share's key is not shown or is decided."""
    key = _key_of(message)
    share, delivery = SHARES.get(store, *key), DELIVERIES.get(store, *key)
    leg = LEGS.get(store, message.order_id, message.leg)
    if share is None or delivery is None or leg is None or leg.validator != message.validator:
        return None
    if not delivery.key or delivery.is_wrong or not _is_disputable(store, share):
        return None
    closed = _get_closed(store, share)
    return Duty(closed.window_ends if closed is not None else leg.progress_deadline)


HANDLERS = (
    Handler(message=MsgReceipt, check_state=check_receipt, apply=apply_receipt, duty=find_receipt_duty),
    Handler(message=MsgShowKey, check_state=check_key, apply=apply_key, duty=find_key_duty),
    Handler(message=MsgShowChunk, check_state=check_chunk, apply=apply_chunk, duty=find_chunk_duty),
)
