"""A validator's seats in panels about others' rounds, and its own rounds that others have seats about.

Everything that depends on how panels go stands here; the validator knows no more than that there are such actions.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from chain.state_machine.proof.tables import PANEL_DUTIES, PANEL_POTS, SEATS
from chain.state_machine.tables import Space, number_of
from domain.keys import PanelKey
from domain.limits import SLOTS_MAX
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse, PanelRequest, PanelResponse, SeatsRequest
from domain.proof.records import AnswerKind, AuditKind, Panel, PanelSeat, SeatAnswer
from link.handover import seal_chunk
from link.types import AuditOpening, BlobRef, ChunkOpening, OpenedState, not_ready
from localnet.simulator.behaviours import Asked, say
from localnet.simulator.chain import LiveChain
from localnet.simulator.memory_chain import digest
from localnet.simulator.replay import recompute, stop_step_of
from localnet.simulator.training import LOCAL_CHUNK
from pol.rules.panels import place_work
from pol.rules.tiers.remarks import write_remarks
from pol.rules.tiers.table import tier_named
from validator.decide import actions as do
from validator.decide.actions import Action
from validator.decide.records import (
    Compared,
    FoundResult,
    LegKey,
    LocalSeat,
    Recomputed,
    SealedResult,
    SeatKey,
    Sizes,
    finished,
    new_order,
)
from validator.decide.retention import needed_blobs
from validator.decide.seats import (
    blob_awaited,
    job_loaded,
    may_see_end,
    opening_arrived,
    place_recomputed,
    place_shown,
    serves_end,
    serves_later,
    states_compared,
)
from validator.decide.tasks import audit_opening
from validator.decide.view import OwnPanel
from validator.watch.places import get_claim

if TYPE_CHECKING:
    from localnet.simulator.actors.validator import ValidatorActor

ASK_MS = 300
LEFT: tuple[Space, ...] = (PANEL_POTS, PANEL_DUTIES)
"""The tables that are empty when all orders are closed."""


def held(records: Iterable[object]) -> tuple[SeatKey, ...]:
    """Return the seats that there are records of."""
    return tuple(duty for duty in records if isinstance(duty, SeatKey))


def seats_changed(chain: LiveChain) -> Iterator[PanelSeat]:
    """Yield the seats that the last block changed."""
    store = chain.overlay()
    for order_id, *numbers in chain.changed_in(SEATS):
        yield SEATS.must(store, order_id, *map(number_of, numbers))


class Auditor:
    """One validator as an auditor, and as the one who is audited."""

    def __init__(self, daemon: "ValidatorActor") -> None:
        self.daemon = daemon
        # The seats that will say that a claim is within the thresholds of what they computed, or pretend to have. A
        # real daemon compares the files that it kept.
        self._vouches: set[tuple[SeatKey, int]] = set()
        self.crash()

    def crash(self) -> None:
        """Forget what was read."""
        self._subjects: dict[SeatKey, PanelResponse] = {}
        self._panels: dict[PanelKey, OwnPanel] = {}

    # Looking, as the observer does

    def read_subjects(self, seats: Iterable[SeatKey]) -> Mapping[SeatKey, PanelResponse]:
        """Return what seats are about, each read once."""
        known, ask = self._subjects, self.daemon.world.ask
        wanted = {
            key: PanelRequest(order_id=key.order_id, leg=key.leg, round=key.round, dispute=key.dispute, limit=SLOTS_MAX)
            for key in seats
        }
        self._subjects = {key: known.get(key) or ask(request) for key, request in wanted.items()}
        return self._subjects

    def own_panels(self, orders: Mapping[bytes, OrderResponse], clock: int) -> Mapping[PanelKey, OwnPanel]:
        """Return the panels about own rounds that are not over; of decided ones what was read last."""
        known, self._panels = self._panels, {}
        for order_id, on_chain in orders.items():
            if on_chain.order.state is OrderState.CLOSED and not any(p.votes_on_slash for p in on_chain.panels):
                continue
            mine = {a.number for a in on_chain.legs if a.validator == self.daemon.me}
            for closed in on_chain.rounds:
                if closed.leg not in mine or (closed.verified and clock >= closed.window_ends):
                    continue
                for panel in self.daemon.world.order(order_id).panels:
                    if panel.round_key != closed.key:
                        continue
                    before = known.get(panel.key)
                    is_final = before is not None and before.panel.is_decided and not before.panel.awaits_appeal
                    is_known = is_final and not closed.void
                    found = before.panel if before is not None and is_known else panel
                    self._panels[panel.key] = OwnPanel(found, self._seats(found, before))
        return self._panels

    def _seats(self, panel: Panel, before: OwnPanel | None) -> tuple[PanelSeat, ...]:
        """Return the seats of all stages; who sits never changes."""
        if before is not None and len(before.seats) == panel.seats:
            return before.seats
        found: tuple[PanelSeat, ...] = ()
        if panel.seats:
            found = self.daemon.world.ask(SeatsRequest(*panel.key)).seats
        return found

    def earlier_panels(self, seats: Iterable[SeatKey]) -> Mapping[PanelKey, OwnPanel]:
        """Return the undecided panels in which it has or had a seat, as far as seats of two stages matter there."""
        world = self.daemon.world
        open_seats = set(seats)
        wanted = {key.panel for key in held(self.daemon.records) if key not in open_seats}
        wanted |= {key.panel for key in open_seats if key.stage > 1}
        found: dict[PanelKey, OwnPanel] = {}
        for key in sorted(wanted):
            panels = {panel.key: panel for panel in world.order(key.order_id).panels}
            panel = panels.get(key)
            if panel is not None and not panel.is_settled and not panel.is_decided:
                found[key] = OwnPanel(panel, world.ask(SeatsRequest(*key)).seats)
        return found

    # Doing

    def start(self, action: Action) -> bool:
        """Begin an action if it belongs to a seat."""
        daemon, world = self.daemon, self.daemon.world
        match action:
            case do.AskOpening():
                self._ask(action, (action.winner, *action.helpers))
            case do.LoadAudited():
                delay = world.network.delay(action.terms.delivered_bytes) + world.dice(200)
                daemon.later(delay, partial(self._loaded, action))
            case do.ReplayPlace(seat=seat, index=index):
                terms = world.job(seat.order_id).terms
                delay = world.network.delay(terms.global_bytes + terms.local_bytes)
                work = place_work(terms, action.place.kind)
                daemon.later(delay, partial(self._change, seat, _served(index)))
                daemon.later(delay + work * 1000 // daemon.speed, partial(self._replayed, action))
            case do.CompareStates():
                terms = world.job(action.seat.order_id).terms
                delay = (1 + len(action.reviewed)) * world.network.delay(terms.global_bytes + terms.local_bytes)
                daemon.later(delay, partial(self._compared, action))
            case do.FindStates():
                delay = world.network.delay(sum(action.sizes))
                daemon.later(delay, partial(self._found_states, action))
            case do.FindResult():
                delay = world.network.delay(len(LOCAL_CHUNK) * action.layout.count)
                daemon.later(delay, partial(self._found_result, action))
            case do.RebuildChunk():
                daemon.later(world.network.delay(len(LOCAL_CHUNK)), partial(self._rebuilt, action))
            case _:
                return False
        return True

    def _ask(self, action: do.AskOpening, names: tuple[str, ...]) -> None:
        """Ask the first of these validators for an opening, and the others if it has none."""
        daemon, world = self.daemon, self.daemon.world
        other = world.validators[names[0]]
        world.network.call(
            partial(other.auditor.serve, daemon.me, action),
            _if_alive(daemon, partial(self._opened, action, names)),
        )

    def serve(self, caller: str, action: do.AskOpening) -> AuditOpening | None:
        """Answer a seat's question for an opening."""
        daemon, seat = self.daemon, action.seat
        earlier = daemon.view.earlier.get(seat.panel)
        if daemon.up and earlier is not None:
            own = [key for key in held(daemon.records) if key.panel == seat.panel and key not in daemon.view.duties]
            records = (daemon.records[key] for key in own)
            mine = (record for record in records if isinstance(record, LocalSeat))
            openings = (serves_later(record, earlier, caller, action.number) for record in mine)
            return next((opening for opening in openings if opening is not None), None)
        local = daemon.leg(LegKey(seat.order_id, seat.leg))
        if not daemon.up or local is None or not daemon.behaviour.serves(daemon, caller):
            return None
        about, on_chain = daemon.view.panels.get(seat.panel), daemon.view.orders.get(seat.order_id)
        if not isinstance(about, OwnPanel) or on_chain is None:
            return not_ready(ASK_MS)
        known = any(s.validator == caller and action.number in s.places for s in about.seats)
        if not known or action.number >= len(about.panel.places):
            return not_ready(ASK_MS)
        place = about.panel.places[action.number].place
        if place.kind is AuditKind.HANDOVER:
            leaf = daemon.world.sealed[seat.panel.round_key][place.chunk].leaf
            opened = ChunkOpening(leaf=leaf, path=(), scalar=bytes(32), data=LOCAL_CHUNK, state_path=())
            return replace(not_ready(0), ready=True, chunk=opened)
        opening = audit_opening(local, seat.round, place)
        if opening.ready:
            kept = needed_blobs(local, on_chain, daemon.view.panels, daemon.view.clock)
            for state in opening.states:  # what is served is what is kept
                assert {state.global_state.sha256, state.local_state.sha256} <= kept
        return opening

    def take_shown(self, panel: PanelKey, number: int, opening: AuditOpening) -> bool | None:
        """Take the opening of a place from the provider that stands for its share."""
        if not self.daemon.up:
            return None
        own = [key for key in held(self.daemon.records) if key.panel == panel and key in self.daemon.view.duties]
        for key in own:
            self._change(key, partial(place_shown, number=number, opening=opening))
        return bool(own)

    def _change(self, key: SeatKey, change: "partial[LocalSeat]") -> None:
        seat = self.daemon.records.get(key)
        if isinstance(seat, LocalSeat):
            self.daemon.records[key] = change(seat)
            self.daemon.wake()

    def _opened(self, action: do.AskOpening, names: tuple[str, ...], opening: AuditOpening | None) -> None:
        if (opening is None or not opening.ready) and len(names) > 1:
            self._ask(action, names[1:])
            return
        self.daemon.finished(action.key, ASK_MS)
        if opening is not None and opening.ready:
            helper = "" if names[0] == action.winner else names[0]
            arrived = partial(opening_arrived, index=action.index, opening=opening, helper=helper)
            self._change(action.seat, arrived)
        self.daemon.wake(ASK_MS)

    def _loaded(self, action: do.LoadAudited) -> None:
        self.daemon.finished(action.key)
        terms = self.daemon.world.job(action.seat.order_id).terms
        sizes = Sizes(terms.global_bytes, terms.local_bytes, terms.update_bytes)
        loaded = partial(job_loaded, ordered=action.terms, terms=terms, sizes=sizes, text="")
        self._change(action.seat, loaded)

    def _replayed(self, action: do.ReplayPlace) -> None:
        self.daemon.finished(action.key)
        seat = self.daemon.records.get(action.seat)
        if isinstance(seat, LocalSeat):
            found = self._recomputed(seat, action)
            compares = action.place.kind is AuditKind.SEGMENT and tier_named(action.tier).hardware
            kept = self._kept(action, found) if compares and not found.fault else None
            self._change(action.seat, partial(place_recomputed, index=action.index, found=found, kept=kept))

    def _kept(self, action: do.ReplayPlace, found: Recomputed) -> OpenedState:
        """Return the end states of a segment that this validator computed, or pretends to have computed."""
        job = self.daemon.world.job(action.seat.order_id)
        state = job.blob(found.digest)
        return OpenedState(index=action.place.segment + 1, global_state=state, local_state=state, metrics=())

    def _compared(self, action: do.CompareStates) -> None:
        """Compare the end states of a segment, which are served as in the real daemons, with this validator's own."""
        daemon, world = self.daemon, self.daemon.world
        daemon.finished(action.key, ASK_MS)
        seat = daemon.records.get(action.seat)
        place = seat.places[action.index] if isinstance(seat, LocalSeat) else None
        if place is None or place.found is None:
            return
        winner = world.validators[action.winner]
        if action.claim and not action.shown and not winner.auditor.serves_end_to(daemon.me, action):
            daemon.wake(ASK_MS)
            return
        roots = {
            other: world.validators[other.validator].auditor.end_for(daemon.me, action) for other in action.reviewed
        }
        if b"" in roots.values() and daemon.view.clock < action.ask_until:
            daemon.wake(ASK_MS)
            return
        outside = [other for other, root in roots.items() if root and root != place.found.digest]
        unserved = [other for other, root in roots.items() if not root]
        outside, unserved = daemon.behaviour.remarks(daemon, outside, unserved, action.reviewed)
        remarks = tuple(
            write_remarks(
                [other.number for other in outside if other.stage == stage],
                [other.number for other in unserved if other.stage == stage],
            )
            for stage in range(1, action.stages + 1)
        )
        within = (action.seat, action.index) in self._vouches
        compared = Compared(AnswerKind.WITHIN if within else AnswerKind.OUTSIDE, remarks)
        self._change(action.seat, partial(states_compared, index=action.index, compared=compared))

    def serves_end_to(self, caller: str, action: do.CompareStates) -> bool:
        """Return whether this validator shows a seat the end of a segment of its own round."""
        daemon, about = self.daemon, self.daemon.view.panels.get(action.seat.panel)
        if not daemon.up or not isinstance(about, OwnPanel) or not daemon.behaviour.serves(daemon, caller):
            return False
        return may_see_end(about, caller, action.number, daemon.view.clock)

    def end_for(self, caller: str, action: do.CompareStates) -> bytes:
        """Return the root of the end states that this validator computed for a seat; empty if it shows none."""
        daemon, about = self.daemon, self.daemon.view.earlier.get(action.seat.panel)
        if not daemon.up or about is None or not daemon.behaviour.serves_own(daemon, caller):
            return b""
        own = (
            record
            for key, record in daemon.records.items()
            if isinstance(key, SeatKey) and key.panel == about.panel.key
        )
        for record in own:
            if isinstance(record, LocalSeat):
                end = serves_end(record, about, caller, action.number, daemon.view.clock)
                if end is not None:
                    return end.states[0].global_state.sha256
        return b""

    def _found_states(self, action: do.FindStates) -> None:
        """Take the states that a round left from those who have them, and say so."""
        daemon, world = self.daemon, self.daemon.world
        daemon.finished(action.key, ASK_MS)
        order_id, leg = action.seat.order_id, action.seat.leg
        holders = [world.validators[name] for name in action.sources if name in world.validators]
        key = LegKey(order_id, leg)
        record = daemon.leg(key) or new_order(order_id, leg)
        daemon.records.setdefault(key, record)
        lists = [record.offered, *(holder.service.get_states(order_id, leg) for holder in holders if holder.up)]
        here = {state.root for states in lists for state in states or ()}
        if not here >= set(action.roots):
            daemon.wake(ASK_MS)
            return
        known = {state.root: state for states in lists for state in states or ()}
        if not record.rounds:  # the leg is another validator's
            daemon.records[key] = replace(record, fetched=tuple(known[root] for root in sorted(action.roots)))
        found = finished(action.roots[0], [digest("states", action.seat.panel, seed) for seed in action.seeds])
        subject = self._subjects.get(action.seat)
        winner = subject.validator if subject is not None else ""
        asked = Asked(winner=winner, claimed=action.roots[0], step=0, said=self._said(action.seat, 0))
        says = say(daemon, asked, found)
        self._change(action.seat, partial(place_recomputed, index=action.index, found=says))
        daemon.wake()

    def _found_result(self, action: do.FindResult) -> None:
        """Take the encrypted result of a round from a validator that serves it, and say so."""
        daemon, world = self.daemon, self.daemon.world
        daemon.finished(action.key, ASK_MS)
        key = LegKey(action.seat.order_id, action.seat.leg)
        record = daemon.leg(key) or new_order(key.order_id, key.leg)
        daemon.records.setdefault(key, record)
        where = action.seat.panel.round_key
        holders = [world.validators[name] for name in action.sources if name in world.validators]
        has = any(known.round == where.round for known in record.results)
        if not has and not any(holder.service.get_result(daemon.me, where) for holder in holders):
            daemon.wake(ASK_MS)
            return
        if not has:
            sealed = SealedResult(ciphertext_root=action.root, blob=BlobRef(action.root, 1), leaves=(), state_leaves=())
            results = (*record.results, FoundResult(where.round, sealed))
            daemon.records[key] = replace(record, results=results)
        found = finished(action.root, [digest("result", action.seat.panel, seed) for seed in action.seeds])
        subject = self._subjects.get(action.seat)
        winner = subject.validator if subject is not None else ""
        asked = Asked(winner=winner, claimed=action.root, step=0, said=self._said(action.seat, 0))
        says = say(daemon, asked, found)
        self._change(action.seat, partial(place_recomputed, index=action.index, found=says))
        daemon.wake()

    def _rebuilt(self, action: do.RebuildChunk) -> None:
        """Encrypt a chunk of a local state again, for real, and record what this validator says of it."""
        self.daemon.finished(action.key)
        seat = self.daemon.records.get(action.seat)
        opening = seat.places[action.index].opening if isinstance(seat, LocalSeat) else None
        if not isinstance(seat, LocalSeat) or opening is None or opening.chunk is None:
            return
        asked, world = action.asked, self.daemon.world
        subject = self._subjects[action.seat]
        winner = world.validators[subject.validator]
        right = seal_chunk(asked.handover, action.chunk, LOCAL_CHUNK, asked.order_key, winner.secret)
        root = asked.root if right.leaf == opening.chunk.leaf else digest("rebuilt", asked.root, action.chunk)
        found = finished(root, [digest("work", action.seat.panel, action.chunk, seed) for seed in action.seeds])
        said = self._said(action.seat, seat.duty.places[action.index].number)
        found = say(self.daemon, Asked(winner=subject.validator, claimed=asked.root, step=0, said=said), found)
        self._change(action.seat, partial(place_recomputed, index=action.index, found=found))

    def _recomputed(self, seat: LocalSeat, action: do.ReplayPlace) -> Recomputed:
        """Return what this validator says that recomputing a place gives."""
        daemon, place, round = self.daemon, action.place, action.seat.round
        opening, job = seat.places[action.index].opening, daemon.world.job(action.seat.order_id)
        assert opening is not None
        made = [digest("work", action.seat.panel, place, seed) for seed in action.seeds]
        found = recompute(job, round, place, opening, action.shares, action.global_in, made)
        subject = self._subjects.get(action.seat)
        claimed = get_claim(subject.round, action.shares, place, opening) if subject is not None else found.root
        said = self._said(action.seat, seat.duty.places[action.index].number)
        asked = Asked(winner=action.winner, claimed=claimed, step=stop_step_of(job, round, place), said=said)
        says = say(daemon, asked, found)
        if says is found:  # who says something else need not compute it
            daemon.worked += place_work(job.terms, place.kind)
        if place.kind is AuditKind.SEGMENT and tier_named(action.tier).hardware and not says.fault:
            return self._own_end(action, asked, found, says)
        return says

    def _own_end(self, action: do.ReplayPlace, asked: Asked, found: Recomputed, says: Recomputed) -> Recomputed:
        """Return the end states to which this validator commits, and note what it will say of the provider's.

        Who has not computed has a state that no one else has.
        """
        is_claim = says.root == asked.claimed if asked.claimed else says.kind is AnswerKind.STOPPED
        if is_claim and (asked.claimed or says.step == asked.step):
            self._vouches.add((action.seat, action.index))
        own = found.root or digest("stopped", action.place, found.step)
        if says is not found:
            own = digest("pretended", self.daemon.me, action.seat, action.index)
        stops = found.kind is AnswerKind.STOPPED
        return Recomputed(fault="", kind=AnswerKind.OUTSIDE, root=b"", digest=own, stopped=stops)

    def _said(self, key: SeatKey, place: int) -> tuple[SeatAnswer, ...]:
        """Return what others said of a place on chain, for all to read."""
        seats = self.daemon.world.ask(SeatsRequest(*key.panel)).seats
        answers = (seat.answer(place) for seat in seats)
        return tuple(answer for answer in answers if answer is not None)


def _served(index: int) -> "partial[LocalSeat]":
    return partial(blob_awaited, index=index, blob=b"")


def _if_alive(daemon: "ValidatorActor", act: "partial[None]") -> "partial[None]":
    """Return what calls ``act`` unless the daemon crashed since now."""
    return partial(_only_in, daemon, daemon.life, act)


def _only_in(daemon: "ValidatorActor", life: int, act: "partial[None]", answer: object) -> None:
    if daemon.life == life:
        act(answer)
