from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.context import BlockInfo, Context
from chain.state_machine.ledger.balances import LedgerBroken
from chain.state_machine.registry.members import is_active, may_serve
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.rules import RULES
from chain.state_machine.staking.cuts import cut_stake
from chain.state_machine.staking.stakes import change_stake, take_updates
from chain.state_machine.store import MemoryStore, Overlay
from chain.state_machine.transition import init_chain
from domain.amount import MONEY_MAX
from domain.block import ValidatorUpdate
from domain.bounds import Range, hints_of, split
from domain.errors import Refusal
from domain.genesis import DENOM, Genesis, GenesisAccount
from domain.ledger.moves import ACCOUNTS_POT, BONDS_POT
from domain.ledger.records import Coin
from domain.params import Params, local_params
from domain.proof.moves import CUT
from domain.staking.records import ONE
from domain.vocabulary import POTS
from tests.support.chain_harness import CHAIN_ID, CRYPTO, Chain, cons_key, make_genesis
from wire.address import check_address

GENESIS = make_genesis(("alice",), ("v0", "v1"))


def test_the_first_state_has_every_coin_and_the_validators_their_power() -> None:
    chain = Chain(
        replace(
            GENESIS,
            validators=(GENESIS.validators[0], replace(GENESIS.validators[1], stake=999_999)),
        )
    )
    assert chain.first_validators == (ValidatorUpdate(cons_key("v0"), 10_000),)
    assert chain.balance("alice") == 10**12
    alice, operator = chain.account("alice"), chain.account("v0")
    assert alice is not None
    assert operator is not None
    assert (alice.number, operator.number) == (0, 1)
    chain.block()


def refused(genesis: Genesis) -> str:
    with pytest.raises(Refusal) as caught:
        init_chain(Overlay(MemoryStore()), genesis, 0)
    return caught.value.field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"chain_id": ""}, "chain_id"),
        ({"denom": ""}, "denom"),
        ({"validators": ()}, "validators"),
        ({"validators": GENESIS.validators[:1] * 2}, "validators"),
        ({"accounts": (GenesisAccount("a", (Coin("ufoo", 1),)),)}, "accounts.coins"),
        ({"accounts": (GenesisAccount("a", (Coin(DENOM, -1),)),)}, "accounts[0].coins[0].amount"),
        ({"accounts": (GenesisAccount("a", (Coin(DENOM, MONEY_MAX),)),)}, "genesis"),
        ({"accounts": (GenesisAccount(BONDS_POT.address, ()),)}, "accounts"),
    ],
)
def test_a_genesis_that_does_not_hold(changes: dict[str, Any], field: str) -> None:
    assert refused(replace(GENESIS, **changes)) == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"stake": 0}, "validators[0].stake"),
        ({"stake": 999_999}, "validators"),
        ({"cons_key": b""}, "validators[0].cons_key"),
        ({"moniker": "x" * 129}, "validators[0].moniker"),
        ({"endpoint": "x" * 129}, "validators[0].endpoint"),
        ({"certificate": bytes(4097)}, "validators[0].certificate"),
    ],
)
def test_a_validator_that_does_not_hold(changes: dict[str, Any], field: str) -> None:
    assert refused(replace(GENESIS, validators=(replace(GENESIS.validators[0], **changes),))) == field


@pytest.mark.parametrize(("fee", "least", "fits"), [(500, 5_000, True), (500, 4_999, False), (501, 5_000, False)])
def test_the_smallest_deposit_is_ten_fees_for_a_payload(fee: int, least: int, *, fits: bool) -> None:
    """Three declines that blame the job would else burn most of a small deposit, and shut its consumer out."""
    genesis = replace(GENESIS, params=local_params().replace(payload_fee=fee, order_min=least))
    if fits:
        init_chain(Overlay(MemoryStore()), genesis, 0)
    else:
        assert refused(genesis) == "params.market.order_min"


