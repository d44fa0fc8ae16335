"""``cosmos.staking``: validators, delegations, and coins that leave. Times are those of block headers."""

from collections.abc import Iterator
from typing import Any

from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin
from cosmpy.protos.cosmos.crypto.ed25519.keys_pb2 import PubKey
from cosmpy.protos.cosmos.staking.v1beta1 import query_pb2 as query
from cosmpy.protos.cosmos.staking.v1beta1 import staking_pb2 as proto
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.services.method import Call, methods
from chain.app.services.pages import page_of, page_of_keys
from chain.app.services.times import header_time
from chain.state_machine.context import PARAMS
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.staking.shares import worth_of
from chain.state_machine.staking.tables import (
    DELEGATIONS,
    DELEGATIONS_OF,
    REDELEGATIONS,
    UNBONDING_POOLS,
    UNBONDINGS,
    VALIDATOR_STAKES,
)
from domain.errors import INVALID_REQUEST, NOT_FOUND, Refusal
from domain.genesis import DENOM
from domain.staking.messages import KEY_URL
from domain.staking.moves import STAKES_POT, UNBONDED_POT
from domain.staking.params import StakingParams
from domain.staking.records import BondStatus, Delegation, Redelegation, Unbonding, ValidatorStake
from wire.address import account_of, check_address, operator_address

_STATUSES = {f"BOND_STATUS_{status.name}": status for status in BondStatus}


# --- validators ----------------------------------------------------------------------------------


def _validators(request: Any, call: Call) -> Any:
    status = _STATUSES.get(request.status)
    if status is None and request.status not in ("", "BOND_STATUS_UNSPECIFIED"):
        remedy = f"use one of {', '.join(_STATUSES)}, or leave it out"
        raise Refusal(INVALID_REQUEST, "status", f"{request.status[:40]!r} is no status", remedy)

    def rows(after: bytes) -> Iterator[ValidatorStake]:
        for (operator,) in VALIDATOR_STAKES.keys(call.store, after=(after,) if after else ()):
            stake = VALIDATOR_STAKES.must(call.store, operator.decode())
            if status in (None, stake.status):
                yield stake

    page, pagination = page_of_keys(rows, lambda stake: stake.operator.encode(), request.pagination)
    answers = [_validator_proto(one, call) for one in page]
    return query.QueryValidatorsResponse(validators=answers, pagination=pagination)


def _validator(request: Any, call: Call) -> Any:
    return query.QueryValidatorResponse(validator=_validator_proto(_find(request.validator_addr, call), call))


def _find(address: str, call: Call) -> ValidatorStake:
    stake = VALIDATOR_STAKES.get(call.store, account_of(address, "validator_addr"))
    if stake is None:
        raise Refusal(NOT_FOUND, "validator_addr", f"validator {address} not found", "use the address of a validator")
    return stake


def _validator_proto(stake: ValidatorStake, call: Call) -> Any:
    rates, described = stake.commission, stake.description
    return proto.Validator(
        operator_address=operator_address(stake.operator),
        consensus_pubkey=AnyProto(type_url=KEY_URL, value=PubKey(key=stake.cons_key).SerializeToString()),
        jailed=stake.jailed,
        status=int(stake.status),
        tokens=str(stake.tokens),
        delegator_shares=str(stake.shares),
        description=proto.Description(
            moniker=described.moniker,
            identity=described.identity,
            website=described.website,
            security_contact=described.security_contact,
            details=described.details,
        ),
        unbonding_height=stake.unbonding_height,
        unbonding_time=header_time(stake.unbonding_time, call) if stake.unbonding_time else Timestamp(),
        commission=proto.Commission(
            commission_rates=proto.CommissionRates(
                rate=str(rates.rate), max_rate=str(rates.max_rate), max_change_rate=str(rates.max_change_rate)
            ),
            update_time=header_time(stake.commission_at, call),
        ),
        min_self_delegation=str(stake.min_self_delegation),
    )


# --- delegations ---------------------------------------------------------------------------------


