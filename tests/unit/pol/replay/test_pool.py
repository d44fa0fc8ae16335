"""The process pool: results, deadlines, dead workers, and no process that outlives its owner."""

import math
import operator
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from host.landlock import landlock_abi
from pol.errors import JobError, NotFiniteStep
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob
from pol.state.canonical import encode_state
from pol.work import pool as pool_module
from pol.work.executor import OutOfMemory, PoolClosed, PoolFull, TaskTimeout, WorkerDied
from pol.work.pool import ReplayPool
from pol.work.records import TrainedShare
from pol.work.train import aggregate
from tests.support.waiting import wait_until
from tests.unit.pol.replay import sandboxed, tasks
from tests.unit.pol.replay.conftest import FIXTURE, SHARE, States


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ReplayPool]:
    with ReplayPool(workers=1, queued=2, folder=tmp_path) as made:
        yield made


def test_a_task_runs_in_another_process(pool: ReplayPool) -> None:
    assert pool.submit(os.getpid).result(20) != os.getpid()
    assert pool.submit(operator.add, 2, 3).result(20) == 5


def test_an_error_is_the_tasks_own(pool: ReplayPool) -> None:
    with pytest.raises(ZeroDivisionError):
        pool.submit(operator.truediv, 1, 0).result(20)
    assert pool.submit(math.sqrt, 4.0).result(20) == 2.0


def test_a_worker_that_dies_costs_one_task_and_is_replaced(pool: ReplayPool) -> None:
    first = pool.submit(os.getpid).result(20)
    dying, next_ = pool.submit(os._exit, 3), pool.submit(os.getpid)
    with pytest.raises(WorkerDied):
        dying.result(20)
    assert next_.result(20) != first


def test_fresh_processes_end_with_their_task(tmp_path: Path) -> None:
    with ReplayPool(workers=1, folder=tmp_path, fresh=True) as fresh:
        first, second = (fresh.submit(os.getpid).result(20) for _ in range(2))
        assert first != second
        with pytest.raises(WorkerDied):
            fresh.submit(os._exit, 3).result(20)
        assert fresh.submit(operator.add, 2, 3).result(20) == 5
        assert not psutil.pid_exists(first)


def test_whoever_asks_hears_of_every_task_that_ended(tmp_path: Path) -> None:
    heard: list[tuple[float, str]] = []

    def ended(seconds: float, error: BaseException | None) -> None:
        heard.append((seconds, type(error).__name__))

    with ReplayPool(1, folder=tmp_path, ended=ended) as pool:
        pool.submit(operator.add, 1, 2).result(30)
        with pytest.raises(WorkerDied):
            pool.submit(os._exit, 3).result(30)
        wait_until(lambda: len(heard) == 2, "the second", 5.0)
        assert (pool.running, pool.waiting) == (0, 0)
    assert [name for _, name in heard] == ["NoneType", "WorkerDied"]
    assert all(seconds > 0 for seconds, _ in heard)


def test_a_deadline_kills_the_worker_and_only_it(pool: ReplayPool) -> None:
    first = pool.submit(os.getpid).result(20)
    slow, next_ = pool.submit(signal.pause, timeout=0.3), pool.submit(os.getpid)
    with pytest.raises(TaskTimeout):
        slow.result(20)
    assert next_.result(20) != first
    with pytest.raises(psutil.NoSuchProcess):
        psutil.Process(first)


@pytest.mark.parametrize("part", [b"\0\0", b"\0\0\0\x10", b"\0\0\0\x10half"])
def test_a_deadline_holds_for_who_falls_silent_in_mid_message(pool: ReplayPool, part: bytes) -> None:
    with pytest.raises(TaskTimeout):
        pool.submit(sandboxed.say, part, timeout=0.5).result(20)
    assert pool.submit(operator.add, 2, 3).result(20) == 5


def test_a_deadline_holds_for_who_takes_no_task(pool: ReplayPool) -> None:
    stopped = pool.submit(os.getpid).result(20)
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(TaskTimeout):
        pool.submit(len, bytes(1 << 24), timeout=0.5).result(20)
    assert pool.submit(os.getpid).result(20) != stopped


def test_a_deadline_counts_the_time_in_the_queue(pool: ReplayPool) -> None:
    slow = pool.submit(signal.pause, timeout=0.5)
    # else the one that ends first would begin first
    wait_until(slow.running, "the slow task", 20)
    late = pool.submit(os.getpid, timeout=0.1)
    for future in (slow, late):
        with pytest.raises(TaskTimeout):
            future.result(20)


