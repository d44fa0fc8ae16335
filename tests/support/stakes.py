"""Messages of staking for chains in memory, and what the state says about a stake."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from chain.state_machine.context import BlockInfo, Context
from chain.state_machine.rules import RULES
from chain.state_machine.slashing import jail as jails
from chain.state_machine.staking.cuts import cut_stake, slash_stake
from chain.state_machine.staking.delegations import get_delegation
from chain.state_machine.staking.shares import worth_of
from chain.state_machine.staking.tables import UNBONDING_POOLS, UNBONDINGS, VALIDATOR_STAKES
from chain.state_machine.store import Overlay
from domain.amount import ASSAY
from domain.beacon import possession_sign_bytes
from domain.block import ValidatorUpdate
from domain.genesis import DENOM
from domain.ledger.records import Coin
from domain.params import Params, local_params
from domain.proof.moves import STAKE_BURN
from domain.registry.messages import MsgSetBeaconKey
from domain.slashing.records import Fault
from domain.staking.messages import (
    KEY_URL,
    AnyKey,
    MsgBeginRedelegate,
    MsgCancelUnbondingDelegation,
    MsgCreateValidator,
    MsgDelegate,
    MsgEditValidator,
    MsgUndelegate,
)
from domain.staking.records import ONE, CommissionRates, Description, ValidatorStake
from tests.support.chain_harness import CHAIN_ID, CRYPTO, Chain, cons_key, make_genesis, pub_key, sign

UNBONDING = 6_400
RATES = CommissionRates(rate=ONE // 10, max_rate=ONE // 5, max_change_rate=ONE // 100)


def coin(amount: int) -> Coin:
    return Coin(DENOM, amount)


def params(**changes: int) -> Params:
    return local_params().replace(**{"unbonding_time": UNBONDING, "clock_step_max": 86_400} | changes)


def make_chain(**changes: int) -> Chain:
    """Return a chain with two validators and three accounts."""
    return Chain(make_genesis(("alice", "bob", "new"), ("v0", "v1"), params(**changes)))


def delegate(delegator: str, validator: str, amount: int) -> MsgDelegate:
    return MsgDelegate(delegator, validator, coin(amount))


def undelegate(delegator: str, validator: str, amount: int) -> MsgUndelegate:
    return MsgUndelegate(delegator, validator, coin(amount))


def redelegate(delegator: str, source: str, target: str, amount: int) -> MsgBeginRedelegate:
    return MsgBeginRedelegate(delegator, source, target, coin(amount))


def cancel(delegator: str, validator: str, amount: int, height: int) -> MsgCancelUnbondingDelegation:
    return MsgCancelUnbondingDelegation(delegator, validator, coin(amount), height)


def create(operator: str, amount: int = 100 * ASSAY, **changes: Any) -> MsgCreateValidator:
    fields: dict[str, Any] = {
        "description": Description(operator),
        "commission": RATES,
        "min_self_delegation": 1,
        "delegator_address": "",
        "validator_address": operator,
        "pubkey": AnyKey(KEY_URL, b"\x0a\x20" + cons_key(operator)),
        "value": coin(amount),
    }
    return MsgCreateValidator(**fields | changes)


def edit(operator: str, **changes: Any) -> MsgEditValidator:
    same = "[do-not-modify]"
    fields: dict[str, Any] = {
        "description": Description(same, same, same, same, same),
        "validator_address": operator,
        "commission_rate": None,
        "min_self_delegation": None,
    }
    return MsgEditValidator(**fields | changes)


def set_key(operator: str, name: str = "") -> MsgSetBeaconKey:
    key = pub_key(name or f"beacon of {operator}")
    return MsgSetBeaconKey(operator, key, sign(key, possession_sign_bytes(CHAIN_ID, operator, key)))


def stake_of(chain: Chain, operator: str) -> ValidatorStake:
    return VALIDATOR_STAKES.must(chain.overlay(), operator)


def worth(chain: Chain, delegator: str, operator: str) -> int:
    """Return the tokens that a delegation is worth."""
    stake = stake_of(chain, operator)
    return worth_of(get_delegation(chain.overlay(), delegator, operator).shares, stake.tokens, stake.shares)


def leaving(chain: Chain, delegator: str, operator: str) -> int:
    """Return the coins that a delegator has in unbonding entries with a validator."""
    store = chain.overlay()
    entries = UNBONDINGS.scan(store, delegator, operator)
    pools = [UNBONDING_POOLS.must(store, operator, entry.pool) for entry in entries]
    return sum(worth_of(e.claims, pool.tokens, pool.claims) for e, pool in zip(entries, pools, strict=True))


def update(operator: str, power: int) -> ValidatorUpdate:
    return ValidatorUpdate(sha256(b"consensus " + operator.encode()).digest(), power)


def context(chain: Chain, store: Overlay) -> Context:
    """Return a context in which a test may call the state machine between two blocks."""
    info = BlockInfo(CHAIN_ID, DENOM, chain.height, chain.clock, chain.genesis.params, b"", b"")
    return Context(store, info, CRYPTO, RULES, 1)


def slash(chain: Chain, operator: str, amount: int, since: int = 0) -> None:
    """Slash a validator behind the machine's back, and burn the coins."""
    _change(chain, lambda ctx: slash_stake(ctx, operator, amount, since, STAKE_BURN))


def cut(chain: Chain, operator: str, amount: int, since: int = 0) -> None:
    """Let a validator pay a debt behind the machine's back, and burn the coins."""
    _change(chain, lambda ctx: cut_stake(ctx, operator, amount, since, STAKE_BURN))


def _change(chain: Chain, edit: Callable[[Context], None]) -> None:
    """Change stakes behind the machine's back, and count the rewards that are paid by this."""

    def change(store: Overlay) -> None:
        ctx = context(chain, store)
        edit(ctx)
        chain.book_rewards(ctx.events)

    chain.change(change)


def jail(chain: Chain, operator: str, *, jailed: bool = True) -> None:
    """Jail a validator for an hour behind the machine's back, or free it."""

    def change(store: Overlay) -> None:
        if jailed:
            jails.jail(context(chain, store), operator, Fault.DOWNTIME, chain.clock + 3_600)
        else:
            jails.unjail(context(chain, store), operator)

    chain.change(change)
