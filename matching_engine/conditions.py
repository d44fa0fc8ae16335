"""The conditions of the order book: one row for each, under the name that consumers read.

From this table come the auction's tests, the counts of an unmatched order's histogram, the options of ``assay quote``,
``order submit`` and ``bid place``, and the table in ``docs/protocol.md``. A row reads one value of a standing bid and
says which values do for an order. So the book can keep bids by that value, and count without looking at each.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from domain.amount import BPS, PFLOP, ceil_div, critical_work
from domain.market.records import Conditions
from matching_engine.records import Asked, Standing

UNBOUNDED = 1 << 512
"""More than any amount."""


class OptionKind(Enum):
    """What the value of an option is, which decides how people write it."""

    TEXT = "text"
    TAGS = "tags"
    AMOUNT = "amount"
    WORK = "work"
    SIZE = "size"
    SLOTS = "slots"
    TIER = "tier"
    TIERS = "tiers"


@dataclass(frozen=True, slots=True)
class Option:
    """How people state a field of ``Conditions`` or ``Offer``: by an option with its name, or with ``word``.

    ``default`` is written as people would write it; without one the record's own stands. The default of a list of tiers
    is what the table of tiers has first.
    """

    field: str
    kind: OptionKind
    help: str
    default: str | int | None = None
    required: bool = False
    word: str = ""

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return "--" + (self.word or self.field).replace("_", "-")


def _nothing(_: Asked) -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(ABC):
    """What a bid must satisfy to take an order.

    ``passes`` says it to people: "the bid passes if …"; ``fails`` completes "one bid …" and "several bids …" for bids
    that do not pass; ``helps`` what a consumer can do whom it keeps from a match.
    ``has`` reads the value of a standing bid that decides. ``basis`` is what of an order that value depends on as well,
    for nearly all conditions nothing: the book keeps a column for each basis that occurs. ``asks`` and ``offers`` are
    the options for the two sides.

    ``own`` says that what is wanted depends on the order's size, price or time, so that few orders want the same; for
    the others ``Asked.common`` decides, and the clock. ``taken`` says that a fill takes from the value.
    """

    name: str
    passes: str
    fails: tuple[str, str]
    helps: str
    has: Callable[[Standing, int], Any]
    basis: Callable[[Asked], int] = _nothing
    own: bool = False
    taken: bool = False
    asks: tuple[Option, ...] = ()
    offers: tuple[Option, ...] = ()

    @abstractmethod
    def want(self, order: Asked, clock: int) -> Any:
        """Return what ``order`` wants of the value at ``clock`` (seconds)."""

    @abstractmethod
    def test(self, want: Any) -> Callable[[Any], bool]:
        """Return the test whether a value does for what an order wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast(Condition):
    """The value is an amount, of which an order needs so much or more; what must not be exceeded is counted below 0."""

    needs: Callable[[Asked, int], int]

    def want(self, order: Asked, clock: int) -> int:
        """Return the least amount."""
        return self.needs(order, clock)

    def test(self, want: int) -> Callable[[int], bool]:
        """Return the test of an amount."""
        return want.__le__


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeastFor(Condition):
    """The value is a group and an amount, of which an order needs so much or more in that group.

    Groups are numbers, and an order never needs more in a higher one.
    """

    needs: Callable[[Asked, int], Callable[[int], int]]

    def want(self, order: Asked, clock: int) -> Callable[[int], int]:
        """Return the function from a group to the least amount."""
        return self.needs(order, clock)

    def test(self, want: Callable[[int], int]) -> Callable[[tuple[int, int]], bool]:
        """Return the test of a group and an amount."""
        return lambda value: want(value[0]) <= value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf(Condition):
    """The value is one of several, of which some do for what the order wants; many bids have the same.

    An order that wants nothing (an empty value) takes any.
    """

    wants: Callable[[Asked], Any]
    does: Callable[[Any, Any], bool]

    def want(self, order: Asked, clock: int) -> Any:
        """Return what the order wants; the clock does not matter."""
        return self.wants(order)

    def test(self, want: Any) -> Callable[[Any], bool]:
        """Return the test of a value."""
        return partial(self.does, want) if want else _anything


