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

from domain.amount import BPS, PFLOP, ceil_div
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


@dataclass(frozen=True, slots=True)
class Option:
    """How people state a field of ``Conditions`` or ``Offer``: by an option with its name.

    ``default`` is written as people would write it; without one the record's own stands.
    """

    field: str
    kind: OptionKind
    help: str
    default: str | int | None = None
    required: bool = False

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return "--" + self.field.replace("_", "-")


def _nothing(_: Asked) -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(ABC):
    """What a bid must satisfy to take an order.

    ``passes`` says it to people: "the bid passes if …". ``has`` reads the value of a standing bid that decides.
    ``basis`` is what of an order that value depends on as well, for nearly all conditions nothing: the book keeps an
    index for each basis that occurs. ``asks`` and ``offers`` are the options for the two sides.
    """

    name: str
    passes: str
    has: Callable[[Standing, int], Any]
    basis: Callable[[Asked], int] = _nothing
    asks: Option | None = None
    offers: Option | None = None

    @abstractmethod
    def accepts(self, order: Asked, clock: int) -> Callable[[Any], bool]:
        """Return the test of a value for ``order`` at ``clock`` (seconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast(Condition):
    """The value is an amount, of which an order needs so much or more; what must not be exceeded is counted below 0."""

    needs: Callable[[Asked, int], int]

    def accepts(self, order: Asked, clock: int) -> Callable[[Any], bool]:
        """Return the test of an amount."""
        return self.needs(order, clock).__le__


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf(Condition):
    """The value is one of several that do for an order, and many bids have the same."""

    does: Callable[[Asked, Any], bool]

    def accepts(self, order: Asked, clock: int) -> Callable[[Any], bool]:
        """Return the test of a value; the clock does not matter."""
        return partial(self.does, order)


def _stays_inside(order: Asked, regions: tuple[str, ...]) -> bool:
    """Tell whether every region of a bid is allowed.

    A bid sells its cluster as a whole, and its validator may use any part of it: one region outside is enough for the
    work to leave, and a bid that names none promises nothing.
    """
    allowed = order.conditions.regions
    return not allowed or (bool(regions) and all(region in allowed for region in regions))


def _least_speed(order: Asked, _: int) -> int:
    """Return the least FLOP/s with which two round windows fit between the expected end and the deadline.

    The end is expected after work / speed, in seconds rounded up (protocol section 3). A speed of 0 never does.
    """
    seconds = order.seconds_left - 2 * order.window_seconds
    if seconds < 0 or (seconds == 0 and order.work):
        return UNBOUNDED
    return max(1, ceil_div(order.work, seconds)) if order.work else 1


def _most_work_for(value: int, price: int) -> int:
    """Return the FLOPs that cost at most ``value`` (``uassay``), the price of work being rounded up."""
    return value * PFLOP // price if price else UNBOUNDED


def _room(standing: Standing, _: int) -> int:
    """Return the FLOPs that the bid can still take: what is not sold, as far as the validator's stake backs it."""
    backed = _most_work_for(standing.free_stake, standing.bid.offer.price)
    return min(standing.free_capacity, backed)


