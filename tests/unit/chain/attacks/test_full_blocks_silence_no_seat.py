"""An outsider that fills blocks silences no seat: duties have a lane, and a full block makes the next one dearer."""

import random
from dataclasses import replace

import pytest

from chain.app.proposals import BEFORE_DUTY_MAX, BlockRoom, choose
from chain.state_machine.gas import DUTIES_PERCENT, OPEN_PERCENT, gas_of
from chain.state_machine.gas_price import GAS_PRICE, compute_gas_price, get_gas_price
from chain.state_machine.lane import Lane
from chain.state_machine.mempool import Mempool
from chain.state_machine.rules import RULES
from domain.errors import INSUFFICIENT_FEE, MEMPOOL_FULL
from domain.genesis import DENOM
from domain.ledger.messages import MsgDepositBond, MsgSend
from domain.ledger.params import LedgerParams
from domain.ledger.records import Coin
from domain.legs.messages import MsgAcceptOrder
from domain.limits import BLOCK_BYTES_MAX
from domain.messages import LaneHalf, Message
from domain.node.params import NodeParams, tx_gas_max
from domain.params import Params, local_params
from domain.proof.messages import MsgCommitAnswer
from domain.tx import Tx
from tests.support.chain_harness import CRYPTO, Chain
from tests.support.chain_market import CONSUMER, Market, bid, submit

OUTSIDER = "mallory"
NODE = local_params().of(NodeParams)
FLOOR = local_params().of(LedgerParams).min_gas_price_millionths
LARGE = tx_gas_max(NODE)
DEAR = 10**9
"""A fee that pays 100,000 times the lowest price of the largest transaction."""


class BusyMarket(Market):
    """A market with two orders: the seats of one have to commit, and the other waits for its winner to accept."""

    panelled: bytes
    matched: bytes


@pytest.fixture(scope="module")
def market() -> BusyMarket:
    return make_market()


def make_market() -> BusyMarket:
    """Return a market where the seats of a panel have to commit, and another order is to be accepted."""
    market = BusyMarket(validators=5, consumers=(CONSUMER, OUTSIDER), bidders=(), checked=False)
    market.chain.ok(bid("v0", slots=8))
    order_id = market.run()
    market.train_round(order_id)
    market.wait_stage(order_id)
    market.panelled = order_id
    market.matched = market.submit(submit(price_limit=10**12))
    return market


def commits(market: BusyMarket) -> list[MsgCommitAnswer]:
    order_id: bytes = market.panelled
    answers = market.answers(order_id)
    return [market.commit_answer(order_id, 0, name, answers) for name in market.seated(order_id)]


def transfer(chain: Chain, sequence: int, *, gas: int = LARGE, fee: int | None = None, sender: str = OUTSIDER) -> Tx:
    return chain.tx(MsgSend(sender, CONSUMER, (Coin(DENOM, 1),)), sequence=sequence, gas_limit=gas, fee=fee)


def filling(chain: Chain, count: int = 150, fee: int | None = DEAR) -> list[Tx]:
    first = chain.sequence(OUTSIDER)
    return [transfer(chain, first + number, fee=fee) for number in range(count)]


