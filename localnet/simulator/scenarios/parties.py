"""Behaviours of scenarios, beside those of :mod:`localnet.simulator.behaviours`: one deviation each."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from compute_provider.decide.actions import Action
from domain.disputes.messages import MsgAppeal, MsgChallenge, MsgOpenChallenge
from domain.disputes.queries import DisputesRequest
from domain.disputes.records import DisputeState
from domain.keys import RoundKey, ShareKey
from domain.legs.messages import MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.messages import Message
from domain.proof.messages import MsgIncludeShare, MsgShowTrace
from domain.proof.queries import SeatsRequest
from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Finding, Round
from localnet.simulator.actors.provider import ProviderActor
from localnet.simulator.actors.validator import ValidatorActor
from localnet.simulator.behaviours import Accomplice, Asked, HonestProvider, HonestValidator
from localnet.simulator.memory_chain import CHAIN_ID, digest, pub_key, sign
from localnet.simulator.training import METRICS, Job, States, root_of
from localnet.simulator.world import World
from pol.rules.commitment import share_sign_bytes
from pol.rules.disputes import challenge_commitment
from pol.rules.inclusion import task_sign_bytes
from pol.rules.lots import duty_segments
from pol.rules.schedule import share_segments
from validator.decide.actions import ReviewedSeat
from validator.decide.admission import NEWCOMER_ROUNDS_MAX, Backing
from validator.decide.duties import Duty
from validator.decide.orders import refuse_with
from validator.decide.records import LegKey, LocalOrder, PayloadStage, Recomputed
from validator.watch.places import compares_ends

# --- providers -----------------------------------------------------------------------------------


@dataclass
class Trains(HonestProvider):
    """Trains something else than its job, and commits to that."""

    instead: Callable[[Job], Job]
    honest: bool = False

    def habit(self, actor: ProviderActor, key: ShareKey) -> str:
        return "swapped"

    def job(self, job: Job) -> Job:
        return self.instead(job)


class ForeignJob(Job):
    """The job of another order."""

    def train(self, states: States, round: int, slot: int, segment: int) -> States:
        return digest("foreign", states, segment), digest("foreign", "local", states, segment)


class OtherSlot(Job):
    """The work of the next slot, as if copied from its provider."""

    def train(self, states: States, round: int, slot: int, segment: int) -> States:
        return super().train(states, round, (slot + 1) % self.terms.slots, segment)


class StaleJob(Job):
    """The work of a round that starts from the job's first states."""

    def train(self, states: States, round: int, slot: int, segment: int) -> States:
        begins = (self.terms.global_root, self.terms.local_root) if segment == 0 else states
        return super().train(begins, round, slot, segment)


class SkippedJob(Job):
    """Invented states in the second half of the segments."""

    def train(self, states: States, round: int, slot: int, segment: int) -> States:
        if 2 * segment < share_segments(self.terms):
            return super().train(states, round, slot, segment)
        return digest("invented", states), digest("invented", "local", states)


class ThirdSkipped(Job):
    """Invented states in every third segment."""

    def train(self, states: States, round: int, slot: int, segment: int) -> States:
        after = super().train(states, round, slot, segment)
        return (digest("invented", after), after[1]) if segment % 3 == 1 else after


class EndlessJob(Job):
    """The job as if it did not stop."""

    def stop(self, round: int, slot: int) -> int | None:
        return None


def as_job(kind: type[Job]) -> Callable[[Job], Job]:
    """Return the function that gives a job as one of ``kind``."""

    def convert(job: Job) -> Job:
        return kind(job.terms, job.breaks_in)

    return convert


@dataclass(frozen=True)
class StoppingJob(Job):
    """A job that stops at one place of its first round that stops: a segment, its update or its aggregation."""

    at: int = 0

    def stop(self, round: int, slot: int) -> int | None:
        return self.at if self.breaks(round) and self.at <= share_segments(self.terms) else None


@dataclass
class Leaves(HonestProvider):
    """Is gone for good when it should do something of one kind."""

    before: type
    honest: bool = False

    def stays(self, action: Action) -> bool:
        return not isinstance(action, self.before)


class Fumbles(HonestProvider):
    """Delivers the first share of a slot to no one, and shows no state of a later one when others audit."""

    honest = False

    def habit(self, actor: ProviderActor, key: ShareKey) -> str:
        return "hidden" if key.issue == 1 else "honest"

    def opens(self, *, audited: bool) -> bool:
        return not audited


# --- validators ----------------------------------------------------------------------------------