@dataclass(frozen=True, slots=True, kw_only=True)
class NoneOf(Condition):
    """The value is a name, and an order excludes a few names; hardly two bids may have the same."""

    names: Callable[[Asked], tuple[Any, ...]]

    def want(self, order: Asked, clock: int) -> tuple[Any, ...]:
        """Return the excluded names; the clock does not matter."""
        return self.names(order)

    def test(self, want: tuple[Any, ...]) -> Callable[[Any], bool]:
        """Return the test of a name."""
        return (lambda value: value not in want) if want else _anything


def _anything(_: Any) -> bool:
    return True


def _stays_inside(allowed: tuple[str, ...], regions: tuple[str, ...]) -> bool:
    """Tell whether every region of a bid is allowed.

    A bid sells its cluster as a whole, and its validator may use any part of it: one region outside is enough for the
    work to leave, and a bid that names none promises nothing.
    """
    return bool(regions) and all(region in allowed for region in regions)


def _least_slot_speed(order: Asked, _: int) -> Callable[[int], int]:
    """Return, for so many slots at once, the least FLOP/s of a slot with which the order is done in time.

    Before the deadline have to fit: the time to accept, of which the trial depends on the speed; each round's critical
    work / slot speed, in seconds rounded up (protocol section 2); and the verification of the last round. A speed of 0
    never does.
    """
    seconds = order.seconds_left - order.accept_seconds - order.verify_seconds
    trial, rounds = order.trial_work, order.rounds

    known: dict[int, int] = {}

    def least_at(at_once: int) -> int:
        turns = ceil_div(order.slots, at_once)
        if turns not in known:
            known[turns] = least(turns)
        return known[turns]

    def least(turns: int) -> int:
        work = critical_work(turns, 1, order.share_work, order.outer_work)
        if seconds < (trial > 0) + rounds * (work > 0):
            return UNBOUNDED
        if not work:
            return ceil_div(trial, seconds) if trial else 1
        # The longer a round may take, the slower it may be, and the faster the trial must be: they meet here.
        whole = work * seconds // (trial + rounds * work)
        speeds = [ceil_div(work, whole)] if whole else []
        for_trial = seconds - rounds * (whole + 1)
        if trial and for_trial > 0:
            speeds.append(ceil_div(trial, for_trial))
        return min(speeds, default=UNBOUNDED)

    return least_at


def _least_trial_speed(order: Asked, _: int) -> int:
    """Return the least FLOP/s of a slot with which payload and trial are over within the longest time to accept."""
    seconds = order.accept_max - order.accept_seconds
    if seconds < 0 or (seconds == 0 and order.trial_work):
        return UNBOUNDED
    return ceil_div(order.trial_work, seconds) if order.trial_work else 0


def _most_work_for(value: int, price: int) -> int:
    """Return the FLOPs that cost at most ``value`` (``uassay``), the price of work being rounded up."""
    return value * PFLOP // price if price else UNBOUNDED


def backed_work(free_stake: int, price: int) -> int:
    """Return the FLOPs that a free stake (``uassay``) backs at a price: those that cost at most so much."""
    return _most_work_for(free_stake, price)


def _most_bond(standing: Standing) -> int:
    """Return the largest job bond (``uassay``) that the validator has, and that the bid is for."""
    return min(standing.free_bond, standing.bid.offer.max_job_bond or UNBOUNDED)


