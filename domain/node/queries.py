"""Queries that the node component answers."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import ChainId, Count, Many, MaybeAddress, MaybeHash, Name, Number, Size, Text, Visible
from domain.queries import Query
from domain.readable import Readable

AttributeValue = Annotated[str, Visible(), Size(0, 2**16)]


@dataclass(frozen=True, slots=True)
class StatusResponse(Readable):
    """The status of the chain.

    ``clock`` is the chain clock in seconds, and ``next_event`` the number of the next event. In the next block,
    transactions pay at least ``gas_price_millionths``, in millionths of uassay per gas.

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
    gas_price_millionths: Number


@dataclass(frozen=True, slots=True)
class StatusRequest(Query[StatusResponse]):
    """A request for the status of the chain."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """The name and value of a parameter."""

    name: Name
    value: Number


@dataclass(frozen=True, slots=True)
class ComponentParams:
    """All parameters of one component."""

    component: Name
    parameters: Annotated[tuple[Parameter, ...], Many]


@dataclass(frozen=True, slots=True)
class ParamsResponse:
    """The parameters in force, by component. :func:`domain.params.read_params` turns them into records."""

    components: Annotated[tuple[ComponentParams, ...], Many]


@dataclass(frozen=True, slots=True)
class ParamsRequest(Query[ParamsResponse]):
    """A request for the parameters in force."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A numbered event, with the height of its block."""

    number: Number
    height: Number
    type: Text
    attributes: Annotated[tuple[tuple[Text, AttributeValue], ...], Many]


@dataclass(frozen=True, slots=True)
class EventsResponse:
    """Events in order without gaps, and the number of the chain's next event.

    ``resume`` is the number from which to ask next. All events before it that fit the request are in this answer or in
    an earlier one.
    """

    events: Annotated[tuple[LoggedEvent, ...], Many]
    next: Number
    resume: Number = 0


@dataclass(frozen=True, slots=True)
class EventsRequest(Query[EventsResponse]):
    """A request for at most ``limit`` events, from number ``since`` on.

    The events come from the event log, which is not part of the Merkle tree. ``order_id`` and ``account`` select the
    events that have the order or the account in an attribute. ``type`` selects a type of event; with a dot at its end,
    it selects all types that begin with it.
    """

    since: Number
    limit: Count
    order_id: MaybeHash = b""
    account: MaybeAddress = ""
    type: Annotated[str, Visible(), Size(0, 64)] = ""
