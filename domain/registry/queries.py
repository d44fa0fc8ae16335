"""Queries that the registry component answers."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Address, Count, Many, MaybeAddress
from domain.queries import Query
from domain.registry.records import Provider, Validator


@dataclass(frozen=True, slots=True)
class ValidatorsResponse:
    """All validators, sorted by operator address.

    ``consensus_jailed`` are the operators among them that the consensus jailed. ``Validator.jailed`` is the jail of
    panels.
    """

    validators: Annotated[tuple[Validator, ...], Many]
    consensus_jailed: Annotated[tuple[Address, ...], Many] = ()


@dataclass(frozen=True, slots=True)
class ValidatorsRequest(Query[ValidatorsResponse]):
    """A request for all validators."""


@dataclass(frozen=True, slots=True)
class ProvidersResponse:
    """Providers, sorted by address."""

    providers: Annotated[tuple[Provider, ...], Many]


@dataclass(frozen=True, slots=True)
class ProvidersRequest(Query[ProvidersResponse]):
    """A request for providers: all of them, or those that a validator admitted."""

    validator: MaybeAddress
    limit: Count
    after: MaybeAddress


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """The provider with the requested address, admitted to a cluster or not.

    ``provider`` is None if there is no such provider.
    """

    provider: Provider | None


@dataclass(frozen=True, slots=True)
class ProviderRequest(Query[ProviderResponse]):
    """A request for the provider with an address."""

    address: Address
