"""Seats of panels: their commitments and answers, and their pay and losses (protocol sections 5.2 and 5.5).

A seat whose answer for a place agrees with the ruling gets the cost of the place, and the answer fee once. A silent
seat loses the amount that it would have earned. A seat that the ruling refutes loses a multiple of that amount. A part
of the seat's stake bounds both losses. A seat that found a place unavailable loses nothing, and earns at most the
answer fee. The round's audit fee pays the seats of the first stage. Seats of later stages are paid from these sources,
in this order: the losses of other seats; the part of the audit fee that no seat earned; the bonds of the parties whose
claims were wrong; a slash of the validator; and the community pool, up to the audit fee.

If a round becomes void, its seats are paid, too, for answers with a digest. The parties at fault pay these seats. If no
party is at fault, the community pool pays them, but only at the least price of audits, because the parties of an order
choose the order's price.
"""

from dataclasses import dataclass, replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.balances import apply_transfer
from chain.state_machine.ledger.order_money import cut_bond, get_bond, pay_from_deposits
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.appeals import end_appeal
from chain.state_machine.proof.gas import SEAT_GAS, VOTE_GAS
from chain.state_machine.proof.lots import drop_lot
from chain.state_machine.proof.room import leave_room, move_panel, take_room
from chain.state_machine.proof.tables import (
    AUDIT_STAGE,
    BEHIND_PANELS,
    PANEL_DUTIES,
    PANEL_POTS,
    PANELS,
    ROUNDS,
    SEATS,
    SHARES,
    STAGE_DUE,
    PanelSubject,
)
from chain.state_machine.queue import cancel, schedule
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.staking.cuts import cut_stake, get_payable
from domain.amount import price_floor
from domain.keys import PanelKey
from domain.ledger.moves import COMMUNITY_POT
from domain.ledger.records import BondRow
from domain.legs.moves import COMPENSATION
from domain.legs.records import Leg
from domain.market.records import Order
from domain.moves import Transfer
from domain.proof.events import (
    AnswerCommitted,
    AnswerRevealed,
    LeafShown,
    PanelEnded,
    SeatDiffered,
    SeatPaid,
    SeatRevealed,
)
from domain.proof.moves import AUDITOR, CUT, CUT_BURN, CUT_SHARE, POOL_SHARE, PROTOCOL
from domain.proof.records import Panel, PanelSeat, Ruling, SeatAnswer
from domain.proof.transitions import PanelStep
from pol.rules.panels import audit_price, panel_fee, seat_cut, seat_cut_max
from pol.rules.schedule import served_terms
from pol.rules.tiers.table import tier_of
from pol.rules.tiers.tier import AnswerVerdict, Vote

# --- commitments and answers ---------------------------------------------------------------------


def apply_commit(ctx: Context, panel: Panel, seat: PanelSeat, commitment: bytes) -> None:
    """Store a seat's commitment, and free its audit room.

    When every seat of the stage has committed, the time to reveal begins at once.
    """
    SEATS.update(ctx.store, *seat.key, seat.number, commitment=commitment)
    panel = replace(panel, committed=panel.committed + 1)
    if panel.committed == panel.seats - panel.first_seat:
        seconds_left = panel.commits_end - ctx.clock
        cancel(ctx, panel.commits_end, STAGE_DUE, *panel.key)
        panel = replace(panel, commits_end=ctx.clock, reveals_end=panel.reveals_end - seconds_left)
        schedule(ctx, panel.reveals_end, STAGE_DUE, *panel.key)
    PANELS.put(ctx.store, panel)
    ctx.emit(
        AnswerCommitted(
            panel=panel.key,
            auditor=seat.validator,
            stage=panel.stage,
            commitment=commitment,
            commits_end=panel.commits_end,
            reveals_end=panel.reveals_end,
        )
    )
    take_room(ctx, panel, max(0, panel.load - 1))


