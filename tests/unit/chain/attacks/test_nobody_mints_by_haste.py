"""New coins follow the chain clock: no validator mints more by fast blocks, a halt, a header time, or a vote."""

from chain.state_machine.ledger.tables import POTS
from domain.ledger.moves import FEES_POT
from domain.mint.records import YEAR
from domain.node.params import NodeParams
from domain.staking.records import ONE
from tests.support.minted import make_minting, minted_by, minter_of, supply_of
from tests.support.proposals import change, make_chain, pass_proposal
from tests.support.rewards import owed_commission, reward

HOUR = 3_600


def test_fast_blocks_mint_no_more_than_slow_ones() -> None:
    """By blocks, as in the SDK, validators that make ten times as many would mint ten times as much."""
    minted = []
    for seconds in (1, 10, 600):
        chain = make_minting()
        chain.checked = False
        chain.block()
        end = chain.clock + 600
        while chain.clock < end:
            chain.block(seconds=seconds)
        minted.append(sum(minted_by(chain)))
    least, most = min(minted), max(minted)
    assert most - least <= 600  # at most 1 uassay for each block
    assert most < supply_of(chain) * 600 // (10 * YEAR) + 600


def test_blocks_within_a_second_mint_once() -> None:
    chain = make_minting()
    chain.block()
    chain.block(seconds=HOUR)
    before = supply_of(chain)
    for _ in range(20):
        chain.block(seconds=0)
    assert supply_of(chain) == before


def test_a_long_halt_mints_one_step_of_the_clock() -> None:
    chain = make_minting(clock_step_max=60)
    chain.block()
    before = supply_of(chain)
    chain.block(seconds=30 * 86_400)
    assert chain.genesis.params.of(NodeParams).clock_step_max == 60
    assert supply_of(chain) - before == before * 60 // (10 * YEAR)


def test_a_header_time_of_the_past_mints_nothing() -> None:
    chain = make_minting()
    chain.block()
    chain.block(seconds=HOUR)
    before = supply_of(chain)
    chain.block(seconds=-HOUR)
    chain.block(seconds=HOUR)
    assert supply_of(chain) == before


def test_governance_raises_the_inflation_while_blocks_run() -> None:
    """No block mints for the time before the vote took effect, and none mints more than the new rate."""
    chain = make_chain()
    first = supply_of(chain)
    chain.pass_time(100 * HOUR)
    most = change("mint", "inflation_max", ONE)
    least = change("mint", "inflation_min", ONE)
    pass_proposal(chain, most, least)
    assert supply_of(chain) == first
    assert minter_of(chain).inflation == ONE
    chain.block(seconds=HOUR)
    assert supply_of(chain) == first + first * HOUR // YEAR
    pass_proposal(chain, change("mint", "inflation_min", 0), change("mint", "inflation_max", 0), proposal=2)
    chain.block()
    before = supply_of(chain)
    chain.pass_time(100 * HOUR)
    assert supply_of(chain) == before
    chain.check_books()


def test_an_absent_validator_gets_no_new_coins_and_others_get_none_of_its_part() -> None:
    got = []
    for away in (set(), {"v1"}):
        chain = make_minting()
        chain.block()
        chain.away = away
        chain.block(proposer="v0")
        chain.block(seconds=HOUR, proposer="v0")
        got.append([owed_commission(chain, name) + reward(chain, name, name) for name in ("v0", "v1", "v2")])
    (_, present, _), (_, absent, other) = got
    assert absent < present // 1_000
    assert other <= got[0][2]
    assert got[1][0] <= got[0][0]
    assert POTS.get(chain.overlay(), FEES_POT.name) == 0
