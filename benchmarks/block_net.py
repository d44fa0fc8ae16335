"""The chain whose blocks :mod:`benchmarks.blocks` measures: one node that makes the blocks of all its validators."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from time import process_time
from weakref import finalize

from cosmpy.protos.tendermint.abci import types_pb2 as abci

from benchmarks.figures import Row
from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.storage import Storage
from chain.state_machine.gas import gas_of
from chain.state_machine.ledger.queries import get_account
from chain.state_machine.queries import answer
from chain.state_machine.rules import RULES
from domain.block import Misbehaviour, TxResult
from domain.genesis import DENOM, Genesis, GenesisAccount, GenesisValidator
from domain.hashing import message_id
from domain.ledger.messages import MsgDepositBond
from domain.ledger.params import LedgerParams
from domain.ledger.records import Coin
from domain.legs.messages import MsgAcceptOrder
from domain.limits import (
    BLOCK_BYTES_MAX,
    GAS_MAX,
    SHARES_PER_MESSAGE_MAX,
    SLOTS_MAX,
)
from domain.market.messages import MsgPlaceBid, MsgSubmitOrder
from domain.market.records import Conditions, JobTerms, Offer
from domain.messages import Message, signer_of
from domain.node.queries import StatusRequest
from domain.params import local_params
from domain.proof.messages import (
    AcceptedShare,
    MsgAcceptShares,
    MsgCloseRound,
    MsgCommitTraces,
    SignedShare,
)
from domain.proof.queries import OrderRequest, OrderResponse
from domain.proof.records import ShareClaim, ShareRoots
from domain.registry.messages import MsgAdmitProvider, MsgRegisterProvider
from pol.rules.commitment import possession_sign_bytes, share_commitment, share_sign_bytes
from pol.rules.schedule import is_handover, share_segments
from wire.keys import Key
from wire.results import events_proto
from wire.tx import build_tx, build_unsigned_tx, decode_simulated_tx, decode_tx

REPEATS = 3
GOAL = 1.0  # seconds
CHAIN_ID = "assay-local-blocks"
START_NS = 1_700_000_000 * 10**9
COINS = 10**14
PRICE = 10**12
_NO_ROOT = bytes(32)


def key(name: str) -> Key:
    """Return the key of the person with a name. It is the same in every run."""
    return Key(sha256(b"blocks " + name.encode()).digest())


def beacon_key(name: str) -> Key:
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
    changes: Mapping[str, int] = field(default_factory=dict)
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
            **self.changes,
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
                    beacon_key=beacon_key(name).pub_key,
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

    def raw(self, *messages: Message, gas: int | None = None, price: int | None = None, granter: str = "") -> bytes:
        """Return the next transaction of the messages' signer; without ``gas``, its gas limit is calculated.

        Without ``price`` (millionths of uassay per gas), it pays the chain's lowest. The person ``granter`` pays the
        fee, or else the signer.
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
                granter=key(granter).address if granter else "",
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
            self.paid += fee_of(result)
        return results

    def make(self, chosen: Sequence[bytes], seconds: int = 1) -> list[TxResult]:
        """Make and commit a block of ``chosen``, and return the results of its transactions."""
        done = self._finalize(self.app, chosen, seconds)
        self.app.commit()
        self.time_ns += seconds * 10**9
        self.sequences = {name: self._sequence(name) for name in self.sequences}
        return done

    def measured(
        self, case: str, raws: Sequence[bytes], *, seconds: int = 1, misbehaviours: tuple[Misbehaviour, ...] = ()
    ) -> list[Row]:
        """Return the rows of a block that has as many of ``raws`` as fit, measured on nodes with cold caches."""
        chosen = self.app.prepare_proposal(list(raws), BLOCK_BYTES_MAX, *self.turn)
        best = float("inf")
        for _ in range(REPEATS):
            node = self._node()
            start = process_time()
            if not node.process_proposal(chosen, *self.turn):
                raise RuntimeError("the node refuses its own proposal")
            results = self._finalize(node, chosen, seconds, misbehaviours)
            best = min(best, process_time() - start)
        start = process_time()
        node.commit()
        best += process_time() - start
        self.app = self._node()
        self.time_ns += seconds * 10**9
        self.sequences = {name: self._sequence(name) for name in self.sequences}
        gas = sum(decode_tx(raw).gas_limit for raw in chosen[1:])
        paid, self.paid = self.paid + sum(map(fee_of, results)), 0
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
        keys = BeaconKeys([beacon_key(f"v{number}") for number in range(self.validators)])
        return Application(self.storage, AppConfig(), beacon_keys=keys)

    @property
    def clock(self) -> int:
        """The chain clock, in seconds."""
        return answer(self.app.view().reader, StatusRequest()).clock

    @property
    def turn(self) -> tuple[int, bytes]:
        """The next height and the consensus address of its proposer."""
        height = self.app.head.block.height + 1
        return height, sha256(self.cons[height % len(self.cons)]).digest()[:20]

    def _sequence(self, name: str) -> int:
        account = get_account(self.app.view().reader, key(name).address)
        return 0 if account is None else account.sequence

    def _finalize(
        self,
        node: Application,
        raws: Sequence[bytes],
        seconds: int,
        misbehaviours: tuple[Misbehaviour, ...] = (),
    ) -> list[TxResult]:
        height, proposer = self.turn
        block_hash = sha256(b"block %d" % height).digest()
        time_ns = self.time_ns + seconds * 10**9
        done = node.finalize_block(height, time_ns, block_hash, proposer, list(raws), misbehaviours=misbehaviours)
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
            step_work=changes.pop("step_work", 1_000),  # type: ignore[arg-type]
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

    def shares(
        self,
        order_id: bytes,
        *,
        issue: int = 1,
        right: bool = True,
        local_out: bytes | None = None,
        first: int = 0,
        multiple: int = 1,
    ) -> list[SignedShare]:
        """Return a share for every slot of the order's open round; if not ``right``, the signatures are wrong.

        ``local_out`` is the root of the local states after the round; by default they do not change. Slot 0 has
        provider ``first``. The bonds are ``multiple`` times the value of a share.
        """
        answer = self.order(order_id)
        leg = answer.legs[-1]
        terms = answer.order.terms
        signed = []
        for slot in range(terms.slots):
            provider = provider_of(slot + first)
            share_key = leg.open_round.share(slot, issue)
            made_of = share_commitment(
                CHAIN_ID,
                share_key,
                provider.address,
                (leg.global_in, terms.local_root),
                terms.executor_version,
                share_roots(local_out or terms.local_root, share_segments(terms)),
            )
            claim = ShareClaim(
                order_id=order_id,
                leg=leg.number,
                round=leg.round,
                slot=slot,
                issue=issue,
                provider=provider.address,
                commitment=made_of,
                multiple=multiple,
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
        self.wait_for_lots(orders)

    def wait_for_lots(self, orders: Sequence[bytes]) -> None:
        """Make blocks until the segments to check of all committed shares are drawn."""
        for _ in range(60):
            if all(s.is_drawn for o in orders for s in self.order(o).shares if s.reason == 0):
                return
            self.block(seconds=0)
        raise RuntimeError("shares are not drawn")

    def accepts(self, order_id: bytes, slots: int = SLOTS_MAX, issue: int = 1) -> Iterator[MsgAcceptShares]:
        """Yield the messages that accept the shares of the first ``slots`` slots."""
        answer = self.order(order_id)
        terms = answer.order.terms
        shares = accepted_shares(terms.local_root, share_segments(terms), slots, issue)
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


def provider_of(number: int) -> Key:
    """Return the key of one of v0's eight providers, which take turns."""
    return key(f"p{number % 8}")


def share_roots(local_out: bytes, segments: int) -> ShareRoots:
    """Return the roots that the commitment of every share hides."""
    trace, update = sha256(b"trace").digest(), sha256(b"update").digest()
    return ShareRoots(trace_root=trace, update_root=update, local_out=local_out, metrics=(), segments=segments)


def accepted_shares(
    local_out: bytes, segments: int = 1, slots: int = SLOTS_MAX, issue: int = 1
) -> tuple[AcceptedShare, ...]:
    """Return the accepted shares of the first ``slots`` slots, as messages that accept them list them."""
    roots = share_roots(local_out, segments)
    return tuple(AcceptedShare(slot, issue, roots) for slot in range(slots))


def _finds(message: Message) -> bool:
    return RULES.handlers[type(message)].weight is not None


def fee_of(result: TxResult) -> int:
    paid = ("tx", "share.skipped")
    fees = [event.get("fee") for event in result.events if event.type in paid and event.get("fee")]
    return sum(int(fee.removesuffix(DENOM)) for fee in fees)


def best_of(case: str, ask: Callable[[], object]) -> Row:
    best = float("inf")
    for _ in range(REPEATS):
        start = process_time()
        ask()
        best = min(best, process_time() - start)
    return Row(case=case, value=best, unit="s", baseline=GOAL)
