"""The most expensive blocks that an attacker can fill, by kind: seconds of one core, and the fees to fill a block.

A real application on LevelDB, with real keys, votes for each block, executes it, answers and commits. Seconds are
process time, so that other load on the machine has little effect. The best of three nodes with cold caches counts.

Each kind fills either the gas of transactions (``block_gas``) or the gas of due work (``due_gas``). The ratio of a
block is the part of a second that it takes; the goal is at most 1 s per block. The ratio of gas is the time that a
block pays for, at 5 ns per gas, divided by the time that it takes. The cost is the sender's fees for a block and for
all preparations since the previous row, at the lowest gas price. Then come the
delay of a seat while an outsider fills blocks, the cost of filling them at the price that follows demand, and a
proposal from a full mempool. The last rows are queries to a node, which cost nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import TxBody, TxRaw
from google.protobuf.any_pb2 import Any as AnyProto

from assay.pol.v1.tx_pb2 import AcceptedShare as AcceptedShareProto
from assay.pol.v1.tx_pb2 import MsgAcceptShares as AcceptSharesProto
from benchmarks.block_disputes import challenges, deliveries, inclusions, stands
from benchmarks.block_net import CHAIN_ID, PRICE, Net, accepted_shares, best_of, fee_of, key
from benchmarks.block_stakes import for_others, stakes, votes
from benchmarks.figures import Figures, Row
from chain.state_machine.gas_price import compute_gas_price, get_gas_price
from chain.state_machine.queries import answer
from chain.state_machine.store import Overlay
from domain.errors import Refusal
from domain.genesis import DENOM
from domain.keys import ShareRef
from domain.ledger.messages import MsgSend, MsgWithdrawBond
from domain.ledger.records import Coin
from domain.legs.messages import MsgStopOrder
from domain.limits import (
    BIDS_PER_VALIDATOR_MAX,
    BLOCK_BYTES_MAX,
    SHARES_PER_MESSAGE_MAX,
    SLOTS_MAX,
    TX_BYTES_MAX,
    WITHDRAWALS_MAX,
)
from domain.market.messages import MsgChangeBid
from domain.messages import Message
from domain.node.params import NodeParams, tx_gas_max
from domain.node.queries import EventsRequest
from domain.proof.messages import (
    MsgAcceptShares,
    MsgCommitAnswer,
    MsgCommitTraces,
    MsgRevealAnswer,
    Rejection,
)
from domain.proof.queries import SeatsRequest
from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind, Panel, SeatAnswer
from pol.rules.tiers.answers import answer_commitment
from wire.tx import TxDecoder, build_unsigned_tx, decode_simulated_tx

NAME = "blocks"
FILLED_BLOCKS = 20
WINDOW_BLOCKS = 90
"""Blocks of a second in which the seats of a window of 300 s commit."""
_EVERY = tuple(ShareRef(slot, 1) for slot in range(SLOTS_MAX))


def run() -> Figures:
    """Measure all kinds of blocks and return the table."""
    rows: list[Row] = []
    for kind in KINDS:
        rows += kind()
    return Figures(NAME, rows)


def transfers() -> list[Row]:
    """Measure blocks of ordinary transfers."""
    net = Net()
    message = MsgSend(key("carol").address, key("p1").address, (Coin(DENOM, 1),))
    return net.measured("transfers", [net.raw(message) for _ in range(2_000)])


def transfers_to_new_accounts() -> list[Row]:
    """Measure blocks of transfers that create accounts."""
    net = Net()
    people = [key(f"new {number}").address for number in range(2_000)]
    sender = key("carol").address
    raws = [net.raw(MsgSend(sender, to, (Coin(DENOM, 1),))) for to in people]
    return net.measured("transfers to new accounts", raws)


def rounds_of_an_order() -> list[Row]:
    """Measure all messages about the shares of a round, in the order that a round needs."""
    net, rows = Net(), []
    net.place_bid()
    orders = net.run_orders(4)
    net.paid = 0
    wrong = [net.raw(m) for o in orders for m in net.commits(o, net.shares(o, right=False))]
    rows += net.measured("CommitTraces, bad signatures", wrong)
    good = [net.raw(m) for o in orders for m in net.commits(o, net.shares(o))]
    rows += net.measured("CommitTraces, 128 shares", good)
    net = Net()
    net.place_bid()
    orders = net.run_orders(4)
    net.commit_all(orders)
    net.paid = 0
    right = next(net.accepts(orders[0]))
    last = replace(right.shares[-1], roots=replace(right.shares[-1].roots, local_out=bytes(32)))
    bad = replace(right, shares=(*right.shares[:-1], last))
    rows += net.measured("AcceptShares, refused", [net.raw(bad) for _ in range(20)])
    accepts = [message for order_id in orders for message in net.accepts(order_id)]
    rows += net.measured("AcceptShares, 128 shares", [net.raw(message) for message in accepts])
    net.accept_all(orders)
    net.paid = 0
    closes = [net.estimated(net.close(order_id)) for order_id in orders]
    rows += net.measured("CloseRound, 1,024 slots", closes)
    rows += net.measured("windows due, 1,024 shares each", [], seconds=60)
    rows += net.measured("windows due, the block after", [], seconds=0)
    rows += net.measured("bonds that return, in steps", [], seconds=0)
    return rows


def rounds_that_are_dropped() -> list[Row]:
    """Measure shares that are never paid: rejected, stopped, or in a leg that missed its deadline."""
    net, rows = Net(progress_base=30), []
    net.place_bid()
    orders = net.run_orders(4)
    net.paid = 0
    for order_id in orders:
        net.block(*net.commits(order_id, net.shares(order_id)), seconds=0)
    rows += net.measured("lots due, 1,024 shares each", [], seconds=1)
    for _ in range(30):
        net.block(seconds=0)
    verdict = int(ShareReason.NO_ANSWER)
    rejections = [
        MsgCommitTraces(
            validator=key("v0").address,
            order_id=orders[0],
            leg=1,
            round=0,
            rejections=tuple(Rejection(ref, verdict) for ref in _EVERY[at : at + SHARES_PER_MESSAGE_MAX]),
            shares=(),
        )
        for at in range(0, SLOTS_MAX, SHARES_PER_MESSAGE_MAX)
    ]
    rows += net.measured("CommitTraces, 128 rejections", [net.raw(m) for m in rejections])
    stop = MsgStopOrder(key("v0").address, orders[1], 1)
    rows += net.measured("StopOrder, 1,024 shares stand", [net.estimated(stop)])
    rows += net.measured("progress deadlines, 1,024 shares each", [], seconds=60)
    rows += net.measured("shares that are dropped, in steps", [], seconds=0)
    return rows


def cascade() -> list[Row]:
    """Measure the reveals of a panel that make a round void, and with it all rounds that closed after it."""
    net = Net(auditors=3)
    net.place_bid()
    (order_id,) = net.run_orders(1, slots=1, rounds=200)
    for _ in range(100):
        net.commit_all([order_id])
        net.block(*net.accepts(order_id, 1), seconds=0)
        net.block(net.close(order_id), seconds=0)
    for _ in range(20):
        panel = net.order(order_id).panels[0]
        if panel.is_open:
            break
        net.block(seconds=0)
    seats = answer(net.app.view().reader, SeatsRequest(order_id, 1, 0)).seats
    commits, reveals = _answers_of({seat.validator: (order_id, panel) for seat in seats})
    net.block(*commits, seconds=0)
    rows = net.measured("a round voided with 99 behind it", [net.raw(m) for m in reveals])
    return rows + net.measured("rounds that become void, the block after", [])


def junk() -> list[Row]:
    """Measure auctions of orders that no bid fits, after changes of bids in the book."""
    net, rows = Net(), []
    (bid_id, *_) = net.place_bid()
    cheap = net.submission(price_limit=1)
    net.paid = 0
    rows += net.measured("SubmitOrder", [net.raw(cheap) for _ in range(1_100)])
    for _ in range(4):
        net.block(*[cheap] * 300)
    operator = key("v0").address
    change = MsgChangeBid(validator=operator, bid_id=bid_id, price=PRICE, capacity=10**18, duration=10**6)
    rows += net.measured("orders swept after a change", [net.raw(change)])
    rows += net.measured("orders swept, the block after", [])
    many = [bid for name in ("v0", "v1", "v2", "v3") for bid in _bids(net, name)]
    changes = [
        MsgChangeBid(
            validator=key(name).address,
            bid_id=bid,
            price=PRICE + number % 200,
            capacity=10**18,
            duration=10**6,
        )
        for number, (name, bid) in enumerate(many * 4)
    ]
    rows += net.measured("bids changing", [net.raw(m) for m in changes])
    return rows


def _bids(net: Net, name: str) -> list[tuple[str, bytes]]:
    count = BIDS_PER_VALIDATOR_MAX - (name == "v0")
    return [(name, bid) for bid in net.place_bid(count, name)]


def matches() -> list[Row]:
    """Measure orders that all match, while one validator has the maximum number of bids."""
    net = Net()
    net.place_bid(BIDS_PER_VALIDATOR_MAX)
    net.paid = 0
    order = net.submission()
    rows = net.measured("orders that match", [net.raw(order) for _ in range(1_100)])
    return rows + net.measured("orders that match, the block after", [])


def withdrawals() -> list[Row]:
    """Measure blocks in which many bonds are released."""
    net = Net(people=200)
    net.paid = 0
    people = [f"p{number}" for number in range(200)]
    for _ in range(WITHDRAWALS_MAX):
        net.block(*[MsgWithdrawBond(key(name).address, 1) for name in people], seconds=0)
    return net.measured("bond releases due", [], seconds=60)


def decoding() -> list[Row]:
    """Measure messages with lists of the maximum length, and with more items than allowed."""
    net = Net()
    accept = MsgAcceptShares(
        validator=key("v0").address,
        order_id=bytes(32),
        leg=1,
        round=0,
        shares=accepted_shares(bytes(32), slots=SHARES_PER_MESSAGE_MAX),
    )
    rows = net.measured("lists at their caps", [net.raw(accept) for _ in range(40)])
    long = [_too_long(number) for number in range(BLOCK_BYTES_MAX // TX_BYTES_MAX)]

    def decode() -> None:
        # No correct node votes for such a block, but a bug could make two thirds of the nodes vote for it.
        decoder = TxDecoder()
        if not all(isinstance(decoder(raw), Refusal) for raw in long):
            raise RuntimeError("a list that is too long was decoded")

    return [*rows, best_of("lists over their caps, a block of them", decode)]


def _too_long(number: int) -> bytes:
    """Return a transaction with one message whose list of empty shares is longer than allowed."""
    shares = [AcceptedShareProto()] * ((TX_BYTES_MAX - 700) // 2)
    message = AcceptSharesProto(validator=key("v0").address, order_id=bytes(32), round=number, shares=shares)
    packed = AnyProto(type_url=MsgAcceptShares.URL, value=message.SerializeToString())
    parts = TxRaw(
        body_bytes=TxBody(messages=[packed]).SerializeToString(),
        auth_info_bytes=b"\x12\x00",
        signatures=[bytes(64)],
    )
    return bytes(parts.SerializeToString())


def refused_orders() -> list[Row]:
    """Measure orders that auditors cannot keep up with, on a chain with many validators."""
    net = Net(auditors=3, validators=100)
    net.paid = 0
    steps = 2**31
    order = net.submission(rounds=1, slots=1)
    terms = replace(order.terms, round_steps=steps, segment_steps=steps, batch=1, step_work=10**17)
    return net.measured("orders refused, 100 validators", [net.raw(replace(order, terms=terms)) for _ in range(600)])


def lane() -> list[Row]:
    """Measure blocks with the duties of many seats and a leg in the lane, and transfers in the rest."""
    net, orders = _panels()
    (busy,) = net.run_orders(1)
    traces = next(net.commits(busy, net.shares(busy)))
    net.paid = 0
    message = MsgSend(key("carol").address, key("p1").address, (Coin(DENOM, 1),))
    commits, reveals = _seat_duties(net, orders)
    others = [net.raw(message) for _ in range(2_000)]
    rows = net.measured("commitments, traces, transfers", [net.raw(m) for m in (traces, *commits)] + others)
    for _ in range(3):
        net.block(seconds=30)
    others = [net.raw(message) for _ in range(2_000)]
    return rows + net.measured("answers and transfers", [net.raw(m) for m in reveals] + others)


def _panels(price_change: int = 0) -> tuple[Net, list[bytes]]:
    """Return a chain on which the seats of 20 panels have to commit, and the panels' orders.

    So many validators have room for all of them at once.
    """
    net = Net(auditors=3, validators=32, price_change=price_change)
    net.place_bid(3)
    orders = net.run_orders(20, slots=1)
    net.commit_all(orders)
    net.block(*[m for order_id in orders for m in net.accepts(order_id, 1)], seconds=0)
    net.block(*[net.close(order_id) for order_id in orders], seconds=0)
    for _ in range(60):
        if all(net.order(order_id).panels[0].is_open for order_id in orders):
            return net, orders
        net.block(seconds=0)
    raise RuntimeError("panels do not open")


def _seat_duties(net: Net, orders: Sequence[bytes]) -> tuple[list[Message], list[Message]]:
    """Return the commitments of the seats of open panels and the messages that reveal them, one seat per validator."""
    seats: dict[str, tuple[bytes, Panel]] = {}
    for order_id in orders:
        for seat in answer(net.app.view().reader, SeatsRequest(order_id, 1, 0)).seats:
            seats.setdefault(seat.validator, (order_id, net.order(order_id).panels[0]))
    return _answers_of(seats)


def _answers_of(seats: Mapping[str, tuple[bytes, Panel]]) -> tuple[list[Message], list[Message]]:
    """Return the messages that commit and reveal ``unavailable`` for every place, by the validators of seats."""
    salt = bytes(32)
    commits: list[Message] = []
    reveals: list[Message] = []
    for validator, (order_id, panel) in seats.items():
        answers = tuple(
            SeatAnswer(place=number, kind=AnswerKind.UNAVAILABLE, root=b"", digest=b"", step=0)
            for number in panel.undecided
        )
        digest = answer_commitment(CHAIN_ID, panel.key, 1, validator, salt, answers)
        commits.append(
            MsgCommitAnswer(auditor=validator, order_id=order_id, leg=1, round=0, stage=1, commitment=digest)
        )
        reveals.append(
            MsgRevealAnswer(
                auditor=validator,
                order_id=order_id,
                leg=1,
                round=0,
                stage=1,
                salt=salt,
                answers=answers,
                leaves=(),
            )
        )
    return commits, reveals


def filled() -> list[Row]:
    """Measure the delay of a seat while an outsider fills blocks and the mempool, and the cost of filling blocks."""
    net, orders = _panels(price_change=NodeParams().gas_price_change_bps)
    node = net.params.of(NodeParams)
    (commit, *_), _ = _seat_duties(net, orders)
    message = MsgSend(key("carol").address, key("p1").address, (Coin(DENOM, 1),))
    paid = 0
    for _ in range(FILLED_BLOCKS):
        price = get_gas_price(Overlay(net.app.view().reader))
        spam = [net.raw(message, gas=tx_gas_max(node), price=price) for _ in range(10)]
        paid += sum(map(fee_of, net.make(net.app.prepare_proposal(spam, BLOCK_BYTES_MAX, *net.turn))))
    flood = _flood(net)
    duty = net.raw(commit)
    accepted = net.app.check_tx(duty)
    waited = 0
    while duty not in (chosen := net.app.prepare_proposal([*flood, duty], BLOCK_BYTES_MAX, *net.turn)):
        net.make(chosen)
        flood = _flood(net)
        waited += 1
    if accepted.code:
        raise RuntimeError(accepted.log)
    price, cost = net.lowest_price, 0
    for _ in range(WINDOW_BLOCKS):
        cost += node.block_gas * price // 10**6
        price = compute_gas_price(price, node.block_gas, net.params)

    def propose() -> None:
        chosen = net.app.prepare_proposal(flood, BLOCK_BYTES_MAX, *net.turn)
        if len(chosen) < 1_000:
            raise RuntimeError("the proposal is not full")

    return [
        Row("a seat's commitment, behind a full mempool: full blocks before it", waited, "blocks", baseline=1),
        Row(f"  {FILLED_BLOCKS} full blocks: cost their sender", paid, "uassay"),
        Row(f"  {WINDOW_BLOCKS} full blocks: would cost", cost, "uassay"),
        best_of(f"a proposal from {len(flood):,} transfers", propose),
    ]


def _flood(net: Net) -> list[bytes]:
    """Return transfers of an outsider at ten times the gas price, as many as the mempool accepts."""
    price = 10 * get_gas_price(Overlay(net.app.view().reader))
    message = MsgSend(key("p2").address, key("p1").address, (Coin(DENOM, 1),))
    flood: list[bytes] = []
    while net.app.check_tx(raw := net.raw(message, price=price)).code == 0:
        flood.append(raw)
    return flood


def answers() -> list[Row]:
    """Measure queries that anyone may send to a node, with 1,000 items each."""
    net = Net()
    net.place_bid()
    orders = net.run_orders(1)
    net.commit_all(orders)
    net.accept_all(orders)
    close = net.close(orders[0])
    unsigned = build_unsigned_tx([close], key("v0").pub_key, sequence=0)
    simulated = decode_simulated_tx(unsigned)
    return [
        best_of("query: 1,000 events", lambda: net.app.events(EventsRequest(1, 1_000))),
        best_of("query: an order with 1,024 shares", lambda: net.order(orders[0])),
        best_of("simulate: CloseRound, 1,024 slots", lambda: net.app.simulate(simulated)),
    ]


KINDS: tuple[Callable[[], list[Row]], ...] = (
    transfers,
    transfers_to_new_accounts,
    rounds_of_an_order,
    rounds_that_are_dropped,
    cascade,
    junk,
    refused_orders,
    matches,
    withdrawals,
    decoding,
    deliveries,
    inclusions,
    challenges,
    stands,
    stakes,
    votes,
    for_others,
    lane,
    filled,
    answers,
)
