"""A process that verifies signatures beside the node, so that CheckTx and proposals have a second core.

Both ends are here. The node writes portions: a byte with their count, then so many cases (see
:func:`wire.keys.case_of`). The process answers each portion in its order: a verdict for each case, and before them the
SHA-256 of the portion and the verdicts. So nothing but an answer to these very cases says that any of them holds; a
wrong no costs a second look in CheckTx. A process that dies, falls silent or says anything else is given up, and what
it was asked is verified here.

The process imports no more than keys and the curve.
"""

import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from select import POLLIN, poll
from threading import Lock
from time import monotonic

from host.process import start_child, stop_child
from wire.keys import CASE_BYTES, SignatureVerifier, Steps, verify_at_once, verify_case

log = logging.getLogger(__name__)

ANSWER_SECONDS = 2.0
"""How long answers may take that need a millisecond: even a busy machine lets the process run in that time."""

HELLO = b"assay verifier 2\n"
"""What the process says when it is up; it is asked nothing before."""

_DIGEST_BYTES = 32
_PORTION = 16  # cases that travel together, and after which we look for answers
_ASKED_MAX = 2  # portions: one to work on and one to go on with
_ALONE = 4  # cases that we verify before we look for answers again
_HOLDS = 1
_READ_BYTES = 8192
_COMMAND = (sys.executable, "-m", "chain.app.verifier")


@contextmanager
def start_verifier() -> Iterator[SignatureVerifier]:
    """Give a verifier with a process behind it, where there is a core for one; main thread only."""
    if (os.cpu_count() or 1) < 2:
        yield SignatureVerifier()
        return
    process = VerifierProcess()
    try:
        yield SignatureVerifier(verify_cases=process.verify)
    finally:
        process.close()


class VerifierProcess:
    """The node's end: shares the work with the process, one caller at a time."""

    def __init__(self, command: Sequence[str] = _COMMAND, answer_seconds: float = ANSWER_SECONDS) -> None:
        """Start the process with its end's descriptor behind ``command``; main thread only. Nobody waits for it."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            self.child = start_child([*command, str(descriptor)], pass_fds=[descriptor])
        self._socket.setblocking(False)
        self._arrived = poll()
        self._arrived.register(self._socket, POLLIN)
        self._answer_seconds = answer_seconds
        self._turn = Lock()
        self._is_up = False
        self.is_lost = False  # given up for good
        self.answered = 0  # how many cases the process has verified
        # Portions without an answer, each as it was sent and case by case; some may be of a caller that failed.
        self._asked: deque[tuple[bytes, list[bytes]]] = deque()
        self._answers = b""  # the beginning of an answer

    def verify(self, cases: Iterable[bytes]) -> Steps:
        """Yield the cases that hold. They are taken while others are verified; who comes second works alone.

        Whoever does not go through all steps closes them, so that the process is there for others.
        """
        if not self._turn.acquire(blocking=False):
            yield from verify_at_once(cases)
            return
        try:
            yield from self._verify(cases)
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the process; nobody calls any more."""
        self._socket.close()
        stop_child(self.child)

    def _verify(self, cases: Iterable[bytes]) -> Steps:
        held: list[bytes] = []
        ours: deque[bytes] = deque()
        for number, case in enumerate(cases, 1):
            ours.append(case)
            if number % _PORTION == 0:
                self._exchange(ours, held, len(ours))
        while ours or self._asked:
            has_time = yield held
            held = []
            # While we have other things to do the process takes the next ones; else no more than we have ourselves.
            self._exchange(ours, held, len(ours) // 2 if has_time else len(ours))
            if not has_time:
                continue
            if not ours:
                self._wait(ours, held)
            # From the far end: what is asked for next is what the process has.
            for _ in range(min(len(ours), _ALONE)):
                case = ours.pop()
                if verify_case(case):
                    held.append(case)
        yield held

    def _exchange(self, ours: deque[bytes], held: list[bytes], most: int) -> None:
        """Take the answers that are here, and give the process more to do, but no more than ``most``."""
        if self.is_lost:
            return
        try:
            self._receive(held)
            count = min(_PORTION, most)
            if count and self._is_up and len(self._asked) < _ASKED_MAX:
                cases = [ours.popleft() for _ in range(count)]
                portion = bytes((count,)) + b"".join(cases)
                self._asked.append((portion, cases))
                self._socket.sendall(portion)
        except (OSError, ValueError) as error:
            self._give_up(error, ours)

    def _wait(self, ours: deque[bytes], held: list[bytes]) -> None:
        """Wait for the next answer, if there is one to come; what is not answered in time becomes ours."""
        deadline = monotonic() + self._answer_seconds
        to_come = len(self._asked)
        try:
            while self._asked and len(self._asked) == to_come:
                left = deadline - monotonic()
                if left <= 0 or not self._arrived.poll(1000 * left):
                    raise TimeoutError(f"no answer in {self._answer_seconds} s")
                self._receive(held)
        except (OSError, ValueError) as error:
            self._give_up(error, ours)

    def _receive(self, held: list[bytes]) -> None:
        """Read what is here; OSError where nobody writes any more, ValueError for what is no answer."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError("it has ended")
        self._answers += data
        if not self._is_up:
            self._greet()
        while self._is_up and self._answers:
            if not self._asked:
                raise ValueError("it answers what nobody asked")
            portion, cases = self._asked[0]
            end = _DIGEST_BYTES + len(cases)
            if len(self._answers) < end:
                return
            verdicts = self._answers[_DIGEST_BYTES:end]
            if self._answers[:end] != _answer(portion, verdicts):
                raise ValueError("its answer is none")
            held += [case for case, verdict in zip(cases, verdicts, strict=True) if verdict == _HOLDS]
            self._answers = self._answers[end:]
            self._asked.popleft()
            self.answered += len(cases)

    def _greet(self) -> None:
        """Take the hello, once it is here."""
        if len(self._answers) >= len(HELLO):
            if not self._answers.startswith(HELLO):
                raise ValueError("it is not a process of ours")
            self._is_up, self._answers = True, self._answers[len(HELLO) :]

    def _give_up(self, error: Exception, ours: deque[bytes]) -> None:
        """Go on without the process, for good, and take back what it has not answered."""
        log.warning("signatures are verified without a second process: %s", error)
        self.is_lost = True
        for _, cases in self._asked:
            ours.extend(cases)
        self._asked.clear()
        self.child.kill()


def serve(connection: socket.socket) -> None:
    """Answer cases until the other end closes."""
    connection.sendall(HELLO)
    buffer = b""
    while data := connection.recv(_READ_BYTES):
        buffer += data
        while buffer and len(buffer) >= (end := 1 + buffer[0] * CASE_BYTES):
            portion, buffer = buffer[:end], buffer[end:]
            cases = [portion[at : at + CASE_BYTES] for at in range(1, end, CASE_BYTES)]
            connection.sendall(_answer(portion, bytes(map(verify_case, cases))))


def _answer(portion: bytes, verdicts: bytes) -> bytes:
    """Return what is said of a portion whose cases have these verdicts."""
    return sha256(portion + verdicts).digest() + verdicts


if __name__ == "__main__":
    with suppress(ConnectionError):  # the node is gone: there is nobody to tell
        serve(socket.socket(fileno=int(sys.argv[1])))
