"""Staking's part of the first state: each validator of the genesis delegates its stake to itself."""

from hashlib import sha256

from chain.state_machine.genesis import check_genesis
from chain.state_machine.ledger.balances import ensure_account
from chain.state_machine.ledger.genesis import mint
from chain.state_machine.staking.shares import shares_for
from chain.state_machine.staking.stakes import choose_set, pot_of, write_stake
from chain.state_machine.staking.tables import (
    DELEGATIONS,
    DELEGATIONS_OF,
    NEXT_VALIDATOR,
    OPERATORS,
    POWERS_GIVEN,
    SET_CHANGED,
    VALIDATOR_STAKES,
    compute_power,
)
from chain.state_machine.store import Overlay
from domain.block import ValidatorUpdate
from domain.genesis import Genesis, GenesisValidator
from domain.staking.params import StakingParams
from domain.staking.records import ONE, BondStatus, CommissionRates, Delegation, Description, ValidatorStake

FOUNDERS_RATES = CommissionRates(rate=ONE // 10, max_rate=ONE // 5, max_change_rate=ONE // 100)
"""The commission of the validators of a genesis: 10 %, at most 20 %, at most 1 % more or less a day."""


def write_staking(overlay: Overlay, genesis: Genesis) -> tuple[ValidatorUpdate, ...]:
    """Write the stakes of the validators, bond those with the most, and return the powers of the first block."""
    for number, validator in enumerate(genesis.validators):
        _add_validator(overlay, validator, number)
    NEXT_VALIDATOR.set(overlay, len(genesis.validators))
    chosen = choose_set(overlay, genesis.params.of(StakingParams).max_validators)
    for operator in chosen:
        stake = VALIDATOR_STAKES.update(overlay, operator, status=BondStatus.BONDED)
        POWERS_GIVEN.set(overlay, compute_power(stake.tokens), operator)
    for stake in VALIDATOR_STAKES.scan(overlay):
        mint(overlay, pot_of(stake), stake.tokens)
    SET_CHANGED.delete(overlay)
    return tuple(
        ValidatorUpdate(stake.cons_key, compute_power(stake.tokens))
        for stake in VALIDATOR_STAKES.scan(overlay)
        if stake.operator in chosen
    )


def make_stake(validator: GenesisValidator, number: int) -> ValidatorStake:
    """Return the stake of a validator of the genesis before the set is chosen."""
    return ValidatorStake(
        operator=validator.operator,
        number=number,
        cons_key=validator.cons_key,
        description=Description(validator.moniker),
        commission=FOUNDERS_RATES,
        commission_at=0,
        min_self_delegation=1,
        tokens=validator.stake,
        shares=shares_for(validator.stake, 0, 0),
        status=BondStatus.UNBONDED,
        ready=True,
    )


def _add_validator(overlay: Overlay, validator: GenesisValidator, number: int) -> None:
    cons_address = sha256(validator.cons_key).digest()[:20]
    operator = validator.operator
    check_genesis(VALIDATOR_STAKES.get(overlay, operator) is None, "validators", f"{operator} is in the list twice")
    check_genesis(not OPERATORS.has(overlay, cons_address), "validators", "two validators have the same consensus key")
    ensure_account(overlay, operator)
    stake = make_stake(validator, number)
    DELEGATIONS.put(overlay, Delegation(operator, operator, stake.shares))
    DELEGATIONS_OF.mark(overlay, operator, operator)
    write_stake(overlay, stake, stake)
    OPERATORS.set(overlay, operator.encode(), cons_address)
