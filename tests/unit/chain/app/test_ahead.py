"""Looking ahead: every transaction once, and never a wrong verdict."""

import logging
from collections.abc import Iterable, Iterator
from threading import Event, Thread

import pytest

from chain.app.ahead import Ahead
from chain.app.verifier import VerifierProcess
from chain.state_machine.ledger.tables import ACCOUNTS
from chain.state_machine.store import MemoryStore, Overlay
from domain.errors import TX_DECODE, Refusal
from domain.ledger.messages import MsgSend
from domain.ledger.records import Account, Coin
from domain.tx import Tx
from tests.support.waiting import wait_until
from wire.keys import CASE_BYTES, Key, SignatureVerifier, Steps, all_of
from wire.tx import TxDecoder, build_tx, decode_tx

RAWS = [b"%d" % number for number in range(100)]
NOTHING = MemoryStore()


@pytest.mark.parametrize("count", [0, 1, 100])
def test_each_is_looked_at_once(count: int) -> None:
    """They are no transactions, so that nobody's signature can hold."""
    seen: list[bytes] = []

    def decode(raw: bytes) -> Tx | Refusal:
        seen.append(raw)
        return Refusal(TX_DECODE, "tx", "is none")

    ahead = Ahead(decode, SignatureVerifier())
    ahead.fetch(NOTHING, "chain", RAWS[:count])
    assert seen == RAWS[:count]
    assert not any(ahead.take(raw) for raw in RAWS)


def test_a_bug_in_a_look_is_logged_and_costs_only_the_look(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def decode(raw: bytes) -> Tx | Refusal:
        raise ZeroDivisionError(raw)

    ahead = Ahead(decode, SignatureVerifier())
    with caplog.at_level(logging.ERROR):
        ahead.fetch(NOTHING, "chain", RAWS)
    assert "CheckTx continues without it" in caplog.text
    assert not ahead.take(RAWS[0])


KEY = Key(bytes(31) + b"\x01")


def signed(sequence: int, chain_id: str = "chain", number: int = 3) -> bytes:
    """Return a transfer of account 3; its signature holds on ``chain``."""
    return build_tx(
        [MsgSend(KEY.address, KEY.address, (Coin("uassay", 1),))],
        KEY,
        chain_id=chain_id,
        account_number=number,
        sequence=sequence,
        gas_limit=100_000,
    )


GOOD = [signed(sequence) for sequence in range(70)]
BAD = [*(signed(sequence, chain_id="other") for sequence in range(69)), signed(0, number=4)]
MIXED = [raw for pair in zip(GOOD, BAD, strict=True) for raw in pair]


@pytest.fixture
def state() -> Overlay:
    """The state in which account 3 has signed before."""
    state = Overlay(NOTHING)
    ACCOUNTS.put(state, Account(KEY.address, 3, 0, KEY.pub_key))
    return state


@pytest.fixture
def process() -> Iterator[VerifierProcess]:
    process = VerifierProcess(answer_seconds=30.0)

    def is_asked() -> bool:
        list(all_of(process.verify(CASES)))
        return process.answered > 0

    try:
        wait_until(is_asked, "an answer of the process")
        yield process
    finally:
        process.close()


CASES = [bytes([number]) * CASE_BYTES for number in range(40)]


@pytest.mark.parametrize("count", [3, 20, 70])
def test_only_a_signature_that_holds_is_said_to_hold_and_once(state: Overlay, count: int) -> None:
    """CheckTx does not look at it again: a wrong yes would let anybody send another's coins."""
    good, bad = GOOD[:count], BAD[-count:]
    ahead = Ahead(TxDecoder(), SignatureVerifier())
    ahead.fetch(state, "chain", [*good, *bad])
    assert not any(ahead.take(raw) for raw in bad)
    assert all(ahead.take(raw) for raw in good)
    assert not any(ahead.take(raw) for raw in good)
    ahead.fetch(state, "chain", good)
    ahead.forget()
    assert not any(ahead.take(raw) for raw in good)


@pytest.mark.parametrize(
    "raws",
    [GOOD, MIXED, BAD, GOOD[:1], BAD[:1], [b"no transaction"]],
    ids=["good", "mixed", "bad", "one", "one bad", "none"],
)
def test_verdicts_that_come_while_others_are_taken_are_right(
    state: Overlay, process: VerifierProcess, raws: list[bytes]
) -> None:
    ahead = Ahead(TxDecoder(), SignatureVerifier(verify_cases=process.verify))
    ahead.fetch(state, "chain", raws)
    taken = [ahead.take(raw) for raw in raws]
    assert taken == [decode_tx(raw) if raw in GOOD else None for raw in raws]
    assert not process._turn.locked(), "the process is there for the next who needs it"


@pytest.mark.parametrize("taken", [0, 1, 30])
def test_what_is_forgotten_keeps_nobody_from_the_process(state: Overlay, process: VerifierProcess, taken: int) -> None:
    ahead = Ahead(TxDecoder(), SignatureVerifier(verify_cases=process.verify))
    for forget in (ahead.forget, lambda: ahead.fetch(state, "chain", [])):
        ahead.fetch(state, "chain", MIXED)
        assert all((ahead.take(raw) is not None) == (raw in GOOD) for raw in MIXED[:taken])
        forget()
        assert not process._turn.locked()
        assert not any(ahead.take(raw) for raw in MIXED)
        assert set(CASES).isdisjoint(all_of(process.verify(CASES)))


def test_who_takes_and_who_forgets_at_the_same_time_get_no_wrong_verdict(
    state: Overlay, process: VerifierProcess
) -> None:
    """CheckTx comes from one connection, and a commit, which forgets, from another one."""
    ahead = Ahead(TxDecoder(), SignatureVerifier(verify_cases=process.verify))
    wrong: list[bytes] = []
    is_over = Event()

    def take(raws: list[bytes]) -> None:
        while not is_over.is_set():
            wrong.extend(raw for raw in raws if ahead.take(raw) is not None and raw in BAD)

    threads = [Thread(target=take, args=(raws,)) for raws in (MIXED, MIXED[::-1], MIXED)]
    for thread in threads:
        thread.start()
    for number in range(10):
        ahead.fetch(state, "chain", MIXED)
        if number % 2:
            ahead.forget()
    is_over.set()
    for thread in threads:
        thread.join()
    ahead.forget()
    assert not wrong
    assert not process._turn.locked()


def test_a_bug_in_a_later_step_costs_only_the_look(state: Overlay, caplog: pytest.LogCaptureFixture) -> None:
    def breaks(cases: Iterable[bytes]) -> Steps:
        first, *_ = cases
        yield [first]
        raise ZeroDivisionError

    ahead = Ahead(TxDecoder(), SignatureVerifier(verify_cases=breaks))
    ahead.fetch(state, "chain", GOOD[:3])
    assert [ahead.take(raw) is not None for raw in GOOD[:3]] == [True, False, False]
    assert "CheckTx continues without it" in caplog.text
