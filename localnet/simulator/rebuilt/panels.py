"""The events of panels and their seats."""

from dataclasses import replace

from domain.ledger.records import APPEAL_SLOT, BondKind, BondRow
from domain.proof.events import (
    AnswerCommitted,
    AnswerRevealed,
    LeafShown,
    PanelBegun,
    PanelEnded,
    PanelRecalled,
    PanelSkipped,
    PanelWaits,
    PlaceDrawn,
    PlaceRuled,
    ReviewSpared,
    RoomTaken,
    RulingAppealed,
    RulingWaits,
    SeatDiffered,
    SeatPaid,
    SeatRevealed,
    SeatSilent,
    SlashVoteEnded,
    SlashVoteOpened,
    StageEnded,
    StageOpened,
    ValidatorSlashed,
)
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    AuditPlace,
    Finding,
    PanelPlace,
    PanelSeat,
    Review,
    Ruling,
    SeatAnswer,
)
from localnet.simulator.rebuilt.books import Rebuilt, take


@take.register
def _(change: PanelSkipped, books: Rebuilt) -> None:
    del books.panels[change.panel]


@take.register
def _(change: PanelRecalled, books: Rebuilt) -> None:
    books.open_panel(change.panel)


@take.register
def _(change: PanelWaits, books: Rebuilt) -> None:
    """Nothing changed: the panel has not begun."""


@take.register
def _(change: PanelBegun, books: Rebuilt) -> None:
    auditors = books.orders[change.panel.order_id].params.auditors
    books.change_panel(change.panel, wanted=(auditors,) * change.groups)


@take.register
def _(change: RoomTaken, books: Rebuilt) -> None:
    books.change_panel(change.panel, load=change.load)


@take.register
def _(change: PlaceDrawn, books: Rebuilt) -> None:
    known = books.panels[change.panel].places
    assert change.place == len(known), "a place is drawn before its time"
    place = AuditPlace(
        kind=AuditKind(change.kind),
        slot=change.slot,
        issue=change.issue,
        segment=change.segment,
        chunk=change.chunk,
    )
    drawn = PanelPlace(
        place=place,
        claim=change.claim,
        ruling=Ruling.OPEN,
        stage=0,
        finding=None,
        stops=change.stops,
        group=change.group,
    )
    books.change_panel(change.panel, places=(*known, drawn))


@take.register
def _(change: StageOpened, books: Rebuilt) -> None:
    key = change.panel
    places = books.panels[key].places
    drawn = zip(change.seats, change.stakes, change.groups, strict=True)
    for number, (name, stake, group) in enumerate(drawn, change.first_seat):
        before = [books.seats[key, other] for other in range(change.first_seat)]
        had = {place for seat in before if seat.validator == name for place in seat.places}
        own = [at for at in change.places if at not in had and group in (-1, places[at].group)]
        books.seats[key, number] = PanelSeat(
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            dispute=key.dispute,
            number=number,
            validator=name,
            stage=change.stage,
            stake=stake,
            places=tuple(own),
            commitment=b"",
            answers=(),
            revealed=False,
        )
    known = books.panels[key]
    books.change_panel(
        key,
        stage=change.stage,
        seed=change.seed,
        earlier_seeds=(*known.earlier_seeds, known.seed) if known.stage else (),
        commits_end=change.commits_end,
        reveals_end=change.reveals_end,
        is_last=change.is_last,
        is_open=True,
        wanted=(0,) * len(books.panels[key].wanted),
        repeats=False,
        last_next=False,
        seats=change.first_seat + len(change.seats),
        first_seat=change.first_seat,
        committed=0,
        revealed=0,
        eligible=change.eligible,
        stake=change.stake,
        review=Review.NONE,
    )


@take.register
def _(change: AnswerCommitted, books: Rebuilt) -> None:
    books.change_seat(change.panel, change.auditor, commitment=change.commitment)
    books.change_panel(
        change.panel,
        committed=books.panels[change.panel].committed + 1,
        commits_end=change.commits_end,
        reveals_end=change.reveals_end,
    )


@take.register
def _(change: AnswerRevealed, books: Rebuilt) -> None:
    known = books.seat_of(change.panel, change.auditor).answers
    kind = AnswerKind(change.kind)
    answer = SeatAnswer(
        place=change.place,
        kind=kind,
        root=change.root,
        digest=change.digest,
        step=change.step,
        earlier=change.earlier,
    )
    books.change_seat(change.panel, change.auditor, answers=(*known, answer))


@take.register
def _(change: LeafShown, books: Rebuilt) -> None:
    books.change_place(change.panel, change.place, claim=change.claim)


