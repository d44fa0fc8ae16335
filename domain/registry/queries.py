"""Queries that the registry component answers."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Address, Count, Many, MaybeAddress
from domain.queries import Query
from domain.registry.records import Provider, Validator


@dataclass(frozen=True, slots=True)
class ValidatorsResponse:
    """All validators by operator address."""

    validators: Annotated[tuple[Validator, ...], Many]


@dataclass(frozen=True, slots=True)
class ValidatorsRequest(Query[ValidatorsResponse]):
    """All validators."""


@dataclass(frozen=True, slots=True)
class ProvidersResponse:
    """Providers by address."""

    providers: Annotated[tuple[Provider, ...], Many]


@dataclass(frozen=True, slots=True)
class ProvidersRequest(Query[ProvidersResponse]):
    """Providers, if given those that a validator admitted."""

    validator: MaybeAddress
    limit: Count
    after: MaybeAddress


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """A provider, wherever it is or asks to be."""

    provider: Provider | None


@dataclass(frozen=True, slots=True)
class ProviderRequest(Query[ProviderResponse]):
    """The provider of an address."""

    address: Address
