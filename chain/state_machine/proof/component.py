"""The component of the proof: shares and rounds of legs, their audits, and their payment."""

from chain.state_machine.component import Component
from chain.state_machine.context import Draw
from chain.state_machine.legs.hooks import (
    AT_STAKE,
    CONTINUED,
    COVERED,
    HELD_BACK,
    LEFT_TO_OTHERS,
    ROUND_DROPPED,
    ROUND_LEFT,
    STATES_ASKED,
    TAKEN_ROUND,
)
from chain.state_machine.market.hooks import ENDED, RELEASED
from chain.state_machine.proof import gas
from chain.state_machine.proof.covers import get_cover, is_in_fund, on_continued, on_fund, weigh_fund
from chain.state_machine.proof.fetches import on_fetch, weigh_fetch
from chain.state_machine.proof.handlers import HANDLERS
from chain.state_machine.proof.hooks import ROUND_VOIDED
from chain.state_machine.proof.invariants import INVARIANTS
from chain.state_machine.proof.lots import apply_lots, on_lot, weigh_lot
from chain.state_machine.proof.queries import ANSWERS
from chain.state_machine.proof.replicas import (
    has_live,
    is_awaiting,
    on_dropped,
    on_review,
    on_voided,
    schedule_review,
    weigh_review,
)
from chain.state_machine.proof.room import on_room, weigh_room
from chain.state_machine.proof.rounds import weigh_void
from chain.state_machine.proof.rulings import (
    on_appeal,
    on_spared,
    on_stage,
    on_work,
    weigh_appeal,
    weigh_spared,
    weigh_stage,
)
from chain.state_machine.proof.settlement import (
    advance,
    on_bonds,
    on_drop,
    on_released,
    on_window,
    weigh_bonds,
    weigh_window,
)
from chain.state_machine.proof.shares import (
    draw_segments,
    drop_open_round,
    weigh_drop,
    weigh_segments,
)
from chain.state_machine.proof.slashes import on_jail
from chain.state_machine.proof.stages import draw_stage, weigh_stage_draw
from chain.state_machine.proof.stands import is_at_stake, on_forfeit, weigh_forfeit
from chain.state_machine.proof.states import ask_states
from chain.state_machine.proof.tables import (
    APPEAL_DUE,
    ASKED_UNTIL,
    AUDIT_LOAD,
    AWAITING,
    BEHIND_PANELS,
    BONDS_DUE,
    COMPARING,
    DELIVERIES,
    DEPARTURES,
    DIFFERENCES,
    DROP_DUE,
    FETCH_DUE,
    FORFEIT_DUE,
    FUND_DUE,
    HELD_COUNTS,
    HELD_ISSUES,
    JAIL_DUE,
    LAST_GROUP,
    LAST_ISSUES,
    LOT_DUE,
    LOT_GROUPS,
    LOTS,
    OPEN_ROUNDS,
    PANEL_DUTIES,
    PANEL_POTS,
    PANELS,
    PUBLISHED,
    RECEIPT_ASKS,
    REPLICAS_DUE,
    REVIEW_DUE,
    ROOM_DUE,
    ROUNDS,
    SEATS,
    SHARES,
    SHOWN_TRACES,
    STAGE_DUE,
    STANDING_ISSUES,
    TAKE_DUE,
    TAKING,
    VOID_CLAIMS,
    VOID_DUE,
    VOID_FUNDS,
    WAITING_LOTS,
    WAITING_PANELS,
    WINDOW_DUE,
    WITNESS_DUE,
    WITNESS_DUTIES,
    WORK_DUE,
    WRONG_HANDOVERS,
    WRONG_PROVIDERS,
    PanelSubject,
    SharesSubject,
    WitnessSubject,
)
from chain.state_machine.proof.taking import begin_taking, find_taken_round, on_take, weigh_take
from chain.state_machine.proof.voiding import on_void
from chain.state_machine.proof.witnesses import draw_witnesses, on_witness, weigh_witness, weigh_witnesses
from chain.state_machine.queue import Effect
from chain.state_machine.steps import BEGIN

