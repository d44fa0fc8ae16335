"""A provider's training on other machines, here with pools of processes in place of a cluster."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from compute_provider.interfaces import ProviderError
from compute_provider.work.elsewhere import ClusterMachines
from compute_provider.work.prober import ProbeTask
from compute_provider.work.trainer import HONEST
from compute_provider.work.worker import LOCAL_OUT, UPDATE
from domain import codec
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.state.canonical import encode_state
from pol.work.cluster.dispatch import NodeReport
from pol.work.pool import ReplayPool
from pol.work.probe import work_pieces
from pol.work.records import Boundary, TrainedShare
from pol.work.replayer import ExecutorReplayer, Lane, Replayer
from pol.work.train import train_share
from tests.support.waiting import wait_until
from tests.unit.compute_provider.support import TINY
from tests.unit.compute_provider.work.training import KEY, PART, SEGMENTS, Listener, order
from tests.unit.pol.odd_jobs import none_at, write_odd_job

ENGINE = Engine("numpy", memory=8 << 30)
OTHER = replace(KEY, slot=0)
NodesSeen = Callable[[tuple[NodeReport, ...]], None]


def node(name: str, processors: int = 1, problem: str = "") -> NodeReport:
    return NodeReport(name, "127.0.0.1", processors, 4 << 30, problem, ())


class Elsewhere(Listener):
    """A listener whose trainer is a cluster of ``processes`` processes on this machine."""

    def __init__(self, folder: Path, processes: int = 1) -> None:
        super().__init__(folder)
        self.folder, self.processes = folder, processes
        self.machines = self.made()

    def made(self) -> ClusterMachines:
        def start(
            _executor: str, _engine: Engine, lanes: Sequence[Lane], _folder: Path, on_nodes: NodesSeen
        ) -> Replayer:
            (lane,) = lanes
            pool = ReplayPool(self.processes, folder=lane.folder, reads=[TINY, self.folder])
            on_nodes((node("a", self.processes), node("b", 4, "it does not answer")))
            return ExecutorReplayer({lane.name: pool})

        self.machines = ClusterMachines("ray://here:1", ENGINE, self.hear, self.folder / "home", start=start)
        self.trainer = self.machines  # type: ignore[assignment]
        return self.machines


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    made = Elsewhere(tmp_path)
    yield made
    made.machines.close()


@pytest.fixture(scope="module")
def right() -> TrainedShare:
    loaded = load_job(TINY)
    return train_share(loaded, PART, loaded.global_state, loaded.local_state, backend=backend(Engine("numpy")))


def roots(boundaries: Sequence[Boundary]) -> list[bytes]:
    return [boundary.root for boundary in boundaries]


def test_a_share_has_the_same_bits_and_messages_as_on_this_machine(
    elsewhere: Elsewhere, tmp_path: Path, right: TrainedShare
) -> None:
    home = tmp_path / "here"
    home.mkdir()
    here = Listener(home)
    here.run(order(home))
    here.trainer.close()
    done = elsewhere.run(order(tmp_path))
    assert done == here.said[-1]
    assert elsewhere.boundaries() == here.boundaries()
    steps = [message for message in elsewhere.said if "step" in message]
    assert steps == [message for message in here.said if "step" in message]
    assert elsewhere.said[0]["ready"]["steps"] == here.said[0]["ready"]["steps"]
    names = [UPDATE, LOCAL_OUT, *(f"{index}.{kind}" for index in range(SEGMENTS + 1) for kind in ("global", "local"))]
    assert [(tmp_path / name).read_bytes() for name in names] == [(home / name).read_bytes() for name in names]
    assert (tmp_path / UPDATE).read_bytes() == encode_state(right.update)


@pytest.mark.parametrize("known", [1, 3, SEGMENTS])
def test_training_goes_on_from_the_last_boundary(
    elsewhere: Elsewhere, tmp_path: Path, right: TrainedShare, known: int
) -> None:
    elsewhere.run(order(tmp_path))
    before = elsewhere.boundaries()[: known + 1]
    for index in range(known + 1, SEGMENTS + 1):
        (tmp_path / f"{index}.global").unlink()
    elsewhere.said.clear()
    elsewhere.machines.close()
    elsewhere.made()
    done = elsewhere.run(order(tmp_path, boundaries=before))
    assert bytes.fromhex(done["done"]["update_root"]) == right.update_root
    assert roots(elsewhere.boundaries()) == roots(right.boundaries)[known + 1 :]


@pytest.mark.parametrize("known", [2, SEGMENTS])
def test_a_damaged_boundary_is_not_used(elsewhere: Elsewhere, tmp_path: Path, right: TrainedShare, known: int) -> None:
    elsewhere.run(order(tmp_path))
    before = elsewhere.boundaries()[: known + 1]
    path = tmp_path / f"{known}.global"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()
    path.write_bytes(data)
    elsewhere.said.clear()
    done = elsewhere.run(order(tmp_path, boundaries=before))
    assert bytes.fromhex(done["done"]["update_root"]) == right.update_root
    assert roots(elsewhere.boundaries()) == roots(right.boundaries)[known:]


def test_states_that_the_chain_does_not_name_are_refused(elsewhere: Elsewhere, tmp_path: Path) -> None:
    failed = elsewhere.run(order(tmp_path, global_root=bytes(32)))
    assert failed["again"] is False
    assert "roots" in failed["failed"]


def test_a_job_that_does_not_load_is_refused(elsewhere: Elsewhere, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    failed = elsewhere.run(order(tmp_path, job=str(tmp_path / "job")))
    assert failed["again"] is False


def test_a_job_stops_where_it_stops_on_this_machine(elsewhere: Elsewhere, tmp_path: Path) -> None:
    job = write_odd_job(tmp_path / "job", none_at(4), segment_steps=2, segments=4)
    changes: dict[str, Any] = {
        "job": str(tmp_path / "job"),
        "global_in": str(tmp_path / "job" / "global.state"),
        "local_in": str(tmp_path / "job" / "local.state"),
        "global_root": job.document.global_root,
        "local_root": job.document.local_root,
        "slot": 0,
    }
    home = tmp_path / "here"
    home.mkdir()
    here = Listener(home)
    stopped = here.run(order(home, **changes))
    here.trainer.close()
    assert elsewhere.run(order(tmp_path, **changes)) == stopped
    assert "stopped" in stopped
    assert elsewhere.boundaries() == here.boundaries()


def test_a_stopped_share_says_nothing_more(elsewhere: Elsewhere, tmp_path: Path) -> None:
    said = threading.Event()
    elsewhere.react = lambda message: said.set() if "boundary" in message else None
    elsewhere.machines.start(KEY, order(tmp_path), HONEST)
    assert said.wait(60)
    elsewhere.machines.stop(KEY)
    count = len(elsewhere.said)
    for thread in threading.enumerate():
        if thread.name.startswith("share-"):
            thread.join(60)
            assert not thread.is_alive()
    assert len(elsewhere.said) == count
    assert elsewhere.last.empty()


def test_two_shares_are_trained_at_once(tmp_path: Path, right: TrainedShare) -> None:
    elsewhere = Elsewhere(tmp_path, processes=2)
    try:
        assert elsewhere.machines.slots == 2
        for key in (KEY, OTHER):
            folder = tmp_path / str(key.slot)
            folder.mkdir()
            asked = order(folder, slot=key.slot)
            elsewhere.machines.start(key, asked, HONEST)
            elsewhere.machines.start(key, asked, HONEST)
        executor = elsewhere.machines._executor
        wait_until(lambda: executor.running == 2, "both to be trained", 60)
        ends = [elsewhere.last.get(timeout=60) for _ in range(2)]
        assert right.update_root.hex() in [end["done"]["update_root"] for end in ends]
        assert elsewhere.last.empty()
    finally:
        elsewhere.machines.close()


def test_a_program_that_is_not_honest_runs_nowhere_else(elsewhere: Elsewhere, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="does not run the program"):
        elsewhere.machines.start(KEY, order(tmp_path), ("localnet.cheats", "worker", "garbage"))


def test_a_segment_is_recomputed_elsewhere(elsewhere: Elsewhere, tmp_path: Path) -> None:
    elsewhere.run(order(tmp_path))
    known = elsewhere.boundaries()
    home = tmp_path / "recheck"
    recompute = elsewhere.machines.recompute
    assert recompute(order(tmp_path, boundaries=known), 2, home) == known[3]
    wrong = replace(known[2], global_root=bytes(32))
    assert recompute(order(tmp_path, boundaries=(*known[:2], wrong)), 1, home) == known[2] != wrong
    assert recompute(order(tmp_path, boundaries=(*known[:2], wrong)), 2, home) == known[3]
    assert recompute(order(tmp_path, boundaries=known, job=str(tmp_path / "gone")), 2, home) is None
    assert not home.exists()


def test_the_speed_is_that_of_one_process(elsewhere: Elsewhere) -> None:
    speed = elsewhere.machines.measure(0.1)
    assert speed.flops > 0
    assert speed.memory == ENGINE.memory
    assert speed.computing == "numpy within a process of the cluster at ray://here:1"


def test_a_probe_is_computed_by_all_processes(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path, processes=2)
    probe: ProbeTask
    try:
        with elsewhere.machines.probing(Event()) as probe:
            for pieces in (1, 2, 5):
                assert probe(b"seed", pieces) == work_pieces(b"seed", range(pieces), backend(ENGINE))
    finally:
        elsewhere.machines.close()


def test_without_a_node_nothing_is_measured(elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compute_provider.work.elsewhere.START_SECONDS", 0.3)
    elsewhere.machines._see((node("a", problem="it does not answer"),))
    assert elsewhere.machines.slots == 0
    with pytest.raises(ProviderError, match="no node"):
        elsewhere.machines.measure(0.1)


def test_boundaries_are_records(elsewhere: Elsewhere, tmp_path: Path) -> None:
    elsewhere.run(order(tmp_path))
    plain = [message["boundary"] for message in elsewhere.said if "boundary" in message]
    assert [codec.from_plain(Boundary, each).index for each in plain] == list(range(SEGMENTS + 1))
