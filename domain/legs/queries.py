"""Queries that the legs component answers."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Address, Many, Number
from domain.legs.records import Leg
from domain.queries import Query


@dataclass(frozen=True, slots=True)
class DutiesResponse:
    """Live legs of the validator (matched, running, proven)."""

    legs: Annotated[tuple[Leg, ...], Many]
    clock: Number
    height: Number


@dataclass(frozen=True, slots=True)
class DutiesRequest(Query[DutiesResponse]):
    """What a validator has to do now."""

    validator: Address
