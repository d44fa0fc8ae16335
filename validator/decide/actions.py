"""What :mod:`validator.decide` sees, and what it may ask for. Every action has a key, and may be carried out twice."""

from dataclasses import dataclass

from domain.messages import Message
from domain.queries import OrderResponse
from validator.decide.plan import Worker


@dataclass(frozen=True, slots=True)
class View:
    """What the daemon sees besides its own record.

    ``clock`` is the chain clock in seconds, ``since`` what it was when this daemon began to answer its providers,
    ``workers`` are the providers that poll and may take work, ``secret`` seeds the validator's own picks.
    """

    chain: OrderResponse
    clock: int
    since: int
    me: str
    chain_id: str
    workers: tuple[Worker, ...]
    secret: bytes


@dataclass(frozen=True, slots=True)
class LoadJob:
    """Load the payload in the pool and compare it with the order."""

    key: str


@dataclass(frozen=True, slots=True)
class SendTx:
    """Send a transaction with these messages."""

    key: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class CheckPlace:
    """Replay a place of a share in the pool: segment ``place``, or the update where ``place`` is n."""

    key: str
    round: int
    slot: int
    issue: int
    place: int


@dataclass(frozen=True, slots=True)
class VerifyOpening:
    """Hash states that a provider brought for an audit, before anybody gets them."""

    key: str
    round: int
    slot: int
    issue: int
    index: int


@dataclass(frozen=True, slots=True)
class Recompute:
    """Recompute the states at a boundary that an audit needs, because no provider brought them."""

    key: str
    round: int
    slot: int
    issue: int
    index: int


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Aggregate the accepted updates of a round."""

    key: str
    round: int


@dataclass(frozen=True, slots=True)
class Seal:
    """Encrypt the result to the order's key."""

    key: str


Action = LoadJob | SendTx | CheckPlace | VerifyOpening | Recompute | Aggregate | Seal
