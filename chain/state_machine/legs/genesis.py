"""The legs' check of the genesis: parameters of several components that must fit each other."""

from chain.state_machine.genesis import check_genesis
from chain.state_machine.store import Overlay
from domain.block import ValidatorUpdate
from domain.genesis import Genesis
from domain.legs.params import FEES_IN_DEPOSIT, LegsParams
from domain.market.params import MarketParams


def check_fees(_: Overlay, genesis: Genesis) -> tuple[ValidatorUpdate, ...]:
    """Refuse a genesis in which declines that blame the job could burn a large part of a small deposit.

    Write nothing, and return no validators.
    """
    least = genesis.params.of(MarketParams).order_min
    needed = FEES_IN_DEPOSIT * genesis.params.of(LegsParams).payload_fee
    reason = f"is {least}, but must be at least {FEES_IN_DEPOSIT} × payload_fee = {needed}"
    check_genesis(least >= needed, "params.market.order_min", reason)
    return ()
