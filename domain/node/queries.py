"""Queries that the node component answers."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import ChainId, Count, Many, MaybeHash, Name, Number, Size, Text, Visible
from domain.queries import Query
from domain.readable import Readable

AttributeValue = Annotated[str, Visible(), Size(0, 2**16)]


@dataclass(frozen=True, slots=True)
class StatusResponse(Readable):
    """``clock`` is the chain clock in seconds; ``next_event`` the number that the next event gets.

    Example::

        print(network.client.status().height)
    """

    chain_id: ChainId
    height: Number
    time_ns: Number
    clock: Number
    next_event: Number
    app_hash: MaybeHash
    solo: bool


@dataclass(frozen=True, slots=True)
class StatusRequest(Query[StatusResponse]):
    """Where the chain stands."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter and its value."""

    name: Name
    value: Number


@dataclass(frozen=True, slots=True)
class ComponentParams:
    """All parameters of one component."""

    component: Name
    parameters: Annotated[tuple[Parameter, ...], Many]


@dataclass(frozen=True, slots=True)
class ParamsResponse:
    """The parameters in force, by component; :func:`domain.params.read_params` makes records of them."""

    components: Annotated[tuple[ComponentParams, ...], Many]


@dataclass(frozen=True, slots=True)
class ParamsRequest(Query[ParamsResponse]):
    """The parameters in force."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A numbered event with its height."""

    number: Number
    height: Number
    type: Text
    attributes: Annotated[tuple[tuple[Text, AttributeValue], ...], Many]


@dataclass(frozen=True, slots=True)
class EventsResponse:
    """Events in order without gaps, and the number that the next one will get."""

    events: Annotated[tuple[LoggedEvent, ...], Many]
    next: Number


@dataclass(frozen=True, slots=True)
class EventsRequest(Query[EventsResponse]):
    """Numbered events from ``since`` on, at most ``limit``; outside the Merkle tree."""

    since: Number
    limit: Count
