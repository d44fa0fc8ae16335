"""Events: one record per change of state, numbered without gaps by the state machine.

The state machine emits the records below; on the wire and in the event log, which lies outside the Merkle tree, an
event is its kind with attributes that are texts: hex for bytes, decimal for integers, a comma between the items of a
list. Keys of rounds and shares become one attribute for each of their parts, a record its canonical JSON.
:func:`to_event` and :func:`read_event` are the two ways between.

What is new has its fields in its event, and so has what changes: whoever has the genesis and all events has the book,
escrows, records, stakes and sinks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeVar, get_args, get_origin, get_type_hints

from domain.codec import decode, encode
from domain.records import Bid, Capability, Order, RoundKey, ShareKey


@dataclass(frozen=True, slots=True)
class Event:
    """An event on the wire. ``number`` is its place in the gap-free sequence, 0 outside it.

    Outside it are events as Cosmos clients expect them, for example ``transfer``.
    """

    type: str
    attributes: tuple[tuple[str, str], ...]
    number: int = 0

    def get(self, key: str) -> str:
        """Return the first attribute named ``key``, or an empty string."""
        for name, value in self.attributes:
            if name == key:
                return value
        return ""


C = TypeVar("C", bound="Change")
Counts = tuple[tuple[str, int], ...]
"""Names with numbers: each pair is an attribute of its own, behind all others."""


class Change:
    """A change of the state that people and daemons follow; ``KIND`` is its name on the wire.

    Example::

        for event in order.events():
            assert isinstance(event, assay.Change)
            print(event.KIND, event)
    """

    __slots__ = ()
    KIND: ClassVar[str]


@dataclass(frozen=True, slots=True)
class EndpointSet(Change):
    """A validator published where its cluster service listens."""

    KIND: ClassVar[str] = "validator.endpoint"
    operator: str
    endpoint: str
    certificate: bytes


@dataclass(frozen=True, slots=True)
class BeaconKeySet(Change):
    """A validator registered a beacon key, which counts from a height on; the one before counts until then.

    Keys that were to count, and will not, are ``dropped``.
    """

    KIND: ClassVar[str] = "validator.beacon_key"
    operator: str
    beacon_key: bytes
    counts_from: int
    dropped: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class BeaconKeyRevoked(Change):
    """A validator's beacon key counts no more, nor do others that it took the place of: all that are ``dropped``."""

    KIND: ClassVar[str] = "validator.beacon_key_revoked"
    operator: str
    beacon_key: bytes
    dropped: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AuditsPromised(Change):
    """What a validator promises as an auditor is now this: it said so, or a stage halved it (last at ``halved_at``)."""

    KIND: ClassVar[str] = "validator.audits_promised"
    operator: str
    speed: int
    rate: int
    halved_at: int


@dataclass(frozen=True, slots=True)
class ProviderRegistered(Change):
    """A provider asked to be in a cluster."""

    KIND: ClassVar[str] = "provider.registered"
    provider: str
    validator: str
    pub_key: bytes


@dataclass(frozen=True, slots=True)
class ProviderLeft(Change):
    """A provider left its cluster, or asks for it no more."""

    KIND: ClassVar[str] = "provider.left"
    provider: str
    validator: str


@dataclass(frozen=True, slots=True)
class ProviderAdmitted(Change):
    """A validator took a provider that had asked into its cluster."""

    KIND: ClassVar[str] = "provider.admitted"
    provider: str
    validator: str


@dataclass(frozen=True, slots=True)
class ProviderDismissed(Change):
    """A validator has a provider in its cluster no more, or refused it."""

    KIND: ClassVar[str] = "provider.dismissed"
    provider: str
    validator: str


@dataclass(frozen=True, slots=True)
class ProviderCertified(Change):
    """A validator measured a provider of its cluster: ``speed`` in FLOP/s, and the rest of what it can."""

    KIND: ClassVar[str] = "provider.certified"
    provider: str
    validator: str
    speed: int
    capability: Capability


@dataclass(frozen=True, slots=True)
class BondDeposited(Change):
    """Coins came into a bond account."""

    KIND: ClassVar[str] = "bond.deposited"
    owner: str
    amount: int


