"""Answers about validators and providers."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from chain.state_machine.registry.tables import CLUSTERS, PROVIDERS, VALIDATORS
from chain.state_machine.store import Overlay
from chain.state_machine.tables import get_limit, take
from domain import queries as q


def _validators(store: Overlay, _: q.ValidatorsRequest) -> q.ValidatorsResponse:
    return q.ValidatorsResponse(tuple(VALIDATORS.scan(store)))


def _providers(store: Overlay, request: q.ProvidersRequest) -> q.ProvidersResponse:
    limit = get_limit(request.limit)
    after = (request.after,) if request.after else ()
    if not request.validator:
        return q.ProvidersResponse(tuple(PROVIDERS.scan(store, after=after, limit=limit)))
    cluster = (request.validator,)
    members = CLUSTERS.keys(store, *cluster, after=after and (*cluster, *after))
    found = (PROVIDERS.must(store, name.decode()) for _, name in members)
    return q.ProvidersResponse(take(found, limit))


ANSWERS: Mapping[type, Callable[[Overlay, Any], Any]] = MappingProxyType(
    {q.ValidatorsRequest: _validators, q.ProvidersRequest: _providers}
)
