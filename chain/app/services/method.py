"""A row of the table of services: a method with the function that answers it, and what that function may read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from chain.app.interfaces import BlockReader, Broadcaster, CommittedState, QueryPort
from chain.state_machine.store import Overlay
from domain.errors import TX_DECODE, Refusal
from wire.canonical import UNREADABLE


@dataclass(frozen=True, slots=True)
class Call:
    """A node, and its committed state at the height that a call asks for: the sources of the answer."""

    app: QueryPort
    state: CommittedState
    blocks: BlockReader
    broadcaster: Broadcaster | None

    @property
    def store(self) -> Overlay:
        """A new overlay of the state, for reading records."""
        return Overlay(self.state.reader)


Answer = Callable[[Any, Call], Any]
"""A function that returns the response message to a request message, or raises a Refusal."""

Follow = Callable[[Any, Call], Iterator[Any]]
"""A function that yields the responses of a stream, and None while there is none."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a service: its protobuf descriptor, its message classes, and the function that answers it."""

    path: str
    descriptor: Any
    request: Any
    response: Any
    answer: Answer
    # The method changes something (it sends a transaction), so ABCI queries do not offer it.
    sends: bool = False
    parse: Callable[[Any, bytes], Any] | None = None  # how request bytes are read; None: as protobuf reads them

    @property
    def is_stream(self) -> bool:
        """True if the method answers with a stream of messages."""
        return bool(self.descriptor.server_streaming)

    def read(self, data: bytes) -> Any:
        """Return the request message that ``data`` encodes, or raise a Refusal."""
        if self.parse is not None:
            return self.parse(self.request, data)
        try:
            return self.request.FromString(data)
        except UNREADABLE:
            name = self.request.DESCRIPTOR.full_name
            raise Refusal(TX_DECODE, "request", f"is not a {name}", "encode it as protobuf") from None


def methods(
    service: Any,
    answers: Mapping[str, Answer],
    *,
    sends: frozenset[str] = frozenset(),
    parse: Callable[[Any, bytes], Any] | None = None,
) -> tuple[Method, ...]:
    """Return the rows of a service: a method for each name in ``answers``.

    ``service`` is the service's protobuf descriptor; KeyError if it has no method of such a name. ``sends`` names the
    methods that send transactions.
    """
    rows = []
    for name, answer in answers.items():
        descriptor = service.methods_by_name[name]
        row = Method(
            path=f"/{service.full_name}/{name}",
            descriptor=descriptor,
            request=GetMessageClass(descriptor.input_type),
            response=GetMessageClass(descriptor.output_type),
            answer=answer,
            sends=name in sends,
            parse=parse,
        )
        rows.append(row)
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class Answered:
    """The bytes of a response, and the height of the state that it was read from."""

    data: bytes
    height: int
