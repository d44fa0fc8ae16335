"""Queries that the legs component answers."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Address, Many, Number
from domain.legs.records import Leg
from domain.queries import Query


@dataclass(frozen=True, slots=True)
class LiveLegsResponse:
    """The active legs of a validator (matched, running or proven)."""

    legs: Annotated[tuple[Leg, ...], Many]
    clock: Number
    height: Number


@dataclass(frozen=True, slots=True)
class LiveLegsRequest(Query[LiveLegsResponse]):
    """A request for a validator's active legs."""

    validator: Address
