"""The worker process: right traces, and going on after kill -9."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

import psutil
import pytest

from compute_provider.interfaces import Honest
from compute_provider.work.worker import LOCAL_OUT, UPDATE, WorkOrder
from domain import codec
from domain.keys import ShareKey
from host.landlock import landlock_abi
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob, load_job
from pol.state.canonical import encode_state
from pol.work.records import RoundSlot, TrainedShare
from pol.work.train import train_share
from tests.support.waiting import wait_until
from tests.unit.compute_provider.support import TINY
from tests.unit.compute_provider.work.training import KEY, PART, SEGMENTS, Listener, order
from tests.unit.pol.odd_jobs import none_at, write_odd_job

ASTRAY = "tests.unit.compute_provider.work.astray"


@pytest.fixture(scope="module")
def loaded() -> LoadedJob:
    return load_job(TINY)


@pytest.fixture(scope="module")
def right(loaded: LoadedJob) -> TrainedShare:
    return train_share(loaded, PART, loaded.global_state, loaded.local_state, backend=backend(Engine("numpy")))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Listener]:
    """A share that was trained once for all tests that only read it."""
    folder = tmp_path_factory.mktemp("trained")
    listener = Listener(folder)
    listener.run(order(folder))
    return folder, listener


def roots(share: TrainedShare) -> list[bytes]:
    return [boundary.root for boundary in share.boundaries]


def test_a_share_is_trained_as_in_this_process(trained: tuple[Path, Listener], right: TrainedShare) -> None:
    folder, listener = trained
    done = listener.said[-1]["done"]
    assert [b.root for b in listener.boundaries()] == roots(right)
    assert [b.metrics for b in listener.boundaries()] == [b.metrics for b in right.boundaries]
    assert bytes.fromhex(done["update_root"]) == right.update_root
    assert (folder / UPDATE).read_bytes() == encode_state(right.update)
    assert (folder / LOCAL_OUT).read_bytes() == encode_state(right.local_out)
    assert listener.said[0]["ready"]["steps"] == 10
    assert [m["step"] for m in listener.said if "step" in m] == list(range(1, 11))


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_other_executors_train_in_the_sandbox_to_the_same_bits(
    tmp_path: Path, right: TrainedShare, backend: str
) -> None:
    listener = Listener(tmp_path)
    done = listener.run(replace(order(tmp_path), engine=Engine(backend)))
    assert "done" in done, (done, (tmp_path / "worker.log").read_text())
    assert [b.root for b in listener.boundaries()] == roots(right)
    assert bytes.fromhex(done["done"]["update_root"]) == right.update_root


@pytest.mark.parametrize("after", [1, 3, 5])
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


@pytest.mark.parametrize(("step", "segments"), [(5, 2), (0, 0)])
def test_a_share_ends_where_the_job_stops(tmp_path: Path, step: int, segments: int) -> None:
    """What came before is a trace: boundaries up to the last whole segment, and no update."""
    directory = tmp_path / "job"
    job = write_odd_job(directory, none_at(2 * step), segment_steps=2, segments=4)
    folder = tmp_path / "share"
    folder.mkdir()
    changes = {
        "job": str(directory),
        "global_in": str(directory / "global.state"),
        "local_in": str(directory / "local.state"),
        "global_root": job.document.global_root,
        "local_root": job.document.local_root,
        "slot": 0,
    }
    listener = Listener(folder)
    answer = listener.run(order(folder, **changes))
    assert answer == {"stopped": f"step {step}, global.w: holds NaN or infinity", "step": step}
    assert [b.index for b in listener.boundaries()] == list(range(segments + 1))
    assert not (folder / UPDATE).exists()
    # Whoever is killed on the way ends there again.
    again = Listener(folder)
    assert again.run(order(folder, **changes, boundaries=listener.boundaries())) == answer
    assert all(b.index > segments for b in again.boundaries() if segments)


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
    listener = Listener(tmp_path)
    answer = listener.run(order(tmp_path), Program("compute_provider.absent"))
    assert "the worker process ended (exit code 1)" in answer["failed"]
    assert answer["again"] is True
    assert listener.trainer.pids() == []


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
    (tmp_path / "0.global").mkdir()
    answer = Listener(tmp_path).run(order(tmp_path))
    assert "0.global" in answer["failed"]
    assert "Is a directory" in answer["failed"]
    assert answer["again"] is True


# From share to share


class Program(Honest):
    """Runs this module, with its arguments, as worker."""

    def __init__(self, *program: str) -> None:
        self._program = program

    def worker(self, _key: ShareKey) -> tuple[str, ...]:
        return self._program


def share(folder: Path, slot: int, round: int = 0, **changes: Any) -> tuple[ShareKey, WorkOrder]:
    """Return a share and its order, with a folder of its own."""
    key = replace(KEY, slot=slot, round=round)
    own = folder / f"share-{round}-{slot}"
    own.mkdir()
    return key, order(own, slot=slot, round=round, **changes)


def test_a_worker_lives_from_share_to_share(tmp_path: Path, loaded: LoadedJob) -> None:
    listener = Listener(tmp_path)
    workers = set()
    for slot, round in ((0, 0), (1, 0), (1, 1)):
        key, wanted = share(tmp_path, slot, round)
        listener.said.clear()
        done = listener.run(wanted, key=key)["done"]
        part = RoundSlot(round, slot)
        states = loaded.global_state, loaded.local_state
        expected = train_share(loaded, part, *states, backend=backend(Engine("numpy")))
        assert [b.root for b in listener.boundaries()] == roots(expected)
        assert bytes.fromhex(done["update_root"]) == expected.update_root
        folder = Path(wanted.folder)
        assert (folder / UPDATE).read_bytes() == encode_state(expected.update)
        assert len(list(folder.iterdir())) == 2 * (SEGMENTS + 1) + 2
        workers.add(tuple(listener.trainer.pids()))
        # what its share no longer needs to be stopped for
        listener.trainer.stop(key)
    assert len(workers) == 1
    assert len(workers.pop()) == 1
    # nothing of a share is left where the next one is made
    assert not list((tmp_path / "worker").iterdir())
    listener.trainer.close()
    assert not (tmp_path / "worker").exists()


def test_a_job_that_stops_leaves_its_worker_alive_and_a_failure_does_not(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    job = write_odd_job(directory, none_at(0), segment_steps=2, segments=4)
    stops = {
        "job": str(directory),
        "global_in": str(directory / "global.state"),
        "local_in": str(directory / "local.state"),
        "global_root": job.document.global_root,
        "local_root": job.document.local_root,
    }
    listener = Listener(tmp_path)
    pids = list[list[int]]()
    for round, changes in enumerate([stops, stops, {**stops, "local_root": bytes(32)}]):
        (own := tmp_path / str(round)).mkdir()
        key = replace(KEY, round=round)
        answer = listener.run(order(own, slot=0, **changes), key=key)
        assert ("failed" in answer) == (round == 2)
        pids.append(listener.trainer.pids())
    assert pids[0] == pids[1]
    (own := tmp_path / "again").mkdir()
    assert "stopped" in listener.run(order(own, slot=0, **stops), key=replace(KEY, issue=7))
    assert listener.trainer.pids() != pids[0]
    assert not psutil.pid_exists(pids[0][0])


@pytest.mark.parametrize("other", ["order", "program"])
def test_no_worker_meets_another_order_or_another_way(tmp_path: Path, other: str) -> None:
    listener = Listener(tmp_path)
    key, wanted = share(tmp_path, 0)
    listener.run(wanted, key=key)
    (first,) = listener.trainer.pids()
    key, wanted = share(tmp_path, 1)
    behaviour = None
    if other == "order":
        key = replace(key, order_id=bytes(32))
    else:
        behaviour = Program(ASTRAY, "none")
    assert "done" in listener.run(wanted, behaviour, key)
    (second,) = listener.trainer.pids()
    assert first != second
    assert not psutil.pid_exists(first)
    listener.trainer.close()


def test_a_worker_refuses_a_second_job(tmp_path: Path) -> None:
    """Even if it were given one."""
    (own := tmp_path / "own").mkdir()
    orders = [order(own), order(own, job=str(shutil.copytree(TINY, tmp_path / "other")))]
    command = [sys.executable, "-m", "compute_provider.work.worker"]
    done = subprocess.run(
        [*command, str(os.getpid()), str(own), str(8 << 30), str(TINY), str(tmp_path / "other")],
        input=b"".join(codec.encode(each) + b"\n" for each in orders),
        stdout=subprocess.PIPE,
        check=True,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["done" in message for message in said].count(True) == 1
    assert said[-1] == {"failed": "this worker was started for another job", "again": False}


def test_a_worker_that_waits_in_vain_is_ended(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    begun = Queue[dict[str, Any]]()
    listener.react = begun.put
    key, wanted = share(tmp_path, 0)
    listener.trainer.start(key, wanted, Honest().worker(key))
    begun.get(timeout=60)
    # whatever orders there are, it is at a share
    listener.trainer.tend(())
    assert "done" in listener.last.get(timeout=60)
    (first,) = listener.trainer.pids()
    listener.trainer.tend((KEY.order_id,))
    assert listener.trainer.pids() == [first]
    listener.trainer.tend((bytes(32),))
    assert listener.trainer.pids() == []
    assert not psutil.pid_exists(first)
    hasty = Listener(tmp_path, idle_seconds=0.0)
    key, wanted = share(tmp_path, 1)
    assert "done" in hasty.run(wanted, key=key)
    hasty.trainer.tend((KEY.order_id,))
    assert hasty.trainer.pids() == []


def test_a_worker_that_dies_between_shares_is_replaced(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    key, wanted = share(tmp_path, 0)
    listener.run(wanted, key=key)
    (first,) = listener.trainer.pids()
    os.kill(first, 9)
    wait_until(lambda: not listener.trainer.pids(), "the end of the worker", 20)
    key, wanted = share(tmp_path, 1)
    assert "done" in listener.run(wanted, key=key)
    # nothing was said of the share that was done
    assert [m for m in listener.said if "failed" in m] == []
    listener.trainer.close()


@pytest.mark.parametrize(("method", "said"), [("reach", "Permission denied"), ("link", "is not a plain file")])
def test_what_a_share_has_on_disk_is_out_of_its_workers_reach(tmp_path: Path, method: str, said: str) -> None:
    if method == "reach" and landlock_abi() < 1:
        pytest.skip("this kernel has no Landlock")
    key, wanted = share(tmp_path, 0)
    answer = Listener(tmp_path).run(wanted, Program(ASTRAY, method), key)
    assert said in answer["failed"]
    assert not any(path.is_symlink() for path in Path(wanted.folder).iterdir())


def test_a_worker_sees_only_the_files_of_its_share(tmp_path: Path) -> None:
    if landlock_abi() < 1:
        pytest.skip("this kernel has no Landlock")
    key, wanted = share(tmp_path, 0)
    listener = Listener(tmp_path)
    answer = listener.run(wanted, Program(ASTRAY, "see"), key)
    assert "worker.log: Permission denied" in answer["failed"]
    listener.trainer.close()
    assert not (tmp_path / "inputs").exists()


def test_what_a_worker_says_unasked_is_not_heard(tmp_path: Path) -> None:
    key, wanted = share(tmp_path, 0)
    listener = Listener(tmp_path)
    assert "stopped" in listener.run(wanted, Program(ASTRAY, "double"), key)
    wait_until(lambda: not listener.trainer.pids(), "the end of the worker", 20)
    assert [set(message) for message in listener.said] == [{"ready"}, {"stopped"}]


_ODD = "import sys; sys.stdout.write('7\\n[1]\\nnull\\n' + '[' * 100000 + '\\n')"


def test_what_a_worker_says_oddly_is_let_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen

    def odd(command: list[str], **options: Any) -> Any:
        return real([command[0], "-c", _ODD], **options)

    monkeypatch.setattr(subprocess, "Popen", odd)
    assert "the worker process ended" in Listener(tmp_path).run(order(tmp_path))["failed"]


def test_a_worker_that_was_stopped_did_not_fail(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    begun = Queue[dict[str, Any]]()
    listener.react = begun.put
    listener.trainer.start(KEY, order(tmp_path), Honest().worker(KEY))
    begun.get(timeout=60)
    listener.trainer.stop(KEY)
    assert not [message for message in listener.said if "failed" in message]
