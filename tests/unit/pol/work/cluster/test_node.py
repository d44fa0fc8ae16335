"""The worker of a node, without a cluster around it: files by hash, and tasks in the sandbox."""

import errno
import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from pol.executor.names import Engine
from pol.work.answers import read_answer
from pol.work.cluster.files import FileRef, PackedTask, pack
from pol.work.cluster.node import LaneSpec, NodeAnswer, NodeWorker, release
from tests.unit.pol.work.cluster import tasks

ENGINE = Engine("numpy", memory=1 << 30)
SECONDS = 60.0


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeWorker]:
    monkeypatch.setattr("pol.work.cluster.node.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/secret")
    lanes = [LaneSpec("own", 1), LaneSpec("trials", 1, fresh=True), LaneSpec("members", 2, inside=True)]
    made = NodeWorker("n1", lanes, 1, ENGINE, "10.0.0.2", quota=1_000)
    yield made
    made.close()


def send(node: NodeWorker, number: int, task: PackedTask) -> int:
    """Send what the node lacks; return how many files that were."""
    files = tuple({file: None for place in task.places for file in place.files})
    sources = dict(task.sources)
    lacking = node.missing(number, 1, files)
    for file in lacking:
        assert node.put(number, 1, file, 0, Path(sources[file]).read_bytes())
    return len(lacking)


def run(node: NodeWorker, number: int, task: PackedTask, lane: str = "own") -> NodeAnswer:
    return node.run(number, 1, lane, task.data, task.places, SECONDS)


def test_a_task_reads_and_writes_on_the_node(node: NodeWorker, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "job").mkdir(parents=True)
    (home / "job" / "x").write_bytes(b"job")
    (home / "in").write_bytes(b"state")
    task = pack(tasks.copy, [tasks.Copy(home / "in", home / "job", (home / "one", home / "two"))])
    assert send(node, 7, task) == 2
    done = run(node, 7, task)
    assert read_answer(done.answer) == (True, ("x", sha256(b"state").digest()))
    assert done.outputs == (
        FileRef(sha256(b"state").digest(), 5),
        FileRef(sha256(b"statestate").digest(), 10),
    )
    assert node.take(7, 1, 3, 0) == b"statestate"
    assert node.take(7, 1, 3, 5) == b"state"
    node.drop(7, 1)
    with pytest.raises(FileNotFoundError):
        node.take(7, 1, 3, 0)
    assert send(node, 8, task) == 0
    assert run(node, 8, task).answer == done.answer


def test_what_a_task_wrote_stays_for_the_next_one(node: NodeWorker, tmp_path: Path) -> None:
    """The next segment of a share begins with what this one wrote, and no process can change it meanwhile."""
    (tmp_path / "in").write_bytes(b"state")
    (tmp_path / "job").mkdir()
    task = pack(tasks.copy, [tasks.Copy(tmp_path / "in", tmp_path / "job", (tmp_path / "one", tmp_path / "two"))])
    send(node, 1, task)
    _, two = run(node, 1, task).outputs
    assert two is not None
    assert list((tmp_path / f"assay-node-{os.getuid()}" / "n1-0" / "scratch").iterdir()) == []
    assert node.missing(2, 1, [two]) == (two,)
    node.drop(1, 1)
    assert node.missing(3, 1, [two]) == ()


def test_a_process_reads_jobs_that_come_after_others_were_deleted(node: NodeWorker, tmp_path: Path) -> None:
    """Its sandbox began when the first job was there."""
    (tmp_path / "in").write_bytes(b"state")
    for number, content in enumerate((b"first", b"second")):
        job = tmp_path / str(number)
        job.mkdir()
        (job / content.decode()).write_bytes(content)
        task = pack(tasks.copy, [tasks.Copy(tmp_path / "in", job, (tmp_path / "one", tmp_path / "two"))])
        send(node, number, task)
        names = read_answer(run(node, number, task).answer)[1][0]
        assert names == content.decode()
        node.drop(number, 1)
        node._make_room(10_000)
        assert list((tmp_path / f"assay-node-{os.getuid()}" / "n1-0" / "jobs").iterdir()) == []


def test_what_does_not_fit_the_quota_is_not_kept(node: NodeWorker, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"x" * 600)
    (tmp_path / "job").mkdir()
    task = pack(tasks.copy, [tasks.Copy(tmp_path / "in", tmp_path / "job", (tmp_path / "one", tmp_path / "two"))])
    send(node, 1, task)
    _, two = run(node, 1, task).outputs
    assert two is not None
    assert two.size == 1_200
    node.drop(1, 1)
    assert node.missing(2, 1, [two]) == (two,)


def test_a_full_disk_is_an_error_of_the_machine(node: NodeWorker) -> None:
    done = run(node, 1, pack(tasks.fill, [errno.ENOSPC]))
    assert (done.answer, done.error, done.text) == (b"", "NoSpace", os.strerror(errno.ENOSPC))
    assert read_answer(run(node, 2, pack(tasks.fill, [errno.EACCES])).answer)[0] is False


