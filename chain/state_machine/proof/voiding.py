"""Rounds that become void because a panel ruled against the chain, or could not decide (protocol section 5.3).

The round and all later rounds of its leg become void, one by one, and the leg fails.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_appeal_bond
from chain.state_machine.legs.ends import void_leg
from chain.state_machine.legs.money import cut_for_consumer
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.holds import extend_deadline
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.appeals import end_appeal
from chain.state_machine.proof.covers import burn_halves, open_fund
from chain.state_machine.proof.hooks import DISPUTE_RULED, FINDER, REWARDED, SHARES_REFUTED
from chain.state_machine.proof.liability import (
    count_bonds,
    get_losers,
    get_slashable,
    get_wrong_shares,
    is_by_validator,
)
from chain.state_machine.proof.refuted import get_disproved_providers, get_wrong
from chain.state_machine.proof.room import move_panel
from chain.state_machine.proof.rounds import void_round
from chain.state_machine.proof.seats import settle_panel
from chain.state_machine.proof.settlement import advance
from chain.state_machine.proof.shares import count_share
from chain.state_machine.proof.slashes import open_slash_vote, slash_at_once
from chain.state_machine.proof.tables import PANELS, ROUNDS, VOID_DUE, WRONG_PROVIDERS
from chain.state_machine.queue import QueueEntry, schedule
from domain.amount import BPS
from domain.keys import PanelKey, RoundKey
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg
from domain.market.records import Order
from domain.moves import Transfer
from domain.proof.events import ShareFoundWrong
from domain.proof.moves import FINDER_REWARD
from domain.proof.records import Panel
from domain.proof.transitions import PanelStep


def will_be_void(ctx: Context, leg: Leg, panel: Panel) -> bool:
    """Return whether the queue will make a panel's round void, because an earlier round is void. It then stops the
    panel.

    A ruling of the panel must have no effect before that: it would make the round void a second time.
    """
    if panel.standing is not None or panel.for_slash:
        return False
    return any(ROUNDS.must(ctx.store, leg.order_id, leg.number, at).void for at in range(leg.next_round, panel.round))


def end_void(ctx: Context, order: Order, panel: Panel) -> None:
    """Make a round void, and fail its leg, because a place is wrong or remained undecided.

    If a segment outside the validator's duty is wrong, the provider of its share loses the share's bond, of which half
    is burnt at once. For any other wrong place the validator loses the job bond. These bonds pay the seats of this
    panel first. Then they pay the seats of the later rounds' panels, which become void one by one (:func:`on_void`).
    At last they pay the consumer; if only providers are at fault, right shares come before it
    (:mod:`chain.state_machine.proof.covers`). If all places are right or undecided, no one loses a bond, and the
    community pool pays the seats.

    If this was the last stage, it may also slash the validator. After an earlier stage, a vote on the slash follows
    when all later rounds are void. If the last stage decided an appeal, the bond of the appeal pays the seats of this
    stage. It is lost if this stage found a place wrong again.
    """
    key = panel.round_key
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    wrong = get_wrong(panel)
    shares = get_wrong_shares(ctx, panel)
    for share in shares:
        count_share(ctx, share.claim.provider, accepted=-1, rejected=1)
        WRONG_PROVIDERS.mark(ctx.store, key.order_id, key.leg, share.claim.provider)
        ctx.emit(ShareFoundWrong(share.key, share.claim.provider))
    SHARES_REFUTED(ctx, get_disproved_providers(ctx, panel))
    by_validator = is_by_validator(ctx, panel)
    rewarded = burn_halves(ctx, order.id, shares, _get_reward(ctx, leg, panel, if_by_validator=False))
    move_panel(ctx, PANELS.must(ctx.store, *panel.key), PanelStep.STOP, is_settled=True)
    slash = slash_at_once(ctx, order, leg, panel) if panel.is_last and get_slashable(ctx, panel) else 0
    appeal = get_appeal_bond(ctx, panel.key)
    losers = get_losers(ctx, panel)
    settle_panel(ctx, order, panel, losers=losers, undecided=not wrong, slash=slash, appeal=appeal)
    end_appeal(ctx, panel.key, lost=any(place.stage == panel.stage for place in wrong))
    if panel.dispute:
        DISPUTE_RULED(ctx, panel)
    if rewarded:
        REWARDED(ctx, panel.key, rewarded)
    void_round(ctx, key, get_losers(ctx, panel), undecided=not wrong, by_validator=by_validator)
    if wrong and not by_validator:
        # A provider's fault takes no time from the order.
        left = ROUNDS.must(ctx.store, *key).time_left
        extend_deadline(ctx, ORDERS.must(ctx.store, order.id), ctx.clock + left)
    reason = LegEnd.WRONG_ROUND if by_validator else LegEnd.WRONG_SHARE
    void_leg(ctx, order, leg, reason if wrong else LegEnd.UNDECIDED)
    _go_on_voiding(ctx, key, panel.key)


def on_void(ctx: Context, entry: QueueEntry) -> None:
    """Make the next round of a leg void, and pay the seats that answered for it."""
    key = entry.round_key
    origin = replace(key, round=entry.number(3)).panel(entry.number(4))
    panel = PANELS.must(ctx.store, *origin)
    by_validator = is_by_validator(ctx, panel)
    void_round(ctx, key, get_losers(ctx, panel), undecided=not get_wrong(panel), by_validator=by_validator)
    _go_on_voiding(ctx, key, origin)


def _go_on_voiding(ctx: Context, key: RoundKey, origin: PanelKey) -> None:
    """Schedule the next round that becomes void because ``origin`` did.

    If no round is left, pay the consumer from the bonds of the parties at fault, or let the bonds of wrong shares wait
    for right ones. Let validators vote on a slash, and continue with the order.
    """
    following = replace(key, round=key.round + 1)
    closed = ROUNDS.get(ctx.store, *following)
    if closed is not None and not closed.void:
        schedule(ctx, ctx.clock, VOID_DUE, *following, origin.round, origin.dispute)
        return
    order = ORDERS.must(ctx.store, key.order_id)
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    panel = PANELS.must(ctx.store, *origin)
    if is_by_validator(ctx, panel):
        reward = _get_reward(ctx, leg, panel, if_by_validator=True)
        paid = cut_for_consumer(ctx, order, leg, get_losers(ctx, panel), reward)
        if paid:
            REWARDED(ctx, origin, paid)
    elif get_wrong(panel):
        open_fund(ctx, order, leg, get_wrong_shares(ctx, panel))
    if not panel.is_last:
        open_slash_vote(ctx, order, leg, panel, get_slashable(ctx, panel))
    advance(ctx, order)


def _get_reward(ctx: Context, leg: Leg, panel: Panel, *, if_by_validator: bool) -> Transfer:
    """Return the reward of the party that found a place wrong; it is 0 if no one did.

    It is paid at one of two times: at once if only providers are at fault, otherwise with the consumer's compensation.
    """
    finder = next((found for found in FINDER(ctx, panel.key) if found is not None), None)
    is_now = is_by_validator(ctx, panel) == if_by_validator
    amount = finder.bps * count_bonds(ctx, leg, panel) // BPS if finder is not None and is_now else 0
    address = finder.address if finder is not None else ""
    return Transfer(move=FINDER_REWARD, source=leg.order_id.hex(), target=address, amount=amount)
