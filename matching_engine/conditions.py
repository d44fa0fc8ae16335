"""The conditions of the order book: one row for each, under the name that consumers read.

From this table come the auction's tests, the counts of an unmatched order's histogram, the options of ``assay quote``,
``order submit`` and ``bid place``, and the table in ``docs/protocol.md``. A row reads one value of a standing bid and
says which values do for an order. So the book can keep bids by that value, and count without looking at each.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from typing import Any

from domain.amount import BPS, PFLOP, ceil_div, critical_work
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

    ``passes`` says it to people: "the bid passes if …"; ``helps`` what a consumer can do whom it keeps from a match.
    ``has`` reads the value of a standing bid that decides. ``basis`` is what of an order that value depends on as well,
    for nearly all conditions nothing: the book keeps an index for each basis that occurs. ``asks`` and ``offers`` are
    the options for the two sides.
    """

    name: str
    passes: str
    helps: str
    has: Callable[[Standing, int], Any]
    basis: Callable[[Asked], int] = _nothing
    asks: tuple[Option, ...] = ()
    offers: tuple[Option, ...] = ()

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
class AtLeastFor(Condition):
    """The value is a group and an amount, of which an order needs so much or more in that group; groups are few."""

    needs: Callable[[Asked, int], Callable[[Any], int]]

    def accepts(self, order: Asked, clock: int) -> Callable[[Any], bool]:
        """Return the test of a group and an amount."""
        least = self.needs(order, clock)
        return lambda value: least(value[0]) <= value[1]


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


