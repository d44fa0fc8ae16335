"""Random messages over several orders: whatever anybody sends, no coin is lost or made, and every order ends.

All invariants are checked after every block. Most messages are made to hold, because random ones are refused at the
first check; some are bent. What the machine refuses is fine; anything else that is raised is a bug.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from chain.state_machine.ledger.tables import POTS, SUPPLY, TALLIES
from domain.ledger.messages import MsgDepositBond, MsgWithdrawBond
from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder, MsgStopOrder
from domain.market.messages import MsgCancelOrder, MsgChangeBid, MsgWithdrawBid
from domain.market.queries import BidsRequest, OrdersRequest
from domain.market.records import Order, OrderState
from domain.messages import Message
from domain.params import local_params
from domain.proof.queries import PanelDutiesRequest
from domain.registry.messages import (
    MsgAdmitProvider,
    MsgDismissProvider,
    MsgLeaveCluster,
    MsgRegisterProvider,
)
from tests.support.chain_market import PRICE, Market, Trace, bid, make_terms, submit

VALIDATORS = st.sampled_from(("v0", "v1", "v2", "v3"))
CONSUMERS = ("carol", "dave", "v3")
INDEX = st.integers(0, 7)


class MoneyMachine(RuleBasedStateMachine):
    """A market that anybody may send anything to."""

    @initialize(
        auditors=st.integers(0, 2),
        cap=st.sampled_from((1, 300_000, 30_000_000)),
        bonds=st.sampled_from((0, 1_000, 10_000)),
    )
    def start(self, auditors: int, cap: int, bonds: int) -> None:
        params = local_params().replace(
            auditors=auditors,
            due_gas=cap,
            job_bond_bps=bonds,
            audit_bps=2_000,
            max_attempts=2,
        )
        self.market = Market(params, consumers=("carol", "dave"), bidders=("v0", "v1"))
        self.chain = self.market.chain
        self.supply = SUPPLY.get(self.chain.overlay())
        self.queue: list[Message] = []
        self.chain.block(submit("carol"), submit("dave", terms=make_terms(rounds=1), deadline=90))

    # --- helpers ---

    def orders(self, *states: OrderState) -> list[Order]:
        found: tuple[Order, ...] = self.chain.ask(OrdersRequest("", "", 0, 0, b"")).orders
        return [order for order in found if not states or order.state in states]

    def pick(self, index: int, *states: OrderState) -> Order | None:
        found = self.orders(*states)
        return found[index % len(found)] if found else None

    def send(self, message: Message) -> None:
        self.queue.append(message)

    @rule(seconds=st.integers(0, 3), proposer=VALIDATORS, flip=st.booleans())
    def block(self, seconds: int, proposer: str, flip: bool) -> None:
        queue, self.queue = self.queue, []
        self.chain.block(*(queue[::-1] if flip else queue), seconds=seconds, proposer=proposer)

    @rule(seconds=st.integers(5, 40))
    def wait(self, seconds: int) -> None:
        self.block(1, "v1", False)
        self.chain.pass_time(seconds)

    # --- what honest people do next, so that runs get far ---

    @rule(index=INDEX, answers=st.integers(0, 2))
    def go_on(self, index: int, answers: int) -> None:
        self.next_step(index)
        self.answer_some(answers)
        self.block(1, "v2", False)

    @rule(index=INDEX, steps=st.integers(2, 8))
    def go_far(self, index: int, steps: int) -> None:
        for number in range(steps):
            self.next_step(index)
            self.answer_some(2)
            self.block(1, self.market.validators[number % 4], False)

    def next_step(self, index: int) -> None:
        order = self.pick(index, OrderState.MATCHED, OrderState.RUNNING)
        if order is None:
            return
        leg = self.market.leg(order.id)
        if order.state is OrderState.MATCHED:
            self.send(MsgAcceptOrder(leg.validator, order.id, order.legs))
        else:
            shares = self.market.shares(order.id)
            taken = {s.claim.slot for s in shares if self.market.is_of_open_round(order.id, s)}
            free = [slot for slot in range(order.terms.slots) if slot not in taken]
            traces = [self.free_trace(order, slot) for slot in free]
            if traces:
                self.send(self.market.commit_message(order.id, *traces))
            elif waiting := self.market.accept_message(order.id).shares:
                self.send(self.market.accept_message(order.id, *waiting[-1 - index % 2 :]))
            else:
                self.send(self.market.close_message(order.id))

    def free_trace(self, order: Order, slot: int, **more: Any) -> Trace:
        """Return a trace with the slot's next issue number."""
        return self.market.trace(order.id, slot, issue=self.market.next_issue(order.id, slot), **more)

    def answer_some(self, most: int) -> None:
        for name in self.market.validators[-most:] if most else ():
            self.answer(name, True)

    # --- the book ---

    @rule(
        name=VALIDATORS,
        off=st.integers(-2, 1),
        capacity=st.sampled_from((10**8, 10**9)),
        share=st.integers(0, 8_000),
    )
    def place(self, name: str, off: int, capacity: int, share: int) -> None:
        self.send(bid(name, price=PRICE + off, capacity=capacity, providers_bps=share, duration=200))

    @rule(index=INDEX, capacity=st.sampled_from((0, 10**9)), withdraw=st.booleans())
    def change(self, index: int, capacity: int, withdraw: bool) -> None:
        bids = self.chain.ask(BidsRequest("", 0, b"")).bids
        if bids:
            found = bids[index % len(bids)]
            gone = MsgWithdrawBid(found.validator, found.id)
            self.send(gone if withdraw else MsgChangeBid(found.validator, found.id, PRICE, capacity, 50))

    @rule(
        consumer=st.sampled_from(CONSUMERS),
        rounds=st.integers(1, 3),
        extra=st.integers(0, 50_000),
        live=st.sampled_from((3, 100)),
        deadline=st.sampled_from((30, 60, 300)),
        rematch=st.booleans(),
        work=st.sampled_from((8_999_999, 9_000_000)),
        outer=st.sampled_from((0, 4_000_000)),
    )
    def order(
        self,
        consumer: str,
        rounds: int,
        extra: int,
        live: int,
        deadline: int,
        rematch: bool,
        work: int,
        outer: int,
    ) -> None:
        if len(self.orders()) < 8:
            terms = make_terms(rounds=rounds, step_work=work, outer_work=outer)
            deposit = rounds * 80_000 + extra
            self.send(
                submit(
                    consumer,
                    terms=terms,
                    deposit=deposit,
                    time_to_live=live,
                    deadline=deadline,
                    rematch=rematch,
                )
            )

    @rule(index=INDEX)
    def cancel(self, index: int) -> None:
        if order := self.pick(index, OrderState.OPEN, OrderState.MATCHED):
            self.send(MsgCancelOrder(order.consumer, order.id))

    # --- legs ---

    @rule(index=INDEX)
    def accept(self, index: int) -> None:
        if order := self.pick(index, OrderState.MATCHED):
            self.send(MsgAcceptOrder(self.market.leg(order.id).validator, order.id, order.legs))

    @rule(index=INDEX, reason=st.sampled_from((1, 2, 10_010)))
    def decline(self, index: int, reason: int) -> None:
        if order := self.pick(index, OrderState.MATCHED):
            validator = self.market.leg(order.id).validator
            self.send(MsgDeclineOrder(validator, order.id, order.legs, reason))

    @rule(index=INDEX)
    def stop(self, index: int) -> None:
        if order := self.pick(index, OrderState.RUNNING):
            validator = self.market.leg(order.id).validator
            self.send(MsgStopOrder(validator, order.id, order.legs))

    # --- rounds ---

    @rule(index=INDEX, slot=st.integers(0, 2), bend=st.booleans())
    def commit(self, index: int, slot: int, bend: bool) -> None:
        order = self.pick(index, OrderState.RUNNING)
        if order is None:
            return
        more: dict[str, Any] = {"work": "made up"} if bend else {}
        trace = self.free_trace(order, slot, **more)
        self.send(self.market.commit_message(order.id, trace))

    @rule(index=INDEX, which=INDEX, how=st.sampled_from((10_100, 10_105, 10_106)))
    def judge(self, index: int, which: int, how: int) -> None:
        order = self.pick(index, OrderState.RUNNING)
        if order is None:
            return
        shares = [share for share in self.market.shares(order.id) if share.key.leg == order.legs]
        if not shares:
            return
        ref = shares[which % len(shares)].claim.key.ref
        self.send(self.market.commit_message(order.id, reject=[(ref, how)]))

    @rule(name=VALIDATORS)
    def answer_wrongly(self, name: str) -> None:
        self.answer(name, False)

    def answer(self, name: str, right: bool) -> None:
        for duty in self.chain.ask(PanelDutiesRequest(name)).duties:
            said = (
                self.market.answers(duty.order_id, duty.round)
                if right
                else self.market.unavailable(duty.order_id, duty.round)
            )
            if not duty.commitment:
                self.send(self.market.commit_answer(duty.order_id, duty.round, name, said))
            else:
                self.send(self.market.reveal_answer(duty.order_id, duty.round, name, said))

    # --- bonds and clusters ---

    @rule(
        name=st.sampled_from(("v0", "v1", "v0p0", "v1p0")),
        amount=st.sampled_from((1, 10**6, 10**9)),
        up=st.booleans(),
    )
    def bond(self, name: str, amount: int, up: bool) -> None:
        self.send(MsgDepositBond(name, amount) if up else MsgWithdrawBond(name, amount))

    @rule(name=st.sampled_from(("v0p0", "v1p1")), to=VALIDATORS, leave=st.booleans())
    def move(self, name: str, to: str, leave: bool) -> None:
        self.send(MsgLeaveCluster(name) if leave else MsgRegisterProvider(name, to))

    @rule(name=st.sampled_from(("v0p0", "v1p1")), by=VALIDATORS, out=st.booleans())
    def admit(self, name: str, by: str, out: bool) -> None:
        self.send(MsgDismissProvider(by, name) if out else MsgAdmitProvider(by, name))

    # --- the end ---

    def teardown(self) -> None:
        """Silence from now on: every order ends, and holds nothing."""
        if not hasattr(self, "market"):
            return
        self.chain.block(*self.queue)
        self.chain.checked = False
        while self.orders(OrderState.OPEN, OrderState.MATCHED, OrderState.RUNNING, OrderState.PROVEN):
            self.chain.block(seconds=2)
            assert self.chain.clock < 5_000, "an order does not end"
        self.chain.checked = True
        self.chain.pass_time(120)
        overlay = self.chain.overlay()
        assert all(tally.held == 0 for tally in TALLIES.scan(overlay))
        assert POTS.get(overlay, "escrows") == 0
        assert POTS.get(overlay, "audits") == 0
        assert SUPPLY.get(overlay) == self.supply
        numbers = [event.number for event in self.chain.events]
        assert numbers == list(range(1, len(numbers) + 1))
        self.chain.check_books()


TestMoneyMachine = MoneyMachine.TestCase
TestMoneyMachine.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
