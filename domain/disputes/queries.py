"""Queries that the disputes component answers."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Hash, Many
from domain.disputes.records import Dispute
from domain.queries import Query


@dataclass(frozen=True, slots=True)
class DisputesResponse:
    """The challenges of an order, by leg, round and number."""

    disputes: Annotated[tuple[Dispute, ...], Many]


@dataclass(frozen=True, slots=True)
class DisputesRequest(Query[DisputesResponse]):
    """A request for all challenges of an order."""

    order_id: Hash
