"""The conditions of the order book: one row for each, under the name that consumers read.

This table is the source of the auction's tests and of the histogram of an unmatched order. The options of ``assay
quote``, ``order submit`` and ``bid place``, and the table in ``docs/protocol.md``, are also made from it. A row reads
one value of a standing bid, and determines which values satisfy an order. So the book can index bids by this value, and
can count the bids that fail without reading each of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from domain.amount import BPS, PFLOP, ceil_div, critical_work
from domain.market.records import Conditions
from matching_engine.records import AuctionOrder, StandingBid

UNBOUNDED = 1 << 512
"""A number above every amount."""


class OptionKind(Enum):
    """The kind of an option's value, which decides how a user writes it."""

    TEXT = "text"
    TAGS = "tags"
    AMOUNT = "amount"
    WORK = "work"
    SIZE = "size"
    SLOTS = "slots"
    TIER = "tier"
    TIERS = "tiers"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Option:
    """The command-line option for a field of ``Conditions`` or ``Offer``. Its name is ``word``, or the field's name.

    ``default`` is written as a user would write it. If it is not given, the default of the record applies; for a list
    of tiers, that is the first tier in the table of tiers.
    """

    field: str
    kind: OptionKind
    help: str
    default: str | int | None = None
    required: bool = False
    word: str = ""

    @property
    def flag(self) -> str:
        """The option in the form in which users type it, with dashes."""
        return "--" + (self.word or self.field).replace("_", "-")


def _nothing(_: AuctionOrder) -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(ABC):
    """A condition that a bid must satisfy to take an order.

    Three texts are for users. ``passes`` completes "a bid passes if …". ``fails`` completes "one bid …" and "several
    bids …" for bids that do not pass. ``helps`` is the advice for a consumer whose order fails this condition.

    ``has`` reads the value of a standing bid that the condition tests. If this value also depends on a parameter of the
    order, ``basis`` returns that parameter. For nearly all conditions, ``basis`` returns 0. The book keeps a column for
    each basis that occurs. ``asks`` and ``offers`` are the options for orders and bids.

    ``own`` is true if the required value depends on the order's size, price or time; few orders then require the same
    value. If ``own`` is false, the required value depends only on ``AuctionOrder.common`` and the clock. ``taken`` is
    true if a fill reduces the value.
    """

    name: str
    passes: str
    fails: tuple[str, str]
    helps: str
    has: Callable[[StandingBid, int], Any]
    basis: Callable[[AuctionOrder], int] = _nothing
    own: bool = False
    taken: bool = False
    asks: tuple[Option, ...] = ()
    offers: tuple[Option, ...] = ()

    @abstractmethod
    def want(self, order: AuctionOrder, clock: int) -> Any:
        """Return the value that ``order`` requires at ``clock`` (seconds), in the form that :meth:`test` takes."""

    @abstractmethod
    def test(self, want: Any) -> Callable[[Any], bool]:
        """Return the function that tests whether a value satisfies ``want``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast(Condition):
    """A condition on an amount that must not be below what the order needs; upper bounds use negated amounts."""

    needs: Callable[[AuctionOrder, int], int]

    def want(self, order: AuctionOrder, clock: int) -> int:
        """Return the least amount that the order needs."""
        return self.needs(order, clock)

    def test(self, want: int) -> Callable[[int], bool]:
        """Return the function that tests whether an amount is at least ``want``."""
        return want.__le__


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeastFor(Condition):
    """A condition on a group and an amount: the least amount that an order needs depends on the group.

    Groups are numbers. In a higher group, an order never needs a larger amount.
    """

    needs: Callable[[AuctionOrder, int], Callable[[int], int]]

    def want(self, order: AuctionOrder, clock: int) -> Callable[[int], int]:
        """Return a function that returns, for a group, the least amount that the order needs in this group."""
        return self.needs(order, clock)

    def test(self, want: Callable[[int], int]) -> Callable[[tuple[int, int]], bool]:
        """Return the function that tests whether the amount in a (group, amount) pair is at least what ``want`` returns
        for the group.
        """
        return lambda value: want(value[0]) <= value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf(Condition):
    """A condition on a value that many bids share; ``does`` returns whether a value satisfies what the order wants.

    An order that requires nothing (an empty value) takes any value.
    """

    wants: Callable[[AuctionOrder], Any]
    does: Callable[[Any, Any], bool]

    def want(self, order: AuctionOrder, clock: int) -> Any:
        """Return the requirement of the order, which does not depend on the clock."""
        return self.wants(order)

    def test(self, want: Any) -> Callable[[Any], bool]:
        """Return the function that tests whether a value satisfies ``want``."""
        return partial(self.does, want) if want else _anything


@dataclass(frozen=True, slots=True, kw_only=True)
class NoneOf(Condition):
    """A condition on a name. An order excludes a few names, and few bids have the same name."""

    names: Callable[[AuctionOrder], tuple[Any, ...]]

    def want(self, order: AuctionOrder, clock: int) -> tuple[Any, ...]:
        """Return the names that the order excludes, which do not depend on the clock."""
        return self.names(order)

    def test(self, want: tuple[Any, ...]) -> Callable[[Any], bool]:
        """Return the function that tests whether a name is not one of the excluded names ``want``."""
        return (lambda value: value not in want) if want else _anything


def _anything(_: Any) -> bool:
    return True


def _stays_inside(allowed: tuple[str, ...], regions: tuple[str, ...]) -> bool:
    """Return whether every region of a bid is allowed.

    A bid sells its cluster as a whole, and its validator may use any part of the cluster. So if one region of the bid
    is not allowed, the work may leave the allowed regions. A bid without regions promises nothing.
    """
    return bool(regions) and all(region in allowed for region in regions)


def _least_slot_speed(order: AuctionOrder, _: int) -> Callable[[int], int]:
    """Return a function that computes the least FLOP/s of a slot from the number of slots that train at once.

    At this speed the order ends before its deadline. Three times have to fit before the deadline. The first is the time
    to accept; it includes the trial, whose time depends on the speed. The second is the time of the rounds, each of
    which takes critical work / slot speed, rounded up to seconds (protocol section 2). The third is the time to verify
    the last round. A speed of 0 is never enough.
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
        least_seconds = rounds if work else 0
        if trial:
            least_seconds += 1
        if seconds < least_seconds:
            return UNBOUNDED
        if not work:
            return ceil_div(trial, seconds) if trial else 1
        # With more seconds for each round, rounds may be slower, but the trial must be faster. The least speed is where
        # the two limits meet.
        whole = work * seconds // (trial + rounds * work)
        speeds = [ceil_div(work, whole)] if whole else []
        for_trial = seconds - rounds * (whole + 1)
        if trial and for_trial > 0:
            speeds.append(ceil_div(trial, for_trial))
        return min(speeds, default=UNBOUNDED)

    return least_at


