"""Ends of legs: served, declined, not accepted, without progress, stopped, void or out of time (protocol section 3)."""

from dataclasses import dataclass, replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_job_bond, pay_from_deposits, pay_part
from chain.state_machine.ledger.tables import ESCROWS, get_bond_account
from chain.state_machine.legs.checks import is_far_ahead
from chain.state_machine.legs.creation import get_rest, open_leg
from chain.state_machine.legs.hooks import CONTINUED, COVERED, HELD_BACK, LEFT_TO_OTHERS, ROUND_DROPPED, ROUND_LEFT
from chain.state_machine.legs.money import clear_leg, compensate, cut_job_bond, keep_part
from chain.state_machine.legs.parts import end_part, get_unserved, settle_parts
from chain.state_machine.legs.progress import restart_progress, start_leg
from chain.state_machine.legs.tables import ACCEPT_DUE, LEGS, LIVE_LEGS, PROGRESS_DUE
from chain.state_machine.market.auction import get_asked
from chain.state_machine.market.book import close_bid, release_capacity, release_stake
from chain.state_machine.market.holds import is_paused
from chain.state_machine.market.hooks import Match
from chain.state_machine.market.orders import end_order, exclude, open_order
from chain.state_machine.market.tables import BIDS, ORDERS, get_load
from chain.state_machine.queue import QueueEntry, cancel
from chain.state_machine.registry.members import get_active, is_active
from chain.state_machine.registry.tables import VALIDATORS
from domain.amount import price_ceil
from domain.legs.events import LegFailed, OrderDeclined, OrderRestarted, OrderSettled
from domain.legs.moves import BURN, DECLINE_FEE, DEPOSIT_BURN
from domain.legs.reasons import LegEnd, PartEnd
from domain.legs.records import Leg, LegState
from domain.legs.transitions import LEG_STEPS, LegStep
from domain.market.reasons import CloseReason
from domain.market.records import Bid, Order, OrderState
from domain.market.transitions import ORDER_STEPS, OrderStep
from domain.moves import Transfer
from escrow.deposits import locked
from escrow.settle import decline_fee, job_bond_cut
from pol.rules.orders import is_blamed_enough

BLAMES_JOB = frozenset(
    {
        LegEnd.PAYLOAD_NOT_DELIVERED,
        LegEnd.DECLINED_BAD_JOB,
        LegEnd.DECLINED_WORK_MISMATCH,
        LegEnd.DECLINED_TOO_SLOW,
        LegEnd.DECLINED_NOT_FINITE,
    }
)
"""Reasons to decline that blame the consumer. A validator cannot prove any of them."""

_VALIDATORS_FAULTS = (LegEnd.WRONG_ROUND, LegEnd.WRONG_HANDOVER)
CONTINUED_MAX = 3
"""Most times that a validator continues an order after a provider's fault."""


@dataclass(frozen=True, slots=True)
class WayBack:
    """The place to which an order goes back if states are lost: the end of a verified round of ``leg``, or the payload
    if ``leg`` is 0.

    The next leg starts with ``next_round``, from the global state ``root``. ``work`` (FLOPs) is that of the rounds
    before.
    """

    leg: int
    next_round: int
    root: bytes
    work: int


def end_leg(ctx: Context, leg: Leg, reason: LegEnd | None) -> Leg:
    """End a leg and release its capacity; a leg that has already ended does not change.

    If the leg served all its rounds, ``reason`` is left out.

    The stake that backs the leg stays reserved while a closed round of the leg can still be found wrong.
    """
    if not leg.is_live:
        return leg
    cancel(ctx, leg.accept_deadline, ACCEPT_DUE, leg.order_id, leg.number)
    cancel(ctx, leg.progress_deadline, PROGRESS_DUE, leg.order_id, leg.number)
    key = (leg.order_id, leg.number)
    state = LEG_STEPS.after(LegStep.SETTLE if reason is None else reason, leg.state)
    ended = LEGS.update(ctx.store, *key, state=state, end_reason=int(reason or 0))
    LIVE_LEGS.delete(ctx.store, leg.validator, *key)
    release_capacity(ctx, leg.bid_id, leg.validator, leg.work)
    return ended


