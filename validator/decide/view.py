"""The input of a validator's decisions other than its records: one look at the chain, and the present providers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from domain.attest.queries import AttestDuty
from domain.keys import PanelKey, RoundKey
from domain.market.records import JobTerms
from domain.proof.queries import OrderResponse, PanelDuty, PanelResponse
from domain.proof.records import AuditPlace, Panel, PanelSeat, ReceiptAsk, ShareClaim
from domain.registry.records import Validator
from link.types import Machine, StateRef
from validator.decide.admission import NEWCOMER_ROUNDS
from validator.decide.plan import FreeProvider
from validator.decide.probe import ProbeResult
from validator.decide.records import AttestKey, LegKey, SeatKey, WitnessKey


@dataclass(frozen=True, slots=True)
class OwnPanel:
    """A panel with its seats of all stages: about a round that this validator closed, or one in which it had a seat."""

    panel: Panel
    seats: tuple[PanelSeat, ...]

    @property
    def is_open(self) -> bool:
        """True while seats may ask for places."""
        return self.panel.is_open

    @property
    def votes_on_slash(self) -> bool:
        """True while the panel votes on a slash."""
        return self.panel.votes_on_slash

    @property
    def asked(self) -> tuple[AuditPlace, ...]:
        """The places whose states the seats need now from this validator.

        A provider that stands for a share sends them itself. Seats fetch the states that a round left by their roots.
        """
        if not self.is_open or self.panel.standing is not None or self.panel.asker:
            return ()
        return tuple(self.panel.places[number].place for number in self.panel.undecided)


@dataclass(frozen=True, slots=True)
class WatchedPlaces:
    """The places of one of this validator's rounds that possible challengers recompute now."""

    places: tuple[AuditPlace, ...]
    seats: tuple[PanelSeat, ...] = ()
    is_open: bool = True
    votes_on_slash: bool = False

    @property
    def asked(self) -> tuple[AuditPlace, ...]:
        """The places whose states the callers need now."""
        return self.places


Panels = Mapping[PanelKey, OwnPanel | WatchedPlaces]
"""The panels about this validator's rounds that are not over, and the places that are watched."""


@dataclass(frozen=True, slots=True)
class Member:
    """A provider of the cluster: its certified speed (FLOP/s, 0 if none), and whether a measurement is ``due``.

    ``measured_at`` is the chain second at which the speed was certified. ``verified`` is true if one of its shares is
    in a verified round. ``attested_bond`` (uassay) is the free part of its bond account, if its credential is in force
    and an order takes credentials.
    """

    speed: int
    due: bool
    newcomer: bool  # it has no accepted share yet
    measured_at: int = 0
    verified: bool = False
    attested_bond: int = 0


@dataclass(frozen=True, slots=True)
class WitnessedDelivery:
    """A delivery that this validator was drawn to witness: the request for it, the claim of its share, the terms of the
    order, and the validator that signs no receipt.
    """

    ask: ReceiptAsk
    claim: ShareClaim
    terms: JobTerms
    validator: str


