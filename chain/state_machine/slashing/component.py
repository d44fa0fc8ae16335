"""The component of slashing: double signatures, absence, and the jail."""

from chain.state_machine.component import Component
from chain.state_machine.context import Context
from chain.state_machine.queue import Effect
from chain.state_machine.slashing.absence import count_votes
from chain.state_machine.slashing.clock import note_clock
from chain.state_machine.slashing.genesis import write_slashing
from chain.state_machine.slashing.handlers import HANDLERS
from chain.state_machine.slashing.invariants import INVARIANTS
from chain.state_machine.slashing.jail import on_bonded, on_slash, stop_window, weigh_slash
from chain.state_machine.slashing.misbehaviour import punish_misbehaviours
from chain.state_machine.slashing.tables import (
    CLOCK_LAG,
    EVIDENCE,
    MISSED_BITS,
    MISSED_COUNTS,
    PAST_LAGS,
    SIGNING_INFOS,
    SLASH_DUE,
    UNREVEALED,
)
from chain.state_machine.staking.hooks import VALIDATOR_BONDED, VALIDATOR_UNBONDING
from chain.state_machine.steps import BEGIN


def on_begin(ctx: Context) -> None:
    """Take what the consensus reports with the block."""
    note_clock(ctx)
    count_votes(ctx)
    punish_misbehaviours(ctx)


COMPONENT = Component(
    name="slashing",
    tables=(
        SIGNING_INFOS,
        MISSED_COUNTS,
        MISSED_BITS,
        EVIDENCE,
        CLOCK_LAG,
        PAST_LAGS,
        UNREVEALED,
    ),
    handlers=HANDLERS,
    effects=(Effect(SLASH_DUE, on_slash, weigh_slash),),
    hooks=(
        BEGIN.to(on_begin),
        VALIDATOR_BONDED.to(on_bonded),
        VALIDATOR_UNBONDING.to(stop_window),
    ),
    invariants=INVARIANTS,
    genesis=write_slashing,
)
