"""A validator's whole daemon on a real state machine, without sockets: its loop is turned by hand.

Records, blobs, threads and the service are the real ones; the node is a market in memory, which makes a block for
each transaction, and numerics say what the test wants.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock
from typing import Any, TypeVar

import numpy as np

from chain.client.client import TxReceipt
from chain.client.errors import ChainError, ErrorKind, TxRefused, code_of
from chain.state_machine import queries
from chain.state_machine.store import MemoryStore
from domain.errors import Refusal
from domain.keys import ShareKey
from domain.market.messages import MsgSubmitOrder
from domain.market.records import JobTerms
from domain.messages import Message
from domain.node.queries import StatusRequest, StatusResponse
from domain.params import local_params
from domain.proof.messages import MsgShowKey
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import DeliveryManifest, ShareClaim, ShareRoots
from domain.registry.messages import MsgCertifyProvider
from domain.registry.queries import ProvidersRequest, ProvidersResponse
from domain.registry.records import Provider
from host import lanes
from link import types as t
from link.blobs import BlobStore
from link.handover import public_point
from pol.replay.trial import try_payload
from pol.rules.commitment import compute_trace_root, share_commitment, share_sign_bytes
from pol.rules.delivery import delivery_key_hash, manifest_sign_bytes
from pol.rules.schedule import first_step, share_segments
from pol.state.canonical import encode_state, tensor_leaves
from pol.work.executor import PoolClosed
from pol.work.replayer import ExecutorReplayer
from pol.work.trials import Trial, TrialTimes
from tests.support.chain_harness import CHAIN_ID, CRYPTO, pub_key, sign
from tests.support.chain_market import Market, digest, make_terms, submit
from tests.support.waiting import wait_until
from validator.daemon import ValidatorConfig, ValidatorDaemon
from validator.decide import outgoing
from validator.decide.admission import Policy
from validator.decide.duties import Upkeep
from validator.decide.records import LocalOrder, LocalUpkeep, Opening, ReplayOutcome, SlotWork
from validator.decide.traces import leaves_of
from validator.decide.upkeep import CERTIFY_SECONDS
from validator.work import numerics, perform
from validator.work.attest import judge_evidence
from validator.work.checks import exact
from validator.work.perform import OWN, SEATS, TRIALS
from validator.work.unsealing import OpenedDelivery

T = TypeVar("T")
ME = "v0"
PROVIDERS = ("v0p0", "v0p1")
CONTENT = {
    "job.json": b"the job",
    "global.state": encode_state({"w": np.zeros(12, np.int64)}),
    "local.state": b"l" * 50,
    "data/0": b"rows",
}
PARAMS = local_params().replace(
    accept_base=30,
    progress_base=300,
    round_window=40,
    auditors=0,
    clock_step_max=10,
)
ORDER_SECRET = bytes(31) + b"\x07"
ORDER_KEY = public_point(ORDER_SECRET)
MACHINE = t.Machine("cpu", 10**9)


def blob_of(data: bytes) -> t.BlobRef:
    return t.BlobRef(sha256(data).digest(), len(data))


FILES = tuple(t.PayloadFile(path, blob_of(data)) for path, data in CONTENT.items())
TERMS = make_terms(
    job_id=FILES[0].blob.sha256,
    payload_bytes=sum(len(data) for name, data in CONTENT.items() if not name.startswith("data/")),
    data_bytes=len(CONTENT["data/0"]),
    global_bytes=len(CONTENT["global.state"]),
    local_bytes=len(CONTENT["local.state"]),
    update_bytes=90,
    slots=2,
    round_steps=4,
    segment_steps=2,
)

UPDATE_CHUNKS = 2


@dataclass(frozen=True)
class FakeKey:
    """Stands for a key whose address is a name of the market."""

    address: str
    secret: bytes = bytes(31) + b"\x01"

    @property
    def pub_key(self) -> bytes:
        return pub_key(self.address)

    def sign(self, message: bytes) -> bytes:
        return sign(self.pub_key, message)


class Node:
    """What a daemon needs of its node: a client and a sender over a market."""

    address = "the market"

    def __init__(self, market: Market) -> None:
        self.market, self.lock = market, Lock()
        self.down = False
        self.sent: list[Message] = []
        self.refuse: Callable[[Message], bool] = lambda _message: False
        self.lose: Callable[[Message], bool] = lambda _message: False
        self.wait: Callable[[Message], object] = lambda _message: None
        self.past: MemoryStore | None = None  # where a node that lags stands

    def query(self, request: Any) -> Any:
        if self.down:
            raise ChainError(ErrorKind.UNAVAILABLE, "no node answers at the market", "")
        with self.lock:
            try:
                return queries.answer(self.past or self.market.chain.store, request)
            except Refusal as refusal:
                raise ChainError(ErrorKind.NOT_FOUND, str(refusal), "") from None

    def status(self) -> StatusResponse:
        found: StatusResponse = self.query(StatusRequest())
        return found

    def close(self) -> None:
        self.down = True

    def send(self, *messages: Message, in_lane: bool = False, timeout_blocks: int | None = None) -> TxReceipt:
        """Put a transaction in a block of its own; ``refuse`` and ``lose`` say what goes wrong with it."""
        if self.down:
            raise ChainError(ErrorKind.UNAVAILABLE, "no node answers at the market", "")
        self.sent += messages
        for message in messages:
            self.wait(message)
        refusals = [self.refuse(message) for message in messages]
        if any(refusals):
            raise TxRefused(code_of("assay", 1), "not today")
        with self.lock:
            chain = self.market.chain
            (result,) = chain.block(chain.tx(*messages)).tx_results
        if any(map(self.lose, messages)):
            raise ChainError(ErrorKind.TIMEOUT, "the answer got lost", "")
        if result.code:
            raise TxRefused(code_of(result.codespace, result.code), result.log, height=1)
        return TxReceipt(bytes(32), 1, 0, "", "", 1, 1, result.events)

    def simulate(self, *messages: Message) -> None:
        """Say what the chain would say, of the transaction and not of the day."""
        with self.lock:
            chain = self.market.chain
            result = chain.simulate(chain.tx(*messages))
        if result.code:
            raise TxRefused(code_of(result.codespace, result.code), result.log)

    def names(self) -> list[str]:
        return [type(message).__name__.removeprefix("Msg") for message in self.sent]


@dataclass
class Numerics:
    """A pool whose results are made up. ``wrong`` has what replays find, by segment."""

    terms: JobTerms = TERMS
    trial: Trial | None = None  # what comes of it, unless all is well
    wrong: dict[int, ShareReason] = field(default_factory=dict)
    hold: Event | None = None  # nothing ends before it is set
    closed: bool = False
    calls: list[str] = field(default_factory=list)
    delivered: dict[ShareKey, t.ShareDelivery] = field(default_factory=dict)

    def submit(self, function: Callable[..., T], *args: Any, timeout: float | None = None) -> "Future[T]":
        assert timeout  # every wait has a deadline
        self.calls.append(function.__name__)
        future: Future[Any] = Future()
        if self.hold is not None:
            assert self.hold.wait(20)
        if self.closed:
            future.set_exception(PoolClosed("closed"))
        else:
            future.set_result(self._result(function, args))
        return future

    @property
    def width(self) -> int:
        return 1

    def close(self) -> None:
        self.closed = True

    def _result(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if function is try_payload:
            return self.trial or Trial(self.terms, TrialTimes(1, 1, 10**9))
        (asked,) = args
        if function is exact.check_segment:
            return self._outcome(asked.index)
        if function is exact.check_update:
            return self._outcome(-1)
        if function is judge_evidence:
            return judge_evidence(asked)
        if function is numerics.aggregate_round:
            made = {"w": np.frombuffer(digest("aggregated", asked.updates) * 3, np.int64)}
            leaves = tensor_leaves(made["w"], "w")
            return numerics.WrittenPart(("w",), (leaves,), numerics.write_state(asked.to, made))
        if function is numerics.headers:
            return numerics.JobHeaders(b"", b"", b"", UPDATE_CHUNKS)
        if function is numerics.opening_holds:
            return True
        if function is numerics.probe_pieces:
            return pieces_of(asked.seed, asked.pieces)
        if function is numerics.result_lengths:
            size, chunks = asked.stat().st_size, self.terms.global_chunks
            return [size - (chunks - 1), *[1] * (chunks - 1)]
        raise AssertionError(function)

    def unseal(
        self, blobs: BlobStore, share: ShareKey, _terms: JobTerms, work: SlotWork, _headers: object
    ) -> OpenedDelivery:
        """Return what a provider has delivered, with the states at the last boundary."""
        packet = self.delivered[share]
        for name, size in (("update", 90), ("out", 50)):
            blobs.add(made_up(work.provider, name, share, size))
        last = len(packet.boundaries)
        states = [
            blobs.add(made_up(work.provider, share, last, size)) for size in (TERMS.global_bytes, TERMS.local_bytes)
        ]
        return OpenedDelivery(packet, (Opening(last, states[0], states[1], verified=True),), ShareReason.NONE)

    def _outcome(self, segment: int) -> ReplayOutcome:
        reason = self.wrong.get(segment, ShareReason.NONE)
        return ReplayOutcome(reason, digest("replayed", segment))


class Loop:
    """The daemon, and what others do to it."""

    def __init__(self, home: Path, market: Market, *, certified: bool = True) -> None:
        self.home, self.market = home, market
        if certified:
            market.chain.ok(
                *(
                    MsgCertifyProvider(ME, name, "cpu", 10**9, 10**9, 10**9, CERTIFY_SECONDS)
                    for name in market.clusters[ME]
                )
            )
        self.node, self.numerics = Node(market), Numerics()
        # Providers that show the keys of their deliveries on chain only.
        self.slow: set[str] = set()
        # What providers deliver once their commitments are on chain.
        self.promised: dict[ShareKey, tuple[str, t.ShareDelivery]] = {}
        self.start()

    def start(self) -> None:
        """Start a daemon in the home: the first one, or one that goes on after a kill."""
        config = ValidatorConfig(self.home, "127.0.0.1:1", "127.0.0.1:0", "here:1", admit=Policy.OPEN)
        self.daemon = ValidatorDaemon(config, FakeKey(ME), Event())  # type: ignore[arg-type]
        self.daemon._replayer.close()
        made: Any = self.daemon
        made_up: Any = self.numerics
        made._client = made._outbox._sender = made._observer.client = self.node
        made._replayer = ExecutorReplayer({OWN: made_up, SEATS: made_up, TRIALS: made_up})
        self.daemon._connect()
        self.service._verify = CRYPTO.signature
        # The market's validators publish nothing.
        self.daemon._ledger.put(Upkeep(), None, LocalUpkeep(published=True))

    @property
    def service(self) -> Any:
        return self.daemon._service

    def restart(self) -> None:
        """Kill the daemon: what was under way is lost, records are what is on the disk."""
        self.close()
        self.node.down, self.numerics.closed = False, False
        self.start()

    def close(self) -> None:
        if self.numerics.hold is not None:
            self.numerics.hold.set()
        self.daemon._stop.set()
        self.daemon._close()

    # Time

    def turn(self) -> None:
        """Look at everything once, and wait until all that was begun has ended."""
        self.daemon._observer._slow_at = 0.0
        self.daemon._tick()
        self.settle()

    def settle(self) -> None:
        wait_until(lambda: not self.busy(), "the end of what was begun")

    def busy(self) -> list[str]:
        return [*self.daemon._lanes.busy(), *self.daemon._outbox.busy()]

    def pass_time(self, seconds: int) -> None:
        with self.node.lock:
            self.market.chain.pass_time(seconds)

    def until(self, holds: Callable[[], object], turns: int = 60) -> None:
        """Turn the loop, with a block each time, until something holds."""
        for _ in range(turns):
            self.turn()
            if holds():
                return
            with self.node.lock:
                self.market.chain.block()
        raise AssertionError(f"it never came; sent: {self.node.names()}")

    # Others

    def order(self, message: MsgSubmitOrder | None = None) -> bytes:
        if message is None:
            message = submit(terms=TERMS, order_key=ORDER_KEY)
        return self.market.submit(message)

    def chain(self, order_id: bytes) -> OrderResponse:
        return self.market.all_of(order_id)

    def record(self, order_id: bytes, leg: int = 1) -> LocalOrder:
        local = self.daemon._store.load(order_id, leg)
        assert local is not None
        return local

    def deliver(self, order_id: bytes) -> None:
        """Deliver the payload, as the consumer does."""
        carol = t.Caller("carol", pub_key("carol"))
        wanted = self.service.offer_payload(carol, t.PayloadOffer(order_id, FILES)).missing
        for data in CONTENT.values():
            if blob_of(data) in wanted:
                self.service.put_chunk(carol, t.PutChunkRequest(blob_of(data), 0, data))
        self.service.payload_status(carol, t.PayloadStatusRequest(order_id))

    def join(self, *names: str) -> None:
        if not self.service.view.validators:
            # Nobody is answered before the first look.
            self.daemon._look()
        for name in names or PROVIDERS:
            self.service.join(caller(name), t.JoinRequest("1", MACHINE, ()))

    def ask(self, name: str) -> t.JoinReply:
        """Ask to join, or whether it may be measured."""
        reply: t.JoinReply = self.service.join(caller(name), t.JoinRequest("1", MACHINE, ()))
        return reply

    def cluster(self) -> tuple[Provider, ...]:
        found: ProvidersResponse = self.node.query(ProvidersRequest(ME, 0, ""))
        return found.providers

    def measure(self, *names: str) -> None:
        """Let providers answer their probes."""
        for name in names:
            task = self.service.probe(caller(name), t.ProbeRequest(()))
            while not task.over:
                task = self.service.probe(caller(name), t.ProbeRequest(answer_of(task)))
            assert not task.text

    def poll(self, name: str) -> t.PollReply:
        reply: t.PollReply = self.service.poll(caller(name), t.PollRequest("1", ()))
        return reply

    def serve(self, *names: str) -> None:
        """Let providers do what they are asked for now."""
        for name in names or PROVIDERS:
            reply = self.poll(name)
            for task in reply.train:
                signed, packet = trained(self, name, task)
                assert self.service.submit_share(caller(name), signed).accepted
                self.promised[packet.key] = (name, packet)
            for key, (owner, packet) in list(self.promised.items()):
                if owner == name and self.chain(key.order_id).share(key) is not None:
                    self.deliver_share(name, key, packet)
            for wanted in reply.open:
                for index in wanted.indices:
                    self.bring(name, wanted.key, index)

    def deliver_share(self, name: str, key: ShareKey, packet: t.ShareDelivery) -> None:
        """Send the ciphertext of a share, and show its key as soon as there is a receipt."""
        secret = digest("key of a delivery", name, key)
        roots = packet.roots
        chunks = UPDATE_CHUNKS if roots.is_whole else 0
        manifest = DeliveryManifest(digest("pieces", key), delivery_key_hash(secret), roots.segments, chunks, 0)
        local = self.daemon._ledger.load(key.order_id, key.leg)
        at = local.share(key) if local else None
        if at is None or at.work.signed is None:
            return
        signature = sign(pub_key(name), manifest_sign_bytes(CHAIN_ID, at.work.signed.claim, manifest))
        offer = t.DeliveryOffer(key, manifest, signature, self.put(name, "ciphertext", key, 100))
        self.numerics.delivered[key] = packet
        if self.service.deliver_share(caller(name), offer).receipt is None:
            return
        if name not in self.slow:
            self.service.show_key(caller(name), t.ShownKey(key, secret, roots))
            del self.promised[key]
        elif self.chain(key.order_id).delivery(key) is not None:
            self.show_on_chain(name, key, manifest, secret, roots)
            del self.promised[key]

    def show_on_chain(
        self, name: str, key: ShareKey, manifest: DeliveryManifest, secret: bytes, roots: ShareRoots
    ) -> None:
        """Show the key of a delivery on chain, after the validator posted its receipt."""
        where = (key.order_id, key.leg, key.round, key.slot, key.issue)
        with self.node.lock:
            self.market.chain.ok(MsgShowKey(name, *where, manifest, secret, roots, 0, False, b""))

    def bring(self, name: str, key: ShareKey, index: int) -> None:
        states = (self.put(name, key, index, TERMS.global_bytes), self.put(name, key, index, TERMS.local_bytes))
        self.service.submit_opening(caller(name), t.OpeningSubmission(key, index, *states))

    def put(self, name: str, *what: object) -> t.BlobRef:
        data = made_up(*what)
        self.service.put_chunk(caller(name), t.PutChunkRequest(blob_of(data), 0, data))
        return blob_of(data)


def made_up(*what: object) -> bytes:
    """Return made-up bytes; the last part of their name is their number."""
    size = what[-1]
    assert isinstance(size, int)
    return (digest(*what) * 4)[:size]


def pieces_of(seed: bytes, pieces: Iterable[int]) -> tuple[bytes, ...]:
    """Return what the numerics here make of pieces of a probe."""
    return tuple(digest("piece", seed, piece) for piece in pieces)


def answer_of(task: t.ProbeTask) -> tuple[bytes, ...]:
    if task.data:
        return (sha256(task.data).digest(),)
    return pieces_of(task.seed, range(task.pieces))


def caller(name: str) -> t.Caller:
    return t.Caller(name, pub_key(name))


def trained(loop: Loop, name: str, task: t.TrainTask) -> tuple[t.ShareSubmission, t.ShareDelivery]:
    """Return the commitment to a share with made-up states, and what it hides."""
    key = task.key
    start = first_step(TERMS, key.round)
    boundaries = tuple(
        t.TraceBoundary(start + i * TERMS.segment_steps, digest("boundary", key, i), (0x3F800000,))
        for i in range(1, share_segments(TERMS) + 1)
    )
    roots = ShareRoots(
        bytes(32),
        digest("update", key),
        digest("local out", key),
        boundaries[-1].metrics,
        len(boundaries),
    )
    update, out = (blob_of(made_up(name, what, key, size)) for what, size in (("update", 90), ("out", 50)))
    packet = t.ShareDelivery(key, roots, boundaries, update, out)
    roots = replace(roots, trace_root=compute_trace_root(leaves_of(packet)))
    opening = (task.global_in.root, task.local_in.root)
    made = share_commitment(CHAIN_ID, key, name, opening, TERMS.executor_version, roots)
    claim = ShareClaim(key.order_id, key.leg, key.round, key.slot, key.issue, name, made)
    signature = sign(pub_key(name), share_sign_bytes(CHAIN_ID, claim))
    return t.ShareSubmission(claim, signature), replace(packet, roots=roots)


def work_of(local: LocalOrder, round: int, slot: int, issue: int = 1) -> Any:
    at = local.at(round, slot, issue)
    return at.work if at else None


@contextmanager
def turning(home: Path, monkeypatch: Any, *, certified: bool = True, **market: Any) -> Iterator[Loop]:
    """A daemon whose failed actions do not pause: the test turns the loop, not the clock of this machine."""
    for name in ("PAUSE_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(lanes, name, 0.0)
    for name in ("PAUSE_MS", "RETRY_MS"):
        monkeypatch.setattr(outgoing, name, 0)
    made = Loop(home, Market(PARAMS, **market), certified=certified)
    # The pieces of deliveries are made up here, as all states are.
    monkeypatch.setattr(perform, "has_root", lambda *_: True)
    monkeypatch.setattr(perform, "unseal", made.numerics.unseal)
    try:
        yield made
    finally:
        made.close()
