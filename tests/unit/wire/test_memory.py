"""What is remembered, for how long, and what can drive it out."""

import gc
import weakref

from domain.errors import Refusal
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.limits import TX_BYTES_MAX
from domain.tx import Tx
from wire.keys import Key
from wire.memory import RecentValues
from wire.tx import SMALL_BYTES, TxDecoder, build_tx

KEY = Key(bytes(31) + b"\x01")
SEND = MsgSend(KEY.address, KEY.address, (Coin("uassay", 1),))
KNOWN = object()


def transfer(sequence: int, count: int = 1) -> bytes:
    return build_tx(
        [SEND] * count,
        KEY,
        chain_id="test",
        account_number=1,
        sequence=sequence,
        gas_limit=1,
        memo="m" * 200,
    )


def test_the_newest_half_of_the_room_is_there() -> None:
    memory: RecentValues[int, object] = RecentValues(100)
    for key in range(1_000):
        memory.put(key, KNOWN, 10)
        assert len(memory) <= 10
        assert all(memory.get(newer) is KNOWN for newer in range(max(0, key - 4), key + 1))
    assert memory.get(0) is None


def test_what_is_larger_than_a_half_drives_out_nothing() -> None:
    memory: RecentValues[int, object] = RecentValues(100)
    memory.put(1, KNOWN, 50)
    memory.put(2, KNOWN, 51)
    assert (memory.get(1), memory.get(2)) == (KNOWN, None)


def test_what_comes_again_takes_no_room() -> None:
    memory: RecentValues[int, object] = RecentValues(100)
    for key in (1, *[2] * 100):
        memory.put(key, KNOWN, 20)
    assert memory.get(1) is KNOWN


def test_many_that_come_together_have_the_same_room() -> None:
    memory: RecentValues[int, object] = RecentValues(20)
    for first in range(0, 100, 5):
        memory.put_all([first, first, *range(first, first + 5)], KNOWN)
        assert len(memory) <= 20
        assert all(memory.get(newer) is KNOWN for newer in range(max(0, first - 5), first + 5))
    assert memory.get(0) is None


def test_a_transaction_is_decoded_once_and_so_is_what_is_none() -> None:
    decoder = TxDecoder()
    good, bad = transfer(0), transfer(0)[:-1]
    seen = [(decoder(good), decoder(bad)) for _ in range(3)]
    assert decoder.decoded == 2
    assert all(isinstance(tx, Tx) and isinstance(no, Refusal) for tx, no in seen)
    assert len({id(tx) for tx, _ in seen}) == 1


def test_what_is_refused_keeps_nothing_of_those_who_asked() -> None:
    """A refusal that was made of another one would keep all that lay around it, for example the batch it came in."""
    decoder = TxDecoder()
    bad = transfer(0).replace(KEY.address.encode(), b"x" * len(KEY.address))

    def ask() -> "weakref.ref[object]":
        batch = RecentValues[int, object](2)
        assert isinstance(decoder(bad), Refusal)
        return weakref.ref(batch)

    batch = ask()
    gc.collect()
    assert batch() is None
    assert isinstance(decoder(bad), Refusal)
    assert decoder.decoded == 1


def test_large_transactions_and_rubbish_drive_out_no_small_one() -> None:
    decoder = TxDecoder()
    small = transfer(0)
    decoder(small)
    for number in range(40):
        decoder(bytes([number]) * TX_BYTES_MAX)
        decoder(bytes([number]) * SMALL_BYTES)
    for sequence in range(3_500):
        large = transfer(sequence, 16)
        assert len(large) > SMALL_BYTES
        assert isinstance(decoder(large), Tx)
    before = decoder.decoded
    decoder(small)
    assert decoder.decoded == before
