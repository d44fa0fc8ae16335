"""Double signatures: tombstone, slash of the stake that was there, and the clock of past heights."""

import pytest

from chain.state_machine.context import HEAD
from chain.state_machine.slashing.clock import clock_at
from chain.state_machine.slashing.tables import EVIDENCE, PAST_LAGS
from domain.block import MisbehaviourKind
from domain.registry.queries import ValidatorsRequest
from domain.slashing.events import StakeSlashed
from domain.slashing.messages import MsgUnjail
from domain.slashing.records import FOREVER, Evidence
from domain.staking.records import BondStatus
from domain.vocabulary import changes_of
from tests.support.chain_harness import STAKE, Chain, cons_address
from tests.support.slashing import (
    JAIL,
    STEP,
    burnt,
    info_of,
    make_blocks,
    make_watched,
    prove,
    signed_twice,
    until_jailed,
)
from tests.support.stakes import UNBONDING, delegate, leaving, redelegate, stake_of, undelegate, update, worth

PART = STAKE // 20


@pytest.mark.parametrize("kind", list(MisbehaviourKind))
def test_a_validator_that_signed_twice_is_tombstoned_and_slashed(kind: MisbehaviourKind) -> None:
    chain = make_watched()
    make_blocks(chain, 3)
    proof = signed_twice(chain, "v1", kind=kind)
    result = chain.block(misbehaviours=(proof,))
    stake, info = stake_of(chain, "v1"), info_of(chain, "v1")
    assert (stake.jailed, stake.status, stake.tokens) == (True, BondStatus.UNBONDING, STAKE - PART)
    assert (info.tombstoned, info.jailed_until) == (True, FOREVER)
    assert result.validator_updates == (update("v1", 0),)
    assert burnt(chain) == PART
    address = cons_address("v1")
    evidence = Evidence(address, "v1", kind, proof.height, proof.time_ns, proof.power)
    assert EVIDENCE.scan(chain.overlay()) == [evidence]
    assert chain.ask(ValidatorsRequest()).consensus_jailed == ("v1",)
    chain.check_books()


def test_a_second_proof_takes_nothing_more() -> None:
    chain = make_watched()
    make_blocks(chain, 3)
    proof = signed_twice(chain, "v1")
    chain.block(misbehaviours=(proof, signed_twice(chain, "v1", height=chain.height - 1)))
    chain.block(misbehaviours=(proof,))
    assert burnt(chain) == PART
    assert len(list(changes_of(StakeSlashed, chain.events))) == 1


def test_all_may_sign_twice_and_the_set_stays() -> None:
    chain = make_watched(3)
    make_blocks(chain, 3)
    result = prove(chain, "v0", "v1", "v2")
    assert result.validator_updates == ()
    stakes = [stake_of(chain, name) for name in ("v0", "v1", "v2")]
    assert [(stake.jailed, stake.status) for stake in stakes] == [(True, BondStatus.BONDED)] * 3
    make_blocks(chain, 60)
    assert burnt(chain) == 3 * PART


def test_an_unknown_address_and_one_that_was_never_bonded_are_ignored() -> None:
    chain = make_watched()
    chain.block(misbehaviours=(signed_twice(chain, "nobody"), signed_twice(chain, "new")))
    assert burnt(chain) == 0


def test_a_jailed_validator_is_tombstoned_for_what_it_signed_before() -> None:
    chain = make_watched()
    make_blocks(chain, 2)
    proof = signed_twice(chain, "v1")
    until_jailed(chain, "v1")
    chain.block(misbehaviours=(proof,))
    assert info_of(chain, "v1").jailed_until == FOREVER
    assert burnt(chain) == STAKE // 100 + PART
    result = chain.block(MsgUnjail("v1"), seconds=JAIL)
    assert [tx.codespace for tx in result.tx_results] == ["slashing"]


def test_evidence_beyond_its_age_is_ignored() -> None:
    chain = make_watched(evidence_max_age=1_000)
    make_blocks(chain, 3)
    old = signed_twice(chain, "v1")
    young = signed_twice(chain, "v2", time_ns=old.time_ns + 10**9)
    for _ in range(20):
        chain.block(seconds=50)
    chain.block(misbehaviours=(old, young))
    assert [info_of(chain, name).tombstoned for name in ("v1", "v2")] == [False, True]


