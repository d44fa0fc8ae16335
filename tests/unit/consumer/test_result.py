"""A result's way to the consumer: sealed by a validator, checked against both roots, decrypted, written.

The chain and the link are stand-ins that answer from memory; everything between is the real thing.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pytest

import consumer.result
import link.client
from chain.client.client import ChainClient, TxReceipt
from chain.client.sender import TxSender
from consumer.complain import complain, fetch_or_complain
from consumer.early import early_take, take_early
from consumer.errors import ConsumerError
from consumer.jobs import read_job, write_result
from consumer.result import Result, fetch_result, handed_over
from domain.keys import ShareRef
from domain.ledger.queries import AccountRequest, AccountResponse
from domain.ledger.records import Account, BondAccount
from domain.legs.records import LegState
from domain.market.records import JobTerms, OrderState
from domain.measures import coins
from domain.messages import Message
from domain.node.queries import StatusRequest, StatusResponse
from domain.proof.messages import MsgComplain, MsgTakeEarly
from domain.proof.queries import OrderRequest, OrderResponse
from domain.proof.records import Round, Share, ShareClaim, ShareRoots, ShareState
from domain.queries import Query
from domain.registry.queries import ValidatorsRequest, ValidatorsResponse
from domain.registry.records import Validator
from link import handover as h
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.types import BlobRef, ResultLeaf, ResultManifest
from pol.job.checkpoint import read_training
from pol.job.document import Job, order_terms
from pol.rules.commitment import chunk_leaf
from pol.rules.fees import compute_round_cost
from pol.rules.handover import HandoverId
from pol.state.arrays import State
from pol.state.canonical import chunks_of, encode_state, state_tree
from pol.state.tensors import load_safetensors
from tests.unit.compute_provider import support as s
from tests.unit.pol.mlp import initial_states, write_mlp_job
from wire.keys import Key

CHAIN, ORDER, SEQUENCE = "assay-local-1", s.ORDER_ID, 5
KEY = Key(b"\x01" * 32)
VALIDATOR_SECRET = b"\x02" * 32
OPERATOR = Key(b"\x04" * 32).address
FIRST, LAST, SLOTS = 3, 7, 3
"""Rounds that hand over, of eight; slots."""
R = TypeVar("R")


def terms_of(job: Job) -> JobTerms:
    """Return the terms of the job, with other rounds and slots than it has."""
    return replace(order_terms(job), rounds=LAST + 1, slots=SLOTS)


def accepted(round: int, slot: int, local_out: bytes) -> Share:
    """Return the accepted share of a slot, which left this local state."""
    claim = ShareClaim(ORDER, 1, round, slot, 1, "p", bytes(32))
    roots = ShareRoots(bytes(32), bytes(32), local_out, (), 1)
    return Share(claim, b"", bytes(32), 1, 1, ShareState.ACCEPTED, 0, 0, 0, (), roots)


@dataclass
class Market:
    """A chain with one proven order, and the validator that serves its result."""

    job: Job
    sealed: list[h.Sealed]
    root: bytes
    # Of the global state, and of each slot's local one.
    roots: tuple[bytes, ...]
    state_leaves: list[bytes]
    leg: int = 1
    round: int = LAST
    # How often the validator does not know yet that its round is closed.
    late: int = 0
    ciphertext: bytes | None = None
    endpoint: str = "here"
    known: bool = True
    ordered: bytes | None = None
    fetches: int = 0
    verified: int = LAST + 1
    taken_end: int = 0
    state: LegState = LegState.PROVEN

    def order(self) -> OrderResponse:
        secret = h.order_secret(KEY.secret, CHAIN, self.job.id, SEQUENCE)
        terms = replace(terms_of(self.job), job_id=self.ordered or self.job.id)
        proven = s.with_order(s.order(), order_key=h.public_point(secret), terms=terms, state=OrderState.PROVEN)
        shares, rounds = [], []
        for number in range(LAST + 1):
            shares += [accepted(number, slot, root) for slot, root in enumerate(self.roots[1:])]
            root = self.root if number in (FIRST, LAST) else b""
            refs = tuple(ShareRef(slot, 1) for slot in range(terms.slots))
            rounds.append(
                Round(
                    ORDER,
                    1,
                    number,
                    bytes(32),
                    self.roots[0],
                    root,
                    refs,
                    1,
                    0,
                    0,
                    0,
                    verified=number < self.verified,
                    void=False,
                )
            )
        proven = replace(proven, shares=tuple(shares), rounds=tuple(rounds))
        counts = {"round": LAST + 1, "verified": self.verified, "taken_end": self.taken_end}
        return s.with_leg(proven, state=self.state, validator=OPERATOR, rounds=LAST + 1, **counts)

    def validator(self) -> Validator:
        return replace(s.validator_record(self.endpoint, b"c"), operator=OPERATOR)

    def data(self) -> bytes:
        whole = b"".join(chunk.ciphertext for chunk in self.sealed)
        return whole if self.ciphertext is None else self.ciphertext


class Node(ChainClient):
    """Answers from a market."""

    def __init__(self, market: Market) -> None:
        super().__init__("127.0.0.1:1")
        self.market = market

    def query(self, request: Query[R]) -> R:
        asked: object = request
        answer: object
        match asked:
            case AccountRequest(address):
                account = Account(address, 1, SEQUENCE + 3, KEY.pub_key)
                answer = AccountResponse(account, 0, BondAccount(address, 0, ()))
            case ValidatorsRequest():
                answer = ValidatorsResponse((self.market.validator(),) if self.market.known else ())
            case StatusRequest():
                answer = StatusResponse(CHAIN, 1, 0, 1_000, 1, b"", False, 1_000)
            case OrderRequest(order_id):
                assert order_id == ORDER
                answer = self.market.order()
            case _:
                raise AssertionError(request)
        return cast(R, answer)


class Link(ClusterClient):
    """Serves a market's result."""

    def __init__(self, market: Market) -> None:
        super().__init__("127.0.0.1:1", b"c", KEY, CHAIN)
        self.market = market

    def whole_result(self, order_id: bytes, round: int, count: int | None = None) -> ResultManifest:
        market = self.market
        assert (order_id, round, count) == (ORDER, market.round, len(market.sealed))
        if market.late:
            market.late -= 1
            raise ClusterError(ClusterErrorKind.WRONG_STATE, "no result of that round")
        leaves = tuple(ResultLeaf(c.leaf, leaf) for c, leaf in zip(market.sealed, market.state_leaves, strict=True))
        blob = BlobRef(sha256(market.data()).digest(), len(market.data()))
        return ResultManifest(order_id, market.leg, round, blob, len(leaves), leaves)

    def get_blob(
        self,
        blob: BlobRef,
        path: Path,
        progress: Callable[[int, int], None] | None = None,
        take: Callable[[bytes], None] | None = None,
    ) -> None:
        data = self.market.data()
        assert sha256(data).digest() == blob.sha256
        self.market.fetches += 1
        path.write_bytes(data)
        if take:
            for at in range(0, len(data), 1_000):
                take(data[at : at + 1_000])
        if progress:
            progress(len(data), len(data))


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    directory = tmp_path_factory.mktemp("job")
    write_mlp_job(directory)
    return read_job(directory)


