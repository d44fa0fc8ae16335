"""Records that the component of fee grants keeps. Times are those of block headers, in nanoseconds since 1970."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Address, Length, Money, PositiveMoney, Size, Visible
from domain.readable import Readable
from domain.times import SpanNs, TimeNs

ALLOWED_MAX = 32
"""Most types of messages that an allowance can name."""
TypeUrl = Annotated[str, Visible(), Size(1, 128)]


@dataclass(frozen=True, slots=True)
class FeePeriod(Readable):
    """The part of a fee grant that bounds the fees of each period (uassay)."""

    length_ns: SpanNs
    limit: PositiveMoney  # of each period
    left: Money  # of this period
    resets_ns: TimeNs  # time at which the next period begins


@dataclass(frozen=True, slots=True)
class FeeGrant(Readable):
    """The right of ``grantee`` to pay fees with coins of ``granter``."""

    granter: Address
    grantee: Address
    spend_limit: Money | None  # uassay that are left; None: no limit
    expires_ns: TimeNs | None  # last time at which the grant can be used; None: it does not end
    period: FeePeriod | None
    # Types of messages that a transaction may have, if the grant is to pay its fee; empty: all.
    allowed: Annotated[tuple[TypeUrl, ...], Length(0, ALLOWED_MAX)]
