"""Bad transactions, at the door of a real node and in a block: refused with code and reason, and the node goes on."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from signal import SIGTERM

import pytest

from chain.app.interfaces import CommittedBlock
from chain.client.client import ChainClient, TxReceipt
from chain.client.errors import ChainError
from chain.state_machine.ledger.queries import get_account, get_balance
from domain.block import BroadcastResult, TxResult
from domain.errors import TX_IN_CACHE, TX_TOO_LARGE, WRONG_SEQUENCE, Code
from domain.limits import TX_BYTES_MAX
from tests.support.bad_transactions import (
    BAD,
    EMPTY,
    IN_BLOCKS,
    OVER_THE_LIMIT,
    RECIPIENT,
    SENDER,
    Bad,
)
from tests.support.node_process import START_SECONDS, Node, make_home
from tests.support.small_chain import COINS, FEE, GENESIS_TIME_NS, genesis, key, transfer
from tests.support.solo_node import SoloNode, running
from tests.support.waiting import wait_until

SECOND = 10**9
AMOUNT = 7  # of a transfer


class Pair:
    """A node that is sent what is bad, and a twin that is not: whatever they are sent, their states are the same."""

    def __init__(self, node: SoloNode, twin: SoloNode, client: ChainClient) -> None:
        self.node, self.twin, self.client = node, twin, client
        self.sequence = 0
        self.received = 0
        self.send_good()

    @property
    def head(self) -> CommittedBlock:
        return self.node.app.head.block

    def make_block(self) -> None:
        time_ns = self.head.time_ns + SECOND
        for one in (self.node, self.twin):
            one.engine.make_block(time_ns=time_ns)
        self.check_same()

    def check_same(self) -> None:
        assert self.head == self.twin.app.head.block

    def send_good(self) -> None:
        """Send a good transfer to both, and find it in the next block."""
        raw = transfer(SENDER, self.sequence, RECIPIENT, AMOUNT)
        sent = self.client.broadcast(raw)
        assert (sent.code, sent.log) == (0, "")
        assert self.twin.engine.broadcast_sync(raw).code == 0
        self.make_block()
        receipt = self.client.tx(sent.hash)
        assert receipt is not None
        assert (receipt.height, receipt.code) == (self.head.height, 0)
        self.check_counted(AMOUNT)

    def force_block(self, raws: list[bytes], twins: list[bytes]) -> tuple[TxResult, ...]:
        """Decide a block that no mempool was asked about; return the node's results."""
        head = self.head
        done, _ = (
            one.app.finalize_block(head.height + 1, head.time_ns + SECOND, bytes(range(32)), head.proposer, block)
            for one, block in ((self.node, raws), (self.twin, twins))
        )
        for one in (self.node, self.twin):
            one.app.commit()
        self.check_same()
        return done.result.tx_results

    def check_counted(self, amount: int) -> None:
        """One more transaction counts, and nobody has more or less than it makes of it."""
        self.sequence += 1
        self.received += amount
        reader = self.node.app.view().reader
        account = get_account(reader, key(SENDER).address)
        assert account is not None
        assert account.sequence == self.sequence
        spent = {SENDER: self.received + FEE * self.sequence, RECIPIENT: -self.received}
        for number in range(4):
            balance = get_balance(reader, key(number).address, "uassay")
            assert balance == COINS - spent.get(number, 0)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(
                running(tmp_path_factory.mktemp(name), chain=genesis(), genesis_time_ns=GENESIS_TIME_NS)
            )
            for name in ("node", "twin")
        ]
        client = stack.enter_context(ChainClient(nodes[0].address))
        yield Pair(nodes[0], nodes[1], client)


def check_refused(result: BroadcastResult | TxReceipt | TxResult, bad: Bad) -> None:
    """It has the code, and its log begins with the field."""
    expect(result, bad.code, bad.words)
    assert result.log.startswith(bad.field + ": "), result.log
    assert len(result.log) < 2_000


def expect(result: BroadcastResult | TxReceipt | TxResult, code: Code, words: str) -> None:
    assert (result.codespace, result.code) == (code.space, code.number), result.log
    assert words in result.log