@pytest.fixture
def market(job: Job, monkeypatch: pytest.MonkeyPatch) -> Market:
    return serve(monkeypatch, job, states(), LAST)


def states(locals_: int = SLOTS) -> list[State]:
    """Return what a round left: the global state, and as many local ones, each another."""
    state, local = initial_states()
    state["a.bias"] = np.full_like(state["a.bias"], 0.25)
    name = min(name for name, value in local.items() if value.dtype == np.float32)
    return [
        state,
        *({**local, name: np.full_like(local[name], 1 + slot)} for slot in range(locals_)),
    ]


def serve(monkeypatch: pytest.MonkeyPatch, job: Job, left: list[State], round: int) -> Market:
    """Let a validator serve these states as what a round left."""
    handover = HandoverId(CHAIN, ORDER, 1, round)
    point = h.public_point(h.order_secret(KEY.secret, CHAIN, job.id, SEQUENCE))
    chunks = [chunk for state in left for chunk in chunks_of(encode_state(state))]
    sealed = list(h.seal_result(handover, chunks, point, VALIDATOR_SECRET))
    roots = tuple(state_tree(state).root for state in left)
    root = h.ciphertext_root(handover, [chunk.leaf for chunk in sealed])
    made = Market(job, sealed, root, roots, [chunk_leaf(chunk) for chunk in chunks], round=round)

    def connect(validator: Validator, key: Key, chain_id: str) -> ClusterClient:
        link.client.connect(validator, key, chain_id).close()
        return Link(made)

    monkeypatch.setattr(consumer.result, "connect", connect)
    return made


