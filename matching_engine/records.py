"""Orders and bids as the auction reads them, and the fills that it decides."""

from dataclasses import dataclass

from domain.amount import BPS, ceil_div, price_ceil
from domain.limits import DURATION_MAX
from domain.market.records import Bid, Conditions


@dataclass(frozen=True, slots=True)
class AuctionOrder:
    """An open order as the auction reads it.

    One bid takes all work of the order. Each of the ``rounds`` has ``slots`` shares of ``share_work`` FLOPs and one
    aggregation of ``outer_work`` FLOPs. ``price_limit`` (``uassay`` per PFLOP) is the order's limit, or the price that
    its escrow can still pay if that is lower. ``excluded`` are the operators that declined or failed the order.
    ``seconds_left`` is the time to the deadline on the chain clock. The window and the audit of the last round take up
    to ``verify_seconds`` of this time. ``opened_height`` is the height of the last block that opened the order.

    Before a validator can accept the order, ``payload_bytes`` have to arrive within ``accept_seconds``, and a trial of
    ``trial_work`` FLOPs has to run. Arrival and trial together may take at most ``accept_max`` seconds.
    ``job_bond_bps`` and ``payload_fee`` (``uassay``) determine the winner's job bond; they are parameters that never
    change for this order.

    ``replicas`` are the ids of further orders with the same requirements. All of them and this one are sold to
    validators that are not related, or none of them is.
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
    replicas: tuple[bytes, ...] = ()

    @property
    def common(self) -> tuple[Conditions, tuple[str, ...], int, int]:
        """The requirements that many orders have in common: those that do not depend on the order's size, price or
        time.
        """
        return self.conditions, self.excluded, self.opened_height, self.job_bond_bps

    @property
    def work(self) -> int:
        """FLOPs of the whole order."""
        return self.rounds * (self.slots * self.share_work + self.outer_work)

    def job_bond(self, price: int) -> int:
        """Return the bond (``uassay``) of a validator that takes the order at ``price``.

        The bond is ``job_bond_bps`` of the work's price, rounded up like every locked amount. If ``price`` is below
        half of the price limit, the bond is computed from half of the price limit. So a validator with an absurdly low
        bid risks as much as one with an honest bid. The bond is at least ``payload_fee``, which the validator and the
        consumer both lose if the payload does not arrive.
        """
        least = max(price, ceil_div(self.price_limit, 2))
        return max(self.payload_fee, price_bps(self.work, least, self.job_bond_bps))


@dataclass(frozen=True, slots=True)
class StandingBid:
    """A standing bid, with the free capacity, bond and stake of its validator.

    ``free_capacity`` is the unsold part of the bid (FLOPs). The other amounts are the same for all bids of a validator.
    ``free_bond`` is the content of the validator's bond account (``uassay``). ``free_stake`` is the validator's stake
    less the value of its running orders (``uassay``). ``worsened_height`` is the last block in which the validator
    withdrew or worsened a bid.
    """

    bid: Bid
    jailed: bool
    free_capacity: int
    free_bond: int
    free_stake: int
    worsened_height: int = 0


@dataclass(frozen=True, slots=True)
class Fill:
    """The sale of an order to a bid at the bid's price (``uassay`` per PFLOP), with the job bond that is locked for it.

    ``tier`` is the first tier in the order's list that the bid offers. ``first`` is the id of the order for which the
    auction searched: the order itself, or the one whose replica it is.
    """

    order_id: bytes
    bid_id: bytes
    validator: str
    work: int
    price: int
    job_bond: int
    tier: str
    first: bytes


def price_bps(work: int, price: int, bps: int) -> int:
    """Return ``bps`` of the cost (``uassay``) of ``work`` FLOPs at ``price`` (``uassay`` per PFLOP).

    The cost and the result are both rounded up.
    """
    return ceil_div(price_ceil(work, price) * bps, BPS)
