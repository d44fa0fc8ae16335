"""What handlers and end-of-block work are given: the state, the block, and where events go."""

from dataclasses import dataclass, field

from chain.state_machine import keys
from chain.state_machine.store import Overlay
from domain.events import Event
from domain.params import Params
from domain.tx import VerifySignature

NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """The block that is being applied."""

    chain_id: str
    denom: str
    height: int
    clock: int  # seconds of the chain clock
    params: Params
    previous_hash: bytes  # of the block before: it does not depend on this block's transactions


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent the transaction that is being applied, with which sequence, and the gas that it uses."""

    address: str
    sequence: int
    gas: int


@dataclass(slots=True)
class Context:
    """The way of handlers to the state. ``store`` is the transaction's overlay inside a transaction."""

    store: Overlay
    block: BlockInfo
    verify: VerifySignature
    next_event: int
    events: list[Event] = field(default_factory=list)
    sender: Sender | None = None
    message_index: int = -1
    is_check: bool = False  # for the mempool: nobody reads events, and nothing is committed
    responses: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def clock(self) -> int:
        """Seconds of the chain clock."""
        return self.block.clock

    @property
    def height(self) -> int:
        """Height of the block."""
        return self.block.height

    def emit(self, kind: str, *attributes: tuple[str, str | int | bytes]) -> None:
        """Add a numbered event: one change of the state."""
        texts = tuple([(name, _text(value)) for name, value in attributes])
        self.events.append(Event(kind, texts, self.next_event))
        self.next_event += 1

    def note(self, kind: str, *attributes: tuple[str, str]) -> None:
        """Add an event without a number, as Cosmos clients expect it."""
        if self.message_index >= 0:
            attributes = (*attributes, ("msg_index", str(self.message_index)))
        self.events.append(Event(kind, attributes))

    def write_event_number(self) -> None:
        """Store the number of the next event."""
        self.store.put(keys.next_event(), self.next_event)


def _text(value: str | int | bytes) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str) else str(int(value))
