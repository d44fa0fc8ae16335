"""MsgSubmitOrder: submit an order and lock its deposit."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger import balances
from chain.state_machine.ledger.order_money import apply_inflow
from chain.state_machine.ledger.tables import ESCROWS, TALLIES, Tally
from chain.state_machine.market.orders import open_order
from chain.state_machine.market.tables import ORDERS, ORDERS_OF_CONSUMER
from chain.state_machine.queue import Due, schedule
from domain.amount import price_ceil
from domain.errors import (
    BAD_PROOF,
    INSUFFICIENT_DEPOSIT,
    TOO_SLOW_TO_AUDIT,
    UNSUPPORTED,
    Refusal,
)
from domain.limits import SLOTS_MAX, TIERS
from domain.messages import MsgSubmitOrder
from domain.params import OrderParams
from domain.records import Order, OrderState
from domain.versions import EXECUTOR_VERSION
from escrow.account import open_escrow
from pol.rules.commitment import possession_sign_bytes
from pol.rules.schedule import check_terms, segment_samples, segments_of, share_work, total_work


def check_stateless(message: MsgSubmitOrder) -> None:
    """A job that this chain runs; a deposit that pays all work at the price limit."""
    check_terms(message.terms)
    if message.terms.executor_version != EXECUTOR_VERSION:
        reason = f"{message.terms.executor_version} is not run here"
        remedy = f"build the job for version {EXECUTOR_VERSION}"
        raise Refusal(UNSUPPORTED, "terms.executor_version", reason, remedy)
    tier = message.conditions.tier
    if tier not in ("", *TIERS):
        reason, remedy = f"{tier!r} is not run here", f"one of {TIERS}, or empty for any"
        raise Refusal(UNSUPPORTED, "conditions.tier", reason, remedy)
    needed = price_ceil(total_work(message.terms), message.price_limit)
    if message.deposit < needed:
        reason = f"{message.deposit} does not pay the work at the price limit"
        raise Refusal(INSUFFICIENT_DEPOSIT, "deposit", reason, f"deposit at least {needed}")


def check_state(ctx: Context, message: MsgSubmitOrder) -> OrderParams:
    """The order's key is the consumer's, auditors could keep up with its rounds, and the deposit is there.

    The bound on auditors: the slowest one must replay a whole range in an eighth of the round window. How the work of
    a round is divided is not known yet, so here the smallest range (one segment) is checked, and ``CommitTraces``
    skips every range that has more work than the bound.
    """
    params = ctx.block.params.for_order()
    terms = message.terms
    segment_work = share_work(terms, segment_samples(terms))
    if segment_work > params.range_work_max:
        reason = (
            f"a segment has more than {params.range_work_max} FLOPs, what an auditor can replay"
        )
        raise Refusal(TOO_SLOW_TO_AUDIT, "terms.segment_length", reason, "make segments shorter")
    most = SLOTS_MAX * (params.range_work_max // segment_work)
    if segments_of(terms, terms.samples_per_round) > most:
        reason = f"a round of more than {most} segments cannot be divided into {SLOTS_MAX} ranges"
        raise Refusal(TOO_SLOW_TO_AUDIT, "terms.samples_per_round", reason, "make rounds shorter")
    document = possession_sign_bytes(
        ctx.block.chain_id, message.consumer, terms.job_id, message.order_key
    )
    if not ctx.verify(message.order_key, document, message.key_proof):
        raise Refusal(BAD_PROOF, "key_proof", "does not hold", "sign it with the order's key")
    balances.check_funds(ctx, message.consumer, message.deposit)
    return params


def apply(ctx: Context, message: MsgSubmitOrder, params: OrderParams) -> None:
    """Lock the deposit and open the order; this block's auction sees it."""
    order = Order(
        id=ctx.new_id("order"),
        consumer=message.consumer,
        order_key=message.order_key,
        terms=message.terms,
        conditions=message.conditions,
        price_limit=message.price_limit,
        time_to_live=message.time_to_live,
        deadline=ctx.clock + message.deadline,
        rematch=message.rematch,
        state=OrderState.OPEN,
        attempt=0,
        failures=0,
        opened_at=0,
        opened_height=0,
        expires_at=0,
        excluded=(),
        close_reason=0,
        unmatched=(),
        work_verified=0,
        params=params,
    )
    ORDERS.put(ctx.store, order)
    escrow, deposit = open_escrow(order.id, message.consumer, message.deposit)
    ESCROWS.put(ctx.store, escrow)
    TALLIES.put(ctx.store, Tally(order.id, 0, 0, 0, 0, 0))
    apply_inflow(ctx, order.id, deposit)
    ORDERS_OF_CONSUMER.mark(ctx.store, message.consumer, order.id)
    schedule(ctx, order.deadline, Due.ORDER, order.id)
    ctx.responses.append(("order_id", order.id))
    open_order(ctx, order)


HANDLER = Handler(MsgSubmitOrder, check_state, apply, check_stateless)
