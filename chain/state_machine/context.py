"""The context in which handlers and the work at the end of a block run: the state, the block, the running rules, and
the list of events.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from chain.state_machine.kinds import Due
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Numbers, Space, Table
from domain.block import Misbehaviour, Vote
from domain.crypto import Crypto
from domain.events import Change, Event, to_event
from domain.genesis import RulesFrom
from domain.hashing import message_id
from domain.limits import MESSAGES_MAX
from domain.messages import Message
from domain.params import RECORDS, Params, make_params

NS = 1_000_000_000
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Head:
    """The head of the chain after a block.

    ``time_ns`` is the latest header time, and ``clock_ns`` is the chain clock.
    """

    chain_id: str
    denom: str
    height: int
    time_ns: int
    clock_ns: int
    # Hash of the last block. Height and hash together identify the state; nothing is drawn from the hash.
    last_hash: bytes
    # Beacon after the last block. The next proposer signs it with a unique signature, and the next auction takes its
    # seed from it.
    beacon: bytes

    def header_ns(self, clock: int) -> int:
        """Return the header time (ns) at which the chain clock showed ``clock``, or will show it if blocks go on."""
        return max(0, self.time_ns - self.clock_ns + clock * NS)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The versions of the rules, each with the first height at which it applies."""

    rules: tuple[RulesFrom, ...]

    def version_at(self, height: int) -> int:
        """Return the version that applies at a height; before the first listed height, the first version applies."""
        versions = [entry.version for entry in self.rules if entry.height <= height]
        return versions[-1] if versions else self.rules[0].version


class ParamsTable(Space):
    """The parameters of all components: one record for each, under the component's name."""

    def get(self, store: Overlay) -> Params:
        """Return the parameters of all components.

        A component that has not stored its parameters yet has its defaults.
        """
        records = {name: store.record(cls, self.key(name)) for name, cls in RECORDS.items()}
        return make_params({name: record for name, record in records.items() if record is not None})

    def find(self, store: Overlay) -> Params | None:
        """Return the parameters of all components; None if none are stored."""
        return self.get(store) if any(True for _ in self.keys(store)) else None

    def clear(self, store: Overlay) -> None:
        """Remove the parameters of all components."""
        for name in RECORDS:
            self.delete(store, name)

    def set(self, store: Overlay, params: Params) -> None:
        """Store the parameters of all components."""
        for name, cls in RECORDS.items():
            store.put(self.key(name), params.of(cls))


HEAD = Table(0x01, "head", Head, lambda _: (), remembered=True)
PARAMS = ParamsTable(0x02, "params", remembered=True)
# Parameters that apply from the next block on. The end of each block moves them to PARAMS.
NEXT_PARAMS = ParamsTable(0x09, "next params", remembered=True)
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
    # Hash of the previous block. Height and hash together identify the state in which this block begins.
    previous_hash: bytes
    # Beacon after the previous block; it does not depend on this block.
    previous_beacon: bytes
    # The report of the consensus with a decided block. It is empty in the mempool and in simulations.
    time_ns: int = 0  # header time
    proposer: bytes = b""  # consensus address
    votes: tuple[Vote, ...] = ()
    misbehaviours: tuple[Misbehaviour, ...] = ()
    # Gas price of the transactions of this block that are not in the lane of duties, in millionths of uassay.
    gas_price: int = 0


class TxOrigin(NamedTuple):
    """The first signer of the transaction that is being applied, its sequence, the least gas, and who pays the fee."""

    address: str
    sequence: int
    gas: int
    payer: str


class NodeMemory:
    """Values that a node keeps in memory between blocks, outside the state; there is one value per class.

    These values only save reads: a block has the same results if the memory is empty.
    """

    def __init__(self, *values: object) -> None:
        """Keep these values. A value of another class is made when :meth:`of` is first called for that class."""
        self._values: dict[type, Any] = {type(value): value for value in values}

    def of(self, kind: type[M]) -> M:
        """Return the value of the class ``kind``; if there is none, make one without arguments."""
        if kind not in self._values:
            self._values[kind] = kind()
        value: M = self._values[kind]
        return value


class LotSubject(Protocol):
    """A record that describes the subject of a lot; each class of such records has its own purpose."""

    PURPOSE: ClassVar[str]

    @property
    def id(self) -> bytes:
        """The identifier of the subject, which goes into the seed and the key of the lot."""