def cheapest(chain: Chain, *messages: Message, sequence: int | None = None, gas: int | None = None) -> Tx:
    """Return a transaction that pays the chain's lowest price and no more."""
    tx = chain.tx(*messages, sequence=sequence, gas_limit=gas)
    return chain.tx(*messages, sequence=sequence, gas_limit=tx.gas_limit, fee=-(-tx.gas_limit * FLOOR // 10**6))


def proposed(chain: Chain, *txs: Tx, room: int = BLOCK_BYTES_MAX) -> list[Tx]:
    """Return what a proposer takes of a mempool."""
    waiting = {tx.hash: tx for tx in txs}
    return [waiting[raw] for raw in choose(list(waiting), waiting.__getitem__, chain.overlay(), RULES, room)]


def set_price(market: Market, price: int) -> None:
    market.chain.change(lambda store: GAS_PRICE.set(store, price))


# The lane


def test_a_seats_commitment_is_in_the_next_block_however_much_an_outsider_pays(market: BusyMarket) -> None:
    chain = market.chain
    duties = [cheapest(chain, commit) for commit in commits(market)]
    chosen = proposed(chain, *filling(chain), *duties)
    assert chosen[: len(duties)] == duties
    assert sum(tx.gas_limit for tx in chosen) <= NODE.block_gas
    assert len(chosen) == len(duties) + 9, "the rest is for the highest price"


def test_legs_have_a_half_of_their_own(market: BusyMarket) -> None:
    chain = market.chain
    order_id: bytes = market.matched
    leg = market.leg(order_id)
    accept = cheapest(chain, MsgAcceptOrder(leg.validator, order_id, leg.number))
    seats = [cheapest(chain, commit) for commit in commits(market)]
    chosen = proposed(chain, *filling(chain), accept, *seats)
    assert chosen[: len(seats) + 1] == [*seats, accept]
    lane = Lane(chain.overlay(), RULES)
    duty = lane.find(accept)
    assert duty is not None
    assert (duty.half, duty.deadline) == (LaneHalf.LEGS, leg.accept_deadline)


def test_only_what_the_state_expects_of_its_signer_is_a_duty(market: BusyMarket) -> None:
    chain, lane = market.chain, Lane(market.chain.overlay(), RULES)
    (commit, *_) = commits(market)
    seated = {commit.auditor for commit in commits(market)}
    (stranger,) = [name for name in market.validators if name not in seated and name != "v0"][:1]
    assert lane.find(cheapest(chain, commit)) is not None
    for other in (
        replace(commit, auditor=stranger),
        replace(commit, stage=2),
        replace(commit, round=1),
        replace(commit, leg=-1),
    ):
        assert lane.find(cheapest(chain, other)) is None
    order_id: bytes = market.matched
    winner = market.leg(order_id).validator
    assert lane.find(cheapest(chain, MsgAcceptOrder(winner, order_id, 1))) is not None
    assert lane.find(cheapest(chain, MsgAcceptOrder("v4", order_id, 1))) is None
    mixed = cheapest(chain, commit, MsgDepositBond(commit.auditor, 1))
    assert lane.find(mixed) is None


def test_a_duty_declares_little_and_answers_each_panel_once(market: BusyMarket) -> None:
    """Otherwise one seat could fill the lane with gas that it never needs."""
    chain, lane = market.chain, Lane(market.chain.overlay(), RULES)
    (commit, *_) = commits(market)
    needed = gas_of(chain.tx(commit))
    assert lane.find(cheapest(chain, commit, gas=2 * needed)) is not None
    assert lane.find(cheapest(chain, commit, gas=2 * needed + 1)) is None
    assert lane.find(cheapest(chain, commit, commit)) is None


def test_a_signer_has_one_transaction_in_each_half(market: BusyMarket) -> None:
    chain = market.chain
    (commit, *_) = commits(market)
    first = chain.sequence(commit.auditor)
    again = [cheapest(chain, commit, sequence=first + number) for number in range(3)]
    lane = Lane(chain.overlay(), RULES)
    assert [lane.take(tx, lane.find(tx)) for tx in again] == [True, False, False]


def test_the_lane_has_no_more_than_its_gas(market: BusyMarket) -> None:
    half = NODE.block_gas * DUTIES_PERCENT // 200
    lane = Lane(market.chain.overlay(), RULES)
    seats = [cheapest(market.chain, commit) for commit in commits(market)]
    duty = lane.find(seats[0])
    assert duty is not None
    full = replace(seats[0], gas_limit=half)
    assert lane.take(full, duty)
    other = lane.find(seats[1])
    assert not lane.take(seats[1], other)


# Transactions before a duty


def test_a_senders_earlier_transactions_go_along(market: BusyMarket) -> None:
    chain = market.chain
    (commit, *_) = commits(market)
    first = chain.sequence(commit.auditor)
    earlier = [transfer(chain, first + number, gas=60_000, sender=commit.auditor) for number in range(3)]
    duty = cheapest(chain, commit, sequence=first + 3)
    assert proposed(chain, *filling(chain), *earlier, duty)[:4] == [*earlier, duty]


def test_a_long_or_heavy_queue_before_a_duty_waits_like_everyone(market: BusyMarket) -> None:
    """Otherwise a seat could take others' place for anything that it sends before."""
    chain = market.chain
    (commit, *_) = commits(market)
    first = chain.sequence(commit.auditor)
    for count, gas in ((BEFORE_DUTY_MAX + 1, 60_000), (2, LARGE)):
        earlier = [transfer(chain, first + number, gas=gas, sender=commit.auditor) for number in range(count)]
        duty = cheapest(chain, commit, sequence=first + count)
        chosen = proposed(chain, *filling(chain), *earlier, duty)
        assert chosen == filling(chain)[:10]


def test_what_goes_along_with_duties_leaves_the_lane_to_others() -> None:
    """Otherwise a few validators with heavy queues would keep the duties of all others out of a block."""
    names = tuple(f"v{number}" for number in range(12))
    market = Market(validators=12, bidders=(), checked=False)
    market.chain.ok(*[bid(name, capacity=2 * 10**8) for name in names])  # enough for one order
    orders = [market.submit() for _ in names]
    market.chain.pass_time(2)
    legs = [market.leg(order_id) for order_id in orders]
    assert {leg.validator for leg in legs} == set(names)
    chain = market.chain
    waiting: list[Tx] = []
    duties = []
    for leg in legs:
        first = chain.sequence(leg.validator)
        is_last = leg is legs[-1]
        earlier = [] if is_last else [transfer(chain, first, fee=DEAR, sender=leg.validator)]
        accept = MsgAcceptOrder(leg.validator, leg.order_id, leg.number)
        duties.append(cheapest(chain, accept, sequence=first + len(earlier)))
        waiting += [*earlier, duties[-1]]
    chosen = proposed(chain, *waiting)
    assert chosen.index(duties[-1]) == 2 * OPEN_PERCENT // 10, "its deadline is the last"


# The price for everyone


def test_a_full_block_makes_the_next_one_dearer_and_an_empty_one_cheaper() -> None:
    market = Market(consumers=(CONSUMER, OUTSIDER))
    chain = market.chain
    prices = [get_gas_price(chain.overlay())]
    for _ in range(10):
        chain.ok(*filling(chain, 10, fee=None))
        prices.append(get_gas_price(chain.overlay()))
    assert prices[:3] == [1_000, 1_125, 1_265]
    assert prices[-1] > 3 * FLOOR
    poor = transfer(chain, chain.sequence(OUTSIDER), gas=60_000, fee=60)
    chain.refused(INSUFFICIENT_FEE, poor)
    for _ in range(20):
        chain.block()
    assert get_gas_price(chain.overlay()) == FLOOR
    chain.check_books()


def test_filling_the_blocks_of_a_window_costs_a_fortune() -> None:
    params, price, cost = Params(), FLOOR, 0
    for _ in range(90):
        cost += NODE.block_gas * price // 10**6
        price = compute_gas_price(price, NODE.block_gas, params)
    assert cost > 30_000 * 10**6, "it was 9 ASSAY"


def test_coins_that_a_block_moves_away_have_paid_for_it() -> None:
    """Otherwise one transfer of everything would make all later transactions of its sender free."""
    market = Market(consumers=(CONSUMER, OUTSIDER))
    chain = market.chain
    everything = MsgSend(OUTSIDER, CONSUMER, (Coin(DENOM, chain.balance(OUTSIDER) - 53),))
    first = chain.tx(everything, sequence=0)
    assert first.fee[0].amount == 53
    others = [transfer(chain, number, fee=None) for number in range(1, 10)]
    mempool = chain.mempool()
    assert [chain.check(tx, mempool).code for tx in (first, *others)] == [0] * 10
    before = chain.balance(OUTSIDER)
    results = chain.block(first, *others).tx_results
    assert [result.code == 0 for result in results] == [False] + [True] * 9
    assert before - chain.balance(OUTSIDER) == 53 + 9 * LARGE // 1_000 + 9
    assert get_gas_price(chain.overlay()) > FLOOR


def test_the_price_moves_by_its_bounds_and_stays_above_its_floor() -> None:
    params = Params()
    target = NODE.block_gas * OPEN_PERCENT // 200
    assert compute_gas_price(8_000, target, params) == 8_000
    assert compute_gas_price(8_000, 2 * target, params) == compute_gas_price(8_000, NODE.block_gas, params) == 9_000
    assert compute_gas_price(8_000, 0, params) == 7_000
    assert compute_gas_price(8_000, target // 2, params) == 7_500
    assert compute_gas_price(FLOOR, 0, params) == FLOOR
    free = params.replace(min_gas_price_millionths=0)
    assert [compute_gas_price(price, NODE.block_gas, free) for price in (0, 1, 2)] == [1, 2, 3]
    assert [compute_gas_price(price, 0, free) for price in (3, 1, 0)] == [2, 0, 0]
    fixed = params.replace(gas_price_change_bps=0)
    assert compute_gas_price(8_000, NODE.block_gas, fixed) == 8_000


def test_duties_do_not_make_blocks_dearer(market: BusyMarket) -> None:
    before = get_gas_price(market.chain.overlay())
    result = market.chain.ok(*[cheapest(market.chain, commit) for commit in commits(market)][:1])
    assert not [event for event in result.events if event.type == "gas.price_changed"]
    assert get_gas_price(market.chain.overlay()) == before


def test_at_a_high_price_a_duty_pays_the_lowest_and_nothing_else_does() -> None:
    market = BusyMarket(validators=5, consumers=(CONSUMER, OUTSIDER), checked=False)
    market.panelled = market.run()
    market.train_round(market.panelled)
    market.wait_stage(market.panelled)
    set_price(market, 50 * FLOOR)
    chain = market.chain
    (commit, *_) = commits(market)
    duty, poor = cheapest(chain, commit), transfer(chain, 0, gas=60_000, fee=60)
    assert proposed(chain, duty, poor) == [duty]
    room = BlockRoom(chain.overlay(), RULES, BLOCK_BYTES_MAX)
    assert room.find_problem(duty.hash, duty) == ""
    assert "gas price" in room.find_problem(poor.hash, poor), "it gets no votes"
    before = chain.balance(OUTSIDER)
    results = chain.block(duty, poor).tx_results
    assert [result.code for result in results] == [0, INSUFFICIENT_FEE.number]
    assert chain.balance(OUTSIDER) == before
    mempool = chain.mempool()
    assert chain.check(poor, mempool).code == INSUFFICIENT_FEE.number
    (_, other, *_) = commits(market)
    assert chain.check(cheapest(chain, other), mempool).code == 0


@pytest.mark.parametrize("seed", range(20))
def test_what_one_node_proposes_others_vote_for(seed: int) -> None:
    """A proposer takes in the same walk as the others check."""
    market, dice = make_market(), random.Random(seed)
    chain = market.chain
    set_price(market, dice.choice([FLOOR, 3 * FLOOR]))
    waiting: list[Tx] = []
    for sender in (OUTSIDER, CONSUMER, *market.validators):
        first = chain.sequence(sender)
        duties = [commit for commit in commits(market) if commit.auditor == sender]
        for number in range(dice.randint(0, 12)):
            if duties and dice.random() < 0.4:
                waiting.append(cheapest(chain, *duties, sequence=first + number))
            else:
                gas = dice.choice([60_000, LARGE // 2, LARGE])
                fee = gas * dice.choice([FLOOR // 2, FLOOR, 3 * FLOOR, 9 * FLOOR]) // 10**6
                waiting.append(transfer(chain, first + number, gas=gas, fee=fee, sender=sender))
    dice.shuffle(waiting)
    room = dice.choice([200, 600, 10**6])
    chosen = proposed(chain, *waiting, room=room)
    others = BlockRoom(chain.overlay(), RULES, room)
    for tx in chosen:
        assert others.find_problem(tx.hash, tx) == ""
        others.take(tx.hash, tx)
    by_sender: dict[str, list[int]] = {}
    for tx in chosen:
        (signer,) = tx.signers
        by_sender.setdefault(signer.address, []).append(signer.sequence)
    for sender, sequences in by_sender.items():
        start = chain.sequence(sender)
        assert sequences == list(range(start, start + len(sequences)))


# The mempool


def test_half_of_a_mempool_is_for_duties(market: BusyMarket) -> None:
    chain = market.chain
    mempool = Mempool(chain.store, CRYPTO, txs_max=8)
    spam = filling(chain, 6)
    codes = [chain.check(tx, mempool).code for tx in spam]
    assert codes == [0] * 4 + [MEMPOOL_FULL.number] * 2
    (*_, commit) = commits(market)
    first = chain.sequence(commit.auditor)
    duty = cheapest(chain, commit)
    assert chain.check(duty, mempool).code == 0
    again = cheapest(chain, commit, sequence=first + 1)
    assert chain.check(again, mempool).code == MEMPOOL_FULL.number, "a seat takes one place of it"


def test_bytes_fill_a_mempool_too(market: BusyMarket) -> None:
    chain = market.chain
    tx = transfer(chain, chain.sequence(OUTSIDER))
    small = Mempool(chain.store, CRYPTO, bytes_max=2 * tx.size - 1)
    assert chain.check(tx, small).code == MEMPOOL_FULL.number


def test_what_no_longer_pays_the_price_leaves_the_mempool() -> None:
    """Otherwise cheap transactions would take the place of those that pay, for as long as the price is high."""
    market = Market(consumers=(CONSUMER, OUTSIDER), checked=False)
    chain = market.chain
    waiting = transfer(chain, 0, gas=60_000, fee=60)
    assert chain.check(waiting).code == 0
    set_price(market, FLOOR + 1)
    assert chain.check(waiting, recheck=True).code == INSUFFICIENT_FEE.number


def test_every_message_with_a_lane_has_a_lookup() -> None:
    for handler in RULES.handlers.values():
        assert (handler.message.LANE is None) == (handler.duty is None), handler.message