def _bonded(standing: Standing, bps: int) -> int:
    """Return the FLOPs for which the validator has the job bond, which is ``bps`` of their price, rounded up twice."""
    if not bps:
        return UNBOUNDED
    return _most_work_for(standing.free_bond * BPS // bps, standing.bid.offer.price)


CONDITIONS: tuple[Condition, ...] = (
    AtLeast(
        name="expired",
        passes="it has not expired",
        has=lambda standing, _: standing.bid.expires_at,
        needs=lambda _, clock: clock + 1,
    ),
    OneOf(
        name="jailed",
        passes="its validator is in the validator set",
        has=lambda standing, _: standing.jailed,
        does=lambda _, jailed: not jailed,
    ),
    OneOf(
        name="excluded",
        passes="its validator has not declined or failed the order",
        has=lambda standing, _: standing.bid.validator,
        does=lambda order, validator: validator not in order.excluded,
    ),
    AtLeast(
        name="price",
        passes="its price is not above the limit, nor above what the escrow can pay",
        has=lambda standing, _: -standing.bid.offer.price,
        needs=lambda order, _: -order.price_limit,
        offers=Option("price", OptionKind.AMOUNT, "uassay per PFLOP (10^15 FLOPs).", required=True),
    ),
    OneOf(
        name="device_class",
        passes="it is of the device class, if the order names one",
        has=lambda standing, _: standing.bid.offer.device_class,
        does=lambda order, device_class: order.conditions.device_class in ("", device_class),
        asks=Option("device_class", OptionKind.TEXT, "Only this device class."),
        offers=Option("device_class", OptionKind.TEXT, "Device class of the cluster.", "cpu"),
    ),
    AtLeast(
        name="memory",
        passes="a device has at least the memory",
        has=lambda standing, _: standing.bid.offer.memory,
        needs=lambda order, _: order.conditions.memory,
        asks=Option("memory", OptionKind.SIZE, "At least so many bytes a device."),
        offers=Option("memory", OptionKind.SIZE, "Bytes a device.", "1GiB"),
    ),
    OneOf(
        name="regions",
        passes="all its regions are among the order's, if the order names any",
        has=lambda standing, _: standing.bid.offer.regions,
        does=_stays_inside,
        asks=Option("regions", OptionKind.TAGS, "Comma-separated; work must stay in them."),
        offers=Option("regions", OptionKind.TAGS, "Comma-separated region tags."),
    ),
    OneOf(
        name="tier",
        passes="it verifies in the tier, if the order names one",
        has=lambda standing, _: standing.bid.offer.tiers,
        does=lambda order, tiers: order.conditions.tier in ("", *tiers),
        asks=Option("tier", OptionKind.TEXT, "How strictly to verify.", "exact"),
        offers=Option("tiers", OptionKind.TAGS, "Verification tiers.", "exact"),
    ),
    AtLeast(
        name="min_work",
        passes="the order has at least its least work",
        has=lambda standing, _: -standing.bid.offer.min_work,
        needs=lambda order, _: -order.work,
        offers=Option("min_work", OptionKind.WORK, "FLOPs of an order.", 1),
    ),
    AtLeast(
        name="max_work",
        passes="the order has at most its greatest work, if it names one",
        has=lambda standing, _: standing.bid.offer.max_work or UNBOUNDED,
        needs=lambda order, _: order.work,
        offers=Option("max_work", OptionKind.WORK, "FLOPs of an order.  [the capacity]"),
    ),
    AtLeast(
        name="deadline",
        passes="work / speed and two round windows fit before the deadline",
        has=lambda standing, _: standing.bid.offer.speed,
        needs=_least_speed,
        offers=Option("speed", OptionKind.WORK, "FLOP/s of the cluster.", required=True),
    ),
    AtLeast(
        name="capacity",
        passes="enough of its capacity is not sold, and its validator's stake backs the work's price",
        has=_room,
        needs=lambda order, _: order.work,
    ),
    AtLeast(
        name="bond",
        passes="its validator's bond account covers the job bond",
        has=_bonded,
        basis=lambda order: order.job_bond_bps,
        needs=lambda order, _: order.work,
    ),
)
"""In the order of histograms. The names are stable, because scripts and consumers read them."""

PRICE = next(condition for condition in CONDITIONS if condition.name == "price")
"""The condition by which bids are ranked."""


def fitting(order: Asked, clock: int) -> Callable[[Standing], bool]:
    """Return the test whether a standing bid satisfies all conditions of ``order`` at ``clock`` (seconds)."""
    tests = [(row.has, row.basis(order), row.accepts(order, clock)) for row in CONDITIONS]

    def fits(standing: Standing) -> bool:
        for has, basis, accepts in tests:  # noqa: SIM110 -- a generator costs as much as the tests
            if not accepts(has(standing, basis)):
                return False
        return True

    return fits
