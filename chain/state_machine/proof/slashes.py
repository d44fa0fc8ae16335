"""Slashes of validators whose rounds are wrong, and the votes that decide about them (protocol section 3.5).

Only the last stage of a panel can slash a validator, because all validators that are left vote in it. If an earlier
stage makes a round void, the job bond is lost, and the order goes on. The panel then has one more stage, the last one,
which decides only about the slash. The order does not wait for this vote. The stake that the vote may take is reserved.
The slash pays the seats of the vote. If the validator keeps its stake, the losses of the seats that the vote refutes
pay the other seats, and then the community pool pays them.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import mark_if_bidder, release_slash, reserve_slash
from chain.state_machine.proof.gas import VALIDATOR_GAS
from chain.state_machine.proof.lots import open_lot
from chain.state_machine.proof.room import get_panel_parties, move_panel
from chain.state_machine.proof.seats import settle_panel
from chain.state_machine.proof.tables import JAIL_DUE, PANEL_POTS, PANELS, PanelSubject
from chain.state_machine.queue import QueueEntry, schedule
from chain.state_machine.registry.members import count_fault, release
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.staking.cuts import get_slashable_stake, slash_stake
from chain.state_machine.staking.gas import STAKE_GAS
from chain.state_machine.staking.tables import REDELEGATION_COUNTS, count_bonded
from domain.amount import price_ceil
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.events import SlashVoteEnded, SlashVoteOpened, ValidatorSlashed
from domain.proof.moves import SLASH
from domain.proof.records import Panel, PanelPlace, Ruling
from domain.proof.transitions import PanelStep
from pol.rules.panels import audit_price
from pol.rules.slashes import choose_places, compute_slash
from pol.rules.tiers.table import tier_of


def slash_at_once(ctx: Context, order: Order, leg: Leg, panel: Panel) -> int:
    """Slash the leg's validator for a round that the last stage made void, and return the amount (uassay)."""
    return _slash(ctx, leg, panel, _get_slash(ctx, order, leg, panel))


def _slash(ctx: Context, leg: Leg, panel: Panel, amount: int) -> int:
    """Move a slash from the stake of the leg's validator into the panel's pot, and return the amount.

    All rounds of a leg together count as one fault.
    """
    amount = min(amount, get_slashable_stake(ctx.store, leg.validator, leg.matched_at))
    before = any(other.slash and not other.votes_on_slash for other in _get_others(ctx, leg, panel))
    slash_stake(ctx, leg.validator, amount, leg.matched_at, SLASH)
    PANEL_POTS.set(ctx.store, PANEL_POTS.get(ctx.store, *panel.key) + amount, *panel.key)
    PANELS.update(ctx.store, *panel.key, slash=amount)
    ctx.emit(ValidatorSlashed(panel.key, leg.validator, amount))
    until = 0 if before else count_fault(ctx, leg.validator)
    if until:
        schedule(ctx, until, JAIL_DUE, leg.validator)
    return amount


def open_slash_vote(ctx: Context, order: Order, leg: Leg, panel: Panel, wrong: tuple[int, ...]) -> None:
    """Let all validators that are left vote once more on the places ``wrong`` of a void round. The vote decides only
    about the slash. The rulings that made the round void stay beside those of the vote.

    Do nothing if the slash could not pay for the vote. Places on which the panel has not ruled stay undecided.
    """
    slash = _get_slash(ctx, order, leg, panel)
    price = audit_price(order.params, leg.price)
    cost = tier_of(leg).cost
    costs = [(number, cost(order.terms, panel.places[number].place.kind, price)) for number in wrong]
    voted = choose_places(costs, order.params, panel.eligible, slash)
    if not voted:
        return
    places = tuple(_asked_again(place) if at in voted else _left(place) for at, place in enumerate(panel.places))
    move_panel(
        ctx,
        PANELS.must(ctx.store, *panel.key),
        PanelStep.VOTE,
        places=places,
        wanted=(0,) * len(panel.wanted),
        is_settled=False,
        last_next=True,
        for_slash=True,
        slash=slash,
    )
    reserve_slash(ctx, leg.validator, slash)
    ctx.emit(SlashVoteOpened(panel=panel.key, validator=leg.validator, places=voted, slash=slash))
    parties = get_panel_parties(ctx, order, leg, panel.key)
    open_lot(ctx, PanelSubject(panel.key, panel.stage + 1), parties, order.params.lot_wait)


def end_slash_vote(ctx: Context, order: Order, leg: Leg, panel: Panel, *, slashed: bool) -> None:
    """Slash the validator if the vote was against it, release the stake that was reserved, and pay the seats."""
    release_slash(ctx, leg.validator, panel.slash)
    move_panel(ctx, PANELS.must(ctx.store, *panel.key), PanelStep.END_VOTE, is_settled=True, slash=0)
    ctx.emit(SlashVoteEnded(panel.key, leg.validator, slashed))
    slash = _slash(ctx, leg, panel, panel.slash) if slashed else 0
    # The community pool pays as for a round in which no one is at fault.
    settle_panel(ctx, order, panel, undecided=True, slash=slash)


def on_jail(ctx: Context, entry: QueueEntry) -> None:
    """Release a validator whose jail is over."""
    operator = entry.text(0)
    validator = VALIDATORS.must(ctx.store, operator)
    if validator.jailed and ctx.clock >= validator.jailed_until:
        release(ctx, operator)
        mark_if_bidder(ctx, operator)


def weigh_slash(ctx: Context, operator: str) -> int:
    """Return the gas of a slash, or of opening a vote; both read all validators, and the redelegations from one."""
    moved = REDELEGATION_COUNTS.get(ctx.store, operator)
    return 2 * VALIDATOR_GAS * count_bonded(ctx.store) + 2 * STAKE_GAS * (moved + 1)


def _get_slash(ctx: Context, order: Order, leg: Leg, panel: Panel) -> int:
    """Return the amount (uassay) that the leg's validator would lose now for the round of a panel.

    The stake that may be lost in votes on other rounds of the leg counts as already taken.
    """
    taken = sum(other.slash for other in _get_others(ctx, leg, panel))
    stake = get_slashable_stake(ctx.store, leg.validator, leg.matched_at)
    return compute_slash(order.params, stake, price_ceil(leg.work, leg.price), taken)


def _get_others(ctx: Context, leg: Leg, panel: Panel) -> list[Panel]:
    """Return the other panels of the leg's rounds that are not verified. There are at most ``rounds_ahead`` rounds."""
    now = LEGS.must(ctx.store, leg.order_id, leg.number)
    rounds = (number for number in range(now.next_round, now.round) if number != panel.round)
    found = (other for number in rounds for other in PANELS.scan(ctx.store, leg.order_id, leg.number, number))
    return [*found, *(other for other in PANELS.scan(ctx.store, *panel.round_key) if other.key != panel.key)]


def _asked_again(place: PanelPlace) -> PanelPlace:
    return replace(
        place,
        ruling=Ruling.OPEN,
        stage=0,
        finding=None,
        first_stage=place.stage,
        first_finding=place.finding,
    )


def _left(place: PanelPlace) -> PanelPlace:
    return replace(place, ruling=Ruling.UNDECIDED) if place.ruling is Ruling.OPEN else place
