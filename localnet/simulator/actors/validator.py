"""A validator: its real decisions, and a shell around them without sockets, disks or tensors.

What is under way when it crashes is lost; its records come back from their bytes.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from domain.attest.queries import AttestEvidenceRequest, AttestPolicyRequest
from domain.codec import decode, encode
from link.types import StateRef
from localnet.simulator.actors.auditor import Auditor, held
from localnet.simulator.actors.errands import PAUSE_MS, Errands
from localnet.simulator.actors.numerics import Numerics
from localnet.simulator.actors.observer import Observer
from localnet.simulator.actors.sending import Sender
from localnet.simulator.actors.service import Service
from localnet.simulator.actors.witness import WitnessActor
from localnet.simulator.behaviours import HonestValidator
from localnet.simulator.clock import Alarm
from localnet.simulator.memory_chain import CHAIN_ID
from validator.decide import actions as do
from validator.decide.actions import Action
from validator.decide.duties import Duty, Record, Upkeep, decide, duties
from validator.decide.initial import initial_states_taken, states_of
from validator.decide.outgoing import Outgo
from validator.decide.records import AttestKey, LegKey, LocalAttest, LocalOrder, LocalUpkeep, WitnessKey
from validator.decide.view import ChainView, Look
from validator.work.attest import case_of, judge_evidence

if TYPE_CHECKING:
    from localnet.simulator.world import World

FETCH_PAUSE_MS = 1_000
"""Before states are asked for again."""
GONE_SECONDS = 10**6
"""How long a validator is away that vanishes for good."""
GAP_MS = 250
"""Least time between two looks."""


class ValidatorActor:
    """A validator's daemon, from crash to crash."""

    def __init__(self, world: "World", me: str, behaviour: HonestValidator, speed: int = 10**9) -> None:
        self.world, self.me, self.behaviour, self.speed = world, me, behaviour, speed
        self.secret = sha256(me.encode()).digest()
        self.records: dict[Duty, Record] = {}
        self.numerics = Numerics(self)
        self.auditor = Auditor(self)
        self.witness = WitnessActor(self)
        self.service = Service(self)
        self.life = 0  # what began in an earlier one ends in nothing
        self.down_until = 0
        self.worked = 0  # FLOPs that it replayed
        # The next crashes, in the middle of a look: after so many steps.
        self.fragile: list[int] = []
        self.alarm = Alarm(world.clock, self.look)
        self._looked_at = -(10**9)
        self._begin()

    # Life

    def _begin(self) -> None:
        """See nothing, and have nothing under way."""
        self.errands = Errands()
        self.sender = Sender(self)
        self.observer = Observer(self)
        self.view = ChainView(clock=0, orders={}, validators={}, providers={})
        self.since: int | None = None

    @property
    def up(self) -> bool:
        return self.world.clock.now >= self.down_until

    def crash(self, seconds: int) -> None:
        """Lose everything but what can be written down; a transaction that is under way is in a block or not."""
        self.life += 1
        self._begin()
        self.records = {
            duty: decode(type(record), encode(record))
            for duty, record in self.records.items()
            if not isinstance(record, LocalUpkeep)
        }
        self.auditor.crash()
        self.service.crash()
        self.down_until = self.world.clock.now + 1000 * seconds
        self.world.crashes += 1
        self.wake(1000 * seconds)

    def break_down(self) -> None:
        """Crash in the middle of one of the next looks."""
        self.fragile.append(1 + self.world.dice(12))

    def wake(self, delay: int = 0) -> None:
        """See to it that it looks soon."""
        gap = self._looked_at + GAP_MS - self.world.clock.now
        self.alarm.within(max(delay, gap, self.down_until - self.world.clock.now))

    def later(self, delay: int, act: Callable[[], None]) -> None:
        """Do something after a while, unless it crashes."""
        life = self.life
        self.world.clock.after(delay, lambda: act() if life == self.life else None)

    # Records

    def leg(self, key: LegKey) -> LocalOrder | None:
        local = self.records.get(key)
        return local if isinstance(local, LocalOrder) else None

    def change(self, key: LegKey, change: Callable[[LocalOrder], LocalOrder | None]) -> None:
        now = self.leg(key)
        if now is not None:
            self.records[key] = change(now) or now
            self.wake()

    # Looking

    def look(self) -> None:
        """Decide about every duty, and start what is asked for."""
        if not self.up:
            return
        if self.behaviour.vanishes(self):
            self.crash(GONE_SECONDS)
            return
        self._looked_at = self.world.clock.now
        self.view = self.observer.see(self.view)
        if self.since is None:
            self.since = self.view.clock
        look, outgo = self._look(), list[Outgo]()
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
                if isinstance(action, Outgo):
                    outgo.append(action)
                else:
                    self._start(action)
        self.sender.want(outgo, self._looked_at)

    def _breaks(self) -> bool:
        """Return whether it crashes at this moment of a look."""
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

    def _look(self) -> Look:
        own = self.view.validators.get(self.me)
        return Look(
            chain=self.view,
            me=self.me,
            chain_id=CHAIN_ID,
            secret=self.secret,
            since=self.since or 0,
            workers=self.behaviour.workers(self, self.service.workers()),
            machines=self.service.presence.machines(),
            endpoint=own.endpoint if own else "",
            certificate=own.certificate if own else b"",
            seats=held(self.records),
            witnesses=tuple(sorted(key for key in self.records if isinstance(key, WitnessKey))),
            attests=tuple(sorted(key for key in self.records if isinstance(key, AttestKey))),
            measured=self.service.measured(),
            held=self._held(),
            newcomer_rounds=self.behaviour.newcomer_rounds,
        )

    def _held(self) -> dict[bytes, StateRef]:
        """Return the states of earlier legs that are here, where a leg starts from some."""
        found = {state.root: state for state in self.world.setup.held}
        if any(on_chain.current and on_chain.current.from_leg for on_chain in self.view.orders.values()):
            for record in self.records.values():
                if isinstance(record, LocalOrder):
                    found |= {state.root: state for state in (*states_of(record), *record.fetched)}
        return found

    # Doing

    def _start(self, action: Action) -> None:
        match action:
            case do.NoteVerdicts() | do.Tidy() | do.Clean():
                pass
            case do.TakeInitialStates(leg=leg, earlier_global=opening, slots=slots):
                self.change(leg, lambda now: initial_states_taken(now, opening, slots))
            case do.FetchStates():
                if self.errands.begin(action.key, self.world.clock.now):
                    self._fetch(action, action.sources, {})
            case do.ForgetLeg(leg=leg):
                self.records.pop(leg, None)
            case do.EndSeat(seat=seat):
                self.records.pop(seat, None)
            case do.JudgeEvidence():
                self._judge(action)
            case do.EndAttest(seat=seat):
                self.records.pop(seat, None)
            case do.EndWitness(witness=witness):
                self.records.pop(witness, None)
            case _:
                begun = self.errands.begin(action.key, self.world.clock.now)
                if begun and not (self.auditor.start(action) or self.witness.start(action)):
                    self.later(self.numerics.duration(action), partial(self._finish, action))

    def _judge(self, action: do.JudgeEvidence) -> None:
        """Verify evidence as the daemon does, but at once."""
        key = action.seat
        evidence = self.world.ask(AttestEvidenceRequest(key.owner, key.number)).evidence
        policy = self.world.ask(AttestPolicyRequest(action.attestation.policy)).policy
        if evidence is not None and policy is not None:
            answer = judge_evidence(case_of(CHAIN_ID, action.attestation, evidence, policy.policy))
            self.records[key] = LocalAttest(answer)

    def _fetch(self, action: do.FetchStates, sources: tuple[str, ...], found: dict[bytes, StateRef]) -> None:
        """Take what the consumer sent, and ask one validator after the other for the rest."""
        local = self.leg(action.leg)
        if local is not None and sources and not found.keys() >= action.roots:
            source, life = self.world.validators[sources[0]].service, self.life

            def arrived(states: tuple[StateRef, ...] | None) -> None:
                if life == self.life:
                    self._fetch(action, sources[1:], found | {state.root: state for state in states or ()})

            self.world.network.call(lambda: source.get_states(action.leg.order_id, action.source), arrived)
            return
        if local is not None:
            found |= {state.root: state for state in local.offered}
            taken = tuple(found[root] for root in sorted(found) if root in action.roots)
            self.change(action.leg, lambda now: replace(now, fetched=(*now.fetched, *taken)))
        self.finished(action.key, FETCH_PAUSE_MS)

    def _finish(self, action: Action) -> None:
        self.finished(action.key)
        self.numerics.finish(action)
        self.wake()

    def finished(self, key: str, pause: int = PAUSE_MS) -> None:
        """Note that an action is over."""
        self.errands.end(key, self.world.clock.now, pause)
