"""Four applications that get the same blocks: whatever else a node saw or lived through, its results are the same.

The first one is that of a test. Its calls are recorded, and three others repeat them in other processes, in which
strings have other hashes: one that sees all that the first one sees, one that sees blocks alone, and one that is killed
and starts again around each block (:mod:`tests.support.follower_child`). They must agree in codes, events, gas, the
validator set and the app hash of each block. What differs is named by block, transaction and field.
"""

import atexit
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from chain.app.application import Application, Finalized, Started
from chain.state_machine.rules import RULEBOOK
from domain.events import Event

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
WATCHING, BLOCKS_ONLY, KILLED = ROLES = ("watching", "blocks-only", "killed")
ELSEWHERE = "elsewhere"
DECIDED = ("init_chain", "finalize_block", "commit")
RECORDED = (*DECIDED, "check_tx", "process_proposal")


@dataclass(frozen=True)
class Call:
    """A call of an application, with what came of it there."""

    name: str
    args: tuple[Any, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    outcome: Any = field(default=None, compare=False)

    @property
    def is_decided(self) -> bool:
        """True for the calls that every node gets in the same order."""
        return self.name in DECIDED


def outcome_of(answer: Any) -> Any:
    """Return what must be equal everywhere of an application's answer to a call."""
    match answer:
        case Started():
            return answer
        case Finalized(result=result, app_hash=app_hash, evidence=evidence):
            return app_hash, result, evidence
        case bool():
            return answer
    return None  # CheckTx depends on the node's own settings


def _plain(value: Any) -> Any:
    """Return an argument in a form that can be sent: protobuf has lists of its own."""
    return value if isinstance(value, bytes | str) or not isinstance(value, Sequence) else list(value)


# --- comparing -----------------------------------------------------------------------------------


def first_difference(expected: Any, found: Any, where: str = "") -> str:
    """Return where two outcomes differ first, and what is there; empty if they are equal."""
    if expected == found:
        return ""
    if type(expected) is not type(found):
        return f"{where}: {_short(expected)} here, {_short(found)} there"
    if is_dataclass(expected):
        names = [one.name for one in fields(expected)]
        parts = [(f"{where} {name}", getattr(expected, name), getattr(found, name)) for name in names]
    elif isinstance(expected, tuple | list):
        if len(expected) != len(found):
            return f"{where}: {len(expected)} here, {len(found)} there"
        parts = [(f"{where}[{at}]", *both) for at, both in enumerate(zip(expected, found, strict=True))]
    else:
        return f"{where}: {_short(expected)} here, {_short(found)} there"
    return next(filter(None, (first_difference(one, other, at) for at, one, other in parts)), "")


def _short(value: Any) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def compare(call: Call, found: Any) -> str:
    """Return how a follower's outcome of a call differs; empty if it does not."""
    if found is None:
        return ""
    if call.name != "finalize_block":
        return first_difference(call.outcome, found, call.name)
    (app_hash, result, evidence), (other_hash, other, other_evidence) = call.outcome, found
    # Transactions come first: an app hash alone does not say what went wrong.
    for at, (one, another) in enumerate(zip(result.tx_results, other.tx_results, strict=False)):
        if one != another:
            return first_difference(one, another, f"block {call.args[0]}, transaction {at},")
    where = f"block {call.args[0]},"
    parts = (
        (result, other, where),
        (evidence, other_evidence, f"{where} rules for evidence"),
        (app_hash, other_hash, f"{where} app hash"),
    )
    return next(filter(None, (first_difference(*part) for part in parts)), "")


# --- followers -----------------------------------------------------------------------------------


@cache
def _starter() -> socket.socket:
    """Start the process that forks followers, in which strings have other hashes. It ends with this process."""
    here, there = socket.socketpair()
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    command = [sys.executable, "-m", "tests.support.follower_child", str(there.fileno())]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, pass_fds=[there.fileno()])
    there.close()

    def end() -> None:
        here.close()
        process.wait(30)

    atexit.register(end)
    return here


def elsewhere(function: Callable[..., T], *args: Any) -> T:
    """Return what a function returns in a process in which strings have other hashes."""
    here, there = socket.socketpair()
    socket.send_fds(_starter(), [pickle.dumps((ELSEWHERE, (function, args)))], [there.fileno()])
    there.close()
    with here, here.makefile("rb") as stream:
        return pickle.load(stream)  # type: ignore[no-any-return]