def test_what_has_to_end_first_begins_first(tmp_path: Path) -> None:
    ended = list[str]()
    with ReplayPool(workers=1, queued=3, folder=tmp_path) as pool:
        slow = pool.submit(signal.pause, timeout=0.5)
        late, soon = pool.submit(os.getpid, timeout=60), pool.submit(os.getpid, timeout=30)
        late.add_done_callback(lambda _: ended.append("late"))
        soon.add_done_callback(lambda _: ended.append("soon"))
        with pytest.raises(TaskTimeout):
            slow.result(20)
        assert late.result(20) == soon.result(20)
    assert ended == ["soon", "late"]


def test_the_queue_is_bounded(pool: ReplayPool) -> None:
    with pytest.raises(PoolFull):  # one runs, two wait
        _ = [pool.submit(signal.pause, timeout=20) for _ in range(4)]


def test_a_waiting_task_can_be_cancelled(pool: ReplayPool) -> None:
    slow, waiting = pool.submit(signal.pause, timeout=0.5), pool.submit(os._exit, 1)
    assert waiting.cancel()
    with pytest.raises(TaskTimeout):
        slow.result(20)
    assert pool.submit(operator.add, 1, 1).result(20) == 2


@pytest.mark.parametrize("task", [(signal.pause,), (sandboxed.say, b"\0\0")])
def test_closing_ends_every_task(task: tuple[Any, ...]) -> None:
    pool = ReplayPool(workers=1)
    child = pool.submit(os.getpid).result(20)
    running, waiting = pool.submit(*task), pool.submit(os.getpid)
    pool.close()
    for future in (running, waiting):
        with pytest.raises(PoolClosed):
            future.result(0)
    assert not psutil.pid_exists(child)
    with pytest.raises(PoolClosed):
        pool.submit(os.getpid)


_PARENT = """
import os, signal, sys
from pol.work.pool import ReplayPool
pool = ReplayPool(workers=1)
child = pool.submit(os.getpid).result(20)
pool.submit(signal.pause)
sys.stdout.write(f"{child}\\n")
sys.stdout.flush()
signal.pause()
"""


def test_workers_die_with_a_killed_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True, cwd=FIXTURE.parents[2]
    )
    with parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        assert worker.is_running()
        parent.kill()
    worker.wait(timeout=10)
    assert not worker.is_running()


def test_a_share_is_trained_and_replayed_through_the_pool(
    pool: ReplayPool, loaded: LoadedJob, trained: tuple[TrainedShare, States], tmp_path: Path
) -> None:
    share, _ = trained
    root = pool.submit(tasks.train, str(FIXTURE), SHARE, str(tmp_path)).result(60)
    assert root == share.update_root
    replayed = pool.submit(tasks.replay, str(FIXTURE), SHARE, 4, str(tmp_path)).result(20)
    for name in ("native", "torch"):
        assert pool.submit(tasks.replay, str(FIXTURE), SHARE, 4, str(tmp_path), name).result(60) == replayed
    assert replayed == share.boundaries[5]
    given = tmp_path / "update", tmp_path / "update"
    state = pool.submit(tasks.merge, str(FIXTURE), given).result(20)
    updates = [share.update, share.update]
    expected = aggregate(loaded, loaded.global_state, updates, backend(Engine("numpy")))
    assert state == encode_state(expected.state)


def test_errors_of_a_task_keep_their_type_and_fields(pool: ReplayPool) -> None:
    with pytest.raises(NotFiniteStep) as caught:
        pool.submit(tasks.overflow, str(FIXTURE)).result(20)
    assert caught.value.step in (0, 1)
    with pytest.raises(JobError, match="no such job") as refused:
        pool.submit(tasks.refuse).result(20)
    assert refused.value.field == "job"


def test_an_idle_pool_has_no_process() -> None:
    before = psutil.Process().children()
    with ReplayPool(workers=2):
        assert psutil.Process().children() == before
    started = time.monotonic()
    ReplayPool(workers=2).close()
    assert time.monotonic() - started < 2


# The sandbox


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[ReplayPool]:
    folder, reads = tmp_path / "mine", [tmp_path / "given"]
    with ReplayPool(workers=1, folder=folder, reads=reads, memory_bytes=1 << 30) as made:
        yield made


