"""Payments of a verified round, sizes of bonds, and amounts that are cut from bonds (protocol section 7).

The docstring of each function says how the function rounds, and which party gets the remainder of a division.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.amount import bps_floor, ceil_div, price_ceil, price_floor


@dataclass(frozen=True, slots=True)
class Earnings:
    """The earnings (uassay) of each party for one round; the parts add up to ``total``."""

    total: int
    protocol: int
    providers: tuple[tuple[str, int], ...]
    validator: int


def audit_fee(work: int, price: int, audit_bps: int) -> int:
    """Return the audit fee (uassay) of a round: ``audit_bps`` of its price, rounded down."""
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
    """Return the earnings of a round of ``work`` FLOPs at ``price`` per PFLOP, without its audit fee.

    ``shares`` are (provider, work) of the accepted shares; the rest of the work is the validator's aggregation. The
    protocol fee and the part for audits are deducted first. The part ``providers_bps`` of the remaining amount is
    divided among the providers in proportion to the work of their shares. The validator gets the rest, including the
    remainders of all divisions. ``total`` does not include the part for audits. If every share of a round stopped in
    its first segment, ``work`` is 0.
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


def compute_income(work: int, price: int, *, protocol_bps: int, audit_bps: int, providers_bps: int) -> int:
    """Return the amount (uassay) that a provider earns for a share of ``work`` FLOPs in a verified round."""
    earnings = settle_round(
        work,
        price,
        protocol_bps=protocol_bps,
        audit_bps=audit_bps,
        providers_bps=providers_bps,
        shares=(("", work),),
    )
    return sum(amount for _, amount in earnings.providers)


def share_bond(work: int, price: int, multiple: int = 1) -> int:
    """Return a share's bond (uassay): ``multiple`` times the price of its work, which is rounded up."""
    return multiple * price_ceil(work, price)


def split_share_bond(bond: int) -> tuple[int, int]:
    """Return the parts of a wrong share's bond that are burnt and that pay other parties: half each; the first part has
    the remainder.
    """
    paid = bond // 2
    return bond - paid, paid


def fund_part(value: int, right: int, fund: int) -> int:
    """Return what a ``fund`` pays for a right share of this ``value``, in proportion to the value, rounded down.

    ``right`` is the value of all right shares that the fund pays.
    """
    return value * min(fund, right) // right if right else 0


def unpaid_part(value: int, right: int, fund: int) -> int:
    """Return what a ``fund`` for shares worth ``right`` leaves unpaid of a ``value``, rounded down."""
    return value * (right - min(fund, right)) // right if right else 0


def cover_part(left: int, unpaid: int, limit: int, top: int, bond: int) -> int:
    """Return what a job bond pays of ``left``, the unpaid value of a share, rounded down.

    ``limit`` is the part of the job bond that its task made liable. ``unpaid`` is the unpaid value of all shares whose
    tasks did so, at least the sum of what they have ``left``, and ``top`` the largest limit among them. If the limits
    are equal, each share gets the same fraction of its unpaid value. A share with a lower limit gets less. If the
    ``bond`` has less than the largest limit, all parts are smaller in proportion. All parts together never exceed it.
    """
    most = min(top, unpaid)
    if not most:
        return 0
    return left * min(limit, unpaid) * min(bond, most) // (unpaid * most)


def decline_fee(job_bond: int, bps: int) -> int:
    """Return the fee (uassay) for declining an order: ``bps`` of the job bond, rounded down."""
    return bps_floor(job_bond, bps)


def job_bond_cut(job_bond: int, rounds: int, rounds_closed: int) -> int:
    """Return the amount (uassay) that is cut from a failed leg's job bond: the part for rounds that were not closed,
    rounded up.

    All rounds have the same work. A running leg has at least one round that is not closed.
    """
    return ceil_div(job_bond * (rounds - rounds_closed), rounds)


def compute_redress(work: int, price: int) -> tuple[int, int]:
    """Return the two amounts (uassay) that a validator owes for a right share that it rejected as a mismatch.

    The provider gets the first amount; the second is burnt. Each is the share's value.
    """
    value = price_floor(work, price)
    return value, value


def take_from(source: int, owed: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the amounts that ``source`` pays for each of two claims, and the unpaid rest of each.

    The first claim is paid first.
    """
    first = min(source, owed[0])
    second = min(source - first, owed[1])
    return (first, second), (owed[0] - first, owed[1] - second)
