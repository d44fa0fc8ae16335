"""What a transaction weighs, and what is due in a block: each is bounded, and nothing is lost."""

from itertools import pairwise

from chain.state_machine import gas
from chain.state_machine.gas import gas_of
from chain.state_machine.proof.gas import REJECT_GAS
from chain.state_machine.proof.tables import WINDOW_DUE
from chain.state_machine.queue import DEADLINES, get_entries
from chain.state_machine.store import Overlay
from domain.errors import OUT_OF_GAS
from domain.legs.messages import MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.limits import GAS_MAX
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.messages import AcceptedShare, MsgCloseRound
from domain.proof.queries import PanelDutiesRequest
from domain.proof.records import ShareRoots, ShareState
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


def test_what_needs_more_than_it_declared_fails_and_pays() -> None:
    """How many shares stand shows only in the state."""
    market = Market()
    order_id = standing_round(market)
    stop = MsgStopOrder("v0", order_id, 1)
    needed = gas_of(market.chain.tx(stop)) + SLOTS * REJECT_GAS
    before = market.chain.balance("v0")
    short = market.chain.tx(stop, gas_limit=needed - 1)
    result = market.chain.refused(OUT_OF_GAS, short, field="fee.gas_limit")
    assert (result.gas_wanted, result.gas_used) == (needed - 1, needed)
    assert market.chain.balance("v0") == before - short.fee[0].amount
    assert states(market, order_id) == {ShareState.COMMITTED}
    market.chain.ok(market.chain.tx(stop, gas_limit=needed))
    assert states(market, order_id) == {ShareState.REJECTED}


def test_a_simulation_tells_what_the_state_asks_for() -> None:
    market = Market()
    order_id = standing_round(market)
    tx = market.chain.tx(MsgStopOrder("v0", order_id, 1), gas_limit=0, fee=0)
    assert market.chain.simulate(tx).gas_used == gas_of(tx) + SLOTS * REJECT_GAS


def test_a_simulation_runs_nothing_that_no_transaction_may() -> None:
    """Sixteen CloseRounds of a thousand shares weigh more than a transaction may."""
    market = Market()
    order_id = standing_round(market)
    roots = ShareRoots(bytes(32), bytes(32), bytes(32), (), 1)
    refs = tuple(AcceptedShare(slot, 1, roots) for slot in range(1_024))
    tx = market.chain.tx(*[MsgCloseRound("v0", order_id, 1, 0, refs, bytes(32), bytes(32))] * 16, gas_limit=1)
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
    """The whole budget of a block is a unit of gas, and a round of twelve shares ends in one."""
    market = Market(local_params().replace(due_gas=1))
    order_id = standing_round(market)
    deadline = market.leg(order_id).progress_deadline
    market.chain.pass_until(deadline)
    assert market.leg(order_id).end_reason == LegEnd.NO_PROGRESS
    assert market.leg(order_id).state is LegState.FAILED
    assert states(market, order_id) == {ShareState.REJECTED}


def test_a_heavy_entry_is_first_in_the_next_block_and_none_overtakes_it() -> None:
    """Three legs are late at once: a light one, a heavy one, and a light one that would still have room."""
    light = gas.DUE_GAS + REJECT_GAS
    share = 3 * light * 100 // gas.LANE_PERCENT[1]
    market = Market(local_params().replace(due_gas=share, clock_step_max=60, progress_base=30))
    slots = (1, SLOTS, 1)
    orders = [standing_round(market, count) for count in slots]
    ended = []
    for seconds in (60, 0, 0):
        market.chain.block(seconds=seconds)
        ended.append([market.leg(o).state is LegState.FAILED for o in orders])
    assert ended == [[True, False, False], [True, True, False], [True, True, True]]


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