def fetch(market: Market, scratch: Path, key: Key = KEY) -> Result:
    return fetch_result(Node(market), key, ORDER, market.job, scratch)


def test_the_whole_way(market: Market, tmp_path: Path) -> None:
    found = fetch(market, tmp_path / "scratch")
    assert found.root == market.roots[0]
    assert (found.round, len(found.locals)) == (LAST, SLOTS)
    assert tuple(state_tree(local).root for local in found.locals) == market.roots[1:]
    assert found.validator == OPERATOR
    assert float(found.state["a.bias"][0]) == 0.25
    digest = write_result(found.state, tmp_path / "model.safetensors")
    data = (tmp_path / "model.safetensors").read_bytes()
    assert sha256(data).digest() == digest
    loaded = load_safetensors(data)
    assert set(loaded) == set(found.state)
    assert all(np.array_equal(loaded[name], found.state[name]) for name in loaded)
    assert not list(tmp_path.glob("*.part"))


def test_another_job_goes_on_from_it(market: Market, tmp_path: Path) -> None:
    found, document = fetch(market, tmp_path / "scratch"), market.job.document
    assert found.position.step == (LAST + 1) * document.round_steps
    assert (found.position.global_root, *found.position.local_roots) == market.roots
    # the market has other slots than the job
    found = replace(found, position=replace(found.position, slots=SLOTS))
    found.save(tmp_path / "mine.safetensors")
    read = read_training(tmp_path / "mine.safetensors")
    assert read.position == found.position
    assert [state_tree(local).root for local in read.locals] == list(market.roots[1:])
    (tmp_path / "other.training").write_text("a file where the folder should be")
    with pytest.raises(ConsumerError, match=r"other\.training cannot be written"):
        found.save(tmp_path / "other.safetensors")


