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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from time import process_time
from weakref import finalize

from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import TxBody, TxRaw
from cosmpy.protos.tendermint.abci import types_pb2 as abci
from google.protobuf.any_pb2 import Any as AnyProto

from assay.pol.v1.tx_pb2 import AcceptedShare as AcceptedShareProto
from assay.pol.v1.tx_pb2 import MsgAcceptShares as AcceptSharesProto
from benchmarks.figures import Figures, Row
from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.storage import Storage
from chain.state_machine.gas import gas_of
from chain.state_machine.gas_price import compute_gas_price, get_gas_price
from chain.state_machine.ledger.queries import get_account
from chain.state_machine.queries import answer
from chain.state_machine.rules import RULES
from chain.state_machine.store import Overlay
from domain.block import TxResult
from domain.errors import Refusal
from domain.genesis import DENOM, Genesis, GenesisAccount, GenesisValidator
from domain.hashing import message_id
from domain.keys import ShareRef
from domain.ledger.messages import MsgDepositBond, MsgSend, MsgWithdrawBond
from domain.ledger.params import LedgerParams
from domain.ledger.records import Coin
from domain.legs.messages import MsgAcceptOrder, MsgStopOrder
from domain.limits import (
    BIDS_PER_VALIDATOR_MAX,
    BLOCK_BYTES_MAX,
    GAS_MAX,
    SHARES_PER_MESSAGE_MAX,
    SLOTS_MAX,
    TX_BYTES_MAX,
    WITHDRAWALS_MAX,
)
from domain.market.messages import MsgChangeBid, MsgPlaceBid, MsgSubmitOrder
from domain.market.records import Conditions, JobTerms, Offer
from domain.messages import Message, signer_of
from domain.node.params import NodeParams, tx_gas_max
from domain.node.queries import EventsRequest
from domain.params import local_params
from domain.proof.messages import (
    AcceptedShare,
    MsgAcceptShares,
    MsgCloseRound,
    MsgCommitAnswer,
    MsgCommitTraces,
    MsgRevealAnswer,
    Rejection,
    SignedShare,
)
from domain.proof.queries import OrderRequest, OrderResponse, SeatsRequest
from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind, Panel, SeatAnswer, ShareClaim, ShareRoots
from domain.registry.messages import MsgAdmitProvider, MsgRegisterProvider
from pol.rules.commitment import possession_sign_bytes, share_commitment, share_sign_bytes
from pol.rules.schedule import is_handover, share_segments
from pol.rules.tiers.answers import answer_commitment
from wire.keys import Key
from wire.results import events_proto
from wire.tx import TxDecoder, build_tx, build_unsigned_tx, decode_simulated_tx, decode_tx

NAME = "blocks"
REPEATS = 3
GOAL = 1.0  # seconds
CHAIN_ID = "assay-local-blocks"
START_NS = 1_700_000_000 * 10**9
COINS = 10**14
PRICE = 10**12
_NO_ROOT = bytes(32)
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


# --- the chain -----------------------------------------------------------------------------------


def key(name: str) -> Key:
    """Return the key of the person with a name. It is the same in every run."""
    return Key(sha256(b"blocks " + name.encode()).digest())


def _beacon_key(name: str) -> Key:
    return key("beacon " + name)


def _prove(message: Message, sequence: int, index: int) -> Message:
    """Add the proof of an order's key, which is valid in one transaction only; return other messages unchanged."""
    if not isinstance(message, MsgSubmitOrder):
        return message
    order_id = message_id("order", CHAIN_ID, message.consumer, sequence, index)
    document = possession_sign_bytes(order_id, message.order_key)
    return replace(message, key_proof=key("order").sign(document))


