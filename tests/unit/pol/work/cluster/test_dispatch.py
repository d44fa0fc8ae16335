"""The distribution of tasks over nodes that are slow, lost, frozen or full, without any cluster."""

import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from threading import Event

import pytest

from pol.work.cluster.dispatch import ATTEMPTS_MAX, Dispatcher, NodeFault, NodeLost, TaskEnd
from pol.work.cluster.files import FileRef, PackedTask, pack
from pol.work.cluster.node import LaneSpec, NodeAnswer
from tests.unit.pol.work.cluster import tasks

WAIT = 20.0
SHARE = pack(tasks.parent, ())


class FakeNode:
    """A node that answers when the test lets it."""

    def __init__(self, name: str, processors: int = 1) -> None:
        self.name, self.processors = name, processors
        self.begun: SimpleQueue[tuple[int, int]] = SimpleQueue()
        self.go = Event()
        self.go.set()
        self.error: Exception | None = None
        self.failure = ""
        self.files: set[FileRef] = set()
        self.sent: list[tuple[FileRef, int, int]] = []
        self.corrupts = False
        self.written: dict[int, bytes] = {}
        self.dropped: list[tuple[int, int]] = []

    def missing(self, _number: int, _attempt: int, files: Sequence[FileRef], _seconds: float) -> tuple[FileRef, ...]:
        return tuple(file for file in files if file not in self.files)

    def put(self, _number: int, _attempt: int, file: FileRef, offset: int, piece: bytes, _seconds: float) -> bool:
        self.sent.append((file, offset, len(piece)))
        if offset + len(piece) >= file.size and not self.corrupts:
            self.files.add(file)
        return not self.corrupts

    def run(
        self, number: int, attempt: int, _lane: str, task: PackedTask, _seconds: float | None, _patience: float
    ) -> NodeAnswer:
        self.begun.put((number, attempt))
        if not self.go.wait(WAIT):
            raise NodeLost("frozen")
        if self.error is not None:
            raise self.error
        outputs = tuple(FileRef(sha256(data).digest(), len(data)) for data in self.written.values())
        return NodeAnswer(number, attempt, f"{self.name} {number}".encode(), self.failure, "", outputs)

    def take(self, _number: int, _attempt: int, index: int, offset: int, _seconds: float) -> bytes:
        return self.written[index][offset : offset + 3]

    def drop(self, number: int, attempt: int) -> None:
        self.dropped.append((number, attempt))


class Setting:
    def __init__(self) -> None:
        self.ends: SimpleQueue[TaskEnd] = SimpleQueue()
        self.began: list[int] = []
        lanes = [LaneSpec("own"), LaneSpec("seats")]
        self.dispatcher = Dispatcher(lanes, 1, self.began.append, self.ends.put, grace=0.2)

    def submit(
        self, number: int, seconds: float | None = WAIT, task: PackedTask = SHARE, lane: str = "own", pinned: str = ""
    ) -> None:
        self.dispatcher.submit(number, lane, f"task {number}", task, seconds, pinned)

    def end(self) -> TaskEnd:
        return self.ends.get(timeout=WAIT)


@pytest.fixture
def setting() -> Setting:
    return Setting()


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_what_has_to_end_first_begins_first(setting: Setting) -> None:
    for number, seconds in ((1, None), (2, WAIT * 2), (3, WAIT)):
        setting.submit(number, seconds)
    setting.dispatcher.join(FakeNode("a"))
    assert [setting.end().number for _ in range(3)] == [3, 2, 1]
    assert setting.began == [3, 2, 1]


def test_lanes_do_not_wait_for_each_other(setting: Setting) -> None:
    node = FakeNode("a")
    node.go.clear()
    setting.dispatcher.join(node)
    setting.submit(1)
    setting.submit(2, lane="seats")
    assert {node.begun.get(timeout=WAIT)[0] for _ in range(2)} == {1, 2}
    assert setting.dispatcher.tasks_at(node) == ("own: task 1", "seats: task 2")
    node.go.set()


