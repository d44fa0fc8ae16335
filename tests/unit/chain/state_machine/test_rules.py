"""Rules by height: what a chain does at the height where their version changes, and without that version."""

from dataclasses import replace

import pytest

from chain.state_machine.component import Component
from chain.state_machine.components import COMPONENTS
from chain.state_machine.context import PARAMS, SCHEDULE, NodeMemory
from chain.state_machine.ledger.tables import BALANCES
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.rules import RULES, Rulebook, Rules, RulesMissing
from chain.state_machine.store import MemoryStore, Overlay
from chain.state_machine.transition import apply_block, check_proposed, init_chain
from domain.block import Block
from domain.errors import BAD_FIELD, UNKNOWN_REQUEST, Refusal
from domain.genesis import Genesis, RulesFrom
from domain.ledger.messages import MsgDepositBond
from domain.legs.params import LegsParams
from domain.market.params import MarketParams
from domain.node.params import NodeParams
from domain.registry.messages import MsgSetEndpoint
from tests.support.chain_harness import CRYPTO, GENESIS_TIME, Chain, make_genesis
from tests.support.second_rules import (
    BOTH,
    FIRST,
    LENGTHS,
    NAMES,
    NICKNAMES,
    ONLY_FIRST,
    SECOND,
    switching,
)

HEIGHT = 4
GENESIS = make_genesis(("alice",), ("v0", "v1"))
ENDPOINT = MsgSetEndpoint("v0", "host:1", b"certificate")


def network() -> Chain:
    """Return a chain that stands just before its rules change."""
    chain = Chain(switching(GENESIS, HEIGHT), rulebook=BOTH)
    for _ in range(HEIGHT - 2):
        chain.block()
    return chain


def endpoint(chain: Chain) -> str:
    return VALIDATORS.must(chain.overlay(), "v0").endpoint


def test_a_component_of_later_rules_has_its_defaults_until_it_writes_others() -> None:
    chain = Chain(GENESIS)
    chain.change(lambda store: PARAMS.delete(store, "market"))
    params = PARAMS.get(chain.overlay())
    assert params.of(MarketParams) == MarketParams() != GENESIS.params.of(MarketParams)
    assert params.of(LegsParams) == GENESIS.params.of(LegsParams)
    chain.change(lambda store: PARAMS.set(store, params.replace(ttl_max=5)))
    assert PARAMS.get(chain.overlay()).of(MarketParams) == MarketParams(ttl_max=5)


def test_the_version_changes_at_its_height_and_the_state_with_it() -> None:
    chain = network()
    chain.ok(ENDPOINT)
    assert endpoint(chain) == "host:1"
    assert NICKNAMES.get(chain.overlay(), "v1") == b"v1"
    result = chain.ok(ENDPOINT)
    assert chain.height == HEIGHT
    assert endpoint(chain) == "HOST:1"
    assert LENGTHS.get(chain.overlay(), "v1") == 2
    assert list(NICKNAMES.keys(chain.overlay())) == []
    told = [event.type for event in result.events if event.number]
    assert [kind for kind in told if not kind.startswith("distribution.")] == ["rules.changed"]
    assert chain.books.rules == 2
    chain.change(lambda store: LENGTHS.set(store, 9, "v1"))
    chain.block()
    assert LENGTHS.get(chain.overlay(), "v1") == 9, "a migration runs once"
    assert not [e for e in chain.last.events if e.type == "rules.changed"]  # type: ignore[union-attr]


def test_what_waits_for_the_first_block_of_a_version_is_checked_by_it() -> None:
    """CheckTx, simulation and proposals take the rules of the next block, on the state as that block finds it."""
    chain = network()
    deposit = chain.tx(MsgDepositBond("alice", 5))
    for answer in (chain.check(deposit), chain.simulate(deposit)):
        assert (answer.code, answer.codespace) == (UNKNOWN_REQUEST.number, UNKNOWN_REQUEST.space)
    chain.block()
    assert chain.height == HEIGHT - 1
    deposit = chain.tx(MsgDepositBond("alice", 5))
    assert chain.check(deposit).code == chain.simulate(deposit).code == 0
    with pytest.raises(Refusal):
        check_proposed(deposit, BOTH.at(chain.overlay(), HEIGHT - 1), NodeParams())
    check_proposed(deposit, BOTH.at(chain.overlay(), HEIGHT), NodeParams())
    assert LENGTHS.get(chain.overlay(), "v1") == 0, "only the block itself writes"
    chain.ok(deposit)


def test_a_message_of_a_later_version_is_refused_as_software_without_it_refuses_it() -> None:
    """What a decoder does not know has no gas in its result, which all nodes have to agree on."""
    chain = network()
    (later,) = chain.block(MsgDepositBond("alice", 5)).tx_results
    unknown = Refusal(UNKNOWN_REQUEST, "body.messages[0].type_url", "is not a message of this chain")
    (undecoded,) = chain.block(unknown).tx_results
    told = [(r.code, r.codespace, r.gas_wanted, r.gas_used, r.events) for r in (later, undecoded)]
    assert told[0] == told[1]
    assert chain.sequence("alice") == 0


