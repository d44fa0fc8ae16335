"""The new coins of a block: the formula of the Cosmos SDK with integers."""

from chain.state_machine.context import Context
from chain.state_machine.ledger.balances import add_coins
from chain.state_machine.ledger.tables import POTS, SUPPLY
from chain.state_machine.mint.tables import MINTER, get_minter
from chain.state_machine.store import Overlay
from domain.amount import MONEY_MAX
from domain.ledger.moves import BURNT_POT, FEES_POT
from domain.mint.events import CoinsMinted
from domain.mint.params import MintParams
from domain.mint.records import Minter
from domain.staking.moves import STAKES_POT
from domain.staking.records import ONE


def compute_inflation(inflation: int, params: MintParams, bonded: int, supply: int) -> int:
    """Return the inflation of the next block (units of 10^-18), if ``bonded`` coins of the ``supply`` are bonded.

    It rises while fewer than ``goal_bonded`` are bonded, and falls while more are.
    """
    ratio = bonded * ONE // supply
    change = (params.goal_bonded - ratio) * params.inflation_rate_change // params.goal_bonded
    low = min(params.inflation_min, params.inflation_max)
    return max(low, min(params.inflation_max, inflation + change // params.blocks_per_year))


def count_circulating(store: Overlay) -> int:
    """Return the coins that are not burnt (uassay)."""
    return SUPPLY.get(store) - POTS.get(store, BURNT_POT.name)


def mint_coins(ctx: Context) -> None:
    """Mint the coins of a block into the pot of fees. The supply never exceeds what an amount can be."""
    params = ctx.block.params.of(MintParams)
    before = get_minter(ctx.store)
    if not params.inflation_max and before == Minter():
        return
    circulating = count_circulating(ctx.store)
    inflation = 0
    if params.inflation_max and circulating:
        bonded = POTS.get(ctx.store, STAKES_POT.name)
        inflation = compute_inflation(before.inflation, params, bonded, circulating)
    minter = Minter(inflation, inflation * circulating)
    amount = minter.annual_provisions // (params.blocks_per_year * ONE)
    amount = min(amount, MONEY_MAX - SUPPLY.get(ctx.store))
    if minter == before and not amount:
        return
    MINTER.put(ctx.store, minter)
    add_coins(ctx.store, FEES_POT, amount)
    ctx.emit(CoinsMinted(amount, minter))