def apply_reveal(
    ctx: Context,
    panel: Panel,
    seat: PanelSeat,
    answers: tuple[SeatAnswer, ...],
    shown: tuple[tuple[int, bytes], ...],
) -> None:
    """Store a seat's answers and the roots that its leaves show.

    When all committed seats have revealed, end the stage.
    """
    key = panel.key
    auditor = seat.validator
    stage = panel.stage
    SEATS.update(ctx.store, *key, seat.number, answers=answers, revealed=True)
    PANEL_DUTIES.delete(ctx.store, auditor, *key)
    for answer in answers:
        ctx.emit(
            AnswerRevealed(
                panel=key,
                auditor=auditor,
                stage=stage,
                place=answer.place,
                kind=int(answer.kind),
                root=answer.root,
                digest=answer.digest,
                step=answer.step,
                earlier=answer.earlier,
            )
        )
    places = list(panel.places)
    for number, claim in shown:
        places[number] = replace(places[number], claim=claim)
        ctx.emit(LeafShown(key, number, claim))
    panel = replace(panel, places=tuple(places), revealed=panel.revealed + 1)
    if panel.revealed == panel.committed:
        cancel(ctx, panel.reveals_end, STAGE_DUE, *key)
        panel = replace(panel, reveals_end=ctx.clock)
        schedule(ctx, ctx.clock, STAGE_DUE, *key)
    PANELS.put(ctx.store, panel)
    ctx.emit(SeatRevealed(panel=key, auditor=auditor, stage=stage, reveals_end=panel.reveals_end))


def get_votes(seats: list[PanelSeat], place: int) -> list[Vote]:
    """Return the votes on a place, from the seats whose duty includes it, in the order of seats."""
    return [Vote(seat.stage, seat.stake, seat.answer(place)) for seat in seats if place in seat.places]


# --- money ---------------------------------------------------------------------------------------


def weigh_panel(panel: Panel) -> int:
    """Return the gas of settling a panel; it depends on the answers to read and on the seats to pay or cut."""
    return panel.seats * (SEAT_GAS + VOTE_GAS * len(panel.places))


def cut_seat(
    ctx: Context,
    order: Order,
    leg: Leg,
    panel: Panel,
    seat: PanelSeat,
    places: tuple[int, ...],
    times: int,
    least: int = 0,
) -> int:
    """Move a seat's loss for ``places`` from its stake into the panel's pot, and return the amount.

    The loss is ``times`` the pay for the places, and at least ``least``. All losses of a validator in a panel together
    are at most ``seat_cut_max_bps`` of the stake that it had when its first seat was drawn.
    """
    key = panel.key
    own = [other for other in SEATS.scan(ctx.store, *key) if other.validator == seat.validator]
    most = seat_cut_max(order.params, own[0].stake) - sum(other.cut for other in own)
    price = audit_price(order.params, leg.price)
    tier = tier_of(leg)
    pay = sum(tier.cost(order.terms, panel.places[number].place.kind, price) for number in places)
    loss = max(0, min(seat_cut(order.params, pay, times, least), most))
    cut = get_payable(ctx.store, seat.validator, loss, leg.matched_at)
    cut_stake(ctx, seat.validator, cut, leg.matched_at, CUT)
    SEATS.update(ctx.store, *key, seat.number, cut=seat.cut + cut)
    PANEL_POTS.set(ctx.store, PANEL_POTS.get(ctx.store, *key) + cut, *key)
    return cut


@dataclass(slots=True)
class Purse:
    """The amounts (uassay) from which the seats of a panel are paid, by source."""

    fee: int = 0
    pot: int = 0
    bond: int = 0
    slash: int = 0
    pool: int = 0
    appeal: int = 0

    def take(self, amount: int, *sources: str) -> dict[str, int]:
        """Return the part of ``amount`` that each source pays; a source is used up before the next one pays.

        If the sources together have less than ``amount``, the sum of the parts is less too.
        """
        parts = {}
        for source in sources:
            part = min(amount, getattr(self, source))
            setattr(self, source, getattr(self, source) - part)
            parts[source] = part
            amount -= part
        return parts


_WITH_FEE = frozenset((AnswerVerdict.RIGHT, AnswerVerdict.UNKNOWN, AnswerVerdict.ABSTAINED_RIGHTLY))
_FIRST = ("fee", "pot", "bond", "slash", "pool")
_FURTHER = ("pot", "fee", "bond", "slash", "pool")
_OF_APPEAL = ("appeal", *_FURTHER)