def _delegation(request: Any, call: Call) -> Any:
    stake = _find(request.validator_addr, call)
    check_address(request.delegator_addr, "delegator_addr")
    delegation = DELEGATIONS.get(call.store, stake.operator, request.delegator_addr)
    if delegation is None:
        reason = f"delegation of {request.delegator_addr} to {request.validator_addr} not found: key not found"
        raise Refusal(NOT_FOUND, "delegation", reason, "use the address of a delegator of this validator")
    return query.QueryDelegationResponse(delegation_response=_delegation_proto(delegation, call))


def _delegation_proto(delegation: Delegation, call: Call) -> Any:
    stake = VALIDATOR_STAKES.must(call.store, delegation.validator)
    return proto.DelegationResponse(
        delegation=proto.Delegation(
            delegator_address=delegation.delegator,
            validator_address=operator_address(delegation.validator),
            shares=str(delegation.shares),
        ),
        balance=Coin(denom=DENOM, amount=str(worth_of(delegation.shares, stake.tokens, stake.shares))),
    )


def _validator_delegations(request: Any, call: Call) -> Any:
    operator = _find(request.validator_addr, call).operator

    def rows(after: bytes) -> Iterator[Delegation]:
        start = (operator, after) if after else ()
        for _, delegator in DELEGATIONS.keys(call.store, operator, after=start):
            yield DELEGATIONS.must(call.store, operator, delegator.decode())

    page, pagination = page_of_keys(rows, lambda delegation: delegation.delegator.encode(), request.pagination)
    answers = [_delegation_proto(one, call) for one in page]
    return query.QueryValidatorDelegationsResponse(delegation_responses=answers, pagination=pagination)


def _page_of_delegator(request: Any, call: Call) -> tuple[list[Delegation], Any]:
    delegator = request.delegator_addr
    check_address(delegator, "delegator_addr")

    def rows(after: bytes) -> Iterator[Delegation]:
        start = (delegator, after) if after else ()
        for _, operator in DELEGATIONS_OF.keys(call.store, delegator, after=start):
            yield DELEGATIONS.must(call.store, operator.decode(), delegator)

    return page_of_keys(rows, lambda delegation: delegation.validator.encode(), request.pagination)


def _delegator_delegations(request: Any, call: Call) -> Any:
    page, pagination = _page_of_delegator(request, call)
    answers = [_delegation_proto(one, call) for one in page]
    return query.QueryDelegatorDelegationsResponse(delegation_responses=answers, pagination=pagination)


def _delegator_validators(request: Any, call: Call) -> Any:
    page, pagination = _page_of_delegator(request, call)
    stakes = [VALIDATOR_STAKES.must(call.store, one.validator) for one in page]
    answers = [_validator_proto(stake, call) for stake in stakes]
    return query.QueryDelegatorValidatorsResponse(validators=answers, pagination=pagination)


def _delegator_validator(request: Any, call: Call) -> Any:
    _delegation(request, call)
    stake = _find(request.validator_addr, call)
    return query.QueryDelegatorValidatorResponse(validator=_validator_proto(stake, call))


# --- coins that leave ----------------------------------------------------------------------------


def _unbonding_delegation(request: Any, call: Call) -> Any:
    operator = _find(request.validator_addr, call).operator
    check_address(request.delegator_addr, "delegator_addr")
    entries = UNBONDINGS.scan(call.store, request.delegator_addr, operator)
    if not entries:
        reason = f"unbonding delegation of {request.delegator_addr} from {request.validator_addr} not found"
        raise Refusal(NOT_FOUND, "unbonding", f"{reason}: key not found", "undelegate coins first")
    return query.QueryUnbondingDelegationResponse(unbond=_unbonding_proto(entries, call))


def _delegator_unbondings(request: Any, call: Call) -> Any:
    check_address(request.delegator_addr, "delegator_addr")
    by_validator: dict[str, list[Unbonding]] = {}
    for entry in UNBONDINGS.scan(call.store, request.delegator_addr):
        by_validator.setdefault(entry.validator, []).append(entry)
    page, pagination = page_of(list(by_validator.values()), request.pagination)
    answers = [_unbonding_proto(entries, call) for entries in page]
    return query.QueryDelegatorUnbondingDelegationsResponse(unbonding_responses=answers, pagination=pagination)


