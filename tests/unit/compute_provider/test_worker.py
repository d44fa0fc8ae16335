"""The worker process: right traces, going on after kill -9, cheating as advertised, locked in."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from compute_provider.store import Boundary
from compute_provider.trainer import Trainer
from compute_provider.worker import LOCAL_OUT, UPDATE, Order
from domain import codec
from domain.records import ShareKey
from pol.executor.backend import backend
from pol.job.load import LoadedJob, load_job
from pol.replay.replay import replay_segment, replay_update
from pol.state.canonical import decode_state, encode_state, state_tree
from pol.state.errors import StateError
from pol.work.records import Range, TrainedShare
from pol.work.train import train_share
from tests.unit.compute_provider.support import TINY, task, terms

KEY = task().key
WHOLE = Range(0, 0, 320)
SEGMENTS = 10


@pytest.fixture(scope="module")
def loaded() -> LoadedJob:
    return load_job(TINY)


@pytest.fixture(scope="module")
def right(loaded: LoadedJob) -> TrainedShare:
    return train_share(
        loaded, WHOLE, loaded.global_state, loaded.local_state, backend=backend("numpy")
    )


def order(folder: Path, **changes: Any) -> Order:
    known = terms()
    base = Order(
        job=str(TINY), folder=str(folder), global_in=str(TINY / "global.state"),
        local_in=str(TINY / "local.state"), global_root=known.global_root,
        local_root=known.local_root, round=0, first=0, count=320, backend="numpy",
        memory_bytes=8 << 30, boundaries=(), replay=-1, misbehave="",
    )  # fmt: skip
    return replace(base, **changes)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "Listener"]:
    """A share that was trained once for all tests that only read it."""
    folder = tmp_path_factory.mktemp("trained")
    listener = Listener(folder)
    listener.run(order(folder))
    return folder, listener


class Listener:
    """Collects what a worker says; ``react`` sees each message as it comes."""

    def __init__(self, folder: Path) -> None:
        self.said: list[dict[str, Any]] = []
        self.last: Queue[dict[str, Any]] = Queue()
        self.react: Callable[[dict[str, Any]], None] = lambda message: None
        self.trainer = Trainer(self.hear, folder / "worker.log")

    def hear(self, key: ShareKey, message: dict[str, Any]) -> None:
        self.said.append(message)
        self.react(message)
        if {"done", "failed", "replayed"} & message.keys():
            self.last.put(message)

    def run(self, order: Order) -> dict[str, Any]:
        self.trainer.start(KEY, order)
        return self.last.get(timeout=60)

    def boundaries(self) -> tuple[Boundary, ...]:
        plain = [message["boundary"] for message in self.said if "boundary" in message]
        last = {each["index"]: codec.from_plain(Boundary, each) for each in plain}
        return tuple(last[index] for index in sorted(last))


def roots(share: TrainedShare) -> list[bytes]:
    return [boundary.root for boundary in share.boundaries]


def test_a_share_is_trained_as_in_this_process(
    trained: tuple[Path, Listener], right: TrainedShare
) -> None:
    folder, listener = trained
    done = listener.said[-1]["done"]
    assert [b.root for b in listener.boundaries()] == roots(right)
    assert [b.metrics for b in listener.boundaries()] == [b.metrics for b in right.boundaries]
    assert bytes.fromhex(done["update_root"]) == right.update_root
    assert (folder / UPDATE).read_bytes() == encode_state(right.update)
    assert (folder / LOCAL_OUT).read_bytes() == encode_state(right.local_out)
    assert listener.said[0]["ready"]["steps"] == 20
    assert [m["step"] for m in listener.said if "step" in m] == list(range(1, 21))


def test_torch_trains_in_the_sandbox_to_the_same_bits(tmp_path: Path, right: TrainedShare) -> None:
    listener = Listener(tmp_path)
    done = listener.run(replace(order(tmp_path), backend="torch"))
    assert "done" in done, (done, (tmp_path / "worker.log").read_text())
    assert [b.root for b in listener.boundaries()] == roots(right)
    assert bytes.fromhex(done["done"]["update_root"]) == right.update_root


@pytest.mark.parametrize("after", [1, 5, 10])
def test_training_goes_on_after_kill_9(tmp_path: Path, right: TrainedShare, after: int) -> None:
    first = Listener(tmp_path)

    def kill(message: dict[str, Any]) -> None:
        if message.get("boundary", {}).get("index") == after:
            for pid in first.trainer.pids():
                os.kill(pid, 9)

    first.react = kill
    first.run(order(tmp_path))
    known = first.boundaries()[: after + 1]
    second = Listener(tmp_path)
    done = second.run(order(tmp_path, boundaries=known))["done"]
    indices = [b.index for b in second.boundaries()]
    assert indices == list(range(after + 1, SEGMENTS + 1))  # nothing is trained twice
    assert [b.root for b in (*known, *second.boundaries())] == roots(right)
    assert bytes.fromhex(done["update_root"]) == right.update_root
    assert (tmp_path / UPDATE).read_bytes() == encode_state(right.update)


def test_a_damaged_boundary_is_not_gone_on_from(
    tmp_path: Path, trained: tuple[Path, Listener], right: TrainedShare
) -> None:
    shutil.copytree(trained[0], tmp_path, dirs_exist_ok=True)
    for index in (SEGMENTS, SEGMENTS - 1):
        (tmp_path / f"{index}.global").write_bytes(b"torn")
    second = Listener(tmp_path)
    second.run(order(tmp_path, boundaries=trained[1].boundaries()))
    assert [b.index for b in second.boundaries()] == [SEGMENTS - 1, SEGMENTS]
    assert [b.root for b in second.boundaries()] == roots(right)[-2:]


def test_an_opening_state_that_is_not_the_chains_is_refused(tmp_path: Path) -> None:
    answer = Listener(tmp_path).run(order(tmp_path, global_root=bytes(32)))
    assert "global.state" in answer["failed"]
    assert answer["again"] is False


def test_a_job_that_does_not_load_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_bytes(b"{}")
    answer = Listener(tmp_path).run(order(tmp_path, job=str(tmp_path)))
    assert "does not load" in answer["failed"]
    assert answer["again"] is False


def test_a_worker_without_a_last_word_is_a_failure_that_may_pass(tmp_path: Path) -> None:
    answer = Listener(tmp_path).run(order(tmp_path / "absent"))
    assert "the worker ended" in answer["failed"]
    assert answer["again"] is True


def test_what_cannot_be_kept_of_a_worker_is_a_failure_that_may_pass(tmp_path: Path) -> None:
    """A full disk, for one: the share must not stay in training for ever."""
    listener = Listener(tmp_path)
    heard: list[dict[str, Any]] = []

    def full(message: dict[str, Any]) -> None:
        heard.append(message)
        if "boundary" in message:
            raise sqlite3.OperationalError("database or disk is full")

    listener.react = full
    answer = listener.run(order(tmp_path))
    assert "disk is full" in answer["failed"]
    assert answer["again"] is True
    assert sum("boundary" in message for message in heard) == 1  # it was ended there


def test_a_worker_that_cannot_write_says_why(tmp_path: Path) -> None:
    (tmp_path / "0.global.new").mkdir()
    answer = Listener(tmp_path).run(order(tmp_path))
    assert "0.global.new: Is a directory" in answer["failed"]
    assert answer["again"] is True


_ODD = "import sys; sys.stdout.write('7\\n[1]\\nnull\\n' + '[' * 100000 + '\\n')"


def test_what_a_worker_says_oddly_is_let_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = subprocess.Popen

    def odd(command: list[str], **options: Any) -> Any:
        return real([command[0], "-c", _ODD], **options)

    monkeypatch.setattr(subprocess, "Popen", odd)
    assert "the worker ended" in Listener(tmp_path).run(order(tmp_path))["failed"]


def test_a_worker_that_was_stopped_did_not_fail(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    begun = Queue[dict[str, Any]]()
    listener.react = begun.put
    listener.trainer.start(KEY, order(tmp_path))
    begun.get(timeout=60)
    listener.trainer.stop(KEY)
    assert not [message for message in listener.said if "failed" in message]


@pytest.mark.parametrize("segment", [0, 4, 9, 10])
def test_a_report_is_checked_by_replay(
    tmp_path: Path, trained: tuple[Path, Listener], segment: int
) -> None:
    shutil.copytree(trained[0], tmp_path, dirs_exist_ok=True)
    known = trained[1].boundaries()
    again = Listener(tmp_path)
    assert again.run(order(tmp_path, boundaries=known, replay=segment)) == {"replayed": True}
    wrong = tuple(replace(b, root=bytes(32)) if b.index == segment + 1 else b for b in known)
    if segment == SEGMENTS:
        (tmp_path / UPDATE).write_bytes(b"another")
    again = Listener(tmp_path)
    assert again.run(order(tmp_path, boundaries=wrong, replay=segment)) == {"replayed": False}


# Cheating: each method is wrong where it says, and right everywhere else.


def faults(loaded: LoadedJob, folder: Path, trace: tuple[Boundary, ...]) -> tuple[set[int], str]:
    """Return the segments that do not replay, and what is wrong with the update."""
    document = loaded.job.document

    def states(index: int) -> tuple[Any, Any]:
        boundary = trace[index]
        state = decode_state((folder / f"{index}.global").read_bytes(), document.global_tensors)
        local = decode_state((folder / f"{index}.local").read_bytes(), document.local_tensors)
        assert state_tree(state).root == boundary.global_root  # every opening hashes to its leaf
        assert state_tree(local).root == boundary.local_root
        return state, local

    wrong = set()
    for index in range(len(trace) - 1):
        replayed = replay_segment(loaded, WHOLE, index, *states(index), backend("numpy"))
        if replayed.boundary.root != trace[index + 1].root:
            wrong.add(index)
    closing, local_out = states(len(trace) - 1)
    result = replay_update(loaded, loaded.global_state, closing, local_out)
    try:
        update = decode_state((folder / UPDATE).read_bytes(), loaded.job.updated)
    except StateError:
        return wrong, "malformed"
    return wrong, "" if state_tree(update).root == result.update_root else "wrong"


@pytest.mark.parametrize(
    ("method", "segments", "update"),
    [
        ("", set(), ""),
        ("skip_training", set(range(1, 9)), ""),
        ("wrong_trace", set(range(10)), ""),
        ("wrong_update", set(), "wrong"),
        ("garbage", set(), "malformed"),
    ],
)
def test_each_way_to_cheat_is_wrong_where_it_says(
    tmp_path: Path, loaded: LoadedJob, method: str, segments: set[int], update: str
) -> None:
    listener = Listener(tmp_path)
    listener.run(order(tmp_path, misbehave=method))
    trace = listener.boundaries()
    assert [b.index for b in trace] == list(range(SEGMENTS + 1))
    assert [b.step for b in trace] == [2 * index for index in range(SEGMENTS + 1)]
    assert faults(loaded, tmp_path, trace) == (segments, update)


# The sandbox

_TRY = """
import json, os, socket, sys
from pathlib import Path
from compute_provider import sandbox
folder = Path(sys.argv[1])
ends = sandbox.enter(os.getppid(), folder / "mine", 1 << 30, address_space=True)
def attempt(act):
    try:
        act()
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return "done"
print(json.dumps([
    ends,
    attempt(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5)),
    attempt(lambda: (folder / "mine" / "file").write_text("x")),
    attempt(lambda: (folder / "other").write_text("x")),
    attempt(lambda: (folder / "kept").unlink()),
    attempt(lambda: (folder / "kept").read_text()),
    attempt(lambda: bytearray(2 << 30)),
    attempt(lambda: os.truncate(folder / "mine" / "file", 0)),
    attempt(lambda: os.truncate(folder / "kept", 0)),
    sandbox.landlock_abi(),
    attempt(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()),
]))
"""


def test_the_sandbox_keeps_what_it_promises(tmp_path: Path) -> None:
    import json
    import socket

    (tmp_path / "mine").mkdir()
    (tmp_path / "kept").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-c", _TRY, str(tmp_path), port],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
    (
        ends, network, own, other, unlink, read, memory, empty, truncate, abi, environment
    ) = json.loads(done.stdout)  # fmt: skip
    assert empty == "done"
    if abi >= 3:  # of Linux 6.2
        assert truncate == "PermissionError"
    if not ends:  # the passphrase may be in there
        assert environment == "PermissionError"
    assert own == "done"
    assert read == "done"
    assert memory == "MemoryError"
    # What the kernel here does not permit must be said, and only then may it be open.
    closed_network = not any("network" in end for end in ends)
    closed_files = not any("Landlock" in end for end in ends)
    assert (network == "done") is not closed_network
    assert (other == "done") is not closed_files
    assert (unlink == "done") is not closed_files


_CHILD = """
import os, signal, sys
from pathlib import Path
from compute_provider import sandbox
sandbox.enter(os.getppid(), Path(sys.argv[1]), 1 << 30, address_space=True)
print(os.getpid(), flush=True)
signal.pause()
"""
_PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]])
"""


def test_the_worker_dies_with_its_parent(tmp_path: Path) -> None:
    import psutil

    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path), _CHILD], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    _, alive = psutil.wait_procs([worker], timeout=20)
    orphans = [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    for process in orphans:
        process.kill()
    assert orphans == []