def test_two_validators_have_two_keys() -> None:
    twin = replace(GENESIS.validators[1], cons_key=GENESIS.validators[0].cons_key)
    assert refused(replace(GENESIS, validators=(GENESIS.validators[0], twin))) == "validators"


FITS = {"payload_fee": {"order_min": MONEY_MAX}, "inflation_min": {"inflation_max": ONE}}
"""Parameters that have to change with another one, so that its whole range is possible. For all others, ``payload_fee``
has to be 0.
"""
PARAMETERS = [(component, name, hint) for component, cls in hints_of(Params) for name, hint in hints_of(cls)]


@pytest.mark.parametrize(("component", "name", "hint"), PARAMETERS)
def test_parameters_at_their_edges(component: str, name: str, hint: Any) -> None:
    ((low, high),) = [(mark.low, mark.high) for mark in split(hint)[1] if isinstance(mark, Range)]
    for value in (low - 1, high + 1, True):
        params = local_params().replace(**{name: value})
        assert refused(replace(GENESIS, params=params)) == f"params.{component}.{name}"
    for value in (low, high):
        params = local_params().replace(**{**FITS.get(name, {"payload_fee": 0}), name: value})
        init_chain(Overlay(MemoryStore()), replace(GENESIS, params=params), 0)


def test_modules_have_addresses_of_this_chain() -> None:
    for pot in POTS.values():
        if pot is not ACCOUNTS_POT:
            check_address(pot.address, "module")


# --- consensus power ---


def context(overlay: Overlay) -> Context:
    return Context(overlay, BlockInfo(CHAIN_ID, DENOM, 1, 0, local_params(), b"", b""), CRYPTO, RULES, 1)


def test_power_follows_stake_and_only_changes_are_told() -> None:
    ctx = context(Chain(GENESIS).overlay())
    cut_stake(ctx, "v0", 1, 0, CUT)
    cut_stake(ctx, "v1", 10**7, 0, CUT)
    assert take_updates(ctx) == (
        ValidatorUpdate(cons_key("v0"), 9_999),
        ValidatorUpdate(cons_key("v1"), 9_990),
    )
    assert take_updates(ctx) == ()
    cut_stake(ctx, "v0", 1, 0, CUT)
    assert take_updates(ctx) == ()


def test_a_validator_without_stake_leaves_the_set() -> None:
    ctx = context(Chain(GENESIS).overlay())
    cut_stake(ctx, "v1", 10**10, 0, CUT)
    assert take_updates(ctx) == (ValidatorUpdate(cons_key("v1"), 0),)


def test_the_set_never_becomes_empty() -> None:
    ctx = context(Chain(GENESIS).overlay())
    for name in ("v0", "v1"):
        cut_stake(ctx, name, 10**10, 0, CUT)
    assert take_updates(ctx) == ()


def test_what_could_not_be_told_is_told_when_somebody_has_power_again() -> None:
    ctx = context(Chain(GENESIS).overlay())
    for name in ("v0", "v1"):
        cut_stake(ctx, name, 10**10, 0, CUT)
    assert take_updates(ctx) == ()
    change_stake(ctx, "v0", tokens=10**9)
    updates = take_updates(ctx)
    assert updates == (
        ValidatorUpdate(cons_key("v0"), 1_000),
        ValidatorUpdate(cons_key("v1"), 0),
    )
    assert take_updates(ctx) == ()


def test_the_jail_takes_matches_and_seats_and_no_power() -> None:
    ctx = context(Chain(GENESIS).overlay())
    validator = VALIDATORS.must(ctx.store, "v0")
    jailed = replace(validator, jailed=True)
    assert jailed.stake == validator.stake
    assert is_active(jailed)
    assert (may_serve(validator), may_serve(jailed)) == (True, False)


def test_no_more_is_cut_than_a_validator_has_at_stake() -> None:
    ctx = context(Chain(GENESIS).overlay())
    with pytest.raises(LedgerBroken, match="the stake of v0 lacks 1"):
        cut_stake(ctx, "v0", 10**10 + 1, 0, CUT)
    assert take_updates(ctx) == ()
