"""Mutants of chain_mint."""

from tests.mutants.mutant import Mutant

_MINTING = "tests/unit/chain/state_machine/mint/test_minting.py"
_ATTACKS = "tests/unit/chain/attacks/test_nobody_mints_by_haste.py"
_PROPERTIES = "tests/property/test_minting.py"
_CODE = "chain/state_machine/mint/minting.py"

MUTANTS = (
    Mutant(
        "mint-by-blocks",
        "a block mints the same however short it is, so validators mint by haste",
        _CODE,
        "    seconds = 0 if before == Minter() else ctx.clock - before.clock\n",
        "    seconds = 0 if before == Minter() else 6\n",
        (f"{_ATTACKS}::test_fast_blocks_mint_no_more_than_slow_ones",),
    ),
    Mutant(
        "mint-for-the-past",
        "the first block with an inflation mints for all the time before it",
        _CODE,
        "    seconds = 0 if before == Minter() else ctx.clock - before.clock\n",
        "    seconds = ctx.clock - before.clock\n",
        (f"{_ATTACKS}::test_governance_raises_the_inflation_while_blocks_run",),
    ),
    Mutant(
        "mint-for-the-pause",
        "an inflation that ended and begins again mints for the time between",
        _CODE,
        "            MINTER.delete(ctx.store)\n            ctx.emit(CoinsMinted(0, Minter()))\n",
        "            pass\n",
        (f"{_MINTING}::test_minting_ends_and_begins_anew",),
    ),
    Mutant(
        "inflation-the-wrong-way",
        "the inflation rises while too much is bonded",
        _CODE,
        "inflation + change))\n",
        "inflation - change))\n",
        (f"{_MINTING}::test_the_inflation_moves_to_the_goal", _PROPERTIES),
    ),
    Mutant(
        "inflation-without-a-bound",
        "the inflation exceeds what governance allows",
        _CODE,
        "    return max(params.inflation_min, min(params.inflation_max, inflation + change))\n",
        "    return max(params.inflation_min, inflation + change)\n",
        (f"{_MINTING}::test_the_inflation_moves_to_the_goal", _PROPERTIES),
    ),
    Mutant(
        "burnt-coins-bear-coins",
        "coins that are burnt still raise what is minted",
        _CODE,
        "    return SUPPLY.get(store) - POTS.get(store, BURNT_POT.name)\n",
        "    return SUPPLY.get(store)\n",
        (f"{_MINTING}::test_burnt_coins_do_not_count",),
    ),
    Mutant(
        "supply-beyond-amounts",
        "the supply exceeds what an amount can be, and the chain stops",
        _CODE,
        "    amount = min(compute_minted(minter.annual_provisions, seconds), MONEY_MAX - SUPPLY.get(ctx.store))\n",
        "    amount = compute_minted(minter.annual_provisions, seconds)\n",
        (f"{_MINTING}::test_the_supply_never_exceeds_what_an_amount_can_be",),
    ),
    Mutant(
        "bounds-that-cross",
        "a least inflation above the largest one is accepted",
        _CODE,
        "    check_genesis(mint.inflation_min <= mint.inflation_max, ",
        "    check_genesis(True, ",
        (f"{_MINTING}::test_a_genesis_needs_bounds_that_fit",),
    ),
    Mutant(
        "mint-rounds-up",
        "many short blocks mint more than the rate",
        _CODE,
        "    return provisions * seconds // (YEAR * ONE)\n",
        "    return -(-provisions * seconds // (YEAR * ONE))\n",
        (f"{_MINTING}::test_less_than_a_coin_is_not_minted", _PROPERTIES),
    ),
)
