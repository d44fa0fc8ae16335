"""A provider: its real decisions, and a shell that carries them out without sockets, disks or tensors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from compute_provider.decide import actions as do
from compute_provider.decide import claims, contests, receive
from compute_provider.decide.actions import Action
from compute_provider.decide.duties import decide
from compute_provider.decide.receive import Change
from compute_provider.decide.records import GAVE_UP, MAY_STAND, Shares, ShareWork, Stage
from compute_provider.decide.view import Look, ValidatorView
from domain.codec import decode, encode
from domain.disputes.messages import MsgAppeal, MsgStand
from domain.hashing import merkle_path, merkle_root
from domain.keys import ShareKey
from domain.ledger.messages import MsgDepositBond
from domain.ledger.queries import AccountRequest
from domain.messages import Message
from domain.proof.messages import MsgAskReceipt, MsgIncludeShare, MsgShowKey
from domain.proof.queries import SeatsRequest
from domain.proof.records import DeliveryManifest, ShareClaim, ShareRoots, ShownPiece
from domain.registry.messages import MsgRegisterProvider
from link.types import (
    BlobRef,
    DeliveryOffer,
    Machine,
    OpenedState,
    OpeningSubmission,
    OpenTask,
    ReceiptReply,
    ShareDelivery,
    ShareSubmission,
    ShownKey,
    TraceBoundary,
    TrainTask,
    Verdict,
)
from localnet.simulator.actors.errands import Errands
from localnet.simulator.actors.sending import LOST_MS
from localnet.simulator.behaviours import BENT, HonestProvider, words_of
from localnet.simulator.clock import Act, Alarm
from localnet.simulator.memory_chain import CHAIN_ID, digest, pub_key, sign
from localnet.simulator.training import METRICS, States, root_of, update_of
from pol.rules.commitment import compute_trace_root, share_commitment, share_sign_bytes
from pol.rules.delivery import (
    delivered_boundaries,
    delivery_key_hash,
    delivery_layout,
    manifest_sign_bytes,
    piece_key,
    piece_leaf,
)
from pol.rules.schedule import segment_work, share_segments, share_work
from validator.decide.records import Opening, WrongPieces
from validator.decide.traces import leaves_of
from wire import cipher

if TYPE_CHECKING:
    from localnet.simulator.world import World

POLL_MS = 800
GAP_MS = 60
RETRY_MS = 1_000
NEVER_MS = 60_000
LATE = 4
"""A late share is handed in after so many times the time that its task left, because the deadline of the task moves."""
NOISY = frozenset({"noise", "garbage"})
"""Habits of providers whose deliveries are noise."""
STANDS_TRIED = 3


@dataclass
class Trained:
    """A share as it lies on a provider's disk."""

    task: TrainTask
    habits: frozenset[str]
    states: list[States]
    claim: ShareClaim
    delivery: ShareDelivery
    offer: DeliveryOffer | None = None


@dataclass(frozen=True)
class SentDelivery:
    """The content of an encrypted delivery; if it is noise, a piece that shows this."""

    packet: ShareDelivery
    openings: tuple[Opening, ...]
    wrong: WrongPieces | None
    # The pieces of the ciphertext.
    pieces: tuple[bytes, ...] = ()