@dataclass(frozen=True, slots=True)
class BondWithdrawing(Change):
    """Coins of a bond account wait for their release."""

    KIND: ClassVar[str] = "bond.withdrawing"
    owner: str
    amount: int
    release_at: int


@dataclass(frozen=True, slots=True)
class BondReleased(Change):
    """Coins of a bond account came back to the account."""

    KIND: ClassVar[str] = "bond.released"
    owner: str
    amount: int


@dataclass(frozen=True, slots=True)
class BidPlaced(Change):
    """A bid is in the book."""

    KIND: ClassVar[str] = "bid.placed"
    bid: bytes
    validator: str
    price: int
    record: Bid


@dataclass(frozen=True, slots=True)
class BidChanged(Change):
    """A bid has a new price, capacity and expiry."""

    KIND: ClassVar[str] = "bid.changed"
    bid: bytes
    validator: str
    price: int
    capacity: int
    expires_at: int
    placed_height: int


@dataclass(frozen=True, slots=True)
class BidClosed(Change):
    """A bid left the book: expired, withdrawn, declined or not accepted."""

    KIND: ClassVar[str] = "bid.closed"
    bid: bytes
    validator: str
    reason: str


@dataclass(frozen=True, slots=True)
class OrderSubmitted(Change):
    """An order is there, and its deposit locked; it opens in the same moment.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderSubmitted):
                print(event.consumer, event.deposit)
    """

    KIND: ClassVar[str] = "order.submitted"
    order: bytes
    consumer: str
    deposit: int
    record: Order


@dataclass(frozen=True, slots=True)
class OrderOpened(Change):
    """An order is in the book, for the first time or again, until ``expires_at`` on the chain clock.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderOpened):
                print(event.price_limit, event.expires_at)
    """

    KIND: ClassVar[str] = "order.opened"
    order: bytes
    consumer: str
    work: int
    price_limit: int
    deposit: int
    attempt: int
    opened_at: int
    opened_height: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class OrderMatched(Change):
    """The auction found a bid for an order.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderMatched):
                print(event.validator, event.price)
    """

    KIND: ClassVar[str] = "order.matched"
    order: bytes
    attempt: int
    validator: str
    bid: bytes
    price: int
    job_bond: int
    work: int
    matched_at: int
    accept_deadline: int


@dataclass(frozen=True, slots=True)
class OrderExcluded(Change):
    """A validator gets no match with an order any more: it declined or failed it, or nobody could audit it."""

    KIND: ClassVar[str] = "order.excluded"
    order: bytes
    validator: str


@dataclass(frozen=True, slots=True)
class OrderUnmatched(Change):
    """The auction found none, with one attribute for each condition that bids failed on.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderUnmatched):
                print(dict(event.failed))
    """

    KIND: ClassVar[str] = "order.unmatched"
    order: bytes
    failed: Counts


@dataclass(frozen=True, slots=True)
class OrderAccepted(Change):
    """A validator accepted a match.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderAccepted):
                print(event.validator)
    """

    KIND: ClassVar[str] = "order.accepted"
    order: bytes
    attempt: int
    validator: str


@dataclass(frozen=True, slots=True)
class ProgressRestarted(Change):
    """The open round of an attempt has to be closed by ``deadline`` on the chain clock."""

    KIND: ClassVar[str] = "order.progress"
    order: bytes
    attempt: int
    deadline: int


@dataclass(frozen=True, slots=True)
class OrderDeclined(Change):
    """A validator declined a match, with an ``AttemptEnd``.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderDeclined):
                print(event.validator, assay.AttemptEnd(event.reason).name)
    """

    KIND: ClassVar[str] = "order.declined"
    order: bytes
    attempt: int
    validator: str
    reason: int


@dataclass(frozen=True, slots=True)
class AttemptFailed(Change):
    """An attempt failed, with an ``AttemptEnd``.

    Example::

        for event in order.events():
            if isinstance(event, assay.AttemptFailed):
                print(event.validator, assay.AttemptEnd(event.reason).name)
    """

    KIND: ClassVar[str] = "order.failed"
    order: bytes
    attempt: int
    validator: str
    reason: int