class FollowerProcess:
    """A process with applications of one role."""

    def __init__(self, role: str, bug: str = "") -> None:
        """Start the process."""
        self.role = role
        self._peer, there = socket.socketpair()
        socket.send_fds(_starter(), [pickle.dumps((role, bug))], [there.fileno()])
        there.close()
        self._stream = self._peer.makefile("rwb")

    def send(self, number: int, calls: Sequence[Call]) -> None:
        """Let the application of a chain do calls."""
        pickle.dump((number, calls), self._stream)
        self._stream.flush()

    def receive(self) -> Any:
        """Return the outcomes of the calls that were sent first, or an error as text."""
        return pickle.load(self._stream)

    def close(self) -> None:
        """Let the process end."""
        self._stream.close()
        self._peer.close()


class FourApplications:
    """Records the applications of this process, and compares them with their followers."""

    def __init__(self, bug: str = "") -> None:
        """Start nothing yet: followers begin with the first call that they have to repeat."""
        self._bug = bug
        self._followers: list[FollowerProcess] = []
        self._calls: dict[int, list[Call]] = {}
        self._chains: dict[int, int] = {}  # number of the chain of each application, by id
        self._ends: dict[Path, tuple[bytes, int]] = {}  # last app hash, and number, of the chain in each store
        self._kept: list[Application] = []  # so that no id comes twice

    @contextmanager
    def recording(self) -> Iterator["FourApplications"]:
        """Record all applications that are made or called meanwhile."""
        with planted(self._bug):
            recorded: dict[str, Any] = {name: self._recorded(name) for name in RECORDED}
            with patch.multiple(Application, **recorded):
                yield self
        for follower in self._followers:
            follower.close()

    def _recorded(self, name: str) -> Callable[..., Any]:
        real = getattr(Application, name)

        def call(app: Application, *args: Any, **more: Any) -> Any:
            number = self._chain_of(app)
            answer = real(app, *args, **more)
            if number:
                self._calls[number].append(Call(name, tuple(map(_plain, args)), more, outcome_of(answer)))
                if name == "commit":
                    self._ends[app._storage.path] = (app.head.block.app_hash, number)
            return answer

        return call

    def _chain_of(self, app: Application) -> int:
        """Return the number of the chain that an application is at; 0 if no follower has its state or its rules."""
        if id(app) not in self._chains:
            self._kept.append(app)
            head = app.head.block
            app_hash, number = self._ends.get(app._storage.path, (b"", 0))
            if not head.height:
                number = len(self._calls) + 1
                self._calls[number] = []
            if app.rulebook is not RULEBOOK or (head.height and app_hash != head.app_hash):
                number = 0
            self._chains[id(app)] = number
        return self._chains[id(app)]

    def check(self) -> str:
        """Let the followers repeat what was recorded since the last check. Return the first difference of each."""
        waiting = {number: calls[:] for number, calls in self._calls.items() if calls}
        for number in waiting:
            self._calls[number].clear()
        if waiting and not self._followers:
            self._followers = [FollowerProcess(role, self._bug) for role in ROLES]
        found = []
        for number, calls in waiting.items():
            for follower in self._followers:
                follower.send(number, [replace(call, outcome=None) for call in calls])
            for follower in self._followers:
                outcomes = follower.receive()
                if isinstance(outcomes, str):
                    found.append(f"{follower.role}: {outcomes}")
                    continue
                differences = filter(None, map(compare, calls, outcomes))
                found += [f"{follower.role}: {difference}" for difference in list(differences)[:1]]
        return "\n".join(found)


# --- planted bugs --------------------------------------------------------------------------------

BUGS = ("set order", "CheckTx", "memory")


@contextmanager
def planted(bug: str) -> Iterator[None]:
    """Let the applications of this process have a bug that makes nodes differ: in one of three ways, or in none."""
    assert not bug or bug in BUGS
    real_check, real_finalize = Application.check_tx, Application.finalize_block
    seen: dict[int, int] = {}

    def check_tx(app: Application, *args: Any, **more: Any) -> Any:
        seen[id(app)] = seen.get(id(app), 0) + (bug == "CheckTx")
        return real_check(app, *args, **more)

    def finalize_block(app: Application, *args: Any, **more: Any) -> Finalized:
        done = real_finalize(app, *args, **more)
        seen[id(app)] = seen.get(id(app), 0) + (bug == "memory")
        words = {f"account {number}" for number in range(20)} if bug == "set order" else [str(seen[id(app)])]
        *others, last = done.result.tx_results
        last = replace(last, events=(*last.events, Event("planted", (("words", " ".join(words)),), 0)))
        return replace(done, result=replace(done.result, tx_results=(*others, last)))

    if not bug:
        yield
        return
    with patch.multiple(Application, check_tx=check_tx, finalize_block=finalize_block):
        yield
