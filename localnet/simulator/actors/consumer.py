"""A consumer: submits an order, delivers its payload to the winner, and fetches and checks its result."""

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from consumer.finders import find_result_seats
from consumer.missed import result_bond
from consumer.states import newest_verified
from domain.block import TxResult
from domain.hashing import merkle_path, merkle_root
from domain.keys import RoundKey
from domain.ledger.messages import MsgDepositBond
from domain.legs.messages import MsgAckState
from domain.legs.records import Leg, LegState
from domain.market.messages import MsgCancelOrder, MsgSubmitOrder
from domain.market.records import OrderState
from domain.proof.messages import MsgComplain, MsgNeverServed, MsgTakeEarly
from domain.proof.queries import OrderResponse, SeatsRequest
from domain.proof.records import OpenedChunk, Round
from link.handover import Sealed, prove_chunk
from link.types import StateRef
from localnet.simulator.behaviours import ConsumerHabits
from localnet.simulator.clock import Alarm
from localnet.simulator.memory_chain import CHAIN_ID
from localnet.simulator.training import ORDER_SECRET, Job
from pol.rules.commitment import chunk_leaf
from pol.rules.handover import HandoverId, chunk_key, sealed_leaf
from pol.rules.orders import handover_seconds
from pol.rules.replicas import replica_ids
from pol.rules.states import is_asking, panel_number
from validator.decide.initial import foreign_roots, left_roots
from wire import cipher

if TYPE_CHECKING:
    from localnet.simulator.world import World


@dataclass(frozen=True)
class OrderPlan:
    """An order that a consumer is going to submit."""

    at: int  # ms
    message: MsgSubmitOrder
    job: Job
    habits: ConsumerHabits = field(default_factory=ConsumerHabits)
    honest: bool = True


