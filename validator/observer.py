"""The reader of the chain. At least about twice a second, it reads everything that this validator has to know."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind
from domain.attest.queries import AttestDutiesRequest, AttestDuty, CredentialsRequest
from domain.disputes.params import DisputesParams
from domain.keys import PanelKey
from domain.ledger.queries import AccountRequest
from domain.legs.queries import LiveLegsRequest
from domain.limits import SLOTS_MAX
from domain.market.records import JobTerms, OrderState
from domain.proof.queries import (
    OrderRequest,
    OrderResponse,
    PanelDutiesRequest,
    PanelDuty,
    PanelRequest,
    PanelResponse,
    SeatsRequest,
    WitnessDutiesRequest,
)
from domain.proof.records import Panel, PanelSeat
from domain.registry.queries import ProviderRequest, ProvidersRequest, ValidatorsRequest
from domain.registry.records import Provider
from pol.rules.inclusion import is_asking
from pol.rules.states import RESULT, STATES
from validator.decide.keeping import STATES_PART, choose_kept
from validator.decide.mirrors import ORDERS_MAX, choose_mirrored, find_mirrored
from validator.decide.records import AttestKey, LegKey, SeatKey, WitnessKey, seat_key
from validator.decide.upkeep import CERTIFY_SECONDS
from validator.decide.view import ChainView, Member, OwnPanel, WitnessedDelivery, name_finders
from validator.ledger import Ledger

_log = logging.getLogger("assay.validator")
SLOW_SECONDS = 2.0
CREDENTIAL_SECONDS = 60.0
_PAGE = 1_000


@dataclass(slots=True)
class Observer:
    """The reader of the chain for one validator. A closed order is read once, and kept without its details."""

    me: str
    client: ChainClient
    ledger: Ledger
    now: Callable[[], float] = time.monotonic
    began: float = 0.0  # start of the last look (monotonic seconds)
    slow: bool = False  # True if the last look read everything
    # The validators whose rounds this one mirrors if they name it, and the bytes that it keeps for that.
    mirror_for: tuple[str, ...] = ()
    mirror_bytes: int = 0
    _subjects: dict[SeatKey, PanelResponse] = field(default_factory=dict)
    _panels: dict[PanelKey, OwnPanel] = field(default_factory=dict)
    _finding: dict[PanelKey, OwnPanel] = field(default_factory=dict)
    _closed: dict[bytes, OrderResponse] = field(default_factory=dict)
    _unattested: dict[str, float] = field(default_factory=dict)  # providers without a credential, and when to ask again
    _slow_at: float = 0.0
    _newest: int = 0  # latest chain clock (seconds) that was read

    def look(
        self, view: ChainView, *, whole: bool = False, asking: Collection[str] = (), bonding: Collection[str] = ()
    ) -> ChainView:
        """Return the present state of the chain; ChainError if the node does not answer.

        Live orders, panels and seats are read each time. Four things are read only every ``SLOW_SECONDS``, and in each
        ``whole`` look: validators, providers, panels to mirror, and orders that only wait for their windows to end.
        ``asking`` are providers that ask to join: each is an applicant if the chain has its application.
        """
        self.began = self.now()
        self.slow = whole or self.began >= self._slow_at
        duties = self.client.query(LiveLegsRequest(self.me))
        self._check_clock(duties.clock)
        orders: dict[bytes, OrderResponse] = {}
        for order_id in sorted({leg.order_id for leg in duties.legs}):
            orders[order_id] = self.client.query(OrderRequest(order_id))
        fresh = set(orders)
        validators = view.validators
        providers = view.providers
        if self.slow:
            validators = {v.operator: v for v in self.client.query(ValidatorsRequest()).validators}
            providers = {p.address: member_of(p, duties.clock) for p in self._providers()}
            if any(on_chain.order.conditions.attested for on_chain in orders.values()):
                providers = {name: replace(p, attested_bond=self._attested_bond(name)) for name, p in providers.items()}
            orders = {**self._waiting(orders), **orders}
            fresh = set(orders)
            self._slow_at = self.began + SLOW_SECONDS
            self.ledger.store.seen_clock(duties.clock)
        else:
            orders = {**view.orders, **orders}
        for order_id, on_chain in orders.items():
            for leg in on_chain.legs:
                if leg.validator == self.me and on_chain.order.state != OrderState.CLOSED:
                    self.ledger.begin(order_id, leg.number)
        seats = {seat_key(duty): duty for duty in self._read_duties()}
        mirrored = self._read_mirrored() if self.slow else view.mirrored
        kept = (LegKey(*key) for key in self.ledger.store.all_orders() if key[0] in orders)
        known = frozenset() if self.slow else view.applicants
        asked = self._read_asked(orders.values())
        applicants = {name for name in asking if name in known or self._asks(name)}
        return ChainView(
            clock=duties.clock,
            orders=orders,
            validators=validators,
            providers=providers,
            panels=self._read_panels(orders, fresh, duties.clock),
            duties=seats,
            subjects=self._read_subjects({**seats, **mirrored}),
            whole=self.slow,
            applicants=frozenset(applicants),
            bonded=frozenset(name for name in bonding if (not self.slow and name in view.bonded) or self._bonds(name)),
            earlier=self._read_earlier(seats),
            mirrored=mirrored,
            kept=frozenset(key for key in kept if self._is_kept(orders[key.order_id], key)),
            finders={LegKey(key.order_id, key.leg): names for key, names in name_finders(asked, STATES).items()},
            result_finders=name_finders(asked, RESULT),
            witnessed=self._read_witnessed(duties.clock),
            attesting=index_attests(self.client.query(AttestDutiesRequest(self.me)).duties),
        )

    def _read_witnessed(self, clock: int) -> dict[WitnessKey, WitnessedDelivery]:
        """Return the deliveries that this validator was drawn to witness, as long as the requests for them are open.

        A delivery that it has witnessed may still have to be passed on.
        """
        asks = self.client.query(WitnessDutiesRequest(self.me)).asks
        keys = {WitnessKey(ask.share) for ask in asks} | set(self.ledger.store.witnesses())
        found = ((key, find_witnessed(self._order(key.share.order_id), key, clock)) for key in sorted(keys))
        return {key: delivery for key, delivery in found if delivery is not None}

    def _read_asked(self, orders: Iterable[OrderResponse]) -> tuple[OwnPanel, ...]:
        """Return the panels about bytes of orders that are not closed, with all their seats."""
        before, self._finding = self._finding, {}
        for on_chain in orders:
            for panel in on_chain.panels:
                if panel.asker and on_chain.order.state != OrderState.CLOSED:
                    self._finding[panel.key] = OwnPanel(panel, self._read_seats(panel, before.get(panel.key)))
        return tuple(self._finding.values())

    def _is_kept(self, on_chain: OrderResponse, key: LegKey) -> bool:
        """Return whether a record is about another validator's leg, whose states this daemon keeps."""
        leg = on_chain.leg(key.leg)
        return leg is not None and leg.validator != self.me

    def _bonds(self, address: str) -> bool:
        """Return whether an account has the least bond of a challenge in its bond account."""
        try:
            free = self.client.query(AccountRequest(address)).bond.free
        except ChainError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return False
            raise
        return free >= self.client.params().of(DisputesParams).challenge_min

    def _attested_bond(self, address: str) -> int:
        """Return what is free (uassay) in a provider's bond account, or 0 if no credential of it is in force.

        A provider without one is asked about again only after ``CREDENTIAL_SECONDS``.
        """
        now = self.now()
        if now < self._unattested.get(address, 0.0):
            return 0
        if not self.client.query(CredentialsRequest(address)).in_force:
            self._unattested[address] = now + CREDENTIAL_SECONDS
            return 0
        return self.client.query(AccountRequest(address)).bond.free

    def _asks(self, address: str) -> bool:
        """Return whether the chain has an open application of this provider to this validator."""
        provider = self.client.query(ProviderRequest(address)).provider
        return provider is not None and provider.validator == self.me and not provider.admitted

    def _read_duties(self) -> list[PanelDuty]:
        """Return the seats of this validator, read page by page."""
        duties: list[PanelDuty] = []
        request = PanelDutiesRequest(self.me, _PAGE)
        while True:
            page = self.client.query(request).duties
            duties += page
            if len(page) < _PAGE:
                return duties
            request = request.after(page[-1])

    def _read_mirrored(self) -> dict[SeatKey, PanelDuty]:
        """Return the panels that this validator mirrors, and begin the records of the states that it keeps. Each winner
        has an equal part of its bytes.

        Only rounds of validators that its operator chose are read, in at most ``ORDERS_MAX`` orders of each.
        """
        mirrored: dict[SeatKey, PanelDuty] = {}
        winners = [name for name in self.mirror_for if name != self.me]
        recorded = self.ledger.store.seats()
        legs_recorded = {LegKey(*key) for key in self.ledger.store.all_orders()}
        for winner in winners:
            found: list[tuple[PanelDuty, JobTerms]] = []
            read: list[OrderResponse] = []
            legs = self.client.query(LiveLegsRequest(winner)).legs
            for order_id in sorted({leg.order_id for leg in legs})[:ORDERS_MAX]:
                on_chain = self._order(order_id)
                if on_chain is not None:
                    read.append(on_chain)
                    terms = on_chain.order.terms
                    found += [(duty, terms) for duty in find_mirrored(on_chain, winner, self.me)]
            most = self.mirror_bytes // len(winners)
            kept, left = choose_kept(read, winner, self.me, legs_recorded, most // STATES_PART)
            for key in kept:
                self.ledger.begin(key.order_id, key.leg)
            mirrored |= choose_mirrored(found, recorded, most - most // STATES_PART + left)
        return mirrored

    def _read_subjects(self, seats: Iterable[SeatKey]) -> dict[SeatKey, PanelResponse]:
        """Return the panels and shares that the seats are about.

        Each panel is read once, because a closed round does not change.
        """
        known = self._subjects
        subjects = {key: known.get(key) or self._read_subject(key) for key in seats}
        self._subjects = {key: subject for key, subject in subjects.items() if subject is not None}
        return self._subjects

    def _read_subject(self, key: SeatKey) -> PanelResponse | None:
        """Return the panel of a seat with all shares of its round, read page by page; None if it has ended."""
        request = PanelRequest(order_id=key.order_id, leg=key.leg, round=key.round, dispute=key.dispute, limit=_PAGE)
        subject = self._ask_panel(request)
        page = subject.shares if subject else ()
        while subject is not None and len(page) == _PAGE:
            more = self._ask_panel(replace(request, from_slot=page[-1].claim.slot + 1))
            page = more.shares if more else ()
            subject = replace(subject, shares=(*subject.shares, *page))
        return subject

    def _ask_panel(self, request: PanelRequest) -> PanelResponse | None:
        """Return a panel; None if it has ended meanwhile."""
        try:
            return self.client.query(request)
        except ChainError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            return None

    def _read_earlier(self, duties: Collection[SeatKey]) -> dict[PanelKey, OwnPanel]:
        """Return the undecided panels with a seat of this validator, with all their seats.

        A panel whose first stage has not revealed its answers yet has no earlier seats, so it is not read.
        """
        kept = {key.panel for key in self.ledger.store.seats() if key not in duties}
        wanted = kept | {key.panel for key in duties if key.stage > 1}
        earlier: dict[PanelKey, OwnPanel] = {}
        for key in sorted(wanted):
            panel = self._ask_without_shares(key)
            if panel is not None and not panel.is_settled and not panel.is_decided:
                earlier[key] = OwnPanel(panel, self._read_seats(panel, None))
        return earlier

    def _read_panels(
        self, orders: Mapping[bytes, OrderResponse], fresh: Collection[bytes], clock: int
    ) -> dict[PanelKey, OwnPanel]:
        """Return the panels about this validator's rounds that are not over.

        A decided panel is not read again, unless its ruling may be appealed, or its round is void, because a vote on a
        slash may then follow. Orders that are not ``fresh`` come from an earlier look, so their panels are read
        separately.
        """
        known = self._panels
        self._panels = {}
        for order_id, on_chain in orders.items():
            mine = {leg.number for leg in on_chain.legs if leg.validator == self.me}
            for closed in on_chain.rounds:
                if closed.leg not in mine or (closed.verified and clock >= closed.window_ends):
                    continue
                panels = {panel.key: panel for panel in on_chain.panels if panel.round_key == closed.key}
                for key in sorted({closed.key.panel(), *panels}):
                    panel = panels.get(key)
                    before = known.get(key)
                    if before is not None and _is_final(before.panel) and not closed.void:
                        panel = before.panel
                    elif order_id not in fresh:
                        panel = self._ask_without_shares(key)
                    if panel is not None:
                        self._panels[key] = OwnPanel(panel, self._read_seats(panel, before))
        return self._panels

    def _ask_without_shares(self, key: PanelKey) -> Panel | None:
        """Return a panel; None if it has ended."""
        # The query begins after the last slot, so its answer has no shares. This validator already knows them.
        request = PanelRequest(
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            dispute=key.dispute,
            from_slot=SLOTS_MAX,
            limit=1,
        )
        answer = self._ask_panel(request)
        return answer.panel if answer else None

    def _read_seats(self, panel: Panel, before: OwnPanel | None) -> tuple[PanelSeat, ...]:
        """Return the seats of all stages of a panel. A seat never changes, so only new seats are read."""
        seats = list(before.seats) if before else []
        while len(seats) < panel.seats:
            request = SeatsRequest(
                order_id=panel.order_id,
                leg=panel.leg,
                round=panel.round,
                dispute=panel.dispute,
                from_number=len(seats),
                limit=_PAGE,
            )
            page = self.client.query(request).seats
            if not page:
                break
            seats += page
        return tuple(seats)

    def _check_clock(self, clock: int) -> None:
        """Check that the node is not behind an earlier look of this or an earlier process; ChainError if it is behind.

        A node that is behind may not have a share yet, and the daemon would believe that the chain never got this
        share.
        """
        self._newest = self._newest or self.ledger.store.seen_clock()
        if clock < self._newest:
            raise ChainError(
                ErrorKind.UNAVAILABLE,
                f"the node is behind: its chain clock is at second {clock}, and this daemon has seen second"
                f" {self._newest} (a new chain with an old chain id needs another --home)",
                "wait until the node has caught up",
            )
        self._newest = clock

    def _waiting(self, live: dict[bytes, OrderResponse]) -> dict[bytes, OrderResponse]:
        """Return the orders that have a record but no live leg of this validator."""
        orders: dict[bytes, OrderResponse] = {}
        recorded = {order_id for order_id, _ in self.ledger.store.all_orders()}
        self._closed = {order_id: self._closed[order_id] for order_id in recorded & self._closed.keys()}
        for order_id in recorded - live.keys():
            on_chain = self._closed.get(order_id) or self._order(order_id)
            if on_chain is None:
                continue
            if on_chain.order.state == OrderState.CLOSED and not self._has_vote(on_chain):
                on_chain = replace(on_chain, shares=(), rounds=(), panels=(), payments=())
                self._closed[order_id] = on_chain
            orders[order_id] = on_chain
        return orders

    def _has_vote(self, on_chain: OrderResponse) -> bool:
        """Return whether the others vote on a slash of this validator for a round of the order."""
        mine = {leg.number for leg in on_chain.legs if leg.validator == self.me}
        return any(panel.votes_on_slash and panel.leg in mine for panel in on_chain.panels)

    def _order(self, order_id: bytes) -> OrderResponse | None:
        try:
            return self.client.query(OrderRequest(order_id))
        except ChainError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            _log.warning("the node does not have order %s (yet)", order_id.hex())
            return None

    def _providers(self) -> list[Provider]:
        """Return the providers of this validator's cluster, read page by page."""
        providers: list[Provider] = []
        while True:
            after = providers[-1].address if providers else ""
            page = self.client.query(ProvidersRequest(self.me, _PAGE, after)).providers
            providers += page
            if len(page) < _PAGE:
                return providers


def _is_final(panel: Panel) -> bool:
    """Return whether no seat of a panel can ask any longer, unless its round becomes void."""
    return panel.is_decided and not panel.awaits_appeal


def index_attests(duties: Iterable[AttestDuty]) -> dict[AttestKey, AttestDuty]:
    """Return the seats that judge evidence, by the keys of their records."""
    return {AttestKey(duty.attestation.owner, duty.attestation.number): duty for duty in duties}


def find_witnessed(on_chain: OrderResponse | None, key: WitnessKey, clock: int) -> WitnessedDelivery | None:
    """Return a delivery to witness, at the chain's ``clock`` (seconds); None if the request for it is over."""
    ask = on_chain.ask(key.share) if on_chain is not None else None
    share = on_chain.share(key.share) if on_chain is not None else None
    leg = on_chain.leg(key.share.leg) if on_chain is not None else None
    if on_chain is None or ask is None or share is None or leg is None or not is_asking(ask, clock):
        return None
    return WitnessedDelivery(ask=ask, claim=share.claim, terms=on_chain.order.terms, validator=leg.validator)


def member_of(provider: Provider, clock: int) -> Member:
    """Return a provider as a member of the cluster, at the chain's ``clock`` (seconds).

    An expired speed is 0. A measurement is due some time before the speed expires.
    """
    capability = provider.capability
    remaining = capability.expires_at - clock if capability else 0
    speed = capability.speed if capability and remaining > 0 else 0
    measured_at = max(0, capability.expires_at - CERTIFY_SECONDS) if capability else 0
    return Member(
        speed=speed,
        due=remaining <= CERTIFY_SECONDS // 10,
        newcomer=provider.newcomer,
        measured_at=measured_at,
        verified=provider.has_verified_share,
    )
