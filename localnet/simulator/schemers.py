"""Bad parties whose decisions come from the strategy of a coalition (:mod:`localnet.simulator.strategies`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from domain.keys import RoundKey, ShareKey
from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder, MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.messages import Message
from domain.proof.messages import (
    MsgAcceptShares,
    MsgCloseRound,
    MsgCommitTraces,
    MsgRevealAnswer,
)
from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind
from link.handover import Sealed
from localnet.simulator.behaviours import (
    FILLING,
    Asked,
    ConsumerHabits,
    Deed,
    Filler,
    HonestChallenger,
    HonestProvider,
    HonestValidator,
)
from localnet.simulator.memory_chain import digest
from localnet.simulator.strategies import Mind
from localnet.simulator.training import Job, noise
from validator.decide.duties import Duty
from validator.decide.plan import FreeProvider
from validator.decide.records import CheckedSegment, Recomputed, SeatKey

if TYPE_CHECKING:
    from localnet.simulator.actors.provider import ProviderActor
    from localnet.simulator.actors.validator import ValidatorActor
    from localnet.simulator.world import World

LATE_MS = 30_000
"""Time by which a message is sent too late."""
SOON_MS, LATER_MS = 1_000, 20_000
"""Times after which a consumer cancels."""

DECLINES: Mapping[str, LegEnd] = MappingProxyType(
    {
        "bad job": LegEnd.DECLINED_BAD_JOB,
        "work mismatch": LegEnd.DECLINED_WORK_MISMATCH,
        "too slow": LegEnd.DECLINED_TOO_SLOW,
        "not finite": LegEnd.DECLINED_NOT_FINITE,
        "not delivered": LegEnd.PAYLOAD_NOT_DELIVERED,
        "no capacity": LegEnd.DECLINED_NO_CAPACITY,
        "by choice": LegEnd.DECLINED_BY_CHOICE,
        "no states": LegEnd.STATE_UNAVAILABLE,
    }
)
REJECTIONS: Mapping[str, ShareReason] = MappingProxyType(
    {
        "accept": ShareReason.NONE,
        "segment": ShareReason.SEGMENT_MISMATCH,
        "update": ShareReason.UPDATE_MISMATCH,
        "not finite": ShareReason.NOT_FINITE,
        "silent": ShareReason.NO_ANSWER,
        "late": ShareReason.LATE,
    }
)
SENT: Mapping[type[Message], str] = MappingProxyType(
    {
        MsgCommitTraces: "validator commits",
        MsgAcceptShares: "validator accepts shares",
        MsgCloseRound: "validator closes",
        MsgRevealAnswer: "seat reveals",
    }
)
"""Decisions about sending a message in time."""
ABOUT_ROUND = (MsgCommitTraces, MsgAcceptShares, MsgCloseRound)


@dataclass
class SchemingProvider(HonestProvider):
    """A provider of a coalition."""

    mind: Mind
    honest: bool = False

    def habit(self, actor: "ProviderActor", key: ShareKey) -> str:
        choose = self.mind.choose
        words = (
            choose("provider makes later" if key.round else "provider makes first", key),
            choose("provider hands in", key),
            choose("provider delivers", key),
            choose("provider opens", key),
            {"nothing": "absent", "junk": "saboteur"}.get(choose("provider opens to panels", key), ""),
        )
        return "+".join(word for word in words if word not in ("", "honest", "send", "show")) or "honest"


@dataclass
class SchemingValidator(HonestValidator):
    """A validator of a coalition."""

    mind: Mind
    honest: bool = False
    held_since: dict[object, int] = field(default_factory=dict)

    def attends(self, daemon: "ValidatorActor", duty: Duty) -> bool:
        return not isinstance(duty, SeatKey) or self.mind.choose("seat attends", duty.panel) == "yes"

    def workers(self, daemon: "ValidatorActor", free: tuple[FreeProvider, ...]) -> tuple[FreeProvider, ...]:
        chosen = self.mind.choose("validator gives work")
        if chosen == "all":
            return free
        return tuple(p for p in free if (p.address in self.mind.friends) == (chosen == "friends"))

    def alters(self, daemon: "ValidatorActor", messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(self._alter(daemon, message) for message in messages)

    def _alter(self, daemon: "ValidatorActor", message: Message) -> Message:
        if isinstance(message, MsgAcceptOrder):
            end = DECLINES.get(self.mind.choose("validator answers a match", message.order_id, message.leg))
            if end is not None:
                return MsgDeclineOrder(validator=daemon.me, order_id=message.order_id, leg=message.leg, reason=int(end))
        if isinstance(message, ABOUT_ROUND):
            closed = daemon.world.order(message.order_id).rounds_of(message.leg)
            if closed and self.mind.choose("validator goes on", message.order_id, message.leg) == "stops":
                return MsgStopOrder(daemon.me, message.order_id, message.leg)
        return message

    def sends(self, daemon: "ValidatorActor", messages: tuple[Message, ...]) -> bool:
        return all(self._sends(daemon, message) for message in messages)

    def _sends(self, daemon: "ValidatorActor", message: Message) -> bool:
        if isinstance(message, MsgAcceptOrder):
            about = message.order_id, message.leg
            return self.mind.choose("validator answers a match", *about) != "never"
        decision = SENT.get(type(message))
        if decision is None or not isinstance(message, (*ABOUT_ROUND, MsgRevealAnswer)):
            return True
        key = RoundKey(message.order_id, message.leg, message.round)
        option = self.mind.choose(decision, key)
        if option == "late":
            now = daemon.world.clock.now
            return now - self.held_since.setdefault((decision, key), now) > LATE_MS
        return option != "never"

    def vanishes(self, daemon: "ValidatorActor") -> bool:
        return any(
            leg.validator == daemon.me
            and leg.is_live
            and self.mind.choose("validator goes on", leg.order_id, leg.number) == "vanishes"
            and on_chain.rounds_of(leg.number)
            for on_chain in daemon.view.orders.values()
            for leg in on_chain.legs
        )

    def aggregate(self, daemon: "ValidatorActor", root: bytes) -> bytes:
        match self.mind.choose("validator aggregates", root):
            case "wrong":
                return digest("forged", daemon.me, root)
            case "agreed":
                return digest("forged", root)
        return root

    def seals(self, daemon: "ValidatorActor", sealed: list[Sealed]) -> list[Sealed]:
        match self.mind.choose("validator hands over", sealed[0].leaf):
            case "global noise":
                return [noise(sealed[0]), *sealed[1:]]
            case "local noise":
                return [sealed[0], *(noise(chunk) for chunk in sealed[1:])]
        return sealed

    def finds(self, daemon: "ValidatorActor", key: ShareKey, checked: CheckedSegment) -> CheckedSegment:
        trainer = daemon.world.trainer_of(key)
        reason = REJECTIONS.get(self.mind.choose_about(trainer, "validator judges", key))
        return checked if reason is None else replace(checked, reason=int(reason))

    def serves(self, daemon: "ValidatorActor", auditor: str) -> bool:
        return self.mind.choose_about(auditor, "validator serves") == "serve"

    def serves_challenger(self, daemon: "ValidatorActor", caller: str) -> bool:
        return self.mind.choose("validator serves challengers", caller) == "serve"

    def says(self, daemon: "ValidatorActor", asked: Asked, found: Recomputed) -> Recomputed:
        # Friends agree on a digest, too.
        agreed = digest("agreed", asked.claimed, asked.step)
        match self.mind.choose_about(asked.winner, "seat speaks of", asked.claimed, asked.step):
            case "vouch":
                kind = AnswerKind.FINISHED if asked.claimed else AnswerKind.STOPPED
                return Recomputed(fault="", kind=kind, root=asked.claimed, digest=agreed, step=asked.step)
            case "slander":
                return Recomputed("", root=digest("slander", asked.claimed), digest=agreed)
            case "unavailable":
                return Recomputed("nothing was served")
            case "copy" if asked.said:
                last = asked.said[-1]
                return Recomputed(fault="", kind=last.kind, root=last.root, digest=last.digest, step=last.step)
            case "stopped":
                return Recomputed(fault="", kind=AnswerKind.STOPPED, root=b"", digest=agreed, step=asked.step)
        return found

    def withholds(self, world: "World", me: str) -> bool:
        match self.mind.choose("proposer", world.chain.height):
            case "withholds":
                return True
            case "withholds while friends wait":
                return world.waits_for(self.mind.friends)
        return False


def scheme_habits(mind: Mind, order: int, habits: ConsumerHabits) -> ConsumerHabits:
    """Return the habits of a consumer of a coalition with one of its orders."""
    deliver = {"never": (False,), "not to the first": (False, True), "only to the first": (True, False)}
    cancel = {"soon": SOON_MS, "late": LATER_MS}
    acknowledges = mind.choose("consumer acknowledges", order)
    return replace(
        habits,
        deliver=deliver.get(mind.choose("consumer delivers", order), habits.deliver),
        cancel_after=cancel.get(mind.choose("consumer cancels", order), habits.cancel_after),
        early=habits.early or mind.choose("consumer takes early", order) == "yes",
        slanders=mind.choose("consumer complains", order) == "always",
        acks=acknowledges != "silent",
        denies=acknowledges == "denies",
        keeps=mind.choose("consumer keeps states", order) == "yes",
    )


def scheme_job(mind: Mind, order: int, job: Job) -> Job:
    """Return the job that a consumer of a coalition orders instead of its own."""
    match mind.choose("consumer's job", order):
        case "stops at once":
            return replace(job, breaks_in=0)
        case "stops at the end":
            return replace(job, breaks_in=job.terms.rounds - 1)
    return job


@dataclass
class SchemingChallenger(HonestChallenger):
    """A challenger of a coalition."""

    mind: Mind
    honest: bool = False

    def deed(self, key: RoundKey, winner: str) -> Deed:
        return Deed(self.mind.choose_about(winner, "challenger of", key))


@dataclass
class SchemingFiller(Filler):
    """An outsider of a coalition that fills blocks while that helps its friends."""

    mind: Mind

    def count(self, world: "World") -> int:
        match self.mind.choose("filler", world.chain.height):
            case "always":
                return FILLING
            case "half":
                return FILLING // 2
            case "while friends wait":
                return FILLING if world.waits_for(self.mind.friends) else 0
        return 0