def test_a_validator_whose_unbonding_is_over_is_ignored() -> None:
    chain = make_watched(clock_step_max=86_400, evidence_max_age=10 * UNBONDING)
    make_blocks(chain, 3)
    proof = signed_twice(chain, "v1")
    chain.ok(undelegate("v1", "v1", STAKE))
    chain.block(seconds=UNBONDING)
    chain.block()
    assert stake_of(chain, "v1").status is BondStatus.UNBONDED
    chain.ok(delegate("alice", "v1", STAKE))
    chain.block(misbehaviours=(proof,))
    assert worth(chain, "alice", "v1") == STAKE


def test_coins_that_left_after_the_signature_lose_their_part() -> None:
    chain = make_watched()
    chain.ok(delegate("alice", "v1", STAKE), delegate("bob", "v1", STAKE))
    chain.pass_time(3 * STEP)
    proof = signed_twice(chain, "v1", power=30_000)
    chain.ok(undelegate("alice", "v1", STAKE), redelegate("bob", "v1", "v2", STAKE))
    chain.pass_time(3 * STEP)
    chain.block(misbehaviours=(proof,))
    assert leaving(chain, "alice", "v1") == STAKE - PART
    assert worth(chain, "bob", "v2") == STAKE - PART
    assert worth(chain, "v1", "v1") == STAKE - PART
    assert burnt(chain) == 3 * PART


def test_coins_that_left_long_before_the_signature_lose_nothing() -> None:
    chain = make_watched()
    chain.ok(delegate("alice", "v1", STAKE))
    chain.ok(undelegate("alice", "v1", STAKE))
    chain.pass_time(STEP + 2)
    prove(chain, "v1")
    assert leaving(chain, "alice", "v1") == STAKE
    assert worth(chain, "v1", "v1") == STAKE - PART


def test_coins_that_left_in_the_block_before_still_gave_power() -> None:
    """The set of a height is that of two blocks before, so the coins that left in between signed with it."""
    chain = make_watched()
    chain.ok(delegate("alice", "v1", STAKE))
    make_blocks(chain, 3)
    chain.ok(undelegate("alice", "v1", STAKE))
    chain.block(seconds=STEP)
    chain.block(misbehaviours=(signed_twice(chain, "v1", power=20_000),))
    assert leaving(chain, "alice", "v1") == STAKE - PART


def test_a_slash_is_of_the_power_at_that_height() -> None:
    """Coins that came later make the loss of each coin smaller, not the loss larger."""
    chain = make_watched()
    make_blocks(chain, 3)
    proof = signed_twice(chain, "v1")
    chain.ok(delegate("alice", "v1", STAKE))
    chain.block(misbehaviours=(proof,))
    assert burnt(chain) == PART
    assert worth(chain, "alice", "v1") == STAKE - PART // 2


def test_a_slash_takes_at_most_what_is_left() -> None:
    chain = make_watched(clock_step_max=2)
    chain.pass_time(10)
    chain.block(misbehaviours=(signed_twice(chain, "v1", power=10**9),))
    assert stake_of(chain, "v1").tokens == 0
    assert burnt(chain) == STAKE


def heights_of(chain: Chain) -> dict[int, tuple[int, int]]:
    """Make blocks with and without halts; return header time and chain clock by height."""
    seen = {}
    for seconds in (1, 1, 500, 1, 2, 10_000, 61, 60, 1):
        chain.block(seconds=seconds)
        head = HEAD.must(chain.overlay())
        seen[head.height] = head.time_ns, head.clock_ns // 10**9
    return seen


def test_the_clock_of_a_height_is_known_across_halts() -> None:
    chain = make_watched()
    seen = heights_of(chain)
    store = chain.overlay()
    assert {height: clock_at(store, height, time_ns) for height, (time_ns, _) in seen.items()} == {
        height: clock for height, (_, clock) in seen.items()
    }
    assert len(PAST_LAGS.scan(store)) == 3


def test_lags_that_no_evidence_needs_are_removed() -> None:
    chain = make_watched(evidence_max_age=100)
    for _ in range(40):
        chain.block(seconds=2 * STEP)
    assert len(PAST_LAGS.scan(chain.overlay())) <= 4


def test_a_halt_does_not_reach_coins_that_left_before_it() -> None:
    """The chain halts for a day: evidence of the first block after it reaches no coins that left before the halt."""
    chain = make_watched()
    chain.ok(delegate("alice", "v1", STAKE))
    chain.ok(undelegate("alice", "v1", STAKE))
    chain.pass_time(2 * STEP)
    chain.block(seconds=86_400)
    chain.block(seconds=STEP)
    prove(chain, "v1")
    assert leaving(chain, "alice", "v1") == STAKE
