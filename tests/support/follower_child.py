"""Applications in processes of their own that follow a chain: ``python -m tests.support.follower_child SOCKET``.

The process has imported everything, and forks one for each role that the peer at the socket asks for. Such a process
gets requests as pickles: the number of a chain, and its calls. It answers with the outcome of each call, or with an
error as text. The role says what its applications are like:

``watching`` applications get every call, also CheckTx and proposals. ``blocks-only`` ones get decided blocks alone.
``killed`` ones are killed with SIGKILL after each block, and now and then between FinalizeBlock and Commit; the next
process starts as after a crash. A planted BUG shows that a difference is found.
"""

import os
import pickle
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from chain.app.application import AppConfig, Application
from chain.app.storage import Storage
from tests.support.four_apps import BLOCKS_ONLY, ELSEWHERE, KILLED, Call, outcome_of, planted

TWICE = 3
"""Each such block is executed first by a process that is killed before its Commit."""


class Follower:
    """An application that lives as long as this process."""

    def __init__(self, folder: Path, role: str) -> None:
        self.app = Application(Storage(folder / "db"), AppConfig())
        self.role = role

    def follow(self, calls: Sequence[Call]) -> list[Any]:
        return [self._do(call) for call in calls]

    def _do(self, call: Call) -> Any:
        if self.role == BLOCKS_ONLY and not call.is_decided:
            return None
        return outcome_of(getattr(self.app, call.name)(*call.args, **call.more))


class Killed:
    """An application that is killed after each block. Its calls happen in a child of this process, which is forked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first: list[Call] = []  # InitChain, until block 1 is committed
        self.block: list[Call] = []  # what was decided since the last Commit

    def follow(self, calls: Sequence[Call]) -> list[Any]:
        outcomes: list[Any] = [None] * len(calls)
        decided = [(at, call) for at, call in enumerate(calls) if call.is_decided]
        for (at, call), (_, following) in pairwise([*decided, (0, Call(""))]):
            if call.name == "init_chain":
                self.first, self.block = [call], []
                outcomes[at] = self._in_a_child([call])[0]
            elif call.name == "finalize_block":
                self.block = [call]
                commits = following.name == "commit"
                if not commits or call.args[0] % TWICE == 0:
                    outcomes[at] = self._in_a_child([call])[0]
                if commits:
                    outcomes[at] = self._in_a_child([call, following])[0]
                    self.first, self.block = [], []
            elif self.block:  # it was decided in an earlier request
                self._in_a_child([*self.block, call])
                self.first, self.block = [], []
        return outcomes

    def _in_a_child(self, calls: Sequence[Call]) -> list[Any]:
        """Start on the store, do the calls, and be killed; return their outcomes."""
        here, there = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                app = Application(Storage(self.folder / "db"), AppConfig())
                before = self.first if not app.head.block.height else []
                todo = [call for call in before if call not in calls] + list(calls)
                outcomes = [outcome_of(getattr(app, call.name)(*call.args, **call.more)) for call in todo]
                answer: Any = outcomes[-len(calls) :]
            except Exception as error:  # noqa: BLE001 - the other side reports it
                answer = f"{type(error).__name__}: {error}"
            with os.fdopen(there, "wb") as pipe:
                pickle.dump(answer, pipe)
            while True:
                signal.pause()  # until it is killed
        os.close(there)
        with os.fdopen(here, "rb") as pipe:
            found = pickle.load(pipe)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if isinstance(found, list):
            return found
        raise RuntimeError(found)


def serve(role: str, bug: str, peer: socket.socket) -> None:
    """Answer the requests of a peer until it hangs up."""
    chains: dict[int, Follower | Killed] = {}
    with (
        planted(bug),
        tempfile.TemporaryDirectory(prefix="assay-follower-") as folder,
        peer.makefile("rwb") as stream,
    ):
        while stream.peek(1):
            number, calls = pickle.load(stream)
            path = Path(folder) / str(number)
            if number not in chains:
                path.mkdir()
                chains[number] = Killed(path) if role == KILLED else Follower(path, role)
            try:
                answer: Any = chains[number].follow(calls)
            except Exception as error:  # noqa: BLE001 - the other side reports it
                answer = f"{type(error).__name__}: {error}"
            pickle.dump(answer, stream)
            stream.flush()


def call(task: tuple[Callable[..., Any], tuple[Any, ...]], peer: socket.socket) -> None:
    """Answer with what a function returns."""
    function, args = task
    with peer.makefile("wb") as stream:
        pickle.dump(function(*args), stream)


def main(starter: socket.socket) -> None:
    """Fork a process for each peer that the starter sends, until it hangs up. This process opens no store itself."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, fds, _, _ = socket.recv_fds(starter, 4096, 1)
        if not request:
            return
        (fd,) = fds
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            starter.close()
            peer = socket.socket(fileno=fd)
            role, more = pickle.loads(request)
            (call(more, peer) if role == ELSEWHERE else serve(role, more, peer))
            os._exit(0)
        os.close(fd)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
