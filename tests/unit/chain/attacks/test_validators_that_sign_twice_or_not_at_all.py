"""Validators that sign twice or do not sign: what they sold, what their delegators lose, and how they try to escape."""

from chain.state_machine.market.book import get_backing
from chain.state_machine.market.tables import get_load
from chain.state_machine.registry.tables import VALIDATORS
from domain.errors import STILL_JAILED, WRONG_STATE
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.params import Params, local_params
from domain.slashing.messages import MsgUnjail
from domain.staking.records import BondStatus
from tests.support.chain_harness import STAKE
from tests.support.chain_market import Market, submit
from tests.support.slashing import (
    JAIL,
    STEP,
    WINDOW,
    burnt,
    info_of,
    make_blocks,
    make_watched,
    missed,
    prove,
    signed_twice,
    until_jailed,
)
from tests.support.stakes import (
    cancel,
    create,
    delegate,
    jail,
    leaving,
    redelegate,
    set_key,
    stake_of,
    undelegate,
    worth,
)

PART = STAKE // 20


def make_market() -> Market:
    changes = {"signed_blocks_window": WINDOW, "downtime_jail_duration": JAIL, "unbonding_time": 6_400}
    params: Params = local_params().replace(**changes | {"progress_base": 5_000})
    return Market(params, consumers=("carol", "dave"))


def capacity(market: Market, name: str = "v0") -> int:
    """Return the stake that can still back orders."""
    return get_backing(market.chain.overlay(), name)[2]


def test_capacity_falls_at_once_and_what_is_sold_is_served() -> None:
    """A validator is jailed while its order runs: it gets no further order, and is paid for this one."""
    market = make_market()
    order_id = market.run(submit(deposit=900_000, rematch=False))
    assert capacity(market) > 0
    jail(market.chain, "v0")
    assert capacity(market) <= 0
    assert VALIDATORS.must(market.chain.overlay(), "v0").stake == 0
    market.settle(order_id)
    assert market.leg(order_id).state is LegState.DONE


def test_a_jailed_validator_that_no_longer_serves_pays() -> None:
    """It is away for ever: its order fails, and its stake pays what it owes although it left the set."""
    market = make_market()
    order_id = market.run(submit(deposit=900_000, rematch=False))
    jail(market.chain, "v0")
    market.chain.block()
    assert stake_of(market.chain, "v0").status is BondStatus.UNBONDING
    sold = get_load(market.chain.overlay(), "v0").value
    assert sold > 0
    market.chain.pass_time(5_000 + 2 * 3_600)
    assert market.chain.order(order_id).state is OrderState.CLOSED
    assert market.leg(order_id).state is LegState.FAILED
    assert get_load(market.chain.overlay(), "v0").value == 0


def test_a_slash_leaves_less_to_sell() -> None:
    market = make_market()
    before = capacity(market)
    prove(market.chain, "v1")
    jail(market.chain, "v0")
    jail(market.chain, "v0", jailed=False)
    assert capacity(market) == before  # jail alone takes nothing
    assert capacity(market, "v1") <= 0


def test_delegators_do_not_escape_between_the_signature_and_its_proof() -> None:
    """The operator knows first: its accomplices undelegate and redelegate in the same minute."""
    chain = make_watched()
    chain.ok(delegate("alice", "v1", STAKE), delegate("bob", "v1", STAKE))
    chain.pass_time(2 * STEP)
    proof = signed_twice(chain, "v1", power=30_000)
    chain.ok(undelegate("alice", "v1", STAKE), redelegate("bob", "v1", "v2", STAKE))
    chain.block(misbehaviours=(proof,))
    assert [leaving(chain, "alice", "v1"), worth(chain, "bob", "v2")] == [STAKE - PART] * 2
    assert stake_of(chain, "v2").tokens == 2 * STAKE - PART


def test_coins_do_not_return_to_a_jailed_validator() -> None:
    """A cancelled undelegation would make coins liable anew for a fault that they were not there for."""
    chain = make_watched()
    chain.ok(delegate("alice", "v1", STAKE))
    chain.ok(undelegate("alice", "v1", STAKE))
    height = chain.height
    prove(chain, "v1")
    chain.refused(WRONG_STATE, cancel("alice", "v1", STAKE // 2, height))


def test_leaving_the_set_does_not_end_the_jail() -> None:
    """A jailed operator takes its coins out, lets the unbonding end, and comes back: it is still in jail."""
    chain = make_watched(clock_step_max=86_400)
    until_jailed(chain, "v1")
    chain.ok(undelegate("v1", "v1", STAKE // 2))
    chain.block(seconds=6_400)
    chain.block()
    assert stake_of(chain, "v1").status is BondStatus.UNBONDED
    chain.ok(delegate("v1", "v1", STAKE))
    make_blocks(chain, 3)
    assert stake_of(chain, "v1").status is BondStatus.UNBONDED
    chain.ok(MsgUnjail("v1"))
    assert stake_of(chain, "v1").status is BondStatus.BONDED


def test_others_cannot_unjail_a_validator_and_it_cannot_do_so_early() -> None:
    """The signer of the message is the operator, so another account frees only itself."""
    chain = make_watched()
    until_jailed(chain, "v1")
    for _ in range(3):
        chain.refused(STILL_JAILED, MsgUnjail("v1"))
    assert info_of(chain, "v1").start_height == 0


def test_a_validator_that_signs_every_second_block_gains_nothing_by_leaving() -> None:
    """It leaves the set before its window is full, and comes back: it has neither power nor stake in between."""
    chain = make_watched()
    chain.away = {"v1"}
    make_blocks(chain, WINDOW - 1)
    result = chain.ok(undelegate("v1", "v1", STAKE))
    assert [change.power for change in result.validator_updates] == [0]
    assert VALIDATORS.must(chain.overlay(), "v1").stake == 0
    assert missed(chain, "v1") == 0


def test_two_proofs_in_one_block_and_an_absence_are_one_jail() -> None:
    """A validator is absent for long enough in the block that proves its double signature."""
    chain = make_watched()
    chain.away = {"v1"}
    make_blocks(chain, WINDOW)
    chain.block(misbehaviours=(signed_twice(chain, "v1"), signed_twice(chain, "v1", height=3)))
    assert info_of(chain, "v1").tombstoned
    assert burnt(chain) == PART + STAKE // 100


def test_a_key_of_a_tombstoned_validator_is_not_used_again() -> None:
    chain = make_watched()
    prove(chain, "v1")
    taken = create("new", pubkey=create("v1").pubkey)
    assert chain.block(taken).tx_results[0].code != 0
    chain.ok(create("new", STAKE), set_key("new"))
    make_blocks(chain, 12)
    assert stake_of(chain, "new").status is BondStatus.BONDED


def test_a_third_of_the_set_is_absent_at_once() -> None:
    """Many validators are jailed in one block, each by its own stake alone; the others go on."""
    chain = make_watched(9)
    chain.away = {"v1", "v2", "v3"}
    make_blocks(chain, WINDOW + 1)
    assert [stake_of(chain, f"v{number}").jailed for number in range(5)] == [False, True, True, True, False]
    assert len(chain.sets[2]) == 6
    assert burnt(chain) == 3 * STAKE // 100
