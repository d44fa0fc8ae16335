"""The vocabulary of a component, as a value. The vocabulary of the chain is a tuple of these values."""

from dataclasses import dataclass
from typing import Any

from domain.events import Change
from domain.messages import Message
from domain.moves import Move, Pot
from domain.queries import Query


@dataclass(frozen=True, slots=True)
class Words:
    """The messages that a component handles, the changes that it emits, and the queries that it answers.

    ``pots`` are the pots in which the component keeps coins, and ``moves`` the reasons for which it moves coins.

    ``message_packages`` and ``query_packages`` name the Python packages of its generated protobuf modules ``tx_pb2``
    and ``query_pb2``, and ``packed_modules`` the modules of what its messages pack into an ``Any``; ``wire`` finds the
    modules by these names. ``genesis`` is the class of the component's part of
    the genesis file, and ``params`` the class of its parameters. In the genesis file, both parts are under the
    component's name. Every parameter is an integer of at most eight bytes with the default of a public network;
    ``local_params`` has the values of a local network.
    """

    name: str
    messages: tuple[type[Message], ...] = ()
    events: tuple[type[Change], ...] = ()
    queries: tuple[type[Query[Any]], ...] = ()
    pots: tuple[Pot, ...] = ()
    moves: tuple[Move, ...] = ()
    message_packages: tuple[str, ...] = ()
    query_packages: tuple[str, ...] = ()
    packed_modules: tuple[str, ...] = ()
    genesis: type | None = None
    params: type | None = None
    local_params: object | None = None
