"""The formal requirements of ABCI that a test can decide, on a chain with messages of every kind.

They are those of the chapter "Requirements for the Application" of CometBFT's specification. Requirement 1 is about
time. Requirements 6 to 8 are about vote extensions, which are off (``test_abci.py``). Requirements 11 and 12, a
deterministic FinalizeBlock, are tested in all tests of this folder, because four applications execute their blocks.
"""

from collections.abc import Iterator
from hashlib import sha256
from random import Random

import pytest

from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.proposals import encoded_size
from chain.app.storage import Storage
from tests.support.busy_chain import BEACON_KEYS, BusyChain

BLOCKS, TXS = 5, 40


class Pair:
    """An application that makes a chain, and another one of the same state that has seen nothing but its blocks."""

    def __init__(self, seed: int) -> None:
        self.stores = [Storage.temporary(), Storage.temporary()]
        self.app, self.other = (Application(s, AppConfig(), beacon_keys=BeaconKeys(BEACON_KEYS)) for s in self.stores)
        self.chain = BusyChain(self.app, seed)
        BusyChain(self.other, seed)
        self.random = Random(seed)

    def advance(self, raws: list[bytes]) -> None:
        """Decide a block for both, and compare the heads that Info reports afterwards."""
        proposer, items = self.chain.decide(raws)
        height, time_ns, block_hash = self.chain.height, self.chain.time_ns, self.random.randbytes(32)
        hashes = []
        for app in (self.app, self.other):
            done = app.finalize_block(height, time_ns, block_hash, proposer, items)
            assert app.info().block.height == height - 1
            app.commit()
            hashes.append(done.app_hash)
            assert (app.info().block.height, app.info().block.app_hash) == (height, done.app_hash)
        assert hashes[0] == hashes[1]

    def bent(self, items: list[bytes]) -> list[bytes]:
        """Return a proposal of a proposer that is not honest."""
        found = list(items)
        at = self.random.randrange(len(found) + 1)
        match self.random.randrange(5):
            case 0:
                found.insert(at, self.random.randbytes(30))
            case 1:
                found[at : at + 1] = []
            case 2:
                found += found[1:2]
            case 3 if found:
                found[0] = found[0][:-1] + bytes([found[0][-1] ^ 1])
            case 4:
                self.random.shuffle(found)
        return found


@pytest.fixture(params=[3, 4])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    two = Pair(request.param)
    yield two
    for store in two.stores:
        store.close()


def test_a_proposal_fits_and_every_application_accepts_it(pair: Pair) -> None:
    """Requirements 2 and 3: a proposal has at most so many bytes as were asked for, and others vote for it."""
    for _ in range(BLOCKS):
        raws = pair.chain.txs(TXS)
        for _ in range(6):
            proposer = pair.chain.proposer()
            most = pair.random.choice((0, 100, 500, 2_000, 10_000, 10**6))
            items = pair.app.prepare_proposal(raws, most, pair.chain.height, proposer)
            assert sum(map(encoded_size, items)) <= most
            # No valid proposal fits into a few bytes, because it begins with a reveal.
            if items or most > 1_000:
                assert pair.app.process_proposal(items, pair.chain.height, proposer)
                assert pair.other.process_proposal(items, pair.chain.height, proposer)
        pair.advance(raws)


def test_every_application_gives_the_same_answer_about_a_proposal_each_time(pair: Pair) -> None:
    """Requirements 4 and 5, also for proposals of cheats."""
    answers = set()
    for _ in range(BLOCKS):
        raws = pair.chain.txs(TXS)
        proposer = pair.chain.proposer()
        items = pair.app.prepare_proposal(raws, 10**6, pair.chain.height, proposer)
        for _ in range(20):
            bent = pair.bent(items)
            found = {app.process_proposal(bent, pair.chain.height, proposer) for app in (pair.app, pair.other) * 2}
            assert len(found) == 1
            answers |= found
        pair.advance(raws)
    assert answers == {True, False}


def test_only_decided_blocks_have_an_effect(pair: Pair) -> None:
    """Requirements 9 and 10: whatever is proposed, checked or executed first, only a commit changes the state."""
    for _ in range(BLOCKS):
        raws = pair.chain.txs(TXS)
        before = state_of(pair.app)
        for raw in raws:
            pair.app.check_tx(raw)
        proposer, items = pair.chain.decide(raws)
        pair.app.process_proposal(pair.bent(items), pair.chain.height, proposer)
        pair.app.finalize_block(pair.chain.height, pair.chain.time_ns, bytes(32), proposer, pair.bent(items))
        assert state_of(pair.app) == before
        pair.advance(raws)
        assert state_of(pair.app) == state_of(pair.other) != before


def test_answers_of_check_tx_do_not_oscillate(pair: Pair) -> None:
    """Requirement 13: while no block is decided, a fresh mempool answers the same each time, at every application."""
    codes = set()
    for _ in range(BLOCKS):
        raws = pair.chain.txs(TXS)
        pair.advance(raws[: TXS // 2])
        for raw in raws:
            first = pair.app.check_tx(raw, recheck=True)
            assert pair.other.check_tx(raw, recheck=True) == first
            codes.add(first.code)
    assert 0 in codes
    assert len(codes) > 2


def state_of(app: Application) -> bytes:
    """Return a hash over all that is committed."""
    whole = sha256()
    for key, value in app.committed().scan(b""):
        whole.update(len(key).to_bytes(4) + key + value)
    return whole.digest()
