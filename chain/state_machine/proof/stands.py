"""Providers that stand for a share: the end of the panel that recomputes it, and the bond of a share without a stand.

A panel of its own recomputes places of the share (:mod:`pol.rules.stands`). It holds neither the round nor the order's
next leg. If all places are right, the leg's validator pays the share, and it pays the seats. If one is wrong, the bond
of the provider pays the seats, and the rest is burnt. The same happens to the bond of a share that was rejected as a
mismatch and differs from the accepted one, if its provider does not stand in time.
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import BOND_GAS
from chain.state_machine.ledger.order_money import cut_bond, get_challenge_bond, get_share_bond
from chain.state_machine.market.book import return_bond
from chain.state_machine.proof.covers import add_claim, count_stands, get_fund_bonds, note_stand
from chain.state_machine.proof.hooks import DISPUTE_RULED, SHARES_REFUTED
from chain.state_machine.proof.redress import Redress, pay_redress
from chain.state_machine.proof.refuted import get_disproved_providers
from chain.state_machine.proof.room import move_panel, take_room
from chain.state_machine.proof.seats import settle_panel
from chain.state_machine.proof.shares import change_share, count_share
from chain.state_machine.proof.tables import FORFEIT_DUE, PANEL_POTS, PANELS, ROUNDS, SEATS, SHARES
from chain.state_machine.queue import QueueEntry, schedule
from chain.state_machine.staking.cuts import cut_stake, get_payable
from domain.amount import price_floor
from domain.ledger.records import BondRow
from domain.legs.moves import BURN
from domain.legs.records import Leg
from domain.market.records import Order
from domain.moves import Transfer
from domain.proof.events import ShareFoundWrong, ShareStood
from domain.proof.moves import SLASH
from domain.proof.records import Panel, Round, Ruling, Share, ShareState
from domain.proof.transitions import PanelStep
from pol.rules.cover import earned_by_share
from pol.rules.panels import audit_price
from pol.rules.stands import can_stand, is_left_open, is_mismatch, stand_until
from pol.rules.tiers.table import tier_of


def get_standing(ctx: Context, panel: Panel) -> Share:
    """Return the share that the panel of a stand recomputes."""
    if panel.standing is None:
        raise LookupError("the panel is not about a share whose provider stands for it")
    return SHARES.must(ctx.store, *panel.round_key.share(panel.standing.slot, panel.standing.issue))


# --- the panel is over ---------------------------------------------------------------------------


def end_stand(ctx: Context, order: Order, leg: Leg, panel: Panel) -> None:
    """End the panel of a stand, pay its seats, and let the party that is wrong pay."""
    rulings = {place.ruling for place in panel.places}
    # The validator may have shown meanwhile that the delivery of the share is wrong.
    wrong = Ruling.WRONG in rulings or not can_stand(get_standing(ctx, panel))
    right = rulings == {Ruling.RIGHT} and not wrong
    move_panel(ctx, PANELS.must(ctx.store, *panel.key), PanelStep.END_DISPUTE, is_settled=True)
    take_room(ctx, panel, 0)
    share = get_standing(ctx, panel)
    bond = get_challenge_bond(ctx, panel.key)
    from_fund = is_by_provider(ctx, share)
    to_seats = _take_for_seats(ctx, order, leg, panel) if right and not from_fund else 0
    redress = _pay(ctx, order, leg, share, to_seats) if right and not from_fund else Redress()
    ctx.emit(
        ShareStood(
            panel=panel.key,
            share=share.key,
            provider=share.claim.provider,
            right=right,
            wrong=wrong,
            paid=redress.paid,
            burnt=redress.burnt,
            from_stake=redress.paid_from_stake + redress.burnt_from_stake,
            burnt_from_stake=redress.burnt_from_stake,
            to_seats=to_seats,
        )
    )
    losers: tuple[BondRow, ...] = (bond,) if wrong and bond is not None else ()
    if right and from_fund:
        # The validator is not at fault. If the fund cannot pay the seats, the community pool does.
        losers = get_fund_bonds(ctx, order.id, leg.number)
    is_pooled = from_fund and not wrong
    settle_panel(ctx, order, panel, losers=losers, undecided=is_pooled or not (right or wrong), slash=to_seats)
    if from_fund:
        if right:
            add_claim(ctx, order, leg, share)
        note_stand(ctx, share.key, -1)
    _note(ctx, share, right=right, wrong=wrong)
    SHARES_REFUTED(ctx, get_disproved_providers(ctx, panel))
    DISPUTE_RULED(ctx, panel)
    count_stands(ctx, order.id, -1)


def is_by_provider(ctx: Context, share: Share) -> bool:
    """Return whether a share that stands was accepted, and became void by another provider's fault."""
    if share.state is not ShareState.ACCEPTED:
        return False
    return not ROUNDS.must(ctx.store, share.key.order_id, share.key.leg, share.key.round).by_validator


