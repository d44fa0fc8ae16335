"""What one component says to others, as a value: the vocabulary of the chain is a tuple of these."""

from dataclasses import dataclass
from typing import Any

from domain.events import Change
from domain.messages import Message
from domain.queries import Query


@dataclass(frozen=True, slots=True)
class Words:
    """The messages that a component handles, the changes that it emits, and the queries that it answers."""

    name: str
    messages: tuple[type[Message], ...] = ()
    events: tuple[type[Change], ...] = ()
    queries: tuple[type[Query[Any]], ...] = ()