COMPONENT = Component(
    name="proof",
    tables=(
        SHARES,
        ROUNDS,
        PANELS,
        SEATS,
        PANEL_DUTIES,
        AUDIT_LOAD,
        WAITING_PANELS,
        BEHIND_PANELS,
        PANEL_POTS,
        LOTS,
        LOT_GROUPS,
        WAITING_LOTS,
        LAST_GROUP,
        STANDING_ISSUES,
        LAST_ISSUES,
        OPEN_ROUNDS,
        WRONG_HANDOVERS,
        DELIVERIES,
        WRONG_PROVIDERS,
        TAKING,
        VOID_FUNDS,
        VOID_CLAIMS,
        RECEIPT_ASKS,
        WITNESS_DUTIES,
        ASKED_UNTIL,
        HELD_ISSUES,
        HELD_COUNTS,
        PUBLISHED,
        AWAITING,
        COMPARING,
        DIFFERENCES,
        SHOWN_TRACES,
        DEPARTURES,
    ),
    handlers=HANDLERS,
    effects=(
        Effect(LOT_DUE, on_lot, weigh_lot),
        Effect(WINDOW_DUE, on_window, weigh_window),
        Effect(VOID_DUE, on_void, weigh_void),
        Effect(BONDS_DUE, on_bonds, weigh_bonds),
        Effect(DROP_DUE, on_drop, weigh_drop),
        Effect(STAGE_DUE, on_stage, weigh_stage),
        Effect(REVIEW_DUE, on_spared, weigh_spared),
        Effect(ROOM_DUE, on_room, weigh_room),
        Effect(WORK_DUE, on_work),
        Effect(JAIL_DUE, on_jail),
        Effect(APPEAL_DUE, on_appeal, weigh_appeal),
        Effect(FORFEIT_DUE, on_forfeit, weigh_forfeit),
        Effect(FUND_DUE, on_fund, weigh_fund),
        Effect(TAKE_DUE, on_take, weigh_take),
        Effect(FETCH_DUE, on_fetch, weigh_fetch),
        Effect(WITNESS_DUE, on_witness, weigh_witness),
        Effect(REPLICAS_DUE, on_review, weigh_review),
    ),
    draws=(
        Draw(SharesSubject, draw_segments, weigh_segments),
        Draw(PanelSubject, draw_stage, weigh_stage_draw),
        Draw(WitnessSubject, draw_witnesses, weigh_witnesses),
    ),
    hooks=(
        BEGIN.to(apply_lots),
        ROUND_DROPPED.to(drop_open_round),
        ROUND_DROPPED.to(on_dropped),
        ROUND_VOIDED.to(on_voided),
        HELD_BACK.to(is_awaiting),
        LEFT_TO_OTHERS.to(has_live),
        ENDED.to(schedule_review),
        AT_STAKE.to(is_at_stake),
        AT_STAKE.to(is_in_fund),
        COVERED.to(get_cover),
        TAKEN_ROUND.to(find_taken_round),
        CONTINUED.to(begin_taking),
        CONTINUED.to(on_continued),
        ROUND_LEFT.to(advance),
        STATES_ASKED.to(ask_states),
        RELEASED.to(on_released),
    ),
    answers=ANSWERS,
    invariants=INVARIANTS,
    due_percent=gas.LOTS_PERCENT,
    gas={
        "REJECT_GAS": gas.REJECT_GAS,
        "CLOSE_GAS": gas.CLOSE_GAS,
        "DRAW_GAS": gas.DRAW_GAS,
        "TICKET_GAS": gas.TICKET_GAS,
        "READ_GAS": gas.READ_GAS,
        "VALIDATOR_GAS": gas.VALIDATOR_GAS,
        "SEAT_GAS": gas.SEAT_GAS,
        "VOTE_GAS": gas.VOTE_GAS,
        "SKIP_GAS": gas.SKIP_GAS,
        "TAKE_GAS": gas.TAKE_GAS,
    },
)