def _bonded(standing: Standing, bps: int) -> int:
    """Return the FLOPs for which there is a job bond of ``bps`` of their price, rounded up twice."""
    if not bps:
        return UNBOUNDED
    return _most_work_for(_most_bond(standing) * BPS // bps, standing.bid.offer.price)


_CERTIFIED = "[what your providers are certified for]"

CONDITIONS: tuple[Condition, ...] = (
    AtLeast(
        name="expired",
        passes="it has not expired",
        fails=("has expired", "have expired"),
        helps="wait for new bids",
        has=lambda standing, _: standing.bid.expires_at,
        needs=lambda _, clock: clock + 1,
    ),
    OneOf(
        name="jailed",
        passes="its validator is in the validator set",
        fails=("has a jailed validator", "have jailed validators"),
        helps="wait for other validators",
        has=lambda standing, _: standing.jailed,
        wants=lambda _: "active",
        does=lambda _, jailed: not jailed,
    ),
    NoneOf(
        name="excluded",
        passes="its validator has not declined or failed the order",
        fails=(
            "has a validator that declined or failed this order",
            "have validators that declined or failed this order",
        ),
        helps="wait for bids of other validators",
        has=lambda standing, _: standing.bid.validator,
        names=lambda order: order.excluded,
    ),
    AtLeast(
        name="firm",
        passes="its validator took back or worsened no bid since the block before the order's",
        fails=(
            "has a validator that has just worsened or withdrawn a bid",
            "have validators that have just worsened or withdrawn a bid",
        ),
        helps="cancel, look at the new bids, and order again",
        has=lambda standing, _: -standing.worsened_height,
        needs=lambda order, _: 1 - order.opened_height,
    ),
    AtLeast(
        name="price",
        passes="its price is not above the limit, nor above what the escrow can pay",
        fails=("asks more", "ask more"),
        helps="raise the price limit",
        has=lambda standing, _: -standing.bid.offer.price,
        needs=lambda order, _: -order.price_limit,
        own=True,
        offers=(Option("price", OptionKind.AMOUNT, "uassay per PFLOP (10^15 FLOPs).", required=True),),
    ),
    OneOf(
        name="device_class",
        passes="it is of the device class, if the order names one",
        fails=("has another device class", "have another device class"),
        helps="name another device class, or none",
        has=lambda standing, _: standing.bid.offer.device_class,
        wants=lambda order: order.conditions.device_class,
        does=lambda wanted, device_class: device_class == wanted,
        asks=(Option("device_class", OptionKind.TEXT, "Only this device class."),),
        offers=(
            Option(
                field="device_class",
                kind=OptionKind.TEXT,
                help="Device class of the cluster.",
                default="cpu",
            ),
        ),
    ),
    AtLeast(
        name="memory",
        passes="a device has at least the memory",
        fails=("has less memory", "have less memory"),
        helps="ask for less memory, or wait for a bid with what the job needs",
        has=lambda standing, _: standing.bid.offer.memory,
        needs=lambda order, _: order.conditions.memory,
        asks=(Option("memory", OptionKind.SIZE, "At least so many bytes a device.  [what the job needs]"),),
        offers=(Option(field="memory", kind=OptionKind.SIZE, help="Bytes a device.", default="1GiB"),),
    ),
    OneOf(
        name="regions",
        passes="all its regions are among the order's, if the order names any",
        fails=("may leave the regions", "may leave the regions"),
        helps="allow more regions, or name none",
        has=lambda standing, _: standing.bid.offer.regions,
        wants=lambda order: order.conditions.regions,
        does=_stays_inside,
        asks=(Option("regions", OptionKind.TAGS, "Comma-separated; work must stay in them."),),
        offers=(Option("regions", OptionKind.TAGS, "Comma-separated region tags."),),
    ),
    OneOf(
        name="tier",
        passes="it verifies in a tier that the order names, or in any if the order names none",
        fails=("verifies in other tiers", "verify in other tiers"),
        helps="allow more tiers, or name none",
        has=lambda standing, _: standing.bid.offer.tiers,
        # An order that names none takes any, but a bid may offer none.
        wants=lambda order: Conditions(tiers=order.conditions.tiers),
        does=lambda wanted, tiers: wanted.choose_tier(tiers) != "",
        asks=(
            Option(
                "tiers",
                OptionKind.TIER,
                "How strictly to verify; repeat it to allow several, the preferred one first.",
                word="tier",
            ),
        ),
        offers=(
            Option(
                "tiers",
                OptionKind.TIERS,
                "Verification tiers, the preferred one first.",
            ),
        ),
    ),
    AtLeast(
        name="min_work",
        passes="the order has at least its least work",
        fails=("takes larger jobs only", "take larger jobs only"),
        helps="order a larger job",
        has=lambda standing, _: -standing.bid.offer.min_work,
        needs=lambda order, _: -order.work,
        own=True,
        offers=(Option(field="min_work", kind=OptionKind.WORK, help="FLOPs of an order.", default=1),),
    ),
    AtLeast(
        name="max_work",
        passes="the order has at most its greatest work, if it names one",
        fails=("takes smaller jobs only", "take smaller jobs only"),
        helps="order a smaller job",
        has=lambda standing, _: standing.bid.offer.max_work or UNBOUNDED,
        needs=lambda order, _: order.work,
        own=True,
        offers=(Option("max_work", OptionKind.WORK, "FLOPs of an order.  [the capacity]"),),
    ),
    AtLeast(
        name="max_payload",
        passes="payload and data are at most its largest, if it names one",
        fails=("takes less data", "take less data"),
        helps="order a job with less data",
        has=lambda standing, _: standing.bid.offer.max_payload or UNBOUNDED,
        needs=lambda order, _: order.payload_bytes,
        own=True,
        offers=(Option("max_payload", OptionKind.SIZE, "Bytes of payload and data of an order.  [any]"),),
    ),
    AtLeast(
        name="accept",
        passes="payload and data arrive, and a trial at its slot speed is over, within `accept_max`",
        fails=("is too slow for the data and the trial", "are too slow for the data and the trial"),
        helps="order a job with less data, or shorter segments",
        has=lambda standing, _: standing.bid.offer.slot_speed,
        needs=_least_trial_speed,
        own=True,
    ),
    AtLeastFor(
        name="deadline",
        passes="the time to accept, its rounds at its slot speed with its slots at once, and the last round's "
        "window, or every stage of its panel, fit before the deadline",
        fails=("is too slow for the deadline", "are too slow for the deadline"),
        helps="give it a longer deadline",
        has=lambda standing, _: (standing.bid.offer.slots, standing.bid.offer.slot_speed),
        needs=_least_slot_speed,
        own=True,
        offers=(
            Option("slot_speed", OptionKind.WORK, f"FLOP/s given to one slot.  {_CERTIFIED}"),
            Option("slots", OptionKind.SLOTS, f"Slots that train at once.  {_CERTIFIED}"),
        ),
    ),
    AtLeast(
        name="capacity",
        passes="enough of its capacity is not sold",
        fails=("has too little capacity left", "have too little capacity left"),
        helps="wait until capacity comes free, or order a smaller job",
        has=lambda standing, _: standing.free_capacity,
        needs=lambda order, _: order.work,
        own=True,
        taken=True,
    ),
    AtLeast(
        name="stake",
        passes="its validator's stake, beyond what backs its running orders, is at least the work's price",
        fails=("has too little stake behind it", "have too little stake behind them"),
        helps="order a smaller job, or wait for a bid with more stake or a lower price",
        has=lambda standing, _: backed_work(standing.free_stake, standing.bid.offer.price),
        needs=lambda order, _: order.work,
        own=True,
        taken=True,
    ),
    AtLeast(
        name="bond",
        passes="its validator's bond account, and its largest job bond, cover the job bond at its price",
        fails=("has too small a bond", "have too small a bond"),
        helps="wait until bonds come free, or order a smaller job",
        has=_bonded,
        basis=lambda order: order.job_bond_bps,
        needs=lambda order, _: order.work,
        own=True,
        taken=True,
        offers=(Option("max_job_bond", OptionKind.AMOUNT, "uassay to risk for an order.  [any]"),),
    ),
    AtLeast(
        name="least_bond",
        passes="both cover the least job bond, which is that of half the order's price limit, and `payload_fee`",
        fails=(
            "has too small a bond for the price limit",
            "have too small a bond for the price limit",
        ),
        helps="lower the price limit, or wait until bonds come free",
        has=lambda standing, _: _most_bond(standing),
        needs=lambda order, _: order.job_bond(0),
        own=True,
        taken=True,
    ),
)
"""In the order of histograms. The names are stable, because scripts and consumers read them."""

PRICE = next(condition for condition in CONDITIONS if condition.name == "price")
"""The condition by which bids are ranked."""

STOOD = AtLeast(
    name="stood",
    passes="it stood before the order's block",
    fails=("came later", "came later"),
    helps="",
    has=lambda standing, _: -standing.bid.placed_height,
    needs=lambda order, _: 1 - order.opened_height,
)
"""What comes first: an order is for other bids only if none of these satisfies it. No histogram counts it."""
