"""A process that verifies signatures: it works, it costs nothing but time when it does not, and it dies with us."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Barrier, Thread

import pytest

from chain.app import verifier as module
from chain.app.verifier import HELLO, VerifierProcess, start_verifier
from tests.support.waiting import is_running, wait_until
from wire.keys import Key, all_of, case_of

KEYS = [Key(bytes(31) + bytes([number])) for number in range(1, 8)]


def case(number: int, *, holds: bool) -> bytes:
    """Return a case of its own for each number."""
    key, message = KEYS[number % len(KEYS)], b"%d" % number
    made = case_of(key.pub_key, message if holds else b"other", key.sign(message))
    assert made is not None
    return made


GOOD = [case(number, holds=True) for number in range(100)]
BAD = [case(number, holds=False) for number in range(100)]
MIXED = [one for pair in zip(GOOD, BAD, strict=True) for one in pair]


@contextmanager
def running(*command: str, answer_seconds: float = 30.0) -> Iterator[VerifierProcess]:
    process = VerifierProcess(command, answer_seconds) if command else VerifierProcess()
    try:
        yield process
    finally:
        process.close()


def verified(process: VerifierProcess, cases: Iterable[bytes]) -> list[bytes]:
    """Return what holds, once everything is known."""
    return list(all_of(process.verify(cases)))


def wait_for_share(process: VerifierProcess) -> None:
    """Wait until the process has said hello and taken its part."""

    def cases_left_to_it() -> bool:
        assert set(verified(process, MIXED)) == set(GOOD)
        return process.answered > 0

    wait_until(cases_left_to_it, "an answer of the process")


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 31, 200])
def test_what_holds_and_nothing_else_is_said_to_hold(count: int) -> None:
    with running() as process:
        wait_for_share(process)
        for _ in range(3):
            assert sorted(verified(process, MIXED[:count])) == sorted(MIXED[:count][::2])
        assert not process.is_lost


def test_a_case_that_is_no_signature_of_a_key_is_refused() -> None:
    odd = [bytes(len(GOOD[0])), b"\xff" * len(GOOD[0])] * 20
    with running() as process:
        wait_for_share(process)
        assert not list(verified(process, odd))
        assert not process.is_lost


def test_the_process_takes_a_part_and_cases_are_made_meanwhile() -> None:
    """Before the last case is asked for, the first ones are away: that is what the process is for."""
    with running() as process:
        wait_for_share(process)
        before = process.answered

        def cases() -> Iterator[bytes]:
            yield from MIXED
            wait_until(lambda: process._arrived.poll(0), "an answer before the end")

        assert set(verified(process, cases())) == set(GOOD)
        assert process.answered > before


def test_who_comes_while_the_process_is_taken_works_alone() -> None:
    with running() as process:
        wait_for_share(process)
        results: list[set[bytes]] = []
        inside, done = Barrier(2, timeout=30), Barrier(2, timeout=30)

        def slow() -> Iterator[bytes]:
            yield from MIXED[:50]
            inside.wait()
            done.wait()
            yield from MIXED[50:]

        first = Thread(target=lambda: results.append(set(verified(process, slow()))))
        first.start()
        inside.wait()
        assert set(verified(process, MIXED)) == set(GOOD)
        done.wait()
        first.join()
        assert results == [set(GOOD)]


def test_a_bug_while_cases_are_made_leaves_nothing_wrong_behind() -> None:
    """Answers to what was asked before it come later, and are not taken for those of other cases."""

    def broken() -> Iterator[bytes]:
        yield from GOOD[:40]
        raise ZeroDivisionError

    with running() as process:
        wait_for_share(process)
        for _ in range(5):
            with pytest.raises(ZeroDivisionError):
                verified(process, broken())
            assert set(verified(process, BAD)) <= set(GOOD)
            assert set(verified(process, MIXED)) == set(GOOD)
        assert not process.is_lost


SPEAK = f"""
import os, socket, sys
from hashlib import sha256
from chain.app.verifier import _answer
from wire.keys import verify_case
connection = socket.socket(fileno=int(sys.argv[1]))
def say(data):
    connection.sendall(data)