def _take_for_seats(ctx: Context, order: Order, leg: Leg, panel: Panel) -> int:
    """Move the most that the seats can earn from the validator's stake into the panel's pot; return the amount."""
    price = audit_price(order.params, leg.price)
    cost = tier_of(leg).cost
    costs = [cost(order.terms, place.place.kind, price) for place in panel.places]
    seats = SEATS.scan(ctx.store, *panel.key)
    most = sum(order.params.answer_fee + sum(costs[number] for number in seat.places) for seat in seats)
    amount = get_payable(ctx.store, leg.validator, most, leg.matched_at)
    cut_stake(ctx, leg.validator, amount, leg.matched_at, SLASH)
    PANEL_POTS.set(ctx.store, PANEL_POTS.get(ctx.store, *panel.key) + amount, *panel.key)
    return amount


def _pay(ctx: Context, order: Order, leg: Leg, share: Share, to_seats: int) -> Redress:
    """Let the validator pay the value of a right share to its provider.

    If it had rejected the share, it loses the same amount again. The seats get their part of that, and the rest is
    burnt. If the leg left the share open, its provider gets what it would have earned. Otherwise silent providers could
    let a leg fail, so that other providers of the same owner earn more.
    """
    if is_left_open(share):
        return pay_redress(ctx, leg, share, (earned_by_share(order, leg, share.work), 0))
    value = price_floor(share.work, leg.price)
    burnt = max(0, value - to_seats) if is_mismatch(share) else 0
    return pay_redress(ctx, leg, share, (value, burnt))


def _note(ctx: Context, share: Share, *, right: bool, wrong: bool) -> None:
    """Record the ruling in the share and in the track record of its provider."""
    claim = share.claim
    was_rejected = share.state is not ShareState.ACCEPTED
    if is_left_open(share):
        # It counts neither for nor against its provider so far.
        if right or wrong:
            change_share(ctx, share.key, state=ShareState.RIGHT if right else ShareState.WRONG)
        if wrong:
            count_share(ctx, claim.provider, rejected=1)
    elif right and was_rejected:
        change_share(ctx, share.key, state=ShareState.RIGHT)
        count_share(ctx, claim.provider, rejected=-1)
    elif wrong and was_rejected:
        change_share(ctx, share.key, state=ShareState.WRONG)
    elif wrong:
        count_share(ctx, claim.provider, accepted=-1, rejected=1)
        ctx.emit(ShareFoundWrong(share.key, claim.provider))


# --- a rejected share whose provider does not stand ----------------------------------------------


def forfeit_or_wait(ctx: Context, order: Order, closed: Round, share: Share, bond: BondRow) -> None:
    """Burn the bond of a share that differs from the accepted one, or wait while its provider may stand for it.

    If the share was not rejected as a mismatch, return the bond.
    """
    if not is_mismatch(share):
        return_bond(ctx, order.id, bond)
        return
    until = stand_until(closed.closed_at, order.window, order.params.stand_wait)
    if ctx.clock >= until:
        _forfeit(ctx, share, bond)
    else:
        count_stands(ctx, order.id, 1)
        schedule(ctx, until, FORFEIT_DUE, *share.key)


def is_at_stake(ctx: Context, order_id: bytes, bond: BondRow) -> bool:
    """Return whether a bond is that of a rejected share whose provider may still stand for it."""
    share = SHARES.must(ctx.store, *bond.share(order_id))
    return share.state is ShareState.WRONG and is_mismatch(share)


def on_forfeit(ctx: Context, entry: QueueEntry) -> None:
    """Burn the bond of a rejected share if its provider did not stand for it in time."""
    share = SHARES.must(ctx.store, *entry.round_key.share(entry.number(3), entry.number(4)))
    if share.stand:
        return
    bond = get_share_bond(ctx, share.key)
    if bond is not None:
        _forfeit(ctx, share, bond)
    count_stands(ctx, share.claim.order_id, -1)


def _forfeit(ctx: Context, share: Share, bond: BondRow) -> None:
    order_id = share.claim.order_id
    cut_bond(ctx, order_id, bond, (Transfer(move=BURN, source=order_id.hex(), target="", amount=bond.amount),))


def weigh_forfeit(_: Context, __: QueueEntry) -> int:
    """Return the gas of burning one bond."""
    return BOND_GAS