class Slanted(HonestValidator):
    """Does the duties of a validator, but what it does beside them is not honest."""

    honest = False


class Hasty(HonestValidator):
    """Lets rounds wait for their panels although they have shares of newcomers, as its operator may choose."""

    newcomer_rounds = NEWCOMER_ROUNDS_MAX


class NeverAppeals(HonestValidator):
    """Leaves it to its providers to appeal rulings about its rounds. Their bonds are large, so that an appeal pays."""

    def backing(self, provider: str) -> Backing:
        return Backing(multiple=32)

    def sends(self, daemon: ValidatorActor, messages: tuple[Message, ...]) -> bool:
        return not any(isinstance(message, MsgAppeal) for message in messages)


@dataclass
class GoneAfter(HonestValidator):
    """Is gone for good after it sent a message of one kind."""

    last: type[Message]
    honest: bool = False
    sent: bool = False

    def sends(self, daemon: ValidatorActor, messages: tuple[Message, ...]) -> bool:
        if self.sent:
            return False
        self.sent = any(isinstance(message, self.last) for message in messages)
        return True

    def vanishes(self, daemon: ValidatorActor) -> bool:
        return self.sent


class ShowsNoTrace(Accomplice):
    """Finds nothing in the shares of its friends, and shows no trace when replicas differ."""

    def sends(self, daemon: ValidatorActor, messages: tuple[Message, ...]) -> bool:
        return not any(isinstance(message, MsgShowTrace) for message in messages)


@dataclass
class Decliner(HonestValidator):
    """Declines whatever it wins, for one reason that is not true."""

    reason: LegEnd
    honest: bool = False

    def attends(self, daemon: ValidatorActor, duty: Duty) -> bool:
        record = daemon.records.get(duty)
        if isinstance(duty, LegKey) and isinstance(record, LocalOrder) and _is_matched(daemon, duty):
            if self.reason is LegEnd.STATE_UNAVAILABLE and not _continues(daemon, duty):
                return True
            if record.payload.stage is not PayloadStage.BAD:
                daemon.records[duty] = refuse_with(record, self.reason, "not true")
        return True


def _is_matched(daemon: ValidatorActor, key: LegKey) -> bool:
    leg = daemon.world.order(key.order_id).leg(key.leg)
    return leg is not None and leg.state is LegState.MATCHED


def _continues(daemon: ValidatorActor, key: LegKey) -> bool:
    leg = daemon.world.order(key.order_id).leg(key.leg)
    return leg is not None and leg.from_leg > 0


@dataclass
class Stopper(HonestValidator):
    """Gives its leg up in the second round."""

    honest: bool = False
    stopped: bool = False

    def attends(self, daemon: ValidatorActor, duty: Duty) -> bool:
        if isinstance(duty, LegKey) and not self.stopped:
            leg = daemon.world.order(duty.order_id).leg(duty.leg)
            if leg is not None and leg.state is LegState.RUNNING and leg.closed:
                self.stopped = True
                message = MsgStopOrder(daemon.me, duty.order_id, duty.leg)
                daemon.world.submit((message,), lambda _: None, surely=True)
        return True


@dataclass
class Taker(HonestValidator):
    """Takes the shares of the second round, and gives its leg up when it has all of them."""

    honest: bool = False
    stopped: bool = False

    def attends(self, daemon: ValidatorActor, duty: Duty) -> bool:
        record = daemon.records.get(duty)
        if self.stopped or not isinstance(duty, LegKey) or not isinstance(record, LocalOrder):
            return True
        leg = daemon.world.order(duty.order_id).leg(duty.leg)
        current = next((each for each in record.rounds if leg is not None and each.round == leg.round), None)
        if leg is None or current is None or leg.state is not LegState.RUNNING or not leg.closed:
            return True
        if sum(work.packet is not None and not work.verdict for work in current.works) < leg.slots:
            return True
        self.stopped = True
        message = MsgStopOrder(daemon.me, duty.order_id, duty.leg)
        daemon.world.submit((message,), lambda _: None, surely=True)
        return False


