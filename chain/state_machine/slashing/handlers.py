"""The handler of slashing: a validator frees itself from the jail."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.slashing.jail import unjail
from chain.state_machine.slashing.tables import SIGNING_INFOS
from chain.state_machine.staking.delegations import get_delegation
from chain.state_machine.staking.shares import worth_of
from chain.state_machine.staking.tables import VALIDATOR_STAKES
from domain.amount import in_assay
from domain.errors import (
    LOW_SELF_DELEGATION,
    NO_SELF_DELEGATION,
    NO_VALIDATOR,
    NOT_JAILED,
    STILL_JAILED,
    Refusal,
)
from domain.slashing.messages import MsgUnjail

_FIELD = "validator_addr"


def check_unjail(ctx: Context, message: MsgUnjail) -> str:
    """Return the validator.

    Refuse one that is not jailed, has too little self-delegation, is tombstoned, or whose jail has not ended.
    """
    operator = message.validator_addr
    stake = VALIDATOR_STAKES.get(ctx.store, operator)
    if stake is None:
        reason = "address is not associated with any known validator"
        raise Refusal(NO_VALIDATOR, _FIELD, reason, "sign with the operator's account")
    own = get_delegation(ctx.store, operator, operator)
    if not own.shares:
        reason = "validator has no self-delegation; cannot be unjailed"
        raise Refusal(NO_SELF_DELEGATION, _FIELD, reason, "delegate to your validator first")
    if worth_of(own.shares, stake.tokens, stake.shares) < stake.min_self_delegation:
        reason = "validator's self delegation less than minimum; cannot be unjailed"
        remedy = f"delegate until it is {in_assay(stake.min_self_delegation)}"
        raise Refusal(LOW_SELF_DELEGATION, _FIELD, reason, remedy)
    if not stake.jailed:
        reason = "validator not jailed; cannot be unjailed"
        raise Refusal(NOT_JAILED, _FIELD, reason, "do nothing: a jail by panels ends by itself (`assay status`)")
    info = SIGNING_INFOS.must(ctx.store, VALIDATORS.must(ctx.store, operator).cons_address)
    reason = "validator still jailed; cannot be unjailed"
    if info.tombstoned:
        remedy = "it signed twice and is tombstoned: make a new validator with a new consensus key and another account"
        raise Refusal(STILL_JAILED, _FIELD, reason, remedy)
    if ctx.clock < info.jailed_until:
        remedy = f"wait until the chain clock is {info.jailed_until} (now {ctx.clock})"
        raise Refusal(STILL_JAILED, _FIELD, reason, remedy)
    return operator


def apply_unjail(ctx: Context, message: MsgUnjail, operator: str) -> None:
    """Free the validator."""
    unjail(ctx, operator)


HANDLERS = (Handler(MsgUnjail, check_unjail, apply_unjail),)
