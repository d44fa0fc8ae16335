"""A world without sockets, disks or tensors: the real state machine, real decisions, made-up training.

A state is a digest, a step of training is a hash, and so every root that the real numerics would compute has its like
here: what is compared with what is the real thing. Time goes from block to block. Validators may crash at any moment:
whatever was under way is lost, and their record comes back from its bytes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from random import Random

from domain.block import TxResult
from domain.codec import decode, encode
from domain.events import ShareSkipped, changes_of
from domain.messages import Message, MsgCommitTraces
from domain.params import Params
from domain.queries import (
    OrderRequest,
    OrderResponse,
    PanelDutiesRequest,
    PanelRequest,
    PanelResponse,
    SeatsRequest,
)
from domain.reasons import ShareReason
from domain.records import (
    AnswerKind,
    AuditKind,
    JobTerms,
    OrderState,
    Panel,
    PanelSeat,
    RoundKey,
    ShareClaim,
    ShareKey,
    ShareRoots,
)
from link.types import (
    AuditOpening,
    BlobRef,
    OpeningSubmission,
    PayloadFile,
    ShareDelivery,
    ShareSubmission,
    StateRef,
    TraceBoundary,
    TrainTask,
)
from pol.rules.commitment import (
    boundary_root,
    compute_trace_root,
    share_commitment,
    share_sign_bytes,
    update_claim,
)
from pol.rules.schedule import batch_number, first_step, share_segments
from pol.work.trials import Trial
from tests.support.chain_harness import CHAIN_ID, pub_key, sign
from tests.support.chain_market import Market, digest
from validator.decide import actions as do
from validator.decide import receive
from validator.decide.actions import Action
from validator.decide.duties import Duty, Record, Upkeep, decide, duties
from validator.decide.plan import Worker
from validator.decide.records import (
    AttemptKey,
    CheckedSegment,
    LocalOrder,
    LocalSeat,
    LocalUpkeep,
    Recomputed,
    SealedResult,
    SeatKey,
    Sizes,
    SlotWork,
    accepted_works,
    find_round,
    find_share,
    new_order,
    seat_key,
)
from validator.decide.retention import needed_blobs
from validator.decide.rounds import aggregated
from validator.decide.seats import blob_awaited, job_loaded, opening_arrived, place_recomputed
from validator.decide.tasks import audit_opening, open_tasks, train_tasks
from validator.decide.traces import leaves_of, metrics_at
from validator.decide.view import ChainView, Look, OwnPanel

GLOBAL_SIZE, LOCAL_SIZE = 100, 50
METRICS = (0x3F800000,)
States = tuple[bytes, bytes]


# Training that is a hash


def step(states: States, batch: int) -> States:
    return digest("global", states, batch), digest("local", states, batch)


def update_of(opening: bytes, closing: bytes) -> bytes:
    return digest("update", opening, closing)


def next_state(opening: bytes, updates: list[bytes]) -> bytes:
    return digest("next", opening, updates)


def step_at(terms: JobTerms, round: int, segment: int) -> int:
    """Return the inner step at which a segment begins."""
    return first_step(terms, round) + segment * terms.segment_steps


def batch_of(terms: JobTerms, round: int, slot: int, segment: int) -> int:
    """Return the first batch that a segment takes: it stands for all of them."""
    return batch_number(terms.slots, step_at(terms, round, segment), slot)


def result_roots(terms: JobTerms) -> list[bytes]:
    """Return the state that each round ends in, as the job alone gives it: slots one after another, nobody else."""
    opening, roots = terms.global_root, []
    locals_ = [terms.local_root] * terms.slots
    for round in range(terms.rounds):
        updates = []
        for slot in range(terms.slots):
            states = opening, locals_[slot]
            for segment in range(share_segments(terms)):
                states = step(states, batch_of(terms, round, slot, segment))
            updates.append(update_of(opening, states[0]))
            locals_[slot] = states[1]
        opening = next_state(opening, updates)
        roots.append(opening)
    return roots


def blob(root: bytes, size: int = GLOBAL_SIZE) -> BlobRef:
    return BlobRef(root, size)


def state_ref(root: bytes, size: int = GLOBAL_SIZE) -> StateRef:
    return StateRef(root, blob(root, size))


# Providers


Packet = tuple[ShareSubmission, ShareDelivery]
"""The commitment to a share, and what it hides."""


@dataclass
class Provider:
    """What a provider does with the shares that it gets; ``honest`` with all that the list does not reach."""

    address: str
    habits: list[str]
    delay: int = 1
    speed: int = 10**9
    tasks: dict[ShareKey, tuple[TrainTask, int, str]] = field(default_factory=dict)
    states: dict[ShareKey, list[States]] = field(default_factory=dict)
    packets: dict[ShareKey, Packet] = field(default_factory=dict)

    def take(self, task: TrainTask, clock: int) -> None:
        if task.key not in self.tasks:
            habit = self.habits.pop(0) if self.habits else "honest"
            wait = task.seconds_left + 2 if habit == "late" else self.delay
            self.tasks[task.key] = (task, clock + wait, habit)

    def done(self, terms: JobTerms, clock: int) -> Iterator[Packet]:
        """Yield what is to be submitted now, as long as it is not known to be taken."""
        for key, (task, at, habit) in self.tasks.items():
            if clock >= at and habit != "silent":
                if key not in self.packets:
                    self.packets[key] = self._train(task, terms, habit)
                yield self.packets[key]

    def habit(self, key: ShareKey) -> str:
        return self.tasks[key][2]

    def opening(self, key: ShareKey, index: int, *, audited: bool) -> OpeningSubmission | None:
        if key not in self.states or self.habit(key) == "closed":
            return None
        first, second = self.states[key][index]
        if self.habit(key) == "junk" or (self.habit(key) == "saboteur" and audited):
            first = digest("junk", key, index)
        return OpeningSubmission(key, index, blob(first), blob(second, LOCAL_SIZE))

    def _train(self, task: TrainTask, terms: JobTerms, habit: str) -> Packet:
        key, segments = task.key, share_segments(terms)
        states = [(task.global_in.root, task.local_in.root)]
        for segment in range(segments):
            after = step(states[-1], batch_of(terms, key.round, key.slot, segment))
            bent = habit == "first" and segment == 0
            bent |= habit == "last" and segment == segments - 1
            bent |= habit == "middle" and segment == segments // 2
            states.append((digest("bent", after), after[1]) if bent else after)
        self.states[key] = states
        update = update_of(states[0][0], states[-1][0])
        if habit == "update":
            update = digest("wrong update", update)
        metrics = (0x40000000,) if habit == "metrics" else METRICS
        boundaries = tuple(
            TraceBoundary(step_at(terms, key.round, i), boundary_root(*pair, metrics), metrics)
            for i, pair in enumerate(states[1:], 1)
        )
        sent = digest("garbage", update) if habit == "garbage" else update
        roots = ShareRoots(bytes(32), update, states[-1][1], metrics, segments)
        packet = ShareDelivery(
            key, roots, boundaries, blob(sent), blob(roots.local_out, LOCAL_SIZE)
        )
        roots = replace(roots, trace_root=compute_trace_root(leaves_of(packet)))
        name = "somebody" if habit == "copied" else self.address
        made = share_commitment(CHAIN_ID, key, name, states[0], terms.executor_version, roots)
        claim = ShareClaim(
            key.order_id, key.attempt, key.round, key.slot, key.issue, self.address, made
        )
        signature = sign(pub_key(self.address), share_sign_bytes(CHAIN_ID, claim))
        return ShareSubmission(claim, signature), replace(packet, roots=roots)


HABITS = (
    "honest",
    "silent",
    "late",
    "first",
    "last",
    "middle",
    "update",
    "metrics",
    "copied",
    "garbage",
    "closed",
    "junk",
    "saboteur",  # honest until its states are audited
)


# A validator's daemon, between two crashes


@dataclass
class Running:
    """An action under way: it is done at ``at``."""

    action: Action
    at: int


@dataclass
class Daemon:
    """The shell of decisions: records, actions that take time, one transaction at a time."""

    me: str
    world: "World"
    records: dict[Duty, Record] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    pending: do.SendTx | None = None
    answers: dict[str, do.SendAnswer] = field(default_factory=dict)
    since: int = 0
    down_until: int = 0
    stale: dict[bytes, OrderResponse] = field(default_factory=dict)
    subjects: dict[SeatKey, PanelResponse] = field(default_factory=dict)

    def crash(self, clock: int) -> None:
        """Lose everything but what can be written down; a transaction that is under way is in the block or not."""
        self.running, self.pending, self.answers = {}, None, {}
        self.records = {
            duty: decode(type(record), encode(record))
            for duty, record in self.records.items()
            if not isinstance(record, LocalUpkeep)
        }
        self.down_until = self.since = clock + 1 + self.world.dice(3)

    def load(self, duty: Duty) -> Record | None:
        known = LocalUpkeep(published=True) if isinstance(duty, Upkeep) else None
        return self.records.get(duty, known)

    def attempt(self, key: AttemptKey) -> LocalOrder:
        local = self.load(key)
        assert isinstance(local, LocalOrder)
        return local

    def change(self, key: AttemptKey, change: Callable[[LocalOrder], LocalOrder | None]) -> None:
        now = self.attempt(key)
        self.records[key] = change(now) or now

    def change_seat(self, key: SeatKey, change: Callable[[LocalSeat], LocalSeat]) -> None:
        seat = self.load(key)
        if isinstance(seat, LocalSeat):
            self.records[key] = change(seat)

    def attempts(self, on_chain: OrderResponse) -> Iterator[LocalOrder]:
        for assignment in on_chain.assignments:
            if assignment.validator == self.me:
                key = AttemptKey(on_chain.order.id, assignment.attempt)
                self.records.setdefault(key, new_order(key.order_id, key.attempt))
                yield self.attempt(key)

    def look(self, clock: int) -> None:
        """Decide about every duty, and start what is asked for. Now and then the node is a block behind."""
        look = self._look(clock)
        found = [duty for duty in duties(look) if self.world.attends(self.me, duty)]
        crash = self.world.crashes_now(self, clock)
        crash_at = (self.world.dice(len(found)), self.world.dice(3)) if crash else (-1, 0)
        for number, duty in enumerate(found):
            when = crash_at[1] if number == crash_at[0] else -1
            if when == 0:
                return self.crash(clock)
            after, wanted = decide(duty, self.load(duty), look)
            if after is not None:
                self.records[duty] = after
            if when == 1:  # after the record was written, before anything was begun
                return self.crash(clock)
            for action in wanted:
                self._start(action, clock)
            if when == 2:
                return self.crash(clock)
        return None

    def _look(self, clock: int) -> Look:
        orders: dict[bytes, OrderResponse] = {}
        for order_id in sorted(
            {duty.order_id for duty in self.records if isinstance(duty, AttemptKey)}
        ):
            fresh = self.world.order(order_id)
            lags = order_id in self.stale and self.world.dice(4) == 1
            orders[order_id] = self.stale[order_id] if lags else fresh
            self.stale[order_id] = fresh
        ask = self.world.chain.ask
        seats = {seat_key(duty): duty for duty in ask(PanelDutiesRequest(self.me)).duties}
        seen = ChainView(
            clock,
            orders,
            {},
            {},
            self._panels(orders),
            seats,
            {key: self._subject(key) for key in seats},
            whole=True,
        )
        secret = sha256(self.me.encode()).digest()
        return Look(
            seen,
            self.me,
            CHAIN_ID,
            secret,
            self.since,
            self.world.workers(self.me),
            seats=tuple(duty for duty in self.records if isinstance(duty, SeatKey)),
        )

    def _subject(self, key: SeatKey) -> PanelResponse:
        """Return what a seat is about, read once, as a daemon does."""
        if key not in self.subjects:
            self.subjects[key] = self.world.chain.ask(PanelRequest(*key.panel))
        return self.subjects[key]

    def _panels(self, orders: dict[bytes, OrderResponse]) -> dict[RoundKey, OwnPanel]:
        return {
            panel.key: OwnPanel(panel, self.world.seated(panel))
            for on_chain in orders.values()
            for panel in on_chain.panels
            if not panel.is_settled
        }

    def _start(self, action: Action, clock: int) -> None:
        match action:
            case do.SendTx():
                self.pending = self.pending or action
            case do.SendAnswer():
                self.answers[action.key] = action
            case do.Forget(attempt=attempt):
                self.records.pop(attempt, None)
            case do.EndSeat(seat=seat):
                self.records.pop(seat, None)
            case do.NoteVerdicts() | do.Tidy() | do.Clean():
                pass
            case _ if action.key not in self.running:
                self.running[action.key] = Running(action, clock + self.world.dice(3))

    def finish(self, clock: int) -> None:
        """End the actions whose time has come."""
        for key, run in list(self.running.items()):
            if clock >= run.at:
                del self.running[key]
                self.world.numeric(self, run.action, clock)

    def receipt(self, action: do.SendTx, result: TxResult) -> None:
        """Take note of what a transaction did."""
        message = action.messages[0]
        if result.code or not isinstance(message, MsgCommitTraces):
            return
        attempt = AttemptKey(message.order_id, message.attempt)
        on_chain = self.world.order(message.order_id)
        for change in changes_of(ShareSkipped, result.events):
            self.change(attempt, partial(receive.share_skipped, on_chain=on_chain, skipped=change))


@dataclass(frozen=True)
class Plan:
    """The dice of one run."""

    seed: int
    habits: tuple[tuple[str, ...], ...]  # of the providers of every cluster; the last one is honest
    bidders: tuple[str, ...] = ("v0", "v1")
    poor: bool = False  # the first provider has no bond
    deliver: tuple[bool, ...] = (True, True)  # whether the payload reaches the n-th attempt
    crashes: tuple[int, ...] = ()  # blocks in which the working validator crashes
    silent_seats: int = 0
    absent: bool = False  # accepted providers are gone when their states are audited
    orders: int = 1
    rematch: bool = True


class World:
    """One run."""

    def __init__(self, plan: Plan, terms: JobTerms, params: Params) -> None:
        self.plan, self.terms = plan, terms
        self.random = Random(plan.seed)
        count = len(plan.habits) + 1
        self.market = Market(params, validators=5, providers=count, bidders=plan.bidders)
        self.chain = self.market.chain
        self.daemons = {name: Daemon(name, self) for name in self.market.validators}
        # The global states that delivered shares start from.
        self.openings: dict[ShareKey, bytes] = {}
        self.providers: dict[str, dict[str, Provider]] = {}
        for name, cluster in self.market.clusters.items():
            habits = [list(h) for h in plan.habits] + [[]]
            self.providers[name] = {
                address: Provider(address, habit, 1 + index % 3, 10**9 * (1 + self.dice(2)))
                for index, (address, habit) in enumerate(zip(cluster, habits, strict=True))
            }
        self.blocks = self.idle = 0
        self._seated: dict[RoundKey, tuple[PanelSeat, ...]] = {}
        self._orders: dict[bytes, OrderResponse] = {}
        self.refused: list[str] = []

    # Looking

    def dice(self, sides: int) -> int:
        return self.random.randrange(sides)

    def order(self, order_id: bytes) -> OrderResponse:
        """Return an order as it is after the last block."""
        if order_id not in self._orders:
            self._orders[order_id] = self.chain.ask(OrderRequest(order_id))
        return self._orders[order_id]

    def seats(self, key: RoundKey) -> tuple[PanelSeat, ...]:
        found: tuple[PanelSeat, ...] = self.chain.ask(SeatsRequest(*key)).seats
        return found

    def seated(self, panel: Panel) -> tuple[PanelSeat, ...]:
        """Return the seats of a panel, read again when there are more; who sits does not change."""
        if len(self._seated.get(panel.key, ())) != panel.seats:
            self._seated[panel.key] = self.seats(panel.key)
        return self._seated[panel.key] if panel.seats else ()

    def workers(self, validator: str) -> tuple[Worker, ...]:
        cluster = self.providers[validator]
        return tuple(Worker(address, cluster[address].speed) for address in sorted(cluster))

    def crashes_now(self, daemon: Daemon, clock: int) -> bool:
        return self.blocks in self.plan.crashes and daemon.down_until < clock - 2

    def habit_of(self, claim: ShareClaim) -> str:
        """Return how a share came about."""
        for cluster in self.providers.values():
            if claim.provider in cluster:
                return cluster[claim.provider].habit(claim.key)
        raise AssertionError("nobody made it")

    # One block

    def run(self, order_ids: list[bytes], limit: int) -> None:
        while any(self.order(i).order.state != OrderState.CLOSED for i in order_ids):
            assert self.blocks < limit, "the order does not end"
            self.blocks += 1
            self._block(order_ids)

    def attends(self, validator: str, duty: Duty) -> bool:
        """Tell whether a validator does a duty; some are silent on their seats."""
        return not (isinstance(duty, SeatKey) and self.is_silent(validator))

    def is_silent(self, validator: str) -> bool:
        count = len(self.market.validators)
        return validator in self.market.validators[count - self.plan.silent_seats :]

    def _block(self, order_ids: list[bytes]) -> None:
        clock = self.chain.clock
        sent: list[tuple[Daemon, do.SendTx | None, Message]] = []
        for daemon in self.daemons.values():
            if clock < daemon.down_until:
                continue
            daemon.finish(clock)
            for order_id in order_ids:
                on_chain = self.order(order_id)
                for local in daemon.attempts(on_chain):
                    self._consumer(daemon, local)
                    self._providers(daemon, local, on_chain, clock)
            daemon.look(clock)
            # A crash takes the daemon's memory, and not what is in the mempool already.
            if daemon.pending is not None:
                sent += [(daemon, daemon.pending, m) for m in daemon.pending.messages]
                if self.dice(5) == 0:  # the answer is lost: it is asked for again
                    daemon.pending = None
            sent += [(daemon, None, answer.message) for answer in daemon.answers.values()]
            daemon.answers = {}
        value = b"\x02" + sha256(b"%d %d" % (self.plan.seed, self.blocks)).digest()
        busy = sent or any(daemon.running for daemon in self.daemons.values())
        self.idle = 0 if busy else self.idle + 1
        seconds = 10 if self.idle > 45 else 1  # only a deadline far away is left
        messages = [message for _, _, message in sent]
        result = self.chain.block(*messages, value=value, seconds=seconds)
        self._orders.clear()
        for (daemon, pending, message), outcome in zip(sent, result.tx_results, strict=True):
            if outcome.code:
                self.refused.append(f"{type(message).__name__}: {outcome.log}")
            if pending is not None and daemon.pending is pending:
                daemon.receipt(pending, outcome)
                daemon.pending = None

    # Consumer and providers, as the service treats them

    def _consumer(self, daemon: Daemon, local: LocalOrder) -> None:
        if local.payload.files or not self.plan.deliver[min(local.attempt, 2) - 1]:
            return
        terms = self.terms
        rest = terms.payload_bytes - GLOBAL_SIZE - LOCAL_SIZE
        files = (
            PayloadFile("job.json", BlobRef(terms.job_id, rest)),
            PayloadFile("global.state", blob(terms.global_root)),
            PayloadFile("local.state", blob(terms.local_root, LOCAL_SIZE)),
            PayloadFile("data/0", BlobRef(terms.data_root, terms.data_bytes)),
        )
        daemon.change(
            local.key, lambda now: receive.payload_complete(receive.payload_offered(now, files))
        )

    def _providers(
        self, daemon: Daemon, local: LocalOrder, on_chain: OrderResponse, clock: int
    ) -> None:
        panels = daemon._panels({local.order_id: on_chain})
        for provider in self.providers[daemon.me].values():
            for task in train_tasks(local, on_chain, provider.address, clock):
                provider.take(task, clock)
            for packet in list(provider.done(self.terms, clock)):
                signed, delivery = packet
                if delivery.key.order_id == local.order_id:
                    daemon.change(local.key, partial(self._share, submission=signed))
                    share = on_chain.share(delivery.key)
                    if share is not None and share.claim == signed.claim:
                        take = partial(self._delivery, provider=provider.address, packet=delivery)
                        daemon.change(local.key, take)
            now = daemon.attempt(local.key)
            for wanted in open_tasks(now, on_chain, panels, provider.address):
                current = find_round(now, wanted.key.round)
                audited = current is not None and current.next_global is not None
                for index in wanted.indices:
                    opening = provider.opening(wanted.key, index, audited=audited)
                    if opening is not None and not (audited and self.plan.absent):
                        daemon.change(local.key, partial(receive.opening_received, opening=opening))

    def _share(self, local: LocalOrder, submission: ShareSubmission) -> LocalOrder:
        if receive.late_share(local, submission):
            return receive.mark_late(local, submission)
        after, _ = receive.share_received(local, submission, lambda: True)
        return after

    def _delivery(self, local: LocalOrder, provider: str, packet: ShareDelivery) -> LocalOrder:
        current = find_round(local, packet.key.round)
        if current is not None:
            self.openings[packet.key] = current.global_in.root
        after, _ = receive.share_delivered(local, self.terms, CHAIN_ID, provider, packet)
        return after

    # Numerics

    def numeric(self, daemon: Daemon, action: Action, clock: int) -> None:
        match action:
            case do.TryJob(attempt=attempt):
                found = Trial(self.terms)
                daemon.change(attempt, lambda now: receive.job_tried(now, self.terms, found))
            case do.CheckSegment() | do.VerifyOpening() | do.Recompute():
                self._on_share(daemon, action)
            case do.Aggregate(round=key):
                attempt = AttemptKey(key.order_id, key.attempt)
                current = find_round(daemon.attempt(attempt), key.round)
                if current is None:
                    return
                updates = [w.packet.blobs[0].sha256 for w in accepted_works(current) if w.packet]
                root = next_state(current.global_in.root, updates)
                daemon.change(attempt, lambda now: aggregated(now, key.round, state_ref(root)))
            case do.Seal(round=key):
                chunks = self.terms.result_chunks
                points = tuple(bytes(33) for _ in range(chunks))
                hashes = tuple(bytes(32) for _ in range(chunks))
                result = SealedResult(
                    digest("ciphertext"), blob(digest("sealed")), points, (1,) * chunks, hashes
                )
                attempt = AttemptKey(key.order_id, key.attempt)
                daemon.change(attempt, lambda now: receive.sealed(now, key.round, result))
            case do.AskOpening():
                self._open(daemon, action, clock)
            case do.LoadAudited(seat=seat):
                sizes = Sizes(GLOBAL_SIZE, LOCAL_SIZE, GLOBAL_SIZE)
                daemon.change_seat(
                    seat, lambda now: job_loaded(now, self.terms, self.terms, sizes, "")
                )
            case do.ReplayPlace(seat=seat, index=index):
                daemon.change_seat(seat, lambda now: blob_awaited(now, index, b""))
                daemon.change_seat(
                    seat, lambda now: place_recomputed(now, index, self._audited(now, action))
                )

    def _on_share(
        self, daemon: Daemon, action: do.CheckSegment | do.VerifyOpening | do.Recompute
    ) -> None:
        key = action.share
        attempt = AttemptKey(key.order_id, key.attempt)
        work = find_share(daemon.attempt(attempt), key)
        if work is None:
            return
        match action:
            case do.CheckSegment(segment=segment):
                checked = self._check(work, segment)
                daemon.change(attempt, partial(receive.segment_checked, key=key, checked=checked))
            case do.VerifyOpening(index=index):
                holds = self._root(work, index) == self._leaf(work, index)
                daemon.change(
                    attempt, partial(receive.opening_verified, key=key, index=index, holds=holds)
                )
            case do.Recompute(index=index):
                states = self._recompute(work, index)
                blobs = (blob(states[0]), blob(states[1], LOCAL_SIZE))
                right = boundary_root(*states, METRICS) == self._leaf(work, index)
                found = blobs if right else None
                daemon.change(
                    attempt, partial(receive.state_recomputed, key=key, index=index, states=found)
                )

    def _batch(self, key: ShareKey, segment: int) -> int:
        return batch_of(self.terms, key.round, key.slot, segment)

    def _states(self, work: SlotWork, index: int) -> States:
        assert work.packet is not None
        if index == 0:
            return self.openings[work.packet.key], work.local_in.root
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

    def _check(self, work: SlotWork, segment: int) -> CheckedSegment:
        packet = work.packet
        assert packet is not None
        roots = packet.roots
        if self._root(work, segment) != self._leaf(work, segment):
            return CheckedSegment(segment, ShareReason.OPENING_MISMATCH, b"")
        states = self._states(work, segment)
        if segment == len(packet.boundaries):
            update = update_of(self.openings[packet.key], states[0])
            root = update_claim(update, states[1])
            if root != update_claim(roots.update_root, roots.local_out):
                return CheckedSegment(segment, ShareReason.UPDATE_MISMATCH, root)
            sent = tuple(blob.sha256 for blob in packet.blobs)
            fits = sent == (roots.update_root, roots.local_out)
            return CheckedSegment(
                segment, ShareReason.NONE if fits else ShareReason.MALFORMED, root
            )
        root = boundary_root(*step(states, self._batch(packet.key, segment)), METRICS)
        if root != self._leaf(work, segment + 1):
            return CheckedSegment(segment, ShareReason.SEGMENT_MISMATCH, root)
        return CheckedSegment(segment, ShareReason.NONE, root)

    def _recompute(self, work: SlotWork, index: int) -> States:
        assert work.packet is not None
        start = max((o.index for o in work.openings if o.verified and o.index < index), default=0)
        states = self._states(work, start)
        for segment in range(start, index):
            states = step(states, self._batch(work.packet.key, segment))
        return states

    # What seats fetch, and what they find

    def _open(self, auditor: Daemon, action: do.AskOpening, clock: int) -> None:
        winner, seat = self.daemons[action.winner], action.seat
        if clock < winner.down_until:
            return
        local = winner.attempt(AttemptKey(seat.order_id, seat.attempt))
        on_chain = self.order(seat.order_id)
        panel = on_chain.panel(seat.attempt, seat.round)
        assert panel is not None
        opening = audit_opening(local, seat.round, panel.places[action.number].place)
        if not opening.ready:
            return
        panels = winner._panels({seat.order_id: on_chain})
        held = needed_blobs(local, on_chain, panels, clock)
        for state in opening.states:  # what is served is what is kept
            assert {state.global_state.sha256, state.local_state.sha256} <= held
        auditor.change_seat(seat, lambda now: opening_arrived(now, action.index, opening))

    def _audited(self, seat: LocalSeat, action: do.ReplayPlace) -> Recomputed:
        place, opening = action.place, seat.places[action.index].opening
        assert opening is not None
        root = self._recomputed(action, opening)
        return Recomputed("", AnswerKind.FINISHED, root, digest("work", place, action.seed))

    def _recomputed(self, action: do.ReplayPlace, opening: AuditOpening) -> bytes:
        place = action.place
        if place.kind is AuditKind.AGGREGATION:
            assert opening.states[0].global_state.sha256 == action.global_in
            updates = [item.update.root for item in opening.updates]
            return next_state(opening.states[0].global_state.sha256, updates)
        (share,) = action.shares
        pairs = [(state.global_state.sha256, state.local_state.sha256) for state in opening.states]
        # Nothing that does not hash to its leaf ever reaches a seat.
        opened = boundary_root(*pairs[-1], opening.states[-1].metrics)
        if place.kind is AuditKind.UPDATE or place.segment:
            assert opened == opening.leaves[0].boundary_root
        else:
            assert opened == boundary_root(action.global_in, share.local_in)
        if place.kind is AuditKind.UPDATE:
            return update_claim(update_of(pairs[0][0], pairs[1][0]), pairs[1][1])
        batch = self._batch(share.claim.key, place.segment)
        return boundary_root(*step(pairs[0], batch), METRICS)
