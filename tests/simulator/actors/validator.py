"""A validator: its real decisions, and a shell around them without sockets, disks or tensors.

What is under way when it crashes is lost; its records come back from their bytes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from domain.block import TxResult
from domain.codec import decode, encode
from domain.events import ShareSkipped, changes_of
from domain.messages import Message, MsgCommitTraces
from domain.queries import (
    DutiesRequest,
    OrderResponse,
    PanelDutiesRequest,
    ProviderRequest,
    ProvidersRequest,
    ValidatorsRequest,
)
from domain.reasons import AttemptEnd, ShareReason
from domain.records import AssignmentState, OrderState, RoundKey, ShareKey
from link.types import (
    Machine,
    OpeningSubmission,
    OpenTask,
    PayloadFile,
    ShareDelivery,
    ShareSubmission,
    TrainTask,
    Verdict,
)
from pol.rules.commitment import boundary_root, update_claim
from pol.rules.schedule import segment_work, trial_work
from pol.work.trials import Trial, TrialTimes
from tests.simulator.actors.auditor import Auditor, held
from tests.simulator.behaviours import HonestValidator
from tests.simulator.clock import Alarm
from tests.simulator.training import (
    METRICS,
    Job,
    States,
    next_state,
    root_of,
    update_of,
)
from tests.support.chain_harness import CHAIN_ID
from tests.support.chain_market import digest
from validator.decide import actions as do
from validator.decide import receive
from validator.decide.actions import Action
from validator.decide.duties import Duty, Record, Upkeep, decide, duties
from validator.decide.plan import Worker
from validator.decide.probe import Measured
from validator.decide.records import (
    AttemptKey,
    CheckedSegment,
    LocalOrder,
    LocalUpkeep,
    PayloadStage,
    SealedResult,
    SlotWork,
    accepted_works,
    find_round,
    find_share,
    new_order,
    seat_key,
)
from validator.decide.rounds import aggregated
from validator.decide.tasks import open_tasks, train_tasks
from validator.decide.traces import metrics_at
from validator.decide.trial import judged
from validator.decide.view import ChainView, Look
from validator.observer import member_of
from validator.serve.callers import Asking, Presence

if TYPE_CHECKING:
    from tests.simulator.world import World

GAP_MS = 150
"""Between two looks, whoever wakes it."""
WHOLE_MS = 2_000
LOST_MS = 4_000
"""Until a transaction whose result was lost is asked for again."""
PAUSE_MS = 200
PROBE_MS = 1_500
"""How long a provider is measured."""
PROCESSES = 2
"""In which a validator replays."""


@dataclass
class Errands:
    """What is under way, by key, and when each may be asked for again."""

    busy: dict[str, None] = field(default_factory=dict)
    pauses: dict[str, int] = field(default_factory=dict)

    def begin(self, key: str, now: int) -> bool:
        if key in self.busy or now < self.pauses.get(key, 0):
            return False
        self.busy[key] = None
        return True

    def end(self, key: str, now: int, pause: int = PAUSE_MS) -> None:
        self.busy.pop(key, None)
        self.pauses[key] = now + pause


class ValidatorActor:
    """A validator's daemon, from crash to crash."""

    def __init__(
        self, world: "World", me: str, behaviour: HonestValidator, speed: int = 10**9
    ) -> None:
        self.world, self.me, self.behaviour, self.speed = world, me, behaviour, speed
        self.records: dict[Duty, Record] = {}
        self._meet()
        self.auditor = Auditor(self)
        self.errands = Errands()
        self.life = 0  # what began in an earlier one ends in nothing
        self.since: int | None = None
        self.down_until = 0
        self.view = ChainView(0, {}, {}, {})
        self.fragile: list[
            int
        ] = []  # the next crashes, in the middle of a look: after so many steps
        self.alarm = Alarm(world.clock, self.look)
        self._whole_at = self._looked_at = -(10**9)
        # Transactions by the keys of their actions, with their lanes; one is under way.
        self._queues: dict[do.Lane, list[tuple[str, tuple[Message, ...]]]] = {}
        self._under_way: tuple[do.Lane, str, tuple[Message, ...]] | None = None
        # The global states that delivered shares start from.
        self._openings: dict[ShareKey, bytes] = {}

    # Life

    @property
    def up(self) -> bool:
        return self.world.clock.now >= self.down_until

    def crash(self, seconds: int) -> None:
        """Lose everything but what can be written down; a transaction that is under way is in a block or not."""
        self.life += 1
        self.errands, self._queues, self._under_way = Errands(), {}, None
        self.records = {
            duty: decode(type(record), encode(record))
            for duty, record in self.records.items()
            if not isinstance(record, LocalUpkeep)
        }
        self._meet()
        self.auditor.crash()
        self.view, self.since = ChainView(0, {}, {}, {}), None
        self.down_until = self.world.clock.now + 1000 * seconds
        self._whole_at = -(10**9)
        self.world.crashes += 1
        self.wake(1000 * seconds)

    def _meet(self) -> None:
        """Know nobody yet."""
        self.presence = Presence(lambda: self.world.clock.seconds)
        self.asking = Asking(now=lambda: self.world.clock.seconds)
        self._measured: dict[str, Measured] = {}

    def wake(self, delay: int = 0) -> None:
        """See to it that it looks soon."""
        gap = self._looked_at + GAP_MS - self.world.clock.now
        self.alarm.within(max(delay, gap, self.down_until - self.world.clock.now))

    def later(self, delay: int, act: Callable[[], None]) -> None:
        """Do something after a while, unless it crashes."""
        life = self.life
        self.world.clock.after(delay, lambda: act() if life == self.life else None)

    # Records

    def attempt(self, key: AttemptKey) -> LocalOrder | None:
        local = self.records.get(key)
        return local if isinstance(local, LocalOrder) else None

    def change(self, key: AttemptKey, change: Callable[[LocalOrder], LocalOrder | None]) -> None:
        now = self.attempt(key)
        if now is not None:
            self.records[key] = change(now) or now
            self.wake()

    def _all(self) -> Iterator[tuple[LocalOrder, OrderResponse]]:
        """Yield the records whose orders are in view."""
        for key, local in list(self.records.items()):
            if isinstance(key, AttemptKey) and isinstance(local, LocalOrder):
                on_chain = self.view.orders.get(key.order_id)
                if on_chain is not None:
                    yield local, on_chain

    # Looking

    def look(self) -> None:
        """Decide about every duty, and start what is asked for."""
        if not self.up:
            return
        self._looked_at = self.world.clock.now
        self.view = self._see()
        if self.since is None:
            self.since = self.view.clock
        look = self._look()
        for duty in list(duties(look)):
            if not self.behaviour.attends(self, duty):
                continue
            if self._breaks():
                return
            after, wanted = decide(duty, self.records.get(duty) or self._known(duty), look)
            if after is not None:
                self.records[duty] = after
            if self._breaks():  # after the record was written, before anything was begun
                return
            for action in wanted:
                self._start(action)

    def _breaks(self) -> bool:
        """Tell whether it crashes at this moment of a look."""
        if not self.fragile:
            return False
        self.fragile[0] -= 1
        if self.fragile[0] > 0:
            return False
        self.fragile.pop(0)
        self.crash(1 + self.world.dice(3))
        return True

    def _known(self, duty: Duty) -> Record | None:
        return LocalUpkeep(published=True) if isinstance(duty, Upkeep) else None

    def _see(self) -> ChainView:
        """Look at the chain as a daemon's observer does; now and then its node is a block behind with an order."""
        world, before = self.world, self.view
        found = world.ask(DutiesRequest(self.me))
        wanted = {assignment.order_id for assignment in found.assignments}
        now = world.clock.now
        whole = now >= self._whole_at
        providers, validators = before.providers, before.validators
        if whole:
            self._whole_at = now + WHOLE_MS
            wanted |= {key.order_id for key in self.records if isinstance(key, AttemptKey)}
            members = world.ask(ProvidersRequest(self.me, 100, "")).providers
            providers = {p.address: member_of(p, found.clock) for p in members if p.admitted}
            validators = {v.operator: v for v in world.ask(ValidatorsRequest()).validators}
        orders = {} if whole else dict(before.orders)
        for order_id in sorted(wanted):
            old = before.orders.get(order_id)
            lags = old is not None and world.lags()
            orders[order_id] = old if old is not None and lags else world.order(order_id)
        for order_id, on_chain in orders.items():
            for assignment in on_chain.assignments:
                key = AttemptKey(order_id, assignment.attempt)
                live = on_chain.order.state != OrderState.CLOSED
                if assignment.validator == self.me and live and key not in self.records:
                    self.records[key] = new_order(*_parts(key))
        seats = {seat_key(duty): duty for duty in world.ask(PanelDutiesRequest(self.me)).duties}
        return ChainView(
            found.clock,
            orders,
            validators,
            providers,
            self.auditor.own_panels(orders, found.clock),
            seats,
            self.auditor.read_subjects(seats),
            whole,
            frozenset(name for name in self.asking.names() if self._asks(name)),
        )

    def _asks(self, address: str) -> bool:
        known = self.world.ask(ProviderRequest(address)).provider
        return known is not None and known.validator == self.me and not known.admitted

    def _look(self) -> Look:
        own = self.view.validators.get(self.me)
        return Look(
            self.view,
            self.me,
            CHAIN_ID,
            sha256(self.me.encode()).digest(),
            self.since or 0,
            self.workers(),
            self.presence.machines(),
            own.endpoint if own else "",
            own.certificate if own else b"",
            held(self.records),
            tuple(self.errands.busy),
            tuple(found for name, found in sorted(self._measured.items()) if self._is_due(name)),
        )

    def _is_due(self, address: str) -> bool:
        member = self.view.providers.get(address)
        return address in self.view.applicants if member is None else member.due

    def workers(self) -> tuple[Worker, ...]:
        """Return the providers that poll and have a certified speed, as the service does."""
        known = self.view.providers
        return tuple(
            Worker(address, known[address].speed, known[address].newcomer)
            for address in self.presence.live()
            if address in known and known[address].speed
        )

    # Doing

    def _start(self, action: Action) -> None:
        if isinstance(action, do.NoteVerdicts | do.Tidy | do.Clean):
            return
        match action:
            case do.Forget(attempt=attempt):
                self.records.pop(attempt, None)
                return
            case do.EndSeat(seat=seat):
                self.records.pop(seat, None)
                return
            case do.SendTx(key=key, messages=messages):
                self._send(do.Lane.TX, key, messages)
                return
            case do.SendAnswer(key=key, message=message):
                self._send(do.Lane.ANSWER, key, (message,))
                return
        begun = self.errands.begin(action.key, self.world.clock.now)
        if begun and not self.auditor.start(action):
            self.later(self._duration(action), partial(self._finish, action))

    def _finish(self, action: Action) -> None:
        self.finished(action.key)
        self._numeric(action)
        self.wake()

    def finished(self, key: str, pause: int = PAUSE_MS) -> None:
        self.errands.end(key, self.world.clock.now, pause)

    def _duration(self, action: Action) -> int:
        """Return the milliseconds of what the pool does."""
        work = 0
        if isinstance(action, do.CheckSegment | do.Recompute):
            terms = self.world.job(action.share.order_id).terms
            work = segment_work(terms) * (action.index if isinstance(action, do.Recompute) else 1)
        if isinstance(action, do.TryJob):
            work = trial_work(action.order.terms)
        return 20 + self.world.dice(100) + work * 1000 // self.speed

    def _send(self, lane: do.Lane, key: str, messages: tuple[Message, ...]) -> None:
        """Send a transaction when those before it in its lane are through: one is under way at a time of all lanes.

        What its result says comes later, or never.
        """
        messages = self.behaviour.sends(self, messages)
        if messages and self.errands.begin(key, self.world.clock.now):
            self._queues.setdefault(lane, []).append((key, messages))
            self._send_next()

    def _send_next(self, last: do.Lane | None = None) -> None:
        """Send what waits, if nothing is under way: of the lanes that wait not the last one again."""
        waiting = sorted((lane == last, lane) for lane, queue in self._queues.items() if queue)
        if self._under_way is not None or not waiting:
            return
        _, lane = waiting[0]
        key, messages = self._queues[lane].pop(0)
        self._under_way = lane, key, messages
        self.later(LOST_MS, partial(self._sent, self._under_way, None))
        take = partial(self._sent, self._under_way)
        life = self.life
        self.world.submit(messages, lambda result: take(result) if life == self.life else None)

    def _sent(
        self, sent: tuple[do.Lane, str, tuple[Message, ...]], result: TxResult | None
    ) -> None:
        lane, key, messages = sent
        if self._under_way is sent:
            self._under_way = None
            self.finished(key)
            self._send_next(lane)
        if result is not None:
            self._receipt(messages, result)
        self.wake()

    def _receipt(self, messages: tuple[Message, ...], result: TxResult) -> None:
        """Take note of what a transaction did."""
        for message in messages:
            if result.code or not isinstance(message, MsgCommitTraces):
                continue
            attempt = AttemptKey(message.order_id, message.attempt)
            on_chain = self.world.order(message.order_id)
            for change in changes_of(ShareSkipped, result.events):
                skip = partial(receive.share_skipped, on_chain=on_chain, skipped=change)
                self.change(attempt, skip)

    # Serving: what a call does, None where nobody is there or it is not allowed

    def join(self, provider: str, machine: Machine) -> bool | None:
        """Take a member into work; somebody who asks to be one is measured first."""
        if not self.up:
            return None
        member = provider in self.view.providers
        if not member and not self.asking.hear(provider):
            return False
        if member or provider in self.view.applicants:
            self.presence.join(provider, machine)
            self._probe(provider)
        self.wake()
        return member

    def _probe(self, provider: str) -> None:
        """Measure a provider whose speed the chain does not know: what is found is what it does."""
        if not self._is_due(provider) or not self.errands.begin(
            f"probe/{provider}", self.world.clock.now
        ):
            return
        speed = self.world.providers[provider].speed

        def measured() -> None:
            self._measured[provider] = Measured(provider, speed, 10**8, b"", (), sure=True)
            self.finished(f"probe/{provider}")
            self.wake()

        self.later(PROBE_MS, measured)

    def poll(self, provider: str) -> tuple[list[TrainTask], list[OpenTask]] | None:
        if not self.up or provider not in self.view.providers:
            return None
        self.presence.poll(provider)
        self._probe(provider)
        train: list[TrainTask] = []
        opening: list[OpenTask] = []
        for local, on_chain in self._all():
            if on_chain.order.state != OrderState.CLOSED:
                train += train_tasks(local, on_chain, provider, self.view.clock)
                opening += open_tasks(local, on_chain, self.view.panels, provider)
        return train, opening

    def submit_share(self, submission: ShareSubmission) -> Verdict | None:
        claim = submission.claim
        attempt = AttemptKey(claim.order_id, claim.attempt)
        local = self.attempt(attempt)
        if not self.up or local is None:
            return None
        if receive.late_share(local, submission):
            self.change(attempt, lambda now: receive.mark_late(now, submission))
            return Verdict(False, int(ShareReason.LATE), "late")
        after, reason = receive.share_received(local, submission, lambda: True)
        self.change(attempt, lambda _: after)
        return Verdict(reason == ShareReason.NONE, int(reason), reason.name.lower())

    def deliver_share(self, provider: str, packet: ShareDelivery) -> Verdict | None:
        key = packet.key
        attempt = AttemptKey(key.order_id, key.attempt)
        local = self.attempt(attempt)
        if not self.up or local is None:
            return None
        current = find_round(local, key.round)
        if current is not None:
            self._openings[key] = current.global_in.root
        terms = self.world.job(key.order_id).terms
        after, reason = receive.share_delivered(local, terms, CHAIN_ID, provider, packet)
        self.change(attempt, lambda _: after)
        return Verdict(reason == ShareReason.NONE, int(reason), reason.name.lower())

    def submit_opening(self, provider: str, opening: OpeningSubmission) -> Verdict | None:
        key = opening.key
        attempt = AttemptKey(key.order_id, key.attempt)
        local, on_chain = self.attempt(attempt), self.view.orders.get(key.order_id)
        if not self.up or local is None or on_chain is None:
            return None
        tasks = open_tasks(local, on_chain, self.view.panels, provider)
        wanted = {task.key: task.indices for task in tasks}
        if opening.index not in wanted.get(key, ()):
            return Verdict(False, 0, "not wanted (any more)")
        after = receive.opening_received(local, opening)
        if after is None:
            return Verdict(False, int(ShareReason.OPENING_MISMATCH), "not the size of the job's")
        self.change(attempt, lambda _: after)
        return Verdict(True)

    def offer_payload(self, order_id: bytes, files: tuple[PayloadFile, ...]) -> bool | None:
        """Take the payload of an order that waits for it; tell whether it is here."""
        on_chain = self.view.orders.get(order_id)
        current = on_chain.current if on_chain else None
        if not self.up or current is None or current.validator != self.me:
            return None
        key = AttemptKey(order_id, current.attempt)
        local = self.attempt(key)
        if local is None or current.state is not AssignmentState.MATCHED:
            return None
        if local.payload.stage in (PayloadStage.ABSENT, PayloadStage.OFFERED):
            self.change(
                key, lambda now: receive.payload_complete(receive.payload_offered(now, files))
            )
        return True

    # Numerics

    def _numeric(self, action: Action) -> None:
        match action:
            case do.TryJob(attempt=attempt):
                trial = self._tried(action)
                self.change(attempt, lambda now: receive.job_tried(now, action.order.terms, trial))
            case do.CheckSegment() | do.VerifyOpening() | do.Recompute():
                self._on_share(action)
            case do.Aggregate(round=key):
                self._aggregate(AttemptKey(key.order_id, key.attempt), key.round)
            case do.Seal(round=key):
                attempt, result = AttemptKey(key.order_id, key.attempt), self._sealed(key)
                self.change(attempt, lambda now: receive.sealed(now, key.round, result))

    def _tried(self, action: do.TryJob) -> Trial:
        """Return what a trial of a job finds, whose times are those of its work."""
        job = self.world.job(action.attempt.order_id)
        if job.breaks(0):
            return Trial(decline=AttemptEnd.DECLINED_NOT_FINITE, text="no number")
        segment, outer = (
            work * 10**6 // self.speed for work in (segment_work(job.terms), job.terms.outer_work)
        )
        trial = Trial(job.terms, TrialTimes(segment, outer, self.speed))
        clock = self.world.chain_clock
        return judged(trial, action.order, action.assignment, clock, PROCESSES)

    def _aggregate(self, attempt: AttemptKey, round: int) -> None:
        local = self.attempt(attempt)
        current = find_round(local, round) if local else None
        if current is None:
            return
        updates = [w.packet.blobs[0].sha256 for w in accepted_works(current) if w.packet]
        root = self.behaviour.aggregate(self, next_state(current.global_in.root, updates))
        state = self.world.job(attempt.order_id).state(root)
        self.change(attempt, lambda now: aggregated(now, round, state))

    def _sealed(self, key: RoundKey) -> SealedResult:
        job = self.world.job(key.order_id)
        chunks = job.terms.result_chunks
        return SealedResult(
            digest("ciphertext", key),
            job.blob(digest("sealed", key)),
            tuple(bytes(33) for _ in range(chunks)),
            (1,) * chunks,
            tuple(bytes(32) for _ in range(chunks)),
        )

    def _on_share(self, action: do.CheckSegment | do.VerifyOpening | do.Recompute) -> None:
        key = action.share
        attempt, job = AttemptKey(key.order_id, key.attempt), self.world.job(key.order_id)
        local = self.attempt(attempt)
        work = find_share(local, key) if local else None
        if work is None or work.packet is None:
            return
        match action:
            case do.CheckSegment(segment=segment):
                checked = self.behaviour.finds(self, key, self._check(job, work, segment))
                self.change(attempt, partial(receive.segment_checked, key=key, checked=checked))
            case do.VerifyOpening(index=index):
                if index not in {opening.index for opening in work.openings}:
                    return
                holds = self._root(work, index) == self._leaf(work, index)
                self.change(
                    attempt, partial(receive.opening_verified, key=key, index=index, holds=holds)
                )
            case do.Recompute(index=index):
                states = self._recompute(job, work, index)
                blobs = (job.blob(states[0]), job.local_blob(states[1]))
                right = root_of(states) == self._leaf(work, index)
                found = blobs if right else None
                self.change(
                    attempt, partial(receive.state_recomputed, key=key, index=index, states=found)
                )

    def _states(self, work: SlotWork, index: int) -> States:
        assert work.packet is not None
        if index == 0:
            return self._openings[work.packet.key], work.local_in.root
        held = next(opening for opening in work.openings if opening.index == index)
        return held.global_state.sha256, held.local_state.sha256

    def _root(self, work: SlotWork, index: int) -> bytes:
        assert work.packet is not None
        return boundary_root(*self._states(work, index), metrics_at(work.packet, index))

    def _leaf(self, work: SlotWork, index: int) -> bytes:
        assert work.packet is not None
        if index == 0:
            return boundary_root(*self._states(work, 0))
        return work.packet.boundaries[index - 1].boundary_root

    def _check(self, job: Job, work: SlotWork, segment: int) -> CheckedSegment:
        packet = work.packet
        assert packet is not None
        roots, key = packet.roots, packet.key
        if self._root(work, segment) != self._leaf(work, segment):
            return CheckedSegment(segment, ShareReason.OPENING_MISMATCH, b"")
        states = self._states(work, segment)
        if segment == len(packet.boundaries):
            update = update_of(self._openings[key], states[0])
            root = update_claim(update, states[1])
            if root != update_claim(roots.update_root, roots.local_out):
                return CheckedSegment(segment, ShareReason.UPDATE_MISMATCH, root)
            sent = tuple(blob.sha256 for blob in packet.blobs)
            fits = sent == (roots.update_root, roots.local_out)
            reason = ShareReason.NONE if fits else ShareReason.MALFORMED
            return CheckedSegment(segment, reason, root)
        root = boundary_root(*job.train(states, key.round, key.slot, segment), METRICS)
        if root != self._leaf(work, segment + 1):
            return CheckedSegment(segment, ShareReason.SEGMENT_MISMATCH, root)
        return CheckedSegment(segment, ShareReason.NONE, root)

    def _recompute(self, job: Job, work: SlotWork, index: int) -> States:
        assert work.packet is not None
        key = work.packet.key
        start = max((o.index for o in work.openings if o.verified and o.index < index), default=0)
        states = self._states(work, start)
        for segment in range(start, index):
            states = job.train(states, key.round, key.slot, segment)
        return states


def _parts(key: AttemptKey) -> tuple[bytes, int]:
    return key.order_id, key.attempt
