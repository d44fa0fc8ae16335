"""Handlers of staking: validators, delegations, and stake that leaves or moves."""

from dataclasses import replace
from hashlib import sha256

from chain.state_machine.context import HEAD, Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger.balances import check_funds
from chain.state_machine.ledger.tables import ACCOUNTS
from chain.state_machine.staking.cuts import REDELEGATIONS_MAX
from chain.state_machine.staking.delegations import (
    cancel_unbonding,
    delegate,
    free_worth,
    get_delegation,
    get_reserved,
    redelegate,
    undelegate,
)
from chain.state_machine.staking.hooks import DELEGATION_GAS, VALIDATOR_CREATED, VALIDATOR_EDITED
from chain.state_machine.staking.shares import shares_for, worth_of
from chain.state_machine.staking.stakes import change_stake, write_stake
from chain.state_machine.staking.tables import (
    NEXT_VALIDATOR,
    OPERATORS,
    REDELEGATION_COUNTS,
    REDELEGATIONS,
    UNBONDING_POOLS,
    UNBONDINGS,
    VALIDATOR_STAKES,
)
from domain.amount import in_assay
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    INSUFFICIENT_FUNDS,
    INVALID_COINS,
    INVALID_PUBKEY,
    LIMIT_REACHED,
    NOT_FOUND,
    NOT_YET,
    WRONG_STATE,
    Refusal,
)
from domain.hashing import u64
from domain.ledger.records import Coin
from domain.messages import signer_of
from domain.staking.events import StakeDelegated, ValidatorCreated, ValidatorEdited
from domain.staking.messages import (
    DO_NOT_MODIFY,
    MsgBeginRedelegate,
    MsgCancelUnbondingDelegation,
    MsgCreateValidator,
    MsgDelegate,
    MsgEditValidator,
    MsgUndelegate,
)
from domain.staking.params import StakingParams
from domain.staking.records import SHARES_MAX, BondStatus, CommissionRates, Description, Unbonding, ValidatorStake

AnyChange = MsgCreateValidator | MsgDelegate | MsgUndelegate | MsgBeginRedelegate | MsgCancelUnbondingDelegation
DAY = 86_400
REDELEGATION_MIN = 1_000_000
"""Least amount (uassay) of a redelegation, because a validator has a limited number of them as a source."""


def weigh_delegation(ctx: Context, message: AnyChange, _: object) -> int:
    """Return the gas of what follows a change of the signer's delegation."""
    return sum(DELEGATION_GAS(ctx, signer_of(message)))


def weigh_redelegation(ctx: Context, message: MsgBeginRedelegate, _: object) -> int:
    """Return the gas of what follows the changes of two delegations of the signer."""
    return 2 * weigh_delegation(ctx, message, _)


def check_coin(ctx: Context, coin: Coin, field: str) -> int:
    """Return the amount of a coin; refuse another denomination, and 0."""
    if coin.denom != ctx.block.denom:
        raise Refusal(
            INVALID_COINS, f"{field}.denom", f"{coin.denom} is not the coin of this chain", f"use {ctx.block.denom}"
        )
    if not coin.amount:
        raise Refusal(INVALID_COINS, field, "is not a positive amount", "use at least 1uassay")
    return coin.amount


def _percent(rate: int) -> str:
    digits = f"{rate // 100:017d}"
    return f"{digits[:-14]}.{digits[-14:]}".rstrip("0").rstrip(".") + " %"


# --- MsgCreateValidator --------------------------------------------------------------------------


def check_create_fields(message: MsgCreateValidator) -> None:
    """Check the commission, the moniker, and that the delegator is the validator."""
    rates = message.commission
    if rates.rate > rates.max_rate:
        reason = f"{_percent(rates.rate)} is above the maximum of {_percent(rates.max_rate)}"
        raise Refusal(BAD_FIELD, "commission.rate", reason, "use a rate up to max_rate")
    if rates.max_change_rate > rates.max_rate:
        reason = f"{_percent(rates.max_change_rate)} is above the maximum rate of {_percent(rates.max_rate)}"
        raise Refusal(BAD_FIELD, "commission.max_change_rate", reason, "use a change up to max_rate")
    if not message.description.moniker:
        raise Refusal(BAD_FIELD, "description.moniker", "is empty", "name the validator, for example mine")
    if message.delegator_address not in ("", message.validator_address):
        reason = "is not the validator's own account"
        raise Refusal(BAD_FIELD, "delegator_address", reason, "leave it empty: the operator delegates to itself")


