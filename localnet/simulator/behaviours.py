"""Behaviours of parties: the honest ones, and those who cheat in one way each, as strategies of the real programs."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from compute_provider.decide.actions import Action
from domain.amount import BPS
from domain.disputes.messages import MsgAppeal
from domain.keys import RoundKey, ShareKey
from domain.legs.messages import MsgAcceptOrder
from domain.messages import Message
from domain.proof.messages import MsgCloseRound, MsgRevealAnswer
from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind, SeatAnswer, ShareState
from link.handover import Sealed
from localnet.simulator.memory_chain import digest
from localnet.simulator.training import Job, noise
from validator.decide.actions import ReviewedSeat
from validator.decide.admission import NEWCOMER_ROUNDS, NEWCOMER_ROUNDS_MAX, Backing
from validator.decide.duties import Duty
from validator.decide.plan import FreeProvider
from validator.decide.records import CheckedSegment, Recomputed, SeatKey

if TYPE_CHECKING:
    from localnet.simulator.actors.provider import ProviderActor
    from localnet.simulator.actors.validator import ValidatorActor
    from localnet.simulator.world import World

# --- providers -----------------------------------------------------------------------------------

HABITS = (
    "honest",
    "silent",
    "late",
    "away",  # seems to be away, and puts the share on chain itself shortly before the deadline
    "first",
    "last",
    "middle",
    "update",
    "metrics",
    "quits",  # says that the job stops
    "copied",
    "garbage",
    "hidden",  # commits, and delivers nothing
    "noise",  # commits, and delivers noise
    "odd bond",  # signs another bond than its task states
    "keyless",  # commits and delivers, and shows no key
    "closed",
    "junk",
    "saboteur",  # honest until others audit
    "absent",  # shows nothing when others audit
    "idle",  # makes everything up, and trains nothing
)
"""The habits of providers that act alone. A habit says how a share is wrong, missing or copied. Several habits of a
share are joined with "+". Providers that conspire also have the habit "agreed": they make up the same, and train
nothing."""
BENT = frozenset(("first", "last", "middle", "update", "metrics", "quits", "copied", "idle", "agreed"))
"""The habits with which a share commits to another result than that of the job."""


@cache
def words_of(habit: str) -> frozenset[str]:
    """Return the habits that a share has."""
    return frozenset(habit.split("+"))


def is_bent(habit: str) -> bool:
    """Return whether a share with this habit commits to something else than the job gives."""
    return not BENT.isdisjoint(words_of(habit))


class HonestProvider:
    """Trains what it is given, commits, delivers, opens."""

    honest = True
    cautious = False  # it takes only tasks that bonds and cover would pay

    def habit(self, actor: "ProviderActor", key: ShareKey) -> str:
        """Return what it makes of a share."""
        del actor, key
        return "honest"

    def opens(self, *, audited: bool) -> bool:
        """Return whether it shows states of a share that it delivered, also when others audit."""
        del audited
        return True

    def job(self, job: Job) -> Job:
        """Return the job that it trains instead of the order's."""
        return job

    def stays(self, action: Action) -> bool:
        """Return whether it is still there to do something; if not, it is gone for good."""
        del action
        return True


class CautiousProvider(HonestProvider):
    """Takes only tasks that bonds and cover would pay, as a provider's daemon does by default."""

    cautious = True