def _unbonding_proto(entries: list[Unbonding], call: Call) -> Any:
    rows = []
    for entry in entries:
        pool = UNBONDING_POOLS.must(call.store, entry.validator, entry.pool)
        rows.append(
            proto.UnbondingDelegationEntry(
                creation_height=entry.height,
                completion_time=header_time(entry.completes_at, call),
                initial_balance=str(entry.initial),
                balance=str(worth_of(entry.claims, pool.tokens, pool.claims)),
            )
        )
    return proto.UnbondingDelegation(
        delegator_address=entries[0].delegator,
        validator_address=operator_address(entries[0].validator),
        entries=rows,
    )


def _redelegations(request: Any, call: Call) -> Any:
    """Return redelegations of a delegator or from a validator. There are at most 256 from each validator."""
    source = _find(request.src_validator_addr, call).operator if request.src_validator_addr else ""
    target = account_of(request.dst_validator_addr, "dst_validator_addr") if request.dst_validator_addr else ""
    if not source and not request.delegator_addr:
        raise Refusal(INVALID_REQUEST, "delegator_addr", "is empty", "name a delegator or a source")
    entries = REDELEGATIONS.scan(call.store, *([source] if source else []))
    wanted = [
        entry for entry in entries if request.delegator_addr in ("", entry.delegator) and target in ("", entry.target)
    ]
    page, pagination = page_of(wanted, request.pagination)
    answers = [_redelegation_proto(entry, call) for entry in page]
    return query.QueryRedelegationsResponse(redelegation_responses=answers, pagination=pagination)


def _redelegation_proto(entry: Redelegation, call: Call) -> Any:
    target = VALIDATOR_STAKES.must(call.store, entry.target)
    row = proto.RedelegationEntry(
        creation_height=entry.height,
        completion_time=header_time(entry.completes_at, call),
        initial_balance=str(entry.initial),
        shares_dst=str(entry.shares),
    )
    balance = str(worth_of(entry.shares, target.tokens, target.shares))
    return proto.RedelegationResponse(
        redelegation=proto.Redelegation(
            delegator_address=entry.delegator,
            validator_src_address=operator_address(entry.source),
            validator_dst_address=operator_address(entry.target),
        ),
        entries=[proto.RedelegationEntryResponse(redelegation_entry=row, balance=balance)],
    )


# --- the whole -----------------------------------------------------------------------------------


def _pool(_: Any, call: Call) -> Any:
    bonded, unbonded = POTS.get(call.store, STAKES_POT.name), POTS.get(call.store, UNBONDED_POT.name)
    return query.QueryPoolResponse(pool=proto.Pool(bonded_tokens=str(bonded), not_bonded_tokens=str(unbonded)))


def _params(_: Any, call: Call) -> Any:
    params = PARAMS.get(call.store).of(StakingParams)
    return query.QueryParamsResponse(
        params=proto.Params(
            unbonding_time=Duration(seconds=params.unbonding_time),
            max_validators=params.max_validators,
            max_entries=params.max_entries,
            historical_entries=0,
            bond_denom=DENOM,
            min_commission_rate=str(params.min_commission_rate),
        )
    )


METHODS = methods(
    query.DESCRIPTOR.services_by_name["Query"],
    {
        "Validators": _validators,
        "Validator": _validator,
        "Delegation": _delegation,
        "ValidatorDelegations": _validator_delegations,
        "DelegatorDelegations": _delegator_delegations,
        "DelegatorValidators": _delegator_validators,
        "DelegatorValidator": _delegator_validator,
        "UnbondingDelegation": _unbonding_delegation,
        "DelegatorUnbondingDelegations": _delegator_unbondings,
        "Redelegations": _redelegations,
        "Pool": _pool,
        "Params": _params,
    },
)
