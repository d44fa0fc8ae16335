"""Payments for right shares whose rounds became void by another provider's fault (docs/decisions/cover.md).

Half of a wrong share's bond is burnt, and the other half pays the seats first. The rest waits in a fund until all
providers of void shares have had time to stand for them. Shares that stand and are found right are then paid together.
First the fund pays them in proportion to what they would have earned. Then the job bond pays them up to the cover that
their tasks stated. The rest of the fund makes good the consumer's loss or is burnt. The rest of the job bond returns.
"""

from dataclasses import replace
from itertools import islice

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import BOND_GAS, PAY_GAS
from chain.state_machine.ledger.order_money import cut_bond, get_job_bond, get_share_bond
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.legs.money import cut_for_consumer, reserve_loss
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.orders import is_ending
from chain.state_machine.market.tables import CLOSE_DUE, ORDERS
from chain.state_machine.proof.tables import FUND_DUE, ROUNDS, SHARES, VOID_CLAIMS, VOID_FUNDS, VoidFund
from chain.state_machine.queue import QueueEntry, schedule
from chain.state_machine.tables import number_of
from domain.amount import bps_floor
from domain.keys import ShareKey
from domain.ledger.records import BondRow
from domain.legs.moves import BURN, COMPENSATION
from domain.legs.records import Leg
from domain.market.records import Order, OrderState
from domain.moves import Transfer
from domain.proof.events import VoidSharePaid
from domain.proof.records import Round, Share
from escrow.settle import cover_part, fund_part, split_share_bond, unpaid_part
from pol.rules.cover import earned_by_share
from pol.rules.stands import stand_until

PAID_PER_CALL = 32
"""Most right shares that are paid in one step; the queue pays the rest in later steps."""


def burn_halves(ctx: Context, order_id: bytes, shares: list[Share], reward: Transfer) -> int:
    """Burn half of the bonds of wrong shares, except for a reward, and return the part of it (uassay) that was paid."""
    rewarded = 0
    for share in shares:
        row = get_share_bond(ctx, share.key)
        if row is None:
            continue
        burnt, _ = split_share_bond(row.amount)
        part = min(burnt, reward.amount - rewarded)
        rewarded += part
        burn = Transfer(move=BURN, source=order_id.hex(), target="", amount=burnt - part)
        cut_bond(ctx, order_id, row, (replace(reward, amount=part), burn))
    return rewarded


# --- the fund of a leg ---------------------------------------------------------------------------


def open_fund(ctx: Context, order: Order, leg: Leg, shares: list[Share]) -> None:
    """Let what is left of the bonds of wrong ``shares`` wait for right shares of the rounds that became void.

    If no other share of the leg became void, pay the consumer at once.
    """
    keys = tuple(share.key for share in shares)
    first = min(key.round for key in keys)
    before = VOID_FUNDS.get(ctx.store, order.id, leg.number)
    void = sum(len(closed.shares) for closed in _get_void(ctx, leg, first))
    if before is None and void == len(shares):
        rows = [get_share_bond(ctx, key) for key in keys]
        cut_for_consumer(ctx, order, leg, rows, Transfer(move=BURN, source=order.id.hex(), target="", amount=0))
        return
    bonds = sum(row.amount for row in _get_bonds(ctx, keys))
    until = stand_until(ctx.clock, order.window, order.params.stand_wait)
    loss = reserve_loss(ctx, order, bonds)
    if before is None:
        count_stands(ctx, order.id, 1)
        tally = TALLIES.must(ctx.store, order.id)
        TALLIES.update(ctx.store, order.id, funds=tally.funds + 1)
        fund = VoidFund(order_id=order.id, leg=leg.number, first=first, wrong=keys, until=until, loss=loss)
    else:
        fund = replace(
            before,
            first=min(first, before.first),
            wrong=tuple(sorted({*before.wrong, *keys})),
            until=until,
            loss=before.loss + loss,
        )
    VOID_FUNDS.put(ctx.store, fund)
    schedule(ctx, until, FUND_DUE, order.id, leg.number)


def is_in_fund(ctx: Context, order_id: bytes, row: BondRow) -> bool:
    """Return whether a bond is that of a wrong share, and may still have to pay right shares."""
    fund = VOID_FUNDS.get(ctx.store, order_id, row.leg)
    return fund is not None and row.share(order_id) in fund.wrong