class ProviderActor:
    """A provider's daemon, from crash to crash."""

    def __init__(
        self,
        world: "World",
        me: str,
        validator: str,
        speed: int,
        behaviour: HonestProvider,
        *,
        auto_bond: bool = True,
    ) -> None:
        self.world, self.me, self.validator = world, me, validator
        self.speed, self.behaviour, self.auto_bond = speed, behaviour, auto_bond
        self.shares, self.look = Shares(), Look()
        self.life = 0
        self.down_until = 0
        self.gone = False  # for good
        self.deposited = 0
        self.worked = 0  # FLOPs that it trained
        self.uncovered = 0  # tasks that it did not take, because bonds and cover would not pay them
        self.asked: set[tuple[bytes, int]] = set()  # legs in which it was given a share
        self.traces: dict[ShareKey, Trained] = {}
        self.habits: dict[ShareKey, str] = {}
        self.alarm = Alarm(world.clock, self.think)
        self._errands = Errands()
        self._ended: dict[str, float] = {}
        self._promised: dict[ShareKey, int] = {}
        self._stands: dict[ShareKey, int] = {}
        self._thought_at = -(10**9)
        # The last decision with its inputs: it stays the same while these do.
        self._decided: tuple[Shares, Look, Shares, tuple[tuple[Action, str], ...]] | None = None

    @property
    def trustworthy(self) -> bool:
        """True if a validator that relies on it finishes."""
        return self.behaviour.honest and self.auto_bond and not self.gone

    # Life

    def crash(self, seconds: int) -> None:
        """Lose everything but what lies on the disk."""
        self.life += 1
        self._errands, self._ended, self._promised = Errands(), {}, {}
        self.shares = Shares(decode(tuple[ShareWork, ...], encode(self.shares.works)))
        self.look = Look()
        self.down_until = self.world.clock.now + 1000 * seconds
        self.world.crashes += 1
        self.world.clock.at(self.down_until, partial(self._alive, self.life, self.wake))

    def break_down(self) -> None:
        """Crash for some seconds."""
        self.crash(1 + self.world.dice(4))

    def leave(self) -> None:
        """Be gone for good."""
        self.gone = True

    def wake(self, delay: int = 0) -> None:
        gap = self._thought_at + GAP_MS - self.world.clock.now
        self.alarm.within(max(delay, gap, self.down_until - self.world.clock.now))

    def _alive(self, life: int, act: Act) -> None:
        if life == self.life and not self.gone:
            act()

    def _later(self, delay: int, act: Act) -> None:
        self.world.clock.after(delay, partial(self._alive, self.life, act))

    def _answer(self, act: "partial[None]") -> "partial[None]":
        """Return what takes an answer, unless this provider crashed meanwhile."""
        return partial(self._take_answer, self.life, act)

    def _take_answer(self, life: int, act: "partial[None]", answer: object) -> None:
        if life == self.life and not self.gone:
            act(answer)

    # Outcomes and actions

    def _take(self, *changes: Change, seen: Look | None = None) -> None:
        """Take outcomes into the record, and what was seen of the validator."""
        before = self.shares, self.look
        for change in changes:
            self._put(change(self.shares))
        if seen is not None:
            training = self.look.training
            self.look = seen if seen.training == training else replace(seen, training=training)
        if before != (self.shares, self.look):
            self.wake()

    def _put(self, shares: Shares) -> None:
        self.shares = shares
        for key in self.look.training:
            given = shares.get(key)
            if given is None or given.stage is not Stage.TRAINING:
                self.look = replace(self.look, training=self.look.training - {key})

    def think(self) -> None:
        """Decide, and start what is asked for."""
        if self.gone or self.world.clock.now < self.down_until:
            return
        now = self._thought_at = self.world.clock.now
        known = self._decided
        if known is None or known[0] is not self.shares or known[1] is not self.look:
            decided, wanted = decide(self.shares, self.look)
            named = tuple((action, action.key) for action in wanted)
            known = self._decided = self.shares, self.look, decided, named
        _, _, shares, actions = known
        self._put(shares)
        for action, name in actions:
            if not self.behaviour.stays(action):
                self.leave()
                return
            match action:
                case do.Train(task):
                    self.look = replace(self.look, training=self.look.training | {task.key})
                    self._train(task)
                case do.ForgetShare(key):
                    self.traces.pop(key, None)
                case do.Status():
                    pass
                case _:
                    self._start(action, name, now)
        self.wake(POLL_MS)

    def _start(self, action: Action, name: str, now: int) -> None:
        # The action may have been done since the validator's picture was drawn.
        picture = self.look.picture if action.drawn else None
        if picture is not None and picture.began <= self._ended.get(name, -1.0):
            return
        # One that came before it may have ended the share.
        if action.subject is not None and self.shares.get(action.subject) is None:
            return
        if self._errands.begin(name, now):
            self._do(action, name)

    def _end(self, name: str, *changes: Change, seen: Look | None = None, pause: int = 200) -> None:
        self._errands.end(name, self.world.clock.now, pause)
        self._ended[name] = self.world.clock.seconds
        self._take(*changes, seen=seen)

    def _do(self, action: Action, name: str) -> None:
        match action:
            case do.Join():
                self._join(name)
            case do.Poll() if self._seems_away():
                self._end(name, pause=POLL_MS)
            case do.Poll():
                link = self.world.validators[self.validator].service
                began = self.world.clock.seconds
                self.world.network.call(
                    lambda: link.poll(self.me, cautious=self.behaviour.cautious),
                    self._answer(partial(self._polled, name, began)),
                )
            case do.Watch():
                self._end(name, *self._watched(), pause=500)
            case do.CheckTask(task):
                self._check(name, task)
            case do.Renew(task):
                self._renew(name, task)
            case do.Bond(task):
                self._bond(name, task)
            case do.Fetch(task):
                terms = self.world.job(task.key.order_id).terms
                size = terms.delivered_bytes + terms.global_bytes + terms.local_bytes
                delay = self.world.network.delay(size)
                fetched = partial(receive.fetched, key=task.key)
                self._later(delay, partial(self._end, name, fetched))
            case do.Submit(key):
                self._submit(name, key)
            case do.Upload(key):
                self._upload(name, key)
            case do.Deliver(key):
                self._deliver(name, key)
            case do.ShowKey(key):
                self._show_key(name, key)
            case do.Open(key, indices):
                self._open(name, key, indices)
            case _:
                self._do_alone(action, name)

    def _do_alone(self, action: Action, name: str) -> None:
        """Do what a provider does without its validator."""
        match action:
            case do.ShowOnChain(key):
                self._show_on_chain(name, key)
            case do.Ask(key):
                self._ask(name, key)
            case do.SendToWitnesses(key):
                self._send_to_witnesses(name, key)
            case do.Include(key):
                self._include(name, key)
            case do.Stand(key):
                self._stand(name, key)
            case do.ShowPlaces(key, dispute):
                self._show_places(name, key, dispute)
            case do.Recheck(key):
                is_right = self.traces[key].habits.isdisjoint((*BENT, "swapped"))
                right = partial(receive.rechecked, key=key, is_right=is_right)
                self._later(RETRY_MS, partial(self._end, name, right))
            case do.Appeal(key):
                self._appeal(name, key)

    # The cluster

    def _send(self, message: Message, sent: "partial[None]") -> None:
        """Send a transaction; ``sent`` follows when it is in a block, or its result is lost."""
        once = [sent]

        def done(_: object) -> None:
            if once:
                once.pop()()

        self.world.submit((message,), self._answer(partial(done)))
        self._later(LOST_MS, partial(done, None))

    def _join(self, name: str) -> None:
        if not self.world.registered(self.me, self.validator):
            message = MsgRegisterProvider(self.me, self.validator)
            self._send(message, partial(self._end, name, pause=RETRY_MS))
            return
        link = self.world.validators[self.validator].service
        machine = Machine("cpu", 10**9)
        self.world.network.call(lambda: link.join(self.me, machine), self._answer(partial(self._joined, name)))

    def _joined(self, name: str, accepted: bool | None) -> None:
        if accepted:
            self._end(name, seen=Look(joined=True))
        else:
            self._end(name, pause=RETRY_MS)

    def _seems_away(self) -> bool:
        """Return whether it keeps away from its validator, until the share that it trained is on chain."""
        handed_in = (work.key for work in self.shares.works if work.stage in (Stage.TRAINED, Stage.SUBMITTED))
        return any("away" in self.traces[key].habits for key in handed_in)

    def _polled(self, name: str, began: float, reply: tuple[list[TrainTask], list[OpenTask]] | None) -> None:
        if reply is None:
            # The validator is away, or does not know this provider: joining again shows it.
            self._end(name, seen=Look(), pause=RETRY_MS)
            return
        train, opening = reply
        known = self.look.picture
        if not train and not opening and self.look.joined and known is not None and not (known.train or known.open):
            # Nothing is drawn in an empty picture, so it does not matter how old it is.
            self._errands.end(name, self.world.clock.now, POLL_MS)
            self._ended[name] = self.world.clock.seconds
            return
        self.asked.update((task.key.order_id, task.key.leg) for task in train)
        picture = ValidatorView(tuple(train), tuple(opening), began)
        self._end(name, seen=Look(joined=True, picture=picture), pause=POLL_MS)

    def _watched(self) -> list[Change]:
        found: list[Change] = []
        clock = self.world.chain_clock
        for work in self.shares.works:
            if not work.signed:
                continue
            order = self.world.order(work.key.order_id)
            handed_in = work.stage in (Stage.TRAINED, Stage.SUBMITTED)
            if handed_in and claims.has_committed(order, self.traces[work.key].claim):
                found.append(partial(receive.committed, key=work.key))
            claim = self.traces[work.key].claim
            contest = contests.find_contest(order, claim, clock)
            # No provider of this world has a credential.
            contest = contest if contest is not None and contest.is_liable else None
            found.append(partial(receive.contested, key=work.key, contest=contest))
            wanted = claims.must_show(order, claim, work.receipt, clock)
            wanted = wanted and "keyless" not in self.traces[work.key].habits
            found.append(partial(receive.to_show, key=work.key, wanted=wanted))
            held = bool({"silent", "late"} & self.traces[work.key].habits)
            includes = not held and claims.must_include(order, work.task, claim, clock)
            found.append(partial(receive.to_include, key=work.key, wanted=includes))
            held = held or "hidden" in self.traces[work.key].habits
            asks = not held and claims.must_ask(order, work.task, claim, work.receipt, clock)
            found.append(partial(receive.to_ask, key=work.key, wanted=asks))
            is_asking = claims.open_ask(order, claim, clock) is not None
            found.append(partial(receive.is_witnessed, key=work.key, waiting=is_asking))
            panel = claims.standing_panel(order, work.key, self.me)
            has_to = work.stand in (0, MAY_STAND) and claims.has_to_stand(order, claim, CHAIN_ID)
            if panel is not None:
                found.append(partial(receive.standing, key=work.key, stand=panel.dispute))
            elif has_to:
                found.append(partial(receive.standing, key=work.key, stand=MAY_STAND))
            elif claims.is_over(work.key, self.me, order, clock) and not (wanted or includes or asks or is_asking):
                found.append(partial(receive.released, key=work.key))
        return found

    # Taking a share

    def _check(self, name: str, task: TrainTask) -> None:
        order = self.world.order(task.key.order_id)
        problem = claims.problem(task, order, self.validator)
        if not problem and self.behaviour.cautious:
            problem = claims.cover_problem(task, order)
            self.uncovered += bool(problem)
        problem = problem or claims.task_problem(task, self.me, CHAIN_ID, self.world.chain_clock, self._is_signed)
        if problem:
            failed = partial(receive.failed, key=task.key, text=problem, again=True)
            self._end(name, failed, pause=RETRY_MS)
        else:
            self._end(name, partial(receive.checked, key=task.key))

    def _renew(self, name: str, task: TrainTask) -> None:
        clock = self.world.chain_clock
        if claims.task_problem(task, self.me, CHAIN_ID, clock, self._is_signed):
            self._end(name, pause=RETRY_MS)
            return
        renewed = partial(receive.renewed, key=task.key, deadline=task.deadline, signature=task.signature)
        self._end(name, renewed)

    def _is_signed(self, document: bytes, signature: bytes) -> bool:
        return signature == sign(pub_key(self.validator), document)

    def _bond(self, name: str, task: TrainTask) -> None:
        """Have enough free bond for this share and for those that are trained but not committed yet."""
        key, order = task.key, self.world.order(task.key.order_id)
        self._promised = claims.still_promised(self._promised, key, self.me, order)
        self._promised[key] = claims.bond_of(task, order)
        account = self.world.ask(AccountRequest(self.me))
        lacking = sum(self._promised.values()) - account.bond.free
        if lacking <= 0:
            self._end(name, partial(receive.bonded, key=key))
        elif not self.auto_bond:
            del self._promised[key]
            failed = partial(receive.failed, key=key, text="no bond", again=True)
            self._end(name, failed, pause=RETRY_MS)
        else:
            self.deposited += lacking
            self._send(MsgDepositBond(self.me, lacking), partial(self._end, name))

    # Training

    def _train(self, task: TrainTask) -> None:
        terms = self.world.job(task.key.order_id).terms
        idle = not {"idle", "agreed"}.isdisjoint(words_of(self._habit(task.key)))
        spent = 0 if idle else share_work(terms) * 1000 // self.speed
        self._later(50 + spent, partial(self._trained, task))

    def _trained(self, task: TrainTask) -> None:
        work = self.shares.get(task.key)
        if work is None or work.stage is not Stage.TRAINING:
            return
        if task.key not in self.traces:
            self.traces[task.key] = self._made(task)
        roots = self.traces[task.key].delivery.roots
        text = "" if roots.is_whole else "the job stops"
        self._take(
            partial(
                receive.trained,
                key=task.key,
                update_root=roots.update_root,
                local_out_root=roots.local_out,
                text=text,
            )
        )

    def _habit(self, key: ShareKey) -> str:
        """Return the habit of a share, which is the same in each life."""
        if key not in self.habits:
            self.habits[key] = self.behaviour.habit(self, key)
            self.world.trainers[key] = self.me
        return self.habits[key]

    def _made(self, task: TrainTask) -> Trained:
        """Return what comes of a share: the right thing, bent as this provider does it."""
        key, job = task.key, self.behaviour.job(self.world.job(task.key.order_id))
        terms, segments = job.terms, share_segments(job.terms)
        habit = self._habit(key)
        habits = words_of(habit)
        stop = segments // 2 if "quits" in habits else job.stop(key.round, key.slot)
        states = [(task.global_in.root, task.local_in.root)]
        for segment in range(segments if stop is None else stop):
            after = job.train(states[-1], key.round, key.slot, segment)
            bent = not {"idle", "agreed"}.isdisjoint(habits)
            bent |= "first" in habits and segment == 0
            bent |= "last" in habits and segment == segments - 1
            bent |= "middle" in habits and segment == segments // 2
            self.worked += 0 if bent else segment_work(terms)
            maker = "all" if "agreed" in habits else self.me
            states.append((digest("bent", maker, after), after[1]) if bent else after)
        update = update_of(states[0][0], states[-1][0])
        if "update" in habits:
            update = digest("wrong update", update)
        metrics = (0x40000000,) if "metrics" in habits else METRICS
        boundaries = tuple(
            TraceBoundary(job.step_at(key.round, i), root_of(pair, metrics), metrics)
            for i, pair in enumerate(states[1:], 1)
        )
        if stop is None:
            sent = digest("garbage", update) if "garbage" in habits else update
            roots = ShareRoots(
                trace_root=b"", update_root=update, local_out=states[-1][1], metrics=metrics, segments=segments
            )
            delivery = ShareDelivery(
                key=key,
                roots=roots,
                boundaries=boundaries,
                update=job.update_blob(sent),
                local_out=job.local_blob(states[-1][1]),
            )
        else:
            steps = 0 if "quits" in habits else job.stop_step(key.round, key.slot)
            roots = ShareRoots(
                trace_root=b"",
                update_root=b"",
                local_out=b"",
                metrics=metrics if stop else (),
                segments=stop,
                steps=steps,
            )
            delivery = ShareDelivery(key=key, roots=roots, boundaries=boundaries, update=None, local_out=None)
        leaves = leaves_of(delivery)
        roots = replace(roots, trace_root=compute_trace_root(leaves) if leaves else b"")
        name = "another" if "copied" in habits else self.me
        made = share_commitment(CHAIN_ID, key, name, states[0], terms.executor_version, roots)
        claim = ShareClaim(
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            slot=key.slot,
            issue=key.issue,
            provider=self.me,
            commitment=made,
            multiple=task.multiple + 1 if "odd bond" in habits else task.multiple,
            cover=task.cover,
        )
        return Trained(task=task, habits=habits, states=states, claim=claim, delivery=replace(delivery, roots=roots))

    # Handing it in

    def _submit(self, name: str, key: ShareKey) -> None:
        trace = self.traces[key]
        claim = trace.claim
        if {"silent", "away"} & trace.habits:
            self._end(name, pause=NEVER_MS)
            return
        held = LATE * 1000 * (trace.task.seconds_left + 2) if "late" in trace.habits else 0
        signed = ShareSubmission(claim, sign(pub_key(self.me), share_sign_bytes(CHAIN_ID, claim)))
        link = self.world.validators[self.validator].service
        call = partial(
            self.world.network.call,
            lambda: link.submit_share(signed),
            self._answer(partial(self._handed_in, name, receive.submitted, key)),
        )
        self._later(held, call)

    def _handed_in(
        self,
        name: str,
        receives: Callable[..., Shares],
        key: ShareKey,
        verdict: Verdict | None,
    ) -> None:
        if verdict is None:
            failed = partial(receive.failed, key=key, text="no answer", again=True)
            self._end(name, failed, pause=RETRY_MS)
        else:
            answered = partial(receives, key=key, accepted=verdict.accepted, text=verdict.text)
            self._end(name, answered)

    def _secret(self, key: ShareKey) -> bytes:
        return digest("key of a delivery", self.me, key)

    def _offer(self, key: ShareKey) -> DeliveryOffer:
        """Return what this provider sends: only if it sends noise, that has pieces which can be shown."""
        trace = self.traces[key]
        if trace.offer is not None:
            return trace.offer
        roots, job = trace.delivery.roots, self.world.job(key.order_id)
        every = trace.task.every
        manifest = DeliveryManifest(
            root=digest("ciphertext", trace.claim),
            key_hash=delivery_key_hash(self._secret(key)),
            segments=roots.segments,
            update_chunks=job.terms.global_chunks if roots.is_whole else 0,
            every=every,
        )
        indices = delivered_boundaries(roots.segments, every)
        openings = tuple(
            Opening(index, job.blob(trace.states[index][0]), job.local_blob(trace.states[index][1]), verified=True)
            for index in indices
        )
        wrong = None
        layout = delivery_layout(job.terms, manifest)
        pieces = [manifest.root + bytes([at % 256]) for at in range(layout.count)]
        if trace.habits & NOISY:
            pieces = [cipher.encrypt(piece_key(self._secret(key), at), b"noise") for at in range(layout.count)]
        leaves = [piece_leaf(key, at, len(piece), sha256(piece).digest()) for at, piece in enumerate(pieces)]
        manifest = replace(manifest, root=merkle_root(leaves))
        if trace.habits & NOISY:
            wrong = WrongPieces(ShownPiece(0, pieces[0], merkle_path(leaves, 0)), None)
        signature = sign(pub_key(self.me), manifest_sign_bytes(CHAIN_ID, trace.claim, manifest))
        size = sum(blob.size for blob in trace.delivery.blobs)
        offer = DeliveryOffer(
            key=key, manifest=manifest, signature=signature, ciphertext=BlobRef(manifest.root, max(1, size))
        )
        self.world.deliveries[manifest.root] = SentDelivery(
            packet=trace.delivery, openings=openings, wrong=wrong, pieces=tuple(pieces)
        )
        trace.offer = offer
        return offer

    def _upload(self, name: str, key: ShareKey) -> None:
        if "hidden" in self.traces[key].habits:
            self._end(name, pause=NEVER_MS)
            return
        link, offer = self.world.validators[self.validator].service, self._offer(key)
        self.world.network.call(
            lambda: link.deliver_share(self.me, offer),
            self._answer(partial(self._uploaded, name, key)),
            size=offer.ciphertext.size,
        )

    def _uploaded(self, name: str, key: ShareKey, reply: ReceiptReply | None) -> None:
        if reply is not None and reply.accepted:
            self._end(name, partial(receive.uploaded, key=key))
        else:
            self._end(name, pause=RETRY_MS)

    def _deliver(self, name: str, key: ShareKey) -> None:
        trace = self.traces[key]
        if "hidden" in trace.habits:
            self._end(name, pause=NEVER_MS)
            return
        link, offer = self.world.validators[self.validator].service, self._offer(key)
        self.world.network.call(
            lambda: link.deliver_share(self.me, offer), self._answer(partial(self._receipted, name, key))
        )

    def _receipted(self, name: str, key: ShareKey, reply: ReceiptReply | None) -> None:
        if reply is None:
            self._end(name, pause=RETRY_MS)
        elif not reply.accepted:
            self._end(name, partial(receive.delivered, key=key, accepted=False, text=reply.text))
        elif reply.receipt is None:
            self._end(name, pause=POLL_MS)
        else:
            wait = self.world.order(key.order_id).order.params.show_wait
            if reply.receipt.at + wait // 2 <= self.world.chain_clock:
                self._end(name, pause=RETRY_MS)
            else:
                self._end(name, partial(receive.receipted, key=key, receipt=reply.receipt))

    def _show_key(self, name: str, key: ShareKey) -> None:
        trace = self.traces[key]
        if "keyless" in trace.habits:
            self._end(name, pause=NEVER_MS)
            return
        link = self.world.validators[self.validator].service
        shown = ShownKey(key, self._secret(key), trace.delivery.roots)
        self.world.network.call(
            lambda: link.show_key(self.me, shown), self._answer(partial(self._key_shown, name, key))
        )

    def _key_shown(self, name: str, key: ShareKey, reply: ReceiptReply | None) -> None:
        if reply is None:
            self._end(name, pause=RETRY_MS)
            return
        receipt = reply.receipt
        changes: list[Change] = [] if receipt is None else [partial(receive.receipted, key=key, receipt=receipt)]
        changes.append(partial(receive.delivered, key=key, accepted=reply.accepted, text=reply.text))
        self._end(name, *changes)

    def _show_on_chain(self, name: str, key: ShareKey) -> None:
        work, trace = self.shares.get(key), self.traces[key]
        receipt = work.receipt if work else None
        now = self.world.order(key.order_id).held(key, self.me)
        message = MsgShowKey(
            provider=self.me,
            order_id=key.order_id,
            leg=now.leg,
            round=now.round,
            slot=now.slot,
            issue=now.issue,
            manifest=self._offer(key).manifest,
            key=self._secret(key),
            roots=trace.delivery.roots,
            signed_at=receipt.at if receipt else 0,
            was_shown=receipt is not None and receipt.was_shown,
            signature=receipt.signature if receipt else b"",
        )
        self._send(message, partial(self._end, name, partial(receive.to_show, key=key, wanted=False)))

    def _include(self, name: str, key: ShareKey) -> None:
        trace = self.traces[key]
        claim = trace.claim
        message = MsgIncludeShare(
            provider=self.me,
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            slot=key.slot,
            issue=key.issue,
            commitment=claim.commitment,
            signature=sign(pub_key(self.me), share_sign_bytes(CHAIN_ID, claim)),
            every=trace.task.every,
            deadline=trace.task.deadline,
            task_signature=trace.task.signature,
            multiple=claim.multiple,
            cover=claim.cover,
        )
        self._send(message, partial(self._end, name, partial(receive.to_include, key=key, wanted=False)))

    def _ask(self, name: str, key: ShareKey) -> None:
        trace = self.traces[key]
        message = MsgAskReceipt(
            provider=self.me,
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            slot=key.slot,
            issue=key.issue,
            commitment=trace.claim.commitment,
            signature=sign(pub_key(self.me), share_sign_bytes(CHAIN_ID, trace.claim)),
            every=trace.task.every,
            deadline=trace.task.deadline,
            task_signature=trace.task.signature,
            manifest=self._offer(key).manifest,
            multiple=trace.claim.multiple,
            cover=trace.claim.cover,
        )
        self._send(message, partial(self._end, name, partial(receive.to_ask, key=key, wanted=False)))

    def _send_to_witnesses(self, name: str, key: ShareKey) -> None:
        """Send the delivery to the witnesses that have not signed."""
        ask, offer = claims.find_ask(self.world.order(key.order_id), self.traces[key].claim), self._offer(key)
        for witness in ask.witnesses if ask is not None else ():
            if ask is not None and witness not in ask.signed:
                service = self.world.validators[witness].service
                send = partial(service.take_as_witness, self.me, offer)
                self.world.network.call(send, self._answer(partial(_ignore)), size=offer.ciphertext.size)
        self._end(name, pause=RETRY_MS)

    def _open(self, name: str, key: ShareKey, indices: tuple[int, ...]) -> None:
        link = self.world.validators[self.validator].service
        for index in indices:
            opening = self.opening(key, index)
            if opening is None:
                continue
            self.world.network.call(partial(link.submit_opening, self.me, opening), self._answer(partial(_ignore)))
        self._end(name, pause=RETRY_MS)

    # Appealing a ruling against a share

    def _appeal(self, name: str, key: ShareKey) -> None:
        """Appeal a ruling against a right share, if the bond pays."""
        work, order = self.shares.get(key), self.world.order(key.order_id)
        contest = work.contest if work is not None else None
        panel = contests.contested_panel(order, key, self.me, contest) if contest is not None else None
        if work is None or panel is None:
            self._end(name, pause=RETRY_MS)
            return
        bond = contests.compute_bond(order, panel, len(self.world.validators), self.world.setup.params)
        lacking = bond - self.world.ask(AccountRequest(self.me)).bond.free
        is_paid = contests.pays(order, panel, work.task.multiple, bond)
        if not is_paid or (lacking > 0 and not self.auto_bond):
            self._end(name, partial(receive.rechecked, key=key, is_right=False))
            return
        if lacking > 0:
            self.deposited += lacking
            self._send(MsgDepositBond(self.me, lacking), partial(self._end, name))
            return
        message = MsgAppeal(
            appellant=self.me, order_id=panel.order_id, leg=panel.leg, round=panel.round, dispute=panel.dispute
        )
        self._send(message, partial(self._end, name, pause=RETRY_MS))

    # Standing for a share

    def _stand(self, name: str, key: ShareKey) -> None:
        """Stand for a share; after a few tries without success, give it up."""
        bond = claims.stand_bond(self.world.order(key.order_id), key, self.me)
        lacking = bond - self.world.ask(AccountRequest(self.me)).bond.free
        if lacking > 0 and self.auto_bond:
            self.deposited += lacking
            self._send(MsgDepositBond(self.me, lacking), partial(self._end, name))
            return
        tried = self._stands[key] = self._stands.get(key, 0) + 1
        if tried > STANDS_TRIED:
            self._end(name, partial(receive.standing, key=key, stand=GAVE_UP))
            return
        roots = self.traces[key].delivery.roots
        now = self.world.order(key.order_id).held(key, self.me)
        message = MsgStand(
            provider=self.me,
            order_id=key.order_id,
            leg=now.leg,
            round=now.round,
            slot=now.slot,
            issue=now.issue,
            roots=roots,
        )
        self._send(message, partial(self._end, name, pause=RETRY_MS))

    def _show_places(self, name: str, key: ShareKey, dispute: int) -> None:
        """Send the places of a share to the seats of its panel that have not answered yet."""
        panel = claims.standing_panel(self.world.order(key.order_id), key, self.me)
        seats = (
            self.world.ask(SeatsRequest(order_id=key.order_id, leg=panel.leg, round=panel.round, dispute=dispute)).seats
            if panel
            else ()
        )
        trace = self.traces[key]
        job = self.world.job(key.order_id)

        def put(index: int) -> OpenedState:
            first, second = trace.states[index]
            metrics = trace.delivery.boundaries[index - 1].metrics if index else ()
            return OpenedState(
                index=index, global_state=job.blob(first), local_state=job.local_blob(second), metrics=metrics
            )

        for seat in seats:
            if panel is None or seat.stage != panel.stage or seat.commitment:
                continue
            auditor = self.world.validators[seat.validator].auditor
            for number in seat.places:
                place = panel.places[number].place
                with_end = claims.is_hardware(self.world.order(key.order_id), panel.leg)
                leaves = leaves_of(trace.delivery)
                opening = claims.place_opening(place, leaves, trace.task.payload, put, with_end=with_end)
                show = partial(auditor.take_shown, panel.key, number, opening)
                self.world.network.call(show, self._answer(partial(_ignore)))
        self._end(name, pause=RETRY_MS)

    def opening(self, key: ShareKey, index: int) -> OpeningSubmission | None:
        """Return the states at a boundary as this provider shows them."""
        work = self.shares.asked(key)
        trace = self.traces.get(key if work is None else work.key)
        if trace is None or "closed" in trace.habits:
            return None
        audited = self.world.order(key.order_id).round(key.leg, key.round) is not None
        if not self.behaviour.opens(audited=audited) or (audited and "absent" in trace.habits):
            return None
        first, second = trace.states[index]
        if "junk" in trace.habits or ("saboteur" in trace.habits and audited):
            first = digest("junk", key, index)
        job = self.world.job(key.order_id)
        return OpeningSubmission(key=key, index=index, global_state=job.blob(first), local_state=job.local_blob(second))


def _ignore(_: object) -> None:
    pass