def _least_slot_speed(order: Asked, _: int) -> Callable[[int], int]:
    """Return, for so many slots at once, the least FLOP/s of a slot with which the order is done in time.

    Before the deadline have to fit: the time to accept, of which the trial depends on the speed; each round's critical
    work / slot speed, in seconds rounded up (protocol section 2); and the verification of the last round. A speed of 0
    never does.
    """
    seconds = order.seconds_left - order.accept_seconds - order.verify_seconds

    @cache
    def least(at_once: int) -> int:
        work = critical_work(order.slots, at_once, order.share_work, order.outer_work)

        def takes(speed: int) -> int:
            return ceil_div(order.trial_work, speed) + order.rounds * ceil_div(work, speed)

        fits = max(1, order.trial_work, work)
        if takes(fits) > seconds:
            return UNBOUNDED
        # Without rounding up it would be this; what is slower is too slow.
        fails = max(1, (order.trial_work + order.rounds * work) // max(1, seconds)) - 1
        while fits - fails > 1:
            middle = (fits + fails) // 2
            if takes(middle) > seconds:
                fails = middle
            else:
                fits = middle
        return fits

    return least


def _least_trial_speed(order: Asked, _: int) -> int:
    """Return the least FLOP/s of a slot with which payload and trial are over within the longest time to accept."""
    seconds = order.accept_max - order.accept_seconds
    if seconds < 0 or (seconds == 0 and order.trial_work):
        return UNBOUNDED
    return ceil_div(order.trial_work, seconds) if order.trial_work else 0


def _most_work_for(value: int, price: int) -> int:
    """Return the FLOPs that cost at most ``value`` (``uassay``), the price of work being rounded up."""
    return value * PFLOP // price if price else UNBOUNDED


def _room(standing: Standing, _: int) -> int:
    """Return the FLOPs that the bid can still take: what is not sold, as far as the validator's stake backs it."""
    backed = _most_work_for(standing.free_stake, standing.bid.offer.price)
    return min(standing.free_capacity, backed)


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
        helps="wait for new bids",
        has=lambda standing, _: standing.bid.expires_at,
        needs=lambda _, clock: clock + 1,
    ),
    OneOf(
        name="jailed",
        passes="its validator is in the validator set",
        helps="wait for other validators",
        has=lambda standing, _: standing.jailed,
        does=lambda _, jailed: not jailed,
    ),
    OneOf(
        name="excluded",
        passes="its validator has not declined or failed the order",
        helps="wait for bids of other validators",
        has=lambda standing, _: standing.bid.validator,
        does=lambda order, validator: validator not in order.excluded,
    ),
    AtLeast(
        name="firm",
        passes="its validator took back or worsened no bid since the block before the order's",
        helps="cancel, look at the new bids, and order again",
        has=lambda standing, _: -standing.worsened_height,
        needs=lambda order, _: 1 - order.opened_height,
    ),
    AtLeast(
        name="price",
        passes="its price is not above the limit, nor above what the escrow can pay",
        helps="raise the price limit",
        has=lambda standing, _: -standing.bid.offer.price,
        needs=lambda order, _: -order.price_limit,
        offers=(
            Option("price", OptionKind.AMOUNT, "uassay per PFLOP (10^15 FLOPs).", required=True),
        ),
    ),
    OneOf(
        name="device_class",
        passes="it is of the device class, if the order names one",
        helps="name another device class, or none",
        has=lambda standing, _: standing.bid.offer.device_class,
        does=lambda order, device_class: order.conditions.device_class in ("", device_class),
        asks=(Option("device_class", OptionKind.TEXT, "Only this device class."),),
        offers=(Option("device_class", OptionKind.TEXT, "Device class of the cluster.", "cpu"),),
    ),
    AtLeast(
        name="memory",
        passes="a device has at least the memory",
        helps="ask for less memory, or wait for a bid with what the job needs",
        has=lambda standing, _: standing.bid.offer.memory,
        needs=lambda order, _: order.conditions.memory,
        asks=(
            Option(
                "memory", OptionKind.SIZE, "At least so many bytes a device.  [what the job needs]"
            ),
        ),
        offers=(Option("memory", OptionKind.SIZE, "Bytes a device.", "1GiB"),),
    ),
    OneOf(
        name="regions",
        passes="all its regions are among the order's, if the order names any",
        helps="allow more regions, or name none",
        has=lambda standing, _: standing.bid.offer.regions,
        does=_stays_inside,
        asks=(Option("regions", OptionKind.TAGS, "Comma-separated; work must stay in them."),),
        offers=(Option("regions", OptionKind.TAGS, "Comma-separated region tags."),),
    ),
    OneOf(
        name="tier",
        passes="it verifies in a tier that the order names, or in any if the order names none",
        helps="allow more tiers, or name none",
        has=lambda standing, _: standing.bid.offer.tiers,
        does=lambda order, tiers: order.conditions.choose_tier(tiers) != "",
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
        helps="order a larger job",
        has=lambda standing, _: -standing.bid.offer.min_work,
        needs=lambda order, _: -order.work,
        offers=(Option("min_work", OptionKind.WORK, "FLOPs of an order.", 1),),
    ),
    AtLeast(
        name="max_work",
        passes="the order has at most its greatest work, if it names one",
        helps="order a smaller job",
        has=lambda standing, _: standing.bid.offer.max_work or UNBOUNDED,
        needs=lambda order, _: order.work,
        offers=(Option("max_work", OptionKind.WORK, "FLOPs of an order.  [the capacity]"),),
    ),
    AtLeast(
        name="max_payload",
        passes="payload and data are at most its largest, if it names one",
        helps="order a job with less data",
        has=lambda standing, _: standing.bid.offer.max_payload or UNBOUNDED,
        needs=lambda order, _: order.payload_bytes,
        offers=(
            Option("max_payload", OptionKind.SIZE, "Bytes of payload and data of an order.  [any]"),
        ),
    ),
    AtLeast(
        name="accept",
        passes="payload and data arrive, and a trial at its slot speed is over, within `accept_max`",
        helps="order a job with less data, or shorter segments",
        has=lambda standing, _: standing.bid.offer.slot_speed,
        needs=_least_trial_speed,
    ),
    AtLeastFor(
        name="deadline",
        passes="the time to accept, its rounds at its slot speed with its slots at once, and the last round's "
        "window, or every stage of its panel, fit before the deadline",
        helps="give it a longer deadline",
        has=lambda standing, _: (standing.bid.offer.slots, standing.bid.offer.slot_speed),
        needs=_least_slot_speed,
        offers=(
            Option("slot_speed", OptionKind.WORK, f"FLOP/s given to one slot.  {_CERTIFIED}"),
            Option("slots", OptionKind.SLOTS, f"Slots that train at once.  {_CERTIFIED}"),
        ),
    ),
    AtLeast(
        name="capacity",
        passes="enough of its capacity is not sold, and its validator's stake backs the work's price",
        helps="wait until capacity comes free, or order a smaller job",
        has=_room,
        needs=lambda order, _: order.work,
    ),
    AtLeast(
        name="bond",
        passes="its validator's bond account, and its largest job bond, cover the job bond at its price",
        helps="wait until bonds come free, or order a smaller job",
        has=_bonded,
        basis=lambda order: order.job_bond_bps,
        needs=lambda order, _: order.work,
        offers=(Option("max_job_bond", OptionKind.AMOUNT, "uassay to risk for an order.  [any]"),),
    ),
    AtLeast(
        name="least_bond",
        passes="both cover the least job bond, which is that of half the order's price limit, and `payload_fee`",
        helps="lower the price limit, or wait until bonds come free",
        has=lambda standing, _: _most_bond(standing),
        needs=lambda order, _: order.job_bond(0),
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