def get_cover(ctx: Context, leg: Leg, continues: bool) -> int:
    """Return the most (uassay) that the job bond of a leg may have to pay for right shares of its void rounds.

    If the leg's validator ``continues``, it takes over the shares of the first void round.
    """
    fund = VOID_FUNDS.get(ctx.store, leg.order_id, leg.number)
    if fund is None:
        return 0
    rounds = _get_void(ctx, leg, fund.first)
    if continues and rounds and rounds[0].round == leg.next_round:
        rounds = rounds[1:]
    order = ORDERS.must(ctx.store, leg.order_id)
    top = max((closed.cover for closed in rounds), default=0)
    owed = sum(earned_by_share(order, leg, closed.work) for closed in rounds)
    return min(bps_floor(leg.job_bond, top), owed)


def _get_void(ctx: Context, leg: Leg, first: int) -> list[Round]:
    """Return the void rounds of a leg from round ``first`` on."""
    numbers = range(first, leg.first_round + leg.closed)
    rounds = (ROUNDS.must(ctx.store, leg.order_id, leg.number, number) for number in numbers)
    return [closed for closed in rounds if closed.void and not closed.by_validator]


def on_continued(ctx: Context, order: Order, failed: Leg, _: Leg) -> None:
    """Note that the validator of a failed leg continues, and end its fund at once if no other round became void."""
    fund = VOID_FUNDS.get(ctx.store, order.id, failed.number)
    if fund is None:
        return
    is_last = all(closed.round <= failed.next_round for closed in _get_void(ctx, failed, fund.first))
    until = ctx.clock if is_last else fund.until
    VOID_FUNDS.put(ctx.store, replace(fund, was_continued=True, until=until))
    schedule(ctx, until, FUND_DUE, order.id, failed.number)


def count_stands(ctx: Context, order_id: bytes, change: int) -> None:
    """Add to the number of stands of an order; after the last one, continue with the end of an order that waits."""
    tally = TALLIES.must(ctx.store, order_id)
    tally = TALLIES.update(ctx.store, order_id, stands=tally.stands + change)
    if tally.ending and not tally.stands:
        schedule(ctx, max(ctx.clock, tally.stands_until), CLOSE_DUE, order_id)


# --- stands --------------------------------------------------------------------------------------


def may_claim(ctx: Context, order: Order, leg: Leg, closed: Round) -> bool:
    """Return whether providers may stand for right shares of a void round, so that the fund of its leg pays them.

    The shares of the first void round can claim nothing if the next leg takes them over.
    """
    fund = VOID_FUNDS.get(ctx.store, order.id, leg.number)
    if fund is None or fund.is_paying or not closed.void or closed.by_validator:
        return False
    if not fund.first <= closed.round < leg.round:
        return False  # it is not void by a provider's fault, or it was never closed
    if closed.round != leg.next_round:
        return True
    return _is_cleared(ctx, order, leg) and not fund.was_continued


def _is_cleared(ctx: Context, order: Order, leg: Leg) -> bool:
    """Return whether it is decided how an order goes on after a failed leg."""
    return order.legs > leg.number or order.state in (OrderState.OPEN, OrderState.CLOSED) or is_ending(ctx, order)


def get_fund_bonds(ctx: Context, order_id: bytes, leg: int) -> tuple[BondRow, ...]:
    """Return the bonds of wrong shares that wait in the fund of a leg."""
    fund = VOID_FUNDS.get(ctx.store, order_id, leg)
    return _get_bonds(ctx, fund.wrong) if fund is not None else ()


def _get_bonds(ctx: Context, keys: tuple[ShareKey, ...]) -> tuple[BondRow, ...]:
    rows = (get_share_bond(ctx, key) for key in keys)
    return tuple(row for row in rows if row is not None)


def note_stand(ctx: Context, key: ShareKey, change: int) -> None:
    """Add to the number of providers that stand for void shares of a leg; after the last one, the fund may pay."""
    fund = VOID_FUNDS.must(ctx.store, key.order_id, key.leg)
    fund = VOID_FUNDS.update(ctx.store, key.order_id, key.leg, stands=fund.stands + change)
    if not fund.stands and ctx.clock >= fund.until:
        schedule(ctx, ctx.clock, FUND_DUE, key.order_id, key.leg)


def add_claim(ctx: Context, order: Order, leg: Leg, share: Share) -> None:
    """Let the fund of a leg pay a right share."""
    value = earned_by_share(order, leg, share.work)
    fund = VOID_FUNDS.must(ctx.store, order.id, leg.number)
    cover = share.claim.cover
    VOID_FUNDS.put(
        ctx.store,
        replace(
            fund,
            right=fund.right + value,
            covered=fund.covered + (value if cover else 0),
            top=max(fund.top, cover),
        ),
    )
    VOID_CLAIMS.set(ctx.store, value, *share.key)