def test_software_without_the_version_stops_before_its_first_block() -> None:
    chain = Chain(switching(GENESIS, HEIGHT), rulebook=ONLY_FIRST)
    for _ in range(HEIGHT - 1):
        chain.block()
    with pytest.raises(RulesMissing) as stopped:
        chain.block()
    assert str(stopped.value) == (
        "rules from height 4: block 4 needs version 2 of the rules, but this software only has 1; "
        "install a release of assay with version 2 of the rules and start the node again; "
        "it continues from its last block"
    )
    missing = ONLY_FIRST.get_missing(chain.overlay(), 1)
    assert missing is not None
    assert str(missing) == str(stopped.value)
    assert BOTH.get_missing(chain.overlay(), 1) is None
    with pytest.raises(RulesMissing):
        chain.check(chain.tx(ENDPOINT))


def test_versions_in_between_migrate_in_their_order() -> None:
    done: list[int] = []
    third = Rules(3, COMPONENTS, migrate=lambda store: done.append(3))
    second = Rules(2, COMPONENTS, migrate=lambda store: done.append(2))
    chain = Chain(switching(GENESIS, 2, version=3), rulebook=Rulebook(RULES, second, third))
    chain.block()
    assert done == []
    chain.block()
    assert done == [2, 3]


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ((RulesFrom(2, 1),), "rules[0].height"),
        ((RulesFrom(1, 3),), "rules[0].version"),
        ((RulesFrom(1, 1), RulesFrom(1, 2)), "rules[1].height"),
        ((RulesFrom(1, 1), RulesFrom(9, 2), RulesFrom(5, 3)), "rules[2].height"),
        ((RulesFrom(1, 1), RulesFrom(9, 1)), "rules[1].version"),
        ((RulesFrom(1, 2), RulesFrom(9, 1)), "rules[1].version"),
        ((RulesFrom(0, 1),), "rules[0].height"),
        ((RulesFrom(-5, 1),), "rules[0].height"),
        ((), "rules"),
    ],
)
def test_a_genesis_whose_list_is_none_is_refused(rules: tuple[RulesFrom, ...], field: str) -> None:
    with pytest.raises(Refusal) as refused:
        init_chain(Overlay(MemoryStore()), replace(GENESIS, rules=rules), GENESIS_TIME, BOTH)
    assert refused.value.code is BAD_FIELD
    assert refused.value.field == field, str(refused.value)


def test_a_genesis_may_name_a_version_that_a_later_release_brings() -> None:
    overlay = Overlay(MemoryStore())
    init_chain(overlay, switching(GENESIS, 10**6, version=7), GENESIS_TIME, BOTH)
    assert SCHEDULE.must(overlay).version_at(10**6 - 1) == 1
    assert SCHEDULE.must(overlay).version_at(10**6) == 7


def test_the_list_is_part_of_what_the_chain_starts_with() -> None:
    """Two networks whose rules change at different heights have different beacons, and so different chains."""
    beacons = {Chain(genesis).beacon for genesis in (GENESIS, switching(GENESIS, 5), switching(GENESIS, 6))}
    assert len(beacons) == 3


@pytest.mark.parametrize(
    ("component", "claims"),
    [
        (replace(NAMES, name="ledger"), "component ledger"),
        (Component(name="other", tables=(BALANCES,)), "table 17"),
        (Component(name="other", handlers=RULES.components[1].handlers), "message MsgSend"),
        (Component(name="other", effects=RULES.components[1].effects), "kind of entry 21"),
        (Component(name="other", answers=RULES.components[1].answers), "query AccountRequest"),
        (Component(name="other", draws=RULES.components[-3].draws), "lot shares"),
        (Component(name="other", due_percent=1), "101 %"),
        (Component(name="other", ante=RULES.ante), "exactly one"),
    ],
)
def test_components_that_claim_the_same_make_no_rules(component: Component, claims: str) -> None:
    with pytest.raises(ValueError, match=claims):
        Rules(1, (*COMPONENTS, component))


def test_versions_of_a_rulebook_rise() -> None:
    for versions in ((), (SECOND, FIRST), (FIRST, FIRST)):
        with pytest.raises(ValueError, match="must increase"):
            Rulebook(*versions)


def test_a_block_needs_a_genesis_with_a_list() -> None:
    genesis: Genesis = GENESIS
    overlay = Overlay(MemoryStore())
    init_chain(overlay, genesis, GENESIS_TIME)
    SCHEDULE.delete(overlay)
    block = Block(1, GENESIS_TIME, bytes(32), bytes(20), ())
    with pytest.raises(LookupError, match="list of rules"):
        apply_block(overlay, block, CRYPTO, NodeMemory())
