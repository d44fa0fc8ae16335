"""Who is in the validator set: new validators, edits, beacon keys, the jail, and the order of the candidates."""

import pytest

from chain.state_machine.ledger.tables import ACCOUNTS
from chain.state_machine.registry.members import get_active, may_audit, may_serve
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.staking.handlers import check_create
from chain.state_machine.staking.tables import bonded_operators
from domain.amount import ASSAY
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    INSUFFICIENT_FUNDS,
    INVALID_COINS,
    INVALID_PUBKEY,
    NOT_YET,
    WRONG_STATE,
    Refusal,
)
from domain.registry.messages import MsgPromiseAudits, MsgRevokeBeaconKey
from domain.staking.messages import AnyKey, MsgCreateValidator, MsgEditValidator
from domain.staking.records import ONE, BondStatus, CommissionRates, Description
from tests.support.chain_harness import COINS, STAKE, Chain, cons_key, pub_key
from tests.support.stakes import (
    UNBONDING,
    cancel,
    context,
    create,
    delegate,
    edit,
    jail,
    make_chain,
    set_key,
    stake_of,
    undelegate,
    update,
)

DELAY = 10  # of a local network


@pytest.fixture
def chain() -> Chain:
    return make_chain()


def bonded(chain: Chain) -> list[str]:
    return list(bonded_operators(chain.overlay()))


def join(chain: Chain, amount: int = 100 * ASSAY) -> None:
    """Let a new validator join, and wait until its key is valid."""
    chain.ok(create("new", amount), set_key("new"))
    for _ in range(DELAY):
        chain.block()


def test_a_new_validator_is_bonded_when_its_key_is_valid(chain: Chain) -> None:
    assert chain.ok(create("new")).validator_updates == ()
    assert stake_of(chain, "new").status is BondStatus.UNBONDED
    chain.pass_time(50)
    assert bonded(chain) == ["v0", "v1"]
    chain.ok(set_key("new"))
    for _ in range(DELAY - 1):
        assert chain.block().validator_updates == ()
    assert chain.block().validator_updates == (update("new", 100),)
    assert sorted(bonded(chain)) == ["new", "v0", "v1"]
    assert VALIDATORS.must(chain.overlay(), "new").stake == 100 * ASSAY
    assert chain.block().validator_updates == ()


def test_a_new_validator_gets_seats_when_it_promises_something(chain: Chain) -> None:
    join(chain)
    validator = VALIDATORS.must(chain.overlay(), "new")
    assert (may_serve(validator), may_audit(validator)) == (True, False)
    chain.ok(MsgPromiseAudits("new", 10**9, 10**6))
    assert may_audit(VALIDATORS.must(chain.overlay(), "new"))


@pytest.mark.parametrize(
    ("message", "code", "field"),
    [
        (create("v0"), ALREADY_EXISTS, "validator_address"),
        (create("new", pubkey=create("v1").pubkey), ALREADY_EXISTS, "pubkey"),
        (create("new", pubkey=AnyKey("/cosmos.crypto.secp256k1.PubKey", bytes(34))), INVALID_PUBKEY, "pubkey"),
        (create("new", pubkey=AnyKey("/cosmos.crypto.ed25519.PubKey", bytes(34))), INVALID_PUBKEY, "pubkey"),
        (create("new", ASSAY - 1), INVALID_COINS, "value"),
        (create("new", ASSAY, min_self_delegation=ASSAY + 1), INVALID_COINS, "value"),
        (create("new", COINS + 1), INSUFFICIENT_FUNDS, "amount"),
        (create("new", delegator_address="alice"), BAD_FIELD, "delegator_address"),
        (create("new", description=Description("")), BAD_FIELD, "description.moniker"),
        (create("new", commission=CommissionRates(2, 1, 1)), BAD_FIELD, "commission.rate"),
        (create("new", commission=CommissionRates(1, 1, 2)), BAD_FIELD, "commission.max_change_rate"),
        (create("new", commission=CommissionRates(0, ONE + 1, 0)), BAD_FIELD, "commission.max_rate"),
    ],
)
def test_what_is_no_new_validator(chain: Chain, message: MsgCreateValidator, code: object, field: str) -> None:
    chain.refused(code, message, field=field)  # type: ignore[arg-type]


def test_a_multisig_account_is_no_validator(chain: Chain) -> None:
    store = chain.overlay()
    ACCOUNTS.update(store, "new", pub_key=bytes(80))
    with pytest.raises(Refusal, match="multisig"):
        check_create(context(chain, store), create("new"))


