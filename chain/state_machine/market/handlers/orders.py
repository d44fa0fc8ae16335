"""Handlers of orders that are not matched: submit and cancel."""

from dataclasses import replace
from itertools import pairwise

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger import balances
from chain.state_machine.ledger.order_money import apply_inflow
from chain.state_machine.ledger.tables import ESCROWS, TALLIES, Tally
from chain.state_machine.market.gas import AUDITOR_GAS, REPLICA_GAS
from chain.state_machine.market.holds import check_not_held
from chain.state_machine.market.orders import (
    check_before,
    end_order,
    is_ending,
    open_order,
    weigh_close,
)
from chain.state_machine.market.tables import (
    ORDER_AUDITORS,
    ORDER_DUE,
    ORDERS,
    ORDERS_OF_CONSUMER,
    OrderAuditors,
)
from chain.state_machine.queue import schedule
from chain.state_machine.registry.members import get_promised
from domain.errors import BAD_FIELD, BAD_PROOF, NOT_YOURS, WRONG_STATE, Refusal
from domain.ledger.params import LedgerParams
from domain.market.events import OrderSubmitted
from domain.market.messages import MsgCancelOrder, MsgSubmitOrder
from domain.market.reasons import CloseReason
from domain.market.records import Order, OrderState
from domain.market.transitions import ORDER_STEPS, OrderStep
from escrow.deposits import open_escrow
from pol.rules.commitment import possession_sign_bytes
from pol.rules.orders import Auditable, check_job, check_order
from pol.rules.replicas import replica_ids

# --- MsgSubmitOrder: submit an order and lock its deposit ----------------------------------------


def check_submit_order_fields(message: MsgSubmitOrder) -> None:
    """Check the job's terms, conditions and challengers without reading the state."""
    check_job(message.terms, message.conditions)
    addresses = message.challenges.addresses
    if any(second <= first for first, second in pairwise(addresses)):
        reason = "are not sorted, or one is listed twice"
        raise Refusal(BAD_FIELD, "challenges.addresses", reason, "list each address once, in alphabetical order")


def check_submit_order(ctx: Context, message: MsgSubmitOrder) -> Auditable:
    """Return the time and the window of the order's audits.

    Refuse an order that this chain does not take, a proof that is not the order key's signature of the order's id, and
    a deposit above the consumer's balance.
    """
    auditable = check_order(
        message.terms,
        message.conditions,
        message.price_limit,
        message.deposit,
        message.time_to_live,
        ctx.block.params,
        get_promised(ctx.store),
        message.replicas,
    )
    document = possession_sign_bytes(ctx.new_id("order"), message.order_key)
    if not ctx.crypto.signature(message.order_key, document, message.key_proof):
        reason = "is not the order key's signature of the order's id"
        raise Refusal(BAD_PROOF, "key_proof", reason, "sign the id of this order with the order's key")
    balances.check_funds(ctx, message.consumer, message.deposit * max(1, message.replicas))
    return auditable


def apply_submit_order(ctx: Context, message: MsgSubmitOrder, auditable: Auditable) -> None:
    """Lock the deposit and open the order, or each of its replicas; the auction of the next block tries it."""
    first = ctx.new_id("order")
    order = Order(
        id=first,
        consumer=message.consumer,
        order_key=message.order_key,
        terms=message.terms,
        conditions=message.conditions,
        price_limit=message.price_limit,
        time_to_live=message.time_to_live,
        deadline=ctx.clock + message.deadline,
        rematch=message.rematch,
        state=ORDER_STEPS.after(OrderStep.SUBMIT),
        legs=0,
        failures=0,
        opened_at=0,
        opened_height=0,
        expires_at=0,
        excluded=(),
        close_reason=0,
        unmatched=(),
        work_verified=0,
        params=ctx.block.params.for_order(),
        audit_ms=auditable.audit_ms,
        window=auditable.window,
        challenges=message.challenges,
        replicas=message.replicas,
        first_replica=first if message.replicas else b"",
    )
    fee = _least_fee(ctx, message, auditable)
    for order_id in replica_ids(order) or (first,):
        _open_replica(ctx, replace(order, id=order_id), message.deposit, auditable, fee if order_id == first else 0)
    ctx.responses.append(("order_id", first))