# --- at the door ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [*BAD.values(), *EMPTY.values()], ids=[*BAD, *EMPTY])
def test_it_is_refused_and_the_node_goes_on(pair: Pair, bad: Bad) -> None:
    raw = bad.raw(pair.sequence)
    for _ in range(2):  # a refusal is not remembered as anything
        result = pair.client.broadcast(raw)
        check_refused(result, bad)
        assert result.hash == sha256(raw).digest()
    assert pair.node.engine.waiting == 0
    pair.send_good()
    assert pair.client.tx(sha256(raw).digest()) is None


def test_what_is_too_large_does_not_reach_the_mempool(pair: Pair) -> None:
    raw = OVER_THE_LIMIT.raw(pair.sequence)
    assert len(raw) == TX_BYTES_MAX + 1
    with pytest.raises(ChainError, match=f"has {TX_BYTES_MAX + 1} bytes") as refused:
        pair.client.broadcast(raw)
    assert refused.value.code == TX_TOO_LARGE
    with pytest.raises(ChainError, match="larger than max"):  # it is not even read
        pair.client.broadcast(bytes(4 * TX_BYTES_MAX))
    pair.send_good()


def test_random_bytes_are_refused(pair: Pair) -> None:
    dice = random.Random(1)
    for _ in range(300):
        result = pair.client.broadcast(dice.randbytes(dice.randrange(1, 600)))
        assert (result.codespace, result.code) == ("sdk", 2), result.log
        assert result.log.startswith("tx: ")
    pair.send_good()


def test_no_byte_of_a_good_one_may_change_or_be_missing(pair: Pair) -> None:
    """All are covered by the signature, or are the signature, or frame it."""
    dice = random.Random(2)
    raw = transfer(SENDER, pair.sequence, RECIPIENT, AMOUNT)
    for at in range(len(raw)):
        flipped = bytes([raw[at] ^ 1 << dice.randrange(8)])
        for changed in (raw[:at] + flipped + raw[at + 1 :], raw[:at], raw[:at] + raw[at + 1 :]):
            result = pair.client.broadcast(changed)
            assert result.code != 0, (at, changed)
            assert result.codespace in ("sdk", "assay"), "a bug, not a refusal"
            assert result.log
    assert pair.node.engine.waiting == 0
    pair.send_good()


# --- in a block ----------------------------------------------------------------------------------


def test_a_block_of_a_bad_proposer_changes_nothing_more(pair: Pair) -> None:
    """Who proposes may put in what no mempool took: each is refused as at the door, and good ones pass between them."""
    bad = {**BAD, "over the limit": OVER_THE_LIMIT}
    good = transfer(SENDER, pair.sequence, RECIPIENT, AMOUNT)
    raws = [one.raw(pair.sequence) for one in bad.values()]
    head = pair.head
    begin = pair.node.app.prepare_proposal([], 10**6, head.height + 1, head.proposer)
    assert pair.node.app.process_proposal(begin, head.height + 1, head.proposer)
    proposal = [*begin, *raws]
    assert not pair.node.app.process_proposal(proposal, head.height + 1, head.proposer)
    *refused, first, second = pair.force_block([*raws, good, good], [good])
    pair.check_counted(AMOUNT)
    for result, one in zip(refused, bad.values(), strict=True):
        check_refused(result, one)
    assert first.code == 0
    expect(second, WRONG_SEQUENCE, "incorrect account sequence")
    pair.send_good()


@pytest.mark.parametrize("bad", EMPTY.values(), ids=EMPTY)
def test_what_shows_alone_to_be_wrong_costs_nothing_in_a_block(pair: Pair, bad: Bad) -> None:
    raw = bad.raw(pair.sequence)
    (result,) = pair.force_block([raw], [])
    check_refused(result, bad)
    pair.send_good()


