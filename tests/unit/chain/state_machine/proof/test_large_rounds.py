"""A round of as many slots as an order may have: no transaction and no entry of the queue is too large for a block."""

from chain.state_machine.gas import DUE_GAS, LANE_PERCENT, gas_of
from chain.state_machine.ledger.tables import BOND_ROWS
from chain.state_machine.market.tables import CLOSE_DUE
from chain.state_machine.proof.gas import REJECT_GAS
from chain.state_machine.proof.shares import DROPPED_PER_CALL
from chain.state_machine.proof.tables import DROP_DUE, OPEN_ROUNDS, STANDING_ISSUES
from chain.state_machine.queue import DEADLINES
from chain.state_machine.store import Overlay
from domain.legs.messages import MsgStopOrder
from domain.limits import SHARES_PER_MESSAGE_MAX, SLOTS_MAX
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.messages import Message
from domain.node.params import NodeParams, tx_gas_max
from domain.params import local_params
from domain.proof.reasons import ShareReason
from domain.proof.records import ShareState
from tests.support.chain_market import Market, make_terms, submit

BYTES = 300
"""More bytes than one share has in a transaction."""


def make_large() -> tuple[Market, bytes]:
    """Return an order with one round of as many slots as possible, all of whose shares are accepted."""
    market = Market(local_params().replace(progress_base=600), providers=8, checked=False)
    terms = make_terms(slots=SLOTS_MAX, rounds=1)
    order_id = market.run(submit(terms=terms, deposit=2 * SLOTS_MAX * 38_000, deadline=5_000, rematch=False))
    traces = market.traces_of_round(order_id)
    for at in range(0, SLOTS_MAX, SHARES_PER_MESSAGE_MAX):
        send(market, market.commit_message(order_id, *traces[at : at + SHARES_PER_MESSAGE_MAX]))
    market.wait_drawn(order_id)
    accepted = [trace.accepted for trace in traces]
    for at in range(0, SLOTS_MAX, SHARES_PER_MESSAGE_MAX):
        send(market, market.accept_message(order_id, *accepted[at : at + SHARES_PER_MESSAGE_MAX]))
    return market, order_id


def send(market: Market, message: Message) -> None:
    """Send a message alone, as large as it is on the wire, and check that the transaction fits."""
    most = tx_gas_max(market.chain.genesis.params.of(NodeParams))
    tx = market.chain.tx(message, size=BYTES * SHARES_PER_MESSAGE_MAX, gas_limit=most)
    assert market.chain.ok(tx).tx_results[0].gas_used <= most * 9 // 10


def test_it_is_verified_and_paid() -> None:
    market, order_id = make_large()
    send(market, market.close_message(order_id))
    assert len(market.round(order_id, 0).shares) == SLOTS_MAX
    market.answer_all(order_id, 0)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.SETTLED)
    market.chain.check_state()
    market.chain.check_books()


def test_a_stop_drops_it_in_steps() -> None:
    """The stop itself costs no more than any other message; the bonds return in the blocks that follow.

    The order closes when the providers had the time to stand for their shares.
    """
    market, order_id = make_large()
    due_gas = market.chain.genesis.params.of(NodeParams).due_gas * LANE_PERCENT[DROP_DUE.lane] // 100
    per_block = due_gas // (DUE_GAS + DROPPED_PER_CALL * REJECT_GAS) * DROPPED_PER_CALL
    tx = market.chain.tx(MsgStopOrder("v0", order_id, 1))
    result = market.chain.ok(tx)
    assert result.tx_results[0].gas_used == gas_of(tx)
    left = SLOTS_MAX
    while left > 0:
        standing = [share for share in market.shares(order_id) if share.state is ShareState.ACCEPTED]
        assert left - per_block - DROPPED_PER_CALL <= len(standing) < left
        left = len(standing)
        closed = market.order(order_id).state is OrderState.CLOSED
        assert not closed or not left, "an order waits for its shares"
        market.chain.block()
    shares = market.shares(order_id)
    assert {(share.state, share.reason, share.roots) for share in shares} == {
        (ShareState.REJECTED, ShareReason.LEG_ENDED, None)
    }
    assert market.order(order_id).state is not OrderState.CLOSED, "the providers may stand for their shares"
    left_at = market.all_of(order_id).legs[0].left_at
    market.chain.pass_until(left_at + max(market.order(order_id).window, 60))
    market.chain.block()
    assert market.order(order_id).state is OrderState.CLOSED
    overlay = market.chain.overlay()
    assert not list(STANDING_ISSUES.scan(overlay))
    assert not OPEN_ROUNDS.scan(overlay)
    assert not BOND_ROWS.scan(overlay, order_id)
    market.chain.check_state()
    market.chain.check_books()


def test_an_order_does_not_open_again_before_its_shares_are_dropped() -> None:
    """The lane of orders has room for one entry in a block, and others come first."""
    market = Market(local_params().replace(due_gas=1), bidders=("v0", "v1"))
    order_id = market.run()
    market.commit(order_id, *market.traces_of_round(order_id))

    def put(overlay: Overlay) -> None:
        for time in range(3):
            DEADLINES.mark(overlay, CLOSE_DUE.lane, time, CLOSE_DUE.number, order_id)

    market.chain.change(put)
    first = market.leg(order_id).validator
    market.chain.ok(MsgStopOrder(first, order_id, 1))
    waited = 0
    while {share.state for share in market.shares(order_id)} == {ShareState.COMMITTED}:
        assert market.order(order_id).state is OrderState.RUNNING
        market.chain.block()
        waited += 1
    assert waited >= 2
    market.chain.pass_time(3)
    assert {share.state for share in market.shares(order_id)} == {ShareState.REJECTED}
    assert market.leg(order_id).validator != first
