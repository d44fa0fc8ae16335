"""What a bid must satisfy to take an order, each condition under the name that consumers read."""

from collections.abc import Iterator

from domain.amount import ceil_div, price_ceil
from matching_engine.book import Asked, Offered, job_bond

PREDICATES = (
    "expired",
    "jailed",
    "excluded",
    "price",
    "device_class",
    "memory",
    "regions",
    "tier",
    "min_work",
    "max_work",
    "deadline",
    "capacity",
    "bond",
)
"""The names, in the order of histograms; stable, because scripts and consumers read them."""


def satisfies(order: Asked, offer: Offered, clock: int) -> bool:
    """Tell whether the bid satisfies all conditions of the order at ``clock`` (seconds)."""
    return next(_failures(order, offer, clock), None) is None


def predicates_failed(order: Asked, offer: Offered, clock: int) -> tuple[str, ...]:
    """Return the names of all predicates on which the bid fails the order at ``clock`` (seconds).

    All and not only the first: a consumer who mends what every bid fails on must not find another
    reason behind it, and no predicate hides another by its place in the list.
    """
    return tuple(_failures(order, offer, clock))


def _failures(order: Asked, offer: Offered, clock: int) -> Iterator[str]:
    """Yield what fails, in the order of ``PREDICATES``; 0 and empty in an order mean "any"."""
    bid, terms, wanted = offer.bid, offer.bid.offer, order.conditions
    if clock >= bid.expires_at:
        yield "expired"
    if offer.jailed:
        yield "jailed"
    if bid.validator in order.excluded:
        yield "excluded"
    if terms.price > order.price_limit:
        yield "price"
    if wanted.device_class not in ("", terms.device_class):
        yield "device_class"
    if terms.memory < wanted.memory:
        yield "memory"
    if wanted.regions and not _stays_inside(terms.regions, wanted.regions):
        yield "regions"
    if wanted.tier and wanted.tier not in terms.tiers:
        yield "tier"
    if order.work < terms.min_work:
        yield "min_work"
    if 0 < terms.max_work < order.work:  # 0: no largest order
        yield "max_work"
    if not _ends_in_time(order, terms.speed):
        yield "deadline"
    if order.work > offer.free_capacity or price_ceil(order.work, terms.price) > offer.free_stake:
        yield "capacity"
    if job_bond(order.work, terms.price, order.job_bond_bps) > offer.free_bond:
        yield "bond"


def _stays_inside(regions: tuple[str, ...], allowed: tuple[str, ...]) -> bool:
    """Tell whether every region of a bid is allowed.

    A bid sells its cluster as a whole, and its validator may use any part of it: one region outside
    is enough for the work to leave, and a bid that names none promises nothing.
    """
    return bool(regions) and all(region in allowed for region in regions)


def _ends_in_time(order: Asked, speed: int) -> bool:
    """Tell whether two round windows fit between the expected end and the deadline.

    The end is expected after work / speed, in seconds rounded up (protocol section 3, auction).
    """
    if speed == 0:
        return False
    return ceil_div(order.work, speed) + 2 * order.window_seconds <= order.seconds_left