@dataclass(frozen=True, slots=True)
class ChainView:
    """The chain as last read. The service answers its callers from this view, without queries of its own.

    ``orders`` are the orders in this validator's records. ``providers`` are the providers of its cluster, and
    ``applicants`` are the providers that have applied to it. ``panels`` are the panels about its own rounds that are
    not over. ``duties`` are this validator's open seats in panels about the rounds of others. ``subjects`` are these
    panels, with the shares of their rounds. ``earlier`` are the undecided panels in which this validator has or had a
    seat, with the seats of all their stages. ``mirrored`` are the panels whose data this daemon keeps for their seats
    (:mod:`validator.decide.mirrors`); their shares are in ``subjects`` and their seats in ``earlier``. ``kept`` are
    legs of other validators whose states this daemon keeps (:mod:`validator.decide.keeping`). ``finders`` are the
    validators with a seat in a panel about the states that a leg left. ``witnessed`` are the deliveries that this
    validator was drawn to witness, and ``attesting`` its seats that judge evidence. Live orders, panels and seats are
    read in each look; in a ``whole`` look, everything else is read, too.
    """

    clock: int
    orders: Mapping[bytes, OrderResponse]
    validators: Mapping[str, Validator]
    providers: Mapping[str, Member]
    panels: Panels = field(default_factory=dict)
    duties: Mapping[SeatKey, PanelDuty] = field(default_factory=dict)
    subjects: Mapping[SeatKey, PanelResponse] = field(default_factory=dict)
    whole: bool = False
    applicants: frozenset[str] = frozenset()
    bonded: frozenset[str] = frozenset()
    earlier: Mapping[PanelKey, OwnPanel] = field(default_factory=dict)
    mirrored: Mapping[SeatKey, PanelDuty] = field(default_factory=dict)
    kept: frozenset[LegKey] = frozenset()
    finders: Mapping[LegKey, tuple[str, ...]] = field(default_factory=dict)
    result_finders: Mapping[RoundKey, tuple[str, ...]] = field(default_factory=dict)
    witnessed: Mapping[WitnessKey, WitnessedDelivery] = field(default_factory=dict)
    attesting: Mapping[AttestKey, AttestDuty] = field(default_factory=dict)


def name_finders(asked: Iterable[OwnPanel], place: AuditPlace) -> dict[RoundKey, tuple[str, ...]]:
    """Return the validators with a seat in a panel about bytes of this kind, by round."""
    finders: dict[RoundKey, tuple[str, ...]] = {}
    for about in asked:
        if about.panel.places[0].place == place:
            key = about.panel.round_key
            names = (*finders.get(key, ()), *(seat.validator for seat in about.seats))
            finders[key] = tuple(dict.fromkeys(names))
    return finders


@dataclass(frozen=True, slots=True)
class View:
    """The input of the decision about a leg of one order, other than the leg's record.

    ``clock`` is the chain clock (seconds), and ``since`` is its value when this daemon began to answer its providers.
    ``workers`` are the providers that poll and may take work. ``secret`` seeds the validator's own picks. ``panels``
    are the panels about this validator's rounds that are not over. ``held`` are the states of earlier legs that matched
    legs start from, by root. ``mirrors`` are the validators that are named when a round is closed. ``finders`` are the
    validators with a seat in a panel about the states that a leg left. ``verified_providers`` are the members of the
    cluster with a share in a verified round. ``newcomer_rounds`` is the number of rounds that may wait for their panels
    while one of them has a share of a provider that is not one of these.
    """

    on_chain: OrderResponse
    clock: int
    since: int
    me: str
    chain_id: str
    workers: tuple[FreeProvider, ...]
    secret: bytes
    panels: Panels = field(default_factory=dict)
    held: Mapping[bytes, StateRef] = field(default_factory=dict)
    mirrors: tuple[str, ...] = ()
    finders: Mapping[LegKey, tuple[str, ...]] = field(default_factory=dict)
    verified_providers: frozenset[str] = frozenset()
    newcomer_rounds: int = NEWCOMER_ROUNDS


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the chain and this daemon, from which all duties and actions follow.

    ``seats`` are the seats that have a record. ``machines`` are the machines that providers reported, and ``measured``
    are the results of probes. ``doubted`` are the providers whose results do not fit their certified speed.
    ``endpoint`` and ``certificate`` are this daemon's own. ``held`` are the states of earlier legs that matched legs
    start from, by root. ``mirrors`` are the validators that this daemon names when it closes a round. ``witnesses`` are
    the deliveries that have a record. ``newcomer_rounds`` is the operator's setting of this name.
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
    mirrors: tuple[str, ...] = ()
    witnesses: tuple[WitnessKey, ...] = ()
    attests: tuple[AttestKey, ...] = ()
    newcomer_rounds: int = NEWCOMER_ROUNDS

    def of(self, on_chain: OrderResponse) -> View:
        """Return the view of one order."""
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
            mirrors=self.mirrors,
            finders=self.chain.finders,
            verified_providers=frozenset(name for name, member in self.chain.providers.items() if member.verified),
            newcomer_rounds=self.newcomer_rounds,
        )
