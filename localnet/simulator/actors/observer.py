"""A validator's view of the chain: whole now and then, and sometimes a look behind."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from domain.attest.queries import AttestDutiesRequest
from domain.legs.queries import LiveLegsRequest
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse, PanelDutiesRequest, SeatsRequest, WitnessDutiesRequest
from domain.registry.queries import ProvidersRequest, ValidatorsRequest
from pol.rules.states import RESULT, STATES
from validator.decide.records import LegKey, LocalOrder, PayloadStage, WitnessKey, continued, new_order, seat_key
from validator.decide.view import ChainView, OwnPanel, WitnessedDelivery, name_finders
from validator.observer import find_witnessed, index_attests, member_of

if TYPE_CHECKING:
    from localnet.simulator.actors.validator import ValidatorActor

WHOLE_MS = 2_000
"""After which a look is whole again."""


class Observer:
    """The eyes of one validator, between two crashes."""

    def __init__(self, daemon: "ValidatorActor") -> None:
        self.daemon = daemon
        self._whole_at = -(10**9)
        self._behind = False

    def see(self, before: ChainView) -> ChainView:
        """Look at the chain. Now and then the node does not answer, or a block comes after the clock was read.

        A daemon reads the clock first, and believes no node that is behind it. So no order is older than the clock.
        Each of the two lasts one look.
        """
        daemon, world = self.daemon, self.daemon.world
        self._behind = bool(before.clock) and not self._behind and world.lags()
        if self._behind and world.dice(2):
            return before
        found = world.ask(LiveLegsRequest(daemon.me))
        clock = before.clock if self._behind else found.clock
        wanted = {leg.order_id for leg in found.legs}
        now = world.clock.now
        whole = now >= self._whole_at
        providers, validators = before.providers, before.validators
        if whole:
            self._whole_at = now + WHOLE_MS
            wanted |= {key.order_id for key in daemon.records if isinstance(key, LegKey)}
            members = world.ask(ProvidersRequest(daemon.me, 100, "")).providers
            providers = {p.address: member_of(p, clock) for p in members if p.admitted}
            validators = {v.operator: v for v in world.ask(ValidatorsRequest()).validators}
        orders = {} if whole else dict(before.orders)
        for order_id in sorted(wanted):
            orders[order_id] = world.order(order_id)
        for on_chain in orders.values():
            self._take_note(on_chain)
        seats = {seat_key(duty): duty for duty in world.ask(PanelDutiesRequest(daemon.me)).duties}
        asked = self._asked(orders.values())
        return ChainView(
            clock=clock,
            orders=orders,
            validators=validators,
            providers=providers,
            panels={**daemon.auditor.own_panels(orders, clock), **daemon.service.watched()},
            duties=seats,
            subjects=daemon.auditor.read_subjects(seats),
            whole=whole,
            applicants=daemon.service.applicants(),
            earlier=daemon.auditor.earlier_panels(seats),
            kept=frozenset(
                key
                for key in daemon.records
                if isinstance(key, LegKey) and key.order_id in orders and self._is_kept(orders[key.order_id], key)
            ),
            finders={LegKey(key.order_id, key.leg): names for key, names in name_finders(asked, STATES).items()},
            result_finders=name_finders(asked, RESULT),
            witnessed=self._witnessed(clock),
            attesting=index_attests(world.ask(AttestDutiesRequest(daemon.me)).duties),
        )

    def _witnessed(self, clock: int) -> dict[WitnessKey, WitnessedDelivery]:
        """Return the deliveries that it was drawn to witness."""
        world = self.daemon.world
        keys = {WitnessKey(ask.share) for ask in world.ask(WitnessDutiesRequest(self.daemon.me)).asks}
        keys |= {key for key in self.daemon.records if isinstance(key, WitnessKey)}
        found = ((key, find_witnessed(world.order(key.share.order_id), key, clock)) for key in sorted(keys))
        return {key: delivery for key, delivery in found if delivery is not None}

    def _is_kept(self, on_chain: OrderResponse, key: LegKey) -> bool:
        """Return whether a record is about a leg of another validator, whose states are kept."""
        leg = on_chain.leg(key.leg)
        return leg is not None and leg.validator != self.daemon.me

    def _asked(self, orders: Iterable[OrderResponse]) -> tuple[OwnPanel, ...]:
        """Return the panels about bytes of orders that are not closed, with their seats."""
        return tuple(
            OwnPanel(panel, self.daemon.world.ask(SeatsRequest(*panel.key)).seats)
            for on_chain in orders
            for panel in on_chain.panels
            if panel.asker and on_chain.order.state is not OrderState.CLOSED
        )

    def _take_note(self, on_chain: OrderResponse) -> None:
        """Begin a record of each own leg of an order that lives."""
        if on_chain.order.state is OrderState.CLOSED:
            return
        for leg in on_chain.legs:
            key = LegKey(on_chain.order.id, leg.number)
            if leg.validator == self.daemon.me and key not in self.daemon.records:
                self.daemon.records[key] = self._begin(key)

    def _begin(self, key: LegKey) -> LocalOrder:
        """Return a new record, with the payload of an earlier leg of the order that is here."""
        local = new_order(key.order_id, key.leg)
        for number in reversed(range(1, key.leg)):
            before = self.daemon.leg(LegKey(key.order_id, number))
            if before is not None and before.payload.stage is PayloadStage.LOADED:
                return continued(local, before)
        return local