def _open_replica(ctx: Context, order: Order, deposit: int, auditable: Auditable, fee: int) -> None:
    """Lock the deposit of one order, and open it."""
    ORDERS.put(ctx.store, order)
    escrow, inflow = open_escrow(order.id, order.consumer, deposit)
    ESCROWS.put(ctx.store, escrow)
    ORDER_AUDITORS.put(ctx.store, OrderAuditors(order.id, auditable.auditors))
    TALLIES.put(ctx.store, Tally(order.id, fee=fee))
    apply_inflow(ctx, order.id, inflow)
    ORDERS_OF_CONSUMER.mark(ctx.store, order.consumer, order.id)
    schedule(ctx, order.deadline, ORDER_DUE, order.id)
    ctx.emit(
        OrderSubmitted(
            order=order.id, consumer=order.consumer, deposit=deposit, auditors=auditable.auditors, record=order
        )
    )
    open_order(ctx, order)


def weigh_submit_order(_: Context, message: MsgSubmitOrder, auditable: Auditable) -> int:
    """Return the gas of the list of validators that can audit the order, and of its replicas after the first one."""
    more = max(0, message.replicas - 1)
    return AUDITOR_GAS * len(auditable.auditors) * (1 + more) + REPLICA_GAS * more


def _least_fee(ctx: Context, message: MsgSubmitOrder, auditable: Auditable) -> int:
    """Return the least fee (uassay) that the consumer paid for the transaction.

    It is 0 if another account pays the fee, or if the message is not the first one.
    """
    if ctx.sender is None or ctx.place or ctx.sender.payer != message.consumer:
        return 0
    gas = ctx.sender.gas + weigh_submit_order(ctx, message, auditable)
    return gas * ctx.block.params.of(LedgerParams).min_gas_price_millionths // 1_000_000


# --- MsgCancelOrder: cancel an order that is not matched -----------------------------------------


def check_cancel_order(ctx: Context, message: MsgCancelOrder) -> Order:
    """Return the order to cancel.

    Refuse an order of another consumer, and an order that is not open, is held, or has expired.
    """
    order = ORDERS.need(ctx.store, message.order_id)
    if order.consumer != message.consumer:
        raise Refusal(NOT_YOURS, "order_id", "is another consumer's order", "use the id of one of your orders")
    if order.state is not OrderState.OPEN or is_ending(ctx, order):
        reason = f"the order is {order.state.name.lower()}"
        raise Refusal(WRONG_STATE, "order_id", reason, "only an open order can be cancelled")
    check_not_held(ctx, order.id)
    check_before(ctx, "time to live", order.expires_at)
    return order


def apply_cancel_order(ctx: Context, _: MsgCancelOrder, order: Order) -> None:
    """Close the order, and return its deposit and bonds. Replicas that wait in the book with it close too."""
    for name in _get_waiting(ctx, order):
        end_order(ctx, ORDERS.must(ctx.store, name), CloseReason.CANCELLED)


def weigh_cancel_order(ctx: Context, _: MsgCancelOrder, order: Order) -> int:
    """Return the gas of closing the order, for the bonds that one step returns and for the depositors."""
    return sum(weigh_close(ctx, name) for name in _get_waiting(ctx, order))


def _get_waiting(ctx: Context, order: Order) -> tuple[bytes, ...]:
    """Return the ids of the orders that wait in the book together with an open order, which is one of them."""
    return replica_ids(order) if order.replicas and not order.legs else (order.id,)


HANDLERS = (
    Handler(
        message=MsgSubmitOrder,
        check_state=check_submit_order,
        apply=apply_submit_order,
        check_fields=check_submit_order_fields,
        weight=weigh_submit_order,
    ),
    Handler(MsgCancelOrder, check_cancel_order, apply_cancel_order, weight=weigh_cancel_order),
)