def check_create(ctx: Context, message: MsgCreateValidator) -> bytes:
    """Return the consensus key.

    Refuse a second validator of an account or of a key, a multisig account, and too few coins.
    """
    if VALIDATOR_STAKES.get(ctx.store, message.validator_address) is not None:
        reason = "is a validator already"
        raise Refusal(ALREADY_EXISTS, "validator_address", reason, "delegate to it, or use another account")
    # The account has a key, because it signed this transaction.
    if ACCOUNTS.must(ctx.store, message.validator_address).is_multisig:
        reason = "is a multisig account, which cannot sign tasks and receipts"
        raise Refusal(INVALID_PUBKEY, "validator_address", reason, "use an account with a key of its own")
    key = message.pubkey.key
    if OPERATORS.has(ctx.store, sha256(key).digest()[:20]):
        reason = "was registered before"
        raise Refusal(ALREADY_EXISTS, "pubkey", reason, "generate a new consensus key: `assay node init` makes one")
    params = ctx.block.params.of(StakingParams)
    amount = check_coin(ctx, message.value, "value")
    least = max(params.validator_min, message.min_self_delegation)
    if amount < least:
        raise Refusal(INVALID_COINS, "value", f"is below {in_assay(least)}", f"delegate at least {in_assay(least)}")
    _check_rate(message.commission.rate, params)
    check_funds(ctx, message.validator_address, amount)
    return key


def _check_rate(rate: int, params: StakingParams) -> None:
    if rate < params.min_commission_rate:
        least = _percent(params.min_commission_rate)
        raise Refusal(BAD_FIELD, "commission", f"{_percent(rate)} is below {least}", f"use a rate of at least {least}")


def apply_create(ctx: Context, message: MsgCreateValidator, key: bytes) -> None:
    """Register the validator, and delegate its coins."""
    number = NEXT_VALIDATOR.get(ctx.store)
    stake = ValidatorStake(
        operator=message.validator_address,
        number=number,
        cons_key=key,
        description=message.description,
        commission=message.commission,
        commission_at=ctx.clock,
        min_self_delegation=message.min_self_delegation,
        tokens=0,
        shares=0,
        status=BondStatus.UNBONDED,
    )
    NEXT_VALIDATOR.set(ctx.store, number + 1)
    OPERATORS.set(ctx.store, stake.operator.encode(), sha256(key).digest()[:20])
    write_stake(ctx.store, stake, stake)
    ctx.emit(
        ValidatorCreated(
            operator=stake.operator,
            number=number,
            cons_key=key,
            description=stake.description,
            commission=stake.commission,
            commission_at=stake.commission_at,
            min_self_delegation=stake.min_self_delegation,
        )
    )
    VALIDATOR_CREATED(ctx, stake)
    _delegate(ctx, stake.operator, stake.operator, message.value.amount)


# --- MsgEditValidator ----------------------------------------------------------------------------


def check_edit(ctx: Context, message: MsgEditValidator) -> ValidatorStake:
    """Return the signer's validator; refuse a commission or a minimum of self-delegation that is not allowed."""
    stake = VALIDATOR_STAKES.need(ctx.store, message.validator_address)
    rate, rates = message.commission_rate, stake.commission
    if rate is not None:
        if ctx.clock < stake.commission_at + DAY:
            reason = "changed less than a day ago"
            remedy = f"wait until the chain clock is {stake.commission_at + DAY} (now {ctx.clock})"
            raise Refusal(NOT_YET, "commission_rate", reason, remedy)
        if rate > rates.max_rate:
            reason = f"{_percent(rate)} is above your maximum of {_percent(rates.max_rate)}"
            raise Refusal(BAD_FIELD, "commission_rate", reason, "use a lower rate: the maximum never changes")
        if abs(rate - rates.rate) > rates.max_change_rate:
            reason = f"changes by more than {_percent(rates.max_change_rate)} at once"
            raise Refusal(BAD_FIELD, "commission_rate", reason, "change it in several steps, one a day")
        _check_rate(rate, ctx.block.params.of(StakingParams))
    least = message.min_self_delegation
    if least is not None:
        if least <= stake.min_self_delegation:
            reason = f"is not above {in_assay(stake.min_self_delegation)}"
            raise Refusal(BAD_FIELD, "min_self_delegation", reason, "leave it out: it can only be raised")
        own = get_delegation(ctx.store, stake.operator, stake.operator)
        if least > worth_of(own.shares, stake.tokens, stake.shares):
            reason = "is above your self-delegation"
            raise Refusal(INSUFFICIENT_FUNDS, "min_self_delegation", reason, "delegate to your validator first")
    if not message.description.moniker:
        remedy = f"send {DO_NOT_MODIFY} to keep the name"
        raise Refusal(BAD_FIELD, "description.moniker", "is empty", remedy)
    return stake


