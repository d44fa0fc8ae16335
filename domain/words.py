"""What one component says to others, as a value: the vocabulary of the chain is a tuple of these."""

from dataclasses import dataclass
from typing import Any

from domain.events import Change
from domain.messages import Message
from domain.moves import Move, Pot
from domain.queries import Query


@dataclass(frozen=True, slots=True)
class Words:
    """The messages that a component handles, the changes that it emits, and the queries that it answers.

    ``pots`` are the places where it keeps coins, and ``moves`` the reasons for which it moves coins.

    ``message_packages`` and ``query_packages`` name the Python packages of its generated protobuf modules ``tx_pb2``
    and ``query_pb2``; ``wire`` finds them by these names. ``genesis`` is the record of what the component starts with,
    under its name in the genesis file, and ``params`` that of its parameters, under its name in the parameters: every
    field an integer of at most eight bytes, with the default of a public network. ``local_params`` has those of a local
    one.
    """

    name: str
    messages: tuple[type[Message], ...] = ()
    events: tuple[type[Change], ...] = ()
    queries: tuple[type[Query[Any]], ...] = ()
    pots: tuple[Pot, ...] = ()
    moves: tuple[Move, ...] = ()
    message_packages: tuple[str, ...] = ()
    query_packages: tuple[str, ...] = ()
    genesis: type | None = None
    params: type | None = None
    local_params: object | None = None