# --- payment -------------------------------------------------------------------------------------


def on_fund(ctx: Context, entry: QueueEntry) -> None:
    """Pay the next right shares of a leg; after the last one, pay the consumer, and return the rest of the job bond."""
    key = (entry.parts[0], entry.number(1))
    fund = VOID_FUNDS.get(ctx.store, *key)
    if fund is None or ctx.clock < fund.until or fund.stands:
        return
    leg = LEGS.must(ctx.store, *key)
    if not fund.is_paying:
        row = get_job_bond(ctx, *key)
        bonds = sum(bond.amount for bond in _get_bonds(ctx, fund.wrong))
        fund = replace(fund, is_paying=True, from_bonds=bonds, from_job=row.amount if row is not None else 0)
        VOID_FUNDS.put(ctx.store, fund)
    claims = list(islice(VOID_CLAIMS.scan(ctx.store, *key), PAID_PER_CALL))
    for (_, __, *numbers), value in claims:
        round, slot, issue = (number_of(number) for number in numbers)
        share = ShareKey(order_id=fund.order_id, leg=fund.leg, round=round, slot=slot, issue=issue)
        _pay_share(ctx, leg, fund, SHARES.must(ctx.store, *share), value)
        VOID_CLAIMS.delete(ctx.store, *share)
    if claims:
        schedule(ctx, ctx.clock, FUND_DUE, *key)
    else:
        _end_fund(ctx, leg, fund)


def weigh_fund(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of one step: of the claims that it pays, or of the end of the fund."""
    key = (entry.parts[0], entry.number(1))
    fund = VOID_FUNDS.get(ctx.store, *key)
    if fund is None:
        return 0
    claims = sum(1 for _ in islice(VOID_CLAIMS.keys(ctx.store, *key), PAID_PER_CALL))
    return (BOND_GAS + 2 * PAY_GAS) * max(claims, len(fund.wrong) + 1)


def _pay_share(ctx: Context, leg: Leg, fund: VoidFund, share: Share, value: int) -> None:
    provider, order_id = share.claim.provider, fund.order_id
    pay = Transfer(move=COMPENSATION, source=order_id.hex(), target=provider, amount=0)
    owed = fund_part(value, fund.right, fund.from_bonds)
    left = owed
    for bond in _get_bonds(ctx, fund.wrong):
        part = min(left, bond.amount)
        left -= part
        cut_bond(ctx, order_id, bond, (replace(pay, amount=part),))
    cover = 0
    row = get_job_bond(ctx, order_id, leg.number)
    if row is not None:
        unpaid = unpaid_part(value, fund.right, fund.from_bonds)
        # The parts are rounded down one by one, so their sum is not above this amount.
        of_all = unpaid_part(fund.covered, fund.right, fund.from_bonds) + 1
        most = (bps_floor(leg.job_bond, share.claim.cover), bps_floor(leg.job_bond, fund.top), fund.from_job)
        cover = min(row.amount, cover_part(unpaid, of_all, *most))
        cut_bond(ctx, order_id, row, (replace(pay, amount=cover),))
    ctx.emit(VoidSharePaid(share.key, provider, value=value, from_bonds=owed - left, from_cover=cover))


def _end_fund(ctx: Context, leg: Leg, fund: VoidFund) -> None:
    """Pay the consumer from what the bonds of wrong shares have left, burn the rest, and return the job bond."""
    order = ORDERS.must(ctx.store, fund.order_id)
    source = order.id.hex()
    loss = fund.loss
    for row in _get_bonds(ctx, fund.wrong):
        paid = min(row.amount, loss)
        loss -= paid
        moves = (
            Transfer(move=COMPENSATION, source=source, target=order.consumer, amount=paid),
            Transfer(move=BURN, source=source, target="", amount=row.amount - paid),
        )
        cut_bond(ctx, order.id, row, moves)
    VOID_FUNDS.delete(ctx.store, order.id, fund.leg)
    tally = TALLIES.must(ctx.store, order.id)
    TALLIES.update(ctx.store, order.id, funds=tally.funds - 1)
    job = get_job_bond(ctx, order.id, fund.leg)
    if job is not None and _is_cleared(ctx, order, leg):
        return_bond(ctx, order.id, job)
    count_stands(ctx, order.id, -1)
