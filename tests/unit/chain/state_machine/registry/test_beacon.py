"""Beacon keys: from when they count, and what a block makes of a reveal."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.registry.beacon import get_reveal_duty
from chain.state_machine.store import MemoryStore, Overlay
from chain.state_machine.transition import init_chain
from domain.beacon import Reveal, first_beacon, next_beacon, possession_sign_bytes
from domain.errors import ALREADY_EXISTS, BAD_FIELD, BAD_PROOF, NOT_FOUND, Refusal
from domain.registry.messages import MsgRevokeBeaconKey, MsgSetBeaconKey
from domain.registry.queries import ValidatorsRequest
from domain.registry.records import BeaconKey, Validator
from tests.support.chain_harness import (
    CHAIN_ID,
    Chain,
    beacon_key,
    cons_address,
    make_genesis,
    prove,
    pub_key,
    sign,
)

DELAY = 10  # of a local network
GENESIS = make_genesis(("carol",), ("v0", "v1"))


@pytest.fixture
def chain() -> Chain:
    return Chain(GENESIS)


def set_key(name: str, operator: str = "v0", **changes: Any) -> MsgSetBeaconKey:
    key = pub_key(name)
    proof = sign(key, possession_sign_bytes(CHAIN_ID, operator, key))
    return MsgSetBeaconKey(**{"operator": operator, "beacon_key": key, "key_proof": proof} | changes)


def validator(chain: Chain, operator: str) -> Validator:
    found: tuple[Validator, ...] = chain.ask(ValidatorsRequest()).validators
    return next(one for one in found if one.operator == operator)


def key_of_next_block(chain: Chain) -> bytes:
    duty = get_reveal_duty(chain.overlay(), cons_address("v0"), chain.height + 1)
    return duty.pub_key if duty is not None else b""


# --- the beacon ----------------------------------------------------------------------------------


def test_keys_of_genesis_count_from_block_1(chain: Chain) -> None:
    assert validator(chain, "v0").beacon_keys == (BeaconKey(beacon_key("v0"), 1),)
    assert key_of_next_block(chain) == beacon_key("v0")


def test_each_reveal_makes_the_next_beacon_from_the_one_before(chain: Chain) -> None:
    seen = [chain.beacon]
    for number in range(3):
        chain.block(value=chain.value(number))
        assert chain.reveal_result is not None
        assert (chain.reveal_result.code, chain.reveal_result.gas_used) == (0, 0)
        assert chain.beacon == next_beacon(seen[-1], chain.value(number))
        (event,) = chain.reveal_result.events
        assert (event.number, event.type, event.get("beacon")) == (0, "beacon", chain.beacon.hex())
        seen.append(chain.beacon)
    assert len(set(seen)) == 4


def test_the_first_beacon_is_of_one_chain_and_one_genesis() -> None:
    others = (make_genesis(("dave",), ("v0", "v1")), make_genesis(("carol",), ("v0",)))
    assert len({Chain(genesis).beacon for genesis in (GENESIS, *others)}) == 3
    assert first_beacon("a", bytes(32)) != first_beacon("b", bytes(32))


@pytest.mark.parametrize("forge", ["of another key", "of another height", "of nothing"])
def test_a_wrong_reveal_leaves_the_beacon_as_it_was(chain: Chain, forge: str) -> None:
    chain.block(proposer="v0")
    before = chain.beacon
    forged = {
        "of another key": chain.reveal("v1"),
        "of another height": chain.reveal("v0"),  # of the block that was just made
        "of nothing": Reveal(bytes(32), prove(beacon_key("v0"), b"", chain.value(1))),
    }[forge]
    chain.block(proposer="v0", reveal=forged)
    assert chain.reveal_result is not None
    assert (chain.reveal_result.codespace, chain.reveal_result.code) == ("assay", BAD_PROOF.number)
    assert chain.beacon == before


def test_a_stranger_reveals_nothing(chain: Chain) -> None:
    assert get_reveal_duty(chain.overlay(), bytes(20), 1) is None


# --- keys ----------------------------------------------------------------------------------------


def test_a_changed_key_counts_after_the_delay_and_the_old_one_until_then(chain: Chain) -> None:
    chain.ok(set_key("new"))
    valid_from = chain.height + DELAY
    (event,) = chain.seen("validator.beacon_key")
    assert event.get("valid_from") == str(valid_from)
    while chain.height + 1 < valid_from:
        assert key_of_next_block(chain) == beacon_key("v0")
        chain.block(proposer="v0")
        assert chain.reveal_result is not None
        assert chain.reveal_result.code == 0
    assert key_of_next_block(chain) == pub_key("new")
    chain.block(proposer="v0")
    assert chain.reveal_result is not None
    assert chain.reveal_result.code == 0


def test_nobody_holds_several_keys_that_wait(chain: Chain) -> None:
    chain.ok(set_key("new"))
    chain.block()
    chain.ok(set_key("newer"))
    keys = [beacon.key for beacon in validator(chain, "v0").beacon_keys]
    assert keys == [beacon_key("v0"), pub_key("newer")]
    for _ in range(DELAY):
        chain.block()
    assert key_of_next_block(chain) == pub_key("newer")
    chain.ok(set_key("newest"))
    keys = [beacon.key for beacon in validator(chain, "v0").beacon_keys]
    assert keys == [pub_key("newer"), pub_key("newest")]


def test_a_revoked_key_counts_no_more_from_the_next_block_on(chain: Chain) -> None:
    chain.ok(set_key("new"))
    chain.ok(MsgRevokeBeaconKey("v0", beacon_key("v0")))
    (event,) = chain.seen("validator.beacon_key_revoked")
    assert event.get("beacon_key") == beacon_key("v0").hex()
    before = chain.beacon
    chain.block(proposer="v0")
    assert (chain.reveal_result, chain.beacon) == (None, before)
    for _ in range(DELAY):
        chain.block(proposer="v0")
    assert key_of_next_block(chain) == pub_key("new")
    assert chain.beacon != before


def test_a_key_that_was_replaced_does_not_come_back(chain: Chain) -> None:
    """Else its owner would choose between two values, of which it knows both."""
    chain.ok(set_key("new"))
    for _ in range(DELAY):
        chain.block()
    chain.ok(MsgRevokeBeaconKey("v0", pub_key("new")))
    assert key_of_next_block(chain) == b""
    assert validator(chain, "v0").beacon_keys == ()


def test_giving_up_a_key_that_waits_leaves_the_one_that_counts(chain: Chain) -> None:
    chain.ok(set_key("new"))
    chain.ok(MsgRevokeBeaconKey("v0", pub_key("new")))
    assert key_of_next_block(chain) == beacon_key("v0")


def test_a_key_is_registered_once_and_by_who_holds_it(chain: Chain) -> None:
    chain.ok(set_key("new"))
    chain.refused(ALREADY_EXISTS, set_key("new", "v1"), field="beacon_key")
    chain.ok(MsgRevokeBeaconKey("v0", pub_key("new")))
    chain.refused(ALREADY_EXISTS, set_key("new"), field="beacon_key")
    others = set_key("other", "v1").key_proof
    chain.refused(BAD_PROOF, set_key("other", key_proof=others), field="key_proof")
    chain.refused(NOT_FOUND, set_key("other", "carol"))
    chain.refused(NOT_FOUND, MsgRevokeBeaconKey("v1", beacon_key("v0")), field="beacon_key")
    chain.refused(NOT_FOUND, MsgRevokeBeaconKey("carol", beacon_key("v0")))


def test_two_validators_of_genesis_have_two_keys() -> None:
    first, second = GENESIS.validators
    twins = (first, replace(second, beacon_key=first.beacon_key))
    with pytest.raises(Refusal, match="two validators have the same key") as refused:
        init_chain(Overlay(MemoryStore()), replace(GENESIS, validators=twins), 0)
    assert (refused.value.code, refused.value.field) == (BAD_FIELD, "validators.beacon_key")
