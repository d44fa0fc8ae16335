"""Fees become rewards: nobody gains by filling blocks, by silence of others, by haste, or by many small steps."""

from chain.state_machine.ledger.tables import POTS
from domain.amount import ASSAY
from domain.distribution.records import ATTOS
from domain.ledger.messages import MsgSend
from domain.ledger.moves import COMMUNITY_POT
from domain.ledger.records import Coin
from domain.node.params import NodeParams, tx_gas_max
from domain.staking.records import ONE
from tests.support.chain_harness import STAKE, Chain, make_genesis
from tests.support.rewards import commission, drop_fee, owed_commission, reward, withdraw
from tests.support.stakes import cut, delegate, edit, make_chain, params, redelegate, slash, undelegate

PLAIN = {"community_tax": 0, "base_proposer_reward": 0, "bonus_proposer_reward": 0}


def fill(chain: Chain, sender: str, proposer: str) -> None:
    """Fill a block's room for everyone with transactions of one sender, which pay the price of the block."""
    gas = tx_gas_max(chain.genesis.params.of(NodeParams))
    sequence = chain.sequence(sender)
    txs = [
        chain.tx(MsgSend(sender, sender, (Coin("uassay", 1),)), sequence=sequence + at, gas_limit=gas)
        for at in range(6)
    ]
    assert {result.code for result in chain.block(*txs, proposer=proposer).tx_results} == {0}


def test_a_proposer_that_fills_its_blocks_to_raise_the_price_pays_for_it() -> None:
    """It gets its part of the lowest price back. What it paid because the price had risen goes to the community."""
    chain = make_chain()
    for _ in range(60):
        fill(chain, "v0", "v0")
    paid = chain.fees["v0"]
    got = owed_commission(chain, "v0") + reward(chain, "v0", "v0")
    risen = POTS.get(chain.overlay(), COMMUNITY_POT.name)
    assert got < (paid - risen) * ATTOS
    assert risen > paid * 9 // 10
    # The other validator gains no more from the high price than from 60 full blocks at the lowest.
    other = owed_commission(chain, "v1") + reward(chain, "v1", "v1")
    gas = 60 * 6 * tx_gas_max(chain.genesis.params.of(NodeParams))
    assert other < gas * 1_000 * ATTOS // 1_000_000


def test_the_silence_of_one_validator_earns_the_others_nothing() -> None:
    got = []
    for away in (set(), {"v1"}):
        chain = Chain(make_genesis(("alice",), ("v0", "v1", "v2"), params()))
        chain.block()
        chain.away = away
        drop_fee(chain, "alice", 10**6)
        chain.block(proposer="v0")
        got.append([owed_commission(chain, name) + reward(chain, name, name) for name in ("v0", "v2")])
    (proposer, other), (proposer_then, other_then) = got
    assert proposer_then < proposer
    assert other_then == other


def test_many_losses_make_no_withdrawal_slower_or_smaller() -> None:
    """Rewards are counted per share, so a withdrawal after 300 losses is the same work as after none."""
    counts, paid = [], []
    for losses in (0, 300):
        chain = make_chain(**PLAIN)
        chain.ok(delegate("alice", "v0", STAKE))
        chain.checked = False
        for number in range(losses):
            (cut if number % 2 else slash)(chain, "v0", 1, chain.clock)
        drop_fee(chain, "bob", 10**6)
        chain.block()
        chain.checked = True
        result = chain.ok(withdraw("alice", "v0"))
        counts.append(len(result.tx_results[0].events))
        paid.append(chain.rewards["alice"])
    assert abs(counts[0] - counts[1]) <= 1
    # The lost tokens are one unit of power of 20,000.
    assert 0 <= paid[0] - paid[1] <= paid[0] // 10_000


def test_who_delegates_for_one_large_fee_gets_its_part_of_no_other_block() -> None:
    chain = make_chain(**PLAIN)
    drop_fee(chain, "bob", 10**9)
    chain.block()
    chain.ok(delegate("alice", "v0", 9 * STAKE))
    late = reward(chain, "alice", "v0")
    assert late < chain.fees["alice"] * ATTOS
    chain.ok(undelegate("alice", "v0", 9 * STAKE))
    assert chain.rewards["alice"] * ATTOS <= late
    drop_fee(chain, "bob", 10**9)
    chain.block()
    assert reward(chain, "alice", "v0") == 0


def test_many_small_withdrawals_pay_no_more_than_one() -> None:
    """What is less than a coin is lost to who withdraws it, so haste costs."""
    got = []
    for often in (False, True):
        chain = make_chain(**PLAIN)
        chain.ok(delegate("alice", "v0", 3 * ASSAY))
        for _ in range(30):
            drop_fee(chain, "bob", 9_999)
            chain.block(*([chain.tx(withdraw("alice", "v0"), fee=2_000)] if often else []))
        chain.ok(withdraw("alice", "v0"))
        got.append(chain.rewards.get("alice", 0))
    # Its own fees come back to it as a part of its rewards, at most.
    assert got[1] <= got[0] + 30 * 2_000 * 3 * ASSAY // STAKE


def test_rewards_from_before_a_slash_are_not_slashed() -> None:
    """A slash that reaches redelegated shares pays what these earned before."""
    chain = make_chain(**PLAIN)
    chain.ok(delegate("alice", "v0", STAKE))
    chain.ok(redelegate("alice", "v0", "v1", STAKE))
    drop_fee(chain, "bob", 10**6)
    chain.block()
    earned = reward(chain, "alice", "v1")
    before = chain.rewards["alice"]
    slash(chain, "v0", STAKE // 2)
    assert chain.rewards["alice"] - before == earned // ATTOS
    chain.block()
    assert chain.worth("alice") == 10**12 - STAKE


def test_a_higher_commission_reaches_no_reward_of_the_past() -> None:
    """The operator raises its rate when a large fee is paid, and withdraws at once."""
    chain = make_chain(**PLAIN)
    chain.ok(delegate("alice", "v0", STAKE))
    chain.pass_time(86_400)
    drop_fee(chain, "bob", 10**8)
    chain.block()
    before = reward(chain, "alice", "v0")
    chain.ok(edit("v0", commission_rate=ONE * 11 // 100), commission("v0"))
    assert reward(chain, "alice", "v0") >= before
