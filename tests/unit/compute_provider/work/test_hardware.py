"""Shares of legs in hardware arithmetic, trained by real workers: near the exact ones, with an exact update."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from compute_provider.interfaces import Behaviour
from compute_provider.work.elsewhere import ClusterMachines
from compute_provider.work.trainer import recompute_segment
from compute_provider.work.worker import LOCAL_OUT, UPDATE, WorkOrder, boundary_files
from domain.keys import ShareKey
from localnet.cheats import _PRODUCERS, Cheat
from pol.executor.backend import backend
from pol.executor.hardware import HALVES, Hardware
from pol.executor.hardware_backend import hardware_backend
from pol.executor.names import Engine
from pol.job.load import load_document, load_job
from pol.replay.distances import SegmentEnd, is_same_work
from pol.rules.commitment import boundary_root
from pol.rules.tolerance import BF16, FP32
from pol.state.arrays import State
from pol.state.canonical import encode_state, read_state
from pol.work.cluster.dispatch import NodeReport
from pol.work.pool import ReplayPool
from pol.work.records import Boundary, TrainedShare
from pol.work.replayer import ExecutorReplayer, Lane, Replayer
from pol.work.segments import SlotState, run_segment, slot_state
from pol.work.train import share_update, train_share
from tests.support.tolerant import tolerant
from tests.unit.compute_provider.support import TINY
from tests.unit.compute_provider.work.training import KEY, PART, SEGMENTS, Listener, order

ENGINE = Engine("numpy", threads=1, memory=8 << 30)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tolerant(TINY, tmp_path_factory.mktemp("tolerant") / "job")


@pytest.fixture(scope="module")
def exact() -> TrainedShare:
    loaded = load_job(TINY)
    return train_share(loaded, PART, loaded.global_state, loaded.local_state, backend=backend(Engine("numpy")))


@pytest.fixture(scope="module")
def trained(job: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Listener]:
    """A share in hardware arithmetic that was trained once for all tests that only read it."""
    folder = tmp_path_factory.mktemp("trained")
    listener = Listener(folder)
    done = listener.run(asked(job, folder))
    listener.trainer.close()
    assert "done" in done, (done, (folder / "worker.log").read_text())
    return folder, listener


class Here(Listener):
    """A listener whose worker a fixture ends, since other tests of this process look for workers."""

    made: ClassVar["list[Here]"] = []

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self.made.append(self)


@pytest.fixture(autouse=True)
def no_worker_is_left() -> Iterator[None]:
    yield
    while Here.made:
        Here.made.pop().trainer.close()


def asked(job: Path, folder: Path, **changes: Any) -> WorkOrder:
    return order(folder, **{"job": str(job), "engine": ENGINE, "hardware": True, **changes})


def states_at(folder: Path, index: int) -> tuple[State, State]:
    document = load_document(TINY).document
    first, second = boundary_files(index)
    return (
        read_state(folder / first, document.global_tensors),
        read_state(folder / second, document.local_tensors),
    )


def end_of(states: tuple[State, State], metrics: Sequence[int] = ()) -> SegmentEnd:
    names = load_document(TINY).document.metrics
    return SegmentEnd(*states, dict(zip(names, metrics, strict=False)))


def roots(boundaries: Sequence[Boundary]) -> list[bytes]:
    return [boundary.root for boundary in boundaries]


def test_segments_are_near_another_machine_and_the_update_is_exact(job: Path, trained: tuple[Path, Listener]) -> None:
    folder, listener = trained
    loaded = load_job(job)
    tolerance = loaded.job.document.tolerance
    assert tolerance is not None
    other = hardware_backend(Hardware(order=HALVES, threads=1))
    boundaries = listener.boundaries()
    differ = 0
    for index in range(SEGMENTS):
        before = states_at(folder, index)
        end, boundary = run_segment(loaded, PART, index, slot_state(loaded, *before), other)
        claim = states_at(folder, index + 1)
        assert SlotState(*claim).roots == (boundaries[index + 1].global_root, boundaries[index + 1].local_root)
        here = end_of((end.global_state, end.local_state), boundary.metrics)
        assert is_same_work(tolerance, end_of(before), here, end_of(claim, boundaries[index + 1].metrics))
        differ += boundary.root != boundaries[index + 1].root
    assert differ, "the machines should have different bits"
    last = SlotState(*states_at(folder, SEGMENTS))
    update = share_update(loaded, loaded.global_state, last, backend(Engine("numpy")))
    assert (folder / UPDATE).read_bytes() == encode_state(update.update)
    assert (folder / LOCAL_OUT).read_bytes() == encode_state(update.local_out)


@pytest.mark.parametrize("precision", [FP32, BF16])
def test_the_precision_is_that_of_the_job(tmp_path: Path, precision: str) -> None:
    job = tolerant(TINY, tmp_path / "job", precision)
    listener = Here(tmp_path)
    done = listener.run(asked(job, tmp_path))
    assert "done" in done, (done, (tmp_path / "worker.log").read_text())
    loaded = load_job(job)
    start = slot_state(loaded, loaded.global_state, loaded.local_state)
    _, boundary = run_segment(loaded, PART, 0, start, hardware_backend(Hardware(precision, threads=1)))
    assert listener.boundaries()[1].root == boundary.root


def test_the_tier_and_the_job_both_have_to_ask_for_it(job: Path, tmp_path: Path, exact: TrainedShare) -> None:
    for trained_job, hardware in ((job, False), (TINY, True)):
        folder = tmp_path / str(hardware)
        folder.mkdir()
        listener = Here(folder)
        assert "done" in listener.run(asked(trained_job, folder, hardware=hardware))
        assert roots(listener.boundaries()) == roots(exact.boundaries)


def test_a_worker_serves_one_arithmetic(job: Path, tmp_path: Path, exact: TrainedShare) -> None:
    listener = Here(tmp_path)
    listener.run(asked(job, tmp_path))
    listener.said.clear()
    listener.run(asked(job, tmp_path, hardware=False))
    assert roots(listener.boundaries()) == roots(exact.boundaries)


def test_training_goes_on_after_kill_9(job: Path, tmp_path: Path) -> None:
    first = Here(tmp_path)

    def kill(message: dict[str, Any]) -> None:
        if message.get("boundary", {}).get("index") == 2:
            for pid in first.trainer.pids():
                os.kill(pid, 9)

    first.react = kill
    first.run(asked(job, tmp_path))
    known = first.boundaries()[:3]
    second = Here(tmp_path)
    assert "done" in second.run(asked(job, tmp_path, boundaries=known))
    assert [b.index for b in second.boundaries()] == list(range(3, SEGMENTS + 1))


def test_a_machine_without_torch_says_so_once_for_the_order(job: Path, tmp_path: Path) -> None:
    class Torchless(Behaviour):
        def worker(self, key: ShareKey) -> Sequence[str]:
            return ("tests.unit.compute_provider.work.torchless",)

    failed = Here(tmp_path).run(asked(job, tmp_path), Torchless())  # type: ignore[abstract]
    assert (failed["again"], failed["unable"]) == (False, True)
    assert "no torch" in failed["failed"]
    assert "pip install" in failed["failed"]
    exact = Here(tmp_path).run(asked(job, tmp_path, hardware=False), Torchless())  # type: ignore[abstract]
    assert "done" in exact


def test_a_precision_that_this_machine_lacks(tmp_path: Path) -> None:
    job = tolerant(TINY, tmp_path / "job", "tf32")
    failed = Here(tmp_path).run(asked(job, tmp_path))
    assert failed["unable"] is True
    assert "processors have no tf32" in failed["failed"]


# --- before a contest ----------------------------------------------------------------------------


@pytest.mark.parametrize("segment", [0, 2, SEGMENTS - 1])
def test_a_right_segment_agrees_again(job: Path, trained: tuple[Path, Listener], tmp_path: Path, segment: int) -> None:
    folder, listener = trained
    known = listener.boundaries()
    home = tmp_path / "recheck"
    assert recompute_segment(asked(job, folder, boundaries=known), segment, home) == known[segment + 1]
    assert not home.exists()


def test_a_segment_of_other_bits_agrees_and_a_wrong_one_does_not(
    job: Path, trained: tuple[Path, Listener], tmp_path: Path
) -> None:
    folder, listener = trained
    known, loaded = listener.boundaries(), load_job(job)
    share = tmp_path / "share"
    share.mkdir()
    for index in range(2):
        for name in boundary_files(index):
            (share / name).write_bytes((folder / name).read_bytes())
    start = slot_state(loaded, *states_at(folder, 1))
    near, _ = run_segment(loaded, PART, 1, start, hardware_backend(Hardware(order=HALVES, threads=1)))
    for states, agrees in (
        ((near.global_state, near.local_state), True),
        (states_at(folder, 3), False),
        (states_at(folder, 1), False),
    ):
        first, second = SlotState(*states).roots
        claim = replace(
            known[2],
            global_root=first,
            local_root=second,
            root=boundary_root(first, second, known[2].metrics),
        )
        assert claim != known[2]
        for name, state in zip(boundary_files(2), states, strict=True):
            (share / name).write_bytes(encode_state(state))
        work = asked(job, share, boundaries=(*known[:2], claim))
        assert (recompute_segment(work, 1, tmp_path / "recheck") == claim) is agrees
    (share / boundary_files(2)[0]).write_bytes(b"torn")
    assert recompute_segment(work, 1, tmp_path / "recheck") is None


@pytest.mark.parametrize("method", _PRODUCERS)
def test_cheats_train_in_hardware_arithmetic_too(job: Path, tmp_path: Path, method: str) -> None:
    listener = Here(tmp_path)
    last = listener.run(asked(job, tmp_path), Cheat(method, None))
    assert "failed" not in last, (last, (tmp_path / "worker.log").read_text())


# --- a provider whose machines are elsewhere -----------------------------------------------------


class Elsewhere(Listener):
    """A listener whose trainer is a cluster of two processes on this machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)

        def start(_executor: str, _engine: Engine, lanes: Sequence[Lane], _folder: Path, on_nodes: Any) -> Replayer:
            (lane,) = lanes
            on_nodes((NodeReport("a", "127.0.0.1", 2, 4 << 30, "", ()),))
            return ExecutorReplayer({lane.name: ReplayPool(2, folder=lane.folder, reads=[TINY, folder])})

        self.machines = ClusterMachines("ray://here:1", ENGINE, self.hear, folder / "home", start=start)
        self.trainer = self.machines  # type: ignore[assignment]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    made = Elsewhere(tmp_path)
    yield made
    made.machines.close()


