"""A provider's share that several machines of its owner train together: the bits of one process, and losses."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from compute_provider.work.elsewhere import ClusterMachines
from compute_provider.work.prober import ProbeTask
from compute_provider.work.trainer import HONEST
from compute_provider.work.worker import LOCAL_OUT, UPDATE
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.job.write import write_job
from pol.machines.form import Shape, shape_of
from pol.work.cluster.dispatch import NodeReport
from pol.work.executor import LOCAL
from pol.work.probe import work_pieces
from pol.work.records import RoundSlot, TrainedShare
from pol.work.train import train_share
from tests.support.waiting import wait_until
from tests.unit.compute_provider.support import TINY
from tests.unit.compute_provider.work.training import KEY, PART, SEGMENTS, Listener, order
from tests.unit.pol.odd_jobs import none_at, write_odd_job
from tests.unit.pol.tiny import tiny_source

ENGINE = Engine("numpy", threads=1, memory=2 << 30)


class Together(Listener):
    """A listener whose trainer is a group of processes here."""

    def __init__(self, folder: Path, shape: Shape = (2, 1)) -> None:
        super().__init__(folder)
        self.folder, self.shape = folder, shape
        self.made()

    def made(self) -> ClusterMachines:
        self.nodes: tuple[NodeReport, ...] = ()
        home = self.folder / "home"
        self.machines = ClusterMachines(LOCAL, ENGINE, self.hear, home, self.see, machines=self.shape)
        self.trainer = self.machines  # type: ignore[assignment]
        return self.machines

    def see(self, nodes: tuple[NodeReport, ...]) -> None:
        self.nodes = nodes

    def job(self, source: Path) -> str:
        """Put a job where the provider keeps its jobs: no process can read another place."""
        to = self.folder / "home" / "jobs" / source.name
        if not to.exists():
            shutil.copytree(source, to)
        return str(to)

    def order(self, folder: Path, **changes: Any) -> Any:
        return order(folder, **{"job": self.job(TINY), "engine": ENGINE, **changes})


@pytest.fixture
def together(tmp_path: Path) -> Iterator[Together]:
    made = Together(tmp_path)
    yield made
    made.machines.close()


@pytest.fixture(scope="module")
def right() -> TrainedShare:
    loaded = load_job(TINY)
    return train_share(loaded, PART, loaded.global_state, loaded.local_state, backend=backend(Engine("numpy")))


def files(folder: Path) -> list[bytes]:
    names = [UPDATE, LOCAL_OUT, *(f"{index}.{kind}" for index in range(SEGMENTS + 1) for kind in ("global", "local"))]
    return [(folder / name).read_bytes() for name in names]


def test_a_share_has_the_same_bits_and_messages_as_that_of_one_process(together: Together, tmp_path: Path) -> None:
    home = tmp_path / "here"
    home.mkdir()
    here = Listener(home)
    here.run(order(home))
    here.trainer.close()
    done = together.run(together.order(tmp_path))
    assert done == here.said[-1]
    assert together.boundaries() == here.boundaries()
    steps = [message for message in together.said if "step" in message]
    assert steps == [message for message in here.said if "step" in message]
    assert together.said[0]["ready"]["steps"] == here.said[0]["ready"]["steps"]
    assert files(tmp_path) == files(home)
    assert together.machines.slots == 1
    assert len(together.machines.pids()) == 2
    together.machines.tend(())
    assert together.machines.pids()
    tasks = ("compute_update", 1), ("train_segment", SEGMENTS)
    assert [(node.ended, node.fault) for node in together.nodes] == [(tasks, "")] * 2


def test_a_lost_member_costs_a_segment_and_changes_no_bit(
    together: Together, tmp_path: Path, right: TrainedShare
) -> None:
    def react(message: dict[str, Any]) -> None:
        if message.get("boundary", {}).get("index") == 2:
            os.kill(together.machines.pids()[-1], signal.SIGKILL)

    together.react = react
    done = together.run(together.order(tmp_path))
    assert bytes.fromhex(done["done"]["update_root"]) == right.update_root
    assert [boundary.root for boundary in together.boundaries()] == [boundary.root for boundary in right.boundaries]
    # After the loss another process takes the place of the one that was lost.
    assert len(together.machines.pids()) == 2
    together.machines.tend(())
    assert sorted(dict(node.ended)["train_segment"] for node in together.nodes) == [SEGMENTS - 1, SEGMENTS]


def test_training_goes_on_from_the_last_boundary(together: Together, tmp_path: Path, right: TrainedShare) -> None:
    known = 3
    together.run(together.order(tmp_path))
    before = together.boundaries()[: known + 1]
    together.said.clear()
    together.machines.close()
    together.made()
    # A damaged boundary is not used.
    (tmp_path / f"{known}.global").write_bytes(bytes(99))
    done = together.run(together.order(tmp_path, boundaries=before))
    assert bytes.fromhex(done["done"]["update_root"]) == right.update_root


def test_an_update_is_not_made_of_damaged_states(together: Together, tmp_path: Path, right: TrainedShare) -> None:
    """The share goes on from an earlier boundary; the bytes are those of a state, but have another root."""
    together.run(together.order(tmp_path))
    known = together.boundaries()
    for name in (UPDATE, LOCAL_OUT):
        (tmp_path / name).unlink()
    last = tmp_path / f"{SEGMENTS}.local"
    data = bytearray(last.read_bytes())
    data[-4:] = np.float32(0.5).tobytes()
    last.unlink()
    last.write_bytes(bytes(data))
    done = together.run(together.order(tmp_path, boundaries=known))
    assert bytes.fromhex(done["done"]["update_root"]) == right.update_root
    assert (tmp_path / f"{SEGMENTS}.local").read_bytes() != bytes(data)


def test_what_the_chain_does_not_name_and_what_does_not_load_is_refused(together: Together, tmp_path: Path) -> None:
    failed = together.run(together.order(tmp_path, global_root=bytes(32)))
    assert failed["again"] is False
    assert "root" in failed["failed"]
    (tmp_path / "home" / "jobs" / "odd").mkdir()
    failed = together.run(together.order(tmp_path, job=str(tmp_path / "home" / "jobs" / "odd")))
    assert failed["again"] is False


def test_a_job_stops_where_it_stops_on_one_machine(together: Together, tmp_path: Path) -> None:
    job = write_odd_job(tmp_path / "odd", none_at(4), segment_steps=2, segments=4)
    changes: dict[str, Any] = {
        "global_in": str(tmp_path / "odd" / "global.state"),
        "local_in": str(tmp_path / "odd" / "local.state"),
        "global_root": job.document.global_root,
        "local_root": job.document.local_root,
        "slot": 0,
    }
    home = tmp_path / "here"
    home.mkdir()
    here = Listener(home)
    stopped = here.run(order(home, job=str(tmp_path / "odd"), **changes))
    here.trainer.close()
    assert together.run(together.order(tmp_path, job=together.job(tmp_path / "odd"), **changes)) == stopped
    assert "stopped" in stopped
    assert together.boundaries() == here.boundaries()


def test_a_slot_begins_with_a_local_state_of_its_own(together: Together, tmp_path: Path) -> None:
    source = tiny_source(1, 2, 1)
    own = {name: np.full_like(array, 0.25) for name, array in source.local_state.items()}
    write_job(tmp_path / "goes-on", replace(source, first_step=1, slot_states=(source.local_state, own)))
    loaded = load_job(tmp_path / "goes-on")
    document = loaded.job.document
    for slot in range(2):
        folder = tmp_path / str(slot)
        folder.mkdir()
        changes: dict[str, Any] = {
            "job": together.job(tmp_path / "goes-on"),
            "global_in": str(tmp_path / "goes-on" / "global.state"),
            "local_in": str(tmp_path / "goes-on" / "local.state"),
            "global_root": document.global_root,
            "local_root": document.local_root,
            "slot": slot,
        }
        done = together.run(together.order(folder, **changes))
        part = RoundSlot(PART.round, slot)
        share = train_share(loaded, part, loaded.global_state, loaded.local_state, backend=backend(ENGINE))
        assert bytes.fromhex(done["done"]["update_root"]) == share.update_root
        assert together.boundaries() == share.boundaries
        together.said.clear()


def test_a_stopped_share_ends_its_group_and_says_nothing_more(together: Together, tmp_path: Path) -> None:
    said = Event()
    together.react = lambda message: said.set() if "boundary" in message else None
    together.machines.start(KEY, together.order(tmp_path), HONEST)
    assert said.wait(60)
    together.machines.stop(KEY)
    count = len(together.said)
    groups: Any = together.machines._groups
    wait_until(lambda: not groups._busy, "the group to end", 30)
    assert len(together.said) == count
    assert together.last.empty()


def test_a_segment_is_recomputed_in_the_group(together: Together, tmp_path: Path) -> None:
    together.run(together.order(tmp_path))
    known = together.boundaries()
    home = tmp_path / "recheck"
    assert together.machines.recompute(together.order(tmp_path, boundaries=known), 2, home) == known[3]
    wrong = (*known[:2], replace(known[2], global_root=bytes(32)))
    assert together.machines.recompute(together.order(tmp_path, boundaries=wrong), 2, home) == known[3]


@pytest.mark.parametrize(("shape", "members"), [((2, 1), 1), (2, 1), ((1, 2), 2)])
def test_a_group_is_as_fast_as_its_machines_that_compute_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: Shape, members: int
) -> None:
    together = Together(tmp_path, shape)
    try:
        speed = together.machines.measure(0.05)
        assert speed.flops == speed.slowest
        assert speed.flops % members == 0
        assert speed.memory == ENGINE.memory
        assert speed.computing.startswith(f"numpy within a group of {'x'.join(map(str, shape_of(shape)))} machines of")
        asked: list[Any] = []
        submit: Callable[..., Any] = together.machines._executor.submit

        def noted(function: Any, *args: Any, timeout: float) -> Any:
            asked.append(args)
            return submit(function, *args, timeout=timeout)

        monkeypatch.setattr(together.machines._executor, "submit", noted)
        probe: ProbeTask
        with together.machines.probing(Event()) as probe:
            del asked[:]
            assert probe(b"seed", 5) == work_pieces(b"seed", range(5), backend(ENGINE))
            assert len(asked) == members
    finally:
        together.machines.close()