@dataclass
class Listed(HonestProvider):
    """Has a habit for each share that it gets, in their order, and is honest with all behind the list."""

    habits: list[str]
    absent: bool = False  # when others audit
    taken: dict[ShareKey, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.honest = not self.absent and all(habit == "honest" for habit in self.habits)

    def habit(self, actor: "ProviderActor", key: ShareKey) -> str:
        if key not in self.taken:
            self.taken[key] = self.habits.pop(0) if self.habits else "honest"
        return self.taken[key]

    def opens(self, *, audited: bool) -> bool:
        return not (audited and self.absent)


@dataclass
class Cheat(HonestProvider):
    """Has one of its habits with so many of a hundred shares."""

    name: str
    habits: tuple[str, ...]
    percent: int = 50
    honest: bool = False

    def habit(self, actor: "ProviderActor", key: ShareKey) -> str:
        dice = int.from_bytes(digest(self.name, key)[:4], "big")
        return self.habits[dice // 100 % len(self.habits)] if dice % 100 < self.percent else "honest"


class Tempted(HonestProvider):
    """Makes up a share, and after that another one, as long as its validator accepts them and no panel finds out."""

    honest = False

    def habit(self, actor: "ProviderActor", key: ShareKey) -> str:
        lies = [share for share, habit in actor.habits.items() if is_bent(habit)]
        return "idle" if all(_has_passed(actor.world, lie) for lie in lies) else "honest"


def _has_passed(world: "World", key: ShareKey) -> bool:
    """Return whether a share is accepted, and its round is not void."""
    on_chain = world.order(key.order_id)
    share = on_chain.share(key)
    void = any(closed.void for closed in on_chain.rounds if (closed.leg, closed.round) == (key.leg, key.round))
    return share is not None and share.state is ShareState.ACCEPTED and not void


BENT = BENT | {"swapped"}  # trains another job than its own, see HonestProvider.job


# --- validators ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A question to a seat about a round of ``winner``, who claims a root, or, if it is empty, that the job stops.

    Others ``said`` something already. ``step`` is that of the place.
    """

    winner: str
    claimed: bytes
    step: int
    said: tuple[SeatAnswer, ...]


class HonestValidator:
    """Does what the real decisions ask for."""

    honest = True

    def attends(self, daemon: "ValidatorActor", duty: Duty) -> bool:
        """Return whether it does a duty at all."""
        del daemon, duty
        return True

    def workers(self, daemon: "ValidatorActor", free: tuple[FreeProvider, ...]) -> tuple[FreeProvider, ...]:
        """Return the providers to which it gives work."""
        del daemon
        return free

    def backing(self, provider: str) -> Backing:
        """Return what its tasks for a provider state about the bonds behind a share."""
        number = sum(provider.encode())
        return Backing(1 + number % 3, BPS // 2 * (number % 2))

    @property
    def newcomer_rounds(self) -> int:
        """The rounds that may wait for their panels while one of them has a newcomer's share: a cheat lets all wait."""
        return NEWCOMER_ROUNDS if self.honest else NEWCOMER_ROUNDS_MAX

    def alters(self, daemon: "ValidatorActor", messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return what it sends instead of what it should."""
        del daemon
        return messages

    def sends(self, daemon: "ValidatorActor", messages: tuple[Message, ...]) -> bool:
        """Return whether it sends what it should."""
        del daemon, messages
        return True

    def vanishes(self, daemon: "ValidatorActor") -> bool:
        """Return whether it is gone for good from now on."""
        del daemon
        return False

    def aggregate(self, daemon: "ValidatorActor", root: bytes) -> bytes:
        """Return what it says that the updates of a round lead to."""
        del daemon
        return root

    def seals(self, daemon: "ValidatorActor", sealed: list[Sealed]) -> list[Sealed]:
        """Return what it hands over instead of the encrypted states."""
        del daemon
        return sealed

    def finds(self, daemon: "ValidatorActor", key: ShareKey, checked: CheckedSegment) -> CheckedSegment:
        """Return what it says of a segment of a share."""
        del daemon, key
        return checked

    def receives(self, daemon: "ValidatorActor", key: ShareKey) -> bool:
        """Return whether it takes the delivery of a share, and so signs a receipt for it."""
        del daemon, key
        return True

    def serves(self, daemon: "ValidatorActor", auditor: str) -> bool:
        """Return whether an auditor gets an answer."""
        del daemon, auditor
        return True

    def serves_own(self, daemon: "ValidatorActor", caller: str) -> bool:
        """Return whether it serves the end states that it computed as a seat to a seat of a later stage."""
        del daemon, caller
        return True

    def remarks(
        self,
        daemon: "ValidatorActor",
        outside: list[ReviewedSeat],
        unserved: list[ReviewedSeat],
        reviewed: tuple[ReviewedSeat, ...],
    ) -> tuple[list[ReviewedSeat], list[ReviewedSeat]]:
        """Return the seats of earlier stages of which it says that their states are outside, or were not served."""
        del daemon, reviewed
        return outside, unserved

    def serves_challenger(self, daemon: "ValidatorActor", caller: str) -> bool:
        """Return whether a possible challenger gets an answer."""
        del daemon, caller
        return True

    def serves_result(self, daemon: "ValidatorActor", caller: str) -> bool:
        """Return whether it serves an encrypted result."""
        del daemon, caller
        return True

    def says(self, daemon: "ValidatorActor", asked: Asked, found: Recomputed) -> Recomputed:
        """Return what it says in a seat where it found something."""
        del daemon, asked
        return found

    def withholds(self, world: "World", me: str) -> bool:
        """Return whether it makes no block although it is its turn."""
        del world, me
        return False

    def signs_twice(self, world: "World", me: str) -> bool:
        """Return whether the next block proves that it signed two blocks of the last height."""
        del world, me
        return False


class SignsTwice(HonestValidator):
    """Signs two blocks of one height, once, from a moment (ms) on."""

    honest = False

    def __init__(self, at: int) -> None:
        self.at = at

    def signs_twice(self, world: "World", me: str) -> bool:
        return me not in world.signed_twice and world.clock.now >= self.at


class Forger(HonestValidator):
    """Aggregates wrongly."""

    honest = False

    def aggregate(self, daemon: "ValidatorActor", root: bytes) -> bytes:
        return digest("forged", daemon.me, root)

    def sends(self, daemon: "ValidatorActor", messages: tuple[Message, ...]) -> bool:
        # It knows that it would lose an appeal.
        del daemon
        return not any(isinstance(message, MsgAppeal) for message in messages)


class NoiseSeller(HonestValidator):
    """Trains rightly, and hands over a global state of noise, in the only chunk that no panel draws."""

    honest = False

    def seals(self, daemon: "ValidatorActor", sealed: list[Sealed]) -> list[Sealed]:
        return [noise(sealed[0]), *sealed[1:]]


class NeverServes(HonestValidator):
    """Trains rightly, and serves its result to no one, or only to seats."""

    honest = False

    def __init__(self, *, seats: bool) -> None:
        self.seats = seats

    def serves_result(self, daemon: "ValidatorActor", caller: str) -> bool:
        return self.seats and caller in daemon.world.validators


class LocalNoiseSeller(HonestValidator):
    """Trains rightly, and hands over local states of noise."""

    honest = False

    def seals(self, daemon: "ValidatorActor", sealed: list[Sealed]) -> list[Sealed]:
        return [sealed[0], *(noise(chunk) for chunk in sealed[1:])]


class Mute(HonestValidator):
    """Does not send one kind of message."""

    honest = False
    kept: ClassVar[type[Message]]

    def sends(self, daemon: "ValidatorActor", messages: tuple[Message, ...]) -> bool:
        return not any(isinstance(m, self.kept) for m in messages)


class NeverCloses(Mute):
    """Closes no round."""

    kept = MsgCloseRound


class NeverAccepts(Mute):
    """Bids, and accepts no order."""

    kept = MsgAcceptOrder


class Hider(HonestValidator):
    """Serves no auditor."""

    honest = False

    def serves(self, daemon: "ValidatorActor", auditor: str) -> bool:
        return False


class Rejecter(HonestValidator):
    """Rejects every third right share for a mismatch."""

    honest = False

    def finds(self, daemon: "ValidatorActor", key: ShareKey, checked: CheckedSegment) -> CheckedSegment:
        if digest(daemon.me, key)[0] % 3 or checked.reason:
            return checked
        return replace(checked, reason=int(ShareReason.SEGMENT_MISMATCH))


class SilentAuditor(HonestValidator):
    """Answers no audit."""

    honest = False

    def attends(self, daemon: "ValidatorActor", duty: Duty) -> bool:
        return not isinstance(duty, SeatKey)


class LazyAuditor(HonestValidator):
    """Says what the chain claims, and replays nothing: it does not know the digest."""

    honest = False

    def says(self, daemon: "ValidatorActor", asked: Asked, found: Recomputed) -> Recomputed:
        return _guess(daemon, asked.claimed)


class CopyingAuditor(HonestValidator):
    """Says what another seat has said before it, else what the chain claims; replays nothing."""

    honest = False

    def says(self, daemon: "ValidatorActor", asked: Asked, found: Recomputed) -> Recomputed:
        if not asked.said:
            return _guess(daemon, asked.claimed)
        last = asked.said[-1]
        return Recomputed(fault="", kind=last.kind, root=last.root, digest=last.digest, step=last.step)


class HidingAuditor(Mute):
    """Commits to what it found, and never shows it."""

    kept = MsgRevealAnswer


class Slanderer(HonestValidator):
    """Says that what it found is something else."""

    honest = False

    def says(self, daemon: "ValidatorActor", asked: Asked, found: Recomputed) -> Recomputed:
        return _guess(daemon, digest("slander", daemon.me, asked.claimed))


def say(daemon: "ValidatorActor", asked: Asked, found: Recomputed) -> Recomputed:
    """Return what a validator says of a place that it ``found``.

    If it says something else, it repeats the digests of earlier stages that others have shown with its root.
    """
    says = daemon.behaviour.says(daemon, asked, found)
    if says.fault or len(says.earlier) == len(found.earlier):
        return says
    shown = {len(said.earlier): said.digest for said in asked.said if said.root == says.root}
    earlier = [shown.get(stage, digest("agreed", says.root, stage)) for stage in range(len(found.earlier))]
    return replace(says, earlier=tuple(earlier))


def _guess(daemon: "ValidatorActor", root: bytes) -> Recomputed:
    return Recomputed("", root=root, digest=digest("guessed", daemon.me, root))


class Withholder(HonestValidator):
    """Makes no block in half of its turns."""

    honest = False

    def withholds(self, world: "World", me: str) -> bool:
        return digest(me, world.chain.height)[0] % 2 == 0


@dataclass
class Vanisher(HonestValidator):
    """Is gone for good once so many rounds of one of its legs are verified and others are left."""

    rounds: int = 1
    honest: bool = False

    def vanishes(self, daemon: "ValidatorActor") -> bool:
        return any(
            leg.validator == daemon.me and self.rounds <= leg.verified < leg.rounds and leg.is_live
            for on_chain in daemon.view.orders.values()
            for leg in on_chain.legs
        )


VALIDATOR_CHEATS: tuple[type[HonestValidator], ...] = (
    Forger,
    NoiseSeller,
    LocalNoiseSeller,
    NeverCloses,
    NeverAccepts,
    Hider,
    Rejecter,
    SilentAuditor,
    LazyAuditor,
    CopyingAuditor,
    HidingAuditor,
    Slanderer,
    Withholder,
    Vanisher,
)


@dataclass
class Accomplice(HonestValidator):
    """Finds nothing in the shares of its friends, says as an auditor that its friends are right, and may forge itself.

    If it ``agrees``, it forges the same as its friends. As a proposer it makes no block while a lot about its friends
    waits, every other time.
    """

    friends: frozenset[str]
    forges: bool = False
    agrees: bool = False
    withholding: bool = False
    honest: bool = False

    def aggregate(self, daemon: "ValidatorActor", root: bytes) -> bytes:
        if not self.forges:
            return root
        return digest("forged", root) if self.agrees else digest("forged", daemon.me, root)

    def finds(self, daemon: "ValidatorActor", key: ShareKey, checked: CheckedSegment) -> CheckedSegment:
        provider = next((p for p, actor in daemon.world.providers.items() if key in actor.habits), "")
        return replace(checked, reason=0) if provider in self.friends else checked

    def says(self, daemon: "ValidatorActor", asked: Asked, found: Recomputed) -> Recomputed:
        if asked.winner not in self.friends or found.root == asked.claimed:
            return found
        # Friends agree on a digest, too; without a root it is claimed that the job stops.
        kind = AnswerKind.FINISHED if asked.claimed else AnswerKind.STOPPED
        made = digest("agreed", asked.claimed)
        return Recomputed(fault="", kind=kind, root=asked.claimed, digest=made, step=asked.step)

    def withholds(self, world: "World", me: str) -> bool:
        return self.withholding and bool(world.chain.height % 2) and world.waits_for(self.friends)


# --- challengers and outsiders -------------------------------------------------------------------


class Deed(StrEnum):
    """The deed of a challenger about a closed round."""

    NOTHING = "nothing"
    LOOKS = "looks"  # recomputes a place, and challenges it if it is wrong
    LIES = "lies"  # challenges a right place
    OPENS_NOTHING = "opens nothing"  # commits to a challenge, and does not open it
    SAYS_UNSERVED = "says unserved"  # challenges a place of which it says that it is not served
    ASKS_AGAIN = "asks again"  # challenges a place that a panel has drawn


class HonestChallenger:
    """Recomputes one place of each closed round, and challenges those that are wrong."""

    honest = True

    def deed(self, key: RoundKey, winner: str) -> Deed:
        """Return what it does about a round of a validator."""
        del key, winner
        return Deed.LOOKS


@dataclass
class FalseChallenger(HonestChallenger):
    """Does one thing about so many of a hundred rounds."""

    does: Deed
    percent: int = 50
    honest: bool = False

    def deed(self, key: RoundKey, winner: str) -> Deed:
        return self.does if digest("challenges", key, winner)[0] * 100 < 256 * self.percent else Deed.NOTHING


FILLING = 12
"""Transactions that fill a block, each a tenth of it."""


class Filler:
    """An outsider that fills all blocks."""

    def count(self, world: "World") -> int:
        """Return the number of transactions that it sends before the next block."""
        del world
        return FILLING


# --- consumers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConsumerHabits:
    """Habits of a consumer: to which legs it delivers (the last entry holds for all behind it), and the rest."""

    deliver: tuple[bool, ...] = (True,)
    cancel_after: int | None = None  # ms
    slanders: bool = False  # complains about right chunks
    early: bool = False  # takes each hand-over as soon as its round is closed, and gives up the refund
    fetches: bool = True  # fetches its result
    keeps: bool = True  # keeps the states of the last verified round, and delivers them to the next validator
    denies: bool = False  # says that it did not get the states of failed legs
    acks: bool = True  # says whether it got the states of a failed leg
    asks: bool = True  # asks a panel about a result that it was not served
    lies: bool = False  # says that it was not served a result that it got

    def delivers(self, leg: int) -> bool:
        return self.deliver[min(leg, len(self.deliver)) - 1]
