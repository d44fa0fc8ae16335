"""The consequences of an encrypted delivery: for a silence that a validator claims, and for a provider that shows none.

A share whose validator has the ciphertext and the key is received. Its validator can no longer say that the provider
did not answer. Before that, if the validator has posted its receipt, the provider has some time to show the key.
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import cut_bond, get_share_bond
from chain.state_machine.proof.tables import DELIVERIES
from domain.errors import NOT_YET, WRONG_STATE, Refusal
from domain.legs.moves import BURN
from domain.market.records import Order
from domain.moves import Transfer
from domain.proof.records import Share


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
