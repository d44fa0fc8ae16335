"""Answers about validators and providers."""

from collections.abc import Mapping
from types import MappingProxyType

from chain.state_machine.component import Answer
from chain.state_machine.registry.tables import CLUSTERS, PROVIDERS, VALIDATORS
from chain.state_machine.staking.tables import VALIDATOR_STAKES, bonded_operators
from chain.state_machine.store import Overlay
from chain.state_machine.tables import get_limit, take
from domain.limits import QUERY_LIMIT_MAX
from domain.registry.queries import (
    ProviderRequest,
    ProviderResponse,
    ProvidersRequest,
    ProvidersResponse,
    ValidatorsRequest,
    ValidatorsResponse,
)


def _validators(store: Overlay, _: ValidatorsRequest) -> ValidatorsResponse:
    """Return all bonded validators, and the first others. Anyone can make records of validators that are not bonded."""
    validators = {validator.operator: validator for validator in VALIDATORS.scan(store, limit=QUERY_LIMIT_MAX)}
    validators |= {operator: VALIDATORS.must(store, operator) for operator in bonded_operators(store)}
    jailed = tuple(operator for operator in validators if VALIDATOR_STAKES.must(store, operator).jailed)
    return ValidatorsResponse(tuple(validators.values()), jailed)


def _providers(store: Overlay, request: ProvidersRequest) -> ProvidersResponse:
    limit = get_limit(request.limit)
    after = (request.after,) if request.after else ()
    if not request.validator:
        return ProvidersResponse(tuple(PROVIDERS.scan(store, after=after, limit=limit)))
    cluster = (request.validator,)
    members = CLUSTERS.keys(store, *cluster, after=after and (*cluster, *after))
    providers = (PROVIDERS.must(store, name.decode()) for _, name in members)
    return ProvidersResponse(take(providers, limit))


def _provider(store: Overlay, request: ProviderRequest) -> ProviderResponse:
    return ProviderResponse(PROVIDERS.get(store, request.address))


ANSWERS: Mapping[type, Answer] = MappingProxyType(
    {
        ValidatorsRequest: _validators,
        ProvidersRequest: _providers,
        ProviderRequest: _provider,
    }
)