def apply_edit(ctx: Context, message: MsgEditValidator, stake: ValidatorStake) -> None:
    """Change the description, the commission and the minimum of self-delegation."""
    rates = stake.commission
    is_new_rate = message.commission_rate is not None
    edited = change_stake(
        ctx,
        stake.operator,
        description=_edit_description(stake.description, message.description),
        commission=CommissionRates(
            rates.rate if message.commission_rate is None else message.commission_rate,
            rates.max_rate,
            rates.max_change_rate,
        ),
        commission_at=ctx.clock if is_new_rate else stake.commission_at,
        min_self_delegation=message.min_self_delegation or stake.min_self_delegation,
    )
    ctx.emit(
        ValidatorEdited(
            operator=edited.operator,
            description=edited.description,
            commission=edited.commission,
            commission_at=edited.commission_at,
            min_self_delegation=edited.min_self_delegation,
        )
    )
    VALIDATOR_EDITED(ctx, stake, edited)


def _edit_description(old: Description, new: Description) -> Description:
    names = ("moniker", "identity", "website", "security_contact", "details")
    changes = {name: getattr(new, name) for name in names if getattr(new, name) != DO_NOT_MODIFY}
    return replace(old, **changes)


# --- MsgDelegate ---------------------------------------------------------------------------------


def check_delegate(ctx: Context, message: MsgDelegate) -> int:
    """Return the amount; refuse more than the account has, and a validator that lost all its tokens."""
    stake = VALIDATOR_STAKES.need(ctx.store, message.validator_address)
    amount = check_coin(ctx, message.amount, "amount")
    check_funds(ctx, message.delegator_address, amount)
    check_buys(stake, amount, "validator_address")
    return amount


def check_buys(stake: ValidatorStake, amount: int, field: str) -> None:
    """Refuse coins for which a validator has no shares, because it was slashed to nothing, or nearly."""
    shares = shares_for(amount, stake.tokens, stake.shares)
    if not shares or stake.shares + shares > SHARES_MAX:
        reason = "lost nearly all its tokens, so its shares have no price"
        raise Refusal(WRONG_STATE, field, reason, "choose another validator: `assay status` lists them")


def apply_delegate(ctx: Context, message: MsgDelegate, amount: int) -> None:
    """Delegate the coins."""
    _delegate(ctx, message.delegator_address, message.validator_address, amount)


def _delegate(ctx: Context, delegator: str, operator: str, amount: int) -> None:
    shares = delegate(ctx, delegator, operator, amount)
    ctx.emit(StakeDelegated(delegator=delegator, validator=operator, amount=amount, shares=shares))


# --- MsgUndelegate -------------------------------------------------------------------------------


def check_undelegate(ctx: Context, message: MsgUndelegate) -> int:
    """Return the amount; refuse more than the free shares are worth, and too many entries."""
    amount = _check_worth(ctx, message.delegator_address, message.validator_address, message.amount)
    most = ctx.block.params.of(StakingParams).max_entries
    entries = sum(1 for _ in UNBONDINGS.keys(ctx.store, message.delegator_address, message.validator_address))
    if entries >= most:
        reason = f"you have {entries} unbonding entries with this validator"
        raise Refusal(LIMIT_REACHED, "validator_address", reason, "wait until the first of them is paid")
    return amount


def _check_worth(ctx: Context, delegator: str, operator: str, coin: Coin) -> int:
    stake = VALIDATOR_STAKES.need(ctx.store, operator)
    amount = check_coin(ctx, coin, "amount")
    delegation = get_delegation(ctx.store, delegator, operator)
    if not delegation.shares:
        reason = "you have no delegation to this validator"
        raise Refusal(NOT_FOUND, "validator_address", reason, "name a validator to which you delegated")
    if free_worth(stake, delegation) < amount:
        free = in_assay(free_worth(stake, delegation))
        locked = in_assay(worth_of(delegation.locked, stake.tokens, stake.shares))
        reason = f"only {free} can leave now: insufficient delegation"
        remedy = f"use a smaller amount; {locked} were redelegated and stay until that is complete"
        raise Refusal(INSUFFICIENT_FUNDS, "amount", reason, remedy)
    return amount


def apply_undelegate(ctx: Context, message: MsgUndelegate, amount: int) -> None:
    """Move the coins into an unbonding entry."""
    taken, paid_at = undelegate(ctx, message.delegator_address, message.validator_address, amount)
    _answer_time(ctx, paid_at)
    ctx.responses.append(("amount", u64(taken)))


def _answer_time(ctx: Context, completes_at: int) -> None:
    """Put the header time at which coins are free into the response to the message."""
    ctx.responses.append(("completion_time", u64(HEAD.must(ctx.store).header_ns(completes_at))))


# --- MsgBeginRedelegate --------------------------------------------------------------------------