def test_a_cluster_leaves_hardware_arithmetic_to_this_machine_one_share_at_a_time(
    job: Path, trained: tuple[Path, Listener], elsewhere: Elsewhere, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = [KEY, replace(KEY, issue=KEY.issue + 1)]
    heard: list[ShareKey] = []
    hear = elsewhere.hear

    def listen(key: ShareKey, message: dict[str, Any]) -> None:
        heard.append(key)
        hear(key, message)

    elsewhere.machines._listen = listen
    for number, key in enumerate(keys):
        folder = tmp_path / str(number)
        folder.mkdir()
        elsewhere.machines.start(key, asked(job, folder), ("compute_provider.work.worker",))
        assert len(elsewhere.machines.pids()) == 1
    for _ in keys:
        assert "done" in elsewhere.last.get(timeout=60)
        elsewhere.machines.tend({KEY.order_id})
    assert heard == [key for key in keys for _ in range(len(heard) // 2)]
    for number in range(len(keys)):
        ends = [SlotState(*states_at(folder, SEGMENTS)).roots for folder in (tmp_path / str(number), trained[0])]
        assert ends[0] == ends[1]
    assert sum("this machine alone" in record.message for record in caplog.records) == 1
    known = trained[1].boundaries()
    recheck = elsewhere.machines.recompute(asked(job, trained[0], boundaries=known), 1, tmp_path / "recheck")
    assert recheck == known[2]


def test_a_share_that_waits_is_forgotten_when_it_is_stopped(job: Path, elsewhere: Elsewhere, tmp_path: Path) -> None:
    keys = [replace(KEY, issue=KEY.issue + number) for number in range(3)]
    for number, key in enumerate(keys):
        folder = tmp_path / str(number)
        folder.mkdir()
        elsewhere.machines.start(key, asked(job, folder), ("compute_provider.work.worker",))
    elsewhere.machines.stop(keys[1])
    elsewhere.machines.stop(keys[0])
    elsewhere.machines.tend({KEY.order_id})
    assert "done" in elsewhere.last.get(timeout=60)
    assert elsewhere.last.empty()
    assert (tmp_path / "2" / UPDATE).exists()
    assert not (tmp_path / "1" / UPDATE).exists()
