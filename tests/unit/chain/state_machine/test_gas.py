"""What a transaction weighs, and what is due in a block: each is bounded, and nothing is lost."""

from itertools import pairwise

from chain.state_machine import gas
from chain.state_machine.gas import gas_of
from chain.state_machine.proof.gas import CLOSE_GAS, REJECT_GAS
from chain.state_machine.proof.tables import DROP_DUE, WINDOW_DUE
from chain.state_machine.queue import DEADLINES, get_entries
from chain.state_machine.store import Overlay
from domain.errors import OUT_OF_GAS
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.limits import GAS_MAX, SHARES_PER_MESSAGE_MAX
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.messages import MsgCloseRound
from domain.proof.queries import PanelDutiesRequest
from domain.proof.records import ShareState
from tests.support.chain_harness import COINS
from tests.support.chain_market import Market, due_gas, make_terms, submit

SLOTS = 12


def standing_round(market: Market, slots: int = SLOTS) -> bytes:
    """Return an order that runs, with a share of every slot on chain."""
    order_id = market.run(submit(terms=make_terms(slots=slots), deposit=3 * 10**6))
    market.commit(order_id, *market.traces_of_round(order_id))
    return order_id


def states(market: Market, order_id: bytes) -> set[ShareState]:
    return {share.state for share in market.shares(order_id)}


# --- transactions --------------------------------------------------------------------------------


def closable(market: Market, slots: int = SLOTS) -> tuple[bytes, MsgCloseRound]:
    """Return an order with a round whose shares are accepted, and the message that closes it."""
    order_id = standing_round(market, slots)
    market.wait_drawn(order_id)
    market.accept_shares(order_id)
    return order_id, market.close_message(order_id)


def test_what_needs_more_than_it_declared_fails_and_pays() -> None:
    """How many slots the leg has shows only in the state."""
    market = Market()
    order_id, close = closable(market)
    needed = market.chain.simulate(market.chain.tx(close)).gas_used
    before = market.chain.balance("v0")
    short = market.chain.tx(close, gas_limit=needed - 1)
    result = market.chain.refused(OUT_OF_GAS, short, field="fee.gas_limit")
    assert (result.gas_wanted, result.gas_used) == (needed - 1, needed)
    assert market.chain.balance("v0") == before - short.fee[0].amount
    assert market.leg(order_id).round == 0
    market.chain.ok(market.chain.tx(close, gas_limit=needed))
    assert market.leg(order_id).round == 1


def test_a_simulation_tells_what_the_state_asks_for() -> None:
    found = []
    for slots in (1, SLOTS):
        market = Market(local_params().replace(auditors=0))
        _, close = closable(market, slots)
        tx = market.chain.tx(close, gas_limit=0, fee=0)
        found.append(market.chain.simulate(tx).gas_used - gas_of(tx))
    assert found[1] - found[0] == (SLOTS - 1) * CLOSE_GAS


def test_a_simulation_runs_nothing_that_no_transaction_may() -> None:
    """Sixteen messages that commit as many shares as they may weigh more than a transaction may."""
    market = Market()
    order_id = market.run()
    signed = market.trace(order_id).signed
    message = market.commit_message(order_id, *[signed] * SHARES_PER_MESSAGE_MAX)
    tx = market.chain.tx(*[message] * 16, gas_limit=1)
    result = market.chain.simulate(tx)
    assert (result.code, result.gas_wanted) == (OUT_OF_GAS.number, 1)
    assert result.gas_used > GAS_MAX


# --- what is due ---------------------------------------------------------------------------------


def test_a_flood_in_one_lane_holds_up_no_other() -> None:
    """Rounds become ready faster than they are paid, and an order still ends at its deadline."""
    market = Market(local_params().replace(auditors=0, due_gas=1))
    orders = [standing_round(market) for _ in range(4)]
    waiting = market.submit(submit(time_to_live=10, price_limit=1))
    ends = market.order(waiting).expires_at
    # windows of rounds that are not there: each has its turn, and does nothing
    flood = [(ends - 5, WINDOW_DUE.number, order_id, 1, n) for order_id in orders for n in range(5)]

    def put(overlay: Overlay) -> None:
        for entry in flood:
            DEADLINES.mark(overlay, 0, *entry)

    def count(overlay: Overlay) -> int:
        return sum(entry.kind == WINDOW_DUE.number for entry in get_entries(overlay, 0))

    market.chain.change(put)
    market.chain.pass_until(ends - 1)
    left = count(market.chain.overlay())
    assert 1 < left < len(flood)
    market.chain.block()
    assert market.order(waiting).state is OrderState.CLOSED
    assert count(market.chain.overlay()) == left - 1


def test_what_is_heavier_than_its_lanes_share_runs_alone() -> None:
    """The whole budget of a block is a unit of gas, and the twelve shares of a round are dropped in one block."""
    market = Market(local_params().replace(due_gas=1))
    order_id = standing_round(market)
    deadline = market.leg(order_id).progress_deadline
    market.chain.pass_until(deadline)
    assert market.leg(order_id).end_reason == LegEnd.NO_PROGRESS
    assert market.leg(order_id).state is LegState.FAILED
    for _ in range(3):
        found = states(market, order_id)
        assert found in ({ShareState.COMMITTED}, {ShareState.REJECTED})
        market.chain.block()
    assert states(market, order_id) == {ShareState.REJECTED}


def test_a_heavy_entry_is_first_in_the_next_block_and_none_overtakes_it() -> None:
    """Three open rounds are dropped at once: a light one, a heavy one, and a light one that would still have room."""
    light = gas.DUE_GAS + REJECT_GAS
    share = 3 * light * 100 // gas.LANE_PERCENT[DROP_DUE.lane]
    market = Market(local_params().replace(due_gas=share))
    orders = [standing_round(market, count) for count in (1, SLOTS, 1)]
    for order_id in orders:
        market.wait_drawn(order_id)

    def put(overlay: Overlay) -> None:
        for time, order_id in enumerate(orders, 1):
            DEADLINES.mark(overlay, DROP_DUE.lane, time, DROP_DUE.number, order_id, 1, 0)

    market.chain.change(put)
    dropped = []
    for _ in orders:
        market.chain.block(seconds=0)
        dropped.append([states(market, o) == {ShareState.REJECTED} for o in orders])
    assert dropped == [[True, False, False], [True, True, False], [True, True, True]]


def test_a_void_round_takes_those_behind_it_along_one_step_at_a_time() -> None:
    market = Market(local_params().replace(due_gas=due_gas(entries=1), round_window=400))
    rounds = 12
    terms = make_terms(rounds=rounds + 1)
    order_id = market.run(submit(terms=terms, deposit=(rounds + 1) * 180_000, deadline=12_000))
    for _ in range(rounds):
        market.train_round(order_id)
    market.fault_round(order_id)
    void = [_void(market, order_id)]
    while void[-1] < rounds:
        market.chain.block()
        void.append(_void(market, order_id))
    steps = [after - before for before, after in pairwise(void)]
    assert max(steps) < rounds // 2
    for name in market.validators:
        assert market.chain.ask(PanelDutiesRequest(name)).duties == ()
    market.chain.pass_time(3)
    assert market.order(order_id).state is OrderState.OPEN
    assert market.chain.worth("carol") <= COINS


def _void(market: Market, order_id: bytes) -> int:
    return sum(closed.void for closed in market.all_of(order_id).rounds)