def test_the_tasks_of_a_lost_node_run_on_another_one(setting: Setting) -> None:
    lost, other = FakeNode("a"), FakeNode("b")
    lost.go.clear()
    setting.dispatcher.join(lost)
    setting.submit(1)
    lost.begun.get(timeout=WAIT)
    setting.dispatcher.join(other)
    setting.dispatcher.lose(lost)
    assert setting.end() == TaskEnd(1, b"b 1", "", "")
    assert setting.began == [1]


def test_the_answer_of_a_node_that_thaws_is_dropped(setting: Setting) -> None:
    frozen, other = FakeNode("a"), FakeNode("b")
    frozen.go.clear()
    other.go.clear()
    setting.dispatcher.join(frozen)
    setting.submit(1)
    first = frozen.begun.get(timeout=WAIT)
    setting.dispatcher.lose(frozen)
    setting.dispatcher.join(other)
    second = other.begun.get(timeout=WAIT)
    assert first[0] == second[0]
    assert first[1] != second[1]
    frozen.go.set()
    until(lambda: first in frozen.dropped)
    assert setting.ends.empty()
    other.go.set()
    assert setting.end().answer == b"b 1"
    until(lambda: second in other.dropped)
    assert setting.ends.empty()


def test_a_thawed_answer_before_the_next_try_is_dropped_too(setting: Setting) -> None:
    frozen = FakeNode("a")
    frozen.go.clear()
    setting.dispatcher.join(frozen)
    setting.submit(1)
    first = frozen.begun.get(timeout=WAIT)
    setting.dispatcher.lose(frozen)
    frozen.go.set()
    until(lambda: first in frozen.dropped)
    assert setting.ends.empty()
    setting.dispatcher.join(FakeNode("b"))
    assert setting.end().answer == b"b 1"


def test_a_node_that_does_not_answer_in_time_is_lost(setting: Setting) -> None:
    frozen, other = FakeNode("a"), FakeNode("b")
    frozen.error = NodeLost("killed")
    setting.dispatcher.join(frozen)
    setting.submit(1)
    frozen.begun.get(timeout=WAIT)
    setting.dispatcher.join(other)
    assert setting.end().answer == b"b 1"


@pytest.mark.parametrize("where", ["cache", "task"])
def test_a_full_disk_is_no_end_if_another_node_has_room(setting: Setting, where: str) -> None:
    full, other = FakeNode("a"), FakeNode("b")
    full.error = NodeFault("no space left on device") if where == "cache" else None
    full.failure = "NoSpace" if where == "task" else ""
    other.go.clear()
    setting.submit(1)
    setting.dispatcher.join(other)
    other.begun.get(timeout=WAIT)
    setting.submit(2)
    setting.dispatcher.join(full)
    full.begun.get(timeout=WAIT)
    other.go.set()
    assert sorted(setting.end().answer for _ in range(2)) == [b"b 1", b"b 2"]
    assert setting.dispatcher.fault_at("b") == ""
    assert bool(setting.dispatcher.fault_at("a")) is (where == "cache")


@pytest.mark.parametrize("is_running", [False, True])
def test_a_cancelled_task_never_ends(setting: Setting, is_running: bool) -> None:
    node = FakeNode("a")
    node.go.clear()
    setting.submit(1)
    if is_running:
        setting.dispatcher.join(node)
        node.begun.get(timeout=WAIT)
    setting.dispatcher.cancel(1)
    setting.dispatcher.cancel(1)
    node.go.set()
    if not is_running:
        setting.dispatcher.join(node)
    setting.submit(2)
    assert setting.end().answer == b"a 2"
    assert setting.ends.empty()
    assert setting.dispatcher.ended_at("a") == (("task", 1),)


def test_a_task_is_not_tried_for_ever(setting: Setting) -> None:
    node = FakeNode("a")
    node.error = NodeFault("no space left on device")
    setting.dispatcher.join(node)
    setting.submit(1)
    end = setting.end()
    assert end.error == "WorkerDied"
    assert f"{ATTEMPTS_MAX} tries failed" in end.text
    assert "no space left" in end.text
    assert node.begun.qsize() == ATTEMPTS_MAX


