"""What a verified round pays, how large bonds are, and who gets what is cut from them (protocol section 7).

Every quotient is rounded down and says where its remainder goes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.amount import bps_floor, ceil_div, price_ceil, price_floor
from domain.legs.moves import BURN
from domain.moves import Transfer


@dataclass(frozen=True, slots=True)
class Earnings:
    """Who earns what for one round; the parts add up to ``total``."""

    total: int
    protocol: int
    providers: tuple[tuple[str, int], ...]
    validator: int


def audit_fee(work: int, price: int, audit_bps: int) -> int:
    """Return the audit fee of a round: basis points of its price, rounded down."""
    return bps_floor(price_floor(work, price), audit_bps)


def settle_round(
    work: int,
    price: int,
    *,
    protocol_bps: int,
    audit_bps: int,
    providers_bps: int,
    shares: Sequence[tuple[str, int]],
) -> Earnings:
    """Return the earnings of a round of ``work`` FLOPs at ``price`` per PFLOP, its audit fee left out.

    ``shares`` are (provider, work) of the accepted shares; work beyond them, the aggregation, is the validator's.
    Providers get their part by work of what protocol and audit fee leave; what does not divide goes, with all that is
    left, to the validator. ``total`` is without the audit fee. Of a round that stopped in its first segments there may
    be no work at all.
    """
    total = price_floor(work, price)
    protocol = bps_floor(total, protocol_bps)
    fee = bps_floor(total, audit_bps)
    rest = total - protocol - fee
    pool = bps_floor(rest, providers_bps)
    paid = tuple((provider, pool * part // work) for provider, part in shares if part)
    return Earnings(
        total=total - fee,
        protocol=protocol,
        providers=paid,
        validator=rest - sum(amount for _, amount in paid),
    )


def share_bond(work: int, price: int) -> int:
    """Return a share's bond: its value, rounded up."""
    return price_ceil(work, price)


def decline_fee(job_bond: int, bps: int) -> int:
    """Return what declining costs: basis points of the job bond, rounded down."""
    return bps_floor(job_bond, bps)


def job_bond_cut(job_bond: int, rounds: int, rounds_closed: int) -> int:
    """Return what a failed leg costs: the part of the job bond for work that was not done, rounded up.

    All rounds have the same work, and one that runs has at least one open.
    """
    return ceil_div(job_bond * (rounds - rounds_closed), rounds)


def wrong_share(order_id: bytes, bond: int) -> tuple[Transfer, ...]:
    """Return the move that cuts the bond of a wrong share that was rejected: all of it is burnt.

    It never was in a closed round, so nobody's share became void by it, and the consumer paid nothing for it.
    """
    return (Transfer(move=BURN, source=order_id.hex(), target="", amount=bond),)


def compute_redress(work: int, price: int, *, silent: bool) -> tuple[int, int]:
    """Return what a validator owes for a right share that it rejected: to its provider, and to be burnt.

    For a mismatch the share's value each, because an honest validator never errs in that. Where it says that the
    provider was ``silent``, half of it each: nobody can tell who was, so neither gains.
    """
    value = price_floor(work, price)
    part = value // 2 if silent else value
    return part, part


def take_from(source: int, owed: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return what ``source`` pays of two claims, the first one before the second, and what is left of them."""
    first = min(source, owed[0])
    second = min(source - first, owed[1])
    return (first, second), (owed[0] - first, owed[1] - second)