def test_a_validator_that_sees_its_round_closed_later_is_asked_again(
    market: Market, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(consumer.result, "PAUSE_SECONDS", 0)
    market.late = 3
    assert fetch(market, tmp_path).root == market.roots[0]
    market.late = 1 << 30
    monkeypatch.setattr(consumer.result, "LATE_SECONDS", 0)
    with pytest.raises(ClusterError, match="no result of that round"):
        fetch(market, tmp_path)


def test_a_tampered_chunk_is_named(market: Market, tmp_path: Path) -> None:
    """The validator proved a ciphertext that does not decrypt: roots agree, the chunk does not open."""
    noisy(market)
    with pytest.raises(h.HandoverError, match="result chunk 1") as caught:
        fetch(market, tmp_path)
    assert caught.value.chunk == 1


def noisy(market: Market) -> None:
    """Let the validator hand over a chunk that does not decrypt."""
    market.sealed[1] = replace(market.sealed[1], ciphertext=bytes(len(market.sealed[1].ciphertext)))
    market.root = h.ciphertext_root(HandoverId(CHAIN, ORDER, 1, LAST), [chunk.leaf for chunk in market.sealed])


class Sender(TxSender):
    """Keeps the messages that it should send."""

    def __init__(self) -> None:
        super().__init__(ChainClient("127.0.0.1:1"), KEY)
        self.sent: list[Message] = []

    def send(
        self, *messages: Message, memo: str = "", in_lane: bool = False, timeout_blocks: int | None = None
    ) -> TxReceipt:
        del memo, in_lane, timeout_blocks
        self.sent += messages
        return TxReceipt(b"\x0c" * 32, 7, 0, "", "", 1, 1, ())


def test_a_round_that_is_not_verified_is_not_fetched(market: Market, tmp_path: Path) -> None:
    market.verified = LAST
    with pytest.raises(ConsumerError, match=f"round {LAST} is closed, but not verified yet") as caught:
        fetch(market, tmp_path)
    assert "--early" in str(caught.value)
    assert not market.fetches
    # Whoever took it may also fetch it when the leg has failed meanwhile.
    market.taken_end, market.state = LAST + 1, LegState.FAILED
    assert fetch(market, tmp_path).root == market.roots[0]


def test_what_is_given_up_is_said_before_and_sent_once(market: Market) -> None:
    """The states after the last round hold the work of all rounds that are not verified."""
    market.verified = 1
    answer = market.order()
    assert answer.current
    cost = compute_round_cost(answer.order, answer.current)
    take = early_take(answer)
    assert take
    assert (take.first, take.last, take.refund) == (1, LAST, LAST * cost)
    assert take.message == MsgTakeEarly(answer.order.consumer, ORDER, 1, LAST)
    said = str(take)
    assert f"rounds 1 to {LAST} are not verified yet" in said
    assert f"{coins(LAST * cost)} of your deposit is burnt" in said
    sender = Sender()
    assert take_early(Node(market), sender, ORDER) == take
    assert sender.sent == [take.message]
    market.taken_end = LAST  # an earlier take gave up the others
    again = early_take(market.order())
    assert again
    assert (again.first, again.refund) == (LAST, cost)
    assert f"round {LAST} is not verified yet" in str(again)
    market.taken_end = LAST + 1
    assert take_early(Node(market), sender, ORDER) is None
    market.taken_end, market.verified = 0, LAST + 1
    assert take_early(Node(market), sender, ORDER) is None
    assert len(sender.sent) == 1


def test_a_wrong_chunk_is_proven_if_the_consumer_says_so(market: Market, tmp_path: Path) -> None:
    sender = Sender()
    about = Node(market), KEY, ORDER, market.job, tmp_path
    assert fetch_or_complain(*about, sender=sender).root == market.roots[0]
    with pytest.raises(ConsumerError, match=f"the states of round {LAST} are right"):
        complain(*about, sender=sender)
    assert not sender.sent
    noisy(market)
    with pytest.raises(h.HandoverError, match="assay order complain"):
        fetch_or_complain(*about)
    assert not sender.sent
    with pytest.raises(h.HandoverError, match="the chain has the proof since height 7"):
        fetch_or_complain(*about, sender=sender)
    error, receipt = complain(*about, sender=sender)
    assert (error.chunk, receipt.height) == (1, 7)
    for message in sender.sent:
        assert isinstance(message, MsgComplain)
        assert (message.consumer, message.order_id, message.round, message.chunk) == (KEY.address, ORDER, LAST, 1)
    assert len(sender.sent) == 2
    market.root = bytes(32)
    with pytest.raises(h.HandoverError, match="do not have the root that is on the chain"):
        complain(*about, sender=sender)
    assert len(sender.sent) == 2


def test_another_ciphertext_than_the_proven_one(market: Market, tmp_path: Path) -> None:
    market.sealed[0] = replace(market.sealed[0], point=market.sealed[1].point)
    with pytest.raises(h.HandoverError, match="do not have the root that is on the chain"):
        fetch(market, tmp_path)


def test_a_ciphertext_that_is_cut(market: Market, tmp_path: Path) -> None:
    market.ciphertext = market.data()[:-5]
    size = len(market.data()) + 5
    with pytest.raises(h.HandoverError, match=f"{size - 5} bytes instead of {size}"):
        fetch(market, tmp_path)
    assert market.fetches == 0


def test_a_ciphertext_without_end_is_not_fetched(market: Market, tmp_path: Path) -> None:
    market.ciphertext = bytes(10 * len(market.data()))
    with pytest.raises(h.HandoverError, match="bytes instead of"):
        fetch(market, tmp_path)
    assert market.fetches == 0


def test_what_was_fetched_whole_is_not_fetched_again(market: Market, tmp_path: Path) -> None:
    first = fetch(market, tmp_path)
    assert fetch(market, tmp_path).root == first.root
    assert market.fetches == 1
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(b"damaged meanwhile")
    assert fetch(market, tmp_path).root == first.root
    assert market.fetches == 2


def test_a_scratch_that_cannot_be_written_is_said(market: Market, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConsumerError, match="the result cannot be written"):
        fetch(market, tmp_path / "file")


def test_another_job_than_the_ordered_one_is_said(market: Market, tmp_path: Path) -> None:
    market.ordered = b"\x05" * 32
    with pytest.raises(ConsumerError, match="this job is not the ordered one"):
        fetch(market, tmp_path)


def test_a_validator_that_is_nowhere_is_said(market: Market, tmp_path: Path) -> None:
    market.endpoint = ""
    with pytest.raises(ClusterError, match="no endpoint"):
        fetch(market, tmp_path)
    market.known = False
    with pytest.raises(ConsumerError, match="no longer registered on the chain"):
        fetch(market, tmp_path)


def result() -> Any:
    return {"a": np.zeros(3, np.float32)}


OLD = b"\2" + bytes(7) + b"{}"
"""A file of safetensors without tensors."""


def test_a_result_replaces_the_old_one_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(OLD)
    (tmp_path / "model.safetensors.part").write_bytes(b"somebody else's")

    def full(handle: int) -> None:
        raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ConsumerError, match="No space left"):
            write_result(result(), path)
    assert path.read_bytes() == OLD
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, path.name + ".part"]
    digest = write_result(result(), path)
    assert sha256(path.read_bytes()).digest() == digest
    assert (tmp_path / "model.safetensors.part").read_bytes() == b"somebody else's"