def check_redelegate_fields(message: MsgBeginRedelegate) -> None:
    """Check that the two validators differ."""
    if message.validator_src_address == message.validator_dst_address:
        raise Refusal(BAD_FIELD, "validator_dst_address", "is the source itself", "name another validator")


def check_redelegate(ctx: Context, message: MsgBeginRedelegate) -> int:
    """Return the amount.

    Refuse more than the free shares are worth, too many entries, and coins that back what the source has sold.
    """
    source, target = message.validator_src_address, message.validator_dst_address
    amount = _check_worth(ctx, message.delegator_address, source, message.amount)
    stake = VALIDATOR_STAKES.must(ctx.store, source)
    check_buys(VALIDATOR_STAKES.need(ctx.store, target), amount, "validator_dst_address")
    reserved = get_reserved(ctx, source)
    if stake.tokens - amount < reserved:
        reason = f"{in_assay(reserved)} of the source's stake back running orders"
        raise Refusal(WRONG_STATE, "amount", reason, "move less, or undelegate: `assay tx staking undelegate`")
    if amount < REDELEGATION_MIN:
        raise Refusal(INVALID_COINS, "amount", "is below 1ASSAY", "redelegate at least 1ASSAY")
    if REDELEGATION_COUNTS.get(ctx.store, source) >= REDELEGATIONS_MAX:
        reason = f"has {REDELEGATIONS_MAX} redelegations that are not complete"
        raise Refusal(LIMIT_REACHED, "validator_src_address", reason, "undelegate, or wait until one is complete")
    most = ctx.block.params.of(StakingParams).max_entries
    entries = sum(1 for _ in REDELEGATIONS.keys(ctx.store, source, message.delegator_address, target))
    if entries >= most:
        reason = f"you have {entries} redelegations to this validator"
        raise Refusal(LIMIT_REACHED, "validator_dst_address", reason, "wait until the first of them is complete")
    return amount


def apply_redelegate(ctx: Context, message: MsgBeginRedelegate, amount: int) -> None:
    """Move the coins to the other validator."""
    source, target = message.validator_src_address, message.validator_dst_address
    _answer_time(ctx, redelegate(ctx, message.delegator_address, source, target, amount))


# --- MsgCancelUnbondingDelegation ----------------------------------------------------------------


def check_cancel_unbonding(ctx: Context, message: MsgCancelUnbondingDelegation) -> Unbonding:
    """Return the entry; refuse one whose time is over, more than it is worth, and a jailed validator."""
    stake = VALIDATOR_STAKES.need(ctx.store, message.validator_address)
    amount = check_coin(ctx, message.amount, "amount")
    key = (message.delegator_address, message.validator_address, message.creation_height)
    entries = UNBONDINGS.scan(ctx.store, *key, limit=1)
    if not entries:
        reason = "there is no unbonding entry of this height"
        raise Refusal(NOT_FOUND, "creation_height", reason, "use the height of the block with your undelegation")
    (entry,) = entries
    if ctx.clock >= entry.completes_at:
        raise Refusal(WRONG_STATE, "creation_height", "the entry is complete", "delegate the coins when they are paid")
    if stake.jailed:
        raise Refusal(WRONG_STATE, "validator_address", "is jailed", "wait until it is free, or let the entry end")
    pool = UNBONDING_POOLS.must(ctx.store, entry.validator, entry.pool)
    worth = worth_of(entry.claims, pool.tokens, pool.claims)
    if amount > worth:
        raise Refusal(INSUFFICIENT_FUNDS, "amount", f"the entry has {in_assay(worth)}", "use a smaller amount")
    check_buys(stake, amount, "validator_address")
    return entry


def apply_cancel_unbonding(ctx: Context, message: MsgCancelUnbondingDelegation, entry: Unbonding) -> None:
    """Delegate the coins again."""
    cancel_unbonding(ctx, entry, message.amount.amount)


HANDLERS = (
    Handler(
        message=MsgCreateValidator,
        check_state=check_create,
        apply=apply_create,
        check_fields=check_create_fields,
        weight=weigh_delegation,
    ),
    Handler(MsgEditValidator, check_edit, apply_edit),
    Handler(message=MsgDelegate, check_state=check_delegate, apply=apply_delegate, weight=weigh_delegation),
    Handler(message=MsgUndelegate, check_state=check_undelegate, apply=apply_undelegate, weight=weigh_delegation),
    Handler(
        message=MsgBeginRedelegate,
        check_state=check_redelegate,
        apply=apply_redelegate,
        check_fields=check_redelegate_fields,
        weight=weigh_redelegation,
    ),
    Handler(
        message=MsgCancelUnbondingDelegation,
        check_state=check_cancel_unbonding,
        apply=apply_cancel_unbonding,
        weight=weigh_delegation,
    ),
)