def settle_leg(ctx: Context, order: Order, leg: Leg, reason: CloseReason) -> None:
    """Settle a leg whose rounds are all verified: end it and its order, and pay the withheld part to the validator."""
    end = LegEnd.STOPPED_BY_JOB if reason is CloseReason.STOPPED_BY_JOB else None
    settled = VALIDATORS.must(ctx.store, leg.validator).orders_settled
    VALIDATORS.update(ctx.store, leg.validator, orders_settled=settled + 1)
    ctx.emit(OrderSettled(order=order.id, leg=leg.number, validator=leg.validator, reason=int(end or 0)))
    settle_parts(ctx, leg)
    pay_part(ctx, order.id, leg.validator)
    end_leg(ctx, leg, end)
    release_stake(ctx, leg.validator, leg.work, leg.price)
    end_order(ctx, order, reason)


def end_with_leg(ctx: Context, order: Order, leg: Leg, reason: CloseReason) -> None:
    """End an order whose leg has failed; its withheld part waits until the consumer had time to fetch the states."""
    keep_part(ctx, order, leg)
    release_stake(ctx, leg.validator, leg.work, leg.price)
    end_order(ctx, order, reason)


def reopen_or_end(ctx: Context, order: Order, leg: Leg) -> None:
    """After a failed leg, continue the order with its first round that is not verified, or end the order.

    If only a provider was at fault, the same validator continues, without an auction. Otherwise the order opens again.
    It ends instead if no round is left, if its deadline has passed, if a replica goes on, or if its deposit cannot pay
    any bid. It also ends if it has had ``max_attempts`` failures, or if enough validators have blamed the job or could
    not fetch the states.
    """
    started = order.state is not OrderState.MATCHED
    undecided = leg.end_reason == LegEnd.UNDECIDED
    failed = CloseReason.UNVERIFIED if undecided else CloseReason.FAILED
    bid = find_bid_to_continue(ctx, order, leg)
    # A provider's fault counts as a failure of the order only if its validator does not continue.
    is_failure = leg.end_reason == LegEnd.WRONG_SHARE and bid is None
    failures = order.failures + (1 if is_failure else 0)
    if _is_unserved(ctx, order, failures):
        end_with_leg(ctx, order, leg, failed if order.next_round else CloseReason.UNSERVED)
    elif not _has_rest(ctx, order, leg) or (bid is None and _is_left(ctx, order, started=started)):
        end_with_leg(ctx, order, leg, failed)
    elif ctx.clock >= order.deadline:
        end_with_leg(ctx, order, leg, failed if started or order.next_round else CloseReason.DEADLINE)
    elif _lacks_states(ctx, order):
        end_with_leg(ctx, order, leg, failed)
        _return_unserved(ctx, order)
    elif not clear_leg(ctx, order, leg, continues=bid is not None):
        # Some bonds are not returned yet. The component of proof schedules the next step, which calls this function
        # again.
        ROUND_LEFT(ctx, order)
    elif bid is not None:
        release_stake(ctx, leg.validator, leg.work, leg.price)
        continue_leg(ctx, order, leg, bid)
    else:
        release_stake(ctx, leg.validator, leg.work, leg.price)
        open_order(ctx, ORDERS.update(ctx.store, order.id, failures=failures))


def _is_left(ctx: Context, order: Order, *, started: bool) -> bool:
    """Return whether no other validator is to serve an order."""
    return (started and not order.rematch) or any(LEFT_TO_OTHERS(ctx, order))


def _has_rest(ctx: Context, order: Order, leg: Leg) -> bool:
    """Return whether an order has rounds left, and money for them, after a leg that served all slots of the order."""
    if order.next_round == order.terms.rounds or leg.slots != order.terms.slots:
        return False
    # Before the leg is cleared, its withheld part already counts as withheld, and its job bond is no deposit.
    return get_asked(ctx.store, order, ctx.clock).price_limit > 0


def _lacks_states(ctx: Context, order: Order) -> bool:
    """Return whether so many validators could not fetch the states from which the order's next leg would start that the
    states count as lost.

    The number is ``max_attempts``, or all validators that are not excluded for other reasons.
    """
    unserved = get_unserved(ctx, order)
    if not unserved or not order.next_round:
        return False
    active = [validator.operator for validator in get_active(ctx.store)]
    return len(unserved) >= order.params.max_attempts or all(name in order.excluded for name in active)


