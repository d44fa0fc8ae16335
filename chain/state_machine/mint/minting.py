"""The new coins of a block: the formula of the Cosmos SDK in integers, by the chain clock instead of by blocks.

A block mints for the time by which it advanced the clock. So those who make blocks faster mint no more, and a halt of
the chain mints no more than ``clock_step_max``.
"""

from chain.state_machine.context import Context
from chain.state_machine.genesis import check_genesis
from chain.state_machine.ledger.balances import add_coins
from chain.state_machine.ledger.tables import POTS, SUPPLY
from chain.state_machine.mint.tables import MINTER, get_minter
from chain.state_machine.store import Overlay
from domain.amount import MONEY_MAX
from domain.ledger.moves import BURNT_POT, FEES_POT
from domain.mint.events import CoinsMinted
from domain.mint.params import MintParams
from domain.mint.records import YEAR, Minter
from domain.params import Params
from domain.staking.moves import STAKES_POT
from domain.staking.records import ONE


def check_inflation(params: Params) -> None:
    """Refuse a least inflation above the largest one."""
    mint = params.of(MintParams)
    reason = f"is {mint.inflation_min}, but must be at most inflation_max = {mint.inflation_max}"
    check_genesis(mint.inflation_min <= mint.inflation_max, "params.mint.inflation_min", reason)


def compute_inflation(inflation: int, params: MintParams, *, bonded: int, supply: int, seconds: int) -> int:
    """Return the inflation ``seconds`` later, if ``bonded`` coins of the ``supply`` are bonded.

    It rises while less than ``goal_bonded`` is bonded, and falls while more is.
    """
    missing = params.goal_bonded * supply - bonded * ONE
    change = missing * params.inflation_rate_change * seconds // (params.goal_bonded * supply * YEAR)
    return max(params.inflation_min, min(params.inflation_max, inflation + change))


def compute_minted(provisions: int, seconds: int) -> int:
    """Return the coins (uassay) of ``seconds`` at ``provisions`` a year. What is less than 1 uassay is not minted."""
    return provisions * seconds // (YEAR * ONE)


def count_circulating(store: Overlay) -> int:
    """Return the coins that are not burnt (uassay)."""
    return SUPPLY.get(store) - POTS.get(store, BURNT_POT.name)


def mint_coins(ctx: Context) -> None:
    """Mint the coins of a block into the pot of fees. The supply never exceeds what an amount can be.

    The first block with an inflation mints nothing, because minting begins at its clock.
    """
    params = ctx.block.params.of(MintParams)
    before = get_minter(ctx.store)
    circulating = count_circulating(ctx.store)
    if not params.inflation_max or not circulating:
        if before != Minter():
            MINTER.delete(ctx.store)
            ctx.emit(CoinsMinted(0, Minter()))
        return
    seconds = 0 if before == Minter() else ctx.clock - before.clock
    bonded = POTS.get(ctx.store, STAKES_POT.name)
    inflation = compute_inflation(before.inflation, params, bonded=bonded, supply=circulating, seconds=seconds)
    minter = Minter(inflation, inflation * circulating, ctx.clock)
    if minter == before:
        return
    amount = min(compute_minted(minter.annual_provisions, seconds), MONEY_MAX - SUPPLY.get(ctx.store))
    MINTER.put(ctx.store, minter)
    add_coins(ctx.store, FEES_POT, amount)
    ctx.emit(CoinsMinted(amount, minter))