@dataclass(frozen=True, slots=True)
class OrderProven(Change):
    """The last round is closed, or one in which the job stopped: what remains is that windows pass.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderProven):
                print("trained in attempt", event.attempt)
    """

    KIND: ClassVar[str] = "order.proven"
    order: bytes
    attempt: int


@dataclass(frozen=True, slots=True)
class OrderVerified(Change):
    """Every closed round is verified: the order ends at ``settles_at`` on the chain clock.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderVerified):
                print("settles at", event.settles_at)
    """

    KIND: ClassVar[str] = "order.verified"
    order: bytes
    attempt: int
    settles_at: int


@dataclass(frozen=True, slots=True)
class DeadlineMoved(Change):
    """An order's panels waited for audit room, and it has that much more time."""

    KIND: ClassVar[str] = "order.deadline_moved"
    order: bytes
    deadline: int


@dataclass(frozen=True, slots=True)
class OrderSettled(Change):
    """An attempt is done, with an ``AttemptEnd`` where the job stopped: its validator gets what was withheld.

    The order closes when its bonds have returned.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderSettled):
                print(event.validator, event.attempt)
    """

    KIND: ClassVar[str] = "order.settled"
    order: bytes
    attempt: int
    validator: str
    reason: int


@dataclass(frozen=True, slots=True)
class OrderClosed(Change):
    """An order ended with a ``CloseReason``; ``failed`` is what its last auction failed on.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderClosed):
                print(assay.CloseReason(event.reason).name, event.refunded)
    """

    KIND: ClassVar[str] = "order.closed"
    order: bytes
    reason: int
    refunded: int
    failed: Counts


@dataclass(frozen=True, slots=True)
class ShareCommitted(Change):
    """The commitment to a share is on chain.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareCommitted):
                print(event.provider, event.share.slot, event.bond)
    """

    KIND: ClassVar[str] = "share.committed"
    share: ShareKey
    provider: str
    commitment: bytes
    signature: bytes
    bond: int
    committed_at: int
    committed_height: int


@dataclass(frozen=True, slots=True)
class ShareSkipped(Change):
    """A share could not be committed, with a ``ShareReason``."""

    KIND: ClassVar[str] = "share.skipped"
    share: ShareKey
    provider: str
    reason: int


@dataclass(frozen=True, slots=True)
class ShareRejected(Change):
    """A share does not stand any more, with a ``ShareReason``.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareRejected):
                print(event.provider, assay.ShareReason(event.reason).name)
    """

    KIND: ClassVar[str] = "share.rejected"
    share: ShareKey
    provider: str
    reason: int


@dataclass(frozen=True, slots=True)
class ShareDrawn(Change):
    """The public lot drew segments of a share.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareDrawn):
                print(event.share.slot, event.segments)
    """

    KIND: ClassVar[str] = "share.drawn"
    share: ShareKey
    segments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShareAccepted(Change):
    """A share is in a closed round, with what its commitment hid; ``metrics`` are FP32 bits at its last boundary.

    One without an update ends where the job stopped, after so many whole ``segments``.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareAccepted):
                print(event.provider, event.share.round, event.share.slot)
    """

    KIND: ClassVar[str] = "share.accepted"
    share: ShareKey
    provider: str
    trace_root: bytes
    update_root: bytes
    local_out: bytes
    metrics: tuple[int, ...]
    segments: int


@dataclass(frozen=True, slots=True)
class ShareCompared(Change):
    """A rejected share was compared with the accepted one of its slot, whose round is verified.

    Where it was ``right``, its provider was ``paid`` by the validator, from what is withheld of its part, its job bond,
    and then its stake; where it was not, its bond is ``burnt``. What the stake gave of either is in the last two.
    """

    KIND: ClassVar[str] = "share.compared"
    share: ShareKey
    provider: str
    right: bool
    paid: int
    burnt: int
    paid_from_stake: int
    burnt_from_stake: int


@dataclass(frozen=True, slots=True)
class ShareFoundWrong(Change):
    """A panel found a segment of an accepted share wrong for which its provider alone answers."""

    KIND: ClassVar[str] = "share.wrong"
    share: ShareKey
    provider: str