@dataclass
class Censor(HonestValidator):
    """Puts no share of one provider on chain. A friend, if there is one, takes the issues of that provider's tasks."""

    victim: str
    friend: str = ""
    honest: bool = False

    def attends(self, daemon: ValidatorActor, duty: Duty) -> bool:
        record = daemon.records.get(duty)
        if isinstance(record, LocalOrder):
            if self.friend:
                self._betray(daemon, record)
            rounds = tuple(
                replace(
                    each,
                    works=tuple(
                        replace(work, signed=None, verdict=ShareReason.NO_ANSWER, settled=True)
                        if work.provider == self.victim and work.signed is not None
                        else work
                        for work in each.works
                    ),
                )
                for each in record.rounds
            )
            daemon.records[duty] = replace(record, rounds=rounds)
        return True

    def _betray(self, daemon: ValidatorActor, record: LocalOrder) -> None:
        """Sign the victim's tasks for the friend, too, and let the friend include shares that it made up."""
        for work in (work for each in record.rounds for work in each.works):
            if work.provider != self.victim or work.signed is None:
                continue
            claim = replace(work.signed.claim, provider=self.friend, commitment=digest("made up"))
            key, deadline = claim.key, daemon.world.chain_clock + 600
            numbers = (0, deadline, claim.multiple, claim.cover)
            message = MsgIncludeShare(
                provider=self.friend,
                order_id=key.order_id,
                leg=key.leg,
                round=key.round,
                slot=key.slot,
                issue=key.issue,
                commitment=claim.commitment,
                signature=sign(pub_key(self.friend), share_sign_bytes(CHAIN_ID, claim)),
                every=0,
                deadline=deadline,
                task_signature=sign(pub_key(daemon.me), task_sign_bytes(CHAIN_ID, key, self.friend, *numbers)),
                multiple=claim.multiple,
                cover=claim.cover,
            )
            daemon.world.providers[self.friend].habits[key] = "swapped"
            daemon.world.submit((message,), lambda _: None, surely=True)


@dataclass
class TakesNothing(HonestValidator):
    """Takes no delivery of one provider, neither from it nor from witnesses, and signs no receipt."""

    victim: str
    honest: bool = False

    def receives(self, daemon: ValidatorActor, key: ShareKey) -> bool:
        local = daemon.leg(LegKey(key.order_id, key.leg))
        at = local.share(key) if local is not None else None
        return at is None or at.work.provider != self.victim


class ServesAllButOne(HonestValidator):
    """Serves every seat but the first."""

    honest = False

    def serves(self, daemon: ValidatorActor, auditor: str) -> bool:
        others = sorted(name for name in daemon.world.validators if name != daemon.me)
        return auditor != others[0]


class HidesOwnStates(HonestValidator):
    """Serves the end states that it computed as a seat to no one."""

    honest = False

    def serves_own(self, daemon: ValidatorActor, caller: str) -> bool:
        return False


class AccusesAll(HonestValidator):
    """Says that the end states of all earlier seats are outside the thresholds."""

    honest = False

    def remarks(
        self,
        daemon: ValidatorActor,
        outside: list[ReviewedSeat],
        unserved: list[ReviewedSeat],
        reviewed: tuple[ReviewedSeat, ...],
    ) -> tuple[list[ReviewedSeat], list[ReviewedSeat]]:
        return list(reviewed), []


class SaysUnserved(HonestValidator):
    """Says of each place that it is not served."""

    honest = False

    def says(self, daemon: ValidatorActor, asked: Asked, found: Recomputed) -> Recomputed:
        return Recomputed("not served")


@dataclass
class Ruins(HonestValidator):
    """Is bribed to ruin a provider: in the first stages of a panel it says that the provider's shares are wrong."""

    victim: str
    honest: bool = True

    def says(self, daemon: ValidatorActor, asked: Asked, found: Recomputed) -> Recomputed:
        is_early = all(key.stage <= 2 for key in daemon.view.duties)
        if not is_early or asked.claimed not in self._claims(daemon.world):
            return found
        self.honest = False
        root = digest("ruined", asked.claimed)
        return Recomputed(fault="", kind=AnswerKind.FINISHED, root=root, digest=digest("agreed", root))

    def _claims(self, world: World) -> set[bytes]:
        """Return the roots after the segments of the provider's shares that its validator need not replay."""
        roots: set[bytes] = set()
        for key, trace in world.providers[self.victim].traces.items():
            share = world.order(key.order_id).share(key)
            duty = duty_segments(share.roots.segments, share.drawn) if share and share.roots else ()
            ends = enumerate(trace.delivery.boundaries)
            roots |= {end.boundary_root for segment, end in ends if segment not in duty}
        return roots