def _least_trial_speed(order: AuctionOrder, _: int) -> int:
    """Return the least FLOP/s of a slot with which payload and trial fit into the longest time to accept."""
    seconds = order.accept_max - order.accept_seconds
    if seconds < 0 or (seconds == 0 and order.trial_work):
        return UNBOUNDED
    return ceil_div(order.trial_work, seconds) if order.trial_work else 0


def _most_work_for(value: int, price: int) -> int:
    """Return the largest amount of work (FLOPs) that costs at most ``value`` (``uassay``).

    The cost of work is rounded up.
    """
    return value * PFLOP // price if price else UNBOUNDED


def backed_work(free_stake: int, price: int) -> int:
    """Return the largest amount of work (FLOPs) that a free stake (``uassay``) backs at ``price``.

    The cost of this work is at most the stake.
    """
    return _most_work_for(free_stake, price)


def _most_bond(standing: StandingBid) -> int:
    """Return the largest job bond (``uassay``) that the validator can pay and the bid allows."""
    return min(standing.free_bond, standing.bid.offer.max_job_bond or UNBOUNDED)


def _bonded(standing: StandingBid, bps: int) -> int:
    """Return the largest amount of work (FLOPs) for which the validator can pay the job bond.

    The bond is ``bps`` of the cost of the work; both the cost and the bond are rounded up.
    """
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
        passes="its validator is in the validator set and not jailed",
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
        passes="its validator has not withdrawn or worsened a bid since the block before the order's",
        fails=(
            "has a validator that has just worsened or withdrawn a bid",
            "have validators that have just worsened or withdrawn a bid",
        ),
        helps="cancel the order, look at the new bids, and order again",
        has=lambda standing, _: -standing.worsened_height,
        needs=lambda order, _: 1 - order.opened_height,
    ),
    AtLeast(
        name="price",
        passes="its price is not above the limit, and not above what the escrow can pay",
        fails=("asks more", "ask more"),
        helps="raise the price limit",
        has=lambda standing, _: -standing.bid.offer.price,
        needs=lambda order, _: -order.price_limit,
        own=True,
        offers=(Option("price", OptionKind.AMOUNT, "uassay per PFLOP (10^15 FLOPs).", required=True),),
    ),
    OneOf(
        name="device_class",
        passes="its device class is the one that the order names, if any",
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
        passes="each of its devices has at least the memory that the order asks for",
        fails=("has less memory", "have less memory"),
        helps="ask for less memory, or wait for a bid with the memory that the job needs",
        has=lambda standing, _: standing.bid.offer.memory,
        needs=lambda order, _: order.conditions.memory,
        asks=(Option("memory", OptionKind.SIZE, "Least memory per device, in bytes.  [what the job needs]"),),
        offers=(Option(field="memory", kind=OptionKind.SIZE, help="Memory per device, in bytes.", default="1GiB"),),
    ),
    OneOf(
        name="regions",
        passes="all its regions are among the order's regions, if the order names any",
        fails=("may leave the regions", "may leave the regions"),
        helps="allow more regions, or name none",
        has=lambda standing, _: standing.bid.offer.regions,
        wants=lambda order: order.conditions.regions,
        does=_stays_inside,
        asks=(Option("regions", OptionKind.TAGS, "Regions that the work must not leave, comma-separated."),),
        offers=(Option("regions", OptionKind.TAGS, "Regions of the cluster, comma-separated."),),
    ),
    OneOf(
        name="tier",
        passes="it verifies in a tier that the order names, or in any tier if the order names none",
        fails=("verifies in other tiers", "verify in other tiers"),
        helps="allow more tiers, or name none",
        has=lambda standing, _: standing.bid.offer.tiers,
        # An order without tiers takes any tier, but a bid without tiers still fails.
        wants=lambda order: Conditions(tiers=order.conditions.tiers),
        does=lambda wanted, tiers: wanted.choose_tier(tiers) != "",
        asks=(
            Option(
                "tiers",
                OptionKind.TIER,
                "Verification tier; repeat the option to allow several, the preferred one first.",
                word="tier",
            ),
            Option(
                "attested",
                OptionKind.FLAG,
                "Allow fewer panels, in the tier sampled, for rounds whose providers all have credentials.",
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
        passes="the order has at least the bid's minimum work",
        fails=("takes only larger jobs", "take only larger jobs"),
        helps="order a larger job",
        has=lambda standing, _: -standing.bid.offer.min_work,
        needs=lambda order, _: -order.work,
        own=True,
        offers=(Option(field="min_work", kind=OptionKind.WORK, help="Least FLOPs of an order.", default=1),),
    ),
    AtLeast(
        name="max_work",
        passes="the order has at most the bid's maximum work, if the bid names one",
        fails=("takes only smaller jobs", "take only smaller jobs"),
        helps="order a smaller job",
        has=lambda standing, _: standing.bid.offer.max_work or UNBOUNDED,
        needs=lambda order, _: order.work,
        own=True,
        offers=(Option("max_work", OptionKind.WORK, "Most FLOPs of an order.  [the capacity]"),),
    ),
    AtLeast(
        name="max_payload",
        passes="payload and data are at most the bid's maximum, if the bid names one",
        fails=("takes less data", "take less data"),
        helps="order a job with less data",
        has=lambda standing, _: standing.bid.offer.max_payload or UNBOUNDED,
        needs=lambda order, _: order.payload_bytes,
        own=True,
        offers=(Option("max_payload", OptionKind.SIZE, "Most bytes of payload and data of an order.  [any]"),),
    ),
    AtLeast(
        name="accept",
        passes="payload and data can arrive, and a trial at its slot speed can end, within `accept_max`",
        fails=("is too slow for the data and the trial", "are too slow for the data and the trial"),
        helps="order a job with less data, or shorter segments",
        has=lambda standing, _: standing.bid.offer.slot_speed,
        needs=_least_trial_speed,
        own=True,
    ),
    AtLeastFor(
        name="deadline",
        passes="the sum of three times fits before the deadline: to accept; to train the rounds at the bid's slot speed"
        " and slots; and the window of the last round, or all stages of its panel if that is longer",
        fails=("is too slow for the deadline", "are too slow for the deadline"),
        helps="give the order a longer deadline",
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
        passes="its unsold capacity is at least the order's work",
        fails=("has too little capacity left", "have too little capacity left"),
        helps="wait until capacity is free, or order a smaller job",
        has=lambda standing, _: standing.free_capacity,
        needs=lambda order, _: order.work,
        own=True,
        taken=True,
    ),
    AtLeast(
        name="stake",
        passes="its validator's stake, without the part that backs running orders, is at least the work's price",
        fails=("has too little stake behind it", "have too little stake behind them"),
        helps="order a smaller job, or wait for a bid with more stake or a lower price",
        has=lambda standing, _: backed_work(standing.free_stake, standing.bid.offer.price),
        needs=lambda order, _: order.work,
        own=True,
        taken=True,
    ),
    AtLeast(
        name="bond",
        passes="its validator's bond account and the bid's largest job bond both cover the job bond at its price",
        fails=("has too small a bond", "have too small a bond"),
        helps="wait until bonds are returned, or order a smaller job",
        has=_bonded,
        basis=lambda order: order.job_bond_bps,
        needs=lambda order, _: order.work,
        own=True,
        taken=True,
        offers=(Option("max_job_bond", OptionKind.AMOUNT, "Most uassay of job bond for an order.  [any]"),),
    ),
    AtLeast(
        name="least_bond",
        passes="both also cover the smallest job bond: the bond at half the order's price limit,"
        " or `payload_fee` if that is more",
        fails=(
            "has too small a bond for the price limit",
            "have too small a bond for the price limit",
        ),
        helps="lower the price limit, or wait until bonds are returned",
        has=lambda standing, _: _most_bond(standing),
        needs=lambda order, _: order.job_bond(0),
        own=True,
        taken=True,
    ),
)
"""All conditions in the order of histograms. Scripts and consumers read the names, so the names must not change."""

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
"""The condition for bids that come first: an order takes another bid only if no bid that passes this condition fits.
Histograms omit it.
"""
