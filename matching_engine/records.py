"""What the auction sees of orders and bids, and what it decides."""

from dataclasses import dataclass

from domain.amount import BPS, ceil_div, price_ceil
from domain.records import Bid, Conditions


@dataclass(frozen=True, slots=True)
class Asked:
    """An open order as the auction sees it.

    One bid takes all of ``work`` (FLOPs). ``price_limit`` (``uassay`` per PFLOP) is the order's limit, or what its
    escrow can still pay if that is less. ``excluded`` are the operators that declined or failed it. ``seconds_left``
    run to its deadline on the chain clock, ``window_seconds`` is its round window, ``job_bond_bps`` the bond of the
    assignment's price, a parameter that the order keeps for life. ``opened_height`` is that of the block that opened
    it last.
    """

    order_id: bytes
    work: int
    price_limit: int
    conditions: Conditions
    excluded: tuple[str, ...]
    seconds_left: int
    window_seconds: int
    job_bond_bps: int
    opened_height: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A standing bid with what its validator can still give.

    ``free_capacity`` is what of the bid is not sold (FLOPs). ``free_bond`` (``uassay`` in the validator's bond account)
    and ``free_stake`` (``uassay`` of its stake beyond what it runs is worth) are shared by all its bids.
    """

    bid: Bid
    jailed: bool
    free_capacity: int
    free_bond: int
    free_stake: int


@dataclass(frozen=True, slots=True)
class Fill:
    """An order that is sold to a bid at the bid's price (``uassay`` per PFLOP), and the job bond that moves with it."""

    order_id: bytes
    bid_id: bytes
    validator: str
    work: int
    price: int
    job_bond: int


def job_bond(work: int, price: int, bps: int) -> int:
    """Return the bond (``uassay``) that a validator puts up for an assignment.

    ``work`` in FLOPs, ``price`` in ``uassay`` per PFLOP. ``bps`` of the assignment's price (protocol section 2). Like
    all that is locked, both steps round up.
    """
    return ceil_div(price_ceil(work, price) * bps, BPS)
