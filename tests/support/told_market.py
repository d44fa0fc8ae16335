"""A market on the chain harness whose events have heights, as a node logs them, and a console that is told of it."""

from dataclasses import replace
from typing import Any

from console.index import BlockRow
from console.known import Known
from domain import queries as q
from domain.block import BlockResult
from domain.events import OrderSubmitted, read_event, to_event
from domain.genesis import Genesis
from domain.queries import LoggedEvent
from domain.reasons import ShareReason
from domain.records import Order
from tests.support.chain_harness import Chain, cons_address
from tests.support.chain_market import PRICE, Market, submit

HOSTILE = "<script>alert('v1')</script>\"'&" + "x" * 60
"""A moniker that somebody chose to harm who looks at it."""


class LoggedChain(Chain):
    """A chain that keeps the log of its events; the second validator has a hostile moniker."""

    def __init__(self, genesis: Genesis, *, checked: bool = True) -> None:
        hostile = replace(genesis.validators[1], moniker=HOSTILE)
        validators = (genesis.validators[0], hostile, *genesis.validators[2:])
        super().__init__(replace(genesis, validators=validators), checked=checked)

    def block(self, *items: Any, **more: Any) -> BlockResult:
        if not hasattr(self, "logged"):
            self.logged: list[LoggedEvent] = []
            self.blocks: list[BlockRow] = []
        result = super().block(*items, **more)
        self.logged += [
            LoggedEvent(event.number, self.height, event.type, event.attributes)
            for event in self.events[len(self.logged) :]
        ]
        operator = self.operators[self.height % len(self.operators)]
        self.blocks.append(BlockRow(self.height, self.time_ns, cons_address(operator)))
        return result


class ToldMarket(Market):
    """A market that can tell a console all that happened."""

    def __init__(self, **more: Any) -> None:
        super().__init__(chain=LoggedChain, checked=False, **more)

    @property
    def logged(self) -> list[LoggedEvent]:
        """All events so far."""
        chain: Any = self.chain
        logged: list[LoggedEvent] = chain.logged
        return logged

    def tell(self, known: Known) -> None:
        """Let a console know what a follower of a node would have found out."""
        chain: Any = self.chain
        ask = chain.ask
        if not known.index.chain[0]:
            known.index.begin(chain.genesis.chain_id, "first")
        known.index.add(self.logged[known.index.next - 1 :])
        known.index.add_blocks(chain.blocks)
        status = replace(
            ask(q.StatusRequest()),
            chain_id=chain.genesis.chain_id,
            height=chain.height,
            time_ns=chain.time_ns,
        )
        known.show(
            address="127.0.0.1:1",
            status=status,
            params=ask(q.ParamsRequest()).params,
            validators=ask(q.ValidatorsRequest()).validators,
            providers=ask(q.ProvidersRequest("", 1000, "")).providers,
            bids=ask(q.BidsRequest("", 1000, b"")).bids,
        )


def cheated(market: ToldMarket) -> bytes:
    """Return an order that settled although a provider cheated in its first round and was replaced."""
    order_id = market.run()
    first = market.trace(order_id, 0, "skipped", provider="v0p0")
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, first, market.trace(order_id, 1, provider="v0p1"))
    market.wait_drawn(order_id)
    market.commit(order_id, again, reject=[(first.ref, int(ShareReason.SEGMENT_MISMATCH))])
    market.wait_drawn(order_id)
    market.chain.ok(market.close_message(order_id))
    market.answer_all(order_id, 0)
    market.settle(order_id)
    return order_id


def unmatched(market: ToldMarket) -> bytes:
    """Return an order that no bid takes, because it would pay half of what is asked."""
    return market.submit(submit(price_limit=PRICE // 2))


def many_orders(sample: Order, first: int, count: int, height: int) -> list[LoggedEvent]:
    """Return the events of many orders that only differ in their ids, from number ``first`` on."""
    events = []
    for number in range(count):
        order_id = number.to_bytes(4, "big") * 8
        record = replace(sample, id=order_id)
        change = OrderSubmitted(order_id, sample.consumer, 400_000, record)
        event = to_event(change, first + number)
        events.append(LoggedEvent(event.number, height, event.type, event.attributes))
    assert read_event(events[0]) is not None
    return events
