"""The legs' check of parameters of several components that must fit each other."""

from chain.state_machine.genesis import check_genesis
from domain.legs.params import FEES_IN_DEPOSIT, LegsParams
from domain.market.params import MarketParams
from domain.params import Params


def check_fees(params: Params) -> None:
    """Refuse parameters with which declines that blame the job could burn a large part of a small deposit."""
    least = params.of(MarketParams).order_min
    needed = FEES_IN_DEPOSIT * params.of(LegsParams).payload_fee
    reason = f"is {least}, but must be at least {FEES_IN_DEPOSIT} × payload_fee = {needed}"
    check_genesis(least >= needed, "params.market.order_min", reason)
