"""A consumer's order: it is submitted, its payload delivered to whoever wins it, and perhaps cancelled."""

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from domain.block import TxResult
from domain.legs.records import LegState
from domain.market.messages import MsgCancelOrder, MsgSubmitOrder
from domain.market.records import OrderState
from tests.simulator.behaviours import ConsumerHabits
from tests.simulator.clock import Alarm
from tests.simulator.training import Job

if TYPE_CHECKING:
    from tests.simulator.world import World


@dataclass(frozen=True)
class OrderPlan:
    """An order that somebody is going to submit."""

    at: int  # ms
    message: MsgSubmitOrder
    job: Job
    habits: ConsumerHabits = field(default_factory=ConsumerHabits)
    honest: bool = True


class OrderActor:
    """What a consumer does about one of its orders."""

    def __init__(self, world: "World", plan: OrderPlan) -> None:
        self.world, self.plan = world, plan
        self.order_id = b""
        self.refusal = ""
        self.over = False
        self._delivered = 0
        self._busy = False
        self.alarm = Alarm(world.clock, self.step)
        world.clock.at(plan.at, self.submit)

    def submit(self) -> None:
        """Send the order."""
        self.world.submit((self.plan.message,), self._submitted, surely=True)

    def _submitted(self, result: TxResult) -> None:
        if result.code:
            self.refusal = result.log
            self._end()
            return
        ((_, self.order_id),) = result.responses
        self.world.jobs[self.order_id] = self.plan.job
        self.alarm.within(0)
        if self.plan.habits.cancel_after is not None:
            self.world.clock.after(self.plan.habits.cancel_after, self._cancel)

    def _cancel(self) -> None:
        if self.world.order(self.order_id).order.state is OrderState.OPEN:
            message = MsgCancelOrder(self.plan.message.consumer, self.order_id)
            self.world.submit((message,), _ignore)

    def step(self) -> None:
        """Deliver if the order is matched and its leg lacks the payload; what fails is tried again."""
        if self.over:
            return
        answer = self.world.order(self.order_id)
        order, current = answer.order, answer.current
        if order.state is OrderState.CLOSED:
            self._end()
            return
        matched = current is not None and current.state is LegState.MATCHED
        if current is None or not matched or self._busy or order.legs == self._delivered:
            return
        if self.plan.habits.delivers(order.legs):
            self._busy = True
            link, files = self.world.validators[current.validator].service, self.plan.job.files()
            self.world.network.call(
                lambda: link.offer_payload(self.order_id, files),
                partial(self._offered, order.legs),
                size=self.plan.job.terms.delivered_bytes,
            )

    def _offered(self, leg: int, taken: bool | None) -> None:
        self._busy = False
        if taken:
            self._delivered = leg

    def wake(self, delay: int) -> None:
        """Look at the order soon."""
        self.alarm.within(delay)

    def _end(self) -> None:
        self.over = True
        self.world.living -= 1


def _ignore(_: TxResult) -> None:
    pass