@dataclass(frozen=True, slots=True)
class RoundClosed(Change):
    """A round was closed; its window runs until ``window_ends`` on the chain clock.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundClosed):
                print(event.round.round, event.window_ends)
    """

    KIND: ClassVar[str] = "round.closed"
    round: RoundKey
    next_root: bytes
    ciphertext_root: bytes
    window_ends: int
    closed_at: int
    closed_height: int


@dataclass(frozen=True, slots=True)
class RoundStopped(Change):
    """A round was closed without a next state, because the job stopped at a place of it (an ``AuditKind``).

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundStopped):
                print(event.round.round, event.slot, event.segment)
    """

    KIND: ClassVar[str] = "round.stopped"
    round: RoundKey
    kind: int
    slot: int
    issue: int
    segment: int


@dataclass(frozen=True, slots=True)
class RoundVerified(Change):
    """A round was verified: of its price, ``withheld`` is kept for the validator, and the rest was paid.

    ``price`` is without the audit fee, which its panel has.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundVerified):
                print(event.round.round, event.price)
    """

    KIND: ClassVar[str] = "round.verified"
    round: RoundKey
    price: int
    withheld: int
    audit_fee: int


@dataclass(frozen=True, slots=True)
class RoundVoid(Change):
    """A round will never be verified.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundVoid):
                print(event.round.attempt, event.round.round)
    """

    KIND: ClassVar[str] = "round.void"
    round: RoundKey


@dataclass(frozen=True, slots=True)
class StageOpened(Change):
    """A stage of a panel has its seats, numbered from ``first_seat`` on; ``places`` are those that it is about.

    ``stakes`` are those of the seats, ``eligible`` and ``stake`` those of all who have or could have sat.
    """

    KIND: ClassVar[str] = "panel.stage"
    round: RoundKey
    stage: int
    seed: bytes
    first_seat: int
    seats: tuple[str, ...]
    places: tuple[int, ...]
    commits_end: int
    reveals_end: int
    is_last: bool
    stakes: tuple[int, ...]
    eligible: int
    stake: int


@dataclass(frozen=True, slots=True)
class StageEnded(Change):
    """A stage of a panel is over; the next one is to have so many seats (0: there is none)."""

    KIND: ClassVar[str] = "panel.stage_ended"
    round: RoundKey
    stage: int
    wanted: int


@dataclass(frozen=True, slots=True)
class PanelWaits(Change):
    """A panel waits until auditors have room for it."""

    KIND: ClassVar[str] = "panel.waits"
    round: RoundKey


@dataclass(frozen=True, slots=True)
class RoomTaken(Change):
    """A panel takes so much of the auditors' time (ten-thousandths of a validator), or gives it back."""

    KIND: ClassVar[str] = "panel.room"
    round: RoundKey
    load: int


@dataclass(frozen=True, slots=True)
class PlaceDrawn(Change):
    """A place of a panel was drawn, with an ``AuditKind``, and the root that the chain claims there, if it has one.

    ``stops``: the chain has it that the job stops there.
    """

    KIND: ClassVar[str] = "panel.place"
    round: RoundKey
    place: int
    kind: int
    slot: int
    issue: int
    segment: int
    stops: bool
    claim: bytes


@dataclass(frozen=True, slots=True)
class AnswerCommitted(Change):
    """A seat committed to its answers; the parts of the stage end when they do now, because the last one did it."""

    KIND: ClassVar[str] = "panel.committed"
    round: RoundKey
    auditor: str
    stage: int
    commitment: bytes
    commits_end: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class AnswerRevealed(Change):
    """A seat showed what it says of a place, with an ``AnswerKind``."""

    KIND: ClassVar[str] = "panel.answer"
    round: RoundKey
    auditor: str
    stage: int
    place: int
    kind: int
    root: bytes
    digest: bytes
    step: int


@dataclass(frozen=True, slots=True)
class SeatRevealed(Change):
    """A seat has shown all its answers, if it has any."""

    KIND: ClassVar[str] = "panel.revealed"
    round: RoundKey
    auditor: str
    stage: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class LeafShown(Change):
    """A seat showed the leaf behind a segment: what the accepted trace claims there."""

    KIND: ClassVar[str] = "panel.leaf"
    round: RoundKey
    place: int
    claim: bytes


