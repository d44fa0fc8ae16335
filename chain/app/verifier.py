"""A process that verifies signatures beside the node, so that CheckTx and proposals have a second core.

Both ends are in this file. The node writes portions: a byte with the number of cases, then the cases (see
:func:`wire.keys.case_of`). The process answers the portions in order: the SHA-256 of the portion and its verdicts, then
a verdict per case. So a case counts as valid only by an answer to exactly these cases. If the process wrongly answers
"no", the only cost is a second verification in CheckTx. If the process dies, does not answer or sends other bytes, the
node stops using it, and verifies the open cases itself.

The process imports only keys and the curve.
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
"""Longest wait (seconds) for an answer. An answer normally takes a millisecond, and even on a busy machine it takes
less than this time.
"""

HELLO = b"assay verifier 2\n"
"""The first output of the process; the node sends no portion before this output."""

_DIGEST_BYTES = 32
_PORTION = 16  # Number of cases in a portion, which the process gets at once. Answers are checked after each portion.
_ASKED_MAX = 2  # Number of portions that the process may have at once: one in work, and the next one.
_ALONE = 4  # Number of cases that this thread verifies before it checks for answers.
_HOLDS = 1
_READ_BYTES = 8192
_COMMAND = (sys.executable, "-m", "chain.app.verifier")


@contextmanager
def start_verifier() -> Iterator[SignatureVerifier]:
    """Yield a verifier; if the machine has two cores, the verifier uses a second process. For the main thread only."""
    if (os.cpu_count() or 1) < 2:
        yield SignatureVerifier()
        return
    process = VerifierProcess()
    try:
        yield SignatureVerifier(verify_cases=process.verify)
    finally:
        process.close()


class VerifierProcess:
    """The node's end of the connection to the verifying process. It shares the work of one caller with the process."""

    def __init__(self, command: Sequence[str] = _COMMAND, answer_seconds: float = ANSWER_SECONDS) -> None:
        """Start ``command``, and do not wait for it; main thread only.

        Its last argument is the descriptor of its socket.
        """
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
        self.is_lost = False  # True after this object has given up the process for good.
        self.answered = 0  # Number of cases that the process has verified.
        # Portions without an answer: the bytes as sent, and the cases. Some portions may belong to a caller that
        # failed.
        self._asked: deque[tuple[bytes, list[bytes]]] = deque()
        self._answers = b""  # The part of the next answer that has arrived.

    def verify(self, cases: Iterable[bytes]) -> Steps:
        """Yield lists of the valid cases; more cases are taken from ``cases`` while the process verifies earlier ones.

        If another caller is being served, the cases of this caller are verified in its own thread.

        A caller that does not run all steps closes the generator, so that others can use the process.
        """
        if not self._turn.acquire(blocking=False):
            yield from verify_at_once(cases)
            return
        try:
            yield from self._verify(cases)
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the process; no call may follow."""
        self._socket.close()
        stop_child(self.child)

    def _verify(self, cases: Iterable[bytes]) -> Steps:
        valid: list[bytes] = []
        own: deque[bytes] = deque()
        for number, case in enumerate(cases, 1):
            own.append(case)
            if number % _PORTION == 0:
                self._exchange(own, valid, len(own))
        while own or self._asked:
            has_time = yield valid
            valid = []
            # If the caller has no time, the process gets the next cases. Otherwise the process gets at most as many
            # cases as this thread keeps.
            self._exchange(own, valid, len(own) // 2 if has_time else len(own))
            if not has_time:
                continue
            if not own:
                self._wait(own, valid)
            # This thread takes cases from the end, because the process has those that are needed next.
            for _ in range(min(len(own), _ALONE)):
                case = own.pop()
                if verify_case(case):
                    valid.append(case)
        yield valid

    def _exchange(self, own: deque[bytes], valid: list[bytes], most: int) -> None:
        """Read the answers that have arrived, and send another portion of at most ``most`` cases from ``own``."""
        if self.is_lost:
            return
        try:
            self._receive(valid)
            count = min(_PORTION, most)
            if count and self._is_up and len(self._asked) < _ASKED_MAX:
                cases = [own.popleft() for _ in range(count)]
                portion = bytes((count,)) + b"".join(cases)
                self._asked.append((portion, cases))
                self._socket.sendall(portion)
        except (OSError, ValueError) as error:
            self._give_up(error, own)

    def _wait(self, own: deque[bytes], valid: list[bytes]) -> None:
        """Wait for the next answer if a portion has no answer yet.

        If the answer does not come in time, put all open cases back into ``own``.
        """
        deadline = monotonic() + self._answer_seconds
        to_come = len(self._asked)
        try:
            while self._asked and len(self._asked) == to_come:
                remaining = deadline - monotonic()
                if remaining <= 0 or not self._arrived.poll(1000 * remaining):
                    raise TimeoutError(f"no answer in {self._answer_seconds} s")
                self._receive(valid)
        except (OSError, ValueError) as error:
            self._give_up(error, own)

    def _receive(self, valid: list[bytes]) -> None:
        """Read the bytes that have arrived; OSError if the process has ended, ValueError for a wrong answer."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError("the process has ended")
        self._answers += data
        if not self._is_up:
            self._greet()
        while self._is_up and self._answers:
            if not self._asked:
                raise ValueError("the process answered without a portion")
            portion, cases = self._asked[0]
            end = _DIGEST_BYTES + len(cases)
            if len(self._answers) < end:
                return
            verdicts = self._answers[_DIGEST_BYTES:end]
            if self._answers[:end] != _answer(portion, verdicts):
                raise ValueError("the process sent an answer that is not valid")
            valid += [case for case, verdict in zip(cases, verdicts, strict=True) if verdict == _HOLDS]
            self._answers = self._answers[end:]
            self._asked.popleft()
            self.answered += len(cases)

    def _greet(self) -> None:
        """Check the process's first message, once all of it has arrived."""
        if len(self._answers) >= len(HELLO):
            if not self._answers.startswith(HELLO):
                raise ValueError("the process is not a verifier")
            self._is_up, self._answers = True, self._answers[len(HELLO) :]

    def _give_up(self, error: Exception, own: deque[bytes]) -> None:
        """Stop using the process for good, and put the cases without an answer back into ``own``."""
        log.warning("signatures are verified without a second process: %s", error)
        self.is_lost = True
        for _, cases in self._asked:
            own.extend(cases)
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
    """Return the answer to a portion: a digest of the portion and its verdicts, then the verdicts."""
    return sha256(portion + verdicts).digest() + verdicts


if __name__ == "__main__":
    with suppress(ConnectionError):  # the node is gone
        serve(socket.socket(fileno=int(sys.argv[1])))