@dataclass
class Bribed(Accomplice):
    """Is bribed if it is one of the first seats of a panel: it then says that the winner is right."""

    seats: int = 1
    honest: bool = True

    def says(self, daemon: ValidatorActor, asked: Asked, found: Recomputed) -> Recomputed:
        if asked.winner in self.friends and found.root != asked.claimed and self._sits_first(daemon, asked.winner):
            self.honest = False
            return Recomputed(
                fault="", kind=AnswerKind.FINISHED, root=asked.claimed, digest=digest("agreed", asked.claimed)
            )
        return found

    def _sits_first(self, daemon: ValidatorActor, winner: str) -> bool:
        for key in daemon.view.duties:
            if key.stage != 1:
                continue
            leg = daemon.world.order(key.order_id).leg(key.leg)
            if leg is not None and leg.validator == winner:
                seats = daemon.world.ask(SeatsRequest(*key.panel)).seats
                return daemon.me in {seat.validator for seat in seats[: self.seats]}
        return False


# --- others, who act on their own ----------------------------------------------------------------

TICK_MS = 500


class Bystander(ABC):
    """A party that looks at the chain now and then, and sends what it likes."""

    def begin(self, world: World) -> None:
        """Look for the first time soon, and again and again."""
        world.clock.after(TICK_MS, lambda: self._tick(world))

    def _tick(self, world: World) -> None:
        self.act(world)
        if world.living:
            world.clock.after(TICK_MS, lambda: self._tick(world))

    @abstractmethod
    def act(self, world: World) -> None:
        """Look at the chain, and send messages."""


@dataclass
class Flooder(Bystander):
    """Fills blocks with payments to itself."""

    name: str
    count: int = 6

    def act(self, world: World) -> None:
        world.flood(self.name, self.count)


@dataclass
class Challenger(Bystander):
    """Challenges one undrawn place of one closed round: with the right root, or with an invented one; or opens nothing.

    With ``right`` it looks for a wrong segment in an accepted share.
    """

    name: str
    right: bool = True
    opens: bool = True
    bond: int = 10**8
    salt: bytes = digest("salt")
    _sent: dict[RoundKey, tuple[AuditPlace, Finding]] = field(default_factory=dict)
    _opened: bool = False

    def act(self, world: World) -> None:
        for order in world.orders:
            for closed in world.order(order.order_id).rounds if order.order_id else ():
                if not self._sent and not closed.verified and not closed.void:
                    self._commit(world, closed)
        self._open(world)

    def _commit(self, world: World, closed: Round) -> None:
        found = self._find(world, closed)
        if found is None:
            return
        self._sent[closed.key] = found
        made = challenge_commitment(CHAIN_ID, closed.key, *found, self.salt, self.name)
        message = MsgChallenge(
            challenger=self.name,
            order_id=closed.order_id,
            leg=closed.leg,
            round=closed.round,
            commitment=made,
            bond=self.bond,
        )
        world.submit((message,), lambda _: None, surely=True)

    def _open(self, world: World) -> None:
        for key, (place, claim) in self._sent.items() if self.opens and not self._opened else ():
            disputes = world.ask(DisputesRequest(key.order_id)).disputes
            waiting = [d for d in disputes if d.challenger == self.name and d.state is DisputeState.COMMITTED]
            for dispute in waiting:
                self._opened = True
                message = MsgOpenChallenge(
                    challenger=self.name,
                    order_id=key.order_id,
                    leg=key.leg,
                    round=key.round,
                    number=dispute.number,
                    place=place,
                    claim=claim,
                    salt=self.salt,
                )
                world.submit((message,), lambda _: None, surely=True, in_lane=True)

    def _find(self, world: World, closed: Round) -> tuple[AuditPlace, Finding] | None:
        """Return the place that it challenges, and its claim."""
        on_chain = world.order(closed.order_id)
        panel = on_chain.panel(closed.leg, closed.round)
        if panel is None or not panel.places:
            return None
        drawn = {place.place for place in panel.places}
        job = world.job(closed.order_id)
        for key in closed.share_keys:
            share = on_chain.share(key)
            assert share is not None
            states = world.providers[share.claim.provider].traces[key].states
            for segment in range(len(states) - 1):
                place = AuditPlace(kind=AuditKind.SEGMENT, slot=key.slot, issue=key.issue, segment=segment)
                trained = job.train(states[segment], key.round, key.slot, segment)
                is_wrong = trained != states[segment + 1]
                if place not in drawn and is_wrong == self.right and segment not in share.drawn:
                    root = root_of(trained, METRICS) if self.right else digest("invented", key, segment)
                    leg = on_chain.leg(closed.leg)
                    if leg is not None and compares_ends(leg, place):
                        return place, Finding(AnswerKind.OUTSIDE, b"", 0)
                    return place, Finding(AnswerKind.FINISHED, root, 0)
        return None
