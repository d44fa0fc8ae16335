"""The process pool: results, deadlines, dead workers, and no process that outlives its owner."""

import math
import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pol.executor.backend import backend
from pol.job.errors import JobError
from pol.job.load import LoadedJob
from pol.state.canonical import encode_state
from pol.work import tasks
from pol.work.aggregate import aggregate
from pol.work.pool import PoolClosed, PoolFull, ReplayPool, TaskTimeout, WorkerDied
from pol.work.records import NotFiniteStep, Range, TrainedShare
from tests.unit.pol.replay.conftest import FIXTURE, SHARE, States


@pytest.fixture
def pool() -> Iterator[ReplayPool]:
    with ReplayPool(workers=1, queued=2) as made:
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


def test_a_deadline_kills_the_worker_and_only_it(pool: ReplayPool) -> None:
    first = pool.submit(os.getpid).result(20)
    slow, next_ = pool.submit(signal.pause, timeout=0.3), pool.submit(os.getpid)
    with pytest.raises(TaskTimeout):
        slow.result(20)
    assert next_.result(20) != first
    with pytest.raises(psutil.NoSuchProcess):
        psutil.Process(first)


def test_a_deadline_counts_the_time_in_the_queue(pool: ReplayPool) -> None:
    slow, late = pool.submit(signal.pause, timeout=0.5), pool.submit(os.getpid, timeout=0.1)
    for future in (slow, late):
        with pytest.raises(TaskTimeout):
            future.result(20)


def test_the_queue_is_bounded(pool: ReplayPool) -> None:
    with pytest.raises(PoolFull):  # one runs, two wait
        _ = [pool.submit(signal.pause, timeout=20) for _ in range(4)]


def test_a_waiting_task_can_be_cancelled(pool: ReplayPool) -> None:
    slow, waiting = pool.submit(signal.pause, timeout=0.5), pool.submit(os._exit, 1)
    assert waiting.cancel()
    with pytest.raises(TaskTimeout):
        slow.result(20)
    assert pool.submit(operator.add, 1, 1).result(20) == 2


def test_closing_ends_every_task() -> None:
    pool = ReplayPool(workers=1)
    child = pool.submit(os.getpid).result(20)
    running, waiting = pool.submit(signal.pause), pool.submit(os.getpid)
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
    job_id = loaded.job.id
    steps: list[tuple[int, float]] = []
    opening, local = encode_state(loaded.global_state), encode_state(loaded.local_state)
    outcome = pool.submit(
        tasks.train_task, str(FIXTURE), job_id, SHARE, opening, local, str(tmp_path),
        on_progress=steps.append,
    ).result(60)  # fmt: skip
    assert outcome.boundaries == share.boundaries
    assert outcome.update_root == share.update_root
    assert outcome.local_out == encode_state(share.local_out)
    assert [step for step, _ in steps] == list(range(24, 36))
    assert len(list(tmp_path.iterdir())) == 2 * len(share.boundaries)
    first, second = tasks.boundary_paths(tmp_path, 4)
    replayed = pool.submit(
        tasks.segment_task, str(FIXTURE), job_id, SHARE, 4, str(first), str(second)
    ).result(20)
    assert replayed.boundary == share.boundaries[5]
    closing = tasks.boundary_paths(tmp_path, 6)
    update = pool.submit(
        tasks.update_task, str(FIXTURE), job_id, opening, str(closing[0]), str(closing[1])
    ).result(20)
    assert (update.update_root, update.local_out_root) == (share.update_root, share.local_out_root)
    given = ((64, outcome.update), (32, outcome.update))
    merged = pool.submit(tasks.aggregate_task, str(FIXTURE), job_id, opening, given).result(20)
    expected = aggregate(
        loaded, loaded.global_state, [(64, share.update), (32, share.update)], backend("numpy")
    )
    assert merged.root == expected.root
    assert merged.state == encode_state(expected.state)
    assert merged.tensor_roots == expected.tensor_roots


def test_errors_of_a_task_keep_their_type_and_fields(pool: ReplayPool, loaded: LoadedJob) -> None:
    opening = encode_state(loaded.global_state)
    huge = {name: array + 3e38 for name, array in loaded.local_state.items()}
    arguments = (str(FIXTURE), loaded.job.id, Range(0, 0, 32), opening, encode_state(huge))
    with pytest.raises(NotFiniteStep) as caught:
        pool.submit(tasks.train_task, *arguments).result(20)
    assert caught.value.step in (0, 1)
    with pytest.raises(JobError, match="another job"):
        pool.submit(tasks.train_task, str(FIXTURE), b"\0" * 32, *arguments[2:]).result(20)


def test_an_idle_pool_has_no_process() -> None:
    before = psutil.Process().children()
    with ReplayPool(workers=2):
        assert psutil.Process().children() == before
    started = time.monotonic()
    ReplayPool(workers=2).close()
    assert time.monotonic() - started < 2