def test_a_task_has_no_network(closed: ReplayPool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert sandboxed.call(port) == "done"
        assert closed.submit(sandboxed.call, port).result(20) in ("OSError", "PermissionError")


def test_a_task_writes_to_its_folder_only(closed: ReplayPool, tmp_path: Path) -> None:
    if landlock_abi() < 1:
        pytest.skip("this kernel has no Landlock")
    mine, other = tmp_path / "mine" / "file", tmp_path / "other"
    assert closed.submit(sandboxed.write, mine).result(20) == "done"
    assert closed.submit(sandboxed.write, other).result(20) == "PermissionError"
    assert not other.exists()
    assert closed.submit(sandboxed.read, mine).result(20) == "x"
    given = tmp_path / "given" / "file"
    given.write_text("x")
    assert closed.submit(sandboxed.read, given).result(20) == "x"
    assert closed.submit(sandboxed.write, given).result(20) == "PermissionError"
    other.write_text("x")
    with pytest.raises(PermissionError):
        closed.submit(sandboxed.read, other).result(20)


def test_a_task_that_needs_too_much_memory_ends_alone(closed: ReplayPool) -> None:
    assert closed.submit(sandboxed.hold, 1 << 20).result(20) == 1 << 20
    with pytest.raises(OutOfMemory, match=str(1 << 30)):
        closed.submit(sandboxed.hold, 2 << 30).result(20)
    assert closed.submit(operator.add, 2, 3).result(20) == 5


def test_a_task_starts_no_processes(closed: ReplayPool) -> None:
    # The filter of system calls forbids it with the one, the bound on processes with the other.
    assert closed.submit(sandboxed.spawn).result(20) in ("PermissionError", "BlockingIOError")


def test_a_task_knows_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_PASSPHRASE", "secret")
    with ReplayPool(workers=1, folder=tmp_path) as pool:
        known = pool.submit(sandboxed.environment).result(20)
    assert "secret" not in known.values()
    assert known["TMPDIR"] == str(tmp_path)


def test_what_a_worker_says_calls_nothing_here(
    closed: ReplayPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkerDied, match=r"(not|nor) a record"):
        closed.submit(sandboxed.bomb).result(20)
    assert not (tmp_path / "bomb").exists()


@pytest.mark.parametrize("named", [sandboxed.Mutable, sandboxed.Colour, JobError])
def test_what_a_worker_says_changes_no_class_here(closed: ReplayPool, named: type) -> None:
    """A pickle that names a class and sets an attribute of it."""
    name = f"c{named.__module__}\n{named.__name__}\n".encode()
    said = b"\x80\x02" + name + b"(N}X\x05\x00\x00\x00spoilK\x01stbK\x01\x86."
    with pytest.raises(WorkerDied):
        closed.submit(sandboxed.say, len(said).to_bytes(4, "big") + said, timeout=10).result(20)
    assert not hasattr(named, "spoil")


def test_members_of_enumerations_come_back_as_they_are(closed: ReplayPool) -> None:
    assert closed.submit(sandboxed.colour).result(20) is sandboxed.Colour.RED


def test_members_come_back_from_a_python_that_names_them(closed: ReplayPool) -> None:
    """Before 3.11.4 a pickle of a member is ``getattr`` of the enumeration and its name."""
    made: object = closed.submit(sandboxed.Named, sandboxed.Colour, "RED").result(20)
    assert made is sandboxed.Colour.RED


@pytest.mark.parametrize(
    ("owner", "name"),
    [(sandboxed.Colour, "__init__"), (sandboxed.Colour, "mro"), (sandboxed.Mutable(), "__init__")],
)
def test_a_worker_gets_no_other_attribute(closed: ReplayPool, owner: object, name: str) -> None:
    with pytest.raises(WorkerDied, match=r"(not|nor) a record"):
        closed.submit(sandboxed.Named, owner, name).result(20)


def test_what_a_worker_says_is_no_error_is_none_here(closed: ReplayPool) -> None:
    said = pickle.dumps((False, "no error"))
    with pytest.raises(WorkerDied, match="without an error"):
        closed.submit(sandboxed.say, len(said).to_bytes(4, "big") + said).result(20)
    assert closed.submit(operator.add, 2, 3).result(20) == 5


def test_an_answer_has_a_largest_size(closed: ReplayPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that asks must not need the memory of a worker that was taken over."""
    monkeypatch.setattr(pool_module, "ANSWER_BYTES_MAX", 1 << 16)
    assert len(closed.submit(bytes, 1 << 15).result(20)) == 1 << 15
    with pytest.raises(WorkerDied):
        closed.submit(bytes, 1 << 16).result(20)
    assert closed.submit(operator.add, 2, 3).result(20) == 5


def test_torch_works_in_the_sandbox(closed: ReplayPool) -> None:
    pytest.importorskip("torch")
    assert closed.submit(sandboxed.add_with_torch).result(60) == [2.0, 2.0, 2.0]


def test_a_pools_own_folder_goes_with_it() -> None:
    with ReplayPool(workers=1) as pool:
        folder = Path(pool.submit(sandboxed.environment).result(20)["TMPDIR"])
        assert folder.is_dir()
    assert not folder.exists()