def _return_unserved(ctx: Context, order: Order) -> None:
    """Return to the deposit a withheld part that waits, because enough validators could not fetch its leg's states.

    These validators must hold as much stake as is needed to blame a job, because a few validators with little stake
    could belong to the consumer.
    """
    stakes = {validator.operator: validator.stake for validator in get_active(ctx.store)}
    number = LEGS.must(ctx.store, order.id, order.legs).verified_leg
    source = LEGS.must(ctx.store, order.id, number)
    if source.part and is_blamed_enough(get_unserved(ctx, order), stakes, order.params):
        end_part(ctx, source, PartEnd.UNAVAILABLE)


def find_bid_to_continue(ctx: Context, order: Order, leg: Leg) -> Bid | None:
    """Return the bid of a leg that failed through a provider's fault, if it can serve the order's rest at once.

    Return None if the leg ended for another reason, or if the validator has continued the order ``CONTINUED_MAX``
    times. Also return None if the bid's capacity, its validator's stake or its bond is not enough. The job bond of the
    failed leg counts as free, because it is returned before the order continues, except for its cover of right shares.
    """
    bid = BIDS.get(ctx.store, leg.bid_id)
    if leg.end_reason != LegEnd.WRONG_SHARE or bid is None or ctx.clock >= order.deadline:
        return None
    wrong = [known for known in LEGS.scan(ctx.store, order.id) if known.end_reason == LegEnd.WRONG_SHARE]
    validator = VALIDATORS.must(ctx.store, leg.validator)
    if len(wrong) > CONTINUED_MAX or not is_active(validator) or not _has_rest(ctx, order, leg):
        return None
    asked = get_asked(ctx.store, order, ctx.clock)
    bond = asked.job_bond(leg.price)
    row = get_job_bond(ctx, order.id, leg.number)
    back = max(0, row.amount - sum(COVERED(ctx, leg, True))) if row else 0
    free = get_bond_account(ctx.store, leg.validator).free + back
    value = get_load(ctx.store, leg.validator).value - price_ceil(leg.work, leg.price)
    fits = (
        leg.price <= asked.price_limit
        and bond <= min(free, bid.offer.max_job_bond or bond)
        and asked.work <= bid.capacity - bid.reserved
        and value + price_ceil(asked.work, leg.price) <= validator.stake
    )
    return bid if fits else None


def continue_leg(ctx: Context, order: Order, leg: Leg, bid: Bid) -> None:
    """Open and start a leg for the rest of an order, with the bid, the price and the tier of a leg that failed."""
    bond = get_asked(ctx.store, order, ctx.clock).job_bond(leg.price)
    order = ORDERS.update(ctx.store, order.id, state=ORDER_STEPS.after(OrderStep.REOPEN, order.state))
    match = Match(order=order, bid=bid, price=leg.price, job_bond=bond, tier=leg.tier)
    opened = open_leg(ctx, match, get_rest(ctx, order))
    start_leg(ctx, ORDERS.must(ctx.store, order.id), opened)
    CONTINUED(ctx, order, leg, opened)


def decline_leg(ctx: Context, order: Order, leg: Leg, reason: LegEnd) -> None:
    """End a match that the validator declined, and exclude the validator from the order.

    If the reason blames the job, it cannot be proved which side is right. So the validator and the consumer lose the
    same amount, and no one gains. The deposit loses this amount at most ``max_attempts`` times, however many validators
    blame the job. For any other reason the validator pays a fee. Its bid stays in the book, unless the reason is that
    the validator has no capacity.
    """
    ended = end_leg(ctx, leg, reason)
    order = exclude(ctx, order, leg.validator)
    ctx.emit(OrderDeclined(order=order.id, leg=ended.number, validator=ended.validator, reason=int(reason)))
    source = order.id.hex()
    if reason in BLAMES_JOB:
        order = ORDERS.update(ctx.store, order.id, failures=order.failures + 1)
        fee = order.params.payload_fee
        cut_job_bond(
            ctx,
            ended,
            Transfer(move=BURN, source=source, target="", amount=min(fee, ended.job_bond)),
        )
        if len(_get_blaming(ctx, order)) <= order.params.max_attempts:
            burnt = min(fee, locked(ESCROWS.must(ctx.store, order.id)))
            pay_from_deposits(
                ctx,
                order.id,
                (Transfer(move=DEPOSIT_BURN, source=source, target="", amount=burnt),),
            )
    else:
        fee = decline_fee(leg.job_bond, order.params.decline_fee_bps)
        cut_job_bond(ctx, ended, Transfer(move=DECLINE_FEE, source=source, target="", amount=fee))
    if reason is LegEnd.DECLINED_NO_CAPACITY:
        _close_bid_of(ctx, leg, "no capacity")
    reopen_or_end(ctx, order, ended)