@dataclass(frozen=True, slots=True)
class Draw:
    """The definition of a draw for one class of subjects: the function that draws with a beacon, and its gas."""

    subject: type[LotSubject]
    apply: "Callable[[Context, Any, bytes], None]"
    weight: "Callable[[Context, Any], int]"


class Running(Protocol):
    """The part of a block's rules that components use (:class:`chain.state_machine.rules.Rules`)."""

    @property
    def version(self) -> int:
        """The version of the rules."""

    @property
    def kinds(self) -> Mapping[int, Due]:
        """All kinds of queue entries, by number."""

    @property
    def draws(self) -> Mapping[str, Draw]:
        """All draws, by the purpose of their lots."""

    def check_message(self, message: Message, is_bounded: bool) -> None:
        """Refuse a message that these rules do not have, or whose fields are wrong whatever the state is."""

    def has_message(self, url: str) -> bool:
        """Return whether these rules have a message with this type url."""

    def apply_message(self, ctx: "Context", message: Message) -> None:
        """Check a message against the state, take the gas that this shows, and apply it."""

    def check_params(self, params: Params) -> None:
        """Refuse parameters that do not fit each other."""

    def get_subscribers(self, hook: object) -> tuple[Callable[..., Any], ...]:
        """Return the functions that later components subscribed to a hook, in the order of those components."""


@dataclass(slots=True)
class Context:
    """The state, the block and the rules that a handler works with. In a transaction, ``store`` is its own overlay."""

    store: Overlay
    block: BlockInfo
    crypto: Crypto
    rules: Running
    next_event: int
    memory: NodeMemory = field(default_factory=NodeMemory)
    events: list[Event] = field(default_factory=list)
    sender: TxOrigin | None = None
    message_index: int = -1
    # Position from 1 of the message that is being applied inside a message that holds several; 0 outside.
    inner_number: int = 0
    # True while the mempool checks a transaction. Then no one reads the events, and the changes are not committed.
    is_check: bool = False
    # Gas limit and used gas of the transaction that is being applied.
    gas_limit: int = 0
    gas_used: int = 0
    # Gas that transactions outside the lane of duties declared in this block, and paid for.
    open_gas: int = 0
    # Gas that due work has used in this block, by lane of the queue or name of a component.
    due_gas: dict[str, int] = field(default_factory=dict)
    responses: list[tuple[str, bytes]] = field(default_factory=list)
    # The beacon that this block revealed; empty if the block has no beacon.
    revealed: bytes = b""

    @property
    def clock(self) -> int:
        """The chain clock in seconds."""
        return self.block.clock

    @property
    def height(self) -> int:
        """The height of the block."""
        return self.block.height

    @property
    def time_ns(self) -> int:
        """The time of the block's header in nanoseconds since 1970; it never goes back.

        While the mempool checks a transaction, it is that of the last block.
        """
        return HEAD.must(self.store).time_ns

    def emit(self, change: Change) -> None:
        """Add a numbered event for one change of the state."""
        self.events.append(to_event(change, self.next_event))
        self.next_event += 1

    def note(self, kind: str, *attributes: tuple[str, str]) -> None:
        """Add an event without a number, in the form that Cosmos clients expect."""
        if self.message_index >= 0:
            attributes = (*attributes, ("msg_index", str(self.message_index)))
        if self.inner_number:
            attributes = (*attributes, ("authz_msg_index", str(self.inner_number - 1)))
        self.events.append(Event(kind, attributes))

    def write_event_number(self) -> None:
        """Store the number that the next event will get."""
        NEXT_EVENT.set(self.store, self.next_event)

    def new_id(self, kind: str) -> bytes:
        """Return the id of the order or bid that the current message creates.

        The id is made from the sender's sequence, so it does not depend on the order of the block's transactions.
        """
        if self.sender is None:
            raise LookupError("only messages of a transaction can create ids")
        sender = self.sender
        return message_id(kind, self.block.chain_id, sender.address, sender.sequence, self.place)

    @property
    def place(self) -> int:
        """The place of the current message in its transaction, other for each message.

        The first messages have the places 0 to ``MESSAGES_MAX`` - 1, and those inside of them the places after these.
        """
        return self.message_index + MESSAGES_MAX * self.inner_number
