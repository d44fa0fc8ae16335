"""The node's books follow what it commits, forget what it drops, and begin anew with the process."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from chain.app.application import AppConfig, Application
from chain.app.metrics import OrderCounts
from chain.app.storage import Storage
from chain.state_machine.queries import answer
from domain.genesis import DENOM
from domain.hashing import message_id
from domain.ledger.messages import MsgDepositBond
from domain.ledger.records import Coin
from domain.market.messages import MsgSubmitOrder
from domain.market.queries import OrdersRequest, OrdersResponse, SimulateMatchRequest
from domain.market.records import Conditions, OrderState
from domain.messages import Message
from domain.registry.messages import MsgSetEndpoint
from pol.rules.commitment import possession_sign_bytes
from pol.rules.schedule import total_work
from tests.support import small_chain
from tests.support.chain_market import PRICE, bid, make_terms, submit
from tests.support.small_chain import CHAIN_ID, GENESIS_TIME_NS, cons_address, key
from wire.tx import build_tx

TERMS = make_terms()
WORK = total_work(TERMS)
OPERATOR, CONSUMER, ORDER_KEY = key(0), key(1), key(9)
REQUEST = SimulateMatchRequest(Conditions(), PRICE, 1_000, TERMS)


@dataclass
class Node:
    """An application on a database, driven as CometBFT drives it."""

    storage: Storage
    sequences: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.app = Application(self.storage, AppConfig())
        if not self.app.head.block.height:
            self.app.init_chain(small_chain.genesis(validators=4), GENESIS_TIME_NS)

    def finalize(self, *messages: tuple[int, Message]) -> None:
        """Execute the next block, without a commit; a message stands with the number of its account."""
        used = dict(self.sequences)
        raws = []
        for account, message in messages:
            sequence = used.get(account, 0)
            used[account] = sequence + 1
            gas = 10_000_000
            fee = (Coin(DENOM, gas),)
            raws.append(
                build_tx(
                    (prove(message, sequence),),
                    key(account),
                    chain_id=CHAIN_ID,
                    account_number=account,
                    sequence=sequence,
                    fee=fee,
                    gas_limit=gas,
                )
            )
        height = self.app.head.block.height + 1
        time_ns = GENESIS_TIME_NS + height * 10**9
        done = self.app.finalize_block(height, time_ns, bytes([height]) * 32, cons_address(0), raws)
        for result in done.result.tx_results:
            assert result.code == 0, result.log
        self.used = used

    def block(self, *messages: tuple[int, Message]) -> None:
        """Make a block and commit it."""
        self.finalize(*messages)
        self.sequences = self.used
        self.app.commit()

    def quoted(self) -> list[int]:
        """Return the prices that fit now, as the node says; and it must say what the state says."""
        found = self.app.simulate_match(REQUEST)
        assert found == answer(self.app.view().reader, REQUEST)
        return [candidate.offer.price for candidate in found.bids]

    def orders(self, state: OrderState) -> int:
        request = OrdersRequest("", "", int(state), 0, b"")
        response: OrdersResponse = answer(self.app.view().reader, request)
        return len(response.orders)


def order() -> Message:
    return replace(submit(), consumer=CONSUMER.address, order_key=ORDER_KEY.pub_key)


def prove(message: Message, sequence: int) -> Message:
    """Return an order with the proof of its key, which is for one transaction; any other message as it is."""
    if not isinstance(message, MsgSubmitOrder):
        return message
    order_id = message_id("order", CHAIN_ID, message.consumer, sequence, 0)
    document = possession_sign_bytes(order_id, message.order_key)
    return replace(message, key_proof=ORDER_KEY.sign(document))


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node(Storage.temporary())
    node.block(
        (0, MsgSetEndpoint(OPERATOR.address, "127.0.0.1:1", b"certificate")),
        (0, MsgDepositBond(OPERATOR.address, 10**9)),
        (0, bid(OPERATOR.address, capacity=2 * WORK)),
    )
    yield node
    node.storage.close()


def test_a_quote_follows_the_commits(node: Node) -> None:
    assert node.quoted() == [PRICE]
    node.block((0, bid(OPERATOR.address, price=PRICE - 1)))
    assert node.quoted() == [PRICE - 1, PRICE]
    node.block((1, order()))
    node.block((1, order()))
    assert node.orders(OrderState.MATCHED) == 1
    node.block()
    assert node.orders(OrderState.MATCHED) == 2
    assert node.quoted() == [PRICE - 1, PRICE]


def test_a_block_that_is_dropped_leaves_nothing_behind(node: Node) -> None:
    node.block((1, order()))
    node.finalize((0, bid(OPERATOR.address, price=PRICE - 1)), (1, order()))
    assert node.quoted() == [PRICE]
    node.finalize((0, bid(OPERATOR.address, price=PRICE - 2)), (1, order()))
    node.block((1, order()))
    node.block()
    assert node.quoted() == []
    assert node.orders(OrderState.MATCHED) == 2
    node.block((1, order()))
    node.block()
    assert (node.orders(OrderState.MATCHED), node.orders(OrderState.OPEN)) == (2, 1)


def test_a_node_that_starts_again_goes_on_with_the_same_book(node: Node) -> None:
    node.block((1, order()))
    hashes = []
    for app in (node.app, Application(node.storage, AppConfig())):
        node.app = app
        node.finalize((0, bid(OPERATOR.address, price=PRICE - 2)), (1, order()))
        assert app._pending is not None
        hashes.append(app._pending.head.block.app_hash)
        assert node.quoted() == [PRICE]
    assert hashes[0] == hashes[1]


def test_orders_are_counted_for_metrics_as_they_go_on(node: Node) -> None:
    """A second look reads what events name, and finds what a first look would."""
    counts = OrderCounts(node.app)
    assert set(counts.read().values()) == {0}
    node.block((1, order()))
    node.block((1, order()))
    assert counts.read()[OrderState.MATCHED] == 1
    node.block((1, order()))
    node.block()
    found = counts.read()
    assert found == OrderCounts(node.app).read()
    assert (found[OrderState.MATCHED], found[OrderState.OPEN]) == (2, 1)
