"""Records that the component of authorizations keeps. Times are those of block headers, in nanoseconds since 1970."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Address, Length, PositiveMoney
from domain.feegrant.records import TypeUrl
from domain.readable import Readable
from domain.times import TimeNs

ALLOW_LIST_MAX = 64
"""Most recipients that an authorization can name."""


@dataclass(frozen=True, slots=True)
class AuthorizationGrant(Readable):
    """The right of ``grantee`` to send messages of a type for ``granter``."""

    granter: Address
    grantee: Address
    url: TypeUrl
    expires_ns: TimeNs | None  # last time at which it can be used; None: it does not end
    spend_limit: PositiveMoney | None = None  # uassay that it can still send; None: no limit
    allow_list: Annotated[tuple[Address, ...], Length(0, ALLOW_LIST_MAX)] = ()  # recipients; empty: all
