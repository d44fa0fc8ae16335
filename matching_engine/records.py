"""What the auction sees of orders and bids, and what it decides."""

from dataclasses import dataclass

from domain.amount import BPS, ceil_div, price_ceil
from domain.limits import DURATION_MAX
from domain.market.records import Bid, Conditions


@dataclass(frozen=True, slots=True)
class Asked:
    """An open order as the auction sees it.

    One bid takes all of its work: in each of ``rounds`` the shares of ``slots`` slots, of ``share_work`` FLOPs each,
    and an aggregation of ``outer_work`` FLOPs. ``price_limit`` (``uassay`` per PFLOP) is the order's limit, or what its
    escrow can still pay if that is less. ``excluded`` are the operators that declined or failed it. ``seconds_left``
    run to its deadline on the chain clock, of which the last round's window and its audit take up to
    ``verify_seconds``. ``opened_height`` is that of the block that opened it last.

    What it takes to accept it: ``payload_bytes`` arrive within ``accept_seconds``, a trial has ``trial_work`` FLOPs,
    and both together may take ``accept_max`` seconds. ``job_bond_bps`` and ``payload_fee`` (``uassay``) say how much
    the winner puts up; parameters that the order keeps for life.
    """

    order_id: bytes
    rounds: int
    slots: int
    share_work: int
    outer_work: int
    price_limit: int
    conditions: Conditions
    excluded: tuple[str, ...]
    seconds_left: int
    verify_seconds: int
    job_bond_bps: int
    opened_height: int
    payload_bytes: int = 0
    trial_work: int = 0
    accept_seconds: int = 0
    accept_max: int = DURATION_MAX
    payload_fee: int = 0

    @property
    def common(self) -> tuple[Conditions, tuple[str, ...], int, int]:
        """What many orders have alike: all that does not depend on the order's size, price or time."""
        return self.conditions, self.excluded, self.opened_height, self.job_bond_bps

    @property
    def work(self) -> int:
        """FLOPs of the whole order."""
        return self.rounds * (self.slots * self.share_work + self.outer_work)

    def job_bond(self, price: int) -> int:
        """Return the bond (``uassay``) that a validator puts up who takes the order at ``price``.

        Basis points of the work's price, at half the order's limit if that is more: an absurdly low bid risks as much
        as an honest one. At least the fee that both sides lose over a payload. It is rounded up, as all that is locked.
        """
        least = max(price, ceil_div(self.price_limit, 2))
        return max(self.payload_fee, price_bps(self.work, least, self.job_bond_bps))


@dataclass(frozen=True, slots=True)
class Standing:
    """A standing bid with what its validator can still give.

    ``free_capacity`` is what of the bid is not sold (FLOPs). ``free_bond`` (``uassay`` in the validator's bond
    account), ``free_stake`` (``uassay`` of its stake beyond what it runs is worth) and ``worsened_height`` (of the last
    block in which it took back or worsened a bid) are one for all its bids.
    """

    bid: Bid
    jailed: bool
    free_capacity: int
    free_bond: int
    free_stake: int
    worsened_height: int = 0


@dataclass(frozen=True, slots=True)
class Fill:
    """An order that is sold to a bid at the bid's price (``uassay`` per PFLOP), and the job bond that moves with it.

    ``tier`` is the first of the order's list that the bid offers.
    """

    order_id: bytes
    bid_id: bytes
    validator: str
    work: int
    price: int
    job_bond: int
    tier: str


def price_bps(work: int, price: int, bps: int) -> int:
    """Return ``bps`` of what ``work`` FLOPs cost at ``price`` (``uassay`` per PFLOP); both steps round up."""
    return ceil_div(price_ceil(work, price) * bps, BPS)