def leave_states(ctx: Context, order: Order, leg: Leg) -> None:
    """End a match, because a panel could not decide whether the states from which the leg starts can be fetched.

    The validator pays no fee. It is excluded from the order.
    """
    ended = _end_without_states(ctx, order, leg)
    reopen_or_end(ctx, exclude(ctx, order, leg.validator), ended)


def lose_states(ctx: Context, order: Order, leg: Leg, back: WayBack) -> None:
    """End a match, because the states from which the leg starts are lost. The validator pays no fee.

    The order goes back, and opens again, if its deposit pays the rounds from there on at the leg's price. Otherwise it
    ends, and what is verified stays paid. It cannot pay more rounds either, so it does not go back further.
    """
    ended = _end_without_states(ctx, order, leg)
    again = replace(order, next_round=back.next_round, work_verified=back.work)
    if get_asked(ctx.store, again, ctx.clock).price_limit < leg.price:
        end_with_leg(ctx, order, ended, CloseReason.FAILED)
        return
    ORDERS.put(ctx.store, again)
    ended = LEGS.update(ctx.store, order.id, leg.number, back_leg=back.leg, back_root=back.root)
    ctx.emit(
        OrderRestarted(
            order=order.id,
            leg=leg.number,
            next_round=back.next_round,
            back_leg=back.leg,
            root=back.root,
            work_verified=back.work,
        )
    )
    reopen_or_end(ctx, again, ended)


def _end_without_states(ctx: Context, order: Order, leg: Leg) -> Leg:
    ended = end_leg(ctx, leg, LegEnd.STATE_UNAVAILABLE)
    ctx.emit(OrderDeclined(order=order.id, leg=ended.number, validator=ended.validator, reason=int(ended.end_reason)))
    return ended


def miss_accept(ctx: Context, order: Order, leg: Leg) -> None:
    """End a match that was not accepted in time, and cut the whole job bond."""
    ended = _break_off(ctx, leg, LegEnd.NOT_ACCEPTED)
    order = _count_failure(ctx, exclude(ctx, order, leg.validator), leg)
    compensate(ctx, order, ended, leg.job_bond)
    _close_bid_of(ctx, leg, "not accepted")
    reopen_or_end(ctx, order, ended)


def fail_leg(ctx: Context, order: Order, leg: Leg, reason: LegEnd) -> None:
    """End a running leg, and cut the part of the job bond for the rounds that are not closed. Audits of closed rounds
    continue.
    """
    ended = _break_off(ctx, leg, reason)
    order = _count_failure(ctx, exclude(ctx, order, leg.validator), leg)
    cut = job_bond_cut(leg.job_bond, leg.rounds, leg.closed)
    compensate(ctx, order, ended, cut)
    ROUND_LEFT(ctx, order)


def _break_off(ctx: Context, leg: Leg, reason: LegEnd) -> Leg:
    """End a leg that failed, and return it. If the leg was running, its open round will never be closed."""
    ended = end_leg(ctx, leg, reason)
    if leg.state is LegState.RUNNING:
        ended = LEGS.update(ctx.store, leg.order_id, leg.number, left_at=ctx.clock)
    _emit_failed(ctx, ended, reason)
    if ended.left_at:
        ROUND_DROPPED(ctx, leg.open_round)
    return ended


def _emit_failed(ctx: Context, leg: Leg, reason: LegEnd) -> None:
    ctx.emit(
        LegFailed(order=leg.order_id, leg=leg.number, validator=leg.validator, reason=int(reason), left_at=leg.left_at)
    )


