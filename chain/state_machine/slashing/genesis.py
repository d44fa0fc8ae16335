"""Slashing's part of the first state: the validators of the set have to sign from block 1 on."""

from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.slashing.clock import start_clock
from chain.state_machine.slashing.tables import SIGNING_INFOS
from chain.state_machine.staking.tables import bonded_operators
from chain.state_machine.store import Overlay
from domain.block import ValidatorUpdate
from domain.genesis import Genesis
from domain.slashing.params import SlashingParams
from domain.slashing.records import SigningInfo


def write_slashing(overlay: Overlay, genesis: Genesis) -> tuple[ValidatorUpdate, ...]:
    """Write the signing infos of the first set, and the start of the clock."""
    start_clock(overlay)
    window = genesis.params.of(SlashingParams).signed_blocks_window
    for operator in bonded_operators(overlay):
        address = VALIDATORS.must(overlay, operator).cons_address
        SIGNING_INFOS.put(overlay, SigningInfo(address, operator, start_height=1, window=window))
    return ()