@dataclass
class Net:
    """A node that makes the blocks of several validators; people are identified by names."""

    auditors: int = 0
    people: int = 40
    progress_base: int = 10_000
    validators: int = 4
    price_change: int = 0
    storage: Storage = field(default_factory=Storage.temporary)
    sequences: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    paid: int = 0

    def __post_init__(self) -> None:
        finalize(self, self.storage.close)
        validators = [f"v{number}" for number in range(self.validators)]
        names = [*validators, "carol", *(f"p{number}" for number in range(self.people))]
        self.numbers = {name: number for number, name in enumerate(names)}
        self.names = {key(name).address: name for name in names}
        self.params = local_params().replace(
            auditors=self.auditors,
            clock_step_max=60,
            round_window=30,
            rounds_ahead=256,
            progress_base=self.progress_base,
            gas_price_change_bps=self.price_change,
        )
        self.app = self._node()
        self.time_ns = START_NS
        self.cons = [sha256(b"cons " + name.encode()).digest() for name in validators]
        genesis = Genesis(
            chain_id=CHAIN_ID,
            denom=DENOM,
            params=self.params,
            accounts=tuple(GenesisAccount(key(name).address, (Coin(DENOM, COINS),)) for name in names),
            validators=tuple(
                GenesisValidator(
                    operator=key(name).address,
                    moniker=name,
                    cons_key=cons,
                    beacon_key=_beacon_key(name).pub_key,
                    stake=10**13,
                    endpoint=f"{name}:7430",
                    certificate=b"cert",
                    audit_speed=2**62,
                    audit_rate=2**62,
                )
                for name, cons in zip(validators, self.cons, strict=True)
            ),
        )
        self.app.init_chain(genesis, START_NS)
        everybody = [name for name in names if name != "carol"]
        self.block(*[MsgDepositBond(key(name).address, 10**12) for name in everybody])
        operator = key("v0").address
        providers = [f"p{number}" for number in range(8)]
        members = [key(name).address for name in providers]
        self.block(*[MsgRegisterProvider(member, operator) for member in members])
        self.block(*[MsgAdmitProvider(operator, member) for member in members])

    # --- transactions and blocks ---

    def raw(self, *messages: Message, gas: int | None = None, price: int | None = None) -> bytes:
        """Return the next transaction of the messages' signer; without ``gas``, its gas limit is calculated.

        Without ``price`` (millionths of uassay per gas), it pays the chain's lowest.
        """
        name = self.names[signer_of(messages[0])]
        sequence = self.sequences.get(name, 0)
        self.sequences[name] = sequence + 1
        proven = tuple(_prove(message, sequence, at) for at, message in enumerate(messages))

        def built(gas: int) -> bytes:
            fee = (Coin(DENOM, -(-gas * (price or self.lowest_price) // 10**6)),)
            return build_tx(
                proven,
                key(name),
                chain_id=CHAIN_ID,
                account_number=self.numbers[name],
                sequence=sequence,
                fee=fee,
                gas_limit=gas,
            )

        if gas is not None:
            return built(gas)
        # The fee may be longer with a higher gas limit, and a longer transaction needs more gas.
        return built(gas_of(decode_tx(built(GAS_MAX // 10))) + 100)

    @property
    def lowest_price(self) -> int:
        """The chain's lowest gas price, in millionths of uassay."""
        return self.params.of(LedgerParams).min_gas_price_millionths

    def estimated(self, *messages: Message) -> bytes:
        """Return the next transaction of the messages' signer, with gas estimated by simulation."""
        name = self.names[signer_of(messages[0])]
        unsigned = build_unsigned_tx(messages, key(name).pub_key, sequence=0)
        used = self.app.simulate(decode_simulated_tx(unsigned))
        if used.code:
            raise RuntimeError(used.log)
        return self.raw(*messages, gas=used.gas_used + 10_000)

    def block(self, *messages: Message, seconds: int = 1) -> list[TxResult]:
        """Make blocks with ``messages`` until all are in one; raise RuntimeError if a message fails."""
        raws = [self.estimated(m) if _finds(m) else self.raw(m) for m in messages]
        results: list[TxResult] = []
        while raws or not results:
            chosen = self.app.prepare_proposal(raws, BLOCK_BYTES_MAX, *self.turn)
            done = self._finalize(self.app, chosen, seconds)
            self.app.commit()
            self.time_ns += seconds * 10**9
            results += done
            taken = set(chosen)
            raws, seconds = [raw for raw in raws if raw not in taken], 0
            if len(chosen) == 1:
                break
        for result in results:
            if result.code:
                raise RuntimeError(result.log)
            self.paid += _fee(result)
        return results

    def make(self, chosen: Sequence[bytes], seconds: int = 1) -> list[TxResult]:
        """Make and commit a block of ``chosen``, and return the results of its transactions."""
        done = self._finalize(self.app, chosen, seconds)
        self.app.commit()
        self.time_ns += seconds * 10**9
        self.sequences = {name: self._sequence(name) for name in self.sequences}
        return done

    def measured(self, case: str, raws: Sequence[bytes], *, seconds: int = 1) -> list[Row]:
        """Return the rows of a block that has as many of ``raws`` as fit, measured on nodes with cold caches."""
        chosen = self.app.prepare_proposal(list(raws), BLOCK_BYTES_MAX, *self.turn)
        best = float("inf")
        for _ in range(REPEATS):
            node = self._node()
            start = process_time()
            if not node.process_proposal(chosen, *self.turn):
                raise RuntimeError("the node refuses its own proposal")
            results = self._finalize(node, chosen, seconds)
            best = min(best, process_time() - start)
        start = process_time()
        node.commit()
        best += process_time() - start
        self.app = self._node()
        self.time_ns += seconds * 10**9
        self.sequences = {name: self._sequence(name) for name in self.sequences}
        gas = sum(decode_tx(raw).gas_limit for raw in chosen[1:])
        paid, self.paid = self.paid + sum(map(_fee, results)), 0
        refused = sum(result.code != 0 for result in results)
        what = f"{case} ({len(chosen) - 1}" + (f", {refused} refused)" if refused else ")")
        rows = [
            Row(case=what, value=best, unit="s", baseline=GOAL),
            Row(f"  {case}: costs its sender", paid, "uassay"),
        ]
        if gas:
            rows.append(Row(case=f"  {case}: gas in 5 ns", value=gas / 2e8, unit="s", baseline=best))
        return rows

    def _node(self) -> Application:
        """Return a node with cold caches that makes the blocks of all validators."""
        keys = BeaconKeys([_beacon_key(f"v{number}") for number in range(self.validators)])
        return Application(self.storage, AppConfig(), beacon_keys=keys)

    @property
    def turn(self) -> tuple[int, bytes]:
        """The next height and the consensus address of its proposer."""
        height = self.app.head.block.height + 1
        return height, sha256(self.cons[height % len(self.cons)]).digest()[:20]

    def _sequence(self, name: str) -> int:
        account = get_account(self.app.view().reader, key(name).address)
        return 0 if account is None else account.sequence

    def _finalize(self, node: Application, raws: Sequence[bytes], seconds: int) -> list[TxResult]:
        height, proposer = self.turn
        block_hash = sha256(b"block %d" % height).digest()
        time_ns = self.time_ns + seconds * 10**9
        done = node.finalize_block(height, time_ns, block_hash, proposer, list(raws))
        # The answer is serialized for CometBFT, so the time for this counts.
        abci.ResponseFinalizeBlock(events=events_proto(done.result.events)).SerializeToString()
        for result in done.result.tx_results:
            abci.ExecTxResult(events=events_proto(result.events)).SerializeToString()
        return list(done.result.tx_results[1:])

    # --- orders with 1,024 slots ---

    def place_bid(self, count: int = 1, validator: str = "v0") -> list[bytes]:
        """Place ``count`` bids that fit every order of this file, and return their ids."""
        offer = Offer(
            price=PRICE,
            slot_speed=10**15,
            slots=SLOTS_MAX,
            device_class="cpu",
            memory=10**9,
            tiers=("exact",),
            providers_bps=7_000,
        )
        bids = [MsgPlaceBid(key(validator).address, offer, capacity=10**18, duration=10**7)] * count
        return [result.responses[0][1] for result in self.block(*bids)]

    def submission(self, **changes: object) -> MsgSubmitOrder:
        """Return the message that submits an order with very little work."""
        consumer, order_key = key("carol").address, key("order")
        terms = JobTerms(
            job_id=sha256(b"job").digest(),
            payload_bytes=1_000,
            data_bytes=1_000,
            global_root=sha256(b"global").digest(),
            local_root=sha256(b"local").digest(),
            data_root=sha256(b"data").digest(),
            rounds=changes.pop("rounds", 2),  # type: ignore[arg-type]
            slots=changes.pop("slots", SLOTS_MAX),  # type: ignore[arg-type]
            round_steps=4,
            batch=2,
            segment_steps=2,
            step_work=1_000,
            outer_work=1_000,
            global_bytes=1_000,
            local_bytes=1_000,
            update_bytes=1_000,
            global_chunks=1,
            local_chunks=1,
            executor_version=1,
        )
        message = MsgSubmitOrder(
            consumer=consumer,
            order_key=order_key.pub_key,
            key_proof=bytes(64),
            terms=terms,
            conditions=Conditions(),
            price_limit=PRICE,
            deposit=10**9,
            time_to_live=6 * 10**5,
            deadline=10**6,
            rematch=True,
        )
        return replace(message, **changes)  # type: ignore[arg-type]

    def run_orders(self, count: int, **changes: object) -> list[bytes]:
        """Submit ``count`` orders that v0 wins and accepts, and return their ids."""
        results = self.block(*[self.submission(**changes)] * count)
        orders = [result.responses[0][1] for result in results]
        for _ in range(20):
            if all(self.order(order_id).order.legs for order_id in orders):
                break
            self.block()
        self.block(*[MsgAcceptOrder(key("v0").address, order_id, 1) for order_id in orders])
        return orders

    def order(self, order_id: bytes) -> OrderResponse:
        """Return an order with its legs, rounds, shares and panels."""
        return answer(self.app.view().reader, OrderRequest(order_id))

    def shares(self, order_id: bytes, *, issue: int = 1, right: bool = True) -> list[SignedShare]:
        """Return a share for every slot of the order's open round; if not ``right``, the signatures are wrong."""
        answer = self.order(order_id)
        leg = answer.legs[-1]
        terms = answer.order.terms
        signed = []
        for slot in range(terms.slots):
            provider = key(f"p{slot % 8}")
            share_key = leg.open_round.share(slot, issue)
            made_of = share_commitment(
                CHAIN_ID,
                share_key,
                provider.address,
                (leg.global_in, terms.local_root),
                terms.executor_version,
                _roots(terms.local_root, share_segments(terms)),
            )
            claim = ShareClaim(
                order_id=order_id,
                leg=leg.number,
                round=leg.round,
                slot=slot,
                issue=issue,
                provider=provider.address,
                commitment=made_of,
            )
            document = share_sign_bytes(CHAIN_ID, claim)
            signed.append(SignedShare(claim, provider.sign(document if right else document + b"x")))
        return signed

    def commits(self, order_id: bytes, shares: Sequence[SignedShare]) -> Iterator[MsgCommitTraces]:
        """Yield the messages that commit shares."""
        round = self.order(order_id).legs[-1].round
        for at in range(0, len(shares), SHARES_PER_MESSAGE_MAX):
            portion = tuple(shares[at : at + SHARES_PER_MESSAGE_MAX])
            yield MsgCommitTraces(
                validator=key("v0").address,
                order_id=order_id,
                leg=1,
                round=round,
                rejections=(),
                shares=portion,
            )

    def commit_all(self, orders: Sequence[bytes]) -> None:
        """Commit the shares of all open rounds, and make blocks until the segments to check are drawn."""
        for order_id in orders:
            self.block(*self.commits(order_id, self.shares(order_id)), seconds=0)
        for _ in range(60):
            if all(s.is_drawn for o in orders for s in self.order(o).shares if s.reason == 0):
                return
            self.block(seconds=0)
        raise RuntimeError("shares are not drawn")

    def accepts(self, order_id: bytes, slots: int = SLOTS_MAX, issue: int = 1) -> Iterator[MsgAcceptShares]:
        """Yield the messages that accept the shares of the first ``slots`` slots."""
        answer = self.order(order_id)
        terms = answer.order.terms
        shares = _every(terms.local_root, share_segments(terms), slots, issue)
        for at in range(0, slots, SHARES_PER_MESSAGE_MAX):
            yield MsgAcceptShares(
                validator=key("v0").address,
                order_id=order_id,
                leg=1,
                round=answer.legs[-1].round,
                shares=shares[at : at + SHARES_PER_MESSAGE_MAX],
            )

    def accept_all(self, orders: Sequence[bytes]) -> None:
        """Accept the shares of all open rounds that are not accepted yet."""
        for order_id in orders:
            waiting = {share.claim.slot for share in self.order(order_id).shares if share.roots is None}
            messages = self.accepts(order_id, self.order(order_id).order.terms.slots)
            self.block(*(m for m in messages if m.shares[0].slot in waiting), seconds=0)

    def close(self, order_id: bytes) -> MsgCloseRound:
        """Return the message that closes the open round."""
        answer = self.order(order_id)
        terms = answer.order.terms
        round = answer.legs[-1].round
        every = answer.order.params.handover_every
        sealed = _NO_ROOT if is_handover(terms, every, round) else b""
        return MsgCloseRound(
            validator=key("v0").address,
            order_id=order_id,
            leg=1,
            round=round,
            next_root=_NO_ROOT,
            ciphertext_root=sealed,
        )


def _roots(local_out: bytes, segments: int) -> ShareRoots:
    """Return the roots that the commitment of every share hides."""
    trace, update = sha256(b"trace").digest(), sha256(b"update").digest()
    return ShareRoots(trace_root=trace, update_root=update, local_out=local_out, metrics=(), segments=segments)


def _every(local_out: bytes, segments: int = 1, slots: int = SLOTS_MAX, issue: int = 1) -> tuple[AcceptedShare, ...]:
    """Return the accepted shares of the first ``slots`` slots, as messages that accept them list them."""
    roots = _roots(local_out, segments)
    return tuple(AcceptedShare(slot, issue, roots) for slot in range(slots))


def _finds(message: Message) -> bool:
    return RULES.handlers[type(message)].weight is not None


def _fee(result: TxResult) -> int:
    paid = ("tx", "share.skipped")
    fees = [event.get("fee") for event in result.events if event.type in paid and event.get("fee")]
    return sum(int(fee.removesuffix(DENOM)) for fee in fees)


# --- kinds ---------------------------------------------------------------------------------------


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
        shares=_every(bytes(32), slots=SHARES_PER_MESSAGE_MAX),
    )
    rows = net.measured("lists at their caps", [net.raw(accept) for _ in range(40)])
    long = [_too_long(number) for number in range(BLOCK_BYTES_MAX // TX_BYTES_MAX)]

    def decode() -> None:
        # No correct node votes for such a block, but a bug could make two thirds of the nodes vote for it.
        decoder = TxDecoder()
        if not all(isinstance(decoder(raw), Refusal) for raw in long):
            raise RuntimeError("a list that is too long was decoded")

    return [*rows, _best_of("lists over their caps, a block of them", decode)]


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
        paid += sum(map(_fee, net.make(net.app.prepare_proposal(spam, BLOCK_BYTES_MAX, *net.turn))))
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
        _best_of(f"a proposal from {len(flood):,} transfers", propose),
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
        _best_of("query: 1,000 events", lambda: net.app.events(EventsRequest(1, 1_000))),
        _best_of("query: an order with 1,024 shares", lambda: net.order(orders[0])),
        _best_of("simulate: CloseRound, 1,024 slots", lambda: net.app.simulate(simulated)),
    ]


def _best_of(case: str, ask: Callable[[], object]) -> Row:
    best = float("inf")
    for _ in range(REPEATS):
        start = process_time()
        ask()
        best = min(best, process_time() - start)
    return Row(case=case, value=best, unit="s", baseline=GOAL)


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
    lane,
    filled,
    answers,
)
