"""The consequences of an encrypted delivery: for a silence that a validator claims, and for a provider that shows none.

A share whose validator has the ciphertext and the key is received. Its validator can no longer say that the provider
did not answer. Before that, if the validator has posted its receipt, the provider has some time to show the key.
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import cut_bond, get_share_bond
from chain.state_machine.proof.tables import DELIVERIES, RECEIPT_ASKS
from domain.errors import BAD_FIELD, NOT_YET, WRONG_STATE, Refusal
from domain.keys import ShareKey
from domain.legs.moves import BURN
from domain.market.records import Order
from domain.moves import Transfer
from domain.proof.events import DeliveryReceived
from domain.proof.reasons import UNANSWERED, ShareReason
from domain.proof.records import DeliveryManifest, Round, Share, ShareState, ShownDelivery
from pol.rules.delivery import is_well_formed
from pol.rules.stands import is_left_open


def check_silence(ctx: Context, share: Share) -> None:
    """Refuse to reject a share as unanswered or late, if the validator has its content or may still get the key."""
    key = share.key
    name = f"share {key.slot}/{key.issue}"
    if share.is_received:
        reason = f"{name} was delivered, and its key is shown"
        raise Refusal(WRONG_STATE, "rejections", reason, "accept it, or give a mismatch as the reason")
    delivery = DELIVERIES.get(ctx.store, *key)
    if delivery is not None and ctx.clock < delivery.show_by:
        reason = f"the provider of {name} may show the key of its delivery until {delivery.show_by} on the chain clock"
        raise Refusal(NOT_YET, "rejections", reason, f"wait {delivery.show_by - ctx.clock} s")


def charge_unshown(ctx: Context, order: Order, share: Share) -> None:
    """Let a provider pay the answer fee if its validator posted a receipt and the provider did not show the key."""
    delivery = DELIVERIES.get(ctx.store, *share.key)
    if delivery is not None and delivery.show_by and not delivery.key:
        charge_fee(ctx, order, share)


def charge_fee(ctx: Context, order: Order, share: Share) -> None:
    """Burn the answer fee from a share's bond, or the whole bond if that is less."""
    row = get_share_bond(ctx, share.key)
    if row is None:
        return
    amount = min(order.params.answer_fee, row.amount)
    cut_bond(ctx, order.id, row, (Transfer(move=BURN, source=order.id.hex(), target="", amount=amount),))


def check_manifest(order: Order, manifest: DeliveryManifest) -> None:
    """Refuse a manifest that no delivery of a share of the order can have."""
    if not is_well_formed(order.terms, manifest):
        reason = "does not fit a share of the order's job"
        raise Refusal(BAD_FIELD, "manifest", reason, "send the manifest that the provider signed")


def make_delivery(key: ShareKey, manifest: DeliveryManifest, show_by: int) -> ShownDelivery:
    """Return the record of a delivery whose key is not shown yet."""
    return ShownDelivery(
        order_id=key.order_id,
        leg=key.leg,
        round=key.round,
        slot=key.slot,
        issue=key.issue,
        manifest=manifest,
        show_by=show_by,
    )


def post_receipt(ctx: Context, order: Order, key: ShareKey, manifest: DeliveryManifest) -> None:
    """Store that a delivery arrived, and the time until which its provider must show the key."""
    show_by = ctx.clock + order.params.show_wait
    DELIVERIES.put(ctx.store, make_delivery(key, manifest, show_by))
    ctx.emit(
        DeliveryReceived(
            share=key,
            root=manifest.root,
            key_hash=manifest.key_hash,
            segments=manifest.segments,
            update_chunks=manifest.update_chunks,
            every=manifest.every,
            show_by=show_by,
        )
    )


def is_showable(share: Share) -> bool:
    """Return whether the key of a share changes anything: it is open, its leg left it open, or its validator says that
    it did not answer.
    """
    if share.is_received:
        return False
    if share.state is ShareState.COMMITTED:
        return True
    return (share.state is ShareState.REJECTED and ShareReason(share.reason) in UNANSWERED) or is_left_open(share)


def get_show_end(order: Order, closed: Round, delivery: ShownDelivery | None = None) -> int:
    """Return the time (chain clock) until which the key of a closed round's share can be shown.

    The validator then has the other half of the window to show a wrong piece. A receipt that was posted later gives the
    provider ``show_wait`` in any case; the round is then held (:mod:`chain.state_machine.proof.witnesses`).
    """
    if closed.verified or closed.void:
        return 0
    return max(closed.window_ends - order.window // 2, delivery.show_by if delivery is not None else 0)


def get_witness_pay(ctx: Context, share: Share) -> int:
    """Return the amount (uassay) that the provider of a share has paid to witnesses of its delivery."""
    ask = RECEIPT_ASKS.get(ctx.store, *share.first_key)
    return ask.paid if ask is not None else 0
