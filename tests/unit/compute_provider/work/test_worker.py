"""The worker process: right traces, and going on after kill -9."""

import os
import shutil
import sqlite3
import subprocess
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from compute_provider.interfaces import Honest
from compute_provider.work.worker import LOCAL_OUT, UPDATE
from pol.executor.backend import backend
from pol.job.load import LoadedJob, load_job
from pol.state.canonical import encode_state
from pol.work.records import TrainedShare
from pol.work.train import train_share
from tests.unit.compute_provider.support import TINY
from tests.unit.compute_provider.work.training import KEY, PART, SEGMENTS, Listener, order
from tests.unit.pol.odd_jobs import none_at, write_odd_job


@pytest.fixture(scope="module")
def loaded() -> LoadedJob:
    return load_job(TINY)


@pytest.fixture(scope="module")
def right(loaded: LoadedJob) -> TrainedShare:
    return train_share(
        loaded, PART, loaded.global_state, loaded.local_state, backend=backend("numpy")
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Listener]:
    """A share that was trained once for all tests that only read it."""
    folder = tmp_path_factory.mktemp("trained")
    listener = Listener(folder)
    listener.run(order(folder))
    return folder, listener


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
    assert listener.said[0]["ready"]["steps"] == 10
    assert [m["step"] for m in listener.said if "step" in m] == list(range(1, 11))


def test_torch_trains_in_the_sandbox_to_the_same_bits(tmp_path: Path, right: TrainedShare) -> None:
    listener = Listener(tmp_path)
    done = listener.run(replace(order(tmp_path), backend="torch"))
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
    assert answer == {"stopped": f"step {step}, global.w: holds NaN or infinity"}
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
    (tmp_path / "0.global").mkdir()
    answer = Listener(tmp_path).run(order(tmp_path))
    assert "0.global" in answer["failed"]
    assert "Is a directory" in answer["failed"]
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
    listener.trainer.start(KEY, order(tmp_path), Honest().worker(KEY))
    begun.get(timeout=60)
    listener.trainer.stop(KEY)
    assert not [message for message in listener.said if "failed" in message]
