"""What handlers and end-of-block work are given: the state, the block, the running rules, and where events go."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from chain.state_machine.kinds import Due
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Numbers, Space, Table
from domain.crypto import Crypto
from domain.events import Change, Event, to_event
from domain.genesis import RulesFrom
from domain.hashing import message_id
from domain.params import RECORDS, Params, make_params

NS = 1_000_000_000
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain stands after a block: ``time_ns`` is the latest header time, ``clock_ns`` the chain clock."""

    chain_id: str
    denom: str
    height: int
    time_ns: int
    clock_ns: int
    # Of the last block. With the height it tells which state this is; nothing is drawn from it.
    last_hash: bytes
    # Behind the last block: what the next one signs uniquely, and the seed of its auction.
    beacon: bytes


@dataclass(frozen=True, slots=True)
class Schedule:
    """The versions of the rules, each with the first height at which it holds."""

    rules: tuple[RulesFrom, ...]

    def version_at(self, height: int) -> int:
        """Return the version that holds at a height; the first one holds before it, too."""
        held = [entry.version for entry in self.rules if entry.height <= height]
        return held[-1] if held else self.rules[0].version


class ParamsTable(Space):
    """A record for each component's parameters, under the component's name."""

    def get(self, store: Overlay) -> Params:
        """Return all parameters; a component that came with later rules and wrote none has its defaults."""
        found = {name: store.record(cls, self.key(name)) for name, cls in RECORDS.items()}
        return make_params({name: record for name, record in found.items() if record is not None})

    def set(self, store: Overlay, params: Params) -> None:
        """Store all parameters."""
        for name, cls in RECORDS.items():
            store.put(self.key(name), params.of(cls))


HEAD = Table(0x01, "head", Head, lambda _: (), remembered=True)
PARAMS = ParamsTable(0x02, "params", remembered=True)
SCHEDULE = Table(0x07, "list of rules", Schedule, lambda _: (), remembered=True)
NEXT_EVENT = Numbers(0x03, "number of the next event", remembered=True)


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """The block that is being applied; ``clock`` is in seconds of the chain clock."""

    chain_id: str
    denom: str
    height: int
    clock: int
    params: Params
    # Of the block before, which with the height tells what state this block begins with.
    previous_hash: bytes
    # Behind the block before: it does not depend on this block.
    previous_beacon: bytes


class TxOrigin(NamedTuple):
    """Who sent the transaction that is being applied, with which sequence, and the gas that it needs at least."""

    address: str
    sequence: int
    gas: int


class NodeMemory:
    """Values that a node keeps between blocks beside the state, one per class.

    They save reading and change nothing else: a block on an empty memory has the same results.
    """

    def __init__(self, *kept: object) -> None:
        """Keep these values; any other one is made when it is asked for."""
        self._kept: dict[type, Any] = {type(value): value for value in kept}

    def of(self, kind: type[M]) -> M:
        """Return the value of a class, which is made without arguments if there is none."""
        if kind not in self._kept:
            self._kept[kind] = kind()
        value: M = self._kept[kind]
        return value


class LotSubject(Protocol):
    """A record that says what a lot draws; each kind of them has a purpose of its own."""

    PURPOSE: ClassVar[str]

    @property
    def id(self) -> bytes:
        """What the seed and the key of the lot are bound to."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What draws with the beacon of a lot about subjects of one class, and the gas that it weighs."""

    subject: type[LotSubject]
    apply: "Callable[[Context, Any, bytes], None]"
    weight: "Callable[[Context, Any], int]"


class Running(Protocol):
    """The rules that a block runs under, as a component sees them (:class:`chain.state_machine.rules.Rules`)."""

    @property
    def version(self) -> int:
        """The number of the rules."""

    @property
    def kinds(self) -> Mapping[int, Due]:
        """Every kind of entry of the queue, by its number."""

    @property
    def draws(self) -> Mapping[str, Draw]:
        """Every draw, by the purpose of its lots."""

    def get_subscribers(self, hook: object) -> tuple[Callable[..., Any], ...]:
        """Return the functions that components above put behind a hook, in the order of the components."""


@dataclass(slots=True)
class Context:
    """The way of handlers to the state. ``store`` is the transaction's overlay inside a transaction."""

    store: Overlay
    block: BlockInfo
    crypto: Crypto
    rules: Running
    next_event: int
    memory: NodeMemory = field(default_factory=NodeMemory)
    events: list[Event] = field(default_factory=list)
    sender: TxOrigin | None = None
    message_index: int = -1
    # For the mempool: nobody reads events, and nothing is committed.
    is_check: bool = False
    # Of the transaction that is being applied.
    gas_limit: int = 0
    gas_used: int = 0
    # Gas that due work of this block has used, by lane of the queue or name of a component.
    due_gas: dict[str, int] = field(default_factory=dict)
    responses: list[tuple[str, bytes]] = field(default_factory=list)
    # The beacon of this block; empty where it has none of its own.
    revealed: bytes = b""

    @property
    def clock(self) -> int:
        """Seconds of the chain clock."""
        return self.block.clock

    @property
    def height(self) -> int:
        """Height of the block."""
        return self.block.height

    def emit(self, change: Change) -> None:
        """Add a numbered event: one change of the state."""
        self.events.append(to_event(change, self.next_event))
        self.next_event += 1

    def note(self, kind: str, *attributes: tuple[str, str]) -> None:
        """Add an event without a number, as Cosmos clients expect it."""
        if self.message_index >= 0:
            attributes = (*attributes, ("msg_index", str(self.message_index)))
        self.events.append(Event(kind, attributes))

    def write_event_number(self) -> None:
        """Store the number of the next event."""
        NEXT_EVENT.set(self.store, self.next_event)

    def new_id(self, kind: str) -> bytes:
        """Return the id of the order or bid that the current message creates.

        It comes from the sender's sequence, never from a counter in the order of transactions.
        """
        if self.sender is None:
            raise LookupError("ids come from transactions")
        sender = self.sender
        return message_id(kind, self.block.chain_id, sender.address, sender.sequence, self.message_index)