@take.register
def _(change: SeatRevealed, books: Rebuilt) -> None:
    books.change_seat(change.panel, change.auditor, revealed=True)
    books.change_panel(
        change.panel,
        revealed=books.panels[change.panel].revealed + 1,
        reveals_end=change.reveals_end,
    )


@take.register
def _(change: SeatSilent, books: Rebuilt) -> None:
    _punish(books, change)
    missed = books.validators[change.auditor].audits_missed
    books.change_validator(change.auditor, audits_missed=missed + 1)


@take.register
def _(change: SeatDiffered, books: Rebuilt) -> None:
    _punish(books, change)
    books.differed.add((change.panel, change.auditor, change.stage))


def _punish(books: Rebuilt, change: SeatSilent | SeatDiffered) -> None:
    seat = next(s for s in books.seats_of(change.panel) if (s.validator, s.stage) == (change.auditor, change.stage))
    books.seats[change.panel, seat.number] = replace(seat, cut=seat.cut + change.cut)
    books.pots[change.panel] = books.pots.get(change.panel, 0) + change.cut


@take.register
def _(change: PlaceRuled, books: Rebuilt) -> None:
    found = None
    if change.kind:
        found = Finding(AnswerKind(change.kind), change.root, change.step)
    ruling = Ruling(change.ruling)
    books.change_place(change.panel, change.place, ruling=ruling, stage=change.stage, finding=found)


@take.register
def _(change: StageEnded, books: Rebuilt) -> None:
    known = books.panels[change.panel]
    books.change_panel(
        change.panel,
        is_open=False,
        wanted=change.wanted,
        repeats=change.repeats,
        was_repeated=known.was_repeated or change.repeats,
        last_next=change.last_next,
        review=Review(change.review),
    )


@take.register
def _(change: ReviewSpared, books: Rebuilt) -> None:
    books.change_panel(change.panel, review=Review.SPARED)


@take.register
def _(change: RulingWaits, books: Rebuilt) -> None:
    books.change_panel(change.panel, appeal_until=change.until)


@take.register
def _(change: RulingAppealed, books: Rebuilt) -> None:
    key = change.panel
    row = BondRow(
        kind=BondKind.APPEAL,
        owner=change.appellant,
        leg=key.leg,
        round=key.round,
        slot=APPEAL_SLOT,
        issue=key.dispute + 1,
        amount=change.bond,
    )
    books.lock(key.order_id, row)
    for number in change.places:
        books.change_place(key, number, ruling=Ruling.OPEN)
    wanted = (0,) * len(books.panels[key].wanted)
    books.change_panel(key, wanted=wanted, last_next=True, appellant=change.appellant)


@take.register
def _(change: SlashVoteOpened, books: Rebuilt) -> None:
    key = change.panel
    for number, place in enumerate(books.panels[key].places):
        if number in change.places:
            first = {"first_stage": place.stage, "first_finding": place.finding}
            books.change_place(key, number, ruling=Ruling.OPEN, stage=0, finding=None, **first)
        elif place.ruling is Ruling.OPEN:
            books.change_place(key, number, ruling=Ruling.UNDECIDED)
    wanted = (0,) * len(books.panels[key].wanted)
    books.change_panel(key, wanted=wanted, is_settled=False, last_next=True, for_slash=True, slash=change.slash)


@take.register
def _(change: SlashVoteEnded, books: Rebuilt) -> None:
    books.change_panel(change.panel, is_settled=True, slash=0)


@take.register
def _(change: ValidatorSlashed, books: Rebuilt) -> None:
    books.pots[change.panel] = books.pots.get(change.panel, 0) + change.amount
    books.change_panel(change.panel, slash=change.amount)


@take.register
def _(change: SeatPaid, books: Rebuilt) -> None:
    books.pots[change.panel] = books.pots.get(change.panel, 0) - change.from_pot
    books.community -= change.from_pool


@take.register
def _(change: PanelEnded, books: Rebuilt) -> None:
    key = change.panel
    assert books.pots.pop(key, 0) == change.burnt, "a pot is not used up"
    books.burnt += change.burnt
    books.change_panel(key, is_open=False, is_settled=True)
    for number in range(books.panels[key].seats):
        seat = books.seats[key, number]
        if books.panels[key].for_slash and seat.stage != books.panels[key].stage:
            continue
        if seat.answers and (key, seat.validator, seat.stage) not in books.differed:
            answered = books.validators[seat.validator].audits_answered
            books.change_validator(seat.validator, audits_answered=answered + 1)