def test_the_least_commission_and_the_least_stake_are_parameters() -> None:
    chain = make_chain(min_commission_rate=ONE // 10 + 1, validator_min=7 * ASSAY)
    chain.refused(BAD_FIELD, create("new"), field="commission")
    chain.refused(INVALID_COINS, create("new", 7 * ASSAY - 1), field="value")


def test_the_commission_changes_once_a_day(chain: Chain) -> None:
    change = edit("v0", commission_rate=ONE * 11 // 100)
    chain.refused(NOT_YET, change, field="commission_rate")
    chain.pass_time(86_400)
    chain.ok(change)
    assert stake_of(chain, "v0").commission.rate == ONE * 11 // 100
    chain.refused(NOT_YET, edit("v0", commission_rate=ONE // 10), field="commission_rate")


@pytest.mark.parametrize(
    ("message", "code", "field"),
    [
        (edit("v0", commission_rate=ONE // 5 + 1), BAD_FIELD, "commission_rate"),
        (edit("v0", commission_rate=ONE * 12 // 100), BAD_FIELD, "commission_rate"),
        (edit("v0", commission_rate=ONE * 8 // 100), BAD_FIELD, "commission_rate"),
        (edit("v0", min_self_delegation=1), BAD_FIELD, "min_self_delegation"),
        (edit("v0", min_self_delegation=STAKE + 1), INSUFFICIENT_FUNDS, "min_self_delegation"),
        (edit("v0", description=Description("")), BAD_FIELD, "description.moniker"),
    ],
)
def test_what_is_no_edit(chain: Chain, message: MsgEditValidator, code: object, field: str) -> None:
    chain.pass_time(86_400)
    chain.refused(code, message, field=field)  # type: ignore[arg-type]


def test_an_edit_changes_what_it_names(chain: Chain) -> None:
    same = "[do-not-modify]"
    chain.ok(edit("v0", description=Description("other", same, "https://example.org", same, "")))
    stake = stake_of(chain, "v0")
    assert stake.description == Description("other", website="https://example.org")
    assert VALIDATORS.must(chain.overlay(), "v0").moniker == "other"
    assert stake.commission_at == 0


def test_a_validator_below_its_own_minimum_leaves_and_returns(chain: Chain) -> None:
    chain.ok(edit("v0", min_self_delegation=STAKE))
    assert chain.ok(undelegate("v0", "v0", 1)).validator_updates == (update("v0", 0),)
    assert stake_of(chain, "v0").status is BondStatus.UNBONDING
    assert VALIDATORS.must(chain.overlay(), "v0").stake == 0
    assert chain.ok(delegate("v0", "v0", 1)).validator_updates == (update("v0", 10_000),)
    assert stake_of(chain, "v0").unbonding_time == 0
    chain.pass_time(2 * UNBONDING)
    assert stake_of(chain, "v0").status is BondStatus.BONDED


def test_a_validator_is_unbonded_after_its_time(chain: Chain) -> None:
    chain.ok(undelegate("v0", "v0", STAKE))
    ends_at = stake_of(chain, "v0").unbonding_time
    assert ends_at == chain.clock + UNBONDING
    chain.pass_time(UNBONDING - 1)
    assert stake_of(chain, "v0").status is BondStatus.UNBONDING
    chain.block()
    assert stake_of(chain, "v0").status is BondStatus.UNBONDED


def test_the_most_powerful_are_bonded_and_of_equal_ones_the_older() -> None:
    chain = make_chain(max_validators=2)
    join(chain, STAKE)
    assert bonded(chain) == ["v0", "v1"]
    assert chain.ok(delegate("alice", "new", ASSAY)).validator_updates == (
        update("new", 10_001),
        update("v1", 0),
    )
    assert sorted(bonded(chain)) == ["new", "v0"]
    assert chain.ok(delegate("alice", "v1", ASSAY)).validator_updates == (
        update("v0", 0),
        update("v1", 10_001),
    )


def test_a_genesis_has_no_more_bonded_validators_than_allowed() -> None:
    chain = make_chain(max_validators=1)
    assert chain.first_validators == (update("v0", 10_000),)
    assert VALIDATORS.must(chain.overlay(), "v1").stake == 0
    chain.block()


def test_a_jailed_validator_backs_nothing_at_once_and_leaves_with_the_block(chain: Chain) -> None:
    jail(chain, "v0")
    assert VALIDATORS.must(chain.overlay(), "v0").stake == 0
    assert [validator.operator for validator in get_active(chain.overlay())] == ["v1"]
    assert chain.block().validator_updates == (update("v0", 0),)
    chain.ok(undelegate("v0", "v0", ASSAY))
    chain.refused(WRONG_STATE, cancel("v0", "v0", ASSAY, chain.height), field="validator_address")
    jail(chain, "v0", jailed=False)
    assert chain.block().validator_updates == (update("v0", 9_999),)
    assert VALIDATORS.must(chain.overlay(), "v0").stake == STAKE - ASSAY


def test_the_last_set_stays_when_there_is_no_candidate(chain: Chain) -> None:
    for name in ("v0", "v1"):
        jail(chain, name)
    assert chain.block().validator_updates == ()
    assert bonded(chain) == ["v0", "v1"]
    jail(chain, "v1", jailed=False)
    assert chain.block().validator_updates == (update("v0", 0),)


def test_a_bonded_validator_may_revoke_its_key_and_needs_one_to_return(chain: Chain) -> None:
    join(chain)
    key = pub_key("beacon of new")
    assert chain.ok(MsgRevokeBeaconKey("new", key)).validator_updates == ()
    jail(chain, "new")
    assert chain.block().validator_updates == (update("new", 0),)
    jail(chain, "new", jailed=False)
    assert chain.block().validator_updates == ()
    assert not stake_of(chain, "new").ready
    chain.ok(set_key("new", "another"))
    for _ in range(DELAY - 1):
        assert chain.block().validator_updates == ()
    assert chain.block().validator_updates == (update("new", 100),)


def test_a_key_that_is_revoked_before_it_is_valid_bonds_no_one(chain: Chain) -> None:
    chain.ok(create("new"), set_key("new"))
    chain.ok(MsgRevokeBeaconKey("new", pub_key("beacon of new")))
    chain.pass_time(3 * DELAY)
    assert bonded(chain) == ["v0", "v1"]


def test_a_key_of_consensus_is_never_used_twice(chain: Chain) -> None:
    chain.ok(create("new"), undelegate("new", "new", 100 * ASSAY))
    again = create("alice", pubkey=AnyKey("/cosmos.crypto.ed25519.PubKey", b"\x0a\x20" + cons_key("new")))
    chain.refused(ALREADY_EXISTS, again, field="pubkey")
    chain.ok(delegate("bob", "new", ASSAY))
