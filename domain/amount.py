"""Bounded integer arithmetic for money (``uassay``) and work (FLOPs).

Every value is a plain ``int`` in a stated range. The name of a division says how it rounds. :mod:`domain.bounds` checks
values from outside, so a value out of range here is a bug, not a refusal.
"""

MONEY_MAX = 2**63 - 1
WORK_MAX = 2**128 - 1
ASSAY = 10**6
"""``uassay`` of one ASSAY, the unit that people use."""
PFLOP = 10**15
BPS = 10_000


def money(value: int) -> int:
    """Return ``value`` unchanged if it is an amount of ``uassay`` from 0 to MONEY_MAX.

    Otherwise raise OverflowError.
    """
    if not 0 <= value <= MONEY_MAX:
        raise OverflowError(f"{value} is not an amount of money")
    return value


def in_assay(value: int) -> str:
    """Return ``uassay`` as an exact amount of ASSAY, in the form that commands accept: 2500000 is 2.5ASSAY."""
    whole, rest = divmod(value, ASSAY)
    decimals = f".{rest:06}".rstrip("0").rstrip(".")
    return f"{whole}{decimals}ASSAY"


def work(value: int) -> int:
    """Return ``value`` unchanged if it is an amount of work (FLOPs) from 0 to WORK_MAX.

    Otherwise raise OverflowError.
    """
    if not 0 <= value <= WORK_MAX:
        raise OverflowError(f"{value} is not an amount of work")
    return value


def ceil_div(numerator: int, denominator: int) -> int:
    """Return the quotient of non-negative integers, rounded up."""
    return -(-numerator // denominator)


def critical_work(slots: int, at_once: int, share_work: int, outer_work: int) -> int:
    """Return the FLOPs on the longest chain of dependent work in a round, if ``at_once`` slots train at the same time.

    The slots train in groups of ``at_once``, one group after another, and the aggregation waits for all slots. If
    ``at_once`` is above ``slots``, the result is the same as for ``slots``.
    """
    return ceil_div(slots, at_once) * share_work + outer_work


def price_ceil(flops: int, price_per_pflop: int) -> int:
    """Return the price (``uassay``) to lock for ``flops``, rounded up.

    It may exceed MONEY_MAX, so the caller checks that.
    """
    return ceil_div(flops * price_per_pflop, PFLOP)


def price_floor(flops: int, price_per_pflop: int) -> int:
    """Return the price (``uassay``) to pay for ``flops``, rounded down."""
    return flops * price_per_pflop // PFLOP


def bps_floor(amount: int, bps: int) -> int:
    """Return ``bps`` basis points of ``amount``, rounded down."""
    return amount * bps // BPS