@pytest.mark.parametrize("bad", IN_BLOCKS.values(), ids=IN_BLOCKS)
def test_what_only_the_state_can_refuse_costs_its_fee(pair: Pair, bad: Bad) -> None:
    raw = bad.raw(pair.sequence)
    sent = pair.client.broadcast(raw)
    assert (sent.code, sent.log) == (0, "")
    assert pair.twin.engine.broadcast_sync(raw).code == 0
    pair.make_block()
    receipt = pair.client.tx(sent.hash)
    assert receipt is not None
    check_refused(receipt, bad)
    pair.check_counted(0)
    pair.send_good()


# --- the same again ------------------------------------------------------------------------------


def test_the_same_transaction_counts_once(tmp_path: Path) -> None:
    raw = transfer(SENDER, 0, RECIPIENT, AMOUNT)
    with running(tmp_path, chain=genesis()) as node, ChainClient(node.address) as client:
        assert client.broadcast(raw).code == 0
        expect(client.broadcast(raw), TX_IN_CACHE, "the mempool already has it")
        node.engine.make_block()
        expect(client.broadcast(raw), WRONG_SEQUENCE, "expected 1, got 0")
        head = node.app.head.block
        twice = transfer(SENDER, 1, RECIPIENT, AMOUNT)
        done = node.app.finalize_block(  # in one block twice, and one of an earlier block
            head.height + 1, head.time_ns + SECOND, bytes(32), head.proposer, [twice, raw, twice]
        )
        node.app.commit()
        first, old, second = done.result.tx_results
        assert first.code == 0
        expect(old, WRONG_SEQUENCE, "expected 2, got 0")
        expect(second, WRONG_SEQUENCE, "expected 2, got 1")
    with running(tmp_path, chain=genesis()) as node, ChainClient(node.address) as client:
        for old_raw in (raw, twice):
            expect(client.broadcast(old_raw), WRONG_SEQUENCE, "signers.sequence: ")
        assert client.broadcast(transfer(SENDER, 2, RECIPIENT, AMOUNT)).code == 0
        node.engine.make_block()
        assert client.account(key(RECIPIENT).address).balance == COINS + 3 * AMOUNT


def test_a_chain_with_the_same_accounts_takes_nothing_from_this_one(tmp_path: Path) -> None:
    with running(tmp_path, chain=genesis(chain_id="assay-2")) as node:
        result = node.engine.broadcast_sync(transfer(SENDER, 0, RECIPIENT))
        assert result.log.startswith("signatures: ")
        assert "chain-id (assay-2)" in result.log


# --- a real network ------------------------------------------------------------------------------


@pytest.mark.network
def test_through_cometbft_everything_is_refused_the_same_way(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    node = Node(home, "managed")
    try:
        with ChainClient(node.ready["grpc"]) as client:
            good = [transfer(SENDER, sequence, RECIPIENT, AMOUNT) for sequence in range(3)]
            send_and_wait(client, good[0])
            wait_until(lambda: client.status().height > 1, "a second block", START_SECONDS)
            for bad in BAD.values():
                check_refused(client.broadcast(bad.raw(1)), bad)
            with pytest.raises(ChainError, match="tx: has"):
                client.broadcast(OVER_THE_LIMIT.raw(1))
            send_and_wait(client, good[1])
            expect(client.broadcast(good[1]), TX_IN_CACHE, "already exists in cache")
            height = client.status().height
        node.kill(node.process.pid, SIGTERM)
        assert node.process.wait(START_SECONDS) == 0
        node.close()
        node = Node(home, "managed")
        with ChainClient(node.ready["grpc"]) as client:
            wait_until(lambda: client.status().height > height + 1, "the chain again", START_SECONDS)
            for old in good[:2]:  # CometBFT has forgotten them; the state has not
                expect(client.broadcast(old), WRONG_SEQUENCE, "expected 2, got")
            send_and_wait(client, good[2])
            received = client.account(key(RECIPIENT).address).balance - COINS
            spent = COINS - client.account(key(SENDER).address).balance
            assert (received, spent) == (3 * AMOUNT, 3 * (AMOUNT + FEE))
    finally:
        node.close()


def send_and_wait(client: ChainClient, raw: bytes) -> None:
    sent = client.broadcast(raw)
    assert (sent.code, sent.log) == (0, "")
    wait_until(lambda: client.tx(sent.hash), "the transfer in a block", START_SECONDS)