@dataclass(frozen=True, slots=True)
class SeatSilent(Change):
    """A seat was silent on ``places``, and lost ``cut`` of its stake."""

    KIND: ClassVar[str] = "panel.silent"
    round: RoundKey
    auditor: str
    stage: int
    places: tuple[int, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class SeatDiffered(Change):
    """A seat's answers on ``places`` are not the ruling, and it lost ``cut`` of its stake."""

    KIND: ClassVar[str] = "panel.differed"
    round: RoundKey
    auditor: str
    stage: int
    places: tuple[int, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class PlaceRuled(Change):
    """A place was decided by a stage, with a ``Ruling``, and what was found: an ``AnswerKind``, 0 where undecided.

    Example::

        for event in order.events():
            if isinstance(event, assay.PlaceRuled):
                print(event.round.round, event.place, event.stage)
    """

    KIND: ClassVar[str] = "panel.ruled"
    round: RoundKey
    place: int
    stage: int
    ruling: int
    kind: int
    root: bytes
    step: int


@dataclass(frozen=True, slots=True)
class SeatPaid(Change):
    """A seat got ``paid`` for its answers, of it so much from what other seats lost and from the community pool.

    The rest is among the payments of the order.
    """

    KIND: ClassVar[str] = "panel.paid"
    round: RoundKey
    auditor: str
    stage: int
    paid: int
    from_pot: int
    from_pool: int


@dataclass(frozen=True, slots=True)
class PanelEnded(Change):
    """A panel is over; ``burnt`` is what its seats lost and nobody got."""

    KIND: ClassVar[str] = "panel.ended"
    round: RoundKey
    burnt: int


@dataclass(frozen=True, slots=True)
class PartReturned(Change):
    """An attempt has failed: what was withheld from its validator is the deposit's again.

    What right shares took of it was made good to the consumer, as far as job bond and stake went, ``from_stake`` of it.
    """

    KIND: ClassVar[str] = "part.returned"
    order: bytes
    attempt: int
    amount: int
    made_good: int
    from_stake: int


@dataclass(frozen=True, slots=True)
class PaymentMade(Change):
    """Coins left an order's escrow; ``round`` is -1 where none is concerned.

    ``attempt``, ``slot`` and ``issue`` name the bond that they come from: of a job, of which slot and issue are 0, or
    of a share. Without an attempt they come from the deposit.

    Example::

        for event in order.events():
            if isinstance(event, assay.PaymentMade):
                print(event.to, event.kind, event.amount)
    """

    KIND: ClassVar[str] = "payment"
    order: bytes
    to: str
    kind: str
    amount: int
    round: int
    attempt: int
    slot: int
    issue: int


KINDS: Mapping[str, type[Change]] = MappingProxyType(
    {
        cls.KIND: cls
        for cls in (
            EndpointSet,
            BeaconKeySet,
            BeaconKeyRevoked,
            ProviderRegistered,
            ProviderLeft,
            ProviderAdmitted,
            ProviderDismissed,
            ProviderCertified,
            BondDeposited,
            BondWithdrawing,
            BondReleased,
            BidPlaced,
            BidChanged,
            BidClosed,
            OrderSubmitted,
            OrderOpened,
            OrderMatched,
            OrderExcluded,
            OrderUnmatched,
            OrderAccepted,
            ProgressRestarted,
            OrderDeclined,
            AttemptFailed,
            OrderProven,
            OrderVerified,
            DeadlineMoved,
            OrderSettled,
            OrderClosed,
            ShareCommitted,
            ShareSkipped,
            ShareRejected,
            ShareDrawn,
            ShareAccepted,
            ShareCompared,
            ShareFoundWrong,
            RoundClosed,
            RoundStopped,
            RoundVerified,
            RoundVoid,
            AuditsPromised,
            PanelWaits,
            RoomTaken,
            PlaceDrawn,
            StageOpened,
            StageEnded,
            AnswerCommitted,
            AnswerRevealed,
            SeatRevealed,
            LeafShown,
            SeatSilent,
            SeatDiffered,
            PlaceRuled,
            SeatPaid,
            PanelEnded,
            PartReturned,
            PaymentMade,
        )
    }
)
"""Every kind of change by its name on the wire."""

_PARTS = ("order", "attempt", "round", "slot", "issue")
_SIZES: Mapping[Any, int] = MappingProxyType({RoundKey: 3, ShareKey: 5})


class Attributed(Protocol):
    """An event as any of the ways from the node brings it."""

    @property
    def type(self) -> str:
        """The kind."""
        ...

    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        """Names and texts."""
        ...


def to_event(change: Change, number: int) -> Event:
    """Return a change as it is on the wire, with its number."""
    attributes: list[tuple[str, str]] = []
    cls: Any = type(change)
    for name, write in _writers(cls):
        attributes += write(getattr(change, name))
    return Event(change.KIND, tuple(attributes), number)


def read_event(event: Attributed) -> Change | None:
    """Return the change that an event tells of, or None for one of another kind (``transfer``).

    Raises ValueError for attributes that :func:`to_event` does not write.
    """
    cls: Any = KINDS.get(event.type)
    if cls is None:
        return None
    rest, values = event.attributes, []
    for name, hint in _hints(cls):
        size = len(rest) if hint == Counts else _SIZES.get(hint, 1)
        values.append(_read(name, hint, rest[:size]))
        rest = rest[size:]
    if rest:
        raise ValueError(f"{event.type}: unknown attributes {rest}")
    change: Change = cls(*values)
    return change


def changes_of(kind: type[C], events: Iterable[Attributed]) -> Iterator[C]:
    """Yield the changes of one kind that events tell of, in their order; ValueError as in :func:`read_event`."""
    for event in events:
        if event.type == kind.KIND:
            change: Any = read_event(event)
            yield change


@cache
def _hints(cls: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(cls)
    return tuple((field.name, hints[field.name]) for field in fields(cls))


@cache
def _writers(cls: Any) -> tuple[tuple[str, Callable[[Any], Iterable[tuple[str, str]]]], ...]:
    return tuple((name, _writer(name, hint)) for name, hint in _hints(cls))


def _writer(name: str, hint: Any) -> Callable[[Any], Iterable[tuple[str, str]]]:
    """Return the function that turns a field into its attributes; compiled once, because every block emits many."""
    if hint in _SIZES:
        return lambda key: zip(_PARTS, (key.order_id.hex(), *map(str, (*key,)[1:])), strict=False)
    if hint == Counts:
        return lambda counts: ((word, str(count)) for word, count in counts)
    if get_origin(hint) is tuple:
        item = _text_of(get_args(hint)[0])
        return lambda items: ((name, ",".join(map(item, items))),)
    text = _text_of(hint)
    return lambda value: ((name, text(value)),)


def _text_of(hint: Any) -> Callable[[Any], str]:
    if hint is bool:
        return lambda value: "true" if value else "false"
    if hint is int:
        return int.__repr__
    if is_dataclass(hint):
        return lambda record: encode(record).decode()
    return bytes.hex if hint is bytes else str


def _read(name: str, hint: Any, pairs: tuple[tuple[str, str], ...]) -> Any:
    if hint == Counts:
        return tuple((word, int(count)) for word, count in pairs)
    names = _PARTS[: _SIZES[hint]] if hint in _SIZES else (name,)
    if tuple(word for word, _ in pairs) != names:
        raise ValueError(f"the attributes {pairs} are not {names}")
    if hint in _SIZES:
        return hint(
            *[_value(kind, text) for (_, kind), (_, text) in zip(_hints(hint), pairs, strict=True)]
        )
    ((_, text),) = pairs
    if get_origin(hint) is tuple:
        return tuple(_value(get_args(hint)[0], item) for item in text.split(",") if text)
    return _value(hint, text)


def _value(hint: Any, text: str) -> Any:
    if hint is bool:
        if text not in ("true", "false"):
            raise ValueError(f"{text!r} is neither true nor false")
        return text == "true"
    if is_dataclass(hint):
        record: Any = hint
        return decode(record, text.encode())
    return bytes.fromhex(text) if hint is bytes else hint(text)
