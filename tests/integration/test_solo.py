"""The block maker in one process: the same application, with blocks when and as the caller wants them."""

import logging
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from threading import Event

import pytest

from chain.app import application
from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.solo import SoloEngine
from chain.app.storage import Storage
from chain.state_machine.ledger.queries import get_balance
from domain.ledger.records import Coin
from domain.node.queries import EventsRequest
from tests.support.small_chain import (
    COINS,
    GENESIS_TIME_NS,
    beacon_key,
    cons_address,
    genesis,
    key,
    transfer,
)

GENESIS = genesis(accounts=6, validators=3)
DEADLINE = 120.0


class Solo:
    """An engine with its application and store."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.app = Application(storage, AppConfig(solo=True), beacon_keys=BeaconKeys(map(beacon_key, range(3))))
        self.now = GENESIS_TIME_NS
        self.engine = SoloEngine(self.app, GENESIS, genesis_time_ns=GENESIS_TIME_NS, clock=lambda: self.now)

    def balance(self, account: int) -> int:
        return get_balance(self.app.view().reader, key(account).address, "uassay")


@pytest.fixture
def solo() -> Iterator[Solo]:
    storage = Storage.temporary()
    yield Solo(storage)
    storage.close()


def test_it_says_that_it_is_for_development(caplog: pytest.LogCaptureFixture) -> None:
    storage = Storage.temporary()
    Solo(storage)
    storage.close()
    assert "for development and tests" in caplog.text


def test_a_transfer_goes_from_broadcast_to_balance(solo: Solo) -> None:
    raw = transfer(4, 0, 5, 100)
    answer = solo.engine.broadcast_sync(raw)
    assert (answer.code, answer.hash) == (0, sha256(raw).digest())
    done = solo.engine.make_block()
    assert [result.code for result in done.result.tx_results] == [0, 0]
    assert solo.balance(5) == COINS + 100
    stored = solo.app.tx_by_hash(answer.hash)
    assert stored is not None
    assert (stored.height, stored.index) == (1, 1)
    assert solo.engine.waiting == 0


def test_a_refused_transaction_does_not_wait(solo: Solo) -> None:
    answer = solo.engine.broadcast_sync(transfer(4, 3, 5))
    assert (answer.codespace, answer.code) == ("sdk", 32)
    assert solo.engine.waiting == 0


def test_the_same_bytes_wait_once(solo: Solo) -> None:
    solo.engine.broadcast_sync(transfer(4, 0, 5))
    again = solo.engine.broadcast_sync(transfer(4, 0, 5))
    assert (again.codespace, again.code) == ("sdk", 19)
    assert solo.engine.waiting == 1


def test_a_full_mempool_says_so(solo: Solo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chain.app.solo.MEMPOOL_TXS_MAX", 1)
    solo.engine.broadcast_sync(transfer(4, 0, 5))
    answer = solo.engine.broadcast_sync(transfer(4, 1, 5))
    assert (answer.codespace, answer.code) == ("sdk", 20)


def test_what_a_block_made_impossible_leaves_the_mempool(solo: Solo) -> None:
    """Two transactions with one sequence: the second was checked by a node that had not seen the first."""
    first, second = transfer(4, 0, 5, 1), transfer(4, 0, 5, 2)
    solo.engine.broadcast_sync(first)
    solo.engine._mempool[sha256(second).digest()] = second
    late = transfer(3, 0, 5)
    solo.engine.broadcast_sync(late)
    real = solo.app.prepare_proposal

    def prepare(raws: Sequence[bytes], max_bytes: int, height: int, proposer: bytes) -> list[bytes]:
        return real([first], max_bytes, height, proposer)

    solo.app.prepare_proposal = prepare  # type: ignore[method-assign]
    solo.engine.make_block()
    assert list(solo.engine._mempool.values()) == [late]
    solo.app.prepare_proposal = real  # type: ignore[method-assign]


def test_proposers_take_turns(solo: Solo) -> None:
    for _ in range(6):
        solo.engine.make_block()
    proposers = [solo.app.block(height) for height in range(1, 7)]
    seen = [info.proposer for info in proposers if info is not None]
    assert set(seen) == {cons_address(number) for number in range(3)}
    assert seen[:3] == seen[3:]


def test_a_test_gives_hash_time_and_proposer(solo: Solo) -> None:
    time_ns = GENESIS_TIME_NS + 5
    solo.engine.make_block(hash=b"h" * 32, time_ns=time_ns, proposer=cons_address(2))
    info = solo.app.block(1)
    assert info is not None
    assert (info.hash, info.time_ns, info.proposer) == (b"h" * 32, time_ns, cons_address(2))


def test_time_never_stands_still(solo: Solo) -> None:
    times = []
    for _ in range(3):
        solo.engine.make_block()
        times.append(solo.app.view().head.time_ns)
    assert times == sorted(set(times))


def test_the_same_history_has_the_same_hashes() -> None:
    heads = []
    for _ in range(2):
        storage = Storage.temporary()
        solo = Solo(storage)
        solo.engine.broadcast_sync(transfer(4, 0, 5))
        for _ in range(2):
            solo.engine.make_block()
        heads.append(solo.app.head)
        storage.close()
    assert heads[0] == heads[1]


def test_a_chain_on_disk_goes_on_where_it_stood(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "db")
    solo = Solo(storage)
    solo.engine.broadcast_sync(transfer(4, 0, 5, 100))
    solo.engine.make_block()
    head = solo.app.head
    storage.close()

    storage = Storage(tmp_path / "db")
    solo = Solo(storage)
    assert solo.app.head == head
    assert solo.app.started.is_set()
    solo.engine.broadcast_sync(transfer(4, 1, 5, 100))
    solo.engine.make_block()
    assert solo.balance(5) == COINS + 200
    with pytest.raises(ValueError, match="the store has chain"):
        SoloEngine(solo.app, genesis(chain_id="another"))
    storage.close()


def test_blocks_come_by_themselves_until_stop(solo: Solo) -> None:
    solo.engine.start(interval_seconds=0.001)
    assert solo.engine.wait_for_height(3, DEADLINE)
    solo.engine.stop()
    height = solo.app.head.block.height
    assert not solo.engine.wait_for_height(height + 1, 0.05)
    assert solo.app.head.block.height == height


def test_a_bug_in_a_block_ends_the_chain_loudly(
    solo: Solo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stopped = Event()
    errors: list[BaseException] = []

    def stop(error: BaseException) -> None:
        errors.append(error)
        stopped.set()

    def bug(*args: object) -> None:
        raise ZeroDivisionError("a planted bug")

    monkeypatch.setattr(application, "apply_block", bug)
    engine = SoloEngine(solo.app, GENESIS, genesis_time_ns=GENESIS_TIME_NS, on_fatal=stop)
    with caplog.at_level(logging.ERROR):
        engine.start(0.001)
        assert stopped.wait(DEADLINE)
    engine.stop()
    assert isinstance(errors[0], ZeroDivisionError)
    assert solo.app.head.block.height == 0


def test_events_are_read_without_gaps_and_cut_at_the_limit(solo: Solo) -> None:
    from domain.ledger.messages import MsgDepositBond
    from tests.support.small_chain import CHAIN_ID, FEE, GAS
    from wire.tx import build_tx

    for sequence in range(3):
        message = MsgDepositBond(key(4).address, 10)
        raw = build_tx(
            (message,),
            key(4),
            chain_id=CHAIN_ID,
            account_number=4,
            sequence=sequence,
            fee=(Coin("uassay", FEE),),
            gas_limit=GAS,
        )
        assert solo.engine.broadcast_sync(raw).code == 0
        solo.engine.make_block()
    everything = solo.app.events(EventsRequest(1, 0))
    numbers = [event.number for event in everything.events]
    assert numbers == list(range(1, everything.next))
    deposits = [event for event in everything.events if event.type == "bond.deposited"]
    assert [event.height for event in deposits] == [1, 2, 3]
    # The fees of each block are shared at its end.
    others = {event.type for event in everything.events} - {"bond.deposited"}
    assert all(kind.startswith("distribution.") for kind in others)
    page = solo.app.events(EventsRequest(2, 1))
    assert [event.number for event in page.events] == [2]
    assert page.next == everything.next
