"""Answers of a validator's service to providers and consumers: None if it is down, or the question is not theirs.

Who polls is there, and who asks to be in the cluster is measured; what is served is what the real decisions say.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from domain.keys import PanelKey, RoundKey, ShareKey
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditPlace
from domain.registry.queries import ProviderRequest
from link.handover import Sealed
from link.types import (
    AuditOpening,
    DeliveryOffer,
    DeliveryReceipt,
    Machine,
    OpeningSubmission,
    OpenTask,
    PayloadFile,
    ReceiptReply,
    ShareSubmission,
    ShownKey,
    StateRef,
    TrainTask,
    Verdict,
    not_ready,
)
from localnet.simulator.memory_chain import CHAIN_ID, pub_key, sign
from pol.rules.delivery import receipt_sign_bytes
from pol.rules.panels import is_place
from validator.decide import receive
from validator.decide.initial import served_roots, states_of
from validator.decide.plan import FreeProvider
from validator.decide.probe import ProbeResult
from validator.decide.records import LegKey, LocalOrder, LocalWitness, PayloadStage
from validator.decide.retention import served_rounds
from validator.decide.tasks import audit_opening, open_tasks, sign_task, train_tasks
from validator.decide.view import OwnPanel, WatchedPlaces
from validator.decide.witness import find_witness, witnessed_offered
from validator.serve.callers import Asking, Presence, Watched
from validator.serve.service import WATCHED
from validator.watch.places import (
    compares_ends,
    get_extents,
    shows_open_result,
)

if TYPE_CHECKING:
    from localnet.simulator.actors.validator import ValidatorActor

ASK_MS = 300
PROBE_MS = 1_500
"""How long a provider is measured."""


class Service:
    """Whom a validator knows, and what it tells them."""

    def __init__(self, daemon: "ValidatorActor") -> None:
        self.daemon = daemon
        self.crash()

    def crash(self) -> None:
        """Forget all callers."""
        clock = self.daemon.world.clock
        self.presence = Presence(lambda: clock.seconds)
        self.asking = Asking(now=lambda: clock.seconds)
        self._watched = Watched(now=lambda: clock.seconds)
        self._measured: dict[str, ProbeResult] = {}

    # Presence

    def workers(self) -> tuple[FreeProvider, ...]:
        """Return the providers that poll and have a certified speed, as the service does."""
        known = self.daemon.view.providers
        return tuple(
            FreeProvider(
                address=address,
                speed=known[address].speed,
                newcomer=known[address].newcomer,
                backing=self.daemon.behaviour.backing(address),
                cautious=self.presence.is_cautious(address),
            )
            for address in self.presence.live()
            if address in known and known[address].speed
        )

    def applicants(self) -> frozenset[str]:
        """Return who asked lately, here and on chain, and is not admitted."""
        return frozenset(name for name in self.asking.names() if self._asks(name))

    def measured(self) -> tuple[ProbeResult, ...]:
        """Return what probes found that the chain does not know yet."""
        return tuple(found for name, found in sorted(self._measured.items()) if self._is_due(name))

    def _asks(self, address: str) -> bool:
        known = self.daemon.world.ask(ProviderRequest(address)).provider
        return known is not None and known.validator == self.daemon.me and not known.admitted

    def _is_due(self, address: str) -> bool:
        view = self.daemon.view
        member = view.providers.get(address)
        return address in view.applicants if member is None else member.due

    def join(self, provider: str, machine: Machine) -> bool | None:
        """Take a member into work; an applicant is measured first."""
        daemon = self.daemon
        if not daemon.up:
            return None
        member = provider in daemon.view.providers
        if not member and not self.asking.hear(provider):
            return False
        if member or provider in daemon.view.applicants:
            self.presence.join(provider, machine)
            self._probe(provider)
        daemon.wake()
        return member

    def _probe(self, provider: str) -> None:
        """Measure a provider whose speed the chain does not know: what is found is what it does."""
        daemon, key = self.daemon, f"probe/{provider}"
        if self._is_due(provider) and daemon.errands.begin(key, daemon.world.clock.now):
            daemon.later(PROBE_MS, partial(self._probed, provider, key))

    def _probed(self, provider: str, key: str) -> None:
        speed = self.daemon.world.providers[provider].speed
        self._measured[provider] = ProbeResult(
            provider=provider, speed=speed, bandwidth=10**8, seed=b"", sample=(), sure=True
        )
        self.daemon.finished(key)
        self.daemon.wake()

    # Shares

    def _all(self) -> Iterator[tuple[LocalOrder, OrderResponse]]:
        """Yield the records whose orders live, as far as they are in view."""
        daemon = self.daemon
        for key, local in list(daemon.records.items()):
            if isinstance(key, LegKey) and isinstance(local, LocalOrder):
                on_chain = daemon.view.orders.get(key.order_id)
                if on_chain is not None and on_chain.order.state != OrderState.CLOSED:
                    yield local, on_chain

    def poll(self, provider: str, *, cautious: bool = False) -> tuple[list[TrainTask], list[OpenTask]] | None:
        """Return the shares that a provider has to train, and the states that it has to show."""
        daemon = self.daemon
        if not daemon.up or provider not in daemon.view.providers:
            return None
        self.presence.poll(provider)
        self.presence.note_caution(provider, cautious=cautious)
        self._probe(provider)
        train: list[TrainTask] = []
        opening: list[OpenTask] = []
        for local, on_chain in self._all():
            tasks = train_tasks(local, on_chain, provider, daemon.view.clock)
            train += [sign_task(task, provider, CHAIN_ID, partial(sign, pub_key(daemon.me))) for task in tasks]
            opening += open_tasks(local, on_chain, daemon.view.panels, provider)
        return train, opening

    def _local(self, key: ShareKey) -> tuple[LegKey, LocalOrder | None]:
        """Return the leg of a share, with its record if this validator has one."""
        leg = LegKey(key.order_id, key.leg)
        return leg, self.daemon.leg(leg) if self.daemon.up else None

    def submit_share(self, submission: ShareSubmission) -> Verdict | None:
        """Take the commitment to a share."""
        leg, local = self._local(submission.claim.key)
        if local is None:
            return None
        if receive.late_share(local, submission):
            self.daemon.change(leg, lambda now: receive.mark_late(now, submission))
            return Verdict(False, int(ShareReason.LATE), "late")
        after, reason = receive.share_received(local, submission, lambda: True)
        return self._taken(leg, after, reason)

    def take_as_witness(self, provider: str, offer: DeliveryOffer) -> ReceiptReply | None:
        """Take the delivery of another validator's share as a witness, as the service does."""
        daemon = self.daemon
        key = find_witness(daemon.view.witnessed, offer.key, provider)
        if not daemon.up or key is None or daemon.view.witnessed[key].ask.manifest != offer.manifest:
            return None
        record = daemon.records.get(key)
        known = record if isinstance(record, LocalWitness) else LocalWitness()
        daemon.records[key] = witnessed_offered(known, offer)
        daemon.wake()
        return ReceiptReply(True)

    def take_passed(self, witness: str, offer: DeliveryOffer) -> ReceiptReply | None:
        """Take the delivery of an own share from a witness."""
        leg, local = self._local(offer.key)
        on_chain = self.daemon.view.orders.get(offer.key.order_id)
        ask = on_chain.ask(offer.key) if on_chain is not None else None
        if local is None or ask is None or witness not in ask.witnesses or ask.manifest != offer.manifest:
            return None
        if not self.daemon.behaviour.receives(self.daemon, offer.key):
            return None
        self._note_opening(local, offer.key)
        after, reason = receive.delivery_passed(local, offer)
        self._taken(leg, after, reason)
        return ReceiptReply(reason == ShareReason.NONE, int(reason), reason.name.lower())

    def _note_opening(self, local: LocalOrder, key: ShareKey) -> None:
        current = local.find(key.round)
        if current is not None:
            self.daemon.numerics.openings[key] = current.global_in.root

    def deliver_share(self, provider: str, offer: DeliveryOffer) -> ReceiptReply | None:
        """Take an encrypted delivery, and sign the receipt once the commitment is on chain."""
        daemon, key = self.daemon, offer.key
        leg, local = self._local(key)
        if local is None or not daemon.behaviour.receives(daemon, key):
            return None
        self._note_opening(local, key)
        after, reason = receive.delivery_offered(local, provider, offer, lambda _: True)
        self._taken(leg, after, reason)
        signed = None if reason else receive.receipt_signed(after, key, daemon.view.clock)
        if signed is None:
            return ReceiptReply(reason == ShareReason.NONE, int(reason), reason.name.lower())
        self.daemon.change(leg, lambda _: signed)
        return ReceiptReply(True, receipt=self._receipt(signed, key, shown=False))

    def show_key(self, provider: str, shown: ShownKey) -> ReceiptReply | None:
        """Take the key of a delivery."""
        leg, local = self._local(shown.key)
        if local is None:
            return None
        terms = self.daemon.world.job(shown.key.order_id).terms
        after, reason = receive.key_shown(local, terms, CHAIN_ID, provider, shown)
        self._taken(leg, after, reason)
        receipt = None if reason else self._receipt(after, shown.key, shown=True)
        return ReceiptReply(
            accepted=reason == ShareReason.NONE, reason=int(reason), text=reason.name.lower(), receipt=receipt
        )

    def _receipt(self, local: LocalOrder, key: ShareKey, *, shown: bool) -> DeliveryReceipt | None:
        at = local.share(key)
        if at is None or at.work.signed is None or at.work.offer is None:
            return None
        moment = at.work.receipt_at
        document = receipt_sign_bytes(CHAIN_ID, at.work.signed.claim, at.work.offer.manifest, moment, shown=shown)
        return DeliveryReceipt(moment, shown, sign(pub_key(self.daemon.me), document))

    def _taken(self, leg: LegKey, after: LocalOrder, reason: ShareReason) -> Verdict:
        self.daemon.change(leg, lambda _: after)
        return Verdict(reason == ShareReason.NONE, int(reason), reason.name.lower())

    def submit_opening(self, provider: str, opening: OpeningSubmission) -> Verdict | None:
        """Take states that a provider shows, if they are wanted."""
        key = opening.key
        leg, local = self._local(key)
        on_chain = self.daemon.view.orders.get(key.order_id)
        if local is None or on_chain is None:
            return None
        tasks = open_tasks(local, on_chain, self.daemon.view.panels, provider)
        wanted = {task.key: task.indices for task in tasks}
        if opening.index not in wanted.get(key, ()):
            return Verdict(False, 0, "not wanted, or no longer")
        after = receive.opening_received(local, opening)
        if after is None:
            return Verdict(False, int(ShareReason.OPENING_MISMATCH), "not the size of the job's")
        self.daemon.change(leg, lambda _: after)
        return Verdict(True)

    # Results

    def get_result(self, caller: str, key: RoundKey) -> list[Sealed] | None:
        """Return the encrypted chunks of a round to its consumer, or to a seat that looks for them, if they are served
        now.
        """
        daemon = self.daemon
        on_chain = daemon.view.orders.get(key.order_id)
        local = daemon.leg(LegKey(key.order_id, key.leg))
        if not daemon.up or on_chain is None or local is None or not daemon.behaviour.serves_result(daemon, caller):
            return None
        if caller not in (on_chain.order.consumer, *daemon.view.result_finders.get(key, ())):
            return None
        rounds = {known.round for known in served_rounds(local, on_chain)}
        rounds |= {found.round for found in local.results}
        return daemon.world.sealed[key] if key.round in rounds else None

    # Challengers

    def watched(self) -> dict[PanelKey, WatchedPlaces]:
        """Return the places that possible challengers ask for now."""
        return {key.panel(WATCHED): WatchedPlaces(places) for key, places in self._watched.places().items()}

    def get_place(self, caller: str, key: RoundKey, place: AuditPlace) -> AuditOpening | None:
        """Return the opening of a place of a closed round to a possible challenger, as the service does."""
        daemon = self.daemon
        on_chain = daemon.view.orders.get(key.order_id)
        local = daemon.leg(LegKey(key.order_id, key.leg))
        closed = on_chain.round(key.leg, key.round) if on_chain else None
        if not daemon.up or on_chain is None or local is None or closed is None or closed.void or closed.verified:
            return None
        if not is_place(place, get_extents(on_chain, closed), closed.stopped):
            return None
        if not daemon.behaviour.serves_challenger(daemon, caller):
            return None
        panels = (about.panel for about in daemon.view.panels.values() if isinstance(about, OwnPanel))
        leg = on_chain.leg(key.leg)
        compares = leg is not None and compares_ends(leg, place)
        if shows_open_result(panels, key, place, with_end=compares) or not self._watched.ask(caller, key, place):
            return not_ready(ASK_MS)
        daemon.wake()
        return audit_opening(local, key.round, place, with_end=compares)

    # States of earlier legs

    def get_states(self, order_id: bytes, leg: int) -> tuple[StateRef, ...] | None:
        """Return the states that the last verified round of a leg left, as far as they are here."""
        daemon = self.daemon
        on_chain = daemon.view.orders.get(order_id)
        source = on_chain.leg(leg) if on_chain else None
        if not daemon.up or on_chain is None or source is None:
            return None
        known: dict[bytes, StateRef] = {}
        for key, local in daemon.records.items():
            if isinstance(key, LegKey) and isinstance(local, LocalOrder) and key.order_id == order_id:
                known |= {state.root: state for state in (*states_of(local), *local.fetched)}
        return tuple(known[root] for root in served_roots(on_chain, source) if root in known)

    def offer_states(self, order_id: bytes, states: tuple[StateRef, ...]) -> bool | None:
        """Take the states that a consumer kept, for a leg that starts from them, or for a seat that looks for them."""
        daemon = self.daemon
        on_chain = daemon.view.orders.get(order_id)
        current = on_chain.current if on_chain else None
        if not daemon.up or current is None:
            return None
        key = LegKey(order_id, current.number)
        if current.validator != daemon.me:
            key = LegKey(order_id, current.from_leg)
            if daemon.me not in daemon.view.finders.get(key, ()):
                return None
        if daemon.leg(key) is None:
            return None
        daemon.change(key, lambda now: replace(now, offered=states))
        return True

    # Payloads

    def offer_payload(self, order_id: bytes, files: tuple[PayloadFile, ...]) -> bool | None:
        """Take the payload of an order that waits for it; tell whether it is here."""
        daemon = self.daemon
        on_chain = daemon.view.orders.get(order_id)
        current = on_chain.current if on_chain else None
        if not daemon.up or current is None or current.validator != daemon.me:
            return None
        key = LegKey(order_id, current.number)
        local = daemon.leg(key)
        if local is None or current.state is not LegState.MATCHED:
            return None
        if local.payload.stage in (PayloadStage.ABSENT, PayloadStage.OFFERED):
            daemon.change(key, lambda now: receive.payload_complete(receive.payload_offered(now, files)))
        return True
