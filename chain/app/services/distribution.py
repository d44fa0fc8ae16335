"""``cosmos.distribution``: rewards that can be withdrawn, commission, and the community pool."""

from collections.abc import Iterable, Iterator
from typing import Any

from cosmpy.protos.cosmos.base.query.v1beta1.pagination_pb2 import PageResponse
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import DecCoin
from cosmpy.protos.cosmos.distribution.v1beta1 import distribution_pb2 as proto
from cosmpy.protos.cosmos.distribution.v1beta1 import query_pb2 as query

from chain.app.services.method import Call, methods
from chain.state_machine.context import PARAMS
from chain.state_machine.distribution.community import get_community_attos
from chain.state_machine.distribution.rewards import get_reward, get_settled
from chain.state_machine.distribution.tables import get_withdraw_address
from chain.state_machine.staking.tables import DELEGATIONS, DELEGATIONS_OF, VALIDATOR_STAKES
from domain.distribution.params import DistributionParams
from domain.distribution.records import ValidatorRewards
from domain.errors import NOT_FOUND, Refusal
from domain.genesis import DENOM
from wire.address import account_of, check_address, operator_address

_FIELD = "validator_address"


def _coins(attos: int) -> list[Any]:
    """Return an amount as decimal coins, which protobuf carries as an integer of 18 decimal places."""
    return [DecCoin(denom=DENOM, amount=str(attos))] if attos else []


def _settled(request: Any, call: Call) -> ValidatorRewards:
    """Return the record of the validator that a request names, up to now."""
    operator = account_of(request.validator_address, _FIELD)
    if VALIDATOR_STAKES.get(call.store, operator) is None:
        reason = f"validator {request.validator_address} does not exist: not found"
        raise Refusal(NOT_FOUND, _FIELD, reason, "use the address of a validator")
    return get_settled(call.store, operator)


# --- validators ----------------------------------------------------------------------------------


def _validator_info(request: Any, call: Call) -> Any:
    rewards = _settled(request, call)
    own = get_reward(call.store, rewards, rewards.operator)
    return query.QueryValidatorDistributionInfoResponse(
        operator_address=rewards.operator, self_bond_rewards=_coins(own), commission=_coins(rewards.commission)
    )


def _outstanding(request: Any, call: Call) -> Any:
    rewards = _settled(request, call)
    coins = _coins(rewards.outstanding + rewards.commission)
    return query.QueryValidatorOutstandingRewardsResponse(rewards=proto.ValidatorOutstandingRewards(rewards=coins))


def _commission(request: Any, call: Call) -> Any:
    coins = _coins(_settled(request, call).commission)
    return query.QueryValidatorCommissionResponse(commission=proto.ValidatorAccumulatedCommission(commission=coins))


def _slashes(request: Any, call: Call) -> Any:
    """Return no slashes: rewards are counted per share, and a slash changes no shares (``staking.cut`` tells of it)."""
    _settled(request, call)
    return query.QueryValidatorSlashesResponse(pagination=PageResponse())


# --- delegators ----------------------------------------------------------------------------------


def _delegation_rewards(request: Any, call: Call) -> Any:
    rewards = _settled(request, call)
    delegator = request.delegator_address
    check_address(delegator, "delegator_address")
    if DELEGATIONS.get(call.store, rewards.operator, delegator) is None:
        reason = f"delegation of {delegator} to {request.validator_address} does not exist: not found"
        raise Refusal(NOT_FOUND, "delegator_address", reason, "use the address of a delegator of this validator")
    return query.QueryDelegationRewardsResponse(rewards=_coins(get_reward(call.store, rewards, delegator)))


def _validators_of(delegator: str, call: Call) -> Iterator[str]:
    check_address(delegator, "delegator_address")
    for _, operator in DELEGATIONS_OF.keys(call.store, delegator):
        yield operator.decode()


def _rewards_of(delegator: str, operators: Iterable[str], call: Call) -> Iterator[tuple[str, int]]:
    for operator in operators:
        yield operator, get_reward(call.store, get_settled(call.store, operator), delegator)


def _total_rewards(request: Any, call: Call) -> Any:
    delegator = request.delegator_address
    rows = list(_rewards_of(delegator, _validators_of(delegator, call), call))
    return query.QueryDelegationTotalRewardsResponse(
        rewards=[
            proto.DelegationDelegatorReward(validator_address=operator_address(operator), reward=_coins(attos))
            for operator, attos in rows
        ],
        total=_coins(sum(attos for _, attos in rows)),
    )


def _delegator_validators(request: Any, call: Call) -> Any:
    operators = _validators_of(request.delegator_address, call)
    return query.QueryDelegatorValidatorsResponse(validators=[operator_address(operator) for operator in operators])


def _withdraw_address(request: Any, call: Call) -> Any:
    check_address(request.delegator_address, "delegator_address")
    address = get_withdraw_address(call.store, request.delegator_address)
    return query.QueryDelegatorWithdrawAddressResponse(withdraw_address=address)


# --- the whole -----------------------------------------------------------------------------------


def _community_pool(_: Any, call: Call) -> Any:
    return query.QueryCommunityPoolResponse(pool=_coins(get_community_attos(call.store)))


def _params(_: Any, call: Call) -> Any:
    params = PARAMS.get(call.store).of(DistributionParams)
    return query.QueryParamsResponse(
        params=proto.Params(
            community_tax=str(params.community_tax),
            base_proposer_reward=str(params.base_proposer_reward),
            bonus_proposer_reward=str(params.bonus_proposer_reward),
            withdraw_addr_enabled=bool(params.withdraw_addr_enabled),
        )
    )


METHODS = methods(
    query.DESCRIPTOR.services_by_name["Query"],
    {
        "Params": _params,
        "ValidatorDistributionInfo": _validator_info,
        "ValidatorOutstandingRewards": _outstanding,
        "ValidatorCommission": _commission,
        "ValidatorSlashes": _slashes,
        "DelegationRewards": _delegation_rewards,
        "DelegationTotalRewards": _total_rewards,
        "DelegatorValidators": _delegator_validators,
        "DelegatorWithdrawAddress": _withdraw_address,
        "CommunityPool": _community_pool,
    },
)