class OrderActor:
    """A consumer's work on one of its orders. Each replica of an order has its own.

    ``order_id`` is empty if the order has to be submitted first.
    """

    def __init__(self, world: "World", plan: OrderPlan, order_id: bytes = b"") -> None:
        self.world, self.plan = world, plan
        self.order_id = order_id
        self.refusal = ""
        self.over = False
        self._delivered = 0
        self._busy = False
        self.checked: set[RoundKey] = set()
        self._missed = 0
        self._taken: set[RoundKey] = set()
        self.copies: dict[bytes, StateRef] = {}
        self._copied = (0, -1)
        self._offered_to: set[tuple[int, str]] = set()
        self._acked: set[int] = set()
        self.alarm = Alarm(world.clock, self.step)
        if not order_id:
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
        self.world.add_replicas(self.plan, replica_ids(self.world.order(self.order_id).order))
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
        fetches = self.plan.habits.fetches and not self._busy
        if current is not None and order.state is OrderState.PROVEN and fetches:
            self._fetch(answer, current)
        self._keep(answer)
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

    # The states of verified rounds

    def _keep(self, answer: OrderResponse) -> None:
        """Copy the states of the last verified round, send them to the next validator, and answer for failed legs."""
        current, habits = answer.current, self.plan.habits
        if current is None or self._busy or not habits.keeps:
            return
        newest = newest_verified(answer)
        if current.state is LegState.MATCHED and current.from_leg:
            self._offer(answer, current)
            return
        if newest is not None and (newest[0].number, newest[1].round) != self._copied:
            leg, closed = newest
            self._busy, where = True, (leg.number, closed.round)
            service = self.world.validators[leg.validator].service
            self.world.network.call(
                lambda: service.get_states(self.order_id, leg.number),
                partial(self._copy, where, left_roots(answer, closed)),
            )
            return
        clock = self.world.clock.seconds
        for leg in answer.legs:
            late = leg.part and (clock > leg.part_until - 10 or habits.denies)
            has = (leg.number, leg.next_round - 1) <= self._copied
            if leg.part and habits.acks and (has or late) and leg.number not in self._acked:
                self._acked.add(leg.number)
                message = MsgAckState(
                    answer.order.consumer, self.order_id, leg.number, received=has and not habits.denies
                )
                self.world.submit((message,), _ignore)

    def _offer(self, answer: OrderResponse, leg: Leg) -> None:
        """Send the states to the validator of a leg and to the seats that try to fetch them, one after the other."""
        seats: tuple[str, ...] = ()
        if is_asking(leg):
            key = RoundKey(self.order_id, leg.from_leg, leg.first_round - 1).panel(panel_number(leg))
            seats = tuple(seat.validator for seat in self.world.ask(SeatsRequest(*key)).seats)
        names = (leg.validator, *seats)
        name = next((name for name in names if (leg.number, name) not in self._offered_to), "")
        if not name or not self.copies:
            return
        self._busy, wanted = True, foreign_roots(answer, leg)
        states = tuple(self.copies[root] for root in sorted(wanted) if root in self.copies)
        service = self.world.validators[name].service
        self.world.network.call(
            lambda: service.offer_states(self.order_id, states), partial(self._sent, (leg.number, name))
        )

    def _sent(self, where: tuple[int, str], taken: bool | None) -> None:
        self._busy = False
        if taken:
            self._offered_to.add(where)

    def _copy(self, where: tuple[int, int], roots: tuple[bytes, ...], states: tuple[StateRef, ...] | None) -> None:
        self._busy = False
        if states is not None and {state.root for state in states} >= set(roots):
            self.copies, self._copied = {state.root: state for state in states}, where

    def _offered(self, leg: int, taken: bool | None) -> None:
        self._busy = False
        if taken:
            self._delivered = leg

    # The result

    def _fetch(self, answer: OrderResponse, leg: Leg) -> None:
        """Ask for the newest states that were handed over, unless they are here."""
        closed = next((c for c in reversed(answer.rounds_of(leg.number)) if c.ciphertext_root and not c.void), None)
        if leg.state is not LegState.PROVEN or closed is None or closed.key in self.checked:
            return
        if not closed.verified and not leg.is_taken(closed.round):
            if self.plan.habits.early and closed.key not in self._taken:
                self._taken.add(closed.key)
                message = MsgTakeEarly(
                    consumer=answer.order.consumer, order_id=closed.order_id, leg=closed.leg, round=closed.round
                )
                self.world.submit((message,), _ignore, surely=True)
            return
        if self._says_missed(answer, leg, closed):
            return
        self._busy = True
        names = (leg.validator, *find_result_seats(self.world.ask, answer, closed.key))
        service = self.world.validators[names[self._missed % len(names)]].service
        me = self.plan.message.consumer
        self.world.network.call(lambda: service.get_result(me, closed.key), partial(self._fetched, answer, closed))

    def _says_missed(self, answer: OrderResponse, leg: Leg, closed: Round) -> bool:
        """Ask a panel about a result that was not served, in the second half of the time before the settlement.

        A consumer that lies asks at once.
        """
        habits, params = self.plan.habits, answer.order.params
        late = leg.settles_at - handover_seconds(answer.order.terms, params, answer.order.window) // 2
        due = self._missed > 0 and self.world.clock.seconds >= late
        again = any(panel.asker for panel in answer.panels if panel.round_key == closed.key)
        if not habits.asks or not (due or habits.lies) or not leg.settles_at or again or not params.auditors:
            return False
        consumer = self.plan.message.consumer
        bond = MsgDepositBond(consumer, result_bond(answer, leg))
        message = MsgNeverServed(consumer=consumer, order_id=closed.order_id, leg=closed.leg, round=closed.round)
        self.world.submit((bond, message), _ignore)
        return True

    def _fetched(self, answer: OrderResponse, closed: Round, sealed: list[Sealed] | None) -> None:
        self._busy = False
        if sealed is None:
            self._missed += 1
            return
        self.checked.add(closed.key)
        complaint = self._check(answer, closed, sealed)
        if complaint is not None:
            self.world.submit((complaint,), _ignore, surely=True)

    def _check(self, answer: OrderResponse, closed: Round, sealed: list[Sealed]) -> MsgComplain | None:
        """Open the global state, and return the complaint about it if it is not the round's."""
        handover = HandoverId(chain_id=CHAIN_ID, order_id=closed.order_id, leg=closed.leg, round=closed.round)
        leaves = [sealed_leaf(handover, at, chunk.leaf) for at, chunk in enumerate(sealed)]
        assert merkle_root(leaves) == closed.ciphertext_root
        shared, proof = prove_chunk(handover, 0, sealed[0].leaf, ORDER_SECRET, bytes(32))
        chunk = cipher.decrypt(chunk_key(handover, 0, shared), sealed[0].ciphertext)
        right = chunk is not None and chunk_leaf(chunk) == closed.next_root
        if right and not self.plan.habits.slanders:
            return None
        return MsgComplain(
            consumer=answer.order.consumer,
            order_id=closed.order_id,
            leg=closed.leg,
            round=closed.round,
            chunk=0,
            leaf=sealed[0].leaf,
            path=merkle_path(leaves, 0),
            opened=OpenedChunk(
                ciphertext=sealed[0].ciphertext, shared=shared, proof=proof, state_leaf=closed.next_root, path=()
            ),
        )

    def wake(self, delay: int) -> None:
        """Look at the order soon."""
        self.alarm.within(delay)

    def _end(self) -> None:
        self.over = True
        self.world.living -= 1


def _ignore(_: TxResult) -> None:
    pass
