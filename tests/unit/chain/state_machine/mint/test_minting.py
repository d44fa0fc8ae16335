"""The coins that a block mints, the changes of the inflation, and who gets the coins."""

import pytest

from chain.state_machine.context import PARAMS
from chain.state_machine.ledger.balances import apply_transfer
from chain.state_machine.ledger.tables import POTS, SUPPLY
from chain.state_machine.mint.minting import compute_inflation, compute_minted, count_circulating
from chain.state_machine.mint.tables import MINTER
from chain.state_machine.store import Overlay
from domain.amount import MONEY_MAX
from domain.errors import BAD_FIELD, Refusal
from domain.ledger.moves import BURNT_POT, FEES_POT
from domain.mint.params import MintParams
from domain.mint.records import YEAR, Minter
from domain.moves import Transfer
from domain.proof.moves import STAKE_BURN
from domain.staking.records import ONE
from tests.support.chain_harness import STAKE, Chain, make_genesis
from tests.support.minted import FIXED, TENTH, make_minting, minted_by, minter_of, supply_of
from tests.support.proposals import change, make_chain, pass_proposal, propose
from tests.support.rewards import community, owed_commission, reward
from tests.support.stakes import context, params

HOUR = 3_600
MOVING = {"inflation_rate_change": ONE // 5, "inflation_max": ONE // 2, "inflation_min": ONE // 100}


def set_params(chain: Chain, **changes: int) -> None:
    """Change parameters behind the machine's back."""
    chain.change(lambda store: PARAMS.set(store, PARAMS.get(store).replace(**changes)))


def test_without_an_inflation_nothing_is_written() -> None:
    chain = make_chain()
    before = supply_of(chain)
    chain.pass_time(10 * HOUR)
    assert supply_of(chain) == before
    assert MINTER.get(chain.overlay()) is None
    assert minted_by(chain) == []


def test_a_block_mints_for_the_time_since_the_last_one() -> None:
    chain = make_minting()
    first = supply_of(chain)
    chain.block()
    assert minted_by(chain) == [0]  # minting begins at the clock of this block
    assert minter_of(chain) == Minter(TENTH, first * TENTH, chain.clock)
    chain.block(seconds=HOUR)
    amount = first * HOUR // (10 * YEAR)
    assert minted_by(chain) == [0, amount]
    assert supply_of(chain) == first + amount
    chain.block(seconds=0)  # the clock stands
    assert minted_by(chain)[2:] == [0]  # the rate applies to more coins
    chain.block(seconds=0)
    assert len(minted_by(chain)) == 3


def test_a_year_mints_what_the_inflation_says() -> None:
    chain = make_minting()
    chain.checked = False
    first = supply_of(chain)
    chain.pass_time(YEAR)
    growth = supply_of(chain) * 10**6 // first
    assert 1_104_800 < growth < 1_105_172  # up to e^0.1 = 1.105171, because new coins count at once
    chain.check_state()
    chain.check_books()


def test_new_coins_are_shared_like_fees() -> None:
    chain = make_minting()
    chain.block()
    chain.block(seconds=10 * HOUR)
    amount = sum(minted_by(chain))
    store = chain.overlay()
    assert POTS.get(store, FEES_POT.name) == 0
    pool = community(chain) // ONE
    assert pool == amount // 50
    owed = sum(owed_commission(chain, name) + reward(chain, name, name) for name in ("v0", "v1", "v2"))
    assert amount - pool - 2 <= owed // ONE <= amount - pool


def test_burnt_coins_do_not_count() -> None:
    chain = make_minting()
    chain.block()
    move = Transfer(move=STAKE_BURN, source="", target="", amount=STAKE)
    before = count_circulating(chain.overlay())
    overlay = chain.overlay()
    apply_transfer(context(chain, overlay), move)
    assert count_circulating(overlay) == before - STAKE
    assert POTS.get(overlay, BURNT_POT.name) == STAKE


def test_the_inflation_moves_to_the_goal() -> None:
    rules = MintParams(**MOVING)
    for bonded, sign in ((0, 1), (66, 1), (67, 0), (68, -1), (100, -1)):
        after = compute_inflation(TENTH, rules, bonded=bonded, supply=100, seconds=HOUR)
        assert (after > TENTH) - (after < TENTH) == sign
    # Nothing is bonded: the whole change of a year in a year.
    assert compute_inflation(TENTH, rules, bonded=0, supply=100, seconds=YEAR) == TENTH + ONE // 5
    assert compute_inflation(TENTH, rules, bonded=0, supply=100, seconds=10 * YEAR) == ONE // 2
    assert compute_inflation(TENTH, rules, bonded=100, supply=100, seconds=10 * YEAR) == ONE // 100


def test_the_inflation_of_a_chain_begins_at_the_least_one_and_rises() -> None:
    chain = make_chain(**MOVING)
    chain.block()
    assert minter_of(chain).inflation == ONE // 100
    chain.pass_time(24 * HOUR)
    assert ONE // 100 < minter_of(chain).inflation <= ONE // 100 + ONE // 5 * 24 * HOUR // YEAR


def test_minting_ends_and_begins_anew() -> None:
    """The time between mints nothing, however long it is."""
    chain = make_minting()
    chain.block()
    chain.block(seconds=HOUR)
    set_params(chain, inflation_min=0, inflation_max=0)
    chain.block()
    assert MINTER.get(chain.overlay()) is None
    seen = len(minted_by(chain))
    assert minted_by(chain)[-1] == 0
    chain.pass_time(100 * HOUR)
    assert len(minted_by(chain)) == seen
    before = supply_of(chain)
    set_params(chain, **FIXED)
    chain.block(seconds=HOUR)
    assert supply_of(chain) == before
    chain.block(seconds=HOUR)
    assert supply_of(chain) == before + before * HOUR // (10 * YEAR)


def test_the_supply_never_exceeds_what_an_amount_can_be() -> None:
    chain = make_minting()
    chain.block()

    def grow(store: Overlay) -> None:
        more = MONEY_MAX - 5 - SUPPLY.get(store)
        SUPPLY.set(store, MONEY_MAX - 5)
        POTS.set(store, POTS.get(store, BURNT_POT.name) + more, BURNT_POT.name)

    chain.change(grow)
    chain.block(seconds=HOUR)
    assert minted_by(chain)[-1] == 5
    assert supply_of(chain) == MONEY_MAX
    chain.block(seconds=HOUR)
    assert supply_of(chain) == MONEY_MAX


def test_less_than_a_coin_is_not_minted() -> None:
    assert compute_minted(YEAR * ONE - 1, 1) == 0
    assert compute_minted(YEAR * ONE, 1) == 1


def test_governance_sets_the_inflation_within_bounds() -> None:
    chain = make_chain()
    chain.refused(BAD_FIELD, propose(change("mint", "inflation_max", ONE + 1)))
    chain.refused(BAD_FIELD, propose(change("mint", "inflation_min", 1)))
    pass_proposal(chain, change("mint", "inflation_max", TENTH), change("mint", "inflation_rate_change", TENTH))
    chain.block()
    chain.block(seconds=24 * HOUR)
    assert minter_of(chain).inflation > 0
    chain.check_books()


def test_a_genesis_needs_bounds_that_fit() -> None:
    with pytest.raises(Refusal, match="must be at most inflation_max"):
        Chain(make_genesis(("alice",), ("v0",), params(inflation_min=1)))


def test_new_coins_come_before_the_shares_of_the_block() -> None:
    chain = make_minting()
    chain.block()
    result = chain.block(seconds=HOUR)
    kinds = [event.type for event in result.events]
    assert kinds.index("mint.minted") < kinds.index("distribution.shared")
