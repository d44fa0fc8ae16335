"""Seats of a panel's open stage: what they commit to and reveal, each in a row of its own (protocol section 5.2)."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.proof.tables import PANEL_DUTIES, PANELS, SEATS
from chain.state_machine.queue import Due, cancel, schedule
from domain.events import AnswerCommitted, AnswerRevealed, LeafShown
from domain.records import Panel, PanelSeat, SeatAnswer


def apply_commit(ctx: Context, panel: Panel, seat: PanelSeat, commitment: bytes) -> None:
    """Keep a commitment; when every seat of the stage has committed, they may reveal at once."""
    SEATS.update(ctx.store, *seat.key, seat.number, commitment=commitment)
    ctx.emit(AnswerCommitted(panel.key, seat.validator, panel.stage, commitment))
    panel = replace(panel, committed=panel.committed + 1)
    if panel.committed == panel.seats - panel.first_seat:
        took = panel.commits_end - ctx.clock
        cancel(ctx, panel.commits_end, Due.STAGE, *panel.key)
        panel = replace(panel, commits_end=ctx.clock, reveals_end=panel.reveals_end - took)
        schedule(ctx, panel.reveals_end, Due.STAGE, *panel.key)
    PANELS.put(ctx.store, panel)


def apply_reveal(
    ctx: Context,
    panel: Panel,
    seat: PanelSeat,
    answers: tuple[SeatAnswer, ...],
    shown: tuple[tuple[int, bytes], ...],
) -> None:
    """Keep answers and what leaves show of places; when all who committed have revealed, the stage is due to end."""
    key, auditor, stage = panel.key, seat.validator, panel.stage
    SEATS.update(ctx.store, *key, seat.number, answers=answers, revealed=True)
    PANEL_DUTIES.delete(ctx.store, auditor, *key)
    for answer in answers:
        ctx.emit(
            AnswerRevealed(
                key,
                auditor,
                stage,
                answer.place,
                int(answer.kind),
                answer.root,
                answer.digest,
                answer.step,
            )
        )
    places = list(panel.places)
    for number, claim in shown:
        places[number] = replace(places[number], claim=claim)
        ctx.emit(LeafShown(key, number, claim))
    panel = replace(panel, places=tuple(places), revealed=panel.revealed + 1)
    if panel.revealed == panel.committed:
        cancel(ctx, panel.reveals_end, Due.STAGE, *key)
        panel = replace(panel, reveals_end=ctx.clock)
        schedule(ctx, ctx.clock, Due.STAGE, *key)
    PANELS.put(ctx.store, panel)
