"""Chains in memory that mint coins, and what the state says about it."""

from chain.state_machine.ledger.tables import SUPPLY
from chain.state_machine.mint.tables import get_minter
from domain.mint.events import CoinsMinted
from domain.mint.records import Minter
from domain.staking.records import ONE
from domain.vocabulary import changes_of
from tests.support.chain_harness import Chain
from tests.support.proposals import make_chain

TENTH = ONE // 10
FIXED = {"inflation_min": TENTH, "inflation_max": TENTH}
"""Parameters with an inflation of 10 % that does not change."""


def make_minting(**changes: int) -> Chain:
    """Return a chain that mints 10 % a year."""
    return make_chain(**FIXED | changes)


def minter_of(chain: Chain) -> Minter:
    return get_minter(chain.overlay())


def supply_of(chain: Chain) -> int:
    return SUPPLY.get(chain.overlay())


def minted_by(chain: Chain) -> list[int]:
    """Return what each block minted that has an event of it."""
    return [change.amount for change in changes_of(CoinsMinted, chain.events)]
