"""The daemon's side of a cluster, with drivers that do as they are told, die, are silent, or lie."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pol.executor.names import Engine
from pol.work.cluster import client
from pol.work.cluster.client import Cluster, ClusterUnusable, check_usable
from pol.work.cluster.node import LaneSpec
from pol.work.executor import OutOfMemory, PoolClosed, PoolFull, TaskTimeout, WorkerDied, address_of
from pol.work.replayer import start_replayer
from tests.unit.pol.work.cluster import tasks
from tests.unit.pol.work.cluster.fake_driver import NODE

WAIT = 30.0
ROOT = Path(__file__).parents[5]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSE_SECONDS", (0.05, 0.1))
    monkeypatch.setattr(client, "LATE_SECONDS", 0.3)
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])


@contextmanager
def cluster(tmp_path: Path, what: str) -> Iterator[Cluster]:
    command = (sys.executable, "-P", "-m", "tests.unit.pol.work.cluster.fake_driver", what)
    made = Cluster(
        "10.0.0.1:6379",
        [LaneSpec("own"), LaneSpec("seats"), LaneSpec("trials", 1)],
        Engine(),
        tmp_path / "d",
        command=command,
    )
    try:
        yield made
    finally:
        made.close()


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_tasks_and_their_errors_come_back(tmp_path: Path) -> None:
    ended: list[BaseException | None] = []
    with cluster(tmp_path, "runs") as made:
        own = made.executor("own", ended=lambda seconds, error: ended.append(error))
        (tmp_path / "in").write_bytes(b"state")
        assert own.submit(tasks.reads, tmp_path / "in", timeout=WAIT).result(WAIT) == b"state"
        failed = own.submit(tasks.fail, "no", timeout=WAIT)
        with pytest.raises(Exception, match="no; try another one"):
            failed.result(WAIT)
        assert own.width >= 1
        until(lambda: made.nodes == (NODE,))
        assert own.width == NODE.processors
        assert (own.running, own.waiting, made.problem) == (0, 0, "")
        until(lambda: len(ended) == 2)
    assert [type(error).__name__ for error in ended] == ["NoneType", "Expected"]
    with pytest.raises(PoolClosed):
        own.submit(tasks.parent)


def test_a_task_says_its_node(tmp_path: Path) -> None:
    with cluster(tmp_path, "node") as made:
        own = made.executor("own", queued=0)
        with pytest.raises(PoolFull):
            own.at("aaaa").submit(tasks.parent)
        own = made.executor("own")
        assert own.at("aaaa").submit(tasks.parent, timeout=WAIT).result(WAIT) == "aaaa"
        assert not own.submit(tasks.parent, timeout=WAIT).result(WAIT)
        own.close()
        with pytest.raises(PoolClosed):
            own.at("aaaa").submit(tasks.parent)


def test_nodes_that_do_not_work_and_lanes_of_one_process_are_counted_as_they_are(tmp_path: Path) -> None:
    with cluster(tmp_path, "silent") as made:
        made.nodes = (NODE, replace(NODE, name="b", processors=5), replace(NODE, name="c", problem="it is lost"))
        assert made.executor("own").width == NODE.processors + 5
        assert made.executor("trials").width == 2


def test_errors_of_a_pool_keep_their_class(tmp_path: Path) -> None:
    with cluster(tmp_path, "full") as made, pytest.raises(OutOfMemory, match="too large"):
        made.executor("own").submit(tasks.parent, timeout=WAIT).result(WAIT)


def test_a_driver_that_dies_is_replaced_and_gets_the_tasks_again(tmp_path: Path) -> None:
    with cluster(tmp_path, "dies once") as made:
        futures = [made.executor("own").submit(tasks.parent, timeout=WAIT) for _ in range(3)]
        assert all(isinstance(future.result(WAIT), int) for future in futures)


def test_a_driver_that_always_dies_ends_its_tasks(tmp_path: Path) -> None:
    with cluster(tmp_path, "dies") as made:
        future = made.executor("own").submit(tasks.parent, timeout=WAIT)
        with pytest.raises(WorkerDied, match=r"drivers of the cluster at .* ended"):
            future.result(WAIT)


def test_a_cluster_that_refuses_says_why_and_keeps_no_task_for_longer_than_its_deadline(tmp_path: Path) -> None:
    with cluster(tmp_path, "refused") as made:
        future = made.executor("own").submit(tasks.parent, timeout=2.0)
        with pytest.raises(TaskTimeout, match="no such cluster"):
            future.result(WAIT)
        until(lambda: made.problem == "no such cluster")


def test_a_wrong_token_is_noticed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/my/token")
    with cluster(tmp_path, "wrong token") as made:
        until(lambda: made.problem == "it refuses the token in /my/token")


def test_a_silent_driver_holds_no_task_for_longer_than_its_deadline(tmp_path: Path) -> None:
    with cluster(tmp_path, "silent") as made, pytest.raises(TaskTimeout):
        made.executor("own").submit(tasks.parent, timeout=1.0).result(WAIT)


@pytest.mark.parametrize("what", ["evil", "evil message"])
def test_a_driver_makes_only_records_in_the_daemon(tmp_path: Path, what: str) -> None:
    with cluster(tmp_path, what) as made, pytest.raises(WorkerDied):
        made.executor("own").submit(tasks.parent, timeout=WAIT).result(WAIT)


def test_the_queue_of_a_lane_is_bounded_and_ends_with_it(tmp_path: Path) -> None:
    with cluster(tmp_path, "silent") as made:
        own, seats = made.executor("own", queued=2), made.executor("seats")
        futures = [own.submit(tasks.parent) for _ in range(2)]
        with pytest.raises(PoolFull, match="2 tasks are already waiting"):
            own.submit(tasks.parent)
        other = seats.submit(tasks.parent)
        own.close()
        for future in futures:
            with pytest.raises(PoolClosed):
                future.result(WAIT)
        assert not other.done()
    with pytest.raises(PoolClosed):
        other.result(WAIT)


def test_the_driver_gets_no_secret_of_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASSAY_PASSPHRASE", "AWS_SECRET_ACCESS_KEY", "RAY_AUTH_TOKEN", "RAY_ADDRESS", "HOME"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("RAY_USE_TLS", "1")
    with cluster(tmp_path, "environment") as made:
        names = made.executor("own").submit(tasks.secrets, timeout=WAIT).result(WAIT)
    assert not {"ASSAY_PASSPHRASE", "AWS_SECRET_ACCESS_KEY", "RAY_AUTH_TOKEN", "RAY_ADDRESS", "HOME"} & set(names)
    assert {"RAY_USE_TLS", "RAY_AUTH_MODE", "PYTHONPATH"} <= set(names)


def test_there_is_no_cluster_without_a_token_of_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "find_spec", lambda name: object())
    token = tmp_path / "token"
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    with pytest.raises(ClusterUnusable, match=r"needs a token.*RAY_AUTH_TOKEN_PATH"):
        check_usable("10.0.0.1:6379")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    with pytest.raises(ClusterUnusable, match="cannot be read"):
        check_usable("10.0.0.1:6379")
    token.write_text("\n")
    token.chmod(0o644)
    with pytest.raises(ClusterUnusable, match=r"others than its owner may read the token.*chmod 600"):
        check_usable("10.0.0.1:6379")
    token.chmod(0o600)
    with pytest.raises(ClusterUnusable, match="there is no token in"):
        check_usable("10.0.0.1:6379")
    token.write_text("abc")
    check_usable("10.0.0.1:6379")
    monkeypatch.setattr(client, "find_spec", lambda name: None)
    with pytest.raises(ClusterUnusable, match=r"assay\[ray\]"):
        check_usable("10.0.0.1:6379")
    with pytest.raises(ClusterUnusable):
        start_replayer("ray://10.0.0.1:6379", Engine(), (), tmp_path)


@pytest.mark.parametrize(
    ("text", "address"), [("local", ""), ("ray://10.0.0.1:6379", "10.0.0.1:6379"), ("ray://[::1]:1", "[::1]:1")]
)
def test_executors(text: str, address: str) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize("text", ["", "ray", "ray://", "ray://host", "ray://:1", "ray://h:0", "ray://h:65536", "h:1"])
def test_what_is_no_executor(text: str) -> None:
    with pytest.raises(ValueError, match="is not an executor; write local, or ray://HOST:PORT"):
        address_of(text)


def test_ray_is_not_loaded_by_who_uses_it() -> None:
    import subprocess

    code = (
        "import sys, validator.daemon, validator.watch.daemon; print([n for n in sys.modules if n.startswith('ray')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"
