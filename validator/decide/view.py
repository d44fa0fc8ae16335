"""What a validator's daemon sees when it decides: one look at the chain, and who is there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.keys import RoundKey
from domain.proof.queries import OrderResponse, PanelDuty, PanelResponse
from domain.proof.records import Panel, PanelSeat
from domain.registry.records import Validator
from link.types import Machine, StateRef
from validator.decide.plan import FreeProvider
from validator.decide.probe import ProbeResult
from validator.decide.records import SeatKey


@dataclass(frozen=True, slots=True)
class OwnPanel:
    """The panel about a round that this validator closed, and its seats of all stages."""

    panel: Panel
    seats: tuple[PanelSeat, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A provider of the cluster: its certified speed (FLOP/s, 0 if none), and whether it is to be measured (again).

    ``measured_at`` is when it was certified, on the chain clock.
    """

    speed: int
    due: bool
    newcomer: bool  # no share of it was accepted yet
    measured_at: int = 0


@dataclass(frozen=True, slots=True)
class ChainView:
    """What the daemon last read from the chain; the service answers from it, never by a query of its own.

    ``orders`` are those of this validator's records, ``providers`` those of its cluster, ``applicants`` who asks to be
    there, ``panels`` those about its own rounds that are not over. ``duties`` are its seats in panels of others that
    have something to do, and ``subjects`` what the chain has of the rounds that these are about. Live orders, panels
    and seats are read at each look; a look is ``whole`` if everything else was read too.
    """

    clock: int
    orders: Mapping[bytes, OrderResponse]
    validators: Mapping[str, Validator]
    providers: Mapping[str, Member]
    panels: Mapping[RoundKey, OwnPanel] = field(default_factory=dict)
    duties: Mapping[SeatKey, PanelDuty] = field(default_factory=dict)
    subjects: Mapping[SeatKey, PanelResponse] = field(default_factory=dict)
    whole: bool = False
    applicants: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class View:
    """What is seen of one order besides its record.

    ``clock`` is the chain clock in seconds, ``since`` what it was when this daemon began to answer its providers,
    ``workers`` are the providers that poll and may take work, ``secret`` seeds the validator's own picks, ``panels``
    are those about this validator's rounds that are not over. ``held`` are states of other legs, by root, that matched
    legs start from.
    """

    on_chain: OrderResponse
    clock: int
    since: int
    me: str
    chain_id: str
    workers: tuple[FreeProvider, ...]
    secret: bytes
    panels: Mapping[RoundKey, OwnPanel] = field(default_factory=dict)
    held: Mapping[bytes, StateRef] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at everything, from which all duties and what is done about them follow.

    ``seats`` are those that there are records of; ``machines`` are what providers say of theirs, ``measured`` what
    probes found, and ``doubted`` are providers whose results do not fit what they are certified for; ``endpoint`` and
    ``certificate`` are where this daemon can be reached. ``held`` are states of other legs, by root, that matched legs
    start from.
    """

    chain: ChainView
    me: str
    chain_id: str
    secret: bytes
    since: int = 0
    workers: tuple[FreeProvider, ...] = ()
    machines: Mapping[str, Machine] = field(default_factory=dict)
    endpoint: str = ""
    certificate: bytes = b""
    seats: tuple[SeatKey, ...] = ()
    measured: tuple[ProbeResult, ...] = ()
    doubted: frozenset[str] = frozenset()
    held: Mapping[bytes, StateRef] = field(default_factory=dict)

    def of(self, on_chain: OrderResponse) -> View:
        """Return what is seen of one order."""
        return View(
            on_chain=on_chain,
            clock=self.chain.clock,
            since=self.since,
            me=self.me,
            chain_id=self.chain_id,
            workers=self.workers,
            secret=self.secret,
            panels=self.chain.panels,
            held=self.held,
        )