def take(size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            sys.exit()
        data += more
    return data
def hear():
    count = take(1)
    return count + take(129 * count[0])
def answer(heard):
    cases = [heard[at : at + 129] for at in range(1, len(heard), 129)]
    return _answer(heard, bytes(map(verify_case, cases)))
def yes(heard):
    return bytes([1]) * heard[0]
def wait():
    while connection.recv(4096):
        pass
hello = {HELLO!r}
"""
WRONG = {
    "ends at once": "",
    "ends after hello": "say(hello)",
    "says something else": "say(b'hello' * 100); wait()",
    "dies in the middle": "say(hello); data = hear(); os.abort()",
    "dies within an answer": "say(hello); data = hear(); say(answer(data)[:-1])",
    "answers with ones": "say(hello); hear(); say(b'\\x01' * 48); wait()",
    "answers at random": "say(hello); [say(os.urandom(48)) for _ in iter(hear, b'')]",
    "answers before it is asked": "say(hello + bytes(48)); wait()",
    "answers too much": "say(hello); data = hear(); say(answer(data) + bytes(32 * 100)); wait()",
    "answers too little": "say(hello); data = hear(); say(answer(data)); wait()",
    "leaves one out": "say(hello); [say(answer(hear())) for _ in iter(hear, b'')]",
    "answers in bits": "say(hello); hear(); say(b'\\xff'); wait()",
    "changes verdicts": "say(hello); [say(answer(data)[:32] + yes(data)) for data in iter(hear, b'')]",
    "hashes cases only": "say(hello); [say(sha256(d).digest() + yes(d)) for d in iter(hear, b'')]",
    "never answers": "say(hello); wait()",
    "never reads": "import signal; say(hello); signal.pause()",
    "repeats an answer": "say(hello); d = answer(hear()); say(d); [say(d) for _ in iter(hear, b'')]",
}


@pytest.mark.parametrize("code", WRONG.values(), ids=WRONG)
def test_a_process_that_fails_costs_only_time(code: str, caplog: pytest.LogCaptureFixture) -> None:
    """No wrong signature holds; it is said once, and the process is not asked again."""
    with running(sys.executable, "-c", SPEAK + code, answer_seconds=0.2) as process:

        def is_given_up() -> bool:
            assert set(verified(process, MIXED)) <= set(GOOD)
            assert not set(verified(process, BAD))
            return process.is_lost

        wait_until(is_given_up, "the end of its help")
        wait_until(lambda: not is_running(process.child.pid), "its death")
        assert set(verified(process, MIXED)) == set(GOOD)
    warnings = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "without a second process" in caplog.text


def test_a_process_that_is_not_up_yet_is_not_asked() -> None:
    with running(sys.executable, "-c", SPEAK + "say(hello[:-1]); wait()") as process:
        wait_until(lambda: process._arrived.poll(0), "a part of its hello")
        assert set(verified(process, MIXED)) == set(GOOD)
        assert not process.is_lost
        assert not process.answered


def test_a_process_that_is_stopped_is_given_up() -> None:
    with running() as process:
        wait_for_share(process)
        process._answer_seconds = 0.2
        process.child.send_signal(signal.SIGSTOP)
        assert set(verified(process, MIXED)) == set(GOOD)
        assert process.is_lost


def test_a_process_that_is_killed_is_given_up() -> None:
    with running() as process:
        wait_for_share(process)
        process.child.kill()
        process.child.wait()
        assert set(verified(process, MIXED)) == set(GOOD)
        assert process.is_lost


def test_the_verifier_remembers_what_the_process_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with start_verifier() as verifier:
        assert verifier.verify_all(MIXED + MIXED) == set(GOOD)
        assert verifier.verified == len(MIXED)
        assert verifier.verify_all(GOOD) == set(GOOD)
        assert verifier.verify(KEYS[0].pub_key, b"0", KEYS[0].sign(b"0"))
        assert verifier.verified == len(MIXED)


def test_one_core_gets_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(module, "start_child", lambda *_, **__: pytest.fail("a process"))
    with start_verifier() as verifier:
        assert verifier.verify_all(MIXED) == set(GOOD)


PARENT = """
import sys
from chain.app.verifier import VerifierProcess
process = VerifierProcess()
print(process.child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_dies_with_its_parent(number: signal.Signals) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=pipe, stdin=pipe) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.send_signal(number)
    wait_until(lambda: not is_running(child), "the child's end")


def test_it_ends_when_it_is_closed() -> None:
    with running() as process:
        assert is_running(process.child.pid)
    assert not is_running(process.child.pid)


def test_it_imports_little() -> None:
    """It starts with every node, and four nodes run on a laptop."""
    listed = "import sys, chain.app.verifier; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", listed], check=True, capture_output=True)
    names = set(loaded.stdout.decode().split())
    assert not names & {"google.protobuf", "cosmpy", "grpc", "plyvel", "numpy", "chain.app.node"}
    assert not [name for name in names if name.startswith("chain.state_machine")]
