"""What the auction sees of orders and bids, and the book that sells within one batch."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from domain.amount import BPS, ceil_div, price_ceil
from domain.records import Bid, Conditions


@dataclass(frozen=True, slots=True)
class Asked:
    """An open order as the auction sees it."""

    order_id: bytes
    work: int  # FLOPs, all of which one bid takes
    price_limit: (
        int  # uassay per PFLOP: the order's limit, or what its escrow can still pay if less
    )
    conditions: Conditions
    excluded: tuple[str, ...]  # operators that declined or failed it
    seconds_left: int  # to its deadline on the chain clock
    window_seconds: int  # its round window
    job_bond_bps: int  # of the assignment's price, a parameter that the order keeps for life
    opened_height: int  # height of the block that opened it (last)


@dataclass(frozen=True, slots=True)
class Offered:
    """A standing bid with what its validator can still give."""

    bid: Bid
    jailed: bool
    free_capacity: int  # FLOPs of this bid that are not sold
    free_bond: int  # uassay in the validator's bond account: one account for all its bids
    free_stake: int  # uassay of its stake beyond what it runs is worth: one stake for all its bids


@dataclass(frozen=True, slots=True)
class Fill:
    """An order that is sold to a bid, and the job bond that moves with it."""

    order_id: bytes
    bid_id: bytes
    validator: str
    work: int  # FLOPs
    price: int  # uassay per PFLOP: the bid's
    job_bond: int  # uassay


def job_bond(work: int, price: int, bps: int) -> int:
    """Return the bond (``uassay``) that a validator puts up for an assignment.

    ``work`` in FLOPs, ``price`` in ``uassay`` per PFLOP. ``bps`` of the assignment's price
    (protocol section 2). Like all that is locked, both steps round up.
    """
    return ceil_div(price_ceil(work, price) * bps, BPS)


class Book:
    """Offers by ascending price; what is sold comes off at once, so that nothing is sold twice."""

    def __init__(self, offers: Iterable[Offered]) -> None:
        """Sort the offers; ValueError for a bid twice, or a validator with two free amounts."""
        self._offers = sorted(offers, key=lambda offer: (offer.bid.offer.price, offer.bid.id))
        self._index: dict[bytes, int] = {}
        self._of_validator: dict[str, list[int]] = {}
        shared: dict[str, tuple[int, int]] = {}
        for index, offer in enumerate(self._offers):
            bid = offer.bid
            if self._index.setdefault(bid.id, index) != index:
                raise ValueError(f"bid {bid.id.hex()} is in the book twice")
            free = (offer.free_bond, offer.free_stake)
            if shared.setdefault(bid.validator, free) != free:
                raise ValueError(
                    f"{bid.validator} has one bond and one stake, but two free amounts"
                )
            self._of_validator.setdefault(bid.validator, []).append(index)

    def offers(self) -> Sequence[Offered]:
        """Return all offers as they are now, ascending by price and then by bid id."""
        return self._offers

    def levels(self, price_limit: int) -> Iterator[list[Offered]]:
        """Yield the offers of each price up to ``price_limit``, cheapest price first."""
        level: list[Offered] = []
        for offer in self._offers:
            if level and offer.bid.offer.price != level[0].bid.offer.price:
                yield level
                level = []
            if offer.bid.offer.price > price_limit:
                return
            level.append(offer)
        if level:
            yield level

    def apply_fill(self, fill: Fill) -> None:
        """Take the work off the bid, and job bond and value off every bid of its validator."""
        sold = self._index[fill.bid_id]
        value = price_ceil(fill.work, fill.price)
        for index in self._of_validator[fill.validator]:
            offer = self._offers[index]
            self._offers[index] = replace(
                offer,
                free_capacity=offer.free_capacity - (fill.work if index == sold else 0),
                free_bond=offer.free_bond - fill.job_bond,
                free_stake=offer.free_stake - value,
            )
