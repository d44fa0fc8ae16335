"""Bonds: how large they are, and who gets what is cut from them (protocol section 7)."""

from domain.amount import bps_floor, ceil_div, price_ceil, price_floor
from escrow.moves import Move, Transfer


def share_bond(work: int, price: int) -> int:
    """Return a share's bond: its value, rounded up."""
    return price_ceil(work, price)


def decline_fee(job_bond: int, bps: int) -> int:
    """Return what declining costs: basis points of the job bond, rounded down."""
    return bps_floor(job_bond, bps)


def job_bond_cut(job_bond: int, rounds: int, rounds_closed: int) -> int:
    """Return what a failed attempt costs: the part of the job bond for work that was not done, rounded up.

    All rounds have the same work. An attempt that closed every round and failed all the same never proved its result,
    and a result that nobody can fetch is no part of the work: then the whole bond is cut.
    """
    if rounds_closed >= rounds:
        return job_bond
    return ceil_div(job_bond * (rounds - rounds_closed), rounds)


def wrong_share(
    order_id: bytes, consumer: str, bond: int, work: int, price: int
) -> tuple[Transfer, ...]:
    """Return the moves that cut the bond of a wrong share: at most half its value to the consumer, the rest burnt."""
    source = order_id.hex()
    to_consumer = min(bond, price_floor(work, price) // 2)
    return (
        Transfer(Move.COMPENSATION, source, consumer, to_consumer),
        Transfer(Move.BURN, source, "", bond - to_consumer),
    )