def test_a_result_takes_no_other_files_place(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("import assay  # weeks of work")
    with pytest.raises(ConsumerError, match=r"train\.py exists and is not a safetensors file"):
        write_result(result(), program)
    assert program.read_text() == "import assay  # weeks of work"
    empty = tmp_path / "model.safetensors"
    empty.touch()
    write_result(result(), empty)
    assert write_result(result(), empty) == sha256(empty.read_bytes()).digest()


@pytest.mark.parametrize("where", ["", "folder", "absent/model.safetensors"])
def test_a_result_that_has_nowhere_to_go_is_said(tmp_path: Path, where: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConsumerError, match="cannot be written"):
        write_result(result(), tmp_path / where)
    with pytest.raises(ConsumerError, match="cannot be written"):
        write_result(result(), Path())
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("number", "what"),
    [(0, "the global state"), (1, "the local state of slot 0"), (SLOTS, f"slot {SLOTS - 1}")],
)
def test_each_state_has_the_root_of_the_round(market: Market, tmp_path: Path, number: int, what: str) -> None:
    roots = list(market.roots)
    roots[number] = b"\x07" * 32
    market.roots = tuple(roots)
    with pytest.raises(h.HandoverError, match=f"the leaves of .*{what} do not have the root"):
        fetch(market, tmp_path)


def test_a_local_state_is_that_of_its_own_slot(job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    left = states()
    market = serve(monkeypatch, job, [left[0], *left[:0:-1]], LAST)
    market.roots = tuple(state_tree(state).root for state in left)
    with pytest.raises(h.HandoverError, match="slot 0"):
        fetch(market, tmp_path)


def test_an_earlier_hand_over_is_fetched_by_its_round(
    job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    market = serve(monkeypatch, job, states(), FIRST)
    found = fetch_result(Node(market), KEY, ORDER, job, tmp_path, round=FIRST)
    assert (found.round, found.root) == (FIRST, market.roots[0])
    with pytest.raises(ConsumerError, match=f"round {FIRST + 1} is not a hand-over round"):
        fetch_result(Node(market), KEY, ORDER, job, tmp_path, round=FIRST + 1)
    with pytest.raises(ConsumerError, match=f"no round {LAST + 1}"):
        fetch_result(Node(market), KEY, ORDER, job, tmp_path, round=LAST + 1)


def test_what_one_round_left_is_no_result_of_another(job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys and leaves name the round, so that an old state cannot be served as the last one."""
    market = serve(monkeypatch, job, states(), FIRST)
    market.round = LAST
    with pytest.raises(h.HandoverError, match="do not have the root that is on the chain"):
        fetch(market, tmp_path)


def test_another_leg_than_the_proven_one(market: Market, tmp_path: Path) -> None:
    market.leg = 2
    with pytest.raises(h.HandoverError, match="the result of another round or leg"):
        fetch(market, tmp_path)


def test_another_key_is_told_so(market: Market, tmp_path: Path) -> None:
    with pytest.raises(ConsumerError, match="use the key that submitted it"):
        fetch(market, tmp_path, Key(b"\x03" * 32))


@pytest.mark.parametrize(
    ("state", "reason"),
    [(OrderState.RUNNING, "assay order watch"), (OrderState.CLOSED, "assay order why")],
)
def test_no_result_yet_or_ever(state: OrderState, reason: str) -> None:
    answer = replace(s.with_order(s.order(), state=state), legs=())
    with pytest.raises(ConsumerError, match=reason):
        handed_over(answer)


@pytest.mark.parametrize("state", [OrderState.RUNNING, OrderState.CLOSED])
@pytest.mark.parametrize("round", [-1, 2, 99])
def test_a_round_that_the_job_has_not(state: OrderState, round: int) -> None:
    answer = s.with_order(s.order(), state=state)
    with pytest.raises(ConsumerError, match=f"the job has no round {round}; choose one of 0 to 1"):
        handed_over(answer, round)
