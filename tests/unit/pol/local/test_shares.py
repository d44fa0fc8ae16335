"""Shares of a local run that are trained elsewhere: here in a pool of processes, which is an executor, too."""

from pathlib import Path
from typing import Any

import pytest

from pol.errors import JobError
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.local import shares
from pol.local.run import run_locally
from pol.state.canonical import encode_state
from pol.work.replayer import ExecutorReplayer, Lane, start_replayer

FIXTURE = Path(__file__).parents[3] / "fixtures" / "job_tiny"
ENGINE = Engine("numpy", memory=1 << 30)


@pytest.fixture
def pool_as_cluster(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Let every cluster be a pool on this machine; return the folders that its tasks could read."""
    read: list[Path] = []

    def start(_executor: str, engine: Engine, lanes: Any, folder: Path) -> Any:
        (lane,) = lanes
        assert isinstance(lane, Lane)
        read.extend(lane.reads)
        replayer = start_replayer("local", engine, lanes, folder)
        assert isinstance(replayer, ExecutorReplayer)
        return replayer

    monkeypatch.setattr(shares, "start_replayer", start)
    return read


def test_the_result_is_the_same(pool_as_cluster: list[Path], tmp_path: Path) -> None:
    here = run_locally(FIXTURE, engine=ENGINE)
    there = run_locally(FIXTURE, engine=ENGINE, executor="ray://10.0.0.1:1")
    assert (there.rounds, there.before, there.after) == (here.rounds, here.before, here.after)
    assert there.position == here.position
    assert encode_state(there.state) == encode_state(here.state)
    assert [encode_state(local) for local in there.locals] == [encode_state(local) for local in here.locals]
    assert (there.losses == here.losses).all()
    # Everything that was written for the tasks is gone.
    assert pool_as_cluster
    assert not pool_as_cluster[0].exists()


def test_only_the_files_of_the_job_travel(tmp_path: Path) -> None:
    job = load_job(FIXTURE)
    shares.link_job(FIXTURE, job, tmp_path / "job")
    linked = {str(path.relative_to(tmp_path / "job")) for path in (tmp_path / "job").rglob("*") if path.is_file()}
    assert {file.path for file in job.job.payload} <= linked
    assert load_job(tmp_path / "job").job.id == job.job.id


def test_states_of_boundaries_are_not_kept_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="the states stay on the machines of the cluster"):
        run_locally(FIXTURE, engine=ENGINE, out=tmp_path, keep_states=True, executor="ray://10.0.0.1:1")