def settle_panel(
    ctx: Context,
    order: Order,
    panel: Panel,
    fee: int = 0,
    losers: tuple[BondRow, ...] = (),
    *,
    undecided: bool = False,
    slash: int = 0,
    appeal: BondRow | None = None,
) -> None:
    """Pay the seats of a panel that is over, and cut the seats that a ruling refutes.

    Call it once per panel, and once more after a vote on a slash. The second call pays only the seats of that vote. It
    also cuts those seats of earlier stages that the vote refutes and that have lost nothing before.

    ``fee`` is the audit fee of a verified round, paid from the deposit; the part that no seat earned goes to the
    community pool. ``losers`` are the bonds of the parties that are at fault if the round is void. A void round is
    ``undecided`` if no party is at fault. ``slash`` is the part of the panel's pot that comes from a slash; it pays
    after the bonds. ``appeal`` is the bond of an appeal that did not succeed; it pays the seats of the last stage,
    before all other sources.
    """
    key = panel.key
    leg = LEGS.must(ctx.store, order.id, panel.leg)
    seats = SEATS.scan(ctx.store, *key)
    verdicts = _judge_seats(order, leg, panel, seats)
    # The panels of a void round are paid one after the other, so a bond may have paid already.
    losers = tuple(row for row in (get_bond(ctx, order.id, row) for row in losers) if row is not None)
    price = price_floor(_get_work(ctx, panel), leg.price) // max(1, order.params.auditors)
    for seat, verdict in zip(seats, verdicts, strict=True):
        is_paid = panel.for_slash and seat.stage != panel.stage
        if verdict.refuted and not (is_paid and seat.cut):
            cut = cut_seat(ctx, order, leg, panel, seat, verdict.refuted, tier_of(leg).penalty, price)
            ctx.emit(SeatDiffered(panel=key, auditor=seat.validator, stage=seat.stage, places=verdict.refuted, cut=cut))
        elif seat.answers and not is_paid:
            answered = VALIDATORS.must(ctx.store, seat.validator).audits_answered
            VALIDATORS.update(ctx.store, seat.validator, audits_answered=answered + 1)
    pool = fee
    if undecided:
        params = tier_of(leg).paid(order.params)
        pool = panel_fee(served_terms(order.terms, leg), params, 0, len(panel.wanted))
    purse = Purse(
        fee=fee,
        pot=PANEL_POTS.get(ctx.store, *key) - slash,
        bond=sum(row.amount for row in losers),
        slash=slash,
        pool=min(pool, POTS.get(ctx.store, COMMUNITY_POT.name)),
        appeal=appeal.amount if appeal is not None else 0,
    )
    from_fee, from_bonds, from_appeal = [], [], []
    source = order.id.hex()
    for seat, verdict in zip(seats, verdicts, strict=True):
        if not verdict.earned or (panel.for_slash and seat.stage != panel.stage):
            continue
        further = _OF_APPEAL if seat.stage == panel.stage else _FURTHER
        parts = purse.take(verdict.earned, *(_FIRST if seat.stage == 1 else further))
        name = seat.validator
        from_appeal.append(Transfer(move=COMPENSATION, source=source, target=name, amount=parts.get("appeal", 0)))
        from_fee.append(Transfer(move=AUDITOR, source=source, target=name, amount=parts["fee"]))
        from_bonds.append(Transfer(move=COMPENSATION, source=source, target=name, amount=parts["bond"]))
        from_pot = parts["pot"] + parts["slash"]
        apply_transfer(ctx, Transfer(move=CUT_SHARE, source="", target=name, amount=from_pot))
        apply_transfer(ctx, Transfer(move=POOL_SHARE, source="", target=name, amount=parts["pool"]))
        paid = sum(parts.values())
        ctx.emit(
            SeatPaid(
                panel=key,
                auditor=name,
                stage=seat.stage,
                paid=paid,
                from_pot=from_pot,
                from_pool=parts["pool"],
            )
        )
    from_fee.append(Transfer(move=PROTOCOL, source=source, target="", amount=purse.fee))
    pay_from_deposits(ctx, order.id, from_fee, key.round)
    _pay_from_bonds(ctx, order.id, losers, from_bonds)
    if appeal is not None:
        cut_bond(ctx, order.id, appeal, from_appeal)
    burnt = purse.pot + purse.slash
    apply_transfer(ctx, Transfer(move=CUT_BURN, source="", target="", amount=burnt))
    PANEL_POTS.delete(ctx.store, *key)
    ctx.emit(PanelEnded(key, burnt))