@pytest.mark.parametrize("is_running", [False, True])
def test_a_deadline_ends_a_task_wherever_it_is(setting: Setting, is_running: bool) -> None:
    node = FakeNode("a")
    node.go.clear()
    setting.submit(1, 0.05)
    if is_running:
        setting.dispatcher.join(node)
        node.begun.get(timeout=WAIT)
    time.sleep(0.3)
    setting.dispatcher.expire()
    end = setting.end()
    assert (end.error, "running" in end.text) == ("TaskTimeout", is_running)
    node.go.set()
    if is_running:
        until(lambda: bool(node.dropped))
    assert setting.ends.empty()


def test_files_go_in_pieces_and_once(setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pol.work.cluster.dispatch.PIECE_BYTES", 4)
    (tmp_path / "in").write_bytes(b"0123456789")
    (tmp_path / "empty").write_bytes(b"")
    node = FakeNode("a")
    setting.dispatcher.join(node)
    task = pack(tasks.reads, [tmp_path / "in", tmp_path / "empty"])
    for number in (1, 2):
        setting.submit(number, task=task)
        assert not setting.end().error
    assert [(offset, length) for _, offset, length in node.sent] == [(0, 4), (4, 4), (8, 2), (0, 0)]


def test_a_file_that_arrives_damaged_is_a_fault_of_the_node(setting: Setting, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"0123456789")
    node = FakeNode("a")
    node.corrupts = True
    setting.dispatcher.join(node)
    setting.submit(1, task=pack(tasks.reads, [tmp_path / "in"]))
    assert "arrived with another hash" in setting.end().text


def test_results_come_back_whole_or_not_at_all(setting: Setting, tmp_path: Path) -> None:
    node = FakeNode("a")
    node.written = {0: b"0123456789", 1: b""}
    setting.dispatcher.join(node)
    task = pack(tasks.reads, [tmp_path / "one", tmp_path / "two"])
    setting.submit(1, task=task)
    assert setting.end().answer == b"a 1"
    assert (tmp_path / "one").read_bytes() == b"0123456789"
    assert (tmp_path / "two").read_bytes() == b""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_a_result_with_another_hash_is_refused(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = FakeNode("a")
    node.written = {0: b"0123456789"}
    monkeypatch.setattr(node, "take", lambda *_: b"other")
    setting.dispatcher.join(node)
    setting.submit(1, task=pack(tasks.reads, [tmp_path / "one"]))
    assert "arrived with another hash" in setting.end().text
    assert not list(tmp_path.iterdir())


def test_a_task_of_a_node_runs_there_alone(setting: Setting) -> None:
    for name in ("a", "b"):
        setting.dispatcher.join(FakeNode(name))
    for number in range(6):
        setting.submit(number, pinned="b")
        assert setting.end().answer == f"b {number}".encode()


@pytest.mark.parametrize("is_running", [False, True])
def test_a_task_of_a_node_ends_with_it(setting: Setting, is_running: bool) -> None:
    """Its part of a slot is gone with the node, so no other one can go on with it."""
    lost = FakeNode("a")
    lost.go.clear()
    setting.dispatcher.join(lost)
    setting.dispatcher.join(FakeNode("b"))
    setting.submit(1, pinned="a")
    lost.begun.get(timeout=WAIT)
    if not is_running:
        setting.submit(2, pinned="a")
    setting.dispatcher.lose(lost)
    ends = [setting.end() for _ in range(1 if is_running else 2)]
    assert {(end.error, end.text) for end in ends} == {("WorkerDied", "node a is lost")}
    lost.go.set()
    setting.submit(3)
    assert setting.end().answer == b"b 3"
    assert setting.ends.empty()


def test_a_task_of_a_node_that_is_not_there_fails_at_once(setting: Setting) -> None:
    setting.dispatcher.join(FakeNode("b"))
    setting.submit(1, pinned="a")
    assert (setting.end().error, setting.ends.empty()) == ("WorkerDied", True)


def test_a_task_of_a_node_has_one_try(setting: Setting) -> None:
    node = FakeNode("a")
    node.error = NodeFault("no space left on device")
    setting.dispatcher.join(node)
    setting.submit(1, pinned="a")
    assert setting.end().text == "node a is lost: no space left on device"
    assert node.begun.qsize() == 1
