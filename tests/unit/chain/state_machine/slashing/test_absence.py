"""Absence: the window of each validator, the jail of those that missed too many blocks, and the way back."""

import pytest

from chain.state_machine.context import PARAMS
from chain.state_machine.slashing.absence import CHUNK, missed_max
from chain.state_machine.slashing.tables import MISSED_BITS
from domain.amount import ASSAY
from domain.errors import (
    LOW_SELF_DELEGATION,
    NO_SELF_DELEGATION,
    NO_VALIDATOR,
    NOT_JAILED,
    STILL_JAILED,
    Code,
)
from domain.slashing.messages import MsgUnjail
from domain.slashing.params import SlashingParams
from domain.staking.records import ONE, BondStatus
from tests.support.chain_harness import STAKE, cons_address
from tests.support.slashing import (
    JAIL,
    WINDOW,
    burnt,
    info_of,
    make_blocks,
    make_watched,
    missed,
    prove,
    until_jailed,
)
from tests.support.stakes import create, delegate, edit, set_key, stake_of, undelegate, update, worth


@pytest.mark.parametrize(
    ("window", "least", "most"),
    [(100, ONE // 2, 50), (10, ONE // 20, 9), (10, ONE * 4 // 100, 10), (11, ONE // 2, 5), (100, ONE, 0)],
)
def test_the_least_part_is_rounded_to_whole_blocks(window: int, least: int, most: int) -> None:
    assert missed_max(SlashingParams(signed_blocks_window=window, min_signed_per_window=least)) == most


def test_a_validator_that_missed_more_than_half_of_its_window_is_jailed_and_slashed() -> None:
    chain = make_watched()
    chain.away = {"v1"}
    make_blocks(chain, WINDOW)  # the votes for the last block come with the next one
    assert missed(chain, "v1") == WINDOW - 1
    assert not stake_of(chain, "v1").jailed
    result = chain.block()
    stake = stake_of(chain, "v1")
    assert (stake.jailed, stake.status) == (True, BondStatus.UNBONDING)
    assert result.validator_updates == (update("v1", 0),)
    assert info_of(chain, "v1").jailed_until == chain.clock + JAIL
    assert burnt(chain) == STAKE // 100
    assert stake.tokens == STAKE - STAKE // 100
    assert missed(chain, "v1") == 0
    assert list(MISSED_BITS.keys(chain.overlay(), cons_address("v1"))) == []


def test_half_of_the_window_may_be_missed_for_ever() -> None:
    chain = make_watched()
    for number in range(3 * WINDOW):
        chain.away = {"v1"} if number % 2 else set()
        chain.block()
    assert missed(chain, "v1") == WINDOW // 2
    assert not stake_of(chain, "v1").jailed


def test_what_it_missed_leaves_the_window() -> None:
    chain = make_watched()
    make_blocks(chain, WINDOW)
    chain.away = {"v1"}
    make_blocks(chain, WINDOW // 2)
    assert missed(chain, "v1") == WINDOW // 2
    chain.away = set()
    make_blocks(chain, WINDOW + 1)
    assert missed(chain, "v1") == 0
    assert not stake_of(chain, "v1").jailed


def test_a_window_of_several_chunks_counts_the_same() -> None:
    window = 2 * CHUNK + 10
    chain = make_watched(signed_blocks_window=window)
    chain.checked = False
    make_blocks(chain, CHUNK - 5)
    chain.away = {"v1"}
    make_blocks(chain, CHUNK // 2)
    assert missed(chain, "v1") == CHUNK // 2
    assert len(list(MISSED_BITS.keys(chain.overlay()))) == 2
    chain.check_state()
    chain.check_books()
    chain.away = set()
    make_blocks(chain, window)
    assert missed(chain, "v1") == 0
    assert list(MISSED_BITS.keys(chain.overlay())) == []


def test_a_validator_comes_back_by_unjailing_itself() -> None:
    chain = make_watched()
    until_jailed(chain, "v1")
    chain.refused(STILL_JAILED, MsgUnjail("v1"), field="validator_addr: validator still jailed; cannot be unjailed")
    chain.pass_until(info_of(chain, "v1").jailed_until)
    height = chain.height + 1
    result = chain.ok(MsgUnjail("v1"))
    assert result.validator_updates == (update("v1", (STAKE - STAKE // 100) // ASSAY),)
    stake = stake_of(chain, "v1")
    assert (stake.jailed, stake.status) == (False, BondStatus.BONDED)
    assert info_of(chain, "v1").start_height == height + 2
    make_blocks(chain, 3 * WINDOW)
    assert not stake_of(chain, "v1").jailed
    chain.check_books()


def test_a_new_validator_has_a_whole_window() -> None:
    chain = make_watched()
    make_blocks(chain, 2 * WINDOW)
    chain.ok(create("new", 2 * STAKE))
    chain.ok(set_key("new"))
    chain.away = {"new"}
    while stake_of(chain, "new").status is not BondStatus.BONDED:
        chain.block()
    start = info_of(chain, "new").start_height
    assert start == chain.height + 2
    make_blocks(chain, WINDOW + 1)
    assert chain.height == start + WINDOW - 1
    assert not stake_of(chain, "new").jailed
    chain.block()
    assert stake_of(chain, "new").jailed


def test_votes_of_the_time_before_do_not_count() -> None:
    """A validator leaves the set and comes back within two blocks: votes of its old place are on their way."""
    chain = make_watched()
    chain.away = {"v1"}
    make_blocks(chain, 5)
    chain.ok(undelegate("v1", "v1", STAKE))
    chain.ok(delegate("v1", "v1", STAKE))
    assert missed(chain, "v1") == 0
    start = info_of(chain, "v1").start_height
    while chain.height <= start:
        assert missed(chain, "v1") == 0
        chain.block()
    assert missed(chain, "v1") == 1


def test_the_last_candidate_is_not_jailed() -> None:
    chain = make_watched(2)
    until_jailed(chain, "v0")
    chain.away = {"v1"}
    make_blocks(chain, 2 * WINDOW + 2)
    stake = stake_of(chain, "v1")
    assert (stake.jailed, stake.status, stake.tokens) == (False, BondStatus.BONDED, STAKE)
    assert info_of(chain, "v1").start_height > WINDOW
    chain.away = set()
    chain.ok(MsgUnjail("v0"), seconds=JAIL)
    assert stake_of(chain, "v0").status is BondStatus.BONDED


def test_another_window_begins_anew() -> None:
    chain = make_watched()
    chain.away = {"v1"}
    make_blocks(chain, WINDOW - 2)
    chain.change(lambda store: PARAMS.set(store, PARAMS.get(store).replace(signed_blocks_window=30)))
    make_blocks(chain, 2)
    assert [info_of(chain, name).window for name in ("v0", "v1")] == [30, 30]
    make_blocks(chain, 28)
    assert not stake_of(chain, "v1").jailed
    chain.block()
    assert stake_of(chain, "v1").jailed


def test_a_proposer_that_owes_a_reveal_counts_as_absent() -> None:
    """Its validators accepted the block, so its proposer is known: it did not do what only it could do."""
    chain = make_watched()
    chain.block(proposer="v1", reveals=False)
    chain.block(proposer="v2")
    assert [missed(chain, name) for name in ("v0", "v1", "v2")] == [0, 1, 0]
    chain.block(proposer="v1", reveals=False)
    chain.block(proposer="v1", reveals=False)
    chain.block(proposer="v2")
    chain.block(proposer="v2")
    assert missed(chain, "v1") == 3


@pytest.mark.parametrize(
    ("operator", "code", "text"),
    [
        ("alice", NO_VALIDATOR, "address is not associated with any known validator"),
        ("v0", NOT_JAILED, "validator not jailed; cannot be unjailed"),
    ],
)
def test_who_is_not_in_jail_is_refused(operator: str, code: Code, text: str) -> None:
    chain = make_watched()
    chain.refused(code, MsgUnjail(operator), field=f"validator_addr: {text}")


def test_a_validator_needs_its_self_delegation_to_come_back() -> None:
    chain = make_watched()
    chain.ok(edit("v1", min_self_delegation=STAKE // 2), delegate("alice", "v1", ASSAY))
    until_jailed(chain, "v1")
    chain.pass_time(JAIL)
    chain.ok(undelegate("v1", "v1", STAKE * 6 // 10))
    text = "validator_addr: validator's self delegation less than minimum; cannot be unjailed"
    chain.refused(LOW_SELF_DELEGATION, MsgUnjail("v1"), field=text)
    chain.ok(undelegate("v1", "v1", worth(chain, "v1", "v1")))
    text = "validator_addr: validator has no self-delegation; cannot be unjailed"
    chain.refused(NO_SELF_DELEGATION, MsgUnjail("v1"), field=text)
    chain.ok(delegate("v1", "v1", STAKE))
    chain.ok(MsgUnjail("v1"))
    assert stake_of(chain, "v1").status is BondStatus.BONDED


def test_a_tombstoned_validator_stays_in_jail() -> None:
    chain = make_watched()
    prove(chain, "v1")
    chain.pass_time(2 * JAIL)
    chain.refused(STILL_JAILED, MsgUnjail("v1"), field="validator_addr: validator still jailed; cannot be unjailed")


def test_a_jail_that_left_no_candidate_ends_in_the_set() -> None:
    """All others stop to be candidates in the block of the jail: the set stays, and the validator is watched again."""
    chain = make_watched(2)
    chain.away = {"v1"}
    make_blocks(chain, WINDOW)
    chain.ok(undelegate("v0", "v0", STAKE))
    stake = stake_of(chain, "v1")
    assert (stake.jailed, stake.status) == (True, BondStatus.BONDED)
    assert chain.block().validator_updates == ()
    chain.away = set()
    chain.pass_time(JAIL)
    assert update("v0", 0) in chain.ok(MsgUnjail("v1")).validator_updates
    assert info_of(chain, "v1").start_height == chain.height
    make_blocks(chain, 2 * WINDOW)
    assert not stake_of(chain, "v1").jailed