def count_earned(ctx: Context, order: Order, panel: Panel) -> int:
    """Return the sum (uassay) that the seats of a decided panel earn."""
    leg = LEGS.must(ctx.store, order.id, panel.leg)
    return sum(verdict.earned for verdict in _judge_seats(order, leg, panel, SEATS.scan(ctx.store, *panel.key)))


def _get_work(ctx: Context, panel: Panel) -> int:
    """Return the work (FLOPs) that a panel decides about: that of its round, or of the share of a stand."""
    if panel.standing is None:
        return ROUNDS.must(ctx.store, *panel.round_key).work
    return SHARES.must(ctx.store, *panel.round_key.share(panel.standing.slot, panel.standing.issue)).work


@dataclass(slots=True)
class _Verdict:
    """The consequences of the rulings for a seat: its earnings (uassay), and the places whose rulings refute it."""

    earned: int = 0
    refuted: tuple[int, ...] = ()
    has_fee: bool = False


def _judge_seats(order: Order, leg: Leg, panel: Panel, seats: list[PanelSeat]) -> list[_Verdict]:
    """Return the verdict on each seat."""
    tier = tier_of(leg)
    price = audit_price(order.params, leg.price)
    verdicts = [_Verdict() for _ in seats]
    for number, place in enumerate(panel.places):
        if panel.for_slash and place.stage != panel.stage:
            continue  # the vote on the slash was not about this place
        cost = tier.cost(order.terms, place.place.kind, price)
        asked = [seat for seat in seats if number in seat.places]
        # A place whose appeal is not decided has no ruling.
        finding = place.finding if place.ruling is not Ruling.OPEN else None
        decided_last = panel.is_last and place.stage == panel.stage
        for seat, found in zip(asked, tier.judge(get_votes(asked, number), finding, decided_last), strict=True):
            verdict = verdicts[seat.number]
            if found is AnswerVerdict.RIGHT:
                verdict.earned += cost
            if found in _WITH_FEE:
                verdict.has_fee = True
            # If an appeal could not be decided, the first ruling stays, but it refutes no seat of the last stage.
            if found is AnswerVerdict.REFUTED and seat.stage <= place.stage:
                verdict.refuted = (*verdict.refuted, number)
    for verdict in verdicts:
        # A seat earns the answer fee only if at least one place shows that the seat was right, and no place shows that
        # it was wrong.
        if verdict.has_fee and not verdict.refuted:
            verdict.earned += order.params.answer_fee
    return verdicts


def _pay_from_bonds(ctx: Context, order_id: bytes, rows: tuple[BondRow, ...], moves: list[Transfer]) -> None:
    """Pay seats from bonds, one bond after the other."""
    unpaid = [move for move in moves if move.amount]
    for row in rows:
        free = row.amount
        payments = []
        while unpaid and free:
            part = min(free, unpaid[0].amount)
            payments.append(replace(unpaid[0], amount=part))
            free -= part
            rest = unpaid[0].amount - part
            unpaid = [replace(unpaid[0], amount=rest), *unpaid[1:]] if rest else unpaid[1:]
        if payments:
            cut_bond(ctx, order_id, row, payments)


def stop_panel(ctx: Context, key: PanelKey, losers: tuple[BondRow, ...], *, undecided: bool) -> None:
    """End the panel of a void round in any stage, and pay its seats as :func:`settle_panel` says."""
    panel = PANELS.get(ctx.store, *key)
    if panel is None:
        return
    if panel.is_open:
        for seat in SEATS.scan(ctx.store, *key):
            PANEL_DUTIES.delete(ctx.store, seat.validator, *key)
        for time in (panel.commits_end, panel.reveals_end):
            cancel(ctx, time, STAGE_DUE, *key)
    for stage in (AUDIT_STAGE, panel.stage + 1):
        drop_lot(ctx, PanelSubject(key, stage))
    BEHIND_PANELS.delete(ctx.store, *key, panel.stage + 1)
    order = ORDERS.must(ctx.store, key.order_id)
    leave_room(ctx, order, panel)
    end_appeal(ctx, key)
    if not panel.is_settled:
        move_panel(ctx, PANELS.must(ctx.store, *key), PanelStep.STOP, is_open=False, is_settled=True)
        settle_panel(ctx, order, panel, losers=losers, undecided=undecided)