def test_wrong_bytes_are_not_kept(node: NodeWorker) -> None:
    file = FileRef(sha256(b"right").digest(), 5)
    assert node.missing(1, 1, [file]) == (file,)
    assert node.put(1, 1, file, 0, b"wr")
    assert not node.put(1, 1, file, 2, b"ong")
    assert node.missing(1, 1, [file]) == (file,)
    assert node.put(1, 1, file, 0, b"rig")
    assert node.put(1, 1, file, 3, b"ht")
    assert node.missing(1, 1, [file]) == ()


def test_what_was_not_used_for_long_goes_first_and_what_is_in_use_stays(node: NodeWorker) -> None:
    files = [FileRef(sha256(bytes([n]) * 400).digest(), 400) for n in range(3)]
    for n, file in enumerate(files):
        node.missing(n, 1, [file])
        if n == 1:
            node.drop(0, 1)
        assert node.put(n, 1, file, 0, bytes([n]) * 400)
    assert node.missing(9, 1, files) == (files[0],)


def test_errors_of_the_pool_have_their_names(node: NodeWorker) -> None:
    late = pack(tasks.parent, ())
    done = node.run(1, 1, "own", late.data, late.places, 0.0)
    assert (done.answer, done.error) == (b"", "TaskTimeout")
    assert "deadline" in done.text


def test_a_task_sees_no_token(node: NodeWorker) -> None:
    task = pack(tasks.secrets, ())
    assert read_answer(run(node, 1, task).answer) == (True, ())
    assert not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()


def test_a_link_is_no_result(node: NodeWorker, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("token")
    task = pack(tasks.link, [tmp_path / "out", str(secret)])
    done = run(node, 1, task)
    # The sandbox permits no link, and if it did, the node would not follow it.
    assert read_answer(done.answer)[0] is False
    (tmp_path / f"assay-node-{os.getuid()}" / "n1-0" / "scratch" / "1-1-0").symlink_to(secret)
    assert run(node, 1, pack(tasks.exists, [tmp_path / "out"])).outputs == (None,)
    with pytest.raises(FileNotFoundError):
        node.take(1, 1, 0, 0)


def test_a_file_of_a_folder_cannot_leave_it(node: NodeWorker) -> None:
    from pol.work.cluster.files import FolderPlace

    file = FileRef(sha256(b"x").digest(), 1)
    node.missing(1, 1, [file])
    assert node.put(1, 1, file, 0, b"x")
    with pytest.raises(OSError, match="leaves its folder"):
        node.run(1, 1, "own", b"", [FolderPlace((("../../out", file),))], SECONDS)


def test_lanes_have_pools_of_their_own(node: NodeWorker) -> None:
    task = pack(os.getpid, ())
    first, second = (read_answer(run(node, n, task).answer) for n in (1, 2))
    assert first == second
    first, second = (read_answer(run(node, n, task, "trials").answer) for n in (3, 4))
    assert first != second


def test_a_task_inside_the_worker_gets_its_folders_and_its_address(node: NodeWorker, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"state")
    task = pack(tasks.inside, [tmp_path / "in", tmp_path / "out"])
    send(node, 1, task)
    done = run(node, 1, task, "members")
    assert read_answer(done.answer) == (True, (os.getpid(), "10.0.0.2"))
    assert done.outputs == (FileRef(sha256(b"state").digest(), 5),)
    # What a task keeps, sandboxed processes neither read nor write.
    top = tmp_path / f"assay-node-{os.getuid()}" / "n1-0"
    assert (top / "parts" / "kept").read_bytes() == b"state"
    assert read_answer(run(node, 2, pack(tasks.reads, [str(top / "parts" / "kept")])).answer)[0] is False
    assert read_answer(run(node, 3, pack(tasks.fail, ["no"]), "members").answer)[0] is False


def test_workers_of_one_node_have_folders_of_their_own_and_the_next_one_goes_on(
    node: NodeWorker, tmp_path: Path
) -> None:
    top = tmp_path / f"assay-node-{os.getuid()}"
    lanes = [LaneSpec("own", 1)]
    other = NodeWorker("n1", lanes, 1, ENGINE)
    assert {path.name for path in top.iterdir()} == {"n1-0", "n1-1"}
    file = FileRef(sha256(b"x").digest(), 1)
    other.missing(1, 1, [file])
    assert other.put(1, 1, file, 0, b"x")
    assert node.missing(1, 1, [file]) == (file,)
    other.close()
    again = NodeWorker("n1", lanes, 1, ENGINE)
    assert again.missing(1, 1, [file]) == ()
    again.close()
    old = top / "n0-0"
    old.mkdir()
    (old / "lock").touch()
    os.utime(old / "lock", (0, 0))
    os.utime(top / "n1-0" / "lock", (0, 0))
    last = NodeWorker("n2", lanes, 1, ENGINE)
    assert {path.name for path in top.iterdir()} == {"n1-0", "n1-1", "n2-0"}
    last.close()


def test_all_nodes_of_a_release_say_the_same() -> None:
    assert release() == release()
    assert len(release()) == 16