def void_leg(ctx: Context, order: Order, leg: Leg, reason: LegEnd) -> None:
    """End a leg that has a void round or a wrong hand-over. If the leg has already ended, it keeps its first reason.

    The validator is excluded from the order only if it is at fault. It is not excluded if only a provider was wrong, or
    if it is unknown which party was wrong. If the leg ended by a provider's fault, and then an earlier round is void by
    the validator's fault, this is the reason: otherwise the validator would continue the order without an auction.
    """
    if leg.is_live:
        _break_off(ctx, leg, reason)
        if reason in _VALIDATORS_FAULTS:
            order = _count_failure(ctx, exclude(ctx, order, leg.validator), leg)
        elif reason is not LegEnd.WRONG_SHARE:
            order = ORDERS.update(ctx.store, order.id, failures=order.failures + 1)
    elif leg.end_reason == LegEnd.WRONG_SHARE and reason in _VALIDATORS_FAULTS:
        LEGS.update(ctx.store, leg.order_id, leg.number, end_reason=int(reason))
        order = _count_failure(ctx, exclude(ctx, order, leg.validator), leg)
        _emit_failed(ctx, leg, reason)
    ROUND_LEFT(ctx, order)


def on_accept(ctx: Context, entry: QueueEntry) -> None:
    """End a match that was not accepted in time."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    leg = LEGS.must(ctx.store, order.id, entry.number(1))
    if is_paused(ctx, order.id):
        return  # the end of the pause moves the deadline
    if leg.state is LegState.MATCHED and ctx.clock >= leg.accept_deadline:
        miss_accept(ctx, order, leg)


def on_progress(ctx: Context, entry: QueueEntry) -> None:
    """End a running leg that made no progress."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    leg = LEGS.must(ctx.store, order.id, entry.number(1))
    if leg.state is not LegState.RUNNING or is_paused(ctx, order.id):
        return
    if ctx.clock < leg.progress_deadline:
        return
    if is_far_ahead(order, leg) or any(HELD_BACK(ctx, leg)):
        # No round may close before another one is verified, or replicas have not committed yet. So the leg cannot make
        # progress now.
        restart_progress(ctx, order, leg)
    else:
        fail_leg(ctx, order, leg, LegEnd.NO_PROGRESS)


def on_overdue(ctx: Context, order: Order) -> None:
    """End the leg of an order whose deadline has passed."""
    leg = LEGS.must(ctx.store, order.id, order.legs)
    if leg.state is LegState.MATCHED:
        miss_accept(ctx, order, leg)
    elif leg.state is LegState.RUNNING:
        fail_leg(ctx, order, leg, LegEnd.ORDER_DEADLINE)


def _is_unserved(ctx: Context, order: Order, failures: int) -> bool:
    """Return whether an order has failed too often to open again; ``failures`` are its failed legs.

    Declines that blame the job are counted apart from other failures. These declines close the order in two cases: if
    enough validators blame the job, or if every other validator of the set is also excluded from the order.
    """
    blaming = _get_blaming(ctx, order)
    if failures - len(blaming) >= order.params.max_attempts:
        return True
    if not blaming:
        return False
    stakes = {validator.operator: validator.stake for validator in get_active(ctx.store)}
    if all(operator in order.excluded for operator in stakes):
        return True
    return is_blamed_enough(blaming, stakes, order.params)


def _get_blaming(ctx: Context, order: Order) -> list[str]:
    """Return the validators that declined the order and blamed its job. A validator can decline an order only once."""
    return [leg.validator for leg in LEGS.scan(ctx.store, order.id) if leg.end_reason in BLAMES_JOB]


def _count_failure(ctx: Context, order: Order, leg: Leg) -> Order:
    failed = VALIDATORS.must(ctx.store, leg.validator).legs_failed
    VALIDATORS.update(ctx.store, leg.validator, legs_failed=failed + 1)
    return ORDERS.update(ctx.store, order.id, failures=order.failures + 1)


def _close_bid_of(ctx: Context, leg: Leg, reason: str) -> None:
    bid = BIDS.get(ctx.store, leg.bid_id)
    if bid is not None:
        close_bid(ctx, bid, reason)
