"""Looking at the chain: what this validator has to know of it, read again a few times a second."""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind
from domain.queries import (
    AuditDuty,
    DutiesRequest,
    OrderRequest,
    OrderResponse,
    ProviderRequest,
    ProvidersRequest,
    ValidatorsRequest,
)
from domain.records import OrderState, Provider
from validator.decide.upkeep import CERTIFY_SECONDS
from validator.decide.view import ChainView, Member
from validator.ledger import Ledger

_log = logging.getLogger("assay.validator")
SLOW_SECONDS = 2.0
_PAGE = 1_000


@dataclass(slots=True)
class Observer:
    """Reads the chain for one validator. Orders that are closed are read once, and kept without their details."""

    me: str
    client: ChainClient
    ledger: Ledger
    now: Callable[[], float] = time.monotonic
    began: float = 0.0  # monotonic; when the last look began
    slow: bool = False  # whether the last look was at everything
    _audited: dict[AuditDuty, OrderResponse] = field(default_factory=dict)
    _closed: dict[bytes, OrderResponse] = field(default_factory=dict)
    _slow_at: float = 0.0
    _newest: int = 0  # chain clock, in seconds

    def look(
        self, view: ChainView, *, whole: bool = False, asking: Collection[str] = ()
    ) -> ChainView:
        """Return what the chain says now; ChainError where the node does not answer.

        Live orders are read each time; validators, providers and orders that only wait for their windows now and then,
        and where the look has to be ``whole``. Who is ``asking`` to join is an applicant if the chain has its request.
        """
        self.began = self.now()
        self.slow = whole or self.began >= self._slow_at
        duties = self.client.query(DutiesRequest(self.me))
        self._check_clock(duties.clock)
        orders: dict[bytes, OrderResponse] = {}
        for order_id in sorted({assignment.order_id for assignment in duties.assignments}):
            orders[order_id] = self.client.query(OrderRequest(order_id))
        validators, providers = view.validators, view.providers
        if self.slow:
            validators = {v.operator: v for v in self.client.query(ValidatorsRequest()).validators}
            providers = {p.address: member_of(p, duties.clock) for p in self._providers()}
            orders = {**self._waiting(orders), **orders}
            self._slow_at = self.began + SLOW_SECONDS
            self.ledger.store.seen_clock(duties.clock)
        else:
            orders = {**view.orders, **orders}
        for order_id, on_chain in orders.items():
            for assignment in on_chain.assignments:
                if assignment.validator == self.me and on_chain.order.state != OrderState.CLOSED:
                    self.ledger.begin(order_id, assignment.attempt)
        audited = self._read_audited(duties.audits)
        known = frozenset() if self.slow else view.applicants
        applicants = {name for name in asking if name in known or self._asks(name)}
        return ChainView(
            duties.clock,
            orders,
            validators,
            providers,
            duties.audits,
            audited,
            self.slow,
            frozenset(applicants),
        )

    def _asks(self, address: str) -> bool:
        """Tell whether somebody's request to join waits for this validator on the chain."""
        found = self.client.query(ProviderRequest(address)).provider
        return found is not None and found.validator == self.me and not found.admitted

    def _read_audited(self, audits: tuple[AuditDuty, ...]) -> dict[AuditDuty, OrderResponse]:
        """Return the orders of audits, each read once: what is audited is closed, and does not change any more."""
        known = self._audited
        self._audited = {
            duty: known.get(duty) or self.client.query(OrderRequest(duty.order_id))
            for duty in audits
        }
        return self._audited

    def _check_clock(self, clock: int) -> None:
        """Follow no node that is behind what was seen before, by this daemon or the one before it.

        A share that such a node does not show yet would be taken for one that the chain never got.
        """
        self._newest = self._newest or self.ledger.store.seen_clock()
        if clock < self._newest:
            raise ChainError(
                ErrorKind.UNAVAILABLE,
                f"it is behind, at second {clock} of the chain's clock, and second {self._newest} was seen before"
                " (a new chain under an old name needs another --home)",
                "wait until it has caught up",
            )
        self._newest = clock

    def _waiting(self, live: dict[bytes, OrderResponse]) -> dict[bytes, OrderResponse]:
        """Return the orders that are in the records and have no live assignment of this validator."""
        found: dict[bytes, OrderResponse] = {}
        held = {order_id for order_id, _ in self.ledger.store.all_orders()}
        self._closed = {order_id: self._closed[order_id] for order_id in held & self._closed.keys()}
        for order_id in held - live.keys():
            on_chain = self._closed.get(order_id) or self._order(order_id)
            if on_chain is None:
                continue
            if on_chain.order.state == OrderState.CLOSED:
                on_chain = replace(on_chain, shares=(), rounds=(), audits=(), payments=())
                self._closed[order_id] = on_chain
            found[order_id] = on_chain
        return found

    def _order(self, order_id: bytes) -> OrderResponse | None:
        try:
            return self.client.query(OrderRequest(order_id))
        except ChainError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            _log.warning("the node does not know order %s (yet)", order_id.hex())
            return None

    def _providers(self) -> list[Provider]:
        found: list[Provider] = []
        while True:
            after = found[-1].address if found else ""
            page = self.client.query(ProvidersRequest(self.me, _PAGE, after)).providers
            found += page
            if len(page) < _PAGE:
                return found


def member_of(provider: Provider, clock: int) -> Member:
    """Return what is to know of a provider: its speed until it expires, and that it is measured before that."""
    capability = provider.capability
    left = capability.expires_at - clock if capability else 0
    speed = capability.speed if capability and left > 0 else 0
    return Member(speed, left <= CERTIFY_SECONDS // 10, provider.newcomer)
