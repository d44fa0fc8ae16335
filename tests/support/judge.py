"""A component above all others that holds orders and rounds because a message says so, as disputes will do."""

from dataclasses import dataclass
from typing import Any, ClassVar

from chain.state_machine.component import Component
from chain.state_machine.components import COMPONENTS
from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.holds import Subject, check_hold, hold, release
from chain.state_machine.rules import Rulebook, Rules
from domain.bounds import Address, Hash, Number, Text
from domain.genesis import Genesis
from domain.keys import RoundKey
from domain.messages import Message
from tests.support.chain_harness import Chain


@dataclass(frozen=True, slots=True)
class MsgJudge(Message):
    """Hold an order (leg 0) or a round for ``seconds``; 0 releases it."""

    URL: ClassVar[str] = "/test.judge.v1.MsgJudge"
    SIGNER: ClassVar[str] = "judge"
    judge: Address
    order_id: Hash
    leg: Number
    round: Number
    reason: Text
    seconds: Number

    @property
    def subject(self) -> Subject:
        return RoundKey(self.order_id, self.leg, self.round) if self.leg else self.order_id


def check_judge(ctx: Context, message: MsgJudge) -> None:
    if message.seconds:
        check_hold(ctx, message.subject, message.reason)


def apply_judge(ctx: Context, message: MsgJudge, _: None) -> None:
    if message.seconds:
        hold(ctx, message.subject, message.reason, ctx.clock + message.seconds)
    else:
        release(ctx, message.subject, message.reason)


JUDGE = Component(name="judge", handlers=(Handler(MsgJudge, check_judge, apply_judge),))
RULEBOOK = Rulebook(Rules(1, (*COMPONENTS, JUDGE)))


class JudgedChain(Chain):
    """A chain with the judge on it."""

    def __init__(self, genesis: Genesis, **options: Any) -> None:
        super().__init__(genesis, rulebook=RULEBOOK, **options)


def judge(order_id: bytes, seconds: int, reason: str = "why", round: int | None = None) -> MsgJudge:
    """Return the message that holds (or with 0 seconds releases) an order, or a round of its first leg."""
    at = (0, 0) if round is None else (1, round)
    return MsgJudge("carol", order_id, *at, reason, seconds)
